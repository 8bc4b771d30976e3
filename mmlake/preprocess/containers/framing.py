"""Whether a file of sound or pictures was cut off, as its own framing shows before anything is decoded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mmlake.media.mp4_samples import most_sample_bytes
from mmlake.media.wav_chunks import CAF, W64, Chunk, caf_chunks, w64_chunks, wav_chunks
from mmlake.preprocess.containers.bare_streams import mp3_header

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
_XING_SLACK_FRACTION = 0.01  # encoders disagree on whether the header's byte count takes in the tags


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
