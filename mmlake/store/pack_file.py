"""A pack: many small blobs in one append-only file, each in a record that names it.

    pack    = b"mmlpak1\\n" record*
    record  = header blob
    header  = magic b"\\x89MMB", size u32, digest 32 bytes, extension 32 bytes (ASCII, NUL-padded), CRC-32 of the header
            so far u32    76 bytes

Integers are big-endian; records lie back to back. Enters: blobs. Leaves: the bytes of a pack and of its index
(`index.py`). Whether the two are files or objects is not decided here: a reader that can fetch a range of bytes finds a
blob's place by `Entry` and reads it with `parse_record`. Since each record names its blob, `scan` lists the blobs of a
pack whose index is lost.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mmlake.errors import BlobCorrupt
from mmlake.records import Digest, digest_of
from mmlake.store.index import Entry, entry_bytes, index_bytes

PACKED_BELOW_BYTES = 256 << 10  # larger blobs gain nothing: making a file costs less than writing their bytes
MAX_PACK_BYTES = 1 << 30  # what a compaction or an erasure has to rewrite of one pack at most
MAX_PACK_RECORDS = 1 << 20  # 44 MiB of index

PACK_MAGIC = b"mmlpak1\n"
_MAGIC = b"\x89MMB"
_FRONT = struct.Struct(">4sI32s32s")
_CHECK = struct.Struct(">I")
HEADER_BYTES = _FRONT.size + _CHECK.size
_WINDOW_BYTES = 1 << 20


class Record(NamedTuple):
    """A blob as a pack holds it."""

    digest: Digest
    extension: str
    data: bytes

    @property
    def is_sound(self) -> bool:
        """Whether the bytes hash to their name."""
        return digest_of(self.data) == self.digest


class PackWriter:
    """Appends records to anything that can be written to; the caller keeps the file, syncs it and names it."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._entries: list[bytes] = []
        write(PACK_MAGIC)
        self.size_bytes = len(PACK_MAGIC)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, digest: Digest, data: bytes | memoryview, *, extension: str) -> Entry:
        """Where the blob now lies. extension: as `files.plain_extension` gives it. After an OSError of the file
        nothing was added; the digest must be new to the pack."""
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        offset, name = self.size_bytes + HEADER_BYTES, bytes.fromhex(digest)
        self._write(b"".join((_header(name, size, extension), data)))
        self._entries.append(entry_bytes(name, offset, size))
        self.size_bytes = offset + size
        return Entry(digest, offset, size)

    @property
    def is_full(self) -> bool:
        """Whether the next blob belongs into another pack."""
        return self.size_bytes >= MAX_PACK_BYTES or len(self) >= MAX_PACK_RECORDS

    def index(self) -> bytes:
        """The index of what was added so far."""
        return index_bytes(self._entries, pack_bytes=self.size_bytes)


def _header(name: bytes, size_bytes: int, extension: str) -> bytes:
    front = _FRONT.pack(_MAGIC, size_bytes, name, extension.encode("ascii"))
    return front + _CHECK.pack(zlib.crc32(front))


def _parse_header(data: bytes) -> tuple[Digest, int, str] | None:
    """(digest, size, extension); None where these bytes are no sound header."""
    if (
        len(data) < HEADER_BYTES
        or data[:4] != _MAGIC
        or zlib.crc32(data[: _FRONT.size]) != int.from_bytes(data[_FRONT.size : HEADER_BYTES], "big")
    ):
        return None
    _, size, digest, extension = _FRONT.unpack_from(data)
    return digest.hex(), size, extension.rstrip(b"\0").decode("ascii", "replace")


def parse_record(data: bytes, entry: Entry) -> Record:
    """The blob in the bytes of its record, header included; its hash is not checked. Raises BlobCorrupt where the
    header is not that of the entry."""
    header = _parse_header(data)
    if header is None or header[:2] != (entry.digest, entry.size_bytes) or len(data) != HEADER_BYTES + entry.size_bytes:
        raise BlobCorrupt(
            f"the record of blob {entry.digest} at byte {entry.offset - HEADER_BYTES} of its pack is damaged; run "
            "`mmlake fsck --repair`"
        )
    return Record(entry.digest, header[2], data[HEADER_BYTES:])


def scan(read: Callable[[int, int], bytes], pack_bytes: int) -> Iterator[Entry]:
    """Every blob of a pack, in order, by its records alone. read(offset, size): bytes of the pack, fewer only at its
    end.

    Behind a damaged header the next one is searched for; what is found there counts only if its bytes hash to its name,
    since a blob may itself hold a pack.
    """
    offset, is_lost = len(PACK_MAGIC), False
    while offset + HEADER_BYTES <= pack_bytes:
        header = _parse_header(read(offset, HEADER_BYTES))
        if header is not None and offset + HEADER_BYTES + header[1] <= pack_bytes:
            entry = Entry(header[0], offset + HEADER_BYTES, header[1])
            if not is_lost or digest_of(read(entry.offset, entry.size_bytes)) == entry.digest:
                yield entry
                offset, is_lost = entry.offset + entry.size_bytes, False
                continue
        offset, is_lost = _next_magic(read, offset + 1, pack_bytes), True


def _next_magic(read: Callable[[int, int], bytes], offset: int, pack_bytes: int) -> int:
    while offset < pack_bytes:
        window = read(offset, _WINDOW_BYTES)
        at = window.find(_MAGIC)
        if at >= 0:
            return offset + at
        if len(window) < _WINDOW_BYTES:
            return pack_bytes
        offset += len(window) - len(_MAGIC) + 1
    return pack_bytes
