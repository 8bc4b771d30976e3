"""The bytes of a zip's member, expanded in bounded pieces and held against the size and the CRC-32 that the archive
states."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from typing import IO, Any, Protocol

from mmlake.errors import UnreadableItem
from mmlake.formats import zip as zip_format
from mmlake.formats.compression import MAX_WINDOW_BYTES, expanded
from mmlake.formats.zip import ZipMember
from mmlake.streams import Seekable, Slice

# packed bytes taken at a time: at deflate's limit of 1:1032 they give 16 MB, which are asked for in pieces
_INPUT_BYTES = 1 << 14
_SKIP_BYTES = 1 << 18
_BUFFER_BYTES = 8192
_MARKED = 2  # flag: the LZMA stream has a mark at its end


def opened(file: IO[bytes], member: ZipMember, start: int) -> io.BufferedReader:
    """The member's bytes, for reading and seeking. start: where they begin in the file, as they are packed.

    Reading raises UnreadableItem: 1003 where the packed bytes are damaged, 1010 where they are not what the archive
    states, 1002 where the file ends.
    """
    return io.BufferedReader(_Body(file, member, start), _BUFFER_BYTES)


def unpacked(packed: bytes, member: ZipMember) -> bytes:
    """All bytes of a small member. Raises UnreadableItem as reading them does."""
    if member.method == zip_format.STORED:
        data = packed
    elif member.method == zip_format.DEFLATED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = unpacker.decompress(packed, member.size_bytes + 1)
        except zlib.error as error:
            raise _damaged(0) from error
        if len(data) <= member.size_bytes and (not unpacker.eof or unpacker.unused_data):
            raise _damaged(len(data))
    else:
        return opened(io.BytesIO(packed), member, 0).read()
    _check_size(len(data), member, is_whole=True)
    if (crc := zlib.crc32(data)) != member.crc:
        raise _other_crc(crc, member)
    return data


class _Unpacker(Protocol):
    """A decompressor of the standard library."""

    eof: bool

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""


class _Body(Seekable):
    """A member. What is read in one go from its start is summed, and compared at its end."""

    def __init__(self, file: IO[bytes], member: ZipMember, start: int) -> None:
        self._file, self._member, self._start = file, member, start
        self._size, self._at, self._crc, self._summed = member.size_bytes, 0, 0, 0
        self._source: _Unpacker | None = None
        self._given = 0  # bytes that the source gave
        self._is_checked = False

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size and self._is_checked:
            return 0
        data = self._stored(len(buffer)) if self._member.method == zip_format.STORED else self._expanded(len(buffer))
        if self._at == self._summed:
            self._crc, self._summed = zlib.crc32(data, self._crc), self._summed + len(data)
            if self._summed == self._size and self._crc != self._member.crc:
                raise _other_crc(self._crc, self._member)
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def _stored(self, size: int) -> bytes:
        self._file.seek(self._start + self._at)
        data = self._file.read(min(size, max(0, self._size - self._at)))
        self._is_checked = self._at + len(data) >= self._size
        if not data and not self._is_checked:
            raise UnreadableItem(
                1002,
                f"the archive ends at byte {self._start + self._at}, inside a member: it became shorter while it "
                "was read",
            )
        return data

    def _expanded(self, size: int) -> bytes:
        if self._source is None or self._given > self._at:
            try:
                self._source, self._given = (
                    _unpacker(Slice(self._file, self._start, self._member.packed_bytes), self._member),
                    0,
                )
            except _Damaged as error:
                raise _damaged(0) from error
        while self._given < self._at:
            if not self._next(min(_SKIP_BYTES, self._at - self._given)):
                return b""
        data = self._next(size)
        if self._given == self._size and not self._is_checked:  # the end of the stream must be the end of the member
            self._next(1)
        return data

    def _next(self, size: int) -> bytes:
        assert self._source is not None
        try:
            data = self._source.read(size)
        except _Damaged as error:
            raise _damaged(self._given) from error
        self._given += len(data)
        self._is_checked = not data
        _check_size(self._given, self._member, is_whole=not data)
        if not data and not self._source.eof:
            raise _damaged(self._given)
        return data


class _Damaged(Exception):
    """The packed bytes do not expand any further."""


def _check_size(size: int, member: ZipMember, *, is_whole: bool) -> None:
    if size > member.size_bytes or (is_whole and size < member.size_bytes):
        raise UnreadableItem(
            1010, f"size_bytes{'=' if is_whole else '>='}{size} is not {member.size_bytes}, which the archive states"
        )


def _other_crc(crc: int, member: ZipMember) -> UnreadableItem:
    return UnreadableItem(1010, f"crc32={crc:08x} is not {member.crc:08x}, which the archive states")


def _damaged(size: int) -> UnreadableItem:
    return UnreadableItem(1003, f"the member's packed bytes are damaged after {size} expanded bytes")


def _unpacker(packed: Slice, member: ZipMember) -> _Unpacker:
    if member.method == zip_format.DEFLATED:
        return _Deflated(packed)
    if member.method == zip_format.BZIP2:
        return _Chunked(packed, bz2.BZ2Decompressor())
    if member.method == zip_format.LZMA:
        return _Chunked(packed, _lzma(packed), has_mark=bool(member.flags & _MARKED))
    return _Zstd(packed)


class _Deflated:
    """Raw deflate."""

    def __init__(self, packed: Slice) -> None:
        self._packed, self._input, self._unpacker = packed, b"", zlib.decompressobj(-zlib.MAX_WBITS)
        self.eof = False

    def read(self, size: int) -> bytes:
        data, has_more = b"", True
        while not data and has_more and not self._unpacker.eof:
            self._input = self._input or self._packed.read(_INPUT_BYTES)
            has_more = bool(self._input)
            try:
                # also of nothing: it may hold bytes back when it has taken all
                data = self._unpacker.decompress(self._input, size)
            except zlib.error as error:
                raise _Damaged from error
            self._input = self._unpacker.unconsumed_tail
        self.eof = self._unpacker.eof and not self._unpacker.unused_data and not self._packed.read(1)
        return data


class _Chunked:
    """bzip2 and LZMA, whose decompressors say when they want more."""

    def __init__(self, packed: Slice, unpacker: Any, *, has_mark: bool = True) -> None:
        """has_mark: whether the stream says where it ends; else its end is that of the packed bytes."""
        self._packed, self._unpacker, self._has_mark = packed, unpacker, has_mark
        self.eof = False

    def read(self, size: int) -> bytes:
        data = b""
        while not data and not self._unpacker.eof:
            more = self._packed.read(_INPUT_BYTES) if self._unpacker.needs_input else b""
            if self._unpacker.needs_input and not more:
                self.eof = not self._has_mark
                return b""
            try:
                data = self._unpacker.decompress(more, size)
            # of these the file behind raises none: it is read before
            except (lzma.LZMAError, OSError, ValueError) as error:
                raise _Damaged from error
        self.eof = self._unpacker.eof and not self._unpacker.unused_data and not self._packed.read(1)
        return data


class _Zstd:
    """Zstandard frames, whose end is that of the packed bytes."""

    def __init__(self, packed: Slice) -> None:
        self._stream = expanded(io.BufferedReader(packed), "zstd", limit_bytes=1 << 62)
        self.eof = False

    def read(self, size: int) -> bytes:
        try:
            data = self._stream.read1(size)
        except UnreadableItem as error:
            raise _Damaged from error
        self.eof = not data
        return data


def _lzma(packed: Slice) -> Any:
    """The decompressor that the properties before the packed bytes name (APPNOTE 5.8)."""
    head = packed.read(9)
    packing, window = head[4:5], int.from_bytes(head[5:9], "little")
    if len(head) < 9 or head[2:4] != b"\5\0" or packing[0] >= 9 * 5 * 5:
        raise _Damaged
    if window > MAX_WINDOW_BYTES:
        raise UnreadableItem(1008, f"window_bytes={window} not in [0, {MAX_WINDOW_BYTES}]")
    shape = {
        "id": lzma.FILTER_LZMA1,
        "dict_size": max(window, 4096),
        "lc": packing[0] % 9,
        "lp": packing[0] // 9 % 5,
        "pb": packing[0] // 45,
    }
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[shape])
    except (lzma.LZMAError, ValueError) as error:
        raise _Damaged from error
