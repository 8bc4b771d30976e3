"""The chunks of WAV, CAF and W64, and those of WAV that break the rule that each begins at an even byte.

Enters: a file that begins as RIFF, RF64, CAF or W64 does. Leaves: places of chunks. Nothing of their content is read
but the sizes of 64 bits that RF64 has (EBU Tech 3306).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

CAF = b"caff"
W64 = bytes.fromhex("726966662e91cf11a5d628db04c10000")  # a GUID, in whose first bytes is "riff"
_HEAD, _HEAD_BYTES, _FORM_BYTES = struct.Struct("<4sI"), 8, 12
_CAF_HEAD, _CAF_FORM_BYTES = struct.Struct(">4sq"), 8
# W64's other names are alike but for their first four bytes; sizes take in the head, and chunks begin at multiples of 8
_W64_HEAD, _W64_FORM_BYTES, _W64_TAIL = struct.Struct("<16sq"), 40, bytes.fromhex("f3acd3118cd100c04f8edb8a")
_W64_UNKNOWN = 1 << 62  # and more: what writers to a pipe leave
_IN_DS64 = 0xFFFF_FFFF  # as a size: it stands in the chunk `ds64`
_MAX_CHUNKS = 100_000
# what stands before or behind the samples in files of recorders, editors and taggers
_NAMES = frozenset(
    b"fmt ,data,fact,LIST,bext,iXML,axml,chna,cue ,smpl,inst,plst,PEAK,JUNK,junk,PAD ,FLLR,id3 ,ID3 ,_PMX,cart".split(
        b","
    )
)


class Chunk(NamedTuple):
    """One chunk: its name, and from and up to which byte its content lies. Up to -1: to the end of the file."""

    name: bytes
    at_byte: int  # where its head begins
    start_byte: int
    end_byte: int  # before the byte that pads an odd one

    @property
    def size_bytes(self) -> int:
        """Of the content."""
        return self.end_byte - self.start_byte


def wav_chunks(file: IO[bytes], size: int) -> Iterator[Chunk]:
    """The chunks in the order of the file, at most 100,000; what the last one declares may lie beyond the end. A chunk
    of odd size is followed by one byte, which some writers forget: then the next one stands at the odd place."""
    at, data_bytes = _FORM_BYTES, None
    for _ in range(_MAX_CHUNKS):
        if at + _HEAD_BYTES > size:
            return
        file.seek(at)
        name, length = _HEAD.unpack(file.read(_HEAD_BYTES))
        if name == b"ds64" and length >= 16:
            data_bytes = int.from_bytes(file.read(16)[8:], "little")
        if name == b"data" and length == _IN_DS64 and data_bytes is not None:
            length = data_bytes
        chunk = Chunk(name, at, at + _HEAD_BYTES, at + _HEAD_BYTES + length)
        yield chunk
        at = chunk.end_byte + _padding(file, chunk)


def caf_chunks(file: IO[bytes], size: int) -> Iterator[Chunk]:
    """The chunks of a CAF file, and as one more the head of a file that begins behind them, with what follows."""
    at = _CAF_FORM_BYTES
    for _ in range(_MAX_CHUNKS):
        if at + _CAF_HEAD.size > size:
            return
        file.seek(at)
        name, length = _CAF_HEAD.unpack(file.read(_CAF_HEAD.size))
        start = at + _CAF_HEAD.size
        is_open = length < 0 or name == CAF  # the last one alone may be
        yield Chunk(name, at, start, -1 if is_open else start + length)
        if is_open:
            return
        at = start + length
        if length & 1:  # libsndfile pads the last chunk, which CAF knows nothing of
            file.seek(at)
            at += file.read(5)[1:] == CAF


def w64_chunks(file: IO[bytes], size: int) -> Iterator[Chunk]:
    """The same of a W64 file; the head of another file is named "riff"."""
    at = _W64_FORM_BYTES
    for _ in range(_MAX_CHUNKS):
        if at + _W64_HEAD.size > size:
            return
        file.seek(at)
        guid, length = _W64_HEAD.unpack(file.read(_W64_HEAD.size))
        if guid != W64 and guid[4:] != _W64_TAIL:
            return
        start = at + _W64_HEAD.size
        is_open = not _W64_HEAD.size <= length < _W64_UNKNOWN or guid == W64
        yield Chunk(guid[:4], at, start, -1 if is_open else at + length)
        if is_open:
            return
        at += -(-length // 8) * 8


def forgotten_padding(file: IO[bytes], size: int) -> list[int]:
    """Where a byte is missing before the samples, in the order of the file; none where no samples are found."""
    places: list[int] = []
    last: Chunk | None = None
    for chunk in wav_chunks(file, size):
        if last is not None and last.size_bytes & 1 and chunk.at_byte == last.end_byte:
            places.append(chunk.at_byte)
        if chunk.name == b"data":
            return places
        last = chunk
    return []


def _padding(file: IO[bytes], chunk: Chunk) -> int:
    """Of a chunk of odd size; 0 where the name of a chunk stands right behind it, and none a byte later."""
    if not chunk.size_bytes & 1:
        return 0
    file.seek(chunk.end_byte)
    behind = file.read(5)
    return 0 if behind[:4] in _NAMES and behind[1:] not in _NAMES else 1
