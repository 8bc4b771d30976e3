"""How much of the original a copy still has: numbers that decide which of several copies of a picture stays.

Enters: a decoded picture. Leaves: measures; no rule judges them.
Legend: H height, W width.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmlake.media.picture_borders import cut, framed
from mmlake.quality.resampling import profiles, resampled_at

MOST_QUALITY = 99.0  # of a lossy file, one that says none included: less than what lost nothing
FIDELITY_MEASURES = (
    "detail_px",
    "real_px",
    "framed_fraction",
    "resampled_at",
    "sharp_fraction",
    "codec_quality",
    "noise_floor",
    "is_coloured",
    "chroma_levels",
    "is_converted",
    "bits_per_channel",
)
_ROWS = 96  # of blocks whose steps are read
_TILE_PX, _TILES = 160, (0.33, 0.67)  # whose spectrum is taken, and where their middles are
_BANDS = 20  # of the spectrum, up to one cycle in two pixels
_BASE = slice(2, 4)  # bands that every picture fills
_FALL = 0.05  # of the power that a natural picture has at a frequency: 1/f^2 from the base on (Field 1987)
# the same of what is really there: enlarged pictures reach up to .05 with what an interpolation leaves. Of foliage and
# noise most power stands high up, and a part of it counts as the base
_REAL_FALL, _OF_PEAK = 0.2, 0.1
_REAL_POWER = 1.5  # so that an enlarged copy has no more of it than its original, and a shrunk one less
_CODEC_POWER = 1.0  # squared grey levels that a codec at quality 92 adds at every frequency
_PLAIN_QUALITY = 100.0
_COLOUR_LEVELS = 1.5  # mean distance of chroma from grey; a grey JPEG rounds to less
_BLOCK_PX = 16  # of which the quietest tenth gives the noise floor
_STEPS = np.arange(3.0, 80.0)  # of quantization that are searched in one mode
_BIN, _MOST_LEVEL = 0.25, 400  # of DCT values: width of a bin, largest value
# the DCT values whose steps are searched, with those of the standard table at quality 50 (ISO/IEC 10918-1, K.1)
_MODES = {(0, 1): 11, (1, 0): 12, (1, 1): 12, (0, 2): 10, (2, 0): 14, (1, 2): 14, (2, 1): 13, (2, 2): 16}
_LEAST_STEP = 2  # of the standard table that is seen
_FEW_MODES = 5  # of them, each of whose steps is searched by itself, for tables that are not the standard's
_QUALITIES = np.arange(10, 95)  # of the standard table that are searched; steps of 2 end there
_LEVELS, _LEAST_COUNT = 20, 40  # quantized values whose counts are compared, and the smallest counts that say something
_TWICE = 0.6  # roughness of what was compressed twice
_TWICE_QUALITY = 65.0  # what that counts at most
_LEAST_VALUES = 60  # DCT values of a mode that are not zero; fewer say nothing
_ENOUGH_VALUES = 400  # more of one mode count no more
_PERIODIC = 0.5  # mean cosine over the values; unquantized ones give less than .2
# the same over the modes at the steps of one standard table, and of the lowest quarter of them: photographs that were
# never compressed reach .13
_TOGETHER, _EACH, _LEAST_MODES = 0.2, 0.12, 5
# the same of coarser steps under those of a last compression from that quality on; the last ones alone give .43
_UNDER_OTHERS, _FINE = 0.45, 50
_OFF_GRID = np.s_[3:, 5:]  # where blocks begin that no codec made


Plane = NDArray[np.uint8] | NDArray[np.float32]  # levels 0..255: whole ones as bytes, of deep pictures in between


@dataclass(frozen=True, slots=True)
class Decoded:
    """One picture as its file says it, decoded."""

    luma_HW: Plane
    stored_px: int  # longer side in the file; the plane may be smaller
    chroma: float  # mean distance of its colours from grey, in levels
    mode: str  # of the file, as Pillow names it
    table: tuple[int, ...] | None  # quantization of luma, of a JPEG
    stated_quality: float | None  # of a lossy file that is no JPEG: 0..100, as its encoder counts
    is_converted: bool = False  # its file has the colours of another space than sRGB


def fidelity(decoded: Decoded) -> dict[str, float | None]:
    """The measures of a picture."""
    luma_HW = decoded.luma_HW
    scale = max(1.0, decoded.stored_px / max(luma_HW.shape))
    noise = noise_floor(luma_HW)
    inner_HW = cut(luma_HW, framed(luma_HW))  # a border makes a picture larger, and no finer
    sharp, real = held_fractions(inner_HW)
    side_px = float(np.sqrt(inner_HW.size)) * scale
    return {
        "detail_px": side_px * sharp,
        "real_px": side_px * real**_REAL_POWER,
        "framed_fraction": 1 - inner_HW.size / luma_HW.size,
        "resampled_at": resampled_at([profiles(luma_HW)], scale=scale),
        "sharp_fraction": sharp,
        "codec_quality": codec_quality(decoded, is_full=scale == 1.0),
        "noise_floor": noise,
        "is_coloured": float(decoded.chroma >= _COLOUR_LEVELS),
        "chroma_levels": decoded.chroma,
        "is_converted": float(decoded.is_converted),
        "bits_per_channel": _bits(decoded.mode),
    }


def _bits(mode: str) -> float:
    if mode.startswith(("I", "F")):
        return 16.0
    if mode == "1":
        return 1.0
    return 5.0 if mode in ("P", "PA") else 8.0  # a palette of 256 colours: some 5 bits a channel


def sharp_fraction(luma_HW: Plane) -> float:
    """How far up the spectrum there is detail: 1.0 up to the last pixel, .5 in a picture that was enlarged twofold,
    less in one that is blurred. Noise counts as detail: the noise of a camera is what a copy loses first."""
    return held_fractions(luma_HW)[0]


def held_fractions(luma_HW: Plane) -> tuple[float, float]:
    """(the same, how far up there is as much as no interpolation leaves)."""
    height, width = luma_HW.shape
    tiles = []
    for row in _TILES:
        for column in _TILES:
            top, left = (max(0, int(side * at) - _TILE_PX // 2) for side, at in ((height, row), (width, column)))
            tile = luma_HW[top : top + _TILE_PX, left : left + _TILE_PX].astype(np.float32, copy=False)
            if min(tile.shape) >= 2 * _BANDS and tile.std() >= 1:
                tiles.append(tile)
    shapes = dict.fromkeys(tile.shape for tile in tiles)  # one, but in small pictures
    found = [held for shape in shapes for held in _held([tile for tile in tiles if tile.shape == shape])]
    if not found:
        return 1.0, 1.0
    # the middle ones: a mark or a caption is sharp whatever it stands on. A smooth sky next to something says nothing
    # of sharpness; where all is smooth, the picture is
    sharp = [share for share, _, is_smooth in found if not is_smooth] or [share for share, _, _ in found]
    return _middle(sharp), _middle([share for _, share, _ in found])


def _middle(shares: list[float]) -> float:
    ranked = sorted(shares)[(len(shares) - 1) // 2 : len(shares) // 2 + 1]
    return float(sum(ranked) / len(ranked))


@functools.lru_cache(maxsize=4)  # nearly all tiles are of one size
def _bands(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.int64], list[slice]]:
    """(Hann window of power 1, places of a half spectrum by band, where each band lies in them)."""
    window = np.hanning(height)[:, None] * np.hanning(width)[None]
    down, across = np.abs(np.fft.fftfreq(height)) * 2, np.fft.rfftfreq(width) * 2
    band = np.minimum((np.maximum(down[:, None], across[None]) * _BANDS).astype(np.int64), _BANDS - 1).ravel()
    ends = np.searchsorted(np.sort(band), np.arange(_BANDS + 1)).tolist()
    parts = [slice(first, last) for first, last in itertools.pairwise(ends)]
    return (window / np.sqrt((window**2).sum())).astype(np.float32), np.argsort(band, kind="stable"), parts


def _medians(values_NM: NDArray[np.floating]) -> NDArray[np.floating]:
    """np.median(axis=1) by sorting, which takes a tenth of its time for some hundred values (a partition a fifth)."""
    low, middle = (values_NM.shape[1] - 1) // 2, values_NM.shape[1] // 2
    medians: NDArray[np.floating] = np.sort(values_NM, axis=1)[:, low : middle + 1].mean(axis=1)
    return medians


def _held(planes: list[NDArray[np.float32]]) -> list[tuple[float, float, bool]]:
    """(both fractions, whether there is nothing where every picture has something) of each; planes of one shape."""
    window, places, parts = _bands(*planes[0].shape)
    spectra = np.fft.rfft2(np.stack([plane - plane.mean() for plane in planes]) * window)
    spectra = spectra.reshape(len(planes), -1)[:, places]
    power = spectra.real**2 + spectra.imag**2
    # of a band the median: lines along the axes come from the window's sides, not from detail
    powers = np.maximum(np.stack([_medians(power[:, part]) for part in parts], axis=1) - _CODEC_POWER, 0)
    centres = (np.arange(_BANDS) + 0.5) / _BANDS
    found = []
    for weighted in powers * centres**2:
        natural = float(weighted[_BASE].mean())
        base = max(natural, _OF_PEAK * float(weighted.max()))
        found.append((_reach(weighted, _FALL * natural), _reach(weighted, _REAL_FALL * base), natural == 0))
    return found


def _reach(weighted: NDArray[np.floating], least: float) -> float:
    """Bands up to the last that holds so much; of those behind it a share, so that noise in one band is no step."""
    shares = np.maximum.accumulate((weighted / least if least > 0 else weighted > 0)[::-1].astype(np.float64))
    return float(np.minimum(shares, 1).mean())


def codec_quality(decoded: Decoded, *, is_full: bool) -> float:
    """JPEG quality 1..100 of the worst compression that shows: by the tables of a JPEG, and by steps of quantization
    in the plane where it was decoded in full. 100 where nothing was lost. What shows two compressions stands below the
    first of them."""
    quality = _PLAIN_QUALITY
    if decoded.table:
        quality = min(MOST_QUALITY, _table_quality(np.array(decoded.table, dtype=np.float64)))
    elif decoded.stated_quality is not None:
        quality = min(MOST_QUALITY, decoded.stated_quality)
    if not is_full or min(decoded.luma_HW.shape) < 64:
        return quality
    values = _block_values(decoded.luma_HW)
    seen = _seen_quality(values)
    # drawings have steps too, wherever blocks begin; a codec's are seen where its blocks do
    if seen + 5 < quality and _seen_quality(_block_values(decoded.luma_HW[_OFF_GRID])) > seen + 5:
        quality = seen - 3
    if decoded.table and _roughness(values, np.array(decoded.table).reshape(8, 8)) > _TWICE:
        quality = min(quality, _TWICE_QUALITY)
    return quality


def _table_quality(table: NDArray[np.float64]) -> float:
    """The quality that scales the standard luma table to this one, by their sums (the sum does not depend on order)."""
    return _quality_of(100 * float(table.sum()) / 3_690)


def _block_values(luma_HW: Plane) -> NDArray[np.float32]:
    """The nine lowest DCT values of blocks as JPEG cuts them, of shape (3, 3, blocks down, blocks across)."""
    height, width = (side // 8 * 8 for side in luma_HW.shape)
    rows = luma_HW[:height, :width].reshape(height // 8, 8, width)[:: max(1, height // 8 // _ROWS)]
    cosines = np.cos(np.pi * (2 * np.arange(8) + 1) * np.arange(3)[:, None] / 16) * np.array([[0.5**1.5], [0.5], [0.5]])
    waves = cosines.astype(np.float32)
    down = waves @ rows.astype(np.float32, copy=False)  # blocks down, 3, W
    across = down.reshape(-1, 8) @ waves.T
    values: NDArray[np.float32] = across.reshape(len(rows), 3, width // 8, 3).transpose(1, 3, 0, 2)
    return values


def _seen_quality(values: NDArray[np.float32]) -> float:
    """The quality that the steps between DCT values say; 100 where there are none. Steps of the standard table show
    together what none of them shows alone, such as behind a second codec; others are searched one by one."""
    steps, cosines, firsts, tables = _waves()
    most = int(_MOST_LEVEL / _BIN)
    bins = _of_modes(values)
    bins *= np.float32(1 / _BIN)  # a power of two: as exact as a division
    histograms = _counts(bins, most).astype(np.float32)
    held = np.cumsum(histograms[:, ::-1], axis=1)[:, ::-1][:, firsts]  # modes, steps
    periodic = np.where(held >= _LEAST_VALUES, histograms @ cosines.T / np.maximum(held, 1), np.nan)
    found = []
    for (_, standard), scores in zip(_MODES.items(), periodic[:_FEW_MODES, : len(_STEPS)], strict=False):
        scores = np.nan_to_num(scores)
        # a multiple of the step fits the few values in the tail half as well
        kept = np.flatnonzero(scores >= max(_PERIODIC, 0.75 * scores.max()))
        if len(kept):
            found.append(_quality_of(100 * float(steps[kept[-1]]) / standard))
    alone = float(np.median(found)) if len(found) >= 3 else _PLAIN_QUALITY
    return min(alone, _standard_quality(periodic, held, tables))


def _of_modes(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """How large the DCT values of each mode are, of shape (modes, blocks)."""
    chosen = np.stack([values[mode] for mode in _MODES]).reshape(len(_MODES), -1)
    magnitudes: NDArray[np.float32] = np.abs(chosen, out=chosen)
    return magnitudes


def _counts(values_MN: NDArray[np.floating], most: int) -> NDArray[np.int64]:
    """How many values of each row, none below zero, have each whole part below `most`, of shape (rows, most)."""
    num = len(values_MN)
    places = np.minimum(values_MN, most).astype(np.int64)
    places += np.arange(num)[:, None] * (most + 1)
    counts: NDArray[np.int64] = np.bincount(places.ravel(), minlength=num * (most + 1)).reshape(num, -1)[:, :most]
    return counts


def _standard_quality(periodic: NDArray[np.floating], held: NDArray[np.floating], tables: NDArray[np.int64]) -> float:
    """The lowest quality of the standard table to whose steps the values of all modes keep; 100 where none is."""
    modes = np.arange(len(_MODES))
    scores = periodic[modes, tables]  # qualities, modes
    weights = np.where(np.isnan(scores), 0.0, np.sqrt(np.minimum(held[modes, tables], _ENOUGH_VALUES)))
    weights[(weights > 0).sum(axis=1) < _LEAST_MODES] = 0
    means = (np.nan_to_num(scores) * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    ranked = np.sort(np.where(np.isnan(scores), np.inf, scores), axis=1)
    low = ranked[np.arange(len(ranked)), (~np.isnan(scores)).sum(axis=1) // 4]
    last = 0.75 * means.max()
    if _QUALITIES[means.argmax()] >= _FINE:
        last = min(last, _UNDER_OTHERS)
    fits = (means >= max(_TOGETHER, last)) & (low >= _EACH)
    if not fits.any():
        return _PLAIN_QUALITY
    at = int(np.flatnonzero(fits)[0])
    while at + 1 < len(means) and means[at + 1] > means[at]:  # to the top of the hill
        at += 1
    return float(_QUALITIES[at])


def _quality_of(scale: float) -> float:
    """The quality at which libjpeg scales the standard table to so many percent."""
    return max(1.0, min(100.0, 5_000 / scale if scale > 100 else (200 - scale) / 2))


def _roughness(values: NDArray[np.float32], table_88: NDArray[np.int64]) -> float:
    """How far the counts of a JPEG's DCT values leap from each to the next: at most .4 as it comes from a camera, .8
    to 2 where values were rounded to other steps before (Popescu and Farid 2004)."""
    found = []
    steps = np.array([table_88[mode] for mode in _MODES], np.float64)
    # of float64: what is rounded before it is rounded may come to lie on the border of two levels
    levels = np.rint(_of_modes(values) / steps[:, None])
    for counts in _counts(levels, _LEVELS).astype(np.float64):
        here, around = counts[2:-1], (counts[1:-2] + counts[3:]) / 2
        use = here + around >= _LEAST_COUNT
        both = (here + around)[use] / 2
        if both.sum() >= 2 * _LEAST_VALUES:
            leaps = np.abs(here - around)[use] - 1.5 * np.sqrt(both + 1)  # but for chance
            found.append(float(np.maximum(leaps, 0).sum() / both.sum()))
    return float(np.median(found)) if found else 0.0


@functools.lru_cache(maxsize=1)
def _waves() -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """(steps, cosine of a value's phase within a step, of shape (steps, bins), first bin that counts for it, place of
    the step of each quality and mode). Steps of 1 are never seen: their place is that of one that no value counts
    for."""
    scales = np.where(_QUALITIES < 50, 5_000 / _QUALITIES, 200 - 2.0 * _QUALITIES)
    wanted = np.floor((scales[:, None] * np.array(list(_MODES.values())) + 50) / 100)
    last = 2 * _MOST_LEVEL
    steps = np.concatenate((_STEPS, np.arange(_STEPS[-1] + 1, wanted.max() + 1), [_LEAST_STEP, last]))
    values = (np.arange(int(_MOST_LEVEL / _BIN)) + 0.5) * _BIN
    counts = values[None] > 0.6 * steps[:, None]
    places = np.select([wanted == _LEAST_STEP, wanted < _LEAST_STEP], [len(steps) - 2, len(steps) - 1], wanted - 3)
    cosines = (np.cos(2 * np.pi * values[None] / steps[:, None]) * counts).astype(np.float32)
    firsts = np.where(counts.any(axis=1), counts.argmax(axis=1), len(values) - 1)
    return steps, cosines, firsts, places.astype(np.int64)


def noise_floor(luma_HW: Plane) -> float:
    """Grey levels of noise in the quietest tenth of the picture that is neither black nor white; 0 where none is."""
    height, width = (side // _BLOCK_PX * _BLOCK_PX for side in luma_HW.shape)
    if not height or not width:
        return 0.0
    import cv2

    size = (width // _BLOCK_PX, height // _BLOCK_PX)
    upper, lower = luma_HW[:height:2, :width], luma_HW[1:height:2, :width]
    if luma_HW.dtype == np.uint8:  # whole numbers below 2^24, or quarters of them: floats hold their sums in any order
        down = cv2.subtract(upper, lower, dtype=cv2.CV_16S)
        diagonal = down[:, ::2] - down[:, 1::2]
        squares = cv2.multiply(diagonal, diagonal, scale=0.25, dtype=cv2.CV_32F)
        plane = cv2.addWeighted(upper, 0.5, lower, 0.5, 0.0, dtype=cv2.CV_32F)
    else:
        down = upper - lower
        diagonal = (down[:, ::2] - down[:, 1::2]) / 2
        squares, plane = diagonal * diagonal, luma_HW[:height, :width]
    # by whole numbers this is the mean of each block
    blocks, levels = (cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in (squares, plane))
    blocks = blocks[(levels > 16) & (levels < 239)]
    return float(np.sqrt(np.quantile(blocks, 0.1))) if blocks.size else 0.0
