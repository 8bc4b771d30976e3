"""What the contract of one stage table is made of."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


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
