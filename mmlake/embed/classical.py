"""Classical descriptors of pictures, clips and sounds: what can honestly be said without trained weights.

They describe colours, edges, motion and timbre, not meaning: two beaches are alike because both are blue over yellow.
Every block is centred by a constant (typical values of photographs and speech, measured once), never by a corpus, so
that unrelated items lie near cosine 0 and vectors never go stale.
Sources: colour layout (MPEG-7), gradient orientation energies on a grid (Oliva and Torralba 2001; Dalal and Triggs
2005), power normalization (Perronnin 2010), mel statistics and modulation energies (Tzanetakis and Cook 2002).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mmlake.embed.media import RATE_HZ, Media, upright_rgb
from mmlake.embed.settings import EmbedSettings

PICTURE_DIMENSION, CLIP_DIMENSION, SOUND_DIMENSION = 376, 400, 168
_SIDE, _GRID, _ORIENTATIONS = 128, 4, 8
_MELS, _WINDOW, _HOP = 40, 512, 160  # 32 ms windows every 10 ms
_FLOOR_DB = -60.0  # below the loudest band: silence between words must not set the mean
_TYPICAL_EDGE = 0.083  # mean over cells and orientations of 140 photographs; the uniform value would be .088
_TYPICAL_COLOURS = np.array(  # of the same photographs: pale hues, strong hues, greys
    [
        0.18,
        0.07,
        0.08,
        0.11,
        0.02,
        0.03,
        0.21,
        0.35,
        0.11,
        0.03,
        0.03,
        0.02,
        0.0,
        0.0,
        0.1,
        0.18,
        0.22,
        0.23,
        0.21,
        0.21,
        0.18,
        0.14,
        0.11,
        0.09,
    ]
)
# of 132 speech recordings: the syllable rate stands out
_TYPICAL_MODULATION = np.array([0.25, 0.31, 0.54, 0.44, 0.34, 0.27, 0.21, 0.18])
_MODULATION_HZ = np.geomspace(0.8, 24.0, 9)  # syllables come 4 times a second


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector at length 1; zeros stay zeros."""
    length = float(np.linalg.norm(vector))
    return vector / length if length > 1e-12 else vector


def picture(data: bytes) -> np.ndarray:
    """376 numbers of unit norm: colour layout (96), colour histogram (24), gradient orientations at two scales
    (256)."""
    # 4: box filter
    pixels_HWC = np.asarray(upright_rgb(data, draft_px=256).resize((_SIDE, _SIDE), 4), dtype=np.float64) / 255
    luma = pixels_HWC @ (0.299, 0.587, 0.114)
    blue, red = (pixels_HWC[:, :, 2] - luma) * 0.564, (pixels_HWC[:, :, 0] - luma) * 0.713
    layout = np.concatenate(
        [_layout(luma - luma.mean(), 0.0, 0.13), 2 * _layout(blue, -0.04, 0.03), 2 * _layout(red, 0.01, 0.02)]
    )
    edges = np.concatenate(
        [_orientations(luma), _orientations(luma.reshape(_SIDE // 4, 4, _SIDE // 4, 4).mean(axis=(1, 3)))]
    )
    return unit(np.concatenate([unit(layout), _histogram(luma, blue, red), 2 * edges]))


def _layout(plane: np.ndarray, typical_mean: float, typical_std: float) -> np.ndarray:
    """Mean and deviation of each cell of a 4x4 grid, less what photographs have there."""
    cells = plane.reshape(_GRID, _SIDE // _GRID, _GRID, _SIDE // _GRID)
    return np.concatenate(
        [cells.mean(axis=(1, 3)).ravel() - typical_mean, cells.std(axis=(1, 3)).ravel() - typical_std]
    )


def _histogram(luma: np.ndarray, blue: np.ndarray, red: np.ndarray) -> np.ndarray:
    """Eight hues at two saturations, and eight greys: square-rooted shares less the typical ones."""
    saturation = np.hypot(blue, red)
    hue = ((np.arctan2(red, blue) + np.pi) / (2 * np.pi) * 8).astype(int).clip(0, 7)
    kind = np.where(saturation < 0.04, 16 + (luma * 8).astype(int).clip(0, 7), hue + 8 * (saturation >= 0.12))
    shares = np.bincount(kind.ravel(), minlength=24) / kind.size
    colours: np.ndarray = np.sqrt(shares) - _TYPICAL_COLOURS
    return colours


def _orientations(plane: np.ndarray) -> np.ndarray:
    """Edge energy per cell and orientation, split softly between neighbouring orientations, square-rooted, less the
    typical value."""
    down, right = np.gradient(plane)
    strength = np.hypot(down, right)
    angle = np.arctan2(down, right)
    angle[angle < 0] += np.pi  # a remainder, which numpy takes ten times as long for; half a turn is none
    position = angle / np.pi * _ORIENTATIONS
    whole = position.astype(int)
    low, part = whole % _ORIENTATIONS, position - whole
    first, count = _first_bins(len(plane)), _GRID * _GRID * _ORIENTATIONS
    energy = np.bincount((first + low).ravel(), (strength * (1 - part)).ravel(), count)
    energy += np.bincount((first + (low + 1) % _ORIENTATIONS).ravel(), (strength * part).ravel(), count)
    root = np.sqrt(energy)
    return unit(root) - _TYPICAL_EDGE if root.any() else np.zeros(count)


@functools.lru_cache(maxsize=2)  # one for each scale
def _first_bins(side: int) -> np.ndarray:
    """Of each pixel the first of its cell's bins."""
    cell = np.arange(side) // (side // _GRID)
    bins: np.ndarray = (cell[:, None] * _GRID + cell) * _ORIENTATIONS
    return bins


def clip(pictures: Sequence[bytes], signals: np.ndarray) -> np.ndarray:
    """400 numbers of unit norm: the mean picture of the keyframes, and 24 of how luma and change run over time."""
    mean = np.mean([picture(data) for data in pictures], axis=0)
    return unit(np.concatenate([unit(mean), 0.7 * motion(signals)]))


def motion(signals: np.ndarray) -> np.ndarray:
    """24 numbers of at most unit norm; zeros where no frames were analysed. signals: columns luma, luma_std, change."""
    if len(signals) < 2:
        return np.zeros(24)
    luma, contrast, change = (
        signals[:, 0].astype(np.float64),
        signals[:, 1].astype(np.float64),
        signals[1:, 2].astype(np.float64),
    )
    shares = np.histogram(np.log2(1 + change), bins=np.linspace(0, 6, 13))[0] / len(change)
    slots = np.array_split(np.arange(len(change)), 8)
    course = np.array([np.log2(1 + change[slot]).mean() if len(slot) else 0.0 for slot in slots])
    levels = np.array(
        [luma.mean() / 128 - 1, luma.std() / 32 - 0.5, contrast.mean() / 48 - 1, contrast.std() / 16 - 0.5]
    )
    return unit(np.concatenate([np.sqrt(shares) - 1 / np.sqrt(12), unit(course - course.mean()) * 0.5, levels * 0.5]))


def sound(samples: np.ndarray) -> np.ndarray:
    """168 numbers of unit norm: mean, deviation and movement of 40 log-mel bands, and 48 modulation energies.
    Loudness plays no part."""
    power = _mel_power(samples)
    decibels = 10 * np.log10(np.maximum(power, power.max() * 10 ** (_FLOOR_DB / 10)) + 1e-12)
    loud = np.flatnonzero(decibels.max(axis=1) > decibels.max() - 40)
    decibels, audible = decibels[loud[0] : loud[-1] + 1], decibels[loud]  # silence around a word is no part of it
    mean = audible.mean(axis=0)
    # a fall of 18 dB over the bands is common to speech and most music
    shape = mean - mean.mean() - np.linspace(9, -9, _MELS)
    steps = np.diff(decibels, axis=0).std(axis=0) if len(decibels) > 1 else np.zeros(_MELS)
    return unit(
        np.concatenate([shape / 10, (audible.std(axis=0) - 10.5) / 6, (steps - 4) / 3, 1.5 * _modulation(decibels)])
    )


def _modulation(decibels: np.ndarray) -> np.ndarray:
    """Shares of the envelope's energy in 8 bands from .8 to 24 Hz, for 6 groups of mel bands: square-rooted, less
    the typical share."""
    groups = np.stack([part.mean(axis=1) for part in np.array_split(decibels, 6, axis=1)], axis=1)
    length = max(256, len(groups))
    spectrum = np.abs(np.fft.rfft(groups - groups.mean(axis=0), n=length, axis=0)) ** 2
    rates = np.fft.rfftfreq(length, _HOP / RATE_HZ)
    bands = np.stack(
        [
            spectrum[(rates >= low) & (rates < high)].sum(axis=0)
            for low, high in zip(_MODULATION_HZ[:-1], _MODULATION_HZ[1:], strict=True)
        ]
    )
    total = bands.sum(axis=0)
    shares = np.divide(
        bands, total, out=np.broadcast_to(_TYPICAL_MODULATION[:, None] ** 2, bands.shape).copy(), where=total > 1e-9
    )
    modulation: np.ndarray = (np.sqrt(shares) - _TYPICAL_MODULATION[:, None]).T.ravel()
    return modulation


def _mel_power(samples: np.ndarray) -> np.ndarray:
    """Mel band energies, (frames, 40)."""
    padded = np.pad(np.nan_to_num(samples.astype(np.float32)), (_WINDOW // 2, _WINDOW // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    window = np.hanning(_WINDOW).astype(np.float32)
    return np.concatenate(
        [
            np.abs(np.fft.rfft(frames[at : at + 8_192] * window)) ** 2 @ _mel_filters()
            for at in range(0, len(frames), 8_192)
        ]
    )


@functools.lru_cache(maxsize=1)
def _mel_filters() -> np.ndarray:
    """Triangles on the mel scale from 60 Hz to 3.8 kHz, (bins, 40): what telephone speech has too, so that bandwidth
    does not decide."""
    mels = np.linspace(2595 * np.log10(1 + 60 / 700), 2595 * np.log10(1 + 3_800 / 700), _MELS + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    hertz = np.fft.rfftfreq(_WINDOW, 1 / RATE_HZ)[:, None]
    rising, falling = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


@dataclass(frozen=True, slots=True)
class Classical:
    """A descriptor without weights: all the work is done in `decode`."""

    decode: Callable[[Media], np.ndarray]
    reads: str
    revision: str = "1"  # counted up when a constant or a block of the descriptor changes
    unit: str = "items"

    def prepare(self, decoded: np.ndarray) -> np.ndarray:
        return decoded

    def cost(self, prepared: np.ndarray) -> int:
        return 1

    def infer(self, batch: list[np.ndarray]) -> list[np.ndarray]:
        return batch


def _of_picture(media: Media) -> np.ndarray:
    return picture(media.pictures()[0])


def _of_clip(media: Media) -> np.ndarray:
    return clip(media.pictures(), media.signals)


def _of_sound(media: Media) -> np.ndarray:
    return sound(media.samples())


def colour_gradient(settings: EmbedSettings, device: str) -> Classical:
    """Colour layout, colour histogram and gradient orientations of a picture."""
    return Classical(_of_picture, "pictures")


def frame_motion(settings: EmbedSettings, device: str) -> Classical:
    """The mean picture descriptor of the keyframes, and motion statistics."""
    return Classical(_of_clip, "pictures")


def mel_statistics(settings: EmbedSettings, device: str) -> Classical:
    """Statistics of log-mel bands and their modulation."""
    return Classical(_of_sound, "sound")
