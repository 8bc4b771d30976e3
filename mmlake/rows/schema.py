"""The columns of interleaved rows, and how foreign columns are brought to them.

One row per text, image, video or sound of a sample, in order, and at most one metadata row at position -1 that carries
the fields of the whole sample. The reserved columns below mean the same in every batch; passthrough columns stand
behind them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from mmlake.errors import SchemaMismatch
from mmlake.schemas import ITEMS

# 1: the ten reserved columns without `v` in locators; counted up when a reserved column changes meaning
SCHEMA_VERSION: Final = 2
METADATA_POSITION: Final = -1
METADATA: Final = "metadata"  # the modality of the row that carries the fields of the whole sample
REQUIRED: Final = ("sample_id", "position", "modality")
_FIRST: Final = (*REQUIRED, "content_type", "text_content", "binary_content", "source_ref", "materialize_error")

_log = logging.getLogger(__name__)


def _columns() -> pa.Schema:
    """Those of the `items` table in the order of a row's reading; only the three of `REQUIRED` must have a value."""
    names = [*_FIRST, *(name for name in ITEMS.arrow.names if name not in _FIRST)]
    fields = [pa.field(name, ITEMS.arrow.field(name).type, nullable=name not in REQUIRED) for name in names]
    return pa.schema(fields, metadata={"mmlake.rows": str(SCHEMA_VERSION)})


SCHEMA: Final = _columns()
RESERVED: Final = frozenset(SCHEMA.names)


def resolve(schema: pa.Schema | None, *, overrides: Mapping[str, pa.DataType] | None = None) -> pa.Schema | None:
    """The schema that a reader or writer keeps to; None where nobody asked for one.

    overrides: types by column, merged onto SCHEMA; they may retype reserved columns and add others. A whole schema wins
    over them.
    """
    if schema is not None:
        if overrides:
            _log.warning("a schema is given: the overrides of %s are not used", sorted(overrides))
        return schema
    if not overrides:
        return None
    fields = [field.with_type(overrides.get(field.name, field.type)) for field in SCHEMA]
    fields += [pa.field(name, kind) for name, kind in overrides.items() if name not in RESERVED]
    return pa.schema(fields, metadata=SCHEMA.metadata)


def reconcile(table: pa.Table, *, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The table with its reserved columns in the types of the schema and its other columns without dictionaries;
    nothing is added, dropped or moved.

    A column with 64-bit offsets keeps them. Raises SchemaMismatch where a value does not fit.
    """
    for at, field in enumerate(table.schema):
        target = _target(field, schema)
        if field.type == target:
            continue
        try:
            column = table.column(at).cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(
                f"rows: column {field.name!r} is {field.type}, and a value of it is no {target} (rows schema "
                f"v{SCHEMA_VERSION}); correct the column"
            ) from error
        table = table.set_column(at, field.with_type(target), column)
    return table


def _target(field: pa.Field, schema: pa.Schema) -> pa.DataType:
    given = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    at = schema.get_field_index(field.name)
    if at < 0:
        return given
    wanted = schema.field(at).type
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(wanted)
    return given if given == wide else wanted


def align(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the columns, order and types of the schema: missing ones null, others dropped. Raises
    SchemaMismatch where a value does not fit."""
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(
                f"rows: column {field.name!r} is {column.type}, and a value of it is no {field.type}; correct the "
                "column or the schema"
            ) from error
    # Nullability is checked by `RowBatch.problems`: a table of nulls in a required column must still be inspected.
    return pa.Table.from_arrays(columns, schema=schema)


def empty_table(schema: pa.Schema = SCHEMA) -> pa.Table:
    """A table of that schema without rows."""
    return schema.empty_table()
