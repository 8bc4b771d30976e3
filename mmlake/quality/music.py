"""How much of a sound is music, with or without somebody speaking over it.

Enters: the mono 16 kHz track of a recording or film. Leaves: `music_fraction`, the share of its seconds with music.

Method: continuous frequency activation (Seyerlehner, Pohle, Schedl, Widmer 2007, made for television): notes hold their
frequencies for a while, so that music has level lines in its spectrogram; voices glide, and noise has no lines. Lines
that never end are hum, fans and whistles. Drums alone have no lines either, and count as no music; sirens, bells and
birds that hold a tone do. docs/quality.md has how often it is right.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.signal_kernels import prominences

# T frames, F frequencies, S seconds
_RATE_HZ = 16_000
_WINDOW, _HOP = 2_048, 512  # samples: 128 ms, 8 Hz apart; 32 ms
_BLOCK_FRAMES = 81  # 2.6 s around the middle of each second
_CHUNK_S = 60  # seconds whose spectra are held at once: 16 MB
_BINS = slice(6, 800)  # 47 Hz to 6.2 kHz
_NEIGHBOURS, _STANDS_OUT_DB = 21, 6.0  # frequencies around, above whose mean level a line is
_FLOOR = 1e-4  # of a magnitude: the last bit of 16
# What FFmpeg's encoder of MPEG layer II rounds down, in whole numbers, is a constant in every subband: a tone where
# its frequencies begin or end that is folded to zero, at multiples of a 32nd of the rate (ISO 11172-3). It has -88 dBFS
# or less at 16 to 48 kHz, whether speech is 26 dB softer or 12 dB louder. Copies in other formats keep the tones, so
# that the codec is not asked for.
_CODED_RATES_HZ = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_NUM_SUBBANDS = 32
_OFFSET = 2**-14  # amplitude of full scale, -84 dBFS: the last two bits of 16
_LOBE = 2  # bins on either side that a tone fills under a Hann window
_NUM_LINES = 5  # the clearest of a second
_HUM_S, _ACTIVE = 8, 0.5  # seconds of one unbroken line; share of a block that it sounds in: voices cover the rest
_BOUND = 2.4  # of the sum over lines, 0 to 5; speech has 2.1 in three of four seconds, music 3.2 (docs/quality.md)
_SMOOTH_S = 5  # the median of so many seconds decides
MUSIC_MEASURES = ("music_fraction",)


def music_fraction(samples: np.ndarray) -> float | None:
    """Share of the whole seconds in which there is music, 0 to 1; None below three seconds.

    samples: float32 mono, 16 kHz.
    """
    from scipy.ndimage import median_filter

    num_seconds = len(samples) // _RATE_HZ
    if num_seconds < 3:
        return None
    chunks = [_activations(samples, first, min(num_seconds, first + _CHUNK_S)) for first in
              range(0, num_seconds, _CHUNK_S)]  # fmt: skip
    lines_S = np.array([_clearest(activation_F) for activation_F in _without_hum(np.concatenate(chunks))])
    return float((median_filter(lines_S, min(_SMOOTH_S, num_seconds), mode="nearest") > _BOUND).mean())


def _activations(samples: np.ndarray, first: int, end: int) -> np.ndarray:
    """In which share of the block around each second a frequency stands out, S x F."""
    from scipy.fft import rfft
    from scipy.ndimage import uniform_filter1d

    middles = [round((second + 0.5) * _RATE_HZ / _HOP) for second in range(first, end)]
    low = max(0, middles[0] - _BLOCK_FRAMES // 2)
    high = min(len(samples) // _HOP + 1, middles[-1] + _BLOCK_FRAMES // 2 + 1)
    margin = _WINDOW // 2
    sound = samples[max(0, low * _HOP - margin) : (high - 1) * _HOP + margin]
    before = max(0, margin - low * _HOP)
    padded = np.pad(sound, (before, max(0, (high - 1 - low) * _HOP + _WINDOW - before - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP][: high - low]
    spectrum_TF = np.abs(rfft(frames * np.hanning(_WINDOW).astype(np.float32), axis=1))
    level_TF = 20 * np.log10(spectrum_TF + np.float32(_FLOOR))
    stands_TF = level_TF - uniform_filter1d(level_TF, _NEIGHBOURS, axis=1, mode="nearest") > _STANDS_OUT_DB
    offsets = _offset_bins()
    stands_TF[:, offsets] &= spectrum_TF[:, offsets] > _OFFSET * _WINDOW / 4  # what a sine of that amplitude has
    sums_TF = np.concatenate([np.zeros((1, stands_TF.shape[1]), np.int32), stands_TF.cumsum(axis=0, dtype=np.int32)])
    found = []
    for middle in middles:
        start, stop = max(low, middle - _BLOCK_FRAMES // 2) - low, min(high, middle + _BLOCK_FRAMES // 2 + 1) - low
        found.append((sums_TF[stop] - sums_TF[start])[_BINS] / (stop - start))
    return np.array(found)


@cache
def _offset_bins() -> np.ndarray:
    """The bins around all frequencies at which the offsets of subbands lie."""
    step_hz = _RATE_HZ / _WINDOW
    tones_hz = [rate_hz / _NUM_SUBBANDS * number for rate_hz in _CODED_RATES_HZ for number in range(1, _NUM_SUBBANDS)]
    bins = {round(tone_hz / step_hz) + offset for tone_hz in tones_hz for offset in range(-_LOBE, _LOBE + 1)}
    return np.array(sorted(number for number in bins if number <= _WINDOW // 2))


def _without_hum(activation_SF: np.ndarray) -> np.ndarray:
    """The activations without the lines of one frequency that sound unbroken for too long to be notes. Each is cut off
    at the higher of the valleys around it: lower, what lies next to it would stand out more than it does."""
    left_SF = activation_SF.copy()
    falls_SF = np.diff(activation_SF, axis=1) <= 0  # from each frequency to the next
    is_active = np.pad(activation_SF > _ACTIVE, ((1, 1), (0, 0))).astype(np.int8)
    for frequency in np.flatnonzero(is_active.sum(axis=0) >= _HUM_S):
        for start, end in np.flatnonzero(np.diff(is_active[:, frequency])).reshape(-1, 2):
            for second in range(start, end if end - start >= _HUM_S else start):
                below, above = falls_SF[second, :frequency][::-1], ~falls_SF[second, frequency:]
                low = max(0, frequency - max(1, int(below.argmax()) if below.any() else frequency))
                high = frequency + max(1, int(above.argmax()) if above.any() else len(above))
                line_F = left_SF[second, low : high + 1]
                np.minimum(line_F, max(line_F[0], line_F[-1]), out=line_F)
    return left_SF


def _clearest(activation_F: np.ndarray) -> float:
    """The sum of how far the clearest lines stand out, 0 to 5."""
    return float(np.sort(prominences(activation_F))[::-1][:_NUM_LINES].sum())


def music_measures(subject: Subject) -> Measures:
    """The measure of one unit; null where it has no sound, or less than three seconds."""
    return {"music_fraction": None if subject.sound is None else music_fraction(subject.sound.samples()[0])}


MUSIC_MEASUREMENT = Measurement(
    name="continuous-frequency-activation",
    modalities=("audio", "video"),
    measures=MUSIC_MEASURES,
    columns=(),
    take=music_measures,
    needs_sound=True,
    revision="3",
)
