"""Opening audio and video files, decoding them with their damage noted, and the clock of their frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import decode, open_media
from mmlake.media.encryption import encrypted_streams, is_encrypted
from mmlake.media.stamps import Stamps
from mmlake.preprocess.containers.bare_streams import is_of_a_pipe, is_without_length
from mmlake.preprocess.containers.framing import missing_bytes
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

_DAMAGED_FRACTION = 0.5  # of `min_decoded_fraction`, where it is known why less decodes: one page of Opus is a second
_HEADER_SLACK_S = 0.5  # more than any header rounds; writers state the last frame as long as the rate that they had
_OPUS_HZ = 48_000  # of all its clocks


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
        # where MP4 says that the pictures end: the lengths of its frames are those between times of decoding
        base, is_mp4 = stream.time_base, container.format.name.startswith("mov")
        end = None if base is None or not stream.duration else ((stream.start_time or 0) + stream.duration) * base
        self._stated_end_s = math.inf if end is None or not is_mp4 else float(end) - self.origin_s

    def end_of(self, time_s: float, length_s: float) -> float:
        """When a frame that is shown from then on, for as long as its container says, ends."""
        end_s = time_s + length_s
        return self._stated_end_s if time_s < self._stated_end_s < end_s - _HEADER_SLACK_S else end_s

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
