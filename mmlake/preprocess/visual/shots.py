"""Shot boundaries: cuts, fades and dissolves from small frames, as they stream by.

Method: twin comparison (Zhang, Kankanhalli, Smoliar 1993) with three tests that its thresholds lack: a cut must stand
out of the changes around it, both sides must stay unlike after the best shift and beyond the length of a flash, and a
dissolve must be a straight blend of its two ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual import gradual
from mmlake.preprocess.visual.plane_kernels import kernels
from mmlake.preprocess.visual.planes import NUM_LUMA, SHOT_LUMA_HW
from mmlake.preprocess.visual.slides import slide_changes

if TYPE_CHECKING:
    from av import VideoFrame

# T frames, N entries of a shot vector, H W height and width of its luma
_NEIGHBOURS = 12  # frames on each side that a cut must stand out of
_MARGIN_S = 4.0  # context kept on both sides of what is decided: a dissolve and its surroundings
_WINDOW_S = 30.0
_SHAKEN_RATIO = 0.7  # of the ratio that a cut needs, is enough where the colours change as well
_MIN_COLOUR_CHANGE = 0.3  # sum of absolute differences of histograms, 0..2
_MIN_AREA_FRACTION = 1 / 3  # of what is not black: things that jump before a wall that stays are no cut
_AREA_CHANGE, _LIT = 6, 20  # grey levels
_MIN_SPACING_FRAMES = 3  # a cut with a blended frame in between is one cut
_MIN_MIXED = 0.2  # of the way from one shot to the other; what has gone less of it is no mixed frame
_MAX_UNMIXED = 0.15  # of that way; movement is not everywhere by the same share
_SAME_TINT = 12  # grey levels of the mean of a chroma plane
_FLANK_FRAMES, _FLANK_GROWTH, _FLANK_S = 3, 1.03, 2.0  # a fade's picture grows by so much in so many frames
_PICTURE_SPACING_S = 0.9 / gradual.RATE_HZ  # of the larger pictures that are kept


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where one shot gives way to the next."""

    time_s: float  # of the first frame of the new shot; for gradual ones the middle
    settled_s: float  # from when on only the new shot is seen
    transition: str  # cut, fade or dissolve


class ShotFinder:
    """Finds boundaries in frames that are pushed in order; holds about 40 s of small frames."""

    def __init__(self, settings: PreprocessSettings) -> None:
        self._settings = settings
        self._times: list[float] = []
        self._vectors: list[np.ndarray] = []
        self._changes: list[float] = []
        self._pictures: list[tuple[float, np.ndarray]] = []
        self._decided_s = -np.inf
        self._found: list[Boundary] = []

    def push(self, time_s: float, vector: np.ndarray, luma_HW: np.ndarray, frame: VideoFrame | None = None) -> None:
        """Take the next frame: its time, its shot vector and its luma, about 160 px wide. frame: for other detectors,
        which see the whole picture."""
        if self._times and time_s <= self._times[-1]:
            return  # a broken clock: the frame says nothing about when
        self._times.append(time_s)
        self._vectors.append(vector)
        if not self._pictures or time_s - self._pictures[-1][0] >= _PICTURE_SPACING_S:
            self._pictures.append((time_s, luma_HW))
        if (
            self._times[-1] - max(self._times[0], self._decided_s) > _WINDOW_S + _MARGIN_S
            and len(self._times) > 2 * _NEIGHBOURS
        ):
            self._decide(self._times[-1] - _MARGIN_S)
            keep = int(np.searchsorted(self._times, self._decided_s - _MARGIN_S))
            del self._times[:keep], self._vectors[:keep], self._changes[:keep]
            self._pictures = [one for one in self._pictures if one[0] >= self._times[0]]

    def finish(self) -> list[Boundary]:
        """All boundaries in order of time."""
        self._decide(np.inf)
        return self._found

    def _decide(self, until_s: float) -> None:
        if len(self._times) >= 2:
            vectors_TN = np.stack(self._vectors)
            num_known = len(self._changes)
            change_T, contrast_T = np.empty(len(vectors_TN)), np.empty(len(vectors_TN))
            kernels().changes(vectors_TN, change_T, contrast_T)
            self._changes += change_T[num_known:].tolist()  # the first of these is held with none before it
            frames = _Frames(np.array(self._times), vectors_TN, np.array(self._changes), contrast_T)
            found = _boundaries(frames, self._pictures, self._settings)
            self._found += [boundary for boundary in found if self._decided_s <= boundary.time_s < until_s]
        self._decided_s = until_s


@dataclass(frozen=True, slots=True)
class _Frames:
    """What is held of frames."""

    times_T: np.ndarray
    vectors_TN: np.ndarray  # uint8
    change_T: np.ndarray  # to the frame before, grey levels
    contrast_T: np.ndarray

    def luma_HW(self, index: int) -> np.ndarray:
        """The small luma of one frame."""
        luma: np.ndarray = self.vectors_TN[index, :NUM_LUMA].reshape(SHOT_LUMA_HW)
        return luma

    def tint(self, index: int) -> np.ndarray:
        """The mean of each chroma plane of one frame."""
        mean: np.ndarray = self.vectors_TN[index, NUM_LUMA:].reshape(2, -1).mean(axis=1)
        return mean


def contrast(vector: np.ndarray) -> float:
    """Standard deviations of luma and of both chroma planes, added, in grey levels."""
    change, found = np.empty(1), np.empty(1)
    kernels().changes(vector[None], change, found)
    return float(found[0])


def _boundaries(
    frames: _Frames, pictures: list[tuple[float, np.ndarray]], settings: PreprocessSettings
) -> list[Boundary]:
    """The boundaries within these frames, in order of time."""
    times_T, contrast_T = frames.times_T, frames.contrast_T
    cuts = list(_cuts(frames, settings))
    cuts = sorted([*cuts, *_mixed_cuts(frames, cuts, settings)])
    fades = list(_fades(frames, cuts, settings))
    cuts = [index for index in cuts if not any(start <= index <= stop for start, stop, _ in fades)]
    found = [Boundary(float(times_T[index]), float(times_T[index]), "cut") for index in cuts]
    found += [
        Boundary(float(times_T[at]), float(times_T[min(stop + 1, len(times_T) - 1)]), "fade") for _, stop, at in fades
    ]
    borders = [(index, index) for index in cuts]
    borders += [
        (_flank(times_T, contrast_T, start, -1), _flank(times_T, contrast_T, stop, 1)) for start, stop, _ in fades
    ]
    if (len(times_T) - 1) / (times_T[-1] - times_T[0]) >= gradual.RATE_HZ / 2:  # else too few frames to see a blend
        at_S = np.searchsorted(times_T, [time_s for time_s, _ in pictures])
        samples = gradual.Samples(at_S, frames.vectors_TN, [picture for _, picture in pictures])
        found += [
            Boundary(float(times_T[middle]), float(times_T[settled]), "dissolve")
            for middle, settled in gradual.dissolves(samples, contrast_T, borders, settings)
        ]
    found += _slides(frames, pictures, found, settings)
    return sorted(found, key=lambda boundary: boundary.time_s)


def _slides(
    frames: _Frames, pictures: list[tuple[float, np.ndarray]], found: list[Boundary], settings: PreprocessSettings
) -> list[Boundary]:
    """Changes of slides at which nothing was found."""
    times_T, changes = frames.times_T, []
    for middle, settled, num_both in slide_changes(
        times_T, frames.vectors_TN, pictures, longest_s=settings.dissolve_max_s
    ):
        near_s = max(settings.dissolve_max_s / 2, 2 * float(times_T[middle] - times_T[middle - 1]))
        if any(abs(one.time_s - times_T[middle]) < near_s for one in found):
            continue
        kind = "cut" if num_both <= 1 else "dissolve"
        changes.append(Boundary(float(times_T[middle]), float(times_T[settled]), kind))
    return changes


def _cuts(frames: _Frames, settings: PreprocessSettings) -> Iterator[int]:
    """Indices of the first frames after hard cuts."""
    last, change_T = -_MIN_SPACING_FRAMES, frames.change_T
    for index in np.flatnonzero(change_T > settings.cut_min_change).tolist():
        near = change_T[max(0, index - _MIN_SPACING_FRAMES + 1) : index + _MIN_SPACING_FRAMES]
        if change_T[index] < near.max() or index - last < _MIN_SPACING_FRAMES:
            continue
        if _is_cut(frames, index, settings):
            last = index
            yield index


def _is_cut(frames: _Frames, index: int, settings: PreprocessSettings) -> bool:
    """Whether the change to this frame, the largest one nearby, is that of a cut."""
    ratio = frames.change_T[index] / max(_usual(frames.change_T, index), 1e-6)
    if not _is_everywhere(frames.luma_HW(index - 1), frames.luma_HW(index)):
        return False
    return (
        ratio > settings.cut_change_ratio
        or (ratio > _SHAKEN_RATIO * settings.cut_change_ratio and _is_recoloured(frames, index, settings))
    ) and not _comes_back(frames, index, settings)


def _mixed_cuts(frames: _Frames, cuts: list[int], settings: PreprocessSettings) -> Iterator[int]:
    """Indices of the first frames behind one that shows both shots at once, as where a cut falls between two fields or
    a film was brought to another rate by mixing its frames: it halves the change, and resembles both sides."""
    times_T, last = frames.times_T, -_MIN_SPACING_FRAMES
    steps_T = np.minimum(frames.change_T[1:-1], frames.change_T[2:])  # into each frame but the ends, and out of it
    for index in (2 + np.flatnonzero(steps_T > _MIN_MIXED * settings.cut_min_change)).tolist():
        if index - last < _MIN_SPACING_FRAMES or any(abs(index - cut) <= _MIN_SPACING_FRAMES for cut in cuts):
            continue
        if frames.contrast_T[[index - 2, index]].min() < settings.fade_max_contrast:
            continue  # each frame of a fade lies between its neighbours
        if not _is_mixed(*frames.vectors_TN[index - 2 : index + 1]):
            continue
        first = min(index - 2 - _NEIGHBOURS, int(np.searchsorted(times_T, times_T[index] - settings.flash_s)) - 2)
        start = max(0, first)
        stop = max(index + 1 + _NEIGHBOURS, int(np.searchsorted(times_T, times_T[index] + settings.flash_s)) + 2)
        local, at = _without(frames, slice(start, stop), index - 1), index - 1 - start
        near = local.change_T[max(0, at - _MIN_SPACING_FRAMES + 1) : at + _MIN_SPACING_FRAMES]
        if (
            local.change_T[at] > settings.cut_min_change
            and local.change_T[at] >= near.max()
            and _is_cut(local, at, settings)
        ):
            last = index
            yield index


def _is_mixed(before_N: np.ndarray, mixed_N: np.ndarray, after_N: np.ndarray) -> bool:
    """Whether a frame is, everywhere by the same share, between the two around it."""
    way_N = after_N.astype(np.float32) - before_N
    gone_N = mixed_N.astype(np.float32) - before_N
    share = float(way_N @ gone_N) / max(float(way_N @ way_N), 1e-6)
    if not _MIN_MIXED <= share <= 1 - _MIN_MIXED:
        return False
    return float(np.abs(gone_N - share * way_N).mean()) <= _MAX_UNMIXED * float(np.abs(way_N).mean())


def _without(frames: _Frames, part: slice, index: int) -> _Frames:
    """A part of the frames without one of them."""
    kept = np.delete(np.arange(len(frames.times_T))[part], index - part.start)
    vectors_TN = np.ascontiguousarray(frames.vectors_TN[kept])
    change_T, contrast_T = np.empty(len(kept)), np.empty(len(kept))
    kernels().changes(vectors_TN, change_T, contrast_T)
    return _Frames(frames.times_T[kept], vectors_TN, change_T, contrast_T)


def _is_everywhere(before_HW: np.ndarray, after_HW: np.ndarray) -> bool:
    """Whether enough of the picture changes: a scene of ten frames a second has things in it that jump."""
    import cv2

    is_lit_HW = np.maximum(before_HW, after_HW) > _LIT  # bars and night are black in all shots
    is_changed_HW = (cv2.absdiff(before_HW, after_HW) > _AREA_CHANGE) & is_lit_HW
    return int(is_changed_HW.sum()) >= _MIN_AREA_FRACTION * int(is_lit_HW.sum())


def _usual(change_T: np.ndarray, index: int) -> float:
    """The upper quartile of the changes nearby, without frames that are repeated: they say nothing about how fast the
    picture moves."""
    nearby = np.concatenate(
        [change_T[max(1, index - _NEIGHBOURS) : index], change_T[index + 1 : index + 1 + _NEIGHBOURS]]
    )
    moving = nearby[nearby > 0.05]
    return float(np.percentile(moving, 75)) if len(moving) >= 3 else 0.0


def _is_recoloured(frames: _Frames, index: int, settings: PreprocessSettings) -> bool:
    """Whether the colours change as they do at no other frame nearby: a shaking hand moves them, and keeps them."""
    start, stop = max(0, index - _NEIGHBOURS), min(len(frames.times_T), index + _NEIGHBOURS + 1)
    change = np.abs(np.diff(gradual.colours(frames.vectors_TN[start:stop]), axis=0)).sum(axis=1)
    own = float(change[index - start - 1])
    others = np.delete(change, index - start - 1)
    return own > _MIN_COLOUR_CHANGE and own > settings.cut_change_ratio * float(np.percentile(others, 75))


def _comes_back(frames: _Frames, index: int, settings: PreprocessSettings) -> bool:
    """Whether any picture shortly before resembles one shortly after: a flash, a shake or a change of light."""
    times_T = frames.times_T
    first = int(np.searchsorted(times_T, times_T[index] - settings.flash_s))
    last = int(np.searchsorted(times_T, times_T[index] + settings.flash_s, side="right"))
    befores = sorted({max(0, min(first, index - 1)), max(0, index - 2), index - 1})
    afters = sorted(
        {index, min(index + 1, len(times_T) - 1), min(max(last - 1, index), len(times_T) - 1)}
        | set(range(index, last, 2))
    )
    for before in befores:
        for after in afters:
            if (
                np.abs(frames.tint(before) - frames.tint(after)).max() < _SAME_TINT
                and gradual.similarity(frames.luma_HW(before), frames.luma_HW(after)) > settings.cut_max_similarity
            ):
                return True
    return False


def _fades(frames: _Frames, cuts: list[int], settings: PreprocessSettings) -> Iterator[tuple[int, int, int]]:
    """(first empty frame, last empty frame, boundary) of every run of empty frames between two pictures that is
    entered or left gradually."""
    contrast_T = frames.contrast_T
    empty_T = np.concatenate([[False], contrast_T < settings.fade_max_contrast, [False]])
    edges = np.flatnonzero(np.diff(empty_T.astype(np.int8)))
    for start, stop in zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True):
        if start == 0 or stop == len(contrast_T) - 1:
            continue  # the item begins or ends dark: no second shot
        hard_in = any(abs(cut - start) <= 1 for cut in cuts)
        hard_out = any(abs(cut - stop - 1) <= 1 for cut in cuts)
        if (hard_in and hard_out) or _is_blink(frames, start - 1, stop + 1, settings):
            continue
        at = stop + 1 if hard_out else start if hard_in else (start + stop) // 2
        yield start - 1, stop + 1, at


def _is_blink(frames: _Frames, before: int, after: int, settings: PreprocessSettings) -> bool:
    """Whether the frames between these two are a flash, or lost: entered and left within the time of a flash, and with
    the same picture on both sides. A shutter that is open while a lamp goes on lights a frame by half."""
    times_T, contrast_T = frames.times_T, frames.contrast_T
    first, last = _flank(times_T, contrast_T, before, -1), _flank(times_T, contrast_T, after, 1)
    return (
        bool(times_T[last] - times_T[first + 1] <= settings.flash_s)
        and np.abs(frames.tint(first) - frames.tint(last)).max() < _SAME_TINT
        and gradual.similarity(frames.luma_HW(first), frames.luma_HW(last)) > settings.cut_max_similarity
    )


def _flank(times_T: np.ndarray, contrast_T: np.ndarray, edge: int, direction: int) -> int:
    """The frame, before or after the empty ones, from which on the picture grows no stronger."""
    at = edge
    while (
        0 <= (ahead := at + _FLANK_FRAMES * direction) < len(contrast_T)
        and contrast_T[ahead] > _FLANK_GROWTH * contrast_T[at]
        and abs(times_T[at] - times_T[edge]) < _FLANK_S
    ):
        at += direction
    return at
