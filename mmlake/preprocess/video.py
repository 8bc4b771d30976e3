"""Video files: one decode that feeds signals, shot boundaries, keyframes and the sound track."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmlake.decoders import picture_stream, sound_stream
from mmlake.errors import UnreadableItem
from mmlake.preprocess.container import Decoding, FrameClock, check_complete, opened
from mmlake.preprocess.damage import add_bad_pages
from mmlake.preprocess.film_reader import FilmReader
from mmlake.preprocess.gops import GopReader
from mmlake.preprocess.keyframes import Keyframe
from mmlake.preprocess.planes import pixel_aspect
from mmlake.preprocess.settings import ALL, KEYFRAMES, PreprocessSettings
from mmlake.preprocess.sound import SoundWriter, check_bounds

if TYPE_CHECKING:
    from av.video.stream import VideoStream


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
        _check_size(stream, settings)
        played = sound_stream(container)
        sounds = [] if played is None else [played]
        video_codec, audio_codec = stream.codec_context.name, sounds[0].codec_context.name if sounds else None
        container_s = container.duration / 1e6 if container.duration is not None else None
        for one in sounds:
            check_bounds(one, container_s, settings=settings)  # before anything is decoded
        clock = FrameClock(container, stream)
        reader = _reader(stream, clock, settings)
        seen = reader.see if isinstance(reader, GopReader) else None
        decoding = Decoding(container, [stream, *sounds], origin_s=clock.origin_s, seen=seen)
        with SoundWriter(origin_s=clock.origin_s, settings=settings) as writer:
            for frame in decoding:
                if isinstance(frame, av.VideoFrame):
                    reader.add(frame)
                else:
                    writer.add(frame)
            sound = writer.finish()
    if isinstance(reader, GopReader) and not reader.read_groups(path):
        return video_track(path, settings=replace(settings, decode=ALL))
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


def _check_size(stream: VideoStream, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3004, 3008 where the header says that a film is too large."""
    num_pixels = stream.codec_context.width * stream.codec_context.height
    if num_pixels > settings.max_pixels:
        raise UnreadableItem(3004, f"num_pixels={num_pixels} not in [1, {settings.max_pixels}]")
    if stream.frames > settings.max_frames:
        raise UnreadableItem(3008, f"num_frames={stream.frames} not in [1, {settings.max_frames}]")


def _reader(stream: VideoStream, clock: FrameClock, settings: PreprocessSettings) -> FilmReader:
    """What takes the frames of the stream, of which only keyframes are decoded where the settings say so."""
    aspect = pixel_aspect(stream.sample_aspect_ratio)
    if settings.decode != KEYFRAMES:
        return FilmReader(clock=clock, aspect=aspect, settings=settings)
    stream.codec_context.skip_frame = "NONKEY"
    return GopReader(clock=clock, aspect=aspect, settings=settings)
