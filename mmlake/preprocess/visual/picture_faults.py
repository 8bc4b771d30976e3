"""Traces of damaged pictures, as the frames of a film stream by.

Enters: every frame with the small planes that shots are found on. Leaves: numbers of each stretch between two signals.
What happens in time (black, repeated and missing frames, flashes, shake) is taken from every frame; what is in the
picture (blocks, noise, bars) from the frames that get a signal. Nothing is judged here.
"""

from __future__ import annotations

import math
import statistics
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlake.preprocess.visual.plane_kernels import COMPARED, INSPECTED, kernels
from mmlake.preprocess.visual.planes import lines_of
from mmlake.preprocess.visual.texture_faults import TEXTURES, texture

if TYPE_CHECKING:
    from av import VideoFrame

# H height, W width of a plane
_BLACK_LUMA, _BLACK_STD = 20.0, 10.0  # grey levels, full range, as the rule `black` has them
_BLACK_BRIGHTEST = 64  # grey level of the small plane; noise of a lost signal is below it
_REPEATED_AMID = 0.15  # of the smaller of the changes before and after it: an encoder corrects what it repeats
_REPEATED = 0.12  # grey levels between small planes; a camera's noise leaves .2 and more, a repeated frame 0 to .1
_GAP = 1.6  # frame distances; those in clocks of hundredths differ by a quarter
_SWING = 8.0  # grey levels that the mean must turn by: ITU-R BT.1702 counts flashes of a tenth of the range from there
_REACH = 0.08  # of the side: displacement between two frames that is searched for
# what is in the texture lasts, and full planes are large: every third and fourth signal in turn, since at even
# distances a film with a keyframe every 12 frames shows its keyframes only
_TEXTURE_EVERY = (3, 4)
_EIGHT_BIT = frozenset(
    {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "yuv410p", "yuv411p", "nv12", "nv21", "gray"}
)  # their first plane is luma
_BAR_LUMA = 12  # of a line of the small plane, its brightest cell; black is 0, and a codec rings by some levels
_SMEAR_STEP = 0.5  # grey levels from line to line
# grey levels between neighbours above what is lost; share of it that is left, where no step counts for more than the
# last, so that the sides of a few bars are less than the words above them
_STRUCTURE, _SAME_STRUCTURE, _MOST_STEP = 1.0, 0.5, 8
_FEWEST_ROWS = 4  # of what is lost, and of what is left above it
_FILL, _FILL_SPREAD = 130, 2  # luma 128 of broadcast range in full range: what decoders conceal with


class PictureFaults:
    """Collects traces; `take` gives those since it was called before."""

    def __init__(self) -> None:
        self.has_texture = True  # false where frames were shrunk: blocks and noise are gone
        self._luma: np.ndarray | None = None
        self._vector, self._profiles = np.empty(0, np.uint8), np.empty((2, 0))
        self._compared = np.empty(len(COMPARED))
        self.moved = self.brighter = 0.0  # by which the latest frame differs from the one before (`plane_kernels`)
        self._times: list[float] = []  # of the latest frames, for their distance
        self._means: list[float] = []  # of the latest three frames
        self._changes: list[float] = []  # to the frame before each of them
        self._waits, self._until_texture = cycle(_TEXTURE_EVERY), 0  # signals
        self._extreme, self._direction = 0.0, 0
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._low, self._high, self._spoiled = math.inf, -math.inf, 0.0

    def add(self, luma_HW: np.ndarray, vector: np.ndarray, time_s: float) -> None:
        """Take the next frame: its small luma and its shot vector, as `small_planes` gives them."""
        sums, before = self._sums, self._luma
        is_followed = before is not None and before.shape == luma_HW.shape
        if not is_followed:
            before, self._vector = luma_HW, vector
            self._profiles = np.zeros((2, max(luma_HW.shape)))
        profiles = np.empty_like(self._profiles)
        kernels().compare(luma_HW, before, vector, self._vector, profiles, self._profiles, _REACH, self._compared)
        mean, deviation, brightest, change, shift_x, shift_y, motion, spoiled, *steps = self._compared.tolist()
        self.moved, self.brighter = steps
        sums["num_frames"] += 1
        if mean < _BLACK_LUMA and deviation < _BLACK_STD:
            sums["num_black"] += brightest < _BLACK_BRIGHTEST  # a dark scene has lights
        self._low, self._high = min(self._low, mean), max(self._high, mean)
        self._swing(mean)
        self._spoiled = max(self._spoiled, spoiled)
        if is_followed:
            if change < _REPEATED:
                sums["num_repeated"] += 1
            else:
                x, y = shift_x / luma_HW.shape[1], shift_y / luma_HW.shape[1]
                sums["shift_x"] += x
                sums["shift_y"] += y
                sums["path"] += math.hypot(x, y)
                sums["motion"] += motion
            self._changes = [*self._changes[-2:], change]
            # of the frame before this one
            first, middle, last = (0.0, 0.0, 0.0) if len(self._changes) < 3 else self._changes
            sums["num_repeated"] += _REPEATED <= middle < _REPEATED_AMID * min(first, last)
            sums["num_missing"] += self._missing(time_s)
        self._luma, self._vector, self._profiles = luma_HW, vector, profiles
        self._times = [*self._times[-8:], time_s]

    def take(self, frame: VideoFrame, luma_HW: np.ndarray) -> dict[str, Any]:
        """The fields of the signal of this frame, which was added last. Those of its texture are null in most of
        them."""
        found: dict[str, Any] = self._sums | {
            "luma_low": self._low,
            "luma_high": self._high,
            "spoiled": self._spoiled,
        }
        found |= still_faults(luma_HW) | dict.fromkeys(TEXTURES)
        if not self._until_texture:
            self._until_texture = next(self._waits)
            found |= texture(*_full_luma(frame)) if self.has_texture else {}
        self._until_texture -= 1
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._low, self._high, self._spoiled = math.inf, -math.inf, 0.0
        return found

    def _swing(self, mean: float) -> None:
        """Count turns of the brightness, and add how far a frame is from the middle of its neighbours."""
        self._means = [*self._means[-2:], mean]
        if len(self._means) == 3:
            before, middle, after = self._means
            self._sums["flicker"] += abs(middle - (before + after) / 2)
        if len(self._means) == 1:
            self._extreme = mean
        step = mean - self._extreme
        direction = 1 if step > 0 else -1
        if abs(step) >= _SWING and direction != self._direction:
            self._sums["num_swings"] += self._direction != 0
            self._direction = direction
        if self._direction * step > 0:
            self._extreme = mean

    def _missing(self, time_s: float) -> int:
        """How many frames the time stamps leave out before this one."""
        distance = time_s - self._times[-1]
        latest = [after - before for before, after in pairwise(self._times)]
        if len(latest) < 3 or distance <= _GAP * min(latest):
            return 0
        usual = statistics.median(latest)
        return round(distance / usual) - 1 if usual > 0 and distance > _GAP * usual else 0


def _full_luma(frame: VideoFrame) -> tuple[np.ndarray, int]:
    """(lines of the luma of a frame at its own size, uint8; how many bytes of each are luma)."""
    if frame.format.name not in _EIGHT_BIT:
        frame = frame.reformat(format="gray")
    held = frame.planes[0]
    return lines_of(held), held.width


_SUMS = (
    "num_frames", "num_black", "num_repeated", "num_missing", "num_swings", "flicker", "shift_x", "shift_y", "path",
    "motion",
)  # fmt: skip


def still_faults(luma_HW: np.ndarray) -> dict[str, float]:
    """Fields of the signal of one frame: shares of the picture that are black lines at its sides; how much of what lies
    inside of these is not black; and the share, from its bottom up, whose lines repeat the one above, or are what
    decoders fill with, below a picture that is neither."""
    out = np.empty(len(INSPECTED))
    kernels().inspect(luma_HW, _BAR_LUMA, _SMEAR_STEP, _MOST_STEP, out)
    found = dict(zip(INSPECTED, out.tolist(), strict=True))
    bars = {name: found[name] for name in ("bar_top", "bar_bottom", "bar_left", "bar_right", "bar_edge")}
    is_smeared = found["sides_below"] > _SAME_STRUCTURE * found["sides_above"]
    is_filled = abs(found["mean_below"] - _FILL) < _FILL_SPREAD and found["spread_below"] < _FILL_SPREAD
    is_lost = min(found["across_above"], found["down_above"]) >= _STRUCTURE and (is_smeared or is_filled)
    return bars | {"lost_rows": found["below"] if is_lost else 0.0}
