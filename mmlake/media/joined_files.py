"""Where a second file begins in a file, as `cat a.wav b.wav` makes it, of formats whose readers stop at the first one.

Enters: a file. Leaves: a place in it. Only headers are read: chunks of WAV, W64, CAF and AIFF, those of AU and NIST,
boxes of MP4 and QuickTime, tags of FLV, objects of ASF. Readers of MP3, AAC, AVI, GIF and MPEG go on, and so does that
of AMR (`file_views`) until its other kind comes; those of FLAC, Matroska and MPEG-TS meet a clock that begins anew.
"""

from __future__ import annotations

import re
import struct
from typing import IO

from mmlake.media.file_views import other_amr
from mmlake.media.wav_chunks import CAF, W64, caf_chunks, w64_chunks, wav_chunks

_FLV_HEAD, _FLV_HEAD_BYTES, _FLV_TAG = b"FLV\x01", 13, struct.Struct(">B3s")
_FLV_TAGS, _FLV_LEAST_BYTES = frozenset((8, 9, 18)), 11  # types; of a tag and the length behind it 4 more
_AU, _UNKNOWN = b".snd", 0xFFFF_FFFF
_ASF_HEAD = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_NIST, _NIST_HEAD_BYTES = b"NIST_1A\n", 1 << 16
_NIST_FIELD = re.compile(rb"^(sample_count|channel_count|sample_n_bytes) -i (\d{1,15})\s", re.MULTILINE)
_MAX_BOXES = 100_000  # of a file that was written in fragments


def second_file(file: IO[bytes]) -> int | None:
    """The byte at which a second file begins; None where there is none."""
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(16)
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return _in_wav(file, head[:4], size)
    if head[:4] == CAF or head == W64:
        chunks, name = (caf_chunks, CAF) if head[:4] == CAF else (w64_chunks, W64[:4])
        return next((chunk.at_byte for chunk in chunks(file, size) if chunk.name == name), None)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _behind(file, 8 + int.from_bytes(head[4:8], "big"), b"FORM", head[8:12])
    if head[:4] == _AU:
        start, length = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:12], "big")
        file.seek(start + length)
        return start + length if length != _UNKNOWN and file.read(4) == _AU else None
    if head[:4] == _FLV_HEAD:
        return _in_flv(file, size)
    if head == _ASF_HEAD:
        return _in_asf(file, size)
    if head[:8] == _NIST:
        return _in_nist(file)
    if head[:5] == b"#!AMR":
        return other_amr(file)
    return _in_mp4(file, size) if head[4:8] == b"ftyp" else None


def _behind(file: IO[bytes], end: int, name: bytes, form: bytes) -> int | None:
    """The file of that name and form behind a chunk that ends there, padded or not."""
    for at in (end, end + 1):
        file.seek(at)
        head = file.read(12)
        if head[:4] == name and head[8:] == form:
            return at
    return None


def _in_wav(file: IO[bytes], name: bytes, size: int) -> int | None:
    """Behind the data, or a second chunk of it: what stands there may count itself in the length of the whole."""
    has_data = False
    for chunk in wav_chunks(file, size):
        if has_data and chunk.name in (b"data", name):
            return chunk.at_byte
        if chunk.name == b"data":
            if chunk.size_bytes in (0, 0xFFFF_FFFF) or chunk.end_byte > size:
                return None  # up to the end
            has_data = True
            if (found := _behind(file, chunk.end_byte, name, b"WAVE")) is not None:
                return found
    return None


def _in_nist(file: IO[bytes]) -> int | None:
    """Behind the samples that a NIST SPHERE header counts; its second line says how long it is."""
    file.seek(0)
    head = file.read(_NIST_HEAD_BYTES)
    length = head[8:16].strip()
    numbers = {name: int(value) for name, value in _NIST_FIELD.findall(head)}
    if not length.isdigit() or len(numbers) < 3:
        return None
    end = int(length) + numbers[b"sample_count"] * numbers[b"channel_count"] * numbers[b"sample_n_bytes"]
    file.seek(end)
    return end if end < 1 << 62 and file.read(len(_NIST)) == _NIST else None


def _in_mp4(file: IO[bytes], size: int) -> int | None:
    """By a second file type with an index of its own; of a film that was written in fragments parts may have both."""
    at, num_indexes, starts = 0, 0, list[int]()
    for _ in range(_MAX_BOXES):
        file.seek(at)
        head = file.read(16)
        if len(head) < 8:
            break
        length, name = struct.unpack(">I4s", head[:8])
        if length == 1 and len(head) == 16:
            length = struct.unpack(">Q", head[8:])[0]
        if name == b"moof":
            return None
        starts += [at] if name == b"ftyp" else []
        num_indexes += name == b"moov"
        if length < 8 or at + length > size:
            break
        at += length
    return starts[1] if len(starts) > 1 and num_indexes > 1 else None


def _in_flv(file: IO[bytes], size: int) -> int | None:
    at = _FLV_HEAD_BYTES
    while at + _FLV_LEAST_BYTES <= size:
        file.seek(at)
        head = file.read(4)
        kind, length = _FLV_TAG.unpack(head)
        if kind & 0x1F not in _FLV_TAGS:
            return at if head == _FLV_HEAD else None
        at += _FLV_LEAST_BYTES + int.from_bytes(length, "big") + 4
    return None


def _in_asf(file: IO[bytes], size: int) -> int | None:
    at = 0
    for _ in range(_MAX_BOXES):
        file.seek(at)
        head = file.read(24)
        if len(head) < 24 or (at and head[:16] == _ASF_HEAD):
            return at if len(head) == 24 else None
        length = int.from_bytes(head[16:], "little")
        if length < 24 or at + length > size:
            return None
        at += length
    return None
