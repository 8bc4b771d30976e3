"""The visual track from keyframes, and from whole groups of pictures where the keyframes at both ends differ.

Enters: the packets of a film, and the frames of those that are keyframes. Leaves: shots, keyframes, and a signal for
each keyframe. What only all frames show is not measured, and is null: traces of damage between signals, small frames.
A change that is taken back within one group, and what is gradual across groups that begin alike, is not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.preprocess.outputs import Output
from mmlake.preprocess.visual import gradual
from mmlake.preprocess.visual.film_reader import FilmReader
from mmlake.preprocess.visual.keyframes import Candidates
from mmlake.preprocess.visual.planes import NUM_LUMA, SHOT_LUMA_HW, signal, small_planes
from mmlake.preprocess.visual.shot_detectors import shot_detector
from mmlake.preprocess.visual.shots import Boundary

if TYPE_CHECKING:
    from av import VideoFrame
    from av.packet import Packet

_MAX_TINT = 12.0  # levels of chroma between two pictures of one shot
_BEHIND_S = 0.5  # decoded behind a group: a cut at its end is judged by what follows
_LEAST_S = 0.25  # of the last group, whose end no keyframe shows: a shorter one is not decoded
_SLACK_S = 1e-4


@dataclass(kw_only=True)
class GopReader(FilmReader):
    """Takes all packets, and the frames of keyframes, in order; decodes what else is needed afterwards."""

    _keys: list[tuple[float, np.ndarray]] = field(default_factory=list)
    _num_packets: int = 0
    _is_timed: bool = True
    _found: list[Boundary] = field(default_factory=list)

    def see(self, packet: Packet[Any]) -> None:
        """Take the next packet of any stream: they say how many frames there are, and when the last one ends."""
        if packet.stream.type != "video" or not packet.size or packet.is_discard:
            return
        self._num_packets += 1
        if packet.pts is None or packet.time_base is None or self.clock.stamps.is_made_up(packet):
            self._is_timed = False
            return
        time_s = float(packet.pts * packet.time_base) - self.clock.origin_s
        self._last_s = max(self._last_s, time_s)
        length_s = float(packet.duration * packet.time_base) if packet.duration else self.clock.spacing_s
        self.end_s = max(self.end_s, self.clock.end_of(time_s, length_s))

    def add(self, frame: VideoFrame) -> None:
        """Take the next keyframe."""
        time_s = self._admitted(frame)
        luma_HW, vector = small_planes(frame, self.settings.analysis_side_px)
        self._offer(self._candidates, frame, time_s, vector)
        self._signals.add(signal(luma_HW, vector, self._before, time_s=time_s))
        self._before = vector
        self._keys.append((time_s, vector))

    def kept_frames(self) -> Output | None:
        """None: the grid of small frames wants all frames."""
        return None

    def read_groups(self, path: Path) -> bool:
        """Decode the groups that may hold a boundary; False where packets or keyframes do not say when they are, so
        that all frames must be decoded."""
        times = [time_s for time_s, _ in self._keys]
        if not self._is_timed or self.clock.stamps.are_of_decoding or not times or sorted(set(times)) != times:
            return False
        self.num_frames = self._num_packets
        between = Candidates(self.settings, self._jpegs)
        for start_s, end_s in self._runs():
            finder = shot_detector(self.settings)
            for time_s, frame in self._frames(path, start_s, end_s + _BEHIND_S):
                luma_HW, vector = small_planes(frame, self.settings.analysis_side_px)
                finder.push(time_s, vector, luma_HW, frame)
                if time_s < end_s:
                    self._offer(between, frame, time_s, vector)
            self._found += [one for one in finder.finish() if start_s < one.time_s <= end_s + _SLACK_S]
        self._candidates.join(between)
        return True

    def _boundaries(self) -> list[Boundary]:
        return self._found

    def _runs(self) -> list[tuple[float, float]]:
        """(start, end) of stretches of groups that may hold a boundary."""
        runs: list[tuple[float, float]] = []
        for (start_s, before), (end_s, after) in zip(self._keys, self._keys[1:], strict=False):
            if self._differ(before, after):
                is_next = runs and runs[-1][1] == start_s
                runs[-1:] = [(runs[-1][0], end_s)] if is_next else [*runs[-1:], (start_s, end_s)]
        if self.end_s - (last_s := self._keys[-1][0]) > _LEAST_S:
            is_next = runs and runs[-1][1] == last_s
            runs[-1:] = [(runs[-1][0], self.end_s)] if is_next else [*runs[-1:], (last_s, self.end_s)]
        return runs

    def _differ(self, before: np.ndarray, after: np.ndarray) -> bool:
        """Whether no shift makes two keyframes pictures of one shot."""
        tints = [vector[NUM_LUMA:].reshape(2, -1).mean(axis=1) for vector in (before, after)]
        lumas = [vector[:NUM_LUMA].reshape(SHOT_LUMA_HW) for vector in (before, after)]
        alike = gradual.similarity(*lumas)
        return bool(np.abs(tints[0] - tints[1]).max() >= _MAX_TINT or alike <= self.settings.cut_max_similarity)

    def _frames(self, path: Path, start_s: float, end_s: float) -> Iterator[tuple[float, VideoFrame]]:
        """(time, frame) of every frame between both times; sought, and from the beginning where the index is wrong."""
        import av
        import av.error

        for is_sought in (True, False):
            with open_media(path) as container:
                stream = picture_stream(container)
                if is_sought:
                    try:
                        container.seek(int((self.clock.origin_s + start_s) * av.time_base))
                    except av.error.FFmpegError:
                        continue  # a format without an index
                is_first = True
                for frame in frames(container, stream):
                    if frame.time is None:
                        continue
                    time_s = frame.time - self.clock.origin_s
                    if is_first and is_sought and time_s > start_s + _SLACK_S:
                        break  # the index is wrong
                    is_first = False
                    if time_s > end_s:
                        return
                    if time_s >= start_s - _SLACK_S:
                        yield time_s, frame
                else:
                    return
