"""The Parquet file of one stage table, of which a row group is in memory at a time: a shard may have millions of rows.

Enters: rows in the order of the table's key, some at a time. Leaves: the bytes that the whole table would give, checked
as they are written, and their rows again, some at a time.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake import schemas
from mmlake.errors import SchemaMismatch
from mmlake.schemas.table import TableSchema

ROW_GROUP_ROWS = 16_384
_BLOCK_BYTES = 1 << 20
_TOGETHER_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table that is on the disk, in a file that has no name yet."""

    file: IO[bytes]
    data_version: str  # SHA-256 of the file
    num_rows: int
    size_bytes: int

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some of its columns, `narrowed`."""
        file = pq.ParquetFile(self.file)
        return pa.concat_tables([narrowed(part, columns) for part in row_groups(file, columns)]).unify_dictionaries()

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, some at a time."""
        self.file.seek(0)
        while block := self.file.read(_BLOCK_BYTES):
            yield block


def narrowed(part: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Some of its columns; digests as codes of the distinct ones, since a table of measures repeats each thirty
    times."""
    part = part.select(list(columns))
    for at, name in enumerate(columns):
        if name == "digest":
            part = part.set_column(at, name, part[name].dictionary_encode())
    return part


def encoded(table: pa.Table) -> bytes:
    """The Parquet file of the whole table, in memory."""
    sink = io.BytesIO()
    table = table.combine_chunks()  # pages end where chunks do, and equal rows shall be equal bytes
    pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP_ROWS, write_page_checksum=True)
    return sink.getvalue()


@contextmanager
def written(directory: Path, schema: TableSchema, parts: Iterable[pa.Table], what: str) -> Iterator[WrittenTable]:
    """The rows in a file of the directory, the same bytes as those of `encoded`; gone with the context, and with the
    process. It has no name, since it may wait for hours until its next rows are made, and nobody shall take it for one
    that was left behind.

    parts: of the schema, sorted by its key within and from one to the next. Raises SchemaMismatch, naming `what`, where
    they are not, or where a part does not keep the schema."""
    with tempfile.TemporaryFile(dir=directory) as file:
        sink, num_rows = _Hashed(file), 0
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"), schema.arrow, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in _row_groups(in_order(schema, parts, what)):
                writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
                num_rows += group.num_rows
            if not num_rows:
                writer.write_table(schemas.empty(schema))
        yield WrittenTable(file, sink.hash.hexdigest(), num_rows, sink.num_bytes)


def in_order(schema: TableSchema, parts: Iterable[pa.Table], what: str) -> Iterator[pa.Table]:
    """The parts that have rows, as the schema says. Raises SchemaMismatch where a key is not behind the one before."""
    last: tuple[object, ...] | None = None
    for part in parts:
        part = schemas.conform(schema, part)
        if not part.num_rows:
            continue
        first, end = (tuple(part[name][at].as_py() for name in schema.key) for at in (0, part.num_rows - 1))
        if (last is not None and not last < first) or not schemas.is_sorted(part, schema.key):
            raise SchemaMismatch(
                f"table {what}: rows repeat a key {schema.key}, or come in another order than that of the key, near "
                f"{first}; correct the step that made it"
            )
        yield part
        last = end


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, as many at a time as a row group has, of one chunk each: pages end where chunks do."""
    held: list[pa.Table] = []
    num_held = 0
    for part in parts:
        held.append(part)
        num_held += part.num_rows
        if num_held < ROW_GROUP_ROWS:
            continue
        rows, at = pa.concat_tables(held), 0
        while num_held - at >= ROW_GROUP_ROWS:
            yield rows.slice(at, ROW_GROUP_ROWS).combine_chunks()
            at += ROW_GROUP_ROWS
        # a copy, since a slice would keep all that it is cut from
        held, num_held = [rows.slice(at).combine_chunks()], num_held - at
    if num_held:
        yield pa.concat_tables(held).combine_chunks()


def together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in their order, small tables that follow each other as one of a few MB, in one chunk: a thousand
    shards of two texts would make each pass over a table a thousand calls of whatever is done with it."""
    held: list[pa.Table] = []
    num_bytes = 0
    for part in parts:
        size = part.nbytes
        if held and (num_bytes + size > _TOGETHER_BYTES or part.schema != held[0].schema):
            yield _as_one(held)
            held, num_bytes = [], 0
        if size > _TOGETHER_BYTES:  # at once: nothing else of its size is in memory meanwhile
            yield part
        else:
            held.append(part)
            num_bytes += size
    if held:
        yield _as_one(held)


def _as_one(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


class _Hashed(io.RawIOBase):
    """Writes to the file, and hashes and counts what goes there."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file, self.hash, self.num_bytes = file, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._file.write(view)
        self.hash.update(view)
        self.num_bytes += view.nbytes
        return view.nbytes


def hash_of(file: IO[bytes] | pa.NativeFile) -> str:
    """SHA-256 of what is left of the file."""
    found = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        found.update(block)
    return found.hexdigest()


def check_key(what: str, schema: TableSchema, table: pa.Table) -> None:
    """Raises SchemaMismatch where two rows share a key, naming `what`. table: sorted by it."""
    if schemas.is_sorted(table, schema.key):
        return
    keys = table.select(list(schema.key))
    distinct = keys.group_by(list(schema.key)).aggregate([]).num_rows
    if distinct != table.num_rows:
        raise SchemaMismatch(
            f"table {what}: {table.num_rows - distinct} of {table.num_rows} rows repeat a key {schema.key}; "
            "correct the step that made it"
        )


def row_groups(
    file: pq.ParquetFile, columns: Sequence[str], *, holding: tuple[str, str] | None = None, use_threads: bool = False
) -> Iterator[pa.Table]:
    """The rows of the file, a row group at a time; one table without rows where it has none. holding: (column, value);
    row groups whose least and greatest value say that they do not have it are passed over."""
    groups = [at for at in range(file.metadata.num_row_groups) if holding is None or _may_hold(file, at, *holding)]
    if not file.metadata.num_rows or not groups:
        yield file.schema_arrow.empty_table().select(list(columns))
        return
    for at in groups:
        yield file.read_row_group(at, columns=list(columns), use_threads=use_threads)


def _may_hold(file: pq.ParquetFile, group: int, name: str, value: str) -> bool:
    held = file.metadata.row_group(group)
    column = next(at for at in range(held.num_columns) if held.column(at).path_in_schema == name)
    known = held.column(column).statistics
    return known is None or not known.has_min_max or known.min <= value <= known.max
