"""Opening audio and video files, and detecting from their framing whether they were cut off."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import decode, open_media
from mmlake.media.encryption import encrypted_streams, is_encrypted
from mmlake.media.mp4_samples import most_sample_bytes
from mmlake.media.stamps import Stamps
from mmlake.media.wav_chunks import CAF, W64, Chunk, caf_chunks, w64_chunks, wav_chunks
from mmlake.preprocess.containers.bare_streams import is_of_a_pipe, is_without_length, mp3_header
from mmlake.preprocess.containers.stream_clocks import Beginning, StreamClocks
from mmlake.preprocess.damage import Damages
from mmlake.preprocess.settings import PreprocessSettings

if TYPE_CHECKING:
    from av import AudioFrame, VideoFrame
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

_PLAYLIST_HEADS = (
    b"#extm3u",
    b"ffconcat",
    b"[playlist]",
    b"[reference]",
    b"rtsptext",
    b"<asx",
    b"<smil",
    b"<mpd",
    b"<smoothstreamingmedia",
    b"<?xml",
    b"<?wpl",
    b"v=0\r\n",
    b"v=0\n",
    b"#!",
)
_AMR = b"#!AMR"  # sound, for all that it begins as a script does

_MP4_TOP = frozenset(
    (
        b"ftyp",
        b"moov",
        b"mdat",
        b"free",
        b"skip",
        b"wide",
        b"moof",
        b"sidx",
        b"uuid",
        b"styp",
        b"mfra",
        b"pdin",
        b"emsg",
        b"meta",
        b"prft",
        b"ssix",
        b"udta",
    )
)
_DAMAGED_FRACTION = 0.5  # of `min_decoded_fraction`, where it is known why less decodes: one page of Opus is a second
_OPUS_HZ = 48_000  # of all its clocks
_XING_SLACK_FRACTION = 0.01  # encoders disagree on whether the header's byte count takes in the tags


@contextmanager
def opened(path: Path) -> Iterator[InputContainer]:
    """The file as a PyAV container. Raises UnreadableItem 3005 for playlists, 3002 where it was cut off, 3001 for
    everything else that does not open."""
    with path.open("rb") as file:
        head = file.read(512)
    is_playlist = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PLAYLIST_HEADS)
    if is_playlist and not head.startswith(_AMR):
        raise UnreadableItem(
            3005,
            f"the file begins with {head[:8]!r}, which names other files to open; formats that may be opened hold "
            "their own media",
        )
    if shortfall := missing_bytes(path):  # known before anything is decoded
        raise UnreadableItem(3002, shortfall)
    with open_media(path) as container:
        yield container


def missing_bytes(path: Path) -> str | None:
    """What the file's own framing declares beyond its end, in words with numbers; None where nothing is missing or
    nothing is declared."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(16)
        if head[:4] == b"RIFF":
            return _riff(file, size)
        if head[:4] == CAF:
            return _data_chunk("CAF", caf_chunks(file, size), size)
        if head == W64:
            return _data_chunk("W64", w64_chunks(file, size), size)
        if head[4:8] in _MP4_TOP:
            return _mp4(file, size)
        if head[:4] == b"\x1aE\xdf\xa3":
            return _matroska(file, size)
        if head[:4] == b"OggS":
            return _ogg(file, size)
        if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0):
            return _mp3(file, size)
    return None


def _short(what: str, declared: int, present: int) -> str | None:
    return f"{what}: present_bytes={present} not in [{declared}, inf)" if present < declared else None


def _riff(file: IO[bytes], size: int) -> str | None:
    """WAV by its data chunk, AVI by its whole."""
    file.seek(0)
    head = file.read(12)
    if head[8:12] != b"WAVE":
        declared = struct.unpack("<I", head[4:8])[0] + 8
        return None if declared >= 0xFFFF_FF00 else _short("RIFF chunk", declared, size)
    for chunk in wav_chunks(file, size):
        if chunk.name == b"data":
            # some writers count the header in: they give the size of the file, or what the RIFF chunk has
            length = chunk.size_bytes
            is_counted = not _is_unknown(length) and length not in (size, size - 8)
            return _short("WAV data chunk", length, size - chunk.start_byte) if is_counted else None
    return "WAV header: no data chunk before the end of the file"


def _data_chunk(what: str, chunks: Iterator[Chunk], size: int) -> str | None:
    """By the chunk of samples; None where it goes on to the end of the file, or there is none."""
    found = next((chunk for chunk in chunks if chunk.name == b"data"), None)
    if found is None or found.end_byte < 0:
        return None
    return _short(f"{what} data chunk", found.size_bytes, size - found.start_byte)


def _is_unknown(length: int) -> bool:
    """Whether the size of a chunk is what writers to a pipe leave: nothing (mpg123), all ones (ffmpeg), or about the
    largest signed one: 7FFFFFFF (lame, opusdec), 7FFFF000 (espeak-ng, MPlayer), 7FFF0000 (GStreamer), and one more
    (arecord)."""
    return length == 0 or length >= 0xFFFF_FF00 or 0x7FFF_0000 <= length <= 0x8000_0000


def _mp4(file: IO[bytes], size: int) -> str | None:
    position = 0
    names: set[bytes] = set()
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length, name = struct.unpack(">I4s", head[:8])
        if names and name not in _MP4_TOP:
            break  # bytes behind the last box are nobody's promise
        names.add(name)
        if length == 1 and len(head) == 16:
            length = struct.unpack(">Q", head[8:16])[0]
        if length == 0:  # up to the end of the file, by definition
            break
        if length < 8:
            return None  # no box structure: left to the demuxer
        if short := _short(f"MP4 box {name.decode('latin-1')!r}", length, size - position):
            return short
        if name == b"moov" and (
            short := _short("MP4 samples", most_sample_bytes(file, position, position + length), size)
        ):
            return short
        position += length
    return None if names & {b"moov", b"moof"} else "MP4 boxes: the index (moov) is not there"


def _matroska(file: IO[bytes], size: int) -> str | None:
    """By the size of the Segment, unless it was written to a pipe (unknown size)."""
    file.seek(4)
    length, width = _vint(file.read(8))
    position = 4 + width + length
    if short := _short("EBML header", length, size - 4 - width):
        return short
    file.seek(position)
    head = file.read(12)
    if head[:4] != b"\x18\x53\x80\x67":
        return None
    length, width = _vint(head[4:])
    unknown = (1 << (7 * width)) - 1
    return None if length == unknown else _short("Matroska segment", length, size - position - 4 - width)


def _vint(data: bytes) -> tuple[int, int]:
    """(value, bytes used) of an EBML number."""
    if not data or data[0] == 0:
        return 0, 1
    width = 9 - data[0].bit_length()
    return int.from_bytes(bytes([data[0] & (0xFF >> width)]) + data[1:width], "big"), width


def _ogg(file: IO[bytes], size: int) -> str | None:
    """By the last page, which must be whole. It carries an end mark where its writer was stopped in order; recorders
    and live streams may leave that out, and nothing is missing then."""
    tail_size = min(size, 2 * 65_307)  # a page is at most 65,307 bytes
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    at = tail.rfind(b"OggS\x00")
    if at < 0 or len(tail) - at < 27:
        return "Ogg: no whole page at the end of the file"
    num_segments = tail[at + 26]
    declared = 27 + num_segments + sum(tail[at + 27 : at + 27 + num_segments])
    return _short("Ogg page", declared, len(tail) - at)


def _mp3(file: IO[bytes], size: int) -> str | None:
    """By the byte count of a Xing or Info header, where the encoder wrote one."""
    start, header, flags = mp3_header(file)
    if not flags & 2:
        return None
    declared = struct.unpack(">I", header[8 + 4 * (flags & 1) :][:4])[0]
    return _short("MP3 header", int(declared * (1 - _XING_SLACK_FRACTION)), size - start)


def claimed_s(container: InputContainer) -> float | None:
    """How long the header says that the media last; None where it does not say."""
    if container.duration is None or is_without_length(container) or is_of_a_pipe(container):
        return None
    # Matroska and Ogg have the time at which the last frame ends, others the time from the first to there: who joins a
    # broadcast in the middle records no beginning
    has_end = "matroska" in container.format.name or container.format.name == "ogg"
    start = max(0, container.start_time or 0) if has_end else 0
    return max(0.0, (container.duration - start) / 1e6 - _skipped_s(container))


def _skipped_s(container: InputContainer) -> float:
    """How much at the start of Opus in Ogg is decoded and not played, which its last time counts in (RFC 7845, section
    4.2): what a cut there needs, seconds of it where a sample was cut to."""
    if container.format.name != "ogg":
        return 0.0
    heads = (one.codec_context.extradata or b"" for one in container.streams.audio if one.codec_context is not None)
    skipped = (int.from_bytes(head[10:12], "little") for head in heads if head.startswith(b"OpusHead"))
    return max(skipped, default=0) / _OPUS_HZ


def check_complete(
    *,
    decoded_s: float,
    container_s: float | None,
    num_errors: int,
    num_packets: int,
    num_bad_pages: int = 0,
    settings: PreprocessSettings,
) -> None:
    """Raises UnreadableItem 3002 where the decoded stream is well short of the header's duration or too many packets
    are damaged. num_bad_pages: of Ogg, whose checksum says why some is missing."""
    if num_packets and num_errors / num_packets > settings.max_decode_error_fraction:
        raise UnreadableItem(
            3002,
            f"decode_error_fraction={num_errors / num_packets:.3f} ({num_errors} of {num_packets} packets) not in "
            f"[0, {settings.max_decode_error_fraction}]",
        )
    low = settings.min_decoded_fraction * (_DAMAGED_FRACTION if num_bad_pages else 1.0)
    # half a second is more than any header rounds, and matters only for very short clips
    if container_s is not None and decoded_s < low * container_s and container_s - decoded_s > 0.5:
        raise UnreadableItem(
            3002,
            f"decoded_fraction={decoded_s / container_s:.3f} ({decoded_s:.2f} of {container_s:.2f} s) not in "
            f"[{low:g}, inf)",
        )


def check_decrypted(
    kind: str, *, num_encrypted: Counter[str], packets: Counter[str], settings: PreprocessSettings
) -> None:
    """Raises UnreadableItem 3010 where more packets of that type of stream are encrypted than may be damaged."""
    if num_encrypted[kind] > settings.max_decode_error_fraction * packets[kind]:
        raise UnreadableItem(3010, f"num_encrypted={num_encrypted[kind]} of {packets[kind]} {kind} packets")


class Decoding:
    """Frames of the chosen streams, packet by packet, with the damage noted instead of raised."""

    def __init__(
        self,
        container: InputContainer,
        streams: list[Stream],
        *,
        origin_s: float = 0.0,
        counted: Stream | None = None,
        seen: Callable[[Packet[Any]], None] | None = None,
    ) -> None:
        """counted: one of the streams, whose packets are counted and not decoded. seen: takes every packet before it is
        decoded."""
        self._container, self._streams, self._origin_s = container, streams, origin_s
        self._counted, self.num_counted, self._seen = counted, 0, seen
        # by type of stream: all packets, those that do not decode, and of these the encrypted ones and those of another
        # clock
        self.packets, self.errors = Counter[str](), Counter[str]()
        self.num_encrypted, self.num_astray = Counter[str](), Counter[str]()
        self.num_bytes = 0  # of packets that decode
        self.damages = Damages()
        self._last: Packet[Any] | None = None  # that has a time
        self._stamps, self._encrypted = Stamps(container), encrypted_streams(container)
        self.clocks, self._beginning = StreamClocks(container, streams), Beginning()
        # Matroska has no times before 0: the pictures before the first that has one are those that an edit list hides
        self._late = {
            stream.index
            for stream in streams
            if stream.type == "video" and stream.start_time is not None and "matroska" in container.format.name
        }

    def __iter__(self) -> Iterator[VideoFrame | AudioFrame]:
        import av.error

        packets = self._container.demux(*self._streams)
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except (av.error.FFmpegError, ValueError):
                self._damaged("the framing is lost: nothing after this is found", self._streams[0].type)
                return
            kind = packet.stream.type
            self.packets[kind] += packet.size > 0  # the empty packets at the end only flush
            is_astray = packet.size > 0 and self.clocks.is_astray(packet)
            if packet.pts is not None and not is_astray:  # whose time is of another clock
                self._last = packet
            if self._seen is not None:
                self._seen(packet)
            if packet.size and is_encrypted(packet, self._encrypted):
                self.num_encrypted[kind] += 1  # some codecs make noise of it, without a complaint
                self._damaged(f"a packet of {kind} is encrypted", kind, packet.pos)
                continue
            if is_astray:
                self.num_astray[kind] += 1  # a decoder would give frames of two moments that have one time
                self._damaged(f"a packet of {kind} lies behind a jump of the clock", kind, packet.pos)
                continue
            if packet.stream is self._counted:
                self.num_counted += packet.size > 0 and not packet.is_discard
                continue
            if not packet.size and packet.pts is not None:
                continue  # Theora: the picture before is shown once more; FFmpeg takes no empty packet that has a time
            needs_earlier = self._beginning.needs_earlier(packet)
            try:
                frames = decode(packet)
            except (av.error.FFmpegError, ValueError):
                if not needs_earlier:
                    self._damaged(f"a packet of {kind} does not decode", kind, packet.pos)
                continue
            self.num_bytes += packet.size
            for frame in frames:
                self._stamps.correct(frame)
                if packet.stream.index in self._late:
                    if frame.pts is None:  # type: ignore[union-attr]
                        continue
                    self._late.discard(packet.stream.index)
                # only video and audio streams were asked for
                if frame.is_corrupt:  # type: ignore[union-attr]
                    self._damaged(f"a frame of {kind} is damaged", kind, packet.pos)
                yield frame  # type: ignore[misc]

    def _damaged(self, what: str, kind: str, at_byte: int | None = None) -> None:
        self.errors[kind] += 1
        last, at_s = self._last, 0.0
        if last is not None and last.pts is not None and last.time_base is not None:
            at_s = max(0.0, float(last.pts * last.time_base) - self._origin_s)
        self.damages.add(what, at_s=at_s, at_byte=at_byte if at_byte is not None and at_byte >= 0 else None)


class FrameClock:
    """Seconds from the container's start of the frames of one stream, taken in order of presentation."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self.origin_s, self.stamps = (container.start_time or 0) / 1e6, Stamps(container)
        # frame distance where the stream gives no time stamps
        self.spacing_s = float(1 / stream.average_rate) if stream.average_rate else 0.04
        self._last_s = 0.0
        self._num_frames = 0

    def time_of(self, pts: int | None, time_base: Fraction | None) -> float:
        """When the next frame is shown; without a time stamp, one frame distance after the latest so far."""
        return self._next(None if pts is None or time_base is None else float(pts * time_base))

    def time_of_frame(self, frame: VideoFrame) -> float:
        """The same for a decoded frame."""
        return self._next(frame.time)  # without making a fraction of its time base

    def _next(self, stamp_s: float | None) -> float:
        if stamp_s is not None:
            time_s = stamp_s - self.origin_s
        else:
            time_s = self._last_s + self.spacing_s if self._num_frames else 0.0
        self._last_s = max(self._last_s, time_s)
        self._num_frames += 1
        return time_s
