"""Thrift's compact protocol, in which Parquet writes its footers and page headers: fields are read or passed over, and
nothing is taken on trust.

Everything raises IndexError where the bytes end before the value does, and Malformed where they are none. Stricter than
Thrift, so that no reader sees other values than we do: a field stands once, has a number above 0, and no number is cut
to fewer bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

BOOL_TRUE, BOOL_FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 16  # Parquet nests eight
_MAX_FIELD = 32_767  # the protocol's numbers have 16 bits
_LONG = 15  # in the place of a list's size: it follows
_BITS = {INT16: 16, INT32: 32, INT64: 64}

Read = Callable[[bytes, int], int]  # bytes, where a value begins -> where it ends
Readers = Mapping[int, tuple[int, Read]]  # field number -> its kind, and what reads it


class Malformed(Exception):
    """The bytes are no value of the protocol, or one that no writer makes."""


def read_field(data: bytes, at: int, number: int) -> tuple[int, int, int]:
    """(number, kind, where the value begins) of the field there; kind 0: the struct has ended. number: of the field
    before it, 0 for none."""
    head = data[at]
    if not head:
        return number, 0, at + 1
    at += 1
    if head >> 4:
        number += head >> 4
    else:
        number, at = read_integer(data, at, INT16)
    if not 0 < number <= _MAX_FIELD:
        raise Malformed
    return number, head & 15, at


def read_fields(data: bytes, at: int, readers: Readers) -> int:
    """Where the struct ends. readers: for the fields that matter; the others are passed over."""
    number, kind, at = read_field(data, at, 0)
    seen = 0
    while kind:
        if (wanted := readers.get(number)) is None:
            at = passed(data, at, kind)
        elif kind != wanted[0] or seen >> number & 1:
            raise Malformed
        else:
            seen |= 1 << number
            at = wanted[1](data, at)
        number, kind, at = read_field(data, at, number)
    return at


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """(field number -> integer, boolean or struct, where it ends). Values of other kinds are None."""
    if depth > _MAX_DEPTH:
        raise Malformed
    fields: dict[int, Any] = {}
    number, kind, at = read_field(data, at, 0)
    while kind:
        if number in fields:
            raise Malformed
        if kind in _BITS:
            fields[number], at = read_integer(data, at, kind)
        elif kind == STRUCT:
            fields[number], at = read_struct(data, at, depth + 1)
        else:
            fields[number], at = kind == BOOL_TRUE if kind <= BOOL_FALSE else None, passed(data, at, kind, depth)
        number, kind, at = read_field(data, at, number)
    return fields, at


def read_integer(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """(value, where it ends) of a signed integer of the kind's bits."""
    value, at = read_varint(data, at)
    if value >> _BITS[kind]:
        raise Malformed
    return value >> 1 ^ -(value & 1), at


def read_list(data: bytes, at: int) -> tuple[int, int, int]:
    """(number of elements, their kind, where the first one begins). There are never more elements than bytes."""
    head = data[at]
    count, kind, at = head >> 4, head & 15, at + 1
    if count == _LONG:
        count, at = read_varint(data, at)
    if count > len(data) - at:
        raise IndexError
    return count, kind, at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends) of an unsigned integer of seven bits a byte."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise Malformed


def passed(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where the value ends, which may be behind the bytes that there are."""
    if kind in _BITS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == BINARY:
        size, at = read_varint(data, at)
        return at + size
    if kind == STRUCT:
        return _passed_struct(data, at, depth + 1)
    if kind in (LIST, SET):
        count, kind, at = read_list(data, at)
        return _passed_all(data, at, (kind,) * bool(count), count, depth + 1)
    if kind == MAP:
        count, at = read_varint(data, at)
        if count > len(data) - at:
            raise IndexError
        return at if not count else _passed_all(data, at + 1, (data[at] >> 4, data[at] & 15), count, depth + 1)
    if kind not in (BOOL_TRUE, BOOL_FALSE, BYTE, DOUBLE):
        raise Malformed
    return at + {BYTE: 1, DOUBLE: 8}.get(kind, 0)  # a boolean field is its kind


def _passed_all(data: bytes, at: int, kinds: tuple[int, ...], count: int, depth: int) -> int:
    """Where the last of so many elements ends, each of them of these kinds one behind another."""
    if depth > _MAX_DEPTH:
        raise Malformed
    for _ in range(count):
        for kind in kinds:
            at = at + 1 if kind in (BOOL_TRUE, BOOL_FALSE) else passed(data, at, kind, depth)
    return at


def _passed_struct(data: bytes, at: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise Malformed
    while head := data[at]:
        at += 1
        if not head >> 4:
            at = passed(data, at, INT16)
        at = passed(data, at, head & 15, depth)
    return at + 1
