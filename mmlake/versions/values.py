"""The digest of a table's values, whatever file format, library, compression and chunks they are kept in.

Each column feeds its name and type, then its values, depth first: which are null (a bit each, left out where none is),
then for lists and texts the lengths as little-endian int64 and what they hold joined, for structs their fields, for
numbers their little-endian bytes. What a null hides counts as zero, negative zero as zero.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece


class _Sink:
    """Counts and hashes bytes."""

    def __init__(self) -> None:
        self.hash, self.size_bytes = hashlib.sha256(), 0

    def feed(self, data: Any) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self.hash.update(view)
        self.size_bytes += len(view)


def digest_of_values(table: pa.Table) -> tuple[str, int]:
    """(SHA-256, number of bytes that were hashed). Equal values in equal columns give equal digests; a text of 64-bit
    offsets equals one of 32."""
    sink = _Sink()
    for name in table.column_names:
        array = piece(table.column(name))
        sink.feed(f"{name}\0{_kind(array.type)}\0{len(array)}\0".encode())
        _feed(array, sink)
    return sink.hash.hexdigest(), sink.size_bytes


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "{" + ",".join(f"{field.name}:{_kind(field.type)}" for field in kind) + "}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"[{_kind(kind.value_type)}]"
    return "string" if pa.types.is_large_string(kind) else str(kind)


def _feed(array: pa.Array, sink: _Sink) -> None:
    if array.null_count:
        sink.feed(b"\1")
        sink.feed(np.packbits(pc.is_valid(array).to_numpy(zero_copy_only=False), bitorder="little"))
    else:
        sink.feed(b"\0")
    kind = array.type
    if pa.types.is_struct(kind):
        for values in array.flatten():
            _feed(values, sink)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _feed_lengths(pc.list_value_length(array), sink)
        _feed(array.flatten(), sink)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        _feed_texts(array.fill_null("") if array.null_count else array, sink)
    elif pa.types.is_boolean(kind):
        sink.feed(np.packbits(array.fill_null(False).to_numpy(zero_copy_only=False), bitorder="little"))
    else:
        numbers = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
        sink.feed(np.ascontiguousarray(numbers + numbers.dtype.type(0)).astype(numbers.dtype.newbyteorder("<")))


def _feed_lengths(lengths: pa.Array, sink: _Sink) -> None:
    sink.feed(lengths.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8"))


def _feed_texts(array: pa.Array, sink: _Sink) -> None:
    """array: without nulls."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return
    ends = np.frombuffer(offsets, width, count=len(array) + 1, offset=array.offset * np.dtype(width).itemsize)
    sink.feed(np.diff(ends).astype("<i8"))
    if data is not None and ends[-1] > ends[0]:
        sink.feed(memoryview(data)[int(ends[0]) : int(ends[-1])])
