"""Fields of records as columns behind the reserved ones: which become columns, under what name, and of which type.

A sample may have fields that others lack, and a field may be a number here and a text there: nothing of that is an
error. Whole numbers and fractions become fractions, nested values become JSON, what else differs becomes text, and each
such case is reported as a `Conflict`.
The record itself stands in `metadata_json` as it came.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from mmlake.records import canonical_json
from mmlake.rows.batch import Conflict
from mmlake.rows.schema import RESERVED

Fields = Iterable[str] | Mapping[str, str] | None  # names, or names by field; None: every field that is not reserved

MAX_COLUMNS: Final = 1000  # a record per sample with keys of its own would make a column of each
_TYPES: Final = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.large_string(),
    "json": pa.large_string(),
    "mixed": pa.large_string(),
}
_EXACT: Final = 1 << 53  # whole numbers beyond it have no float of their own

_log = logging.getLogger(__name__)


def column_names(fields: Fields) -> dict[str, str] | None:
    """Column by field. Raises ValueError where a column would have a reserved name or two fields would be one
    column."""
    if fields is None:
        return None
    if isinstance(fields, str):
        raise ValueError(f"fields={fields!r} is one text; give the names as a list")
    named = dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    if taken := sorted(RESERVED.intersection(named.values())):
        raise ValueError(
            f"fields {taken} have the names of reserved columns; name other columns for them, as in "
            f"fields={{{taken[0]!r}: 'their_{taken[0]}'}}"
        )
    if len(set(named.values())) < len(named):
        raise ValueError(f"two of the fields {sorted(named)} would be one column; name a column for each")
    return named


def project(record: Mapping[str, Any], fields: Fields = None, *, excluded: Iterable[str] = ()) -> dict[str, Any]:
    """The record's values by column: scalars as they are, nested ones as JSON text, requested ones that it lacks null.

    excluded: fields that become no columns unless they are asked for. Raises ValueError as `column_names`.
    """
    named = column_names(fields)
    if named is None:
        left = RESERVED.union(excluded)
        named = {name: name for name in record if name not in left}
    found = {column: record.get(name) for name, column in named.items()}
    return {column: None if value is None else _cells([value], _kind(value))[0] for column, value in found.items()}


@dataclass(slots=True)
class _Column:
    """The cells of one column that are not empty, and what they are of."""

    kind: str = "null"
    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class Passthrough:
    """The passthrough columns of one stream of batches: once there, a column stays, and its type only widens."""

    def __init__(self, fields: Fields, *, always: Iterable[str] = ()) -> None:
        """always: fields that become columns next to those that are asked for."""
        self._named, spread = column_names(fields), column_names(tuple(always)) or {}
        if self._named is not None:
            self._named |= {name: name for name in spread if name not in self._named}
        self._columns = {column: _Column() for column in (self._named or {}).values()}
        self._samples: dict[int, str] = {}  # of the rows that have fields
        self._conflicts: list[Conflict] = []
        self._reported: set[tuple[str, str]] = set()

    def add(self, record: Mapping[str, Any], sample_id: str, *, row: int) -> None:
        """The fields of the row of that number in the batch; rows without fields need no call."""
        for name, value in self._chosen(record).items():
            column = self._columns.get(name) or self._new(name, sample_id)
            if column is not None and value is not None:
                column.rows.append(row)
                column.values.append(value)
        self._samples[row] = sample_id

    def _chosen(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values by column."""
        if self._named is not None:
            return {column: record.get(name) for name, column in self._named.items()}
        if "".join(record).isascii():
            return record
        return {_storable(name): value for name, value in record.items()}

    def _new(self, name: str, sample_id: str) -> _Column | None:
        """A column of that name; None where none can be, which is reported."""
        if name in RESERVED:
            self._report_once(
                name, sample_id, "the name is that of a reserved column: its values are in metadata_json alone"
            )
        elif len(self._columns) >= MAX_COLUMNS:
            self._report_once(
                "*", sample_id, f"num_columns not in [0, {MAX_COLUMNS}]: the fields beyond are in metadata_json alone"
            )
        else:
            return self._columns.setdefault(name, _Column())
        return None

    def take(self, num_rows: int) -> tuple[dict[str, pa.Array], tuple[Conflict, ...]]:
        """(the columns of a batch of so many rows, what was resolved for them). The next rows are of another batch.
        Columns that were asked for and have no value are logged."""
        arrays = {name: self._array(name, column, num_rows) for name, column in self._columns.items()}
        absent = [name for name, column in self._columns.items() if column.kind == "null" and self._named is not None]
        for name in absent:
            if num_rows and ("absent", name) not in self._reported:
                self._reported.add(("absent", name))
                _log.warning("the field of the column %r is in none of %d rows: the column is null", name, num_rows)
        conflicts = tuple(self._conflicts)
        self._samples, self._conflicts = {}, []
        for column in self._columns.values():
            column.rows, column.values = [], []
        return arrays, conflicts

    def _array(self, name: str, column: _Column, num_rows: int) -> pa.Array:
        for found, first in _kinds(column.values).items():
            before, column.kind = column.kind, _common(column.kind, found)
            if column.kind == "mixed" != before:
                sample_id = self._samples[column.rows[first]]
                self._report_once(
                    name, sample_id, f"a value of kind {found} where others are of kind {before}: the column is text"
                )
        if column.kind == "float":
            at = next(
                (at for at, value in enumerate(column.values) if isinstance(value, int) and abs(value) > _EXACT), None
            )
            if at is not None:
                self._report_once(
                    name,
                    self._samples[column.rows[at]],
                    "a whole number that no float holds, next to fractions: the column is text",
                )
                column.kind = "mixed"
        cells: list[Any] = [None] * num_rows
        for row, value in zip(column.rows, _cells(column.values, column.kind), strict=True):
            cells[row] = value
        return pa.array(cells, _TYPES[column.kind])

    def _report_once(self, column: str, sample_id: str, reason: str) -> None:
        if (column, reason) not in self._reported:
            self._reported.add((column, reason))
            self._conflicts.append(Conflict(column, sample_id, reason))
            _log.warning("field %r, sample %s: %s", column, sample_id, reason)


_KINDS: Final = {bool: "bool", float: "float", str: "text", dict: "json", list: "json"}


def _kinds(values: list[Any]) -> dict[str, int]:
    """The kinds of the values, in the order of their first ones, and where these stand."""
    (alone,) = types if len(types := set(map(type, values))) == 1 else (None,)
    if alone in _KINDS:  # as nearly every column: soon decided
        return {_KINDS[alone]: 0}
    found: dict[str, int] = {}
    for at, value in enumerate(values):
        found.setdefault(_kind(value), at)
    return found


def _kind(value: Any) -> str:
    if (found := _KINDS.get(type(value))) is not None:
        return found
    if isinstance(value, int):
        return "int" if -(1 << 63) <= value < 1 << 63 else "json"
    return "float" if isinstance(value, float) else "text" if isinstance(value, str) else "json"


def _common(one: str, other: str) -> str:
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "float" if {one, other} == {"int", "float"} else "mixed"


def _cells(values: list[Any], kind: str) -> list[Any]:
    """The values as a column of that kind holds them; none of them is None."""
    if kind in ("null", "bool", "int"):
        return values
    if kind == "float":
        return [float(value) for value in values]
    return [_storable(value) if isinstance(value, str) else json_text(value) for value in values]


def json_text(value: Any) -> str:
    """The value as JSON that a table can hold: halves of surrogate pairs stay escaped."""
    text = canonical_json(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text


def _storable(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
