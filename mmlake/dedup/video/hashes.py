"""Hashes of film frames: of the active picture without bars or frame, of windows of it, and the keys for a join.

Enters: 64x64 luma planes of the frames of one unit, in order. Leaves: 64-bit hashes, 8x8 luma and keys. A cropped copy
hashes as a window of its original does, a caption or logo leaves one of the windows alone. Bars and frames are found a
shot at a time, from pictures averaged over its frames: a dark scene is no bar, and a film may hold clips of any shape.
Legend: N frames, 64x64 luma; V views (the active picture; the whole one as well, where they differ); W windows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.perceptual import pack_bits
from mmlake.dedup.splitmix import mix64

SIDE = 64  # px of a plane: a border is then known to 1.6 % of the picture
BLANK_STD = 3.0  # luma levels; a black frame matches every black frame and says nothing
# bits of the horizontally odd coefficients: a mirror image has them negated, and all others as they were
MIRROR = np.uint64(0xAAAAAAAAAAAAAAAA)
EVEN = np.uint64(0x5555555555555554)  # the others, without the constant one: the same in a mirror image


class Rect(NamedTuple):
    """A part of a picture, in fractions of its height and width."""

    top: float
    bottom: float
    left: float
    right: float

    def inside(self, outer: Rect) -> Rect:
        """This part of another part."""
        height, width = outer.bottom - outer.top, outer.right - outer.left
        return Rect(
            outer.top + self.top * height, outer.top + self.bottom * height,
            outer.left + self.left * width, outer.left + self.right * width,
        )  # fmt: skip


ALL = Rect(0.0, 1.0, 0.0, 1.0)
# The picture; what is left of it after 5 and 10 % are cropped from each side; without its lower or upper fifth, where
# captions and logos are; without a tenth at two sides. Crops in between lie within 2.5 % of one of them.
WINDOWS = (
    ALL, Rect(0.05, 0.95, 0.05, 0.95), Rect(0.1, 0.9, 0.1, 0.9), Rect(0.0, 0.8, 0.0, 1.0), Rect(0.2, 1.0, 0.0, 1.0),
    Rect(0.0, 0.9, 0.0, 0.9), Rect(0.0, 0.9, 0.1, 1.0), Rect(0.1, 1.0, 0.0, 0.9), Rect(0.1, 1.0, 0.1, 1.0),
)  # fmt: skip
CUT = 18.0  # luma levels between two frames: another shot, whose border is found anew
_MAX_SHOT = 512  # frames; a border may change within a shot that fades
_BAR_LEVELS, _BAR_STD, _BAR_FRACTION = 6.0, 3.0, 0.9  # how far a bar may leave its colour, in space and time; of a line
_MIN_LEFT_FRACTION = 0.2  # of the picture; where less is left, what was found is no border but a small thing on black
_KEYS, _KEYS_PER_FRAME = 192, 2.0  # at most; what copies share of them stands in docs/dedup.md


class Hashed(NamedTuple):
    """What a join sees of a unit's frames."""

    hashes_VNW: NDArray[np.uint64]
    luma_VN64: NDArray[np.uint8]  # 8x8 each
    keys: NDArray[np.uint64]


def hashed(planes_NHW: NDArray[np.uint8]) -> Hashed:
    """The hashes, luma and keys of a unit's frames; the second view is missing where no shot has a border."""
    shots = _shots(planes_NHW)
    borders = [active_picture(planes_NHW[low:high]) for low, high in shots]
    num_views = 1 if all(border == ALL for border in borders) else 2
    hashes = np.empty((num_views, len(planes_NHW), len(WINDOWS)), np.uint64)
    luma = np.empty((num_views, len(planes_NHW), 64), np.uint8)
    keys = [np.empty(0, np.uint64)]
    for (low, high), border in zip(shots, borders, strict=True):
        shot = planes_NHW[low:high].astype(np.float64)
        is_structured = shot.std(axis=(1, 2)) >= BLANK_STD
        for view, rect in enumerate((border, ALL)[:num_views]):
            hashes[view, low:high], flipped = window_hashes(shot, rect)
            luma[view, low:high] = (
                (_areas(rect.top, rect.bottom) @ shot @ _areas(rect.left, rect.right).T).reshape(-1, 64).round()
            )
            if view == 0 or rect != border:
                keys += [hashes[view, low:high][is_structured].ravel() & EVEN, flipped[is_structured].ravel() & EVEN]
    return Hashed(hashes, luma, _sampled(np.unique(np.concatenate(keys)), len(planes_NHW)))


def _sampled(codes: NDArray[np.uint64], num_frames: int) -> NDArray[np.uint64]:
    """The codes as keys; where there are too many, those that every unit would keep first."""
    keys, most = mix64(codes), int(_KEYS + _KEYS_PER_FRAME * num_frames)
    kept: NDArray[np.uint64] = np.sort(keys)[:most]
    return kept


def _shots(planes_NHW: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """(first frame, frame behind the last) of each shot."""
    change = [
        np.abs(planes_NHW[low + 1 : low + 1 + _MAX_SHOT].astype(np.int16) - planes_NHW[low : low + _MAX_SHOT][
            : len(planes_NHW) - low - 1
        ]).mean(axis=(1, 2))
        for low in range(0, len(planes_NHW) - 1, _MAX_SHOT)
    ]  # fmt: skip
    edges = [0]
    for cut in [*(np.flatnonzero(np.concatenate([[], *change]) > CUT) + 1).tolist(), len(planes_NHW)]:
        while cut - edges[-1] > _MAX_SHOT:
            edges.append(edges[-1] + _MAX_SHOT)
        edges.append(cut)
    return list(zip(edges[:-1], edges[1:], strict=True))


def active_picture(planes_NHW: NDArray[np.uint8]) -> Rect:
    """The picture of one shot without the lines at its sides that have one colour, whichever, all the time."""
    mean, deviation = planes_NHW.mean(axis=0), planes_NHW.std(axis=0)
    top, bottom = _bars(mean, deviation)
    if top + bottom == SIDE:
        return ALL
    left, right = _bars(mean[top : SIDE - bottom].T, deviation[top : SIDE - bottom].T)
    if (SIDE - top - bottom) * (SIDE - left - right) < _MIN_LEFT_FRACTION * SIDE * SIDE:
        return ALL
    return Rect(top / SIDE, 1 - bottom / SIDE, left / SIDE, 1 - right / SIDE)


def _bars(mean_LK: NDArray[np.float64], deviation_LK: NDArray[np.float64]) -> tuple[int, int]:
    """How many lines at the beginning and at the end are bars."""
    found = []
    for step in (1, -1):
        mean, deviation = mean_LK[::step], deviation_LK[::step]
        is_bar = (np.abs(mean - np.median(mean[0])) <= _BAR_LEVELS) & (deviation <= _BAR_STD)
        is_full = is_bar.mean(axis=1) >= _BAR_FRACTION
        num = len(is_full) if is_full.all() else int(np.argmin(is_full))
        found.append(num + 1 if 0 < num < len(is_full) else num)  # the next line is part bar, part picture
    first, last = found
    return (first, last) if first + last < len(mean_LK) else (len(mean_LK), 0)


def window_hashes(planes_NHW: NDArray[np.float64], rect: Rect) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(DCT hash of each window of that part, the same with the bit flipped that a copy loses first), shape (N, W)."""
    windows = [window.inside(rect) for window in WINDOWS]
    rows = list(dict.fromkeys((one.top, one.bottom) for one in windows))
    columns = list(dict.fromkeys((one.left, one.right) for one in windows))
    across = planes_NHW @ np.concatenate([_cosines(*one) for one in columns]).T
    both = np.concatenate([_cosines(*one) for one in rows]) @ across
    hashes, flipped = np.empty((2, len(planes_NHW), len(windows)), np.uint64)
    for at, one in enumerate(windows):
        row, column = 8 * rows.index((one.top, one.bottom)), 8 * columns.index((one.left, one.right))
        # rounding: a flat plane must not hash its rounding errors
        flat = both[:, row : row + 8, column : column + 8].reshape(-1, 64).round(6)
        flat[:, 0] = 0.0  # the DC term says how bright, not what
        hashes[:, at] = pack_bits(flat > 0)
        weakest = _EVEN_BITS[np.argmin(np.abs(flat[:, _EVEN_BITS]), axis=1)]
        flipped[:, at] = hashes[:, at] ^ (np.uint64(1) << weakest.astype(np.uint64))
    return hashes, flipped


_EVEN_BITS = np.array([bit for bit in range(1, 64) if bit % 2 == 0])


@lru_cache(maxsize=256)
def _cosines(low: float, high: float) -> NDArray[np.float64]:
    """The eight lowest cosines over a part of an axis, integrated over each pixel, of shape (8, 64)."""
    edges = (np.clip(np.arange(SIDE + 1) / SIDE, low, high) - low) / (high - low)
    frequency = np.arange(1, 8)[:, None]
    sines = np.sin(np.pi * frequency * edges) / (np.pi * frequency)
    return np.concatenate([np.diff(edges)[None], np.diff(sines, axis=1)])


@lru_cache(maxsize=256)
def _areas(low: float, high: float) -> NDArray[np.float64]:
    """The mean over each eighth of a part of an axis, of shape (8, 64)."""
    edges, cells = np.arange(SIDE + 1) / SIDE, low + (high - low) * np.arange(9) / 8
    covered = np.minimum(edges[1:], cells[1:, None]) - np.maximum(edges[:-1], cells[:-1, None])
    covered = np.clip(covered, 0.0, None)
    weights: NDArray[np.float64] = covered / covered.sum(axis=1, keepdims=True)
    return weights
