"""Keyframes: the first and the middle of each shot, more where the picture has moved far, and one every ten seconds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mmlake.preprocess.outputs import Output, OutputFile
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual.keyframe_features import Features, keyframe_features

_FIRST_SPACING_S = 0.5
_STILL = 1.0  # grey levels; noise of a sensor leaves less
_MOVED_SPACING_S = 0.1  # of candidates that are kept for how far they have moved
_MAX_CANDIDATES_PER_KEYFRAME = 8
_MAX_HELD_BYTES = 64 << 20  # of decoded frames, 250 of 480x360 and 20 of 1080p; and of those that were shrunk


@dataclass(frozen=True, slots=True)
class Keyframe:
    """One picture of a shot."""

    time_s: float
    shot: int
    jpeg: Output


class Picture(Protocol):
    """A frame that may be encoded later."""

    @property
    def num_bytes(self) -> int:
        """What it holds."""

    def shrunk(self) -> Picture:
        """The same at the size of its JPEG, in fewer bytes."""

    def jpeg(self) -> bytes:
        """The frame as a JPEG."""


class _Candidate:
    """A frame that may become a keyframe; it is encoded where its JPEG is first asked for."""

    def __init__(self, time_s: float, vector: np.ndarray, picture: Picture, is_spike: bool, jpegs: OutputFile) -> None:
        self.time_s, self.vector, self._picture = time_s, vector, picture
        self.is_spike = is_spike  # the picture jumped: perhaps the first frame of a shot
        self.num_bytes = picture.num_bytes  # what the frame holds until it is encoded
        self._jpegs = jpegs
        self._jpeg: Output | None = None

    @property
    def jpeg(self) -> Output:
        """Its JPEG; from then on the frame itself is not held any more."""
        if self._jpeg is None:
            self._jpeg = self._jpegs.append(self._picture.jpeg())
            self.num_bytes = 0
            del self._picture
        return self._jpeg

    def shrink(self) -> None:
        """Hold no more of the frame than its JPEG shows."""
        if self._jpeg is None:
            self._picture = self._picture.shrunk()
            self.num_bytes = self._picture.num_bytes


class Candidates:
    """Frames that may become keyframes, held because shots are known only later: their number is bounded, and beyond
    some MiB the oldest are held at the size of keyframes, and beyond as many of those as JPEG."""

    def __init__(self, settings: PreprocessSettings, jpegs: OutputFile | None = None) -> None:
        """jpegs: where those that are encoded lie; in memory where none is given."""
        self._settings, self._jpegs = settings, jpegs or OutputFile(None)
        self._spacing_s = _FIRST_SPACING_S
        self._first_s: float | None = None
        self._kept: list[_Candidate] = []
        # those that are held as they are, and those that are shrunk
        self._held: tuple[deque[_Candidate], deque[_Candidate]] = (deque(), deque())
        self._before: np.ndarray | None = None
        self._features: Features | None = keyframe_features(settings)

    def offer(self, time_s: float, vector: np.ndarray, picture: Picture) -> None:
        """Keep the frame if it is due, or if the picture jumped or moved far since the last one that was kept."""
        if self._first_s is None:
            self._first_s = time_s
        jump = np.inf if self._before is None else _distance(vector, self._before)
        self._before = vector
        is_spike = jump > self._settings.cut_min_change
        if not (self._is_due(time_s, vector) or (is_spike and self._may_spike(time_s, vector))):
            return
        self._kept.append(_Candidate(time_s, vector, picture, is_spike, self._jpegs))
        self._held[0].append(self._kept[-1])
        self._free()
        self._thin()

    def _is_due(self, time_s: float, vector: np.ndarray) -> bool:
        """Whether the last one was kept long ago, or the picture has moved far from it."""
        if not self._kept:
            return True
        waited_s = time_s - self._kept[-1].time_s
        if waited_s < min(self._spacing_s, _MOVED_SPACING_S):
            return False
        # a JPEG of a large frame costs as much as decoding it, and a still picture need not be there twice a second
        if waited_s >= max(self._spacing_s, self._settings.keyframe_every_s / 4):
            return True
        moved = _distance(vector, self._kept[-1].vector)
        if waited_s >= self._spacing_s and moved > _STILL:
            return True
        # so that no frame is farther than half of the displacement from the candidate before it
        return (
            self._features is None and waited_s >= _MOVED_SPACING_S and moved > self._settings.keyframe_displacement / 2
        )

    def _free(self) -> None:
        """Shrink the oldest frames where they are too many, and encode the oldest of those: most are never chosen."""
        whole, shrunk = self._held
        num_bytes = sum(one.num_bytes for one in whole)
        while num_bytes > _MAX_HELD_BYTES:
            oldest = whole.popleft()
            num_bytes -= oldest.num_bytes
            oldest.shrink()
            shrunk.append(oldest)
        num_bytes = sum(one.num_bytes for one in shrunk)
        while num_bytes > _MAX_HELD_BYTES:
            oldest = shrunk.popleft()
            num_bytes -= oldest.num_bytes
            _ = oldest.jpeg

    def join(self, others: Candidates) -> None:
        """Take the candidates of others, of the same film, as well."""
        known = {candidate.time_s for candidate in self._kept}
        self._kept += [candidate for candidate in others._kept if candidate.time_s not in known]
        self._kept.sort(key=lambda candidate: candidate.time_s)

    def choose(self, shots: list[tuple[float, float, float]]) -> list[Keyframe]:
        """The keyframes of the shots, given as (start, settled, end), in order of time: at most `max_keyframes`, or
        twice as many as `keyframe_every_s` asks for, and those that are missing to one every so often."""
        # rank 0 first frames, 1 middles, 2 displaced ones, the farther the sooner
        ranked: list[tuple[int, float, int, _Candidate]] = []
        distance, bound = self._measure()
        for number, (start_s, settled_s, end_s) in enumerate(shots):
            own = [candidate for candidate in self._kept if start_s <= candidate.time_s < end_s]
            own = [candidate for candidate in own if candidate.time_s >= settled_s] or own
            if not own:
                continue
            middle_s = (start_s + end_s) / 2
            middle = min(own, key=lambda candidate: (abs(candidate.time_s - middle_s), candidate.time_s))
            ranked.append((0, number, number, own[0]))
            # a still shot needs one picture, not two of it
            if middle is not own[0] and _distance(middle.vector, own[0].vector) > 0.5:
                ranked.append((1, number, number, middle))
            chosen = own[0]
            for candidate in own[1:]:
                if (moved := distance(candidate, chosen)) > bound and candidate is not middle:
                    ranked.append((2, -moved, number, candidate))
                    chosen = candidate
                elif candidate is middle:
                    chosen = candidate
        ranked.sort(key=lambda entry: (entry[0], entry[1], entry[3].time_s))
        asked = 2 * self._due(shots[-1][2]) if shots else 0
        picked = _evenly(ranked, max(self._settings.max_keyframes, asked))
        frames = {
            candidate.time_s: Keyframe(candidate.time_s, number, candidate.jpeg) for *_, number, candidate in picked
        }
        return self._filled(frames, shots)

    def _measure(self) -> tuple[Callable[[_Candidate, _Candidate], float], float]:
        """(distance of two candidates, above which one more is kept) by the feature that the settings choose."""
        if self._features is None or not self._kept:
            return lambda left, right: _distance(left.vector, right.vector), self._settings.keyframe_displacement
        vectors = self._features([(self._jpegs.data_of(one.jpeg), one.vector) for one in self._kept])
        by_time = {candidate.time_s: vector for candidate, vector in zip(self._kept, vectors, strict=True)}
        return (
            lambda left, right: float(np.linalg.norm(by_time[left.time_s] - by_time[right.time_s])),
            self._settings.keyframe_distance,
        )

    def _filled(self, frames: dict[float, Keyframe], shots: list[tuple[float, float, float]]) -> list[Keyframe]:
        """The keyframes in order of time, with one more wherever none comes within `keyframe_every_s`."""
        found: list[Keyframe] = []
        number, first_s = 0, shots[0][0] if shots else 0.0
        times = [*(candidate.time_s for candidate in self._kept[1:]), np.inf]
        for candidate, next_s in zip(self._kept, times, strict=True):
            while number + 1 < len(shots) and candidate.time_s >= shots[number + 1][0]:
                number += 1
            if candidate.time_s in frames:
                found.append(frames[candidate.time_s])
            # the last one that is in time: the next would come too late, and the film goes on until then
            elif min(next_s, shots[-1][2]) - (found[-1].time_s if found else first_s) > self._settings.keyframe_every_s:
                found.append(Keyframe(candidate.time_s, number, candidate.jpeg))
        return found

    def _due(self, time_s: float) -> int:
        """How many keyframes the film has up to this time by `keyframe_every_s` alone."""
        return max(0, math.ceil((time_s - (self._first_s or 0.0)) / self._settings.keyframe_every_s))

    def _may_spike(self, time_s: float, vector: np.ndarray) -> bool:
        # within two frames of the last one it is motion or noise, unless the picture is another one
        if _distance(vector, self._kept[-1].vector) <= self._settings.cut_min_change:
            return False
        recent = [
            candidate
            for candidate in self._kept[-4:]
            if candidate.is_spike and time_s - candidate.time_s < _FIRST_SPACING_S
        ]
        return len(recent) < 3  # a shaking camera spikes at every frame: three in half a second are enough

    def _thin(self) -> None:
        """Drop every second candidate that is no spike, and then every second one, once there are too many."""
        bound = _MAX_CANDIDATES_PER_KEYFRAME * self._settings.max_keyframes
        if len(self._kept) <= bound + 4 * self._due(self._kept[-1].time_s):
            return
        self._spacing_s = min(2 * self._spacing_s, self._settings.keyframe_every_s / 2)
        thinned = self._halved(also_spikes=False)
        if len(self._kept) - len(thinned) < bound // 8:
            thinned = self._halved(also_spikes=True)
        self._kept = thinned
        stays = {candidate.time_s for candidate in thinned}
        for held in self._held:
            left = [one for one in held if one.time_s in stays]
            held.clear()
            held.extend(left)

    def _halved(self, *, also_spikes: bool) -> list[_Candidate]:
        """The candidates without every second one, but for those whose absence leaves a hole of `keyframe_every_s`."""
        thinned: list[_Candidate] = []
        is_second = False
        for candidate, after in zip(self._kept, [*self._kept[1:], None], strict=True):
            if also_spikes or not candidate.is_spike:
                is_second = not is_second
                hole_s = np.inf if after is None or not thinned else after.time_s - thinned[-1].time_s
                if not is_second and hole_s <= self._settings.keyframe_every_s:
                    continue
            thinned.append(candidate)
        return thinned


def _evenly(ranked: list[tuple[int, float, int, _Candidate]], count: int) -> list[tuple[int, float, int, _Candidate]]:
    """At most `count` entries by rank; where the first frames alone are too many, evenly spaced ones of them."""
    firsts = [entry for entry in ranked if entry[0] == 0]
    if len(firsts) <= count:
        return ranked[:count]
    return [firsts[index] for index in sorted({round(position) for position in np.linspace(0, len(firsts) - 1, count)})]


def _distance(left: np.ndarray, right: np.ndarray) -> float:
    """Mean absolute difference in grey levels."""
    import cv2

    return cv2.norm(left, right, cv2.NORM_L1) / len(left)
