"""What the frames of a film leave behind as they stream by: signals, boundaries of shots, keyframes, small frames."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.film_decoders import EXIF, Film, turn_of
from mmlake.media.film_frames import FrameKeeper
from mmlake.preprocess.containers.container import FrameClock
from mmlake.preprocess.outputs import FRAMES, KEYFRAMES, Output, Outputs
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual.keyframes import Candidates, Keyframe
from mmlake.preprocess.visual.odd_frames import OddFrames
from mmlake.preprocess.visual.picture_faults import PictureFaults
from mmlake.preprocess.visual.planes import HeldFrame, displayed_size, oriented_size, signal, small_planes
from mmlake.preprocess.visual.shot_detectors import shot_detector
from mmlake.preprocess.visual.shots import Boundary
from mmlake.preprocess.visual.signals import SignalColumns

if TYPE_CHECKING:
    from av import VideoFrame


@dataclass(kw_only=True)
class FilmReader:
    """Takes frames in order of presentation and remembers only small things about them."""

    clock: FrameClock
    aspect: float  # width of a pixel over its height
    settings: PreprocessSettings
    outputs: Outputs = field(default_factory=Outputs)
    num_frames: int = 0
    end_s: float = 0.0
    _first_s: float = 0.0
    _last_s: float = 0.0
    _size: tuple[int, int] = (0, 0)
    _rotation: int = 0
    _is_mirrored: bool = False
    _duration: int = -1
    _length_s: float = 0.0
    _before: np.ndarray | None = None
    _signals: SignalColumns = field(default_factory=SignalColumns)

    def __post_init__(self) -> None:
        self._jpegs, self._small = self.outputs.begin(KEYFRAMES), self.outputs.begin(FRAMES)
        self._finder, self._candidates = shot_detector(self.settings), Candidates(self.settings, self._jpegs)
        self._faults, self._keeper, self._odd = PictureFaults(), FrameKeeper(self._small.file), OddFrames()
        # of each frame; arrays, since an hour has a hundred thousand
        self._times_s, self._moved, self._brighter = array("d"), array("f"), array("f")

    def start(self, film: Film, *, is_shrunk: bool) -> None:
        """Take what frames that another row decoded do not say: the size that is stored, and how it is turned."""
        self._size = (film.width_px, film.height_px)
        self._rotation, self._is_mirrored = film.rotation, film.is_mirrored
        self._faults.has_texture = not is_shrunk

    def _admitted(self, frame: VideoFrame) -> float:
        """When the next frame is shown. Raises UnreadableItem 3004, 3008 where it is too large, or one too many."""
        if frame.width * frame.height > self.settings.max_pixels:  # the size may change within a stream
            raise UnreadableItem(
                3004,
                f"num_pixels={frame.width * frame.height} in frame {self.num_frames} not in [1, "
                f"{self.settings.max_pixels}]",
            )
        if self.num_frames >= self.settings.max_frames:
            raise UnreadableItem(3008, f"num_frames={self.num_frames + 1} not in [1, {self.settings.max_frames}]")
        time_s = self.clock.time_of_frame(frame)
        if not self.num_frames:
            self._first_s = time_s
            if self._size == (0, 0):
                self._size, (self._rotation, self._is_mirrored) = (frame.width, frame.height), turn_of(frame)
        self.num_frames += 1
        return time_s

    def add(self, frame: VideoFrame) -> None:
        """Take the next frame."""
        time_s = self._admitted(frame)
        luma_HW, vector = small_planes(frame, self.settings.analysis_side_px)
        self._faults.add(luma_HW, vector, time_s)
        self._times_s.append(time_s)
        self._moved.append(self._faults.moved)
        self._brighter.append(self._faults.brighter)
        self._odd.add(time_s, vector, moved=self._faults.moved, brighter=self._faults.brighter)
        self._keeper.add(frame, time_s)
        self._finder.push(time_s, vector, luma_HW, frame)
        self._offer(self._candidates, frame, time_s, vector)
        # half a tenth of a millisecond covers rounded clocks, so that 8 of 24 frames are 3 apart and not 4
        if time_s >= self._signals.last_s + 1 / self.settings.analysis_rate_hz - 5e-5:
            self._signals.add(signal(luma_HW, vector, self._before, time_s=time_s) | self._faults.take(frame, luma_HW))
            self._before = vector
        self._last_s = max(self._last_s, time_s)
        if frame.duration != self._duration:  # fractions are slow, and most frames are as long as the one before
            self._duration = frame.duration
            time_base = frame.time_base if frame.duration else None
            self._length_s = self.clock.spacing_s if time_base is None else float(frame.duration * time_base)
        self.end_s = max(self.end_s, self.clock.end_of(time_s, self._length_s))

    def _offer(self, candidates: Candidates, frame: VideoFrame, time_s: float, vector: np.ndarray) -> None:
        settings = self.settings
        picture = HeldFrame(
            frame=frame,
            side_px=settings.keyframe_side_px,
            aspect=self.aspect,
            rotation=self._rotation,
            is_mirrored=self._is_mirrored,
            quality=settings.keyframe_quality,
        )
        candidates.offer(time_s, vector, picture)

    @property
    def last_s(self) -> float:
        """When the last frame is shown."""
        return self._last_s

    def kept_frames(self) -> Output | None:
        """The small frames of everything that came."""
        return self._small.whole() if self._keeper.finish() else None

    def odd_frames_s(self) -> list[float]:
        """When single frames are shown that do not belong between those around them."""
        return self._odd.finish()

    def _boundaries(self) -> list[Boundary]:
        return self._finder.finish()

    def finish(self) -> tuple[dict[str, object], list[Keyframe]]:
        """(columns, keyframes) of everything that came."""
        shots = _shots(self._boundaries(), self._first_s, self.end_s)
        width_px, height_px = oriented_size(*displayed_size(*self._size, self.aspect), self._rotation)
        rate = (self.num_frames - 1) / (self._last_s - self._first_s) if self._last_s > self._first_s else None
        columns: dict[str, object] = {
            "width_px": width_px,
            "height_px": height_px,
            "orientation": EXIF[self._rotation, self._is_mirrored],
            "num_frames": self.num_frames,
            "decoded": self.settings.decode,
            "duration_s": self.end_s,
            "frame_rate": rate,
            "shots": [
                {"start_s": start_s, "end_s": end_s, "transition": transition}
                for start_s, _, end_s, transition in shots
            ],
            "signals": self._signals.finish(),
        }
        if self._times_s:
            columns |= {
                "frame_times_s": np.array(self._times_s),
                "frame_motion": np.array(self._moved),
                "frame_light": np.array(self._brighter),
            }
        return columns, self._candidates.choose([(start_s, settled_s, end_s) for start_s, settled_s, end_s, _ in shots])


def _shots(found: list[Boundary], first_s: float, end_s: float) -> list[tuple[float, float, float, str]]:
    """(start, settled, end, transition) of each shot; together they cover the stream."""
    starts = [Boundary(first_s, first_s, "start"), *found]
    ends = [*(boundary.time_s for boundary in found), end_s]
    return [(start.time_s, start.settled_s, stop, start.transition) for start, stop in zip(starts, ends, strict=True)]
