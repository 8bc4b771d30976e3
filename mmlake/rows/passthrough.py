"""Fields of records as columns behind the reserved ones: which become columns, under what name, and of which type.

A sample may have fields that others lack, and a field may be a number here and a text there: nothing of that is an error. Whole numbers
and fractions become fractions, nested values become JSON, what else differs becomes text, and each such case is told as a `Conflict`.
The record itself stands in `metadata_json` as it came.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from mmlake.records import canonical_json
from mmlake.rows.batch import Conflict
from mmlake.rows.schema import RESERVED

Fields = Iterable[str] | Mapping[str, str] | None  # names, or names by field; None: every field that is not reserved

MAX_COLUMNS: Final = 1000  # a record per sample with keys of its own would make a column of each
_TYPES: Final = {"null": pa.null(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.large_string(), "json": pa.large_string(), "mixed": pa.large_string()}
_EXACT: Final = 1 << 53  # whole numbers beyond it have no float of their own

_log = logging.getLogger(__name__)


def column_names(fields: Fields) -> dict[str, str] | None:
    """Column by field. Raises ValueError where a column would have a reserved name or two fields would be one column."""
    if fields is None:
        return None
    if isinstance(fields, str):
        raise ValueError(f"fields={fields!r} is one text; give the names as a list")
    named = dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    if taken := sorted(RESERVED.intersection(named.values())):
        raise ValueError(f"fields {taken} have the names of reserved columns; name other columns for them, as in fields={{{taken[0]!r}: 'their_{taken[0]}'}}")
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
    return {column: _cell(record.get(name), _kind(record.get(name))) for name, column in named.items()}


class Passthrough:
    """The passthrough columns of one stream of batches: once there, a column stays, and its type only widens."""

    def __init__(self, fields: Fields, *, always: Iterable[str] = ()) -> None:
        """always: fields that become columns beside those that are asked for."""
        self._named = column_names(fields)
        if self._named is not None:
            self._named |= {name: name for name in column_names(tuple(always)) or () if name not in self._named}
        self._kinds: dict[str, str] = dict.fromkeys(self._named.values() if self._named is not None else (), "null")
        self._rows: list[dict[str, Any]] = []
        self._samples: list[str] = []
        self._conflicts: list[Conflict] = []
        self._told: set[tuple[str, str]] = set()

    def add(self, record: Mapping[str, Any], sample_id: str) -> None:
        """One more row with these fields."""
        if self._named is not None:
            row = {column: record[name] for name, column in self._named.items() if record.get(name) is not None}
        else:
            row = {}
            for name, value in record.items():
                column = name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
                if column in RESERVED:
                    self._tell(column, sample_id, "the name is that of a reserved column: its values are in metadata_json alone")
                elif column not in self._kinds and len(self._kinds) >= MAX_COLUMNS:
                    self._tell("*", sample_id, f"num_columns not in [0, {MAX_COLUMNS}]: the fields beyond are in metadata_json alone")
                else:
                    row[column] = value
                    self._kinds.setdefault(column, "null")
        self._rows.append(row)
        self._samples.append(sample_id)

    def take(self) -> tuple[dict[str, pa.Array], tuple[Conflict, ...]]:
        """(the columns of the rows since the last call, what was resolved for them). Columns that were asked for and have no value are logged."""
        columns = {column: self._column(column) for column in self._kinds}
        absent = [column for column in self._kinds if self._kinds[column] == "null" and self._named is not None]
        for column in absent:
            if self._rows and ("absent", column) not in self._told:
                self._told.add(("absent", column))
                _log.warning("the field of the column %r is in none of %d rows: the column is null", column, len(self._rows))
        conflicts = tuple(self._conflicts)
        self._rows, self._samples, self._conflicts = [], [], []
        return columns, conflicts

    def _column(self, column: str) -> pa.Array:
        kind = self._kinds[column]
        values = [row.get(column) for row in self._rows]
        for value, sample_id in zip(values, self._samples, strict=True):
            if value is not None and kind != "mixed" and (found := _kind(value)) != kind:
                before, kind = kind, _common(kind, found)
                if kind == "mixed":
                    self._tell(column, sample_id, f"a value of kind {_kind(value)} where others are of kind {before}: the column is text")
        if kind == "float" and any(isinstance(value, int) and abs(value) > _EXACT for value in values):
            at = next(at for at, value in enumerate(values) if isinstance(value, int) and abs(value) > _EXACT)
            self._tell(column, self._samples[at], "a whole number that no float holds, beside fractions: the column is text")
            kind = "mixed"
        self._kinds[column] = kind
        return pa.array([_cell(value, kind) for value in values], _TYPES[kind])

    def _tell(self, column: str, sample_id: str, reason: str) -> None:
        if (column, reason) not in self._told:
            self._told.add((column, reason))
            self._conflicts.append(Conflict(column, sample_id, reason))
            _log.warning("field %r, sample %s: %s", column, sample_id, reason)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if -(1 << 63) <= value < 1 << 63 else "json"
    return "float" if isinstance(value, float) else "text" if isinstance(value, str) else "json"


def _common(one: str, other: str) -> str:
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "float" if {one, other} == {"int", "float"} else "mixed"


def _cell(value: Any, kind: str) -> Any:
    if value is None or kind in ("null", "bool", "int"):
        return value
    if kind == "float":
        return float(value)
    return _storable(value) if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """The value as JSON that a table can hold: halves of surrogate pairs stay escaped."""
    text = canonical_json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
