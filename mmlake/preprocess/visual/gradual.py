"""Gradual boundaries, fades and dissolves, from three tracks: grey levels, colour (histograms of hue, saturation and
value) and optical flow.

A dissolve is a candidate where grey levels or colours go far between two frames (the high one of two thresholds) along
a way that is not much longer (the low one). It counts where every frame in between is a blend of both ends, each
shifted as the camera moves, where neither end alone explains the middle, and where the camera's motion does not either.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual.blend_kernels import blend_kernels
from mmlake.preprocess.visual.camera_motion import unexplained
from mmlake.preprocess.visual.planes import NUM_LUMA, SHOT_CHROMA_HW, SHOT_LUMA_HW

# T frames, S samples of them for blends, N luma cells, H height and W width of the small luma, B bins
RATE_HZ = 10.0  # at which dissolves are searched for
_LENGTHS_S = (0.3, 0.5, 0.8, 1.2, 1.8)
_MIN_CHANGE = 12.0  # grey levels between both ends
_MIN_COLOUR_CHANGE = 0.4  # sum of absolute differences of histograms, 0..2
_MIN_MOVED_COLOUR_CHANGE = 0.6  # the same, of ends that are shifted: somebody who comes near changes .45
# |end - start| over the sum of steps: 1 for a blend of still pictures, less the more they move
_MIN_STRAIGHTNESS = 0.45
_MIN_COLOUR_STRAIGHTNESS = 0.4
_MAX_RESIDUAL = 0.2  # of the energy between both ends that a blend of unmoved pictures leaves unexplained
_MAX_MOVED_RESIDUAL = 0.45  # of a frame's energy that a blend of moved pictures leaves unexplained
_MAX_STEP, _MIN_STEP = 0.65, -0.12  # of the blend's share from sample to sample
_MIN_UNLIKE = 0.12  # of the middle frame's energy that the nearer end alone leaves unexplained
_MIN_UNLIKE_MOVING = 0.25  # where the camera explains a part of the change
_STILL, _MOVING = (
    0.85,
    0.5,
)  # shares that the camera's motion leaves unexplained: of a blend, of one under a shaking hand
_MAX_UNEVENNESS = 0.15  # spread over the picture of how far the blend has gone
_MAX_MOVED_UNEVENNESS = 0.16  # the same, after shifting both ends
_MAX_WIDENINGS, _WIDENING = 4, 5  # times, and samples at each end that the middle is measured on
_SETTLED = 0.15  # weight of the other picture that is none
_MAX_SIMILARITY, _MAX_MOVED_SIMILARITY = 0.75, 0.7  # of both ends; the second where they are shifted
_MIN_AREA_FRACTION = 0.5  # of the frame that must change: an object that leaves is no dissolve
_AREA_CHANGE = 6.0  # grey levels
_HUES, _SATURATIONS, _VALUES = 12, 4, 16  # bins; one more hue for what has none
_GREY = 25  # saturation or value below which a hue is noise


class Samples:
    """Frames at about RATE_HZ with what blends are found on."""

    def __init__(self, at_S: np.ndarray, vectors_TN: np.ndarray, pictures: list[np.ndarray]) -> None:
        """at_S: indices into the frames; vectors_TN: shot vectors of all frames; pictures: luma about 160 px wide of
        the sampled ones."""
        self.at_S, self._vectors_TN, self._vectors_SN, self.pictures = at_S, vectors_TN, vectors_TN[at_S], pictures
        self.luma_SHW = _luma(self._vectors_SN)

    def all_luma(self, start: int, stop: int) -> np.ndarray:
        """The luma of every frame from one sample to another."""
        return _luma(self._vectors_TN[self.at_S[start] : self.at_S[stop] + 1])

    @functools.cached_property
    def colour_SB(self) -> np.ndarray:
        """Histograms of colours, made where they are first asked for."""
        return colours(self._vectors_SN)


def _luma(vectors_TN: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(vectors_TN[:, :NUM_LUMA]).reshape(-1, *SHOT_LUMA_HW)


def colours(vectors_TN: np.ndarray) -> np.ndarray:
    """Histograms of hue and saturation, and of value, of shot vectors: float32, each row sums to 1."""
    import cv2

    rows, columns = SHOT_LUMA_HW[0] // SHOT_CHROMA_HW[0], SHOT_LUMA_HW[1] // SHOT_CHROMA_HW[1]
    count = len(vectors_TN)
    chroma = vectors_TN[:, NUM_LUMA:].reshape(count, 2, *SHOT_CHROMA_HW).repeat(rows, axis=2).repeat(columns, axis=3)
    yuv = np.concatenate([vectors_TN[:, :NUM_LUMA].reshape(count, 1, *SHOT_LUMA_HW), chroma], axis=1)
    tall = np.ascontiguousarray(yuv.transpose(0, 2, 3, 1)).reshape(count * SHOT_LUMA_HW[0], SHOT_LUMA_HW[1], 3)
    hsv = cv2.cvtColor(cv2.cvtColor(tall, cv2.COLOR_YUV2BGR), cv2.COLOR_BGR2HSV).reshape(count, -1, 3)
    histograms = np.empty((count, (_HUES + 1) * _SATURATIONS + _VALUES), np.float32)
    blend_kernels().histograms(hsv, _GREY, _HUES, _SATURATIONS, _VALUES, histograms)
    return histograms


def dissolves(
    samples: Samples, contrast_T: np.ndarray, borders: list[tuple[int, int]], settings: PreprocessSettings
) -> Iterator[tuple[int, int]]:
    """(middle, first frame of the new shot alone) of stretches in which one picture turns into another.

    borders: (first, last frame) of what is known to be a cut or a fade.
    """
    at_S, taken = samples.at_S, list[tuple[int, int]]()
    step = int(at_S[1] - at_S[0]) if len(at_S) > 1 else 1
    for start, stop in _candidates(samples, settings):
        lo, hi = int(at_S[start]), int(at_S[stop])
        if any(first <= hi + step and last >= lo - step for first, last in borders) or any(
            start <= other_stop and stop >= other_start for other_start, other_stop in taken
        ):
            continue
        if min(contrast_T[lo], contrast_T[hi]) < 2 * settings.fade_max_contrast:
            continue  # to or from an empty picture: a fade or a change of light
        if not _is_blend(samples, start, stop):
            continue
        taken.append((start, stop))
        ends_S = [int(np.searchsorted(at_S, last, side="right")) for _, last in borders if last < lo]
        starts_S = [int(np.searchsorted(at_S, first)) - 1 for first, _ in borders if first > hi]
        yield _placed(samples, start, stop, (max(ends_S, default=0), min(starts_S, default=len(at_S) - 1)))


def _placed(samples: Samples, start: int, stop: int, free: tuple[int, int]) -> tuple[int, int]:
    """(middle, first frame of the new shot alone) of a dissolve of which `start` to `stop` is a part. free: the first
    and last sample that it can reach.

    The middle lies halfway between where the old picture has lost half of its weight and where the new one has gained
    it: what moves costs weight, the old picture late and the new one early.
    """
    near = (samples.at_S[start] + samples.at_S[stop]) / 2
    for _ in range(_MAX_WIDENINGS):
        first, last = max(free[0], start - _WIDENING), min(free[1], stop + _WIDENING)
        old_S, new_S = _fitted(samples.luma_SHW[first : last + 1]).weights_S2.T
        if new_S[start - first] < _SETTLED and old_S[stop - first] < _SETTLED:
            break
        start, stop = max(first, start - 2), min(last, stop + 2)
    at_S = samples.at_S[first : last + 1]
    middle = (_crossing(at_S, 1 - old_S, near) + _crossing(at_S, new_S, near)) / 2
    settled = np.flatnonzero((at_S > middle) & (old_S < _SETTLED))
    return round(middle), int(at_S[settled[0]] if len(settled) else at_S[-1])


def _crossing(at_S: np.ndarray, share_S: np.ndarray, near: float) -> float:
    """The frame, between samples as well, at which a share grows beyond a half; of several the nearest one."""
    rising = np.flatnonzero((share_S[:-1] < 0.5) & (share_S[1:] >= 0.5))
    if not len(rising):
        return near
    part_R = (0.5 - share_S[rising]) / (share_S[rising + 1] - share_S[rising])
    found_R = at_S[rising] + part_R * (at_S[rising + 1] - at_S[rising])
    return float(found_R[np.argmin(np.abs(found_R - near))])


def _candidates(samples: Samples, settings: PreprocessSettings) -> list[tuple[int, int]]:
    """Stretches whose ends differ much, along a way that is not much longer: the straightest first."""
    path_S = _walked(_changes(samples.luma_SHW, 1))
    ranked: list[tuple[float, int, int]] = []
    for lag in sorted({max(3, round(length_s * RATE_HZ)) for length_s in (*_LENGTHS_S, settings.dissolve_max_s)}):
        if lag >= len(samples.at_S):
            break
        change_S = _changes(samples.luma_SHW, lag)
        if not (change_S > _MIN_CHANGE).any():
            continue
        colour_path_S = _walked(np.abs(np.diff(samples.colour_SB, axis=0)).sum(axis=1))
        colour_S = np.abs(samples.colour_SB[lag:] - samples.colour_SB[:-lag]).sum(axis=1)
        straight_S = change_S / np.maximum(path_S[lag:] - path_S[:-lag], 1e-6)
        colour_straight_S = colour_S / np.maximum(colour_path_S[lag:] - colour_path_S[:-lag], 1e-6)
        is_far = (change_S > _MIN_CHANGE) & (
            (straight_S > _MIN_STRAIGHTNESS)
            | ((colour_S > _MIN_COLOUR_CHANGE) & (colour_straight_S > _MIN_COLOUR_STRAIGHTNESS))
        )
        ranked += [(-float(change_S[at] * straight_S[at]), at, at + lag) for at in np.flatnonzero(is_far).tolist()]
    return [(start, stop) for _, start, stop in sorted(ranked)]


def _changes(luma_SHW: np.ndarray, lag: int) -> np.ndarray:
    """The mean absolute difference of each frame and the one `lag` behind it."""
    out = np.empty(max(0, len(luma_SHW) - lag))
    blend_kernels().walked(luma_SHW, lag, out)
    return out


def _walked(steps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(steps)])


def _is_blend(samples: Samples, start: int, stop: int) -> bool:
    """Whether the stretch is a dissolve, and not motion or anything else."""
    import cv2

    luma_SHW = samples.luma_SHW[start : stop + 1]
    if (cv2.absdiff(luma_SHW[-1], luma_SHW[0]) > _AREA_CHANGE).mean() < _MIN_AREA_FRACTION:
        return False
    is_straight = _is_straight(luma_SHW)
    if not is_straight and np.abs(samples.colour_SB[stop] - samples.colour_SB[start]).sum() < _MIN_MOVED_COLOUR_CHANGE:
        return False
    if similarity(luma_SHW[0], luma_SHW[-1]) >= (_MAX_SIMILARITY if is_straight else _MAX_MOVED_SIMILARITY):
        return False
    middle = len(luma_SHW) // 2
    if not is_straight and not _fitted(luma_SHW, begin=middle, stop=middle + 1).is_mixed:
        return False  # most candidates end here: the middle alone costs a fraction of the stretch
    fit = _fitted(luma_SHW, whole=is_straight)
    if not (is_straight or fit.is_blend) or fit.unlike < _MIN_UNLIKE:
        return False
    # a thing that leaves fast is neither end between two samples; what is blended is a blend in each of its frames
    luma_THW = samples.all_luma(start, stop)
    if not (is_straight and _is_straight(luma_THW)) and not _fitted(luma_THW, whole=False).is_mixed:
        return False
    left = _unexplained(samples.pictures[start : stop + 1])
    return left >= _STILL or (left >= _MOVING and fit.unlike >= _MIN_UNLIKE_MOVING and fit.is_blend)


def _is_straight(luma_SHW: np.ndarray) -> bool:
    """Whether each frame is on the line from the first to the last, and the way is no jump, never turns back and is
    the same all over the picture."""
    share_S, rest_S = np.empty(len(luma_SHW)), np.empty(len(luma_SHW))
    # a dissolve goes everywhere at once, an object that leaves does not
    unevenness = blend_kernels().straight(luma_SHW, share_S, rest_S)
    return bool(rest_S.max() <= _MAX_RESIDUAL and _is_gradual(share_S) and unevenness <= _MAX_UNEVENNESS)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Frames as sums of the first and the last of them, both shifted to where they fit each frame best."""

    weights_S2: np.ndarray  # of the first and of the last
    rest: float  # of a frame's energy that stays unexplained, at most
    unevenness: float
    unlike: float  # of the frame that is least like either end: what the nearer end alone leaves unexplained

    @property
    def is_mixed(self) -> bool:
        """Whether both ends explain each frame, all over the picture alike."""
        return self.rest <= _MAX_MOVED_RESIDUAL and self.unevenness <= _MAX_MOVED_UNEVENNESS

    @property
    def is_blend(self) -> bool:
        """Whether one end takes the place of the other all over the picture and at an even pace."""
        share_S = self.weights_S2[:, 1] / np.maximum(np.abs(self.weights_S2).sum(axis=1), 1e-6)
        return bool(self.is_mixed and _is_gradual(share_S) and share_S[0] < 0.3 and share_S[-1] > 0.7)


def _fitted(luma_SHW: np.ndarray, *, begin: int = 0, stop: int | None = None, whole: bool = True) -> _Fit:
    """How far each frame from `begin` to `stop` is a blend of the first and the last of all; where not the whole is
    asked for, only until one is no mixture of them."""
    stop = len(luma_SHW) if stop is None else stop
    weights_S2, worst = np.zeros((stop - begin, 2)), np.empty(3)
    bounds = (np.inf, np.inf) if whole else (_MAX_MOVED_RESIDUAL, _MAX_MOVED_UNEVENNESS)
    blend_kernels().fitted(luma_SHW, begin, stop, *bounds, weights_S2, worst)
    return _Fit(weights_S2, *worst.tolist())


def _is_gradual(share_S: np.ndarray) -> bool:
    steps_S = np.diff(share_S)
    return bool(steps_S.max() <= _MAX_STEP and steps_S.min() >= _MIN_STEP)


def _unexplained(pictures: list[np.ndarray]) -> float:
    """The median over the stretch of what the camera's motion leaves; 1 where no picture has corners to follow."""
    shares = [unexplained(left, right) for left, right in zip(pictures, pictures[1:], strict=False)]
    known = [share for share in shares if share is not None]
    return float(np.median(known)) if known else 1.0


def similarity(left_HW: np.ndarray, right_HW: np.ndarray) -> float:
    """Correlation -1..1 of the luma of two shot vectors after the best shift of at most an eighth of the frame; 1 for
    two empty frames of one brightness."""
    return blend_kernels().alike(left_HW, right_HW)
