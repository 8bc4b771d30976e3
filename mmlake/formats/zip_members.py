"""The bytes of a zip's member, expanded in bounded pieces and held against the size and the CRC-32 that the archive
states."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from functools import partial
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.formats import zip as zip_format
from mmlake.formats.compression import MAX_WINDOW_BYTES, Damaged, Inflater, Salvaged, Stepwise, Zstd
from mmlake.formats.zip import ZipMember
from mmlake.streams import Seekable, Slice

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


class _Body(Seekable):
    """A member. What is read in one go from its start is summed, and compared at its end."""

    def __init__(self, file: IO[bytes], member: ZipMember, start: int) -> None:
        self._file, self._member, self._start = file, member, start
        self._size, self._at, self._crc, self._summed = member.size_bytes, 0, 0, 0
        # whether the packed bytes say where they end; else their end is that of the stream
        self._has_mark = member.method != zip_format.LZMA or bool(member.flags & _MARKED)
        self._source: Stepwise | Salvaged | None = None
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
            end = self._start + self._at
            reason = f"the archive ends at byte {end}, inside a member: it became shorter while it was read"
            raise UnreadableItem(1002, reason)
        return data

    def _expanded(self, size: int) -> bytes:
        if self._source is None or self._given > self._at:
            packed: Any = Slice(self._file, self._start, self._member.packed_bytes)
            try:
                self._source, self._given = _unpacker(packed, self._member), 0
            except Damaged as error:
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
        is_cut = False
        try:
            data = self._source.read(size)
        except (Damaged, EOFError) as error:
            if isinstance(error, Damaged) or isinstance(self._source, Salvaged):
                raise _damaged(self._given) from error
            data, is_cut = b"", self._has_mark
        self._given += len(data)
        self._is_checked = not data
        _check_size(self._given, self._member, is_whole=not data)
        if not data and (is_cut or (isinstance(self._source, Stepwise) and self._source.has_rest())):
            raise _damaged(self._given)
        return data


def _check_size(size: int, member: ZipMember, *, is_whole: bool) -> None:
    if size > member.size_bytes or (is_whole and size < member.size_bytes):
        found = f"size_bytes{'=' if is_whole else '>='}{size}"
        raise UnreadableItem(1010, f"{found} is not {member.size_bytes}, which the archive states")


def _other_crc(crc: int, member: ZipMember) -> UnreadableItem:
    return UnreadableItem(1010, f"crc32={crc:08x} is not {member.crc:08x}, which the archive states")


def _damaged(size: int) -> UnreadableItem:
    return UnreadableItem(1003, f"the member's packed bytes are damaged after {size} expanded bytes")


def _unpacker(packed: IO[bytes], member: ZipMember) -> Stepwise | Salvaged:
    if member.method == zip_format.ZSTD:
        return Salvaged(packed, Zstd)
    if member.method == zip_format.DEFLATED:
        return Stepwise(packed, partial(Inflater, -zlib.MAX_WBITS))
    return Stepwise(packed, bz2.BZ2Decompressor if member.method == zip_format.BZIP2 else partial(_lzma, packed))


def _lzma(packed: IO[bytes]) -> Any:
    """The decompressor that the properties before the packed bytes name (APPNOTE 5.8)."""
    head = packed.read(9)
    packing, window = head[4:5], int.from_bytes(head[5:9], "little")
    if len(head) < 9 or head[2:4] != b"\5\0" or packing[0] >= 9 * 5 * 5:
        raise Damaged
    if window > MAX_WINDOW_BYTES:
        raise UnreadableItem(1008, f"window_bytes={window} not in [0, {MAX_WINDOW_BYTES}]")
    bits = {"lc": packing[0] % 9, "lp": packing[0] // 9 % 5, "pb": packing[0] // 45}
    shape = {"id": lzma.FILTER_LZMA1, "dict_size": max(window, 4096), **bits}
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[shape])
    except (lzma.LZMAError, ValueError) as error:
        raise Damaged from error
