"""The index of a pack: digest to place, found by bisection in bytes that were never parsed.

    index   = b"mmlidx1\\n", number of entries u64, bytes of the pack u64, fanout, entry*, SHA-256 of all before
    fanout  = 256 x u32: how many digests begin with a byte up to this one
    entry   = digest 32 bytes, offset of the blob's bytes in the pack u64, size u32        44 bytes, sorted by digest

Integers are big-endian. The SHA-256 is also the name of index and pack: `<name>.idx`, `<name>.pack`. Where the bytes lie (a mapped file, a downloaded object) is
not decided here.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from mmlake.errors import BlobCorrupt
from mmlake.records import Digest

INDEX_MAGIC = b"mmlidx1\n"
_FRONT = struct.Struct(">8sQQ")
_FANOUT = struct.Struct(">256I")
_ENTRY = struct.Struct(">32sQI")
_PLACE = struct.Struct(">QI")
_ENTRIES_AT = _FRONT.size + _FANOUT.size
_HASH_BYTES = 32
ENTRY_BYTES = _ENTRY.size


class Entry(NamedTuple):
    """Where a blob's bytes lie in its pack."""

    digest: Digest
    offset: int
    size_bytes: int


def pack_entry(entry: Entry) -> bytes:
    """The entry as the index stores it."""
    return _ENTRY.pack(bytes.fromhex(entry.digest), entry.offset, entry.size_bytes)


def index_bytes(entries: bytes, *, pack_bytes: int) -> bytes:
    """The index over packed entries, which may come in any order, each digest once."""
    size = ENTRY_BYTES
    ordered = sorted(entries[at : at + size] for at in range(0, len(entries), size))
    counts = [0] * 256
    for entry in ordered:
        counts[entry[0]] += 1
    content = b"".join((_FRONT.pack(INDEX_MAGIC, len(ordered), pack_bytes), _FANOUT.pack(*accumulate(counts)), *ordered))
    return content + hashlib.sha256(content).digest()


class PackIndex:
    """Look-ups in the bytes of an index. Its checksum is compared by `is_sound` alone: that reads everything, and what a wrong entry names is checked by its hash."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        """Raises BlobCorrupt where the bytes are not those of an index."""
        self._data = data
        if len(data) < _ENTRIES_AT + _HASH_BYTES:
            raise BlobCorrupt(f"a pack index of {len(data)} bytes is shorter than the smallest; run `mmlake fsck --repair`, which builds it again from its pack")
        magic, self._count, self.pack_bytes = _FRONT.unpack_from(data)
        self._below = (0, *_FANOUT.unpack_from(data, _FRONT.size))
        expected = _ENTRIES_AT + self._count * ENTRY_BYTES + _HASH_BYTES
        if magic != INDEX_MAGIC or len(data) != expected or self._below[-1] != self._count or list(self._below) != sorted(self._below):
            raise BlobCorrupt(f"a pack index of {len(data)} bytes does not agree with its own header; run `mmlake fsck --repair`, which builds it again from its pack")

    @property
    def name(self) -> str:
        """What index and pack are called."""
        return bytes(self._data[-_HASH_BYTES:]).hex()

    @property
    def is_sound(self) -> bool:
        """Whether the bytes hash to the checksum at their end."""
        hasher, view = hashlib.sha256(), memoryview(self._data)
        try:
            hasher.update(view[:-_HASH_BYTES])
        finally:
            view.release()
        return hasher.digest() == self._data[-_HASH_BYTES:]

    def __len__(self) -> int:
        return self._count

    def find(self, digest: Digest) -> Entry | None:
        """Where the blob lies; None where the pack does not hold it."""
        wanted, data = bytes.fromhex(digest), self._data
        low, high = self._below[wanted[0]], self._below[wanted[0] + 1]
        while low < high:
            middle = (low + high) // 2
            at = _ENTRIES_AT + middle * _ENTRY.size
            found = data[at : at + 32]
            if found == wanted:
                return Entry(digest, *_PLACE.unpack_from(data, at + 32))
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return None

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, by digest."""
        for at in range(_ENTRIES_AT, _ENTRIES_AT + self._count * _ENTRY.size, _ENTRY.size):
            digest, offset, size = _ENTRY.unpack_from(self._data, at)
            yield Entry(digest.hex(), offset, size)
