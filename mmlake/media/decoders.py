"""How a file of sound or moving pictures is opened for a decoder, the same for every stage.

Enters: a local file whose bytes anybody may have made. Leaves: a PyAV container that can open no other file, or an
UnreadableItem. What is decoded and how much of it is the stages' business.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

from mmlake.border import is_machine_fault
from mmlake.errors import UnreadableItem
from mmlake.formats.media_containers import starts_as_mpeg_audio
from mmlake.media import ogg_pages
from mmlake.media.encryption import encrypted_streams, is_encrypted
from mmlake.media.file_views import view_of
from mmlake.media.high_dynamic_range import as_sdr
from mmlake.media.id3 import ID3_BYTES, id3_bytes
from mmlake.media.sound_conversion import Block, converted, gathered
from mmlake.media.stamps import Stamps
from mmlake.streams import Slice

if TYPE_CHECKING:
    import numpy as np
    from av import AudioFrame, VideoFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

# only self-contained formats: playlists (hls, dash, concat, ...) would make the decoder open any file or address they
# name
FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,wav,w64,flac,mp3,aac,ac3,eac3,aiff,"
    "caf,au,nistsphere,amr,h264,hevc,ivf,dv,gif"
)
# Without it a frame whose checksum does not hold gives other samples than were recorded; of HEVC, whose frames may
# carry one, the frame is given as well. Other codecs have no checksum, or are refused for less; of MP3 FFmpeg checks
# none.
_STRICT = {codec: {"err_detect": "crccheck+explode"} for codec in ("flac", "ac3", "eac3", "hevc")}
# The last packet of Apple Lossless says how many samples it has, and FFmpeg cuts off what it lacks once more.
_UNTRIMMED = {"flags2": "skip_manual"}
_X264 = re.compile(rb"x264 - core (\d{1,9})\b")
_FIRST_STANDARD_X264 = 151  # with chroma of full size
# Telephone sound has 8,000 and hydrophones 2,000. Below it one frame of a few bytes grows without bound when it is
# brought to 16 kHz: a FLAC of 55 bytes that claims 1 Hz becomes a billion samples.
MIN_SAMPLE_RATE_HZ = 1_000
# the highest rate that any converter is sold with; recordings of bats have 384,000
MAX_SAMPLE_RATE_HZ = 768_000
# of a WAV, which is searched for DTS and AC-3 in the guise of samples: with FFmpeg's own 5 MB that takes as long as
# decoding a minute
_WAV_PROBE_BYTES = 65_536
# of samples in one packet of a WAV: with FFmpeg's own 4,096 handing them on takes longer than converting them
_WAV_PACKET_BYTES = 65_536
_BLOCK_SAMPLES = 1 << 16
_MAX_PAGE_CHANNELS = 8  # of 2 million samples at most: all that Vorbis names
# as where the mono track is made (mmlake/preprocess/sound.py): time stamps jitter, a lost packet is a gap, and a
# broken clock is none
_TOLERANCE_S, _MAX_GAP_S = 0.02, 600.0


def open_media(path: Path) -> InputContainer:
    """The file as a PyAV container, which closes as a context. Raises UnreadableItem 3001 where no demuxer of the
    allowed formats opens it."""
    return _ready(path, None, path.stat().st_size)


@contextmanager
def open_link(path: Path, link: ogg_pages.Link) -> Iterator[InputContainer]:
    """One link of a chained Ogg file, as if it were the file: FFmpeg stops at a stream of another kind, rate or number
    of channels. Raises UnreadableItem 3001."""
    with path.open("rb") as file:
        part = Slice(file, link.at_byte, link.size_bytes)
        with _ready(path, part, link.size_bytes) as container:
            yield container


def sound_containers(path: Path) -> Iterator[InputContainer]:
    """The file, or each link of a chained Ogg file that has sound, open until the next one is asked for. Raises
    UnreadableItem 3001, 3003."""
    with path.open("rb") as file:
        links = ogg_pages.links(file)
    if len(links) < 2:
        with open_media(path) as container:
            yield container
    else:
        for _, container in _sound_links(path, links):
            yield container


def _sound_links(path: Path, links: list[ogg_pages.Link]) -> Iterator[tuple[ogg_pages.Link, InputContainer]]:
    num_links = 0
    for link in links:
        try:
            with open_link(path, link) as container:
                if sound_stream(container) is not None:
                    num_links += 1
                    yield link, container
        except UnreadableItem as error:
            if error.code != 3001:  # the track names the link that does not open
                raise
    if not num_links:
        raise UnreadableItem(3003, f"num_links=0 of {len(links)} of a chained Ogg file that have sound not in [1, inf)")


def _ready(path: Path, part: Slice | None, size_bytes: int) -> InputContainer:
    import av.error

    try:
        container = _opened(path, part)
    except (av.error.FFmpegError, ValueError, OSError) as error:
        if is_machine_fault(error):
            raise
        raise UnreadableItem(
            3001, f"size_bytes={size_bytes}, and no demuxer among the allowed formats opens them"
        ) from error
    for stream in (*container.streams.video, *container.streams.audio):
        if stream.codec_context is not None:
            stream.codec_context.thread_count = 1  # files are decoded side by side, one for each core
            codec = stream.codec_context.name
            stream.codec_context.options = _STRICT.get(codec, {}) | _of_old_x264(path, stream)
            if codec == "alac" and container.format.name == "caf":
                stream.codec_context.options |= _UNTRIMMED
    return container


def num_pixels(film: Path) -> int:
    """Pixels of a picture of the film, as its header says. Raises UnreadableItem 3001, 3003."""
    with open_media(film) as container:
        picture = picture_stream(container)
        return int(picture.width * picture.height)


def _of_old_x264(path: Path, stream: Stream) -> dict[str, str]:
    """Which x264 made a film with chroma of full size. Builds before 151 wrote such films as no standard has it; a
    decoder knows them by a message in the first packet, and begun at a later keyframe it shows green and grey."""
    import av.error

    codec = stream.codec_context
    if codec.name != "h264" or not str(getattr(codec, "pix_fmt", "")).startswith(("yuv444", "gbr", "yuvj444")):
        return {}
    message = _X264.search(codec.extradata or b"")
    if message is None:
        try:
            with _opened(path) as container:
                first = next((one for one in container.demux(container.streams[stream.index]) if one.size), None)
                message = None if first is None else _X264.search(bytes(first))
        except av.error.FFmpegError as error:
            if is_machine_fault(error):
                raise
    return {"x264_build": message[1].decode()} if message and int(message[1]) < _FIRST_STANDARD_X264 else {}


def _opened(path: Path, part: Slice | None = None) -> InputContainer:
    """part: of an Ogg file, in place of it."""
    import av

    options = {"format_whitelist": FORMATS if part is None else "ogg", "protocol_whitelist": "file"}
    if part is None and _is_wav(path):
        options |= {"probesize": str(_WAV_PROBE_BYTES), "max_size": str(_WAV_PACKET_BYTES)}
    # without "replace", one tag in Latin-1 loses the whole file
    source = view_of(path) or os.fspath(path) if part is None else part
    return av.open(source, "r", options=options, metadata_errors="replace")


def _is_wav(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(12)
    return head[:4] == b"RIFF" and head[8:] == b"WAVE"


def picture_stream(container: InputContainer) -> VideoStream:
    """The video stream that a player shows: of those that are no cover picture the one that is marked as default, and
    of several the largest, the first of equal ones. Raises UnreadableItem 3003."""
    from av.stream import Disposition

    found = [
        stream
        for stream in container.streams.video
        if stream.codec_context is not None and not stream.disposition & Disposition.attached_pic
    ]
    if not found:
        raise UnreadableItem(3003, f"num_video_streams=0 of {len(container.streams)} streams not in [1, inf)")
    return max(found, key=lambda stream: (_is_default(stream), stream.width * stream.height))


def sound_stream(container: InputContainer) -> AudioStream | None:
    """The sound stream that a player plays: of those that have a decoder, first those that it can begin with, the one
    that is marked as default, and of several the one with the most channels, the first of equal ones. None where there
    is none."""
    found = [stream for stream in container.streams.audio if stream.codec_context is not None]
    secret = encrypted_streams(container)
    return max(found, key=lambda one: (_begins(one, secret), _is_default(one), one.channels), default=None)


def playable_sound(container: InputContainer) -> AudioStream | None:
    """The same; None also where nothing of it can be decoded, as its header or its first packet shows, which is read.
    Programs that are asked for such sound give no film."""
    import av.error

    stream = sound_stream(container)
    if stream is None or not _begins(stream, secret := encrypted_streams(container)):
        return None
    try:
        packet = next(container.demux(stream), None)
    except av.error.FFmpegError:
        return stream
    return None if packet is not None and is_encrypted(packet, secret) else stream


def _begins(stream: AudioStream, secret: frozenset[int]) -> bool:
    """Whether the decoder takes what the header says of the stream, and the stream is none of the encrypted ones."""
    import av.error

    try:
        stream.codec_context.open(strict=False)
    except (av.error.FFmpegError, ValueError) as error:
        if is_machine_fault(error):
            raise
        return False
    return stream.index not in secret


def _is_default(stream: Stream) -> bool:
    from av.stream import Disposition

    return bool(stream.disposition & Disposition.default)


@overload
def frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]: ...
@overload
def frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]: ...
def frames(container: InputContainer, stream: VideoStream | AudioStream) -> Iterator[Any]:
    """The frames that decode. A damaged packet costs its own frames, and lost framing all that follow: how much is
    damaged was counted when the track was made."""
    import av.error

    packets, stamps = container.demux(stream), Stamps(container)
    while True:
        try:
            decoded = decode(next(packets))
        except StopIteration:
            return
        except (av.error.FFmpegError, ValueError) as error:
            if is_machine_fault(error):
                raise
            continue  # a demuxer that has raised has no more packets
        for frame in decoded:
            stamps.correct(frame)  # type: ignore[arg-type]  # a stream of pictures or sound has no subtitles
            yield frame


def decode(packet: Packet[Any]) -> list[Any]:
    """The frames that a packet completes. A tag before it, as where MP3s were laid end to end, is cut off: FFmpeg hands
    it on with the frame behind it, and decodes neither. Pictures are those of a standard screen
    (`high_dynamic_range`). Raises what the decoder does."""
    import av

    found: list[Any]
    is_sound = packet.stream.type == "audio" and packet.size > ID3_BYTES
    length = id3_bytes(bytes(memoryview(packet)[:ID3_BYTES])) if is_sound else 0
    if not 0 < length < packet.size:  # none, or nothing but a tag
        found = packet.decode()
        return [as_sdr(frame) for frame in found] if packet.stream.type == "video" else found
    untagged = av.Packet(bytes(packet)[length:])
    untagged.pts, untagged.dts, untagged.time_base = packet.pts, packet.dts, packet.time_base
    found = packet.stream.codec_context.decode(untagged)
    return found


def check_sample_rate(rate_hz: int, *, low_hz: int = MIN_SAMPLE_RATE_HZ, high_hz: int = MAX_SAMPLE_RATE_HZ) -> None:
    """Raises UnreadableItem 3006 where sound of that rate is not to be resampled."""
    if not low_hz <= rate_hz <= high_hz:
        raise UnreadableItem(3006, f"sample_rate_hz={rate_hz} not in [{low_hz}, {high_hz}]")


def placed_sound(path: Path, *, from_s: float = 0.0) -> Iterator[tuple[int, int, np.ndarray]]:
    """(rate in Hz, number of its first sample in the recording, block) in order, at the recording's own rate; what lies
    before `from_s` may be left out. Blocks are float32, shape (num_samples, num_channels), full scale 1. All links of
    a chained Ogg file come at the highest of their rates, with the most of their channels."""
    import soundfile

    with path.open("rb") as file:
        links, is_mpeg = ogg_pages.links(file), starts_as_mpeg_audio(file)
    if len(links) > 1:  # of which libsndfile reads the first one
        yield from _chained_sound(path, links)
        return
    if is_mpeg:  # libsndfile stops where the first frame says, and writes its complaints to stderr, past every log
        yield from _decoded_sound(path)
        return
    try:
        with soundfile.SoundFile(path) as sound:
            # codecs of telephones (GSM 06.10, G.721, G.723) are read from the start alone
            position = sound.seek(int(from_s * sound.samplerate)) if from_s > 0 and sound.seekable() else 0
            while len(block := sound.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                yield sound.samplerate, position, block
                position += len(block)
        return
    except soundfile.LibsndfileError:
        pass  # AAC, WMA, AMR, sound inside of video containers
    yield from _decoded_sound(path)


def one_page_sound(file: IO[bytes] | Slice) -> tuple[np.ndarray, int] | None:
    """(float32 of shape (num_samples, num_channels), rate in Hz) of Ogg Vorbis that one page holds; None of all else,
    and of what does not decode. FFmpeg takes the first packet, which gives no sound, for sound: what follows comes too
    late, and its end is cut off."""
    import soundfile

    if not ogg_pages.is_of_one_page(file):  # type: ignore[arg-type]
        return None
    file.seek(0)
    try:
        with soundfile.SoundFile(file) as sound:
            if sound.subtype != "VORBIS" or sound.channels > _MAX_PAGE_CHANNELS:
                return None
            return sound.read(dtype="float32", always_2d=True), sound.samplerate
    except (soundfile.LibsndfileError, RuntimeError, ValueError):
        return None


def _chained_sound(path: Path, links: list[ogg_pages.Link]) -> Iterator[Block]:
    kinds = []
    for _, container in _sound_links(path, links):
        stream = sound_stream(container)
        kinds += [] if stream is None else [(stream.codec_context.sample_rate, stream.codec_context.channels)]
    rate_hz, num_channels = map(max, zip(*kinds, strict=True))
    check_sample_rate(rate_hz)
    streams = (_link_blocks(path, link, container) for link, container in _sound_links(path, links))
    yield from gathered(converted(streams, rate_hz=rate_hz, num_channels=num_channels), _BLOCK_SAMPLES)


def _link_blocks(path: Path, link: ogg_pages.Link, container: InputContainer) -> Iterator[Block]:
    with path.open("rb") as file:
        page = one_page_sound(Slice(file, link.at_byte, link.size_bytes))
    if page is None:
        yield from _own_blocks(container)
    else:
        yield page[1], 0, page[0]


def _decoded_sound(path: Path) -> Iterator[Block]:
    with open_media(path) as container:
        yield from gathered(_blocks(container), _BLOCK_SAMPLES)


def _blocks(container: InputContainer) -> Iterator[Block]:
    """The sound at the rate, and with the channels, that it begins with."""
    blocks = _own_blocks(container)
    if (first := next(blocks, None)) is not None:
        rate_hz, _, block = first
        yield from converted([itertools.chain([first], blocks)], rate_hz=rate_hz, num_channels=block.shape[1])


def _own_blocks(container: InputContainer) -> Iterator[Block]:
    """The same, with the rate and the channels of each frame, which change where files were laid end to end. The number
    of the first sample is counted at that rate."""
    import av

    planar, position, kind = av.AudioResampler(format="fltp"), 0, (0, 0)
    origin_s = (container.start_time or 0) / av.time_base
    if (stream := sound_stream(container)) is None:
        raise UnreadableItem(3003, f"num_audio_streams=0 of {len(container.streams)} streams not in [1, inf)")
    for frame in frames(container, stream):
        rate_hz = frame.sample_rate
        if kind not in ((0, 0), (rate_hz, frame.layout.nb_channels)):
            planar, position = av.AudioResampler(format="fltp"), round(position * rate_hz / kind[0])
        kind = rate_hz, frame.layout.nb_channels
        if frame.time is not None:
            gap = round((frame.time - origin_s) * rate_hz) - position
            position += gap if _TOLERANCE_S * rate_hz < abs(gap) <= _MAX_GAP_S * rate_hz else 0
        for part in planar.resample(frame):
            block = part.to_ndarray().T
            yield rate_hz, position, block
            position += len(block)
