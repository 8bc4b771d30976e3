"""Joins and group-bys over keys, whatever their number: DuckDB with a limit of memory, which spills beyond it.

Rows go in as tables, one part after the other. What fits into a small part of the memory is done by Arrow, since a
database takes longer to start than that takes; the outcome is the same and comes in the order of the key, so that it
does not depend on the limit or on the number of threads. DuckDB reads and sorts no wide rows (`sorting.py` says why).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.scratch import Scratch, TextColumn

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_ROWS = 100_000
_LEAST_BYTES = 64 << 20  # DuckDB refuses to work with much less


class Relations:
    """Questions about keys; columns of keys are texts without nulls."""

    def __init__(self, scratch: Scratch, *, most_bytes: float, small_bytes: float, threads: int) -> None:
        """most_bytes: that a question may take. small_bytes: of rows that are asked without a database."""
        self._scratch, self._threads = scratch, threads
        self._most_bytes, self._small_bytes = max(int(most_bytes), _LEAST_BYTES), small_bytes

    def distinct(self, keys: Iterable[pa.Table], among: Iterable[pa.Table]) -> pa.Array:
        """The keys that both have, sorted, each once. Both: tables of one column."""
        few, all_keys = self._held(keys)
        few_others, all_others = self._held(among)
        if few is not None and few_others is not None:
            both = few[0].filter(pc.is_in(few[0], value_set=few_others[0].combine_chunks()))
            found = pc.unique(both)
            return found.take(pc.sort_indices(found))
        asked = "SELECT DISTINCT k.a FROM keys k SEMI JOIN others o ON k.a = o.a ORDER BY k.a"
        column = TextColumn(self._scratch)
        for batch in self._asked(asked, keys=(all_keys, "a"), others=(all_others, "a")):
            column.append(pa.chunked_array([batch.column(0)]))
        return column.array()

    def strangers(self, keys: Iterable[pa.Table], known: Iterable[pa.Table]) -> pa.Array:
        """The keys that are not known, sorted, each once. Both: tables of one column."""
        few, all_keys = self._held(keys)
        few_known, all_known = self._held(known)
        if few is not None and few_known is not None:
            found = pc.unique(few[0].filter(pc.invert(pc.is_in(few[0], value_set=few_known[0].combine_chunks()))))
            return found.take(pc.sort_indices(found))
        asked = "SELECT DISTINCT k.a FROM keys k ANTI JOIN known o ON k.a = o.a ORDER BY k.a"
        column = TextColumn(self._scratch)
        for batch in self._asked(asked, keys=(all_keys, "a"), known=(all_known, "a")):
            column.append(pa.chunked_array([batch.column(0)]))
        return column.array()

    def least_and_count(self, rows: Iterable[pa.Table]) -> pa.Table:
        """A row per key, sorted: the key, the smallest of its values (`least`), how many rows it has (`num`).

        rows: tables of two columns, a key and a value."""
        few, all_rows = self._held(rows)
        if few is not None:
            name, value = few.column_names
            found = few.group_by(name).aggregate([(value, "min"), (value, "count")])
            found = found.select([name, f"{value}_min", f"{value}_count"]).rename_columns([name, "least", "num"])
            return found.sort_by(name)
        first = next(all_rows)
        all_rows = itertools.chain([first], all_rows)
        asked = "SELECT a, min(b) AS least, count(b) AS num FROM held GROUP BY a ORDER BY a"
        batches = list(self._asked(asked, held=(all_rows, "ab")))
        return pa.Table.from_batches(batches).rename_columns([first.column_names[0], "least", "num"])

    def _held(self, parts: Iterable[pa.Table]) -> tuple[pa.Table | None, Iterator[pa.Table]]:
        """(all rows, where they are few; all of them, to be gone through)."""
        parts = iter(parts)
        held, size = [], 0
        for part in parts:
            held.append(part)
            size += part.nbytes
            if size > self._small_bytes:
                return None, itertools.chain(held, parts)
        if not held:
            held = [pa.table({"": pa.array([], pa.string())})]
        return pa.concat_tables(held), iter(held)

    def _asked(self, question: str, **tables: tuple[Iterator[pa.Table], str]) -> Iterator[pa.RecordBatch]:
        with self._database() as database:
            for name, (parts, columns) in tables.items():
                database.register(name, _reader(parts, list(columns)))
            yield from database.sql(question).to_arrow_reader(_BATCH_ROWS)

    @contextmanager
    def _database(self) -> Iterator[DuckDBPyConnection]:
        import duckdb

        with tempfile.TemporaryDirectory(prefix="duckdb-", dir=self._scratch.made_folder()) as folder:
            config: dict[str, str | bool | int | float | list[str]] = {
                "memory_limit": f"{self._most_bytes}B",
                "threads": str(self._threads),
                "temp_directory": folder,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
            }
            with duckdb.connect(":memory:", config=config) as database:
                yield database


def _reader(parts: Iterator[pa.Table], names: list[str]) -> pa.RecordBatchReader:
    """The rows of tables of equal columns, under these names."""
    first = next(parts).rename_columns(names)
    rest: Callable[[pa.Table], pa.Table] = lambda part: part.rename_columns(names).cast(first.schema)
    batches = (batch for part in itertools.chain([first], map(rest, parts)) for batch in part.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, batches)
