"""JPEG files one behind the other, which is what Motion JPEG is, as one file each."""

from __future__ import annotations

from mmlake.errors import UnreadableItem

_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))  # markers without a length: TEM and restarts
_SOI, _EOI = 0xD8, 0xD9


def split_jpegs(data: bytes) -> list[bytes]:
    """The pictures in order. Headers are skipped by their lengths, since their payload may hold an end marker; within
    the coded picture each 0xFF that is no marker is followed by a zero. Raises UnreadableItem 3001 where a picture
    does not end."""
    found, start = [], 0
    while start < len(data):
        end = _end(data, start)
        if end < 0:
            raise UnreadableItem(3001, f"num_bytes={len(data)}, and no JPEG is whole at byte {start}")
        found.append(data[start:end])
        start = end
    return found


def _end(data: bytes, start: int) -> int:
    """Where the picture ends that begins there; -1 where it does not."""
    if data[start : start + 2] != b"\xff\xd8":
        return -1
    at = start + 2
    while True:
        at = data.find(b"\xff", at)
        if not 0 <= at < len(data) - 1:
            return -1
        kind = data[at + 1]
        if kind == _EOI:
            return at + 2
        if kind == 0xFF:  # fill
            at += 1
        elif kind == 0 or kind in _ALONE or kind == _SOI:
            at += 2
        else:
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            if length < 2:
                return -1
            at += 2 + length  # behind a SOS, that is the coded picture
