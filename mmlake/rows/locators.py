"""Locators of a batch as columns of their own, and the way by which each leads to its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from mmlake.records import SourceRef
from mmlake.rows.batch import RowBatch

PREFIX: Final = "_src_"
# no locator; a whole file; bytes of a file as it lies; a thing inside a file, found by reading the file
WAYS: Final = ("missing", "direct", "range", "member")
_TYPES: Final = {
    "path": pa.string(),
    "member": pa.string(),
    "byte_offset": pa.int64(),
    "byte_size": pa.int64(),
    "frame_index": pa.int32(),
}


def way_of(ref: SourceRef | None) -> str:
    """The word of `WAYS` for one locator; an empty path is none. A range of no bytes leads nowhere: the member is
    looked up instead."""
    if ref is None or not ref.path:
        return "missing"
    if ref.byte_offset is not None and ref.byte_size:
        return "range"
    return "direct" if ref.member is None else "member"


def ways(values: Iterable[object]) -> list[str]:
    """The word of `WAYS` for each cell of a `source_ref` column. Raises ValueError for a cell that is no locator."""
    return [way_of(SourceRef.parse(value)) for value in values]


def with_locator_columns(batch: RowBatch, *, prefix: str = PREFIX) -> RowBatch:
    """The batch with the parts of its locators as the columns `<prefix>path` and so on, null where there is none;
    they replace columns of those names alone."""
    values: Sequence[object] = (
        batch.table["source_ref"].to_pylist() if "source_ref" in batch.columns else [None] * batch.num_rows
    )
    refs = [SourceRef.parse(value) for value in values]
    table = batch.table
    for part in SourceRef._fields:
        column = pa.array([getattr(ref, part) if ref is not None else None for ref in refs], _TYPES[part])
        name, at = prefix + part, table.schema.get_field_index(prefix + part)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    return batch.replace(table)
