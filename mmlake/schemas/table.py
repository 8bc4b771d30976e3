"""What the contract of one stage table is made of, and tables that keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SchemaMismatch

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """The contract of one stage table."""

    name: str
    version: int  # counted up when a column changes meaning; part of the stamp, so older tables are rebuilt
    key: tuple[str, ...]  # unique and not null; rows are sorted by it
    arrow: pa.Schema


def optional(name: str, kind: pa.DataType, note: str = "") -> pa.Field:
    """A column that may hold nulls. note: what a reader must know; it goes into the file."""
    return pa.field(name, kind, metadata={"note": note} if note else None)


def required(name: str, kind: pa.DataType, note: str = "") -> pa.Field:
    """A column without nulls."""
    return pa.field(name, kind, nullable=False, metadata={"note": note} if note else None)


def empty(schema: TableSchema) -> pa.Table:
    """A table of that schema without rows."""
    return schema.arrow.empty_table()


def from_rows(schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table that keeps the contract: absent keys are null, lists that may not be null are empty, sorted
    by key."""
    if unknown := set().union(*rows) - set(schema.arrow.names):
        raise SchemaMismatch(
            f"{schema.name}: a row has the columns {sorted(unknown)}, which schema v{schema.version} does not "
            "have; correct the stage that made it"
        )
    columns = []
    for field in schema.arrow:
        name = field.name  # taken once: the field makes a new text each time
        values = [row.get(name) for row in rows]
        if pa.types.is_list(field.type) and not field.nullable:
            values = [[] if value is None else value for value in values]
        columns.append(pa.array(values, field.type))
    return conform(schema, pa.Table.from_arrays(columns, schema=schema.arrow))


def from_columns(schema: TableSchema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The columns as a table of the schema, absent ones null; not yet sorted or checked, which `conform` does."""
    num_rows = len(next(iter(columns.values())))
    arrays = [
        _column(columns[field.name], field.type) if field.name in columns else pa.nulls(num_rows, field.type)
        for field in schema.arrow
    ]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def _column(values: Sequence[Any] | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == kind else values.cast(kind)  # `pa.array` would go through Python, row by row
    return pa.array(values, kind)


def conform(schema: TableSchema, table: pa.Table) -> pa.Table:
    """The table with exactly the schema's columns, types and order, sorted by key. Raises SchemaMismatch where it
    cannot be."""
    if missing := [name for name in schema.arrow.names if name not in table.column_names]:
        raise SchemaMismatch(
            f"{schema.name}: columns {missing} are missing (schema v{schema.version}); re-materialize the table "
            "with this release"
        )
    table = table.select(schema.arrow.names)
    try:
        table = table.cast(schema.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        differing = [
            f"'{field.name}' is {table.schema.field(field.name).type}, expected {field.type}"
            for field in schema.arrow
            if table.schema.field(field.name).type != field.type
        ]
        raise SchemaMismatch(
            f"{schema.name}: {'; '.join(differing) or 'a required column holds nulls'} (schema "
            f"v{schema.version}); re-materialize the table"
        ) from error
    for field in schema.arrow:
        if not field.nullable and table.column(field.name).null_count:
            raise SchemaMismatch(
                f"{schema.name}: required column '{field.name}' holds {table.column(field.name).null_count} "
                "nulls; correct the stage that made the table"
            )
    if is_sorted(table, schema.key[:1]):
        return table
    if is_sorted(table, schema.key):
        # of one chunk, as sorting leaves it: pages of a file end where chunks do, and equal rows shall be equal bytes
        return table if all(column.num_chunks == 1 for column in table.columns) else table.combine_chunks()
    return table.sort_by([(name, "ascending") for name in schema.key])


def whole(schema: TableSchema, parts: Callable[P, Iterator[pa.Table]]) -> Callable[P, pa.Table]:
    """The function whose tables, at least one, are given as one of the schema, of one chunk each column."""

    @wraps(parts)
    def made(*args: P.args, **kwargs: P.kwargs) -> pa.Table:
        return conform(schema, pa.concat_tables(parts(*args, **kwargs)).combine_chunks())

    return made


def is_sorted(table: pa.Table, key: Sequence[str]) -> bool:
    """Whether each row is greater by the key than the one before it; the check costs a tenth of sorting and copying."""
    tied: pa.ChunkedArray | bool = True  # equal to the row before in the columns so far
    for name in key if table.num_rows > 1 else ():
        before, after = table[name][:-1], table[name][1:]
        if not pc.all(pc.or_(pc.less_equal(before, after), pc.invert(tied)), skip_nulls=False).as_py():
            return False
        tied = pc.and_(tied, pc.equal(before, after))
    return table.num_rows < 2 or not pc.any(tied).as_py()
