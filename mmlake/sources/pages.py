"""What a Parquet column chunk would decode to, told by its page headers alone: nothing is expanded.

The footer's sizes cannot be used for it: dictionary and run-length encodings make gigabytes of a few hundred bytes, and a hostile footer
says what it likes. Page headers are Thrift structs in the compact protocol (parquet-format, `PageHeader`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from mmlake.errors import UnreadableItem

_HEADER_BYTES = 1 << 13  # a page header with its statistics is below a kilobyte
_MAX_HEADER_BYTES = 1 << 22  # statistics may hold two long values
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_ENCODED = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_LEVEL_BYTES = 8  # what a value takes in memory where it is null or a number
_MAX_DEPTH = 8  # page headers nest two structs
_STRUCT = 12


@dataclass(frozen=True, slots=True)
class Weight:
    """What one column chunk takes in memory."""

    decoded_bytes: int  # all of it, where the values of a dictionary occur equally often
    page_bytes: int  # its largest page, expanded
    value_bytes: int  # no value that a dictionary repeats is larger


def weigh(file: IO[bytes], start: int, size_bytes: int) -> Weight:
    """The weight of the column chunk that lies there. Raises UnreadableItem 1001 where its page headers do not parse."""
    if start <= 0 or size_bytes < 0:
        raise UnreadableItem(1001, f"a column chunk is said to have {size_bytes} bytes at byte {start} of the file")
    at, end = start, start + size_bytes
    decoded = largest = dictionary = 0
    average = 1.0
    while at < end:
        header, length = _header(file, at, end)
        kind, expanded, stored = (header.get(field) for field in (1, 2, 3))
        if not isinstance(kind, int) or not isinstance(expanded, int) or not isinstance(stored, int) or expanded < 0 or stored < 0 or at + length + stored > end:
            raise _unreadable(at)
        largest = max(largest, expanded)
        about = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, -1))
        num_values = about.get(1, 0) if isinstance(about, dict) else 0
        if not isinstance(num_values, int) or num_values < 0:
            raise _unreadable(at)
        if kind == _DICTIONARY:
            dictionary, average = max(dictionary, expanded), expanded / max(1, num_values)
        elif kind in (_DATA, _DATA_V2):
            encoding = about.get(2 if kind == _DATA else 4) if isinstance(about, dict) else None
            decoded += num_values * (_LEVEL_BYTES + int(average)) if encoding in _ENCODED else max(expanded, num_values * _LEVEL_BYTES)
        at += length + stored
    return Weight(decoded + dictionary, largest, dictionary)


def _unreadable(at: int) -> UnreadableItem:
    return UnreadableItem(1001, f"the page header at byte {at} of the file does not parse")


def _header(file: IO[bytes], at: int, end: int) -> tuple[dict[int, Any], int]:
    """(field number -> value, bytes of the header)."""
    size = _HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(min(size, end - at))
        try:
            return _struct(data, 0, 0)
        except (IndexError, RecursionError) as error:
            if len(data) < size or size >= _MAX_HEADER_BYTES:
                raise _unreadable(at) from error
            size *= 8


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """A Thrift struct: every field a byte of type and step, then its value. Raises IndexError where the bytes end before it does."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    fields: dict[int, Any] = {}
    number = 0
    while (kind := data[at]) != 0:
        step, kind, at = kind >> 4, kind & 15, at + 1
        if step:
            number += step
        else:
            value, at = _varint(data, at)
            number = value >> 1 ^ -(value & 1)
        fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # a boolean is its type
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        value, at = _varint(data, at)
        return value >> 1 ^ -(value & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError
        return None, at + size
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    raise RecursionError  # page headers have no lists and no maps


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise RecursionError
