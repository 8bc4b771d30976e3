"""Elements of a Matroska file whose checksum does not hold (RFC 9559, RFC 8794: the first child CRC-32 of an element is
of all that comes behind it). Demuxers pass over it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import IO

EBML = b"\x1a\x45\xdf\xa3"
SEGMENT, _CRC = b"\x18\x53\x80\x67", b"\xbf\x84"  # the second with its size, which is always four
HEAD_BYTES, _CRC_BYTES = 16, 6  # an id and a size of up to eight bytes; CRC-32 with its own head
_MAX_ID_BYTES = 4  # longer ones are damage
_BLOCK_BYTES = 1 << 20


def bad_elements(file: IO[bytes]) -> Iterator[int]:
    """The byte at which each such element begins: those of the file's first two levels, of known size. One that cannot
    be walked past ends it: its size is damaged, or not known."""
    size = file.seek(0, io.SEEK_END)
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(HEAD_BYTES)
        if (found := element_head(head)) is None or len(found[0]) > _MAX_ID_BYTES:
            return
        id_, length, used = found
        if id_ == SEGMENT:  # go inside; it has no checksum, since it is written to its end last
            at += used
            continue
        if length is None or at + used + length > size:
            return
        if not _holds(file, at + used, length):
            yield at
        at += used + length


def _holds(file: IO[bytes], start: int, length: int) -> bool:
    """Whether the element's checksum is that of its bytes, or it has none."""
    file.seek(start)
    first = file.read(min(length, _CRC_BYTES))
    if len(first) < _CRC_BYTES or not first.startswith(_CRC):
        return True
    left, found = length - _CRC_BYTES, 0
    while left and (block := file.read(min(left, _BLOCK_BYTES))):
        left, found = left - len(block), zlib.crc32(block, found)
    return found == int.from_bytes(first[2:], "little")


def element_head(data: bytes) -> tuple[bytes, int | None, int] | None:
    """(id, size, bytes of both) of the element that begins here; a size of None is not known. None where none does."""
    num_id = _width(data)
    num_size = _width(data[num_id:])
    if not num_id or not num_size or len(data) < num_id + num_size:
        return None
    size = int.from_bytes(data[num_id : num_id + num_size], "big") - (1 << 7 * num_size)
    return data[:num_id], None if size == (1 << 7 * num_size) - 1 else size, num_id + num_size


def _width(data: bytes) -> int:
    """How many bytes the number has that begins here; 0 where none does."""
    return 9 - data[0].bit_length() if data and data[0] else 0
