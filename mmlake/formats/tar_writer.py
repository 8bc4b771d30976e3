"""ustar files as this library writes them: fixed headers, no times and no owners, so that equal members give equal
bytes. The reader is `tar`; whoever verifies a written file holds its headers against `header`."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import IO

from mmlake.errors import BlobCorrupt
from mmlake.formats.tar import BLOCK

_FLUSH_BYTES = 1 << 20
_DIRECT_BYTES = 64 << 10  # what is as large is written from where it lies: a copy costs more than a call
_OCTAL_LIMIT = 8**11  # from 8 GiB on, the size field is binary (GNU base-256, which every reader in use knows)
_FIXED = b"0000644\x000000000\x000000000\x00"  # mode 0644, uid 0, gid 0: equal bytes on every machine
_MTIME = b"00000000000\x00"
_TYPE = b"0".ljust(101, b"\x00") + b"ustar\x0000".ljust(255, b"\x00")  # a regular file, linked to nothing
_SUM = sum(_FIXED) + sum(_MTIME) + sum(_TYPE) + 8 * ord(" ")  # the field of the checksum counts as eight spaces


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a tar: where its bytes lie."""

    name: str
    offset: int  # of the first data byte
    size_bytes: int
    crc32: int


def header(name: str, size_bytes: int) -> bytes:
    """The 512-byte ustar header of a regular file. The name is at most 100 ASCII bytes."""
    size = b"%011o\x00" % size_bytes if size_bytes < _OCTAL_LIMIT else b"\x80" + size_bytes.to_bytes(11, "big")
    encoded = name.encode("ascii")
    if len(encoded) > 100:
        raise ValueError(f"member name of {len(encoded)} bytes, at most 100 fit a ustar header")
    checksum = b"%06o\x00 " % (sum(encoded) + sum(size) + _SUM)
    return b"".join((encoded.ljust(100, b"\x00"), _FIXED, size, _MTIME, checksum, _TYPE))


class TarWriter:
    """Members appended to a binary file; nothing is ever held whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._pending = bytearray()
        self._hasher = hashlib.sha256()
        self._chunk = bytearray(_FLUSH_BYTES)
        self.size_bytes = 0

    def add(self, name: str, data: bytes) -> Member:
        """The member that now holds the data."""
        self._put(header(name, len(data)))
        member = Member(name, self.size_bytes, len(data), zlib.crc32(data))
        self._put(data)
        self._pad()
        return member

    def add_stream(self, name: str, size_bytes: int, stream: IO[bytes], *, digest: str) -> Member:
        """The member that now holds the stream. Raises BlobCorrupt where the bytes are not `size_bytes` long or do
        not hash to the digest."""
        self._put(header(name, size_bytes))
        offset, crc, left, hasher, view = self.size_bytes, 0, size_bytes, hashlib.sha256(), memoryview(self._chunk)
        while count := stream.readinto(view):  # type: ignore[attr-defined]
            part = view[:count]
            hasher.update(part)
            crc = zlib.crc32(part, crc)
            left -= count
            self._put(part)
        if left or hasher.hexdigest() != digest:
            raise BlobCorrupt(
                f"blob {digest} no longer hashes to its name; run `mmlake fsck`, then write the shards again"
            )
        self._pad()
        return Member(name, offset, size_bytes, crc)

    def finish(self) -> str:
        """The SHA-256 of the whole file, ended by two zero blocks and flushed."""
        self._put(bytes(2 * BLOCK))
        self._flush()
        return self._hasher.hexdigest()

    def _put(self, data: bytes | memoryview) -> None:
        self.size_bytes += len(data)
        if len(data) >= _DIRECT_BYTES:
            self._flush()
            self._write(data)
            return
        self._pending += data
        if len(self._pending) >= _FLUSH_BYTES:
            self._flush()

    def _pad(self) -> None:
        if rest := self.size_bytes % BLOCK:
            self._put(bytes(BLOCK - rest))

    def _flush(self) -> None:
        if self._pending:
            self._write(self._pending)
            self._pending.clear()

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        self._hasher.update(data)
        while (count := self._file.write(data)) < len(data):  # a disk that is nearly full takes a part
            data = bytes(data[count:])
