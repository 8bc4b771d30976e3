"""Video files: one decode that feeds signals, shot boundaries, keyframes and the sound track."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mmlake.decoders import picture_stream, sound_stream
from mmlake.errors import UnreadableItem
from mmlake.film_frames import FrameKeeper
from mmlake.preprocess.container import Decoding, FrameClock, check_complete, opened
from mmlake.preprocess.damage import add_bad_pages
from mmlake.preprocess.keyframes import Candidates, Keyframe
from mmlake.preprocess.picture_faults import PictureFaults
from mmlake.preprocess.planes import displayed_size, jpeg, oriented_size, pixel_aspect, signal, small_planes
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.shot_detectors import shot_detector
from mmlake.preprocess.shots import Boundary
from mmlake.preprocess.sound import SoundWriter, check_bounds

if TYPE_CHECKING:
    import numpy as np
    from av import VideoFrame


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoDecoded:
    """What one decode of a video gives: columns of its track, keyframes and sound whose bytes are not stored yet."""

    columns: dict[str, object]
    keyframes: list[Keyframe]
    flac: bytes | None
    frames: bytes | None  # small ones (`mmlake.film_frames`)


def video_track(path: Path, *, settings: PreprocessSettings) -> VideoDecoded:
    """The decoded video. Raises UnreadableItem 3001 to 3009."""
    import av

    with opened(path) as container:
        stream = picture_stream(container)
        num_pixels = stream.codec_context.width * stream.codec_context.height
        if num_pixels > settings.max_pixels:
            raise UnreadableItem(3004, f"num_pixels={num_pixels} not in [1, {settings.max_pixels}]")
        played = sound_stream(container)
        sounds = [] if played is None else [played]
        video_codec, audio_codec = (
            stream.codec_context.name,
            sounds[0].codec_context.name if sounds else None,
        )
        container_s = container.duration / 1e6 if container.duration is not None else None
        for one in sounds:
            check_bounds(one, container_s, settings=settings)  # before anything is decoded
        if stream.frames > settings.max_frames:
            raise UnreadableItem(3008, f"num_frames={stream.frames} not in [1, {settings.max_frames}]")
        clock = FrameClock(container, stream)
        reader = _Reader(clock=clock, aspect=pixel_aspect(stream.sample_aspect_ratio), settings=settings)
        decoding = Decoding(container, [stream, *sounds], origin_s=clock.origin_s)
        with SoundWriter(origin_s=clock.origin_s, settings=settings) as writer:
            for frame in decoding:
                if isinstance(frame, av.VideoFrame):
                    reader.add(frame)
                else:
                    writer.add(frame)
            sound = writer.finish()
    if not reader.num_frames:
        raise UnreadableItem(3001, f"num_frames=0 of {decoding.num_packets} packets decoded ({video_codec})")
    num_errors = decoding.num_errors + writer.num_dropped
    decoded_s = max(reader.end_s, sound[1] if sound else 0.0)
    writer.add_dropped(decoding.damages)
    num_bad_pages = add_bad_pages(decoding.damages, path, codec="", rate_hz=0)
    check_complete(
        decoded_s=decoded_s,
        container_s=container_s,
        num_errors=num_errors,
        num_packets=decoding.num_packets,
        num_bad_pages=num_bad_pages,
        settings=settings,
    )
    columns, keyframes = reader.finish()
    columns |= {
        "container_duration_s": container_s,
        "video_codec": video_codec,
        "num_decode_errors": num_errors,
        "damages": decoding.damages.column(),
    }
    if sound:
        columns |= {
            "audio_codec": audio_codec,
            "sample_rate_hz": writer.sample_rate_hz,
            "num_channels": writer.num_channels,
        }
    return VideoDecoded(
        columns=columns, keyframes=keyframes, flac=sound[0] if sound else None, frames=reader.kept_frames()
    )


@dataclass(kw_only=True)
class _Reader:
    """Takes frames in order of presentation and remembers only small things about them."""

    clock: FrameClock
    aspect: float  # width of a pixel over its height
    settings: PreprocessSettings
    num_frames: int = 0
    end_s: float = 0.0
    _first_s: float = 0.0
    _last_s: float = 0.0
    _size: tuple[int, int] = (0, 0)
    _rotation: int = 0
    _duration: int = -1
    _length_s: float = 0.0
    _before: np.ndarray | None = None
    _signals: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._finder, self._candidates = shot_detector(self.settings), Candidates(self.settings)
        self._faults, self._keeper = PictureFaults(), FrameKeeper()

    def add(self, frame: VideoFrame) -> None:
        """Take the next frame."""
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
            self._first_s, self._size, self._rotation = (
                time_s,
                (frame.width, frame.height),
                round(frame.rotation / 90) * 90,
            )
        self.num_frames += 1
        luma_HW, vector = small_planes(frame, self.settings.analysis_side_px)
        self._faults.add(luma_HW, vector, time_s)
        self._keeper.add(frame, time_s)
        self._finder.push(time_s, vector, luma_HW, frame)
        self._candidates.offer(
            time_s,
            vector,
            lambda: jpeg(
                frame,
                side_px=self.settings.keyframe_side_px,
                aspect=self.aspect,
                rotation=self._rotation,
                quality=self.settings.keyframe_quality,
            ),
            num_bytes=2 * frame.width * frame.height,
        )
        # half a tenth of a millisecond covers rounded clocks, so that 8 of 24 frames are 3 apart and not 4
        if not self._signals or time_s >= self._signals[-1]["time_s"] + 1 / self.settings.analysis_rate_hz - 5e-5:
            self._signals.append(
                signal(luma_HW, vector, self._before, time_s=time_s) | self._faults.take(frame, luma_HW)
            )
            self._before = vector
        self._last_s = max(self._last_s, time_s)
        if frame.duration != self._duration:  # fractions are slow, and most frames are as long as the one before
            self._duration = frame.duration
            time_base = frame.time_base if frame.duration else None
            self._length_s = self.clock.spacing_s if time_base is None else float(frame.duration * time_base)
        self.end_s = max(self.end_s, time_s + self._length_s)

    def kept_frames(self) -> bytes | None:
        """The small frames of everything that came."""
        return self._keeper.packed()

    def finish(self) -> tuple[dict[str, object], list[Keyframe]]:
        """(columns, keyframes) of everything that came."""
        shots = _shots(self._finder.finish(), self._first_s, self.end_s)
        width_px, height_px = oriented_size(*displayed_size(*self._size, self.aspect), self._rotation)
        rate = (self.num_frames - 1) / (self._last_s - self._first_s) if self._last_s > self._first_s else None
        columns: dict[str, object] = {
            "width_px": width_px,
            "height_px": height_px,
            "orientation": {0: 1, 90: 8, 180: 3, 270: 6}[self._rotation % 360],  # as EXIF spells the same turn
            "num_frames": self.num_frames,
            "duration_s": self.end_s - self._first_s,
            "frame_rate": rate,
            "shots": [
                {"start_s": start_s, "end_s": end_s, "transition": transition}
                for start_s, _, end_s, transition in shots
            ],
            "signals": self._signals,
        }
        return columns, self._candidates.choose([(start_s, settled_s, end_s) for start_s, settled_s, end_s, _ in shots])


def _shots(found: list[Boundary], first_s: float, end_s: float) -> list[tuple[float, float, float, str]]:
    """(start, settled, end, transition) of each shot; together they cover the stream."""
    starts = [Boundary(first_s, first_s, "start"), *found]
    ends = [*(boundary.time_s for boundary in found), end_s]
    return [(start.time_s, start.settled_s, stop, start.transition) for start, stop in zip(starts, ends, strict=True)]
