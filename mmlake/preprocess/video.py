"""Video files: one decode that feeds signals, shot boundaries, keyframes and the sound track."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmlake.errors import UnreadableItem
from mmlake.film_decoders import PYAV, DecodeSettings, Film, Refused, pictures
from mmlake.media.decoders import open_link, picture_stream, sound_stream
from mmlake.media.high_dynamic_range import HLG, PQ
from mmlake.media.video_quantizer import EXPORT
from mmlake.preprocess.containers.bare_streams import is_of_a_pipe
from mmlake.preprocess.containers.container import (
    Decoding,
    FrameClock,
    check_complete,
    check_decrypted,
    claimed_s,
    opened,
)
from mmlake.preprocess.containers.later_files import add_later_files, first_link
from mmlake.preprocess.containers.stream_clocks import check_clock, is_of_a_counter
from mmlake.preprocess.damage import Damages, add_bad_pages
from mmlake.preprocess.outputs import Output, Outputs
from mmlake.preprocess.settings import ALL, KEYFRAMES, WITHOUT_PICTURE_S, PreprocessSettings
from mmlake.preprocess.sound import SoundWriter, check_bounds
from mmlake.preprocess.visual.film_reader import FilmReader
from mmlake.preprocess.visual.gops import GopReader
from mmlake.preprocess.visual.keyframes import Keyframe
from mmlake.preprocess.visual.planes import pixel_aspect

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

_PADDING_S = 0.15  # of sound in the last frame of an encoder: 1,024 samples of AAC at 8 kHz are .128 s
_HIDDEN_FRAMES = ("vp8", "libvpx")  # codecs with packets that are never shown


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoDecoded:
    """What one decode of a video gives: columns of its track, keyframes and sound that are not stored yet."""

    columns: dict[str, object]
    keyframes: list[Keyframe]
    flac: Output | None
    frames: Output | None  # small ones (`mmlake.media.film_frames`)


def video_track(
    path: Path, *, settings: PreprocessSettings, decode: DecodeSettings | None = None, outputs: Outputs | None = None
) -> VideoDecoded:
    """The decoded video; the default row decodes what the chosen one cannot, and the columns say why. Raises
    UnreadableItem 3001 to 3012, and SettingsError or MissingExtra where the chosen row cannot work here at all.

    outputs: of the item; in memory where there are none."""
    outputs = outputs or Outputs()
    if decode is None or decode.decoder == PYAV:
        return _decoded(path, settings, None, outputs)
    try:
        # keyframes alone are asked of the default row
        return _decoded(path, replace(settings, decode=ALL), decode, outputs)
    except Refused as refused:
        film = _decoded(path, settings, None, outputs)
        film.columns.update(fallback_code=refused.code, fallback_reason=refused.reason)
        return film


def _decoded(path: Path, settings: PreprocessSettings, decode: DecodeSettings | None, outputs: Outputs) -> VideoDecoded:
    """decode: by which row the pictures are decoded; None for the pass that decodes pictures and sound together."""
    import av

    with opened(path) as container:
        stream, played = picture_stream(container), sound_stream(container)
        stream.codec_context.options |= EXPORT
        sounds = [] if played is None else [played]
        video_codec, audio_codec = stream.codec_context.name, played.codec_context.name if played else None
        container_s = _claimed_s(path, container)
        _check_header(container, stream, played, container_s, settings)
        clock = FrameClock(container, stream)
        reader = _reader(stream, clock, settings, outputs)
        if decode is not None:
            _read(reader, path, stream, decode)
        counted = None if decode is None else stream
        seen = reader.see if isinstance(reader, GopReader) else None
        decoding = Decoding(container, [stream, *sounds], origin_s=clock.origin_s, counted=counted, seen=seen)
        with SoundWriter(origin_s=clock.origin_s, settings=settings, outputs=outputs) as writer:
            for frame in decoding:
                if isinstance(frame, av.VideoFrame):
                    reader.add(frame)
                else:
                    writer.add(frame)
            sound = writer.finish()
    check_decrypted("video", num_encrypted=decoding.num_encrypted, packets=decoding.packets, settings=settings)
    check_clock(path, decoding.clocks, decoding.num_astray, decoding.packets, settings=settings)
    if decode is not None and video_codec not in _HIDDEN_FRAMES:
        _check_count(decode, reader.num_frames, decoding.num_counted)
    if isinstance(reader, GopReader) and not reader.read_groups(path):
        return _decoded(path, replace(settings, decode=ALL), None, outputs)
    if not reader.num_frames:
        raise UnreadableItem(3001, f"num_frames=0 of {decoding.packets['video']} packets decoded ({video_codec})")
    sound_s = sound[1] if sound else 0.0
    decoded_s = max(reader.end_s, sound_s)
    writer.add_dropped(decoding.damages)
    add_later_files(decoding.damages, path, at_s=decoded_s, settings=settings)
    _add_places(decoding.damages, reader, sound_s=sound_s)
    judged = ("video", "audio") if sound else ("video",)  # a film without its sound is a film
    check_complete(
        decoded_s=decoded_s,
        container_s=container_s,
        num_errors=sum(decoding.errors[kind] for kind in judged) + writer.num_dropped,
        num_packets=sum(decoding.packets[kind] for kind in judged),
        num_bad_pages=add_bad_pages(decoding.damages, path, codec="", rate_hz=0),
        settings=settings,
    )
    columns, keyframes = reader.finish()
    columns |= {
        "duration_s": sound_s if sound_s > reader.end_s + _PADDING_S else reader.end_s,
        "container_duration_s": container_s,
        "video_codec": video_codec,
        "decoder": PYAV if decode is None else decode.decoder,
        "num_decode_errors": decoding.errors.total() + writer.num_dropped,
        "damages": decoding.damages.column(),
    }
    if sound:
        columns |= _of_sound(writer, audio_codec)
    flac = sound[0] if sound else None
    return VideoDecoded(columns=columns, keyframes=keyframes, flac=flac, frames=reader.kept_frames())


def _of_sound(writer: SoundWriter, codec: str | None) -> dict[str, object]:
    """The columns of a film that has sound."""
    return {"audio_codec": codec, "sample_rate_hz": writer.sample_rate_hz, "num_channels": writer.num_channels}


def _add_places(damages: Damages, reader: FilmReader, *, sound_s: float) -> None:
    """Note what is odd in pictures that decode: single frames, and sound that goes on where there are none."""
    if sound_s > reader.end_s + WITHOUT_PICTURE_S:
        behind = f"sound goes on for {sound_s - reader.end_s:.1f} s behind the last picture"
        damages.add(behind, at_s=reader.last_s)  # within the last clip that has a picture: the rest is a gap
    for at_s in reader.odd_frames_s():
        if not damages.has_near(at_s):
            damages.add("a frame does not belong between those before and behind it", at_s=at_s)


def _claimed_s(path: Path, container: InputContainer) -> float | None:
    if (link := first_link(path)) is None:
        return claimed_s(container)
    with open_link(path, link) as first:  # FFmpeg mixes its clock with that of the last one
        return claimed_s(first)


def _check_header(
    container: InputContainer,
    stream: VideoStream,
    played: AudioStream | None,
    container_s: float | None,
    settings: PreprocessSettings,
) -> None:
    """Raises UnreadableItem 3004, 3006, 3007, 3008 for what the header claims, before anything is decoded."""
    num_pixels = stream.codec_context.width * stream.codec_context.height
    if num_pixels > settings.max_pixels:
        raise UnreadableItem(3004, f"num_pixels={num_pixels} not in [1, {settings.max_pixels}]")
    if played is not None:
        check_bounds(played, None if is_of_a_counter(container) else container_s, settings=settings)
    if not is_of_a_pipe(container) and stream.frames > settings.max_frames:
        raise UnreadableItem(3008, f"num_frames={stream.frames} not in [1, {settings.max_frames}]")


def _check_count(decode: DecodeSettings, num_frames: int, num_packets: int) -> None:
    """Raises Refused where the chosen row gave another number of frames than the film has."""
    if num_frames != num_packets:
        raise Refused(3114, f"{decode.decoder} gave num_frames={num_frames}, the film has {num_packets}")


def _read(reader: FilmReader, path: Path, stream: VideoStream, decode: DecodeSettings) -> None:
    """All pictures of the film by the row that is chosen. Raises Refused."""
    if stream.codec_context.color_trc in (PQ, HLG):
        raise Refused(3113, f"{decode.decoder} gives pictures of high dynamic range as they are stored")
    film = Film.of(path)
    size = film.shrunk(decode.shrink_above_px)
    reader.start(film, is_shrunk=size is not None)
    with closing(pictures(film, size, settings=decode)) as shown:
        for picture in shown:
            reader.add(picture.as_frame(film.time_base))


def _reader(stream: VideoStream, clock: FrameClock, settings: PreprocessSettings, outputs: Outputs) -> FilmReader:
    """What takes the frames of the stream, of which only keyframes are decoded where the settings say so."""
    aspect = pixel_aspect(stream.sample_aspect_ratio)
    if settings.decode != KEYFRAMES:
        return FilmReader(clock=clock, aspect=aspect, settings=settings, outputs=outputs)
    stream.codec_context.skip_frame = "NONKEY"
    return GopReader(clock=clock, aspect=aspect, settings=settings, outputs=outputs)
