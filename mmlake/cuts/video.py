"""Clips of films: [start, end) as an MP4 of its own, exact to the frame.

Enters: a local film and a span whose ends are times of frames. Leaves: H.264 and AAC in an MP4 whose first frame is at
time 0, upright, with the frame times of the film; or, by the settings, the film's own packets from the keyframe at or
before the start. How many frames came out is counted in the clip itself: where seeking lost some, the film is decoded
from further ahead, and then from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from mmlake.cuts.runner import FAILED, IS_X86, as_file, run_ffmpeg
from mmlake.cuts.settings import CutSettings
from mmlake.errors import UnreadableItem
from mmlake.media.decoders import FORMATS, open_media, picture_stream, playable_sound
from mmlake.media.transport_clock import on_one_clock

# Frames are 100 us or more apart, while the start of a span is rounded to 1 us: from so much earlier on, its first
# frame is there and the one before it is not.
_EARLIER_S = 1e-4
# seconds that are decoded before the start: MPEG-TS has no index and lands behind the keyframe; two GOPs of television
_AHEAD_S = (0.0, 10.0)
_COPY_AHEAD_S = (0.0, 2.0, 10.0)
_AAC_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_COPIED = ("aac", "mp3", "ac3", "eac3", "alac", "flac", "opus")  # sound that an MP4 takes as it is
_WHAT = "the film"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A part of an item, as its unit names it."""

    digest: str  # of the unit
    parent_digest: str
    start_us: int  # from the item's beginning
    end_us: int
    start_frame: int | None = None  # films: the first shown frame, counted in the order in which frames are shown
    end_frame: int | None = None  # the one behind the last

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return (self.end_us - self.start_us) / 1e6

    @property
    def num_frames(self) -> int | None:
        """Frames of the film within; None where they were not counted."""
        if self.start_frame is None or self.end_frame is None:
            return None
        return self.end_frame - self.start_frame


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """What was cut."""

    media: str  # encode or copy, as it was done
    num_frames: int
    is_exact: bool  # these are the frames of the span: false for damaged films, and where packets were copied
    media_start_s: float  # from the medium's first picture to the span's start; 0 unless packets were copied


@dataclass(frozen=True, slots=True)
class _Streams:
    """What the film has."""

    picture: int  # indices
    sound: int | None
    decoding: dict[str, str]  # what the decoder of the pictures must know where it begins within the film
    sound_codec: str
    rate_hz: int
    num_channels: int
    origin_s: float
    lead_s: float  # from the film's first moment, which may be sound, to its first picture
    num_pixels: int  # of a picture


def cut_film(film: Path, out: Path, span: Span, *, settings: CutSettings) -> Clip:
    """The clip, written to `out`. Raises UnreadableItem 3001, 3003, 3102, 3103, 3303."""
    with on_one_clock(film) as readable:
        return _cut(readable, out, span, settings=settings)


def _cut(film: Path, out: Path, span: Span, *, settings: CutSettings) -> Clip:
    streams = _streams(film)
    settings = settings.of_picture(streams.num_pixels)
    if settings.media == "copy" and not streams.decoding:  # nobody could decode it without the film's first packet
        try:
            return _copied(film, out, span, streams, settings)
        except UnreadableItem:
            pass  # a codec that no MP4 takes
    return _encoded(film, out, span, streams, settings)


def _streams(film: Path) -> _Streams:
    with open_media(film) as container:
        sound = playable_sound(container)
        codec = sound.codec_context if sound is not None else None
        picture = picture_stream(container)
        build = picture.codec_context.options.get("x264_build")
        return _Streams(
            picture=picture.index,
            sound=sound.index if sound is not None else None,
            decoding={"x264_build": build} if build else {},
            sound_codec=codec.name if codec is not None else "",
            rate_hz=codec.sample_rate if codec is not None else 0,
            num_channels=codec.channels if codec is not None else 0,
            num_pixels=picture.width * picture.height,
            origin_s=(origin_s := (container.start_time or 0) / 1e6),
            lead_s=max(0.0, float((picture.start_time or 0) * (picture.time_base or 0)) - origin_s),
        )


def _input(film: Path, streams: _Streams, *, seek_s: float) -> Any:
    """The film as the first node of a graph. Playlists are no film: the program opens no other file than this one."""
    import ffmpeg

    options = streams.decoding | ({"ss": f"{seek_s:.6f}"} if seek_s > 0 else {})
    return ffmpeg.input(as_file(film), threads=1, format_whitelist=FORMATS, protocol_whitelist="file,pipe", **options)


def _output(nodes: list[Any], out: Path, **options: Any) -> Any:
    """An MP4 that says nothing of when, where and of what it was made, so that equal frames give equal bytes."""
    import ffmpeg

    plain = {"map_metadata": -1, "map_chapters": -1, "fflags": "+bitexact", "movflags": "+faststart", "threads": 1}
    return ffmpeg.output(*nodes, as_file(out), format="mp4", protocol_whitelist="file", **plain, **options)


def _encoded(film: Path, out: Path, span: Span, streams: _Streams, settings: CutSettings) -> Clip:
    """The frames encoded anew, by time, and where that gives another number of frames than the span has, by number."""
    start_s = span.start_us / 1e6
    wanted = span.num_frames
    for ahead_s in _AHEAD_S:
        seek_s = max(0.0, start_s - ahead_s - _EARLIER_S)
        picture = _input(film, streams, seek_s=seek_s)
        first_s = start_s - seek_s
        frames = picture[str(streams.picture)].filter(
            "trim", start=f"{first_s - _EARLIER_S:.6f}", end=f"{first_s + span.duration_s - _EARLIER_S:.6f}"
        )
        run_ffmpeg(_encoder(picture, frames, first_s, out, span, streams, settings), settings=settings, what=_WHAT)
        found = _num_frames(out)
        if found and found == (wanted or found):
            return Clip(media="encode", num_frames=found, is_exact=True, media_start_s=0.0)
        if seek_s <= 0:
            break
    picture = _input(film, streams, seek_s=0.0)
    frames = picture[str(streams.picture)]
    if wanted is not None:
        frames = frames.filter("trim", start_frame=span.start_frame, end_frame=span.end_frame)
    else:
        frames = frames.filter(
            "trim", start=f"{start_s - _EARLIER_S:.6f}", end=f"{start_s + span.duration_s - _EARLIER_S:.6f}"
        )
    run_ffmpeg(_encoder(picture, frames, start_s, out, span, streams, settings), settings=settings, what=_WHAT)
    if not (found := _num_frames(out)):
        raise UnreadableItem(FAILED, f"num_frames=0 from {start_s:.6f} s on, expected {wanted or 'some'}")
    return Clip(media="encode", num_frames=found, is_exact=found == (wanted or found), media_start_s=0.0)


def _encoder(
    picture: Any, frames: Any, first_s: float, out: Path, span: Span, streams: _Streams, settings: CutSettings
) -> Any:
    """The graph behind the frames. first_s: when the span begins on the clock of the input."""
    # H.264 in 4:2:0 has even sides: an odd one loses its last line
    lead = f"+{streams.lead_s:.6f}/TB" if not span.start_us and streams.lead_s < span.duration_s else ""
    nodes = [frames.filter("setpts", f"PTS-STARTPTS{lead}").filter("crop", "floor(iw/2)*2", "floor(ih/2)*2", 0, 0)]
    options: dict[str, Any] = {}
    if streams.sound is not None:
        # what is missing of the sound, also at both ends, is silence: it lasts as long as the picture
        rate_hz = streams.rate_hz if streams.rate_hz in _AAC_RATES_HZ else 48000
        sound = picture[str(streams.sound)].filter("atrim", start=f"{first_s:.6f}")
        sound = sound.filter("asetpts", f"PTS-{first_s:.6f}/TB")
        sound = sound.filter("aresample", rate_hz, **{"async": 1, "first_pts": 0})
        nodes.append(sound.filter("apad").filter("atrim", end=f"{span.duration_s:.6f}"))
        options = {"c:a": "aac", "b:a": settings.sound_bitrate, "ac": min(2, streams.num_channels)}
    options |= {
        "c:v": "libx264",
        "crf": settings.crf,
        "preset": settings.preset,
        "g": settings.keyframe_every_frames,
        "pix_fmt": "yuv420p",
        "fps_mode": "passthrough",  # the times of the film, also where they are not even
        "enc_time_base:v": "demux",
        "flags": "+bitexact",
    }
    if IS_X86:
        options["x264-params"] = "asm=sse4.2"
    return _output(nodes, out, **options)


def _copied(film: Path, out: Path, span: Span, streams: _Streams, settings: CutSettings) -> Clip:
    """The film's own packets from the keyframe at or before the start; sound from the start on."""
    start_s, listed = span.start_us / 1e6, out.with_suffix(".crc")
    for ahead_s in _COPY_AHEAD_S:
        seek_s = max(0.0, start_s - ahead_s)
        keyframe_s = _first_copied_s(film, listed, seek_s, streams, settings)
        if keyframe_s <= start_s + _EARLIER_S:
            break
    else:
        raise UnreadableItem(FAILED, f"no keyframe is found in the {ahead_s:g} s before {start_s:.6f} s")
    node = _input(film, streams, seek_s=seek_s)
    nodes: list[Any] = [node[str(streams.picture)]]
    options: dict[str, Any] = {"c:v": "copy"}
    if streams.sound is not None:
        nodes.append(node[str(streams.sound)])
        options |= {"c:a": "copy" if streams.sound_codec in _COPIED else "aac", "copypriorss:a": 0}
    length_s = span.duration_s + start_s - seek_s
    graph = _output(nodes, out, t=f"{length_s:.6f}", avoid_negative_ts="make_zero", **options)
    run_ffmpeg(graph, settings=settings, what=_WHAT)
    if not (found := _num_frames(out)):
        raise UnreadableItem(FAILED, f"num_frames=0 from {start_s:.6f} s on, expected {span.num_frames or 'some'}")
    return Clip(media="copy", num_frames=found, is_exact=False, media_start_s=max(0.0, round(start_s - keyframe_s, 6)))


def _first_copied_s(film: Path, listed: Path, seek_s: float, streams: _Streams, settings: CutSettings) -> float:
    """When the first picture is shown that the program copies from there on, on the item's clock: the same search
    gives the same packet. listed: a file for its answer."""
    import ffmpeg

    picture = _input(film, streams, seek_s=seek_s)[str(streams.picture)]
    graph = ffmpeg.output(picture, as_file(listed), format="framecrc", copyts=None, **{"c:v": "copy", "frames:v": 1})
    try:
        run_ffmpeg(graph, settings=settings, what=_WHAT)
        lines = listed.read_text(encoding="ascii").splitlines()
    finally:
        listed.unlink(missing_ok=True)
    try:
        tick_s = next(float(Fraction(line.rpartition(" ")[2])) for line in lines if line.startswith("#tb 0:"))
        shown = next(int(line.split(",")[2]) for line in lines if not line.startswith("#"))
    except (StopIteration, ValueError, IndexError) as error:
        raise UnreadableItem(FAILED, f"num_packets=0 from {seek_s:.6f} s on, expected some") from error
    return shown * tick_s - streams.origin_s


def _num_frames(clip: Path) -> int:
    """The pictures of the clip, counted without decoding them; 0 where it has none."""
    with open_media(clip) as container:
        if not container.streams.video:
            return 0
        return sum(1 for packet in container.demux(container.streams.video[0]) if packet.size)
