"""Which of two copies gives way by numbers that only say something together.

Enters: rows of (a number, sizes) of the copies asked about, and of those that they may give way to; NaN where unknown.
Leaves: which of the former give way to one of the latter.
Legend: N copies asked about, M others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mmlake.dedup.matching import MadeOf
    from mmlake.dedup.prints import Positions

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LARGER = 0.1  # share by which the size must be larger
_FACTORS = (1.05, 5.0)  # by which a picture is enlarged; what is less leaves a period longer than the picture's own
_BLOCKS = np.arange(1, 8) / 8  # cycles per pixel of the original: the edges of its blocks; 1 is that of its pixels
# px of its width, below which a frequency of the copy is none of the original's for sure: with so much slack the seven
# of the blocks fill a tenth of all
_LEAST_PX, _LEAST_PX_OF_BLOCKS = 96, 240
_SLACK_CYCLES = 1.5  # over the whole width: how exactly a frequency is known


def by_both(own_N2: Numbers, its_M2: Numbers, *, tolerance: float) -> Mask:
    """Others have clearly more of both numbers. Unknown ones neither give way nor count."""
    its_M2 = its_M2[~np.isnan(its_M2).any(axis=1)]
    its_M2 = its_M2[np.argsort(-its_M2[:, 1], kind="stable")]
    most = np.concatenate(([-np.inf], np.maximum.accumulate(its_M2[:, 0])))
    num_larger = np.searchsorted(-its_M2[:, 1] * (1 - _LARGER), -own_N2[:, 1], side="left")
    least = most[np.where(np.isnan(own_N2[:, 1]), 0, num_larger)] * (1 - tolerance)
    outdone: Mask = least > own_N2[:, 0]
    return outdone


def by_both_of(own: tuple[float, float], its: tuple[float, float], *, tolerance: float) -> bool:
    """The same of one copy and one other."""
    return its[1] * (1 - _LARGER) > own[1] and its[0] * (1 - tolerance) > own[0]


def copies_among(
    units_N: Positions, made_of: MadeOf, *, values_NG: Numbers, most: int
) -> tuple[Mask, NDArray[np.int64]]:
    """(which were made of another one by coding it anew, of how many that are no copies themselves each is the
    original). values_NG: numbers of which an original has no less than its copy, NaN where unknown; nothing makes a
    grey picture coloured. most: of the units, the first that are asked for as originals."""
    num, num_asked = len(units_N), min(most, len(units_N))
    copies, originals = (side.ravel() for side in np.indices((num, num_asked)))
    others = copies != originals
    copies, originals = copies[others], originals[others]
    is_no_less = (values_NG[originals] >= values_NG[copies]) | np.isnan(values_NG[originals] + values_NG[copies])
    made: Mask = np.zeros((num, num_asked), np.bool_)
    made[copies, originals] = is_no_less.all(axis=1) & made_of(units_N[copies], units_N[originals])
    is_copy: Mask = made.sum(axis=1) > 0
    if is_copy.all():
        return np.zeros(num, np.bool_), np.zeros(num, np.int64)
    num_copies = np.zeros(num, np.int64)
    num_copies[:num_asked] = np.where(is_copy[:num_asked], 0, made.sum(axis=0))
    return is_copy, num_copies


def by_its_original(own_N3: Numbers, its_M3: Numbers) -> Mask:
    """Others are smaller by just the factor whose trace stands in the copy. The numbers are a frequency in cycles per
    pixel (`mmlake.quality.resampling`), width and height in px. What repeats in the picture itself has as many periods
    in copies of any size."""
    outdone = np.zeros(len(own_N3), np.bool_)
    asked = np.flatnonzero(~np.isnan(own_N3).any(axis=1))
    at, width, height = own_N3[asked].T
    frames = its_M3[:, 1:][~np.isnan(its_M3[:, 1:]).any(axis=1)]
    if not len(asked) or not len(frames):
        return outdone
    frames = np.unique(frames[frames[:, 0] >= _LEAST_PX], axis=0)
    is_shown = _are_in_other_sizes(own_N3[asked], its_M3)
    for smaller_width, smaller_height in frames:
        factor = width / smaller_width
        # both sides are rounded to pixels
        is_whole = np.abs(height - factor * smaller_height) <= 0.5 + 0.5 * factor * (1 + smaller_height / smaller_width)
        is_of_pixels = _are_at(at, np.ones((1, 1)) / factor, width)
        is_of_blocks = _are_at(at, _BLOCKS[:, None] / factor, width) & (smaller_width >= _LEAST_PX_OF_BLOCKS)
        is_known = (is_of_pixels & (factor >= 2)) | ((is_of_pixels | is_of_blocks) & ~is_shown)
        outdone[asked] |= is_whole & is_known & (factor >= _FACTORS[0]) & (factor <= _FACTORS[1])
    return outdone


def _are_at(at_N: Numbers, cycles_KN: Numbers, width_N: Numbers) -> Mask:
    """Which frequencies are one of those in question, as pixels show them: .8 is seen as .2."""
    apart = np.abs(np.abs(cycles_KN - np.round(cycles_KN)) - at_N).min(axis=0)
    is_near: Mask = apart * width_N <= _SLACK_CYCLES
    return is_near


def _are_in_other_sizes(own_N3: Numbers, its_M3: Numbers) -> Mask:
    """Of which another one of another width has as many periods over its own."""
    shown = np.zeros(len(own_N3), np.bool_)
    for at, width in np.unique(its_M3[~np.isnan(its_M3).any(axis=1)][:, :2], axis=0):
        is_of_other_size = np.abs(own_N3[:, 1] - width) > width * (_FACTORS[0] - 1)
        shown |= is_of_other_size & (np.abs(own_N3[:, 0] * own_N3[:, 1] - at * width) <= _SLACK_CYCLES)
    return shown
