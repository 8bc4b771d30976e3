"""The index of a pack: from a digest to its blob's place, found by bisection in the bytes as they are, without parsing
them.

    index   = b"mmlidx1\\n", number of entries u64, bytes of the pack u64, fanout, entry*, SHA-256 of all before
    fanout  = 256 x u32: how many digests begin with a byte up to this one
    entry   = digest 32 bytes, offset of the blob's bytes in the pack u64, size u32        44 bytes, sorted by digest

Integers are big-endian. The SHA-256 is also the name of index and pack: `<name>.idx`, `<name>.pack`. Where the bytes
lie (a mapped file, a downloaded object) is not decided here.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat
from typing import TYPE_CHECKING, NamedTuple

from mmlake.errors import BlobCorrupt
from mmlake.records import Digest

if TYPE_CHECKING:
    import numpy as np

INDEX_MAGIC = b"mmlidx1\n"
_FRONT = struct.Struct(">8sQQ")
_FANOUT = struct.Struct(">256I")
_ENTRY = struct.Struct(">32sQI")
_PLACE = struct.Struct(">QI")
_ENTRIES_AT = _FRONT.size + _FANOUT.size
_HASH_BYTES = 32
ENTRY_BYTES = _ENTRY.size
_SEARCHED = 32  # the last so many entries are searched as bytes, which is cheaper than five more steps of bisection


class Entry(NamedTuple):
    """Where a blob's bytes lie in its pack."""

    digest: Digest
    offset: int
    size_bytes: int


entry_bytes = _ENTRY.pack  # (the digest's 32 bytes, offset, size in bytes) as the index stores them


def pack_entry(entry: Entry) -> bytes:
    """The entry as the index stores it."""
    return entry_bytes(bytes.fromhex(entry.digest), entry.offset, entry.size_bytes)


def index_bytes(entries: Iterable[bytes], *, pack_bytes: int) -> bytes:
    """The index over packed entries, which may come in any order, each digest once."""
    ordered = sorted(entries)
    below = [bisect_left(ordered, bytes((first + 1,))) for first in range(255)]
    content = b"".join(
        (_FRONT.pack(INDEX_MAGIC, len(ordered), pack_bytes), _FANOUT.pack(*below, len(ordered)), *ordered)
    )
    return content + hashlib.sha256(content).digest()


class PackIndex:
    """Lookups in the bytes of an index. Only `is_sound` compares the checksum, since that reads everything; a wrong
    entry does no harm, as blobs are checked by their hash."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        """Raises BlobCorrupt where the bytes are not those of an index."""
        self._data = data
        if len(data) < _ENTRIES_AT + _HASH_BYTES:
            raise BlobCorrupt(
                f"a pack index of {len(data)} bytes is shorter than the smallest; run `mmlake fsck --repair`, "
                "which builds it again from its pack"
            )
        magic, self._count, self.pack_bytes = _FRONT.unpack_from(data)
        self._below = (0, *_FANOUT.unpack_from(data, _FRONT.size))
        expected = _ENTRIES_AT + self._count * ENTRY_BYTES + _HASH_BYTES
        if (
            magic != INDEX_MAGIC
            or len(data) != expected
            or self._below[-1] != self._count
            or list(self._below) != sorted(self._below)
        ):
            raise BlobCorrupt(
                f"a pack index of {len(data)} bytes does not agree with its own header; run `mmlake fsck "
                "--repair`, which builds it again from its pack"
            )

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
        return int(self._count)

    def find(self, digest: Digest) -> Entry | None:
        """Where the blob lies; None where the pack does not hold it."""
        wanted, data = bytes.fromhex(digest), self._data
        low, high = self._below[wanted[0]], self._below[wanted[0] + 1]
        while high - low > _SEARCHED:
            middle = (low + high) // 2
            at = _ENTRIES_AT + middle * ENTRY_BYTES
            if data[at : at + 32] <= wanted:
                low = middle
            else:
                high = middle
        at, end = _ENTRIES_AT + low * ENTRY_BYTES, _ENTRIES_AT + high * ENTRY_BYTES
        while (at := data.find(wanted, at, end)) >= 0:
            if (at - _ENTRIES_AT) % ENTRY_BYTES == 0:
                return Entry(digest, *_PLACE.unpack_from(data, at + 32))
            at += 1  # the same bytes across two entries: not an entry
        return None

    def beginnings(self) -> tuple[np.ndarray, np.ndarray]:
        """(the first 64 bits of each digest, the 24 bits after them), sorted by digest."""
        import numpy as np

        front = np.dtype(
            {"names": ["first", "next"], "formats": [">u8", ">u4"], "offsets": [0, 8], "itemsize": ENTRY_BYTES}
        )
        entries = np.frombuffer(self._data, front, self._count, _ENTRIES_AT)
        return entries["first"].astype(np.uint64), entries["next"].astype(np.int64) >> 8

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, by digest."""
        for at in range(_ENTRIES_AT, _ENTRIES_AT + self._count * ENTRY_BYTES, ENTRY_BYTES):
            digest, offset, size = _ENTRY.unpack_from(self._data, at)
            yield Entry(digest.hex(), offset, size)


def sorted_once(*digests: Iterable[Digest]) -> Iterator[Digest]:
    """Every digest of these sorted runs, sorted, once."""
    return (digest for digest, _ in groupby(merge(*digests)))


def places(indexes: Sequence[PackIndex]) -> Iterator[list[tuple[int, Entry]]]:
    """Where each blob lies, blobs by digest: (which of the indexes, entry) of every copy."""
    merged = merge(*(zip(index, repeat(at)) for at, index in enumerate(indexes)))
    for _, copies in groupby(merged, key=lambda pair: pair[0].digest):
        yield [(at, entry) for entry, at in copies]
