"""A batch of interleaved rows: an Arrow table that keeps `SCHEMA`, with the names of the files that fed it.

Enters: an Arrow table or record batch, or a pandas data frame. Leaves: the same rows in either form. A batch is never
changed:
`replace` gives another one. Storage credentials have no place in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SchemaMismatch
from mmlake.optional import need
from mmlake.rows.columns import text_of
from mmlake.rows.schema import REQUIRED, SCHEMA, reconcile

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Conflict:
    """A passthrough field that could not become a column as it is, and what was done about it."""

    field: str
    sample_id: str  # the first sample where it showed
    reason: str


@dataclass(frozen=True)
class RowBatch:
    """Interleaved rows and where they come from."""

    table: pa.Table
    source_files: tuple[str, ...] = ()  # those that fed these rows, relative to the landing zone
    name: str = "rows"
    conflicts: tuple[Conflict, ...] = ()  # what the reader resolved while it made the columns

    @classmethod
    def of(cls, rows: Any, *, source_files: Iterable[str] = (), name: str = "rows") -> RowBatch:
        """The batch of an Arrow table, a record batch or a pandas data frame (whose index is left out). Raises
        TypeError for anything else.

        Reserved columns get the types of SCHEMA where their values fit; where they do not, `problems` says so. A column
        of a data frame whose values have no common type becomes text, which `conflicts` reports.
        """
        conflicts: tuple[Conflict, ...] = ()
        if isinstance(rows, RowBatch):
            return rows
        if isinstance(rows, pa.RecordBatch):
            table = pa.Table.from_batches([rows])
        elif isinstance(rows, pa.Table):
            table = rows
        elif _is_frame(rows):
            table, conflicts = _of_frame(_with_bytes(rows))
        else:
            raise TypeError(
                "a batch of rows is made of a pyarrow.Table, a pyarrow.RecordBatch or a pandas.DataFrame, not of "
                f"{type(rows).__name__}"
            )
        try:
            table = reconcile(table)
        except SchemaMismatch:
            pass
        return cls(table, tuple(source_files), name, conflicts)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame numbered from 0. Raises MissingExtra where pandas is not installed."""
        need("pandas", extra="all", purpose="a batch of rows as a data frame")
        return self.table.to_pandas()

    @property
    def columns(self) -> list[str]:
        """The names of the columns in order."""
        return list(self.table.column_names)

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def num_samples(self) -> int:
        """Distinct sample ids."""
        return pc.count_distinct(self.table["sample_id"]).as_py() if "sample_id" in self.columns else 0

    def count(self, modality: str) -> int:
        """Rows of the modality; 0 where there are none."""
        return pc.sum(pc.equal(self.table["modality"], modality)).as_py() or 0 if "modality" in self.columns else 0

    def problems(self) -> list[str]:
        """What keeps the batch from being usable, a sentence each; none where it is."""
        found = ["the batch has no rows"] if not self.num_rows else []
        for name in REQUIRED:
            if name not in self.columns:
                found.append(f"the required column {name!r} is missing")
            elif num_nulls := self.table[name].null_count:
                found.append(f"the required column {name!r} holds {num_nulls} nulls")
        try:
            reconcile(self.table)
        except SchemaMismatch as error:
            found.append(str(error))
        return found

    @property
    def is_valid(self) -> bool:
        """Whether `problems` finds none."""
        return not self.problems()

    def replace(self, table: pa.Table) -> RowBatch:
        """The batch with other rows of the same origin."""
        return replace(self, table=table)


def empty_batch(schema: pa.Schema = SCHEMA, *, name: str = "rows") -> RowBatch:
    """A batch without rows whose columns are typed."""
    return RowBatch(schema.empty_table(), name=name)


def _with_bytes(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The frame with null for whatever is no bytes in the column of bytes, which may hold any object, or text, which
    Arrow would take for bytes."""
    # Arrow's own types of bytes hold nothing else
    if "binary_content" not in frame or "binary" in str(frame["binary_content"].dtype):
        return frame
    cells = [
        bytes(cell) if isinstance(cell, (bytes, bytearray, memoryview)) else None for cell in frame["binary_content"]
    ]
    return frame.assign(binary_content=cells)


def _of_frame(frame: pandas.DataFrame) -> tuple[pa.Table, tuple[Conflict, ...]]:
    """(the frame's rows without its index, the columns that became text)."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None), ()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass  # values of several types stand in one column: find it
    changed, conflicts = {}, []
    for name in frame.columns:
        try:
            pa.Table.from_pandas(frame[[name]], preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            changed[name] = pa.array([text_of(value) for value in frame[name]], pa.large_string()).to_pandas()
            conflicts.append(Conflict(str(name), "", "values of types that do not go together: the column is text"))
    plain = frame.reset_index(drop=True).assign(**changed)
    return pa.Table.from_pandas(plain, preserve_index=False).replace_schema_metadata(None), tuple(conflicts)


def _is_frame(rows: object) -> bool:
    """Whether it is a data frame; pandas is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)
