"""How many bytes of samples the tracks of an MP4 or QuickTime file declare (ISO 14496-12 `stsz`).

A table of sizes holds one size for all samples and their number, however large: FFmpeg makes an index of them, 58 bytes
each, before it reads any.
"""

from __future__ import annotations

import struct
from typing import IO

_PATH = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsz")
_MAX_BOXES = 10_000  # of all levels; a film of a hundred tracks has about 2,000


def most_sample_bytes(file: IO[bytes], start: int, end: int) -> int:
    """Of the tracks whose samples all have one size, the most bytes that they take together. start and end: of the
    movie box."""
    most, waiting, num_boxes = 0, [(start, end, 0)], 0
    while waiting:
        at, last, level = waiting.pop()
        while at + 8 <= last and (num_boxes := num_boxes + 1) <= _MAX_BOXES:
            file.seek(at)
            length, name, first, second = struct.unpack(">I4sQI", file.read(20).ljust(20, b"\0"))
            used = 16 if length == 1 else 8
            length = first if length == 1 else length or last - at
            if length < used:
                break
            if name == _PATH[level] and level + 1 < len(_PATH):
                waiting.append((at + used, min(last, at + length), level + 1))
            elif name == _PATH[level]:
                most = max(most, (first & 0xFFFF_FFFF) * second)  # behind version and flags: size and number
            at += length
    return most
