"""The quality that a lossy WebP was saved with, read from its first key frame; nothing is decoded.

Source: RFC 6386 (VP8), sections 7.3 (boolean decoder), 9.2 to 9.6 (frame header); libwebp's mapping of quality to a
step.
"""

from __future__ import annotations

_CHUNK = b"VP8 "  # of lossy pictures; VP8L is lossless
_TAG_BYTES, _START_CODE = 10, b"\x9d\x01\x2a"
_MOST_STEP = 127
_EVEN = 128  # probability of a bit that is as likely to be set as not


class _Bits:
    """Bits of a VP8 partition, each decoded with even odds."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._range, self._shifted = data, 2, 255, 0
        self._value = int.from_bytes(data[:2], "big")

    def number(self, num: int) -> int:
        """So many bits, the highest first."""
        found = 0
        for _ in range(num):
            found = found << 1 | self._bit()
        return found

    def optional(self, num: int) -> int:
        """A signed number behind a bit that says whether it is there; 0 where it is not."""
        if not self.number(1):
            return 0
        size = self.number(num)
        return -size if self.number(1) else size

    def _bit(self) -> int:
        split = 1 + ((self._range - 1) * _EVEN >> 8)
        is_set = self._value >= split << 8
        if is_set:
            self._range -= split
            self._value -= split << 8
        else:
            self._range = split
        while self._range < 128:
            self._value, self._range, self._shifted = self._value << 1, self._range << 1, self._shifted + 1
            if self._shifted == 8:
                self._value |= self._data[self._at] if self._at < len(self._data) else 0
                self._at, self._shifted = self._at + 1, 0
        return int(is_set)


def webp_quality(data: bytes) -> float | None:
    """Quality 0..100 as libwebp counts it; None of a lossless or damaged one."""
    at = data.find(_CHUNK, 12)
    frame = data[at + 8 : at + 8 + 256] if at >= 0 else b""
    if len(frame) < _TAG_BYTES + 8 or frame[3:6] != _START_CODE:
        return None
    bits = _Bits(frame[_TAG_BYTES:])
    bits.number(2)  # colour space, clamping
    segments, is_absolute = _segments(bits)
    bits.number(1 + 6 + 3)  # loop filter
    if bits.number(1) and bits.number(1):
        for _ in range(8):
            bits.optional(6)
    bits.number(2)  # partitions
    step = bits.number(7)
    if segments:
        steps = segments if is_absolute else [step + one for one in segments]
        step = round(sum(steps) / len(steps))
    linear = (1 - min(max(step, 0), _MOST_STEP) / _MOST_STEP) ** 3
    return 100 * (1.5 * linear if linear < 0.5 else (1 + linear) / 2)


def _segments(bits: _Bits) -> tuple[list[int], bool]:
    """(steps of the segments, whether they stand for themselves); none where the frame has one step."""
    if not bits.number(1):
        return [], False
    has_map, steps, is_absolute = bits.number(1), [], False
    if bits.number(1):
        is_absolute = bool(bits.number(1))
        steps = [bits.optional(7) for _ in range(4)]
        for _ in range(4):
            bits.optional(6)
    if has_map:
        for _ in range(3):
            if bits.number(1):
                bits.number(8)
    return steps, is_absolute
