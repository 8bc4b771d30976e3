"""FlatBuffers, in which Arrow writes its messages: numbers, tables and vectors of structs are found by offsets, none
of which is taken on trust."""

from __future__ import annotations

import struct
from typing import Final

MAX_VECTOR = 1 << 20  # elements; Arrow's messages have one per array of a batch


class Malformed(Exception):
    """An offset leads out of the bytes."""


_FORMS: Final = {name: struct.Struct(f"<{name}") for name in "BhHiIq"}


def number_at(data: bytes, at: int, form: str) -> int:
    """The number of that form (as of `struct`) at the place. Raises Malformed where the bytes do not reach that far."""
    if at < 0 or at + _FORMS[form].size > len(data):
        raise Malformed
    return int(_FORMS[form].unpack_from(data, at)[0])


class Table:
    """A table: fields by number, each of which may be missing."""

    def __init__(self, data: bytes, at: int) -> None:
        """at: where it begins. Raises Malformed."""
        self._data, self._at = data, at
        self._fields = at - number_at(data, at, "i")
        self._size = number_at(data, self._fields, "H")

    @classmethod
    def root(cls, data: bytes) -> Table:
        """The table that the bytes begin with the way to."""
        return cls(data, number_at(data, 0, "I"))

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = number_at(self._data, self._fields + entry, "H")
        return self._at + offset if offset else None

    def number(self, field: int, form: str, default: int = 0) -> int:
        """The number in the field."""
        place = self._place(field)
        return default if place is None else number_at(self._data, place, form)

    def table(self, field: int) -> Table | None:
        """The table that the field leads to."""
        place = self._place(field)
        return None if place is None else Table(self._data, place + number_at(self._data, place, "I"))

    def structs(self, field: int, form: str) -> list[tuple[int, ...]]:
        """The structs of a vector. form: as of `struct`, little-endian and with its padding written out."""
        place = self._place(field)
        if place is None:
            return []
        start, shape = place + number_at(self._data, place, "I"), struct.Struct(f"<{form}")
        count = number_at(self._data, start, "I")
        if count > MAX_VECTOR or start + 4 + count * shape.size > len(self._data):
            raise Malformed
        return list(shape.iter_unpack(self._data[start + 4 : start + 4 + count * shape.size]))
