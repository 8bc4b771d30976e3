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

from mmlake.preprocess.planes import NUM_LUMA, SHOT_CHROMA_HW, SHOT_LUMA_HW
from mmlake.preprocess.texture_faults import TEXTURES, texture

if TYPE_CHECKING:
    from av import VideoFrame

# H height, W width of a plane; S shifts; N positions of a profile
_BLACK_LUMA, _BLACK_STD = 20.0, 10.0  # grey levels, full range, as the rule `black` has them
_BLACK_BRIGHTEST = 64  # grey level of the small plane; noise of a lost signal is below it
_REPEATED_AMID = 0.15  # of the smaller of the changes before and after it: an encoder corrects what it repeats
_REPEATED = 0.12  # grey levels between small planes; a camera's noise leaves .2 and more, a repeated frame 0 to .1
_GAP = 1.6  # frame distances; those in clocks of hundredths differ by a quarter
_SWING = 8.0  # grey levels that the mean must turn by: ITU-R BT.1702 counts flashes of a tenth of the range from there
_REACH = 0.08  # of the side: displacement between two frames that is searched for
_FLAT_PROFILE = 2.0  # grey levels; a profile with less has nothing to follow
_EXPLAINED = 0.5  # of the change of the profile that must vanish with the displacement
# what is in the texture lasts, and full planes are large: every third and fourth signal in turn, since at even
# distances a film with a keyframe every 12 frames shows its keyframes only
_TEXTURE_EVERY = (3, 4)
_EIGHT_BIT = frozenset(
    {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "yuv410p", "yuv411p", "nv12", "nv21", "gray"}
)  # their first plane is luma
# Y, U and V that no colour has: planes of zeros, or of green where a slice was lost
_DEEP_GREEN_U, _DEEP_GREEN_V = 48, 32
_BAR_LUMA = 12  # of a line of the small plane, its brightest cell; black is 0, and a codec rings by some levels
_SMEAR_STEP = 0.5  # grey levels from line to line
_STRUCTURE, _SAME_STRUCTURE = 1.0, 0.5  # grey levels between neighbours above what is lost; share of it that is left
_FEWEST_ROWS = 4  # of what is lost, and of what is left above it
_FILL, _FILL_SPREAD = 130, 2  # luma 128 of broadcast range in full range: what decoders conceal with


class PictureFaults:
    """Collects traces; `take` gives those since it was called before."""

    def __init__(self) -> None:
        self.has_texture = True  # false where frames were shrunk: blocks and noise are gone
        self._luma: np.ndarray | None = None
        self._coarse: np.ndarray | None = None
        self._profiles: list[np.ndarray] = []
        self._times: list[float] = []  # of the latest frames, for their distance
        self._means: list[float] = []  # of the latest three frames
        self._changes: list[float] = []  # to the frame before each of them
        self._waits, self._until_texture = cycle(_TEXTURE_EVERY), 0  # signals
        self._extreme, self._direction = 0.0, 0
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._low, self._high, self._spoiled = math.inf, -math.inf, 0.0

    def add(self, luma_HW: np.ndarray, vector: np.ndarray, time_s: float) -> None:
        """Take the next frame: its small luma and its shot vector, as `small_planes` gives them."""
        import cv2

        sums = self._sums
        mean, deviation = (float(value[0, 0]) for value in cv2.meanStdDev(luma_HW))
        sums["num_frames"] += 1
        if mean < _BLACK_LUMA and deviation < _BLACK_STD:
            sums["num_black"] += cv2.minMaxLoc(luma_HW)[1] < _BLACK_BRIGHTEST  # a dark scene has lights
        self._low, self._high = min(self._low, mean), max(self._high, mean)
        self._swing(mean)
        self._spoiled = max(self._spoiled, _spoiled(vector))
        coarse = vector[:NUM_LUMA].reshape(SHOT_LUMA_HW)
        profiles = [cv2.reduce(luma_HW, axis, cv2.REDUCE_AVG, dtype=cv2.CV_32F).ravel() for axis in (0, 1)]
        if self._luma is not None and self._luma.shape == luma_HW.shape and self._coarse is not None:
            change = cv2.norm(luma_HW, self._luma, cv2.NORM_L1) / luma_HW.size
            if change < _REPEATED:
                sums["num_repeated"] += 1
            else:
                self._move(profiles, coarse)
            self._changes = [*self._changes[-2:], change]
            # of the frame before this one
            first, middle, last = (0.0, 0.0, 0.0) if len(self._changes) < 3 else self._changes
            sums["num_repeated"] += _REPEATED <= middle < _REPEATED_AMID * min(first, last)
            sums["num_missing"] += self._missing(time_s)
        self._luma, self._coarse, self._profiles = luma_HW, coarse, profiles
        self._times = [*self._times[-8:], time_s]

    def take(self, frame: VideoFrame, luma_HW: np.ndarray) -> dict[str, Any]:
        """The fields of the signal of this frame, which was added last. Those of its texture are null in most of
        them."""
        found: dict[str, Any] = self._sums | {
            "luma_low": self._low,
            "luma_high": self._high,
            "spoiled": self._spoiled,
        }
        found |= dict(zip(("bar_top", "bar_bottom", "bar_left", "bar_right"), _bars(luma_HW), strict=True))
        found |= dict.fromkeys(TEXTURES) | {"lost_rows": _lost_rows(luma_HW)}
        if not self._until_texture:
            self._until_texture = next(self._waits)
            found |= texture(_full_luma(frame)) if self.has_texture else {}
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

    def _move(self, profiles: list[np.ndarray], coarse: np.ndarray) -> None:
        """Add how far the whole picture went, in widths, and how much changed besides its brightness."""
        import cv2

        width = len(profiles[0])
        x, y = (_displacement(before, now) / width for before, now in zip(self._profiles, profiles, strict=True))
        self._sums["shift_x"] += x
        self._sums["shift_y"] += y
        self._sums["path"] += math.hypot(x, y)
        assert self._coarse is not None
        step = cv2.subtract(coarse, self._coarse, dtype=cv2.CV_16S)
        mean = cv2.mean(step)[0]
        self._sums["motion"] += cv2.norm(step, np.full_like(step, round(mean)), cv2.NORM_L1) / step.size

    def _missing(self, time_s: float) -> int:
        """How many frames the time stamps leave out before this one."""
        distance = time_s - self._times[-1]
        latest = [after - before for before, after in pairwise(self._times)]
        if len(latest) < 3 or distance <= _GAP * min(latest):
            return 0
        usual = statistics.median(latest)
        return round(distance / usual) - 1 if usual > 0 and distance > _GAP * usual else 0


def _full_luma(frame: VideoFrame) -> np.ndarray:
    """The luma of a frame at its own size, uint8."""
    if frame.format.name not in _EIGHT_BIT:
        frame = frame.reformat(format="gray")
    held = frame.planes[0]
    return np.frombuffer(memoryview(held), np.uint8).reshape(-1, held.line_size)[: held.height, : held.width]


_SUMS = (
    "num_frames", "num_black", "num_repeated", "num_missing", "num_swings", "flicker", "shift_x", "shift_y", "path",
    "motion",
)  # fmt: skip


def _displacement(before_N: np.ndarray, now_N: np.ndarray) -> float:
    """How many positions the profile went, to a fraction of one; 0 where no displacement explains its change."""
    import cv2

    reach = max(2, round(_REACH * len(now_N)))
    inner_N = now_N[reach:-reach]
    if len(inner_N) < 2 * reach or cv2.meanStdDev(inner_N)[1][0, 0] < _FLAT_PROFILE:
        return 0.0
    # correlation, so that a change of light moves nothing
    alike_S = cv2.matchTemplate(before_N[None], inner_N[None], cv2.TM_CCOEFF_NORMED)[0].tolist()
    best = max(range(len(alike_S)), key=alike_S.__getitem__)
    if 1 - alike_S[best] > _EXPLAINED**2 * (1 - alike_S[reach]):
        return 0.0
    offset = 0.0
    if 0 < best < len(alike_S) - 1:
        left, middle, right = alike_S[best - 1 : best + 2]
        curve = left - 2 * middle + right
        offset = (left - right) / (2 * curve) if curve < 0 else 0.0
    return float(reach - best - offset)


def _spoiled(vector: np.ndarray) -> float:
    """Share of the picture in a colour that no camera gives: green by planes of zeros."""
    size = SHOT_CHROMA_HW[0] * SHOT_CHROMA_HW[1]
    u, v = vector[NUM_LUMA : NUM_LUMA + size], vector[NUM_LUMA + size :]
    if u.min() >= _DEEP_GREEN_U:
        return 0.0
    return float(np.count_nonzero((u < _DEEP_GREEN_U) & (v < _DEEP_GREEN_V))) / size


def _bars(luma_HW: np.ndarray) -> tuple[float, float, float, float]:
    """Shares of the picture that are black lines at its top, bottom, left and right."""
    import cv2

    found = []
    for axis in (1, 0):
        brightest = cv2.reduce(luma_HW, axis, cv2.REDUCE_MAX).ravel()
        lit = np.flatnonzero(brightest > _BAR_LUMA)
        first, last = (int(lit[0]), int(lit[-1])) if len(lit) else (len(brightest), -1)
        found += [first / len(brightest), (len(brightest) - 1 - last) / len(brightest)]
    return found[0], found[1], found[2], found[3]


def _lost_rows(luma_HW: np.ndarray) -> float:
    """Share of the picture, from its bottom up, whose lines repeat the one above, or are what decoders fill with, below
    a picture that is neither."""
    import cv2

    if len(luma_HW) < 2 * _FEWEST_ROWS or luma_HW.shape[1] < 2:
        return 0.0
    down = cv2.reduce(cv2.absdiff(luma_HW[1:], luma_HW[:-1]), 1, cv2.REDUCE_AVG, dtype=cv2.CV_32F).ravel()
    moving = np.flatnonzero(down > _SMEAR_STEP)
    top = int(moving[-1]) + 2 if len(moving) else 0
    if not _FEWEST_ROWS <= top <= len(luma_HW) - _FEWEST_ROWS:
        return 0.0
    upper, lower = luma_HW[: top - 1], luma_HW[top:]
    across = [float(cv2.mean(cv2.absdiff(part[:, 1:], part[:, :-1]))[0]) for part in (upper, lower)]
    if across[0] < _STRUCTURE or float(down[: top - 2].mean()) < _STRUCTURE:
        return 0.0
    is_smeared = across[1] > _SAME_STRUCTURE * across[0]
    is_filled = abs(float(lower.mean()) - _FILL) < _FILL_SPREAD and float(lower.std()) < _FILL_SPREAD
    return len(lower) / len(luma_HW) if is_smeared or is_filled else 0.0
