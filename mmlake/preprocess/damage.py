"""Damage that leaves most of an item decodable: where it is, and by what it was found.

Enters: what decoders say, and the checksums that formats carry. Leaves: places, the column `damages` of a track.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from mmlake.formats.matroska_checksums import EBML, bad_elements
from mmlake.media.ogg_pages import bad_pages
from mmlake.streams import Slice

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream

_MAX_PLACES = 1_000  # of one item; what has more is as damaged as that
_STREAM_INFO_BYTES = 34  # of FLAC, RFC 9639 section 8.2
MD5_AT_BYTE = 26  # of a FLAC file
_SLACK_S = 1e-3
_NEAR_S = 0.1
# samples per second that Ogg counts the time of these codecs in, where it is not their own rate
_GRANULES_HZ = {"opus": 48_000}
_PLAIN_GRANULES = ("vorbis", "flac", "speex", *_GRANULES_HZ)


@dataclass(frozen=True, slots=True)
class Damage:
    """One place."""

    what: str  # in our own words
    at_s: float | None = None  # from the item's beginning; None where only the byte is known
    at_byte: int | None = None  # of the item's bytes; None where only the time is known


@dataclass(slots=True)
class Damages:
    """The places found so far, at most _MAX_PLACES."""

    places: list[Damage] = field(default_factory=list)

    def add(self, what: str, *, at_s: float | None = None, at_byte: int | None = None) -> None:
        """Note one place."""
        if len(self.places) < _MAX_PLACES:
            self.places.append(Damage(what, at_s, at_byte))

    def add_all(self, others: Damages, *, at_s: float, at_byte: int) -> None:
        """Note the places of a part that begins there."""
        for one in others.places:
            place_s = None if one.at_s is None else at_s + one.at_s
            self.add(one.what, at_s=place_s, at_byte=None if one.at_byte is None else at_byte + one.at_byte)

    def has_near(self, at_s: float) -> bool:
        """Whether a place within a tenth of a second is known: decoders give frames some packets later."""
        return any(place.at_s is not None and abs(place.at_s - at_s) < _NEAR_S for place in self.places)

    def column(self) -> list[dict[str, object]]:
        """The value of the column `damages`: by time, then by byte; those without a time first."""
        ordered = sorted(self.places, key=lambda place: (place.at_s or 0.0, place.at_byte or 0))
        return [asdict(place) for place in ordered]


def add_bad_pages(damages: Damages, path: Path, *, codec: str, rate_hz: int) -> int:
    """The number of pages of an Ogg file that are not as they were written, each of them noted, as are elements of a
    Matroska file. codec, rate_hz: of its sound; for other streams only the byte is known."""
    with path.open("rb") as file:
        if (magic := file.read(4)) == EBML:
            for at_byte in bad_elements(file):
                damages.add("the checksum of a Matroska element does not hold", at_byte=at_byte)
        return add_pages(damages, file, codec=codec, rate_hz=rate_hz) if magic == b"OggS" else 0


def add_pages(
    damages: Damages, file: IO[bytes] | Slice, *, codec: str, rate_hz: int, origin_s: float | None = None
) -> int:
    """The same of an Ogg file, or a link of a chained one. origin_s: where its clock stands at its beginning."""
    num_pages = 0
    granules_hz = _GRANULES_HZ.get(codec, rate_hz) if codec in _PLAIN_GRANULES else 0
    for page in bad_pages(file):  # type: ignore[arg-type]
        at_s = page.granule / granules_hz if granules_hz else None
        if at_s is not None and origin_s is not None:
            at_s = max(0.0, at_s - origin_s)
        what = "the last packet is not whole" if page.is_missing else "the checksum of an Ogg page does not hold"
        damages.add(what, at_s=at_s, at_byte=page.at_byte)
        num_pages += 1
    return num_pages


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a FLAC file says of its sound before it begins."""

    has_one_block_size: bool
    bits: int
    num_samples: int  # 0: unknown
    md5: bytes  # zeros: unknown

    @classmethod
    def of(cls, stream: AudioStream) -> StreamInfo | None:
        """From the header that the demuxer hands on; None where the sound is no FLAC, or has no such header."""
        codec = stream.codec_context
        header = codec.extradata if codec is not None and codec.name == "flac" else None
        if header is None or len(header) != _STREAM_INFO_BYTES:
            return None
        packed = int.from_bytes(header[10:18], "big")
        return cls(header[:2] == header[2:4], (packed >> 36 & 31) + 1, packed & (1 << 36) - 1, bytes(header[18:34]))


class FlacCheck:
    """Takes all samples of a FLAC file in order, and compares them with the MD5 and the number in its header."""

    def __init__(self, info: StreamInfo) -> None:
        self.info = info
        self._md5, self._num_samples, self._end_s = hashlib.md5(usedforsecurity=False), 0, 0.0

    def add_frame(self, frame: AudioFrame, damages: Damages, *, origin_s: float) -> None:
        """Take the next frame, and note where sound is missing before it."""
        start_s = self._end_s if frame.time is None else frame.time - origin_s
        is_known = any((place.at_s or 0.0) >= self._end_s - _SLACK_S for place in damages.places[-1:])
        if start_s > self._end_s + _SLACK_S and not is_known:
            damages.add("sound is missing between two FLAC frames", at_s=self._end_s)
        self._end_s = start_s + frame.samples / frame.sample_rate
        num_channels = frame.layout.nb_channels
        if frame.format.is_planar:
            self.add(frame.to_ndarray().T)
        else:  # without a copy
            kind = np.dtype(f"i{frame.format.bytes}")
            values = np.frombuffer(frame.planes[0], kind, frame.samples * num_channels)  # type: ignore[call-overload]
            self.add(values.reshape(-1, num_channels))

    def add(self, values: np.ndarray) -> None:
        """Take integers that fill their type, shape (num_samples, num_channels)."""
        shift, num_bytes = values.dtype.itemsize * 8 - self.info.bits, (self.info.bits + 7) // 8
        if shift == 0 and num_bytes == values.dtype.itemsize and sys.byteorder == "little":
            self._md5.update(np.ascontiguousarray(values).data)
        else:
            wide = (np.ascontiguousarray(values) >> shift).astype("<i4")
            self._md5.update(wide.view(np.uint8).reshape(-1, 4)[:, :num_bytes].tobytes())
        self._num_samples += len(values)

    def holds(self) -> bool:
        """Whether these are all samples that were encoded, as far as the header says."""
        is_whole = self.info.num_samples in (0, self._num_samples)
        return is_whole and (not any(self.info.md5) or self._md5.digest() == self.info.md5)
