"""How blurred a picture is, and how blurred what is in focus in it.

Enters: a luma plane, H high and W wide, of at most some hundred pixels. Leaves: 0 (sharp) to 1 (flat).
Method: Crete, Dolmiere, Ladret, Nicolas 2007: how little the picture changes when it is blurred once more. Needs no
reference and no contrast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[Any]  # float32

_REBLUR_PX = 9  # width of the box filter of Crete et al.
_DIVISORS = (1, 2, 4)
# The steepest step in a thousand over the contrast, and its levels. Out of focus by one percent of the width leaves .9
# and 18 at most, whatever is shown; what stands sharp before a soft ground has 1.2 and 46 and more
_STEEP, _STEEP_LEVELS, _STEEP_SHARE = 1.0, 25.0, 1e-3
_MIN_CONTRAST = 14.0  # grey levels, of a part of a picture that is measured by itself
_MIN_STRUCTURE = 0.1  # grey levels; mean step between neighbours below which only rounding is left


class _Steps(NamedTuple):
    """Of one size of a picture, along one axis."""

    all_HW: Plane  # absolute differences of neighbours
    lost_HW: Plane  # what of them goes when the picture is blurred


def blur(luma_HW: Plane) -> float | None:
    """Perceptual blur 0 (sharp) to 1 (flat); None where the picture has no structure or is too small.

    The worst of three sizes: under strong blur the rounding and the blocks of a codec appear sharp at full size, and
    vanish when it is shrunk.
    """
    return _blur_of(list(_steps(luma_HW)))


def focus_blur(luma_HW: Plane, *, parts: int) -> float | None:
    """The blur of what is in focus, 0 to 1; None as for `blur`.

    Steep steps show that something is in focus: what stands before a soft ground was taken so on purpose, and the
    sharpest of parts x parts pieces counts. Without such steps all of the picture does.
    """
    steps = list(_steps(luma_HW))
    whole = _blur_of(steps)
    steep = max(_STEEP_LEVELS, _STEEP * float(luma_HW.std()))
    if whole is None or not any(_share_above(steep, one.all_HW) > _STEEP_SHARE for one in steps[:2]):
        return whole
    has_contrast = _cells(luma_HW * luma_HW, parts) - _cells(luma_HW, parts) ** 2 >= _MIN_CONTRAST**2
    worst = np.zeros((parts, parts), np.float32)
    for one in steps:
        if min(one.all_HW.shape) // parts < 2 * _REBLUR_PX:
            break
        every = _cells(one.all_HW, parts)
        stayed = 1 - _cells(one.lost_HW, parts) / np.maximum(every, _MIN_STRUCTURE)
        worst = np.maximum(worst, np.where(every >= _MIN_STRUCTURE, stayed, 0))
    sharp = worst[has_contrast & (worst > 0)]
    return min(whole, float(sharp.min())) if sharp.size else whole


def _share_above(level: float, values_HW: Plane) -> float:
    return float(np.count_nonzero(values_HW > level)) / max(1, values_HW.size)


def _steps(luma_HW: Plane) -> Iterator[_Steps]:
    """Down and across, of each size that is large enough to be blurred."""
    import cv2

    height, width = (side // _DIVISORS[-1] * _DIVISORS[-1] for side in luma_HW.shape)
    for divisor in _DIVISORS:
        if min(luma_HW.shape) // divisor < 2 * _REBLUR_PX:
            return
        plane, size = luma_HW, (width // divisor, height // divisor)
        if divisor > 1:  # by whole numbers this is the mean of the pixels, in a fraction of the time
            plane = cv2.resize(luma_HW[:height, :width], size, interpolation=cv2.INTER_AREA)
        for kernel, (behind, before) in (
            ((1, _REBLUR_PX), (np.s_[1:], np.s_[:-1])),
            ((_REBLUR_PX, 1), (np.s_[:, 1:], np.s_[:, :-1])),
        ):
            again = cv2.blur(plane, kernel)
            steps = cv2.absdiff(plane[behind], plane[before])
            lost = cv2.subtract(steps, cv2.absdiff(again[behind], again[before]))
            yield _Steps(steps, np.maximum(lost, 0, out=lost))


def _blur_of(steps: list[_Steps]) -> float | None:
    """Of the whole picture."""
    shares = []
    for one in steps:
        total = float(one.all_HW.sum(dtype=np.float64))
        if total >= _MIN_STRUCTURE * one.all_HW.size:
            shares.append(1 - float(one.lost_HW.sum(dtype=np.float64)) / total)
    return max(shares, default=0.0) or None


def _cells(plane_HW: Plane, parts: int) -> Plane:
    """The means of parts x parts pieces; what is left over at the right and below is in none."""
    import cv2

    height, width = (side // parts * parts for side in plane_HW.shape)
    means: Plane = cv2.resize(plane_HW[:height, :width], (parts, parts), interpolation=cv2.INTER_AREA)
    return means
