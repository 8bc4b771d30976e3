"""What the contract of one stage table is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


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


def is_sorted(table: pa.Table, key: Sequence[str]) -> bool:
    """Whether each row is greater by the key than the one before it; not where a key is null.

    The check costs a tenth of sorting, and sorting copies every text and every list.
    """
    if table.num_rows < 2:
        return True
    tied: pa.ChunkedArray | bool = True  # equal to the row before in the columns so far
    for name in key:
        before, after = table[name][:-1], table[name][1:]
        if not pc.all(pc.or_(pc.less_equal(before, after), pc.invert(tied)), skip_nulls=False).as_py():
            return False
        tied = pc.and_(tied, pc.equal(before, after))
    return not pc.any(tied).as_py()
