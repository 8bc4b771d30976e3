"""Columns of tables that were made apart: one schema that holds them all, and values as JSON has them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mmlake.rows.schema import SCHEMA


def unified(schema: pa.Schema | None, other: pa.Schema) -> tuple[pa.Schema, list[str]]:
    """(a schema that holds the columns of both, the names of columns that became text because their types have no
    common one).

    New columns go to the end. Numbers widen; what else differs is kept as text, JSON where it is nested.
    """
    if schema is None:
        return bare(other), []
    fields, as_text = {field.name: field for field in schema}, []
    for field in bare(other):
        if field.name not in fields:
            fields[field.name] = field.with_nullable(True)
        elif field.type != fields[field.name].type:
            kind = _common(fields[field.name].type, field.type)
            if kind is None:
                as_text.append(field.name)
                kind = pa.large_string()
            fields[field.name] = fields[field.name].with_type(kind)
    return pa.schema(fields.values(), metadata=SCHEMA.metadata), as_text


def bare(schema: pa.Schema) -> pa.Schema:
    """The schema without what other libraries noted in it (the index of a data frame), dictionaries as their values,
    every column nullable."""
    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in schema
    ]
    return pa.schema(fields, metadata=SCHEMA.metadata)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_boolean(one) != pa.types.is_boolean(other) and not (
        pa.types.is_null(one) or pa.types.is_null(other)
    ):
        return None
    try:
        return (
            pa.unify_schemas([pa.schema([("x", one)]), pa.schema([("x", other)])], promote_options="permissive")
            .field("x")
            .type
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in a schema that `unified` made from its own: missing columns null, others cast or turned to text."""
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        else:
            arrays.append(_cast(table.column(field.name), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # nested values, and bytes that are no UTF-8
        return pa.chunked_array([pa.array([text_of(value) for value in column.to_pylist()], kind)])


def text_of(value: Any) -> str | None:
    """The value as text: strings as they are, everything else in JSON."""
    if is_null(value):
        return None
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def is_null(value: object) -> bool:
    """Whether the value says that there is none: None, NaN, NaT, pandas' NA. What cannot be compared with itself is
    a value."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)  # true of NaN and NaT alone
    except (TypeError, ValueError):
        return False


def plain(value: Any) -> Any:
    """The value as JSON has it: no NaN and no infinity, times in ISO 8601, exact decimals as text, bytes in base64."""
    if is_null(value):
        return None
    if isinstance(value, dict):
        return {str(key): plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child) for child in value]
    if hasattr(value, "tolist") and type(value).__module__ == "numpy":  # cells of data frames
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, decimal.Decimal) else repr(value)


def agreed(said: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what all the records agree on that say something, what each says next to it)."""
    speaking = [one for one in said if one]
    common = (
        {
            name: value
            for name, value in speaking[0].items()
            if all(name in one and one[name] == value for one in speaking)
        }
        if speaking
        else {}
    )
    return common, [{name: value for name, value in one.items() if name not in common} for one in said]


def opened(text: str | None) -> dict[str, Any]:
    """The JSON object of a `metadata_json` cell; what is none stands under that name."""
    if not text:
        return {}
    try:
        value = plain(json.loads(text))
    except (ValueError, RecursionError):
        value = text
    return value if isinstance(value, dict) else {"metadata_json": value}
