"""Interleaved rows read back from Parquet files and Lance datasets that hold them, in batches of a bounded size.

These are tables in the columns of `SCHEMA`, as the row writers and other pipelines leave them. Tables of another make
(a column of images, a column of texts) are sources: `read_rows` reads those.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SchemaMismatch, SettingsError, TableCorrupt, UnreadableItem
from mmlake.formats.columnar.child_source import ColumnarLimits
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.landing import Landing, LocalLanding, as_landing, native
from mmlake.optional import need
from mmlake.rows.batch import RowBatch
from mmlake.rows.columns import conform, unified
from mmlake.rows.passthrough import Fields, column_names
from mmlake.rows.row_reader import MAX_BATCH_BYTES
from mmlake.rows.schema import RESERVED, SCHEMA, reconcile

LANCE_COLUMNS: Final = {"_rowid": "lance_row_id", "_rowaddr": "lance_row_address"}
LANCE_FRAGMENT: Final = "lance_fragment"
_SCAN_ROWS = 256  # rows taken at a time: a row may hold a picture of some megabytes
_ROW_BYTES = 256  # what a row takes next to its texts and bytes
_FRAGMENT_SHIFT = 32  # Lance's addresses: fragment in the upper half, row in the lower one
# A table in our own columns is read whatever it expands to: what is held at once is bounded all the same.
_LIMITS: Final = ColumnarLimits(
    batch_bytes=32 << 20,
    max_expansion=1 << 20,
    max_decoded_bytes=384 << 20,
    max_item_bytes=4 << 30,
    max_line_bytes=4 << 30,
)
# pyarrow's and pylance's ways to say that a file is damaged
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)

_log = logging.getLogger(__name__)


def read_parquet_rows(
    paths: Sequence[str],
    *,
    landing: Landing | str | os.PathLike[str],
    fields: Fields = None,
    max_batch_bytes: int | None = MAX_BATCH_BYTES,
    max_batch_rows: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the files, at least one batch, each with the names of the files that fed it. Rows of one sample that
    follow one another stay together.

    fields: the passthrough columns that are kept, null where a file has no such column; None: all. Reserved columns
    that a file lacks are null. max_batch_bytes, max_batch_rows: only a sample that is larger exceeds them; None: no
    limit. Raises ValueError for a field with a reserved name, TableCorrupt where a file is no sound Parquet.
    """
    _check_limits(max_batch_bytes=max_batch_bytes, max_batch_rows=max_batch_rows)
    named, zone = column_names(fields), as_landing(landing)
    pieces = ((path, _shaped(table, named)) for path in paths for table in _parquet(zone, path))
    return _batches(pieces, _Splitting(named, max_batch_bytes, max_batch_rows, files=tuple(paths)))


def read_lance_rows(
    paths: Sequence[str],
    *,
    landing: Landing | str | os.PathLike[str],
    fields: Fields = None,
    version: int | None = None,
    fragments: Sequence[int] | None = None,
    max_batch_bytes: int | None = MAX_BATCH_BYTES,
    max_batch_rows: int | None = None,
    scan_rows: int = _SCAN_ROWS,
) -> Iterator[RowBatch]:
    """As `read_parquet_rows`, with the columns `lance_row_id`, `lance_row_address` and `lance_fragment`, and with
    `path@version` as the name of a file.

    version: of every dataset; None: its newest. fragments: the only ones of every dataset that are read, by their ids;
    None: all. Raises SchemaMismatch where a required column is missing or a sample has no id, SettingsError where the
    landing zone is no local directory or a dataset has no such fragment, ValueError for a limit of 0 or less.
    """
    _check_limits(max_batch_bytes=max_batch_bytes, max_batch_rows=max_batch_rows, scan_rows=scan_rows, version=version)
    named, zone = column_names(fields), as_landing(landing)
    if not isinstance(zone, LocalLanding):
        raise SettingsError(
            f"interleaved rows in Lance are read from a local directory, not from {zone.location}; copy the "
            "dataset first"
        )
    if named is not None:
        named |= {name: name for name in (*LANCE_COLUMNS.values(), LANCE_FRAGMENT)}
    pieces = (
        (place, _shaped(table, named))
        for path in paths
        for place, table in _lance(zone, path, version, fragments, scan_rows)
    )
    return _batches(pieces, _Splitting(named, max_batch_bytes, max_batch_rows))


def _check_limits(**limits: int | None) -> None:
    for name, value in limits.items():
        if value is not None and value <= 0:
            raise ValueError(f"{name}={value} must be above 0")


def _parquet(landing: Landing, path: str) -> Iterator[pa.Table]:
    try:
        with ParquetReader(lambda: landing.open(path), _LIMITS) as file:
            yield file.schema.empty_table()
            for group in range(len(file.groups)):
                for batch in file.batches(group):
                    yield pa.Table.from_batches([batch])
    except UnreadableItem as error:
        raise TableCorrupt(
            f"{path} in {landing.location} does not read as a Parquet file; write or fetch it again"
        ) from error


def _lance(
    landing: LocalLanding, path: str, version: int | None, fragments: Sequence[int] | None, scan_rows: int
) -> Iterator[tuple[str, pa.Table]]:
    lance: Any = need("lance", extra="lance", purpose="interleaved rows in Lance")
    root = landing.root / native(path)
    if not root.resolve().is_relative_to(landing.root):
        raise SettingsError(
            f"the dataset {path!r} lies outside of the landing zone {landing.location}; name one inside"
        )
    try:
        dataset = lance.dataset(str(root), version=version)
    except _BROKEN as error:
        raise TableCorrupt(
            f"{path} in {landing.location} does not open as a Lance dataset of version {version or 'newest'}; "
            "inspect its versions, or write it again"
        ) from error
    place = f"{path}@{dataset.version}"
    if missing := [field.name for field in SCHEMA if not field.nullable and field.name not in dataset.schema.names]:
        raise SchemaMismatch(
            f"{place} lacks the required columns {missing}; expected those of interleaved rows, or read it as a source"
        )
    yield place, _addressed(dataset.schema.empty_table())
    chosen = None if fragments is None else [_fragment(dataset, number, place) for number in fragments]
    # `to_batches` would pass over `fragments`
    scanner = dataset.scanner(
        batch_size=scan_rows, with_row_id=True, with_row_address=True, scan_in_order=True, fragments=chosen
    )
    for batch in scanner.to_batches():
        yield place, _addressed(pa.Table.from_batches([batch]))


def _fragment(dataset: Any, number: int, place: str) -> Any:
    if (fragment := dataset.get_fragment(number)) is None:
        raise SettingsError(
            f"{place} has no fragment {number}, only "
            f"{[each.fragment_id for each in dataset.get_fragments()][:20]}; name one of those"
        )
    return fragment


def _addressed(table: pa.Table) -> pa.Table:
    """The table with Lance's own columns under our names."""
    for given, ours in LANCE_COLUMNS.items():
        values = table[given].combine_chunks() if given in table.column_names else pa.array([], pa.uint64())
        table = (table.drop_columns([given]) if given in table.column_names else table).append_column(ours, values)
    fragments = pc.cast(
        pc.shift_right(table[LANCE_COLUMNS["_rowaddr"]], pa.scalar(_FRAGMENT_SHIFT, pa.uint64())), pa.int64()
    )
    return table.append_column(LANCE_FRAGMENT, fragments)


def _shaped(table: pa.Table, named: dict[str, str] | None) -> pa.Table:
    """The reserved columns, null where the table lacks them, then the wanted ones."""
    if named is None:
        named = {name: name for name in table.column_names if name not in RESERVED}
    columns = {
        field.name: table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in SCHEMA
    }
    columns |= {
        column: table[name] if name in table.column_names else pa.nulls(table.num_rows)
        for name, column in named.items()
    }
    shaped = pa.table(columns)
    return reconcile(shaped)


class _Splitting:
    """The batch that is being made: whole samples up to the limit, with the files that they came from."""

    def __init__(
        self,
        named: dict[str, str] | None,
        max_bytes: int | None,
        max_rows: int | None,
        *,
        files: tuple[str, ...] | None = None,
    ) -> None:
        """files: what a batch names whose samples have no ids; None refuses such rows."""
        self._max_bytes, self._max_rows, self._all_files = max_bytes, max_rows, files
        self._empty = _shaped(SCHEMA.empty_table(), named or {})
        self._tables: list[pa.Table] = []
        self._num_bytes = self._num_rows = 0
        self._files: dict[str, None] = {}
        self._warned = False

    @property
    def is_bounded(self) -> bool:
        return self._max_bytes is not None or self._max_rows is not None

    @property
    def is_begun(self) -> bool:
        return self._num_rows > 0

    def fits(self, num_bytes: int, num_rows: int) -> bool:
        """Whether so much more is within the limits."""
        return (self._max_bytes is None or self._num_bytes + num_bytes <= self._max_bytes) and (
            self._max_rows is None or self._num_rows + num_rows <= self._max_rows
        )

    def add(self, table: pa.Table, path: str, num_bytes: int) -> None:
        self._tables.append(table)
        self._num_bytes += num_bytes
        self._num_rows += table.num_rows
        self._files[path] = None

    def see(self, table: pa.Table, path: str) -> None:
        """Columns of a file, whether or not it has rows."""
        self._tables.append(table.slice(0, 0))
        if num_nulls := table["sample_id"].null_count:
            if self._all_files is None:
                raise SchemaMismatch(
                    f"{path}: the required column 'sample_id' holds {num_nulls} nulls; give every row the id of "
                    "its sample"
                )
            if not self._warned:
                self._warned = True
                _log.warning(
                    "%s has %d rows without a sample_id: they are kept together, and their batches name every file",
                    path,
                    num_nulls,
                )

    def take(self, name: str) -> RowBatch:
        """The batch, and a new one begun with the same columns."""
        schema: pa.Schema | None = None
        for table in [self._empty, *self._tables]:
            schema, _ = unified(schema, table.schema)
        table = pa.concat_tables([conform(each, schema) for each in [self._empty, *self._tables]])
        files = self._all_files if self._all_files is not None and table["sample_id"].null_count else tuple(self._files)
        kept = [
            field.with_nullable(SCHEMA.field(field.name).nullable) if field.name in RESERVED else field
            for field in table.schema
        ]
        batch = RowBatch(
            pa.Table.from_arrays(table.columns, schema=pa.schema(kept, metadata=SCHEMA.metadata)), files, name
        )
        self._tables, self._num_bytes, self._num_rows, self._files = (
            [self._tables[-1].slice(0, 0)] if self._tables else [],
            0,
            0,
            {},
        )
        return batch


def _batches(pieces: Iterator[tuple[str, pa.Table]], making: _Splitting) -> Iterator[RowBatch]:
    num_splits = 0
    for path, table in _whole_samples(pieces):
        making.see(table, path)
        # of the samples that follow one another into the same batch: a slice for each would cost more than all the rest
        start = run_bytes = 0
        for begin, end, num_bytes in _samples(table) if making.is_bounded else ():
            if (begin > start or making.is_begun) and not making.fits(run_bytes + num_bytes, end - start):
                if begin > start:
                    making.add(table.slice(start, begin - start), path, run_bytes)
                num_splits += 1
                yield making.take(f"rows::split_{num_splits:04d}")
                start, run_bytes = begin, 0
            run_bytes += num_bytes
        if table.num_rows > start:
            making.add(table.slice(start), path, run_bytes)
    yield making.take(f"rows::split_{num_splits + 1:04d}" if num_splits else "rows")


def _whole_samples(pieces: Iterator[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """The pieces cut anew so that the last sample of one does not go on in the next. A sample ends with its file."""
    place, held = "", list[pa.Table]()  # pieces of one sample; joined once, since it may be a whole file
    for path, table in pieces:
        bounds = _bounds(table)
        if (
            held
            and place == path
            and held[-1].num_rows
            and table.num_rows
            and held[-1]["sample_id"][-1].as_py() == table["sample_id"][0].as_py()
        ):
            held.append(table.slice(0, bounds[1]))
            if len(bounds) == 2:
                continue
            table, bounds = table.slice(bounds[1]), [at - bounds[1] for at in bounds[1:]]
        if held:
            yield place, pa.concat_tables(held)
        if bounds[-2]:
            yield path, table.slice(0, bounds[-2])
        place, held = path, [table.slice(bounds[-2])]
    if held:
        yield place, pa.concat_tables(held)


def _samples(table: pa.Table) -> Iterator[tuple[int, int, int]]:
    """(first row of a sample, the row after its last, about what they take in memory) in order."""
    sizes = np.full(table.num_rows, _ROW_BYTES, np.int64)
    for name in ("text_content", "binary_content", "metadata_json"):
        sizes += np.asarray(pc.fill_null(pc.cast(pc.binary_length(table[name]), pa.int64()), 0), dtype=np.int64)
    bounds = _bounds(table)
    before = np.concatenate(([0], np.cumsum(sizes)))[bounds]
    if table.num_rows:
        yield from zip(bounds[:-1], bounds[1:], np.diff(before).tolist(), strict=True)


def _bounds(table: pa.Table) -> list[int]:
    """Where samples begin, and the end. Rows without an id count as one sample where they stand together."""
    if not table.num_rows:
        return [0, 0]
    ids = table["sample_id"].to_pylist()
    return [0, *(at for at in range(1, len(ids)) if ids[at] != ids[at - 1]), len(ids)]
