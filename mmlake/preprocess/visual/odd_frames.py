"""Single frames that do not belong between those before and behind them, which are alike: what is left of a damage that
a decoder concealed, or that was recorded.

Enters: the shot vector of every frame. Leaves: times. Damage that lasts until the next keyframe is not found here, nor
frames that are only brighter than the others, as by a photographer's flash.
"""

from __future__ import annotations

from array import array

import numpy as np

from mmlake.preprocess.visual.plane_kernels import kernels
from mmlake.preprocess.visual.planes import NUM_LUMA, SHOT_LUMA_HW

# H height, W width of the cells
# Share of the cells, and levels: chosen on 26 real films, 145 clean ones and one with broken frames. Of whole frames
# the highest share is .008 (an arm that passes), of 13 broken ones ten have .017 and more (docs/quality.md)
_SHARE, _LEVELS = 0.015, 16
_ALIKE = 4  # times as far from both neighbours as these are from each other
_REACH, _ALONE = 4, 4.0  # frames on each side, whose shares are so many times smaller: rain and fans go on
# Of what changes to the frame and from it, the part that changes next to that: what passes comes and goes in other
# frames. Of 13 broken frames .37 at most, of 9 whole ones of a cartoon, in which things fly, .51 at least. Where a
# camera moves it may be more, if little of what is odd is in the frame before or behind at another place (of the 9,
# 8 have more than .65, and one changes as much in all frames)
_STEADY, _RESTLESS, _PASSING = 0.44, 0.8, 0.5
_NEAR = 5  # cells across the neighbourhood in which a thing that moved stands in one of the neighbours
_FLASH_LEVELS = 2.0  # by which most of the picture is brighter
_LONGEST_S = 0.2  # from the frame before to the one behind; more of them apart, anything may have passed
_LEAST_MOVED = 5.0  # mean change of the twentieth of the cells that change most: less cannot be odd


class OddFrames:
    """Takes the frames of a film in order."""

    def __init__(self) -> None:
        self.times_s = array("d")  # of those found
        self._times: list[float] = []
        self._vectors: list[np.ndarray] = []
        self._moved: list[float] = []  # of the frames in reach, each with the one before
        self._lit = 0.0
        # (share, passing) of the latest frames that have both neighbours
        self._shares = [(0.0, 0.0)] * (2 * _REACH + 1)

    def add(self, time_s: float, vector: np.ndarray, *, moved: float, brighter: float) -> None:
        """Take the next frame: its shot vector, and how it differs from the one before (`PictureFaults`)."""
        self._times = [*self._times[-2 * _REACH - 1 :], time_s]
        self._vectors, self._moved = [*self._vectors[-2:], vector], [*self._moved[-2 * _REACH :], moved]
        share = (0.0, 0.0)
        is_asked = len(self._vectors) == 3 and time_s - self._times[-3] <= _LONGEST_S
        if is_asked and min(self._moved[-2:]) >= _LEAST_MOVED and self._lit < _FLASH_LEVELS:
            before, here, behind = (one[:NUM_LUMA] for one in self._vectors)
            share = _share(before, here, behind)
        self._lit = brighter
        self._push(share)

    def finish(self) -> list[float]:
        """The times of all that were found, in order."""
        for _ in range(_REACH):
            self._times, self._moved = [*self._times[-2 * _REACH - 1 :], 0.0], [*self._moved[-2 * _REACH :], 0.0]
            self._push((0.0, 0.0))
        return self.times_s.tolist()

    def _push(self, share: tuple[float, float]) -> None:
        self._shares = [*self._shares[1:], share]
        others = self._shares[:_REACH] + self._shares[_REACH + 1 :]
        odd, passing = self._shares[_REACH]
        if odd >= max(_SHARE, _ALONE * max(others)[0]) and self._is_alone(passing):
            self.times_s.append(self._times[-2 - _REACH])

    def _is_alone(self, passing: float) -> bool:
        """Whether the change to the frame that is decided on, and that from it, stand out among their neighbours."""
        before, here, behind, later = self._moved[-3 - _REACH : 1 - _REACH]
        bound = _RESTLESS if passing <= _PASSING else _STEADY
        return max(before, later) <= bound * min(here, behind)


def _share(before: np.ndarray, here: np.ndarray, behind: np.ndarray) -> tuple[float, float]:
    """(share of the cells that are brighter or darker than everything near their place in both neighbours, which are
    alike there, what of that may have passed (`_passing`)); zeros where few differ from both at all."""
    import cv2

    is_odd = np.empty(NUM_LUMA, np.bool_)
    if kernels().odd(before, here, behind, _LEVELS, _ALIKE, is_odd) < _SHARE * NUM_LUMA:
        return 0.0, 0.0
    near = np.ones((_NEAR, _NEAR), np.uint8)
    one, other = before.reshape(SHOT_LUMA_HW), behind.reshape(SHOT_LUMA_HW)
    highest = cv2.max(cv2.dilate(one, near), cv2.dilate(other, near)).ravel()
    lowest = cv2.min(cv2.erode(one, near), cv2.erode(other, near)).ravel()
    cells = here.astype(np.int16)
    is_odd &= np.maximum(cells - highest, lowest - cells) >= _LEVELS
    return float(np.count_nonzero(is_odd)) / NUM_LUMA, _passing(before, here, behind)


def _passing(before: np.ndarray, here: np.ndarray, behind: np.ndarray) -> float:
    """How many cells only one of the neighbours differs in, from the other two frames, for each that only the frame
    between them differs in, all in the direction in which most of these do: a thing that flies is in all three."""
    one, cells, other = (frame.astype(np.int16) for frame in (before, here, behind))
    is_first, is_middle, is_last = (
        (np.abs(odd - left) >= _LEVELS) & (np.abs(odd - right) >= _LEVELS) & (np.abs(left - right) < _LEVELS)
        for odd, left, right in ((one, cells, other), (cells, one, other), (other, one, cells))
    )
    counts = []
    for sign in (1, -1):
        first, middle, last = (
            int(np.count_nonzero(is_only & (sign * step > 0)))
            for is_only, step in ((is_first, one - cells), (is_middle, cells - one), (is_last, other - cells))
        )
        counts.append((middle, first + last))
    num, elsewhere = max(counts)
    return elsewhere / max(num, 1)
