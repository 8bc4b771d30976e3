"""Results of a worker as bytes, and bytes of a worker as results.

Enters: what a kernel returned. Leaves: the same value in the parent. A worker handles foreign bytes, so nothing that it
sends is unpickled: the bytes below can only become plain values, numpy arrays of plain types, and dataclasses and
named tuples of packages that the parent names and has imported already (docs/decisions/0017).
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_LENGTH, _INT, _FLOAT = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
_LARGE_BYTES = 1 << 16
_MAX_DEPTH = 32  # of nested values; rows have four
_ARRAY_KINDS = "biufcSUMm"  # of numpy's dtype.kind: no objects, no records


class DamagedResult(Exception):
    """The bytes are not what `encode` writes."""


def encode(value: object) -> bytes:
    """The value as bytes. Raises TypeError for a kind of value that no kernel may return."""
    return b"".join(encoded_parts(value))


def encoded_parts(value: object) -> list[bytes | bytearray]:
    """The same in parts, one behind the other: what is large is not copied, so that a worker holds the sound of a long
    film once. Raises TypeError."""
    parts = list[bytes | bytearray]()
    small = bytearray()  # one object for all that is small: an hour of a film has millions of numbers

    def add(data: bytes) -> None:
        nonlocal small
        if len(data) < _LARGE_BYTES:
            small += data
        else:
            parts.extend((small, data))
            small = bytearray()

    _encode(value, add, 0)
    return [*parts, small]


def decode(data: bytes | memoryview, *, packages: frozenset[str] = frozenset()) -> Any:
    """The value of those bytes. Raises DamagedResult where they are not from `encode`, or name a class outside.

    packages: top-level packages whose dataclasses and named tuples may come back.
    """
    reader = _Reader(memoryview(data), packages)
    try:
        value = reader.value(0)
    except (struct.error, UnicodeDecodeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise DamagedResult(f"a result of {len(data)} bytes cannot be read ({type(error).__name__})") from error
    if reader.at != len(data):
        raise DamagedResult(f"a result of {len(data)} bytes ends at {reader.at}")
    return value


def _encode(value: Any, add: Callable[[bytes], None], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise TypeError(f"a kernel's result is nested more than {_MAX_DEPTH} levels deep; return plain rows")
    kind = type(value)
    if value is None:
        add(b"N")
    elif kind is bool:
        add(b"T" if value else b"F")
    elif kind is int:
        _encode_int(value, add)
    elif kind is float:
        add(b"d" + _FLOAT.pack(value))
    elif kind is str:
        _add_sized(b"s", value.encode("utf-8", "surrogatepass"), add)
    elif kind is bytes:
        _add_sized(b"b", value, add)
    elif kind is list and len(value) > 8 and all(type(one) is float for one in value):
        _add_sized(b"D", struct.pack(f"<{len(value)}d", *value), add)  # signals of a film: thousands of numbers
    elif kind is list or kind is tuple:
        add((b"l" if kind is list else b"t") + _LENGTH.pack(len(value)))
        for one in value:
            _encode(one, add, depth + 1)
    elif kind is dict:
        add(b"m" + _LENGTH.pack(len(value)))
        for key, one in value.items():
            _encode(key, add, depth + 1)
            _encode(one, add, depth + 1)
    else:
        _encode_object(value, add, depth)


def _encode_int(value: int, add: Callable[[bytes], None]) -> None:
    if -(1 << 63) <= value < 1 << 63:
        add(b"i" + _INT.pack(value))
    else:
        _add_sized(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), add)


def _encode_object(value: Any, add: Callable[[bytes], None], depth: int) -> None:
    """Arrays and numbers of numpy; dataclasses and named tuples, by the name of their class."""
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _ARRAY_KINDS:
        is_array = isinstance(value, np.ndarray)
        head = value.dtype.str.encode("ascii")
        add((b"a" if is_array else b"g") + bytes([len(head), value.ndim]) + head)
        add(struct.pack(f"<{value.ndim}Q", *value.shape))
        _add_sized(b"", value.tobytes(), add)
    elif dataclasses.is_dataclass(kind) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        _add_sized(b"c", f"{kind.__module__}:{kind.__qualname__}".encode(), add)
        _encode({name: getattr(value, name) for name in names}, add, depth)
    else:
        raise TypeError(
            f"a kernel returned a {kind.__module__}.{kind.__qualname__}; return None, bool, int, float, str, bytes, "
            "list, tuple, dict, numpy arrays, dataclasses or named tuples"
        )


def _add_sized(tag: bytes, data: bytes, add: Callable[[bytes], None]) -> None:
    add(tag + _LENGTH.pack(len(data)))
    add(data)


class _Reader:
    """Values of a buffer, one after another; whatever does not fit raises."""

    def __init__(self, data: memoryview, packages: frozenset[str]) -> None:
        self._data, self._packages, self.at = data, packages, 0

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
        tag = self._take(1)[0]
        if (read := _PLAIN.get(tag)) is not None:
            return read(self)
        if tag in b"lt":
            values = [self.value(depth + 1) for _ in range(self._count())]
            return values if tag == ord("l") else tuple(values)
        if tag == ord("m"):
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(self._count())}
        if tag == ord("c"):
            return self._object(depth)
        raise ValueError("unknown tag")

    def _take(self, size_bytes: int) -> memoryview:
        end = self.at + size_bytes
        if end > len(self._data):
            raise ValueError("the bytes end early")
        part, self.at = self._data[self.at : end], end
        return part

    def _count(self) -> int:
        count: int = _LENGTH.unpack(self._take(4))[0]
        if count > len(self._data) - self.at:  # every value takes a byte: no claim makes a long loop
            raise ValueError("more values than bytes")
        return count

    def sized(self) -> memoryview:
        """The next bytes, whose number stands before them."""
        return self._take(_LENGTH.unpack(self._take(4))[0])

    def number(self, layout: struct.Struct) -> Any:
        """The next number."""
        return layout.unpack(self._take(layout.size))[0]

    def floats(self) -> list[float]:
        """The next list of floats."""
        data = self.sized()
        return list(struct.unpack(f"<{len(data) // 8}d", data))

    def array(self) -> np.ndarray[Any, Any]:
        """The next array of a plain type, writable."""
        head_bytes, num_axes = self._take(2)
        kind = np.dtype(bytes(self._take(head_bytes)).decode("ascii"))
        if kind.kind not in _ARRAY_KINDS or kind.hasobject or kind.fields is not None:
            raise ValueError("no plain type")
        shape = struct.unpack(f"<{num_axes}Q", self._take(8 * num_axes))
        data = self.sized()
        if not data:
            return np.empty(shape, kind) if 0 in shape else np.empty(-1)  # numpy refuses the second
        return np.frombuffer(data, dtype=kind).reshape(shape).copy()

    def _object(self, depth: int) -> Any:
        module, _, path = bytes(self.sized()).decode().partition(":")
        if module.partition(".")[0] not in self._packages or bytes(self._take(1)) != b"m":
            raise ValueError("a class of another package")
        fields = {self.value(depth + 1): self.value(depth + 1) for _ in range(self._count())}
        found: Any = sys.modules.get(module)
        for name in path.split("."):
            found = getattr(found, name)
        is_record = isinstance(found, type) and found.__module__ == module
        if not is_record or not (dataclasses.is_dataclass(found) or hasattr(found, "_fields")):
            raise ValueError("no dataclass and no named tuple")
        return found(**fields)


_PLAIN: dict[int, Callable[[_Reader], Any]] = {
    ord("N"): lambda reader: None,
    ord("T"): lambda reader: True,
    ord("F"): lambda reader: False,
    ord("i"): lambda reader: reader.number(_INT),
    ord("I"): lambda reader: int.from_bytes(reader.sized(), "little", signed=True),
    ord("d"): lambda reader: reader.number(_FLOAT),
    ord("s"): lambda reader: str(reader.sized(), "utf-8", "surrogatepass"),
    ord("b"): lambda reader: bytes(reader.sized()),
    ord("D"): lambda reader: reader.floats(),
    ord("a"): lambda reader: reader.array(),
    ord("g"): lambda reader: reader.array()[()],
}
