"""PNG chunks whose checksum does not hold (ISO 15948). Decoders skip that of pixels and of what they do not need."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_SIGNATURE_BYTES, _FRAME_BYTES = 8, 12  # of a chunk: length, type, checksum


def bad_chunks(data: bytes) -> Iterator[tuple[int, str]]:
    """(byte, what is wrong there) of every damaged chunk, in order; behind a length that leads nowhere none is
    found."""
    at, view = _SIGNATURE_BYTES, memoryview(data)
    while at + _FRAME_BYTES <= len(data):
        body = at + 8
        end = body + int.from_bytes(view[at : at + 4], "big")
        name = bytes(view[at + 4 : body])
        if end + 4 > len(data) or not name.isalpha():
            break
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            yield at, f"the checksum of the chunk {name.decode()} does not hold"
        if name == b"IEND":
            return  # what follows is no part of the picture
        at = end + 4
    yield at, "no chunk begins there, and the picture has no end mark before"
