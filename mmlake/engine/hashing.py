"""A number per row that stands for all of its values."""

from __future__ import annotations

import atexit
import threading
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class RowHashes:
    """Hashes of rows by DuckDB, whose hash knows nested columns; the database starts when something is first asked.

    They are no cryptographic hashes: 64 bits distinguish a row from what it was, not from what was made to meet it.
    Hashes of two releases of DuckDB need not agree, so whoever keeps some keeps `release` with them.
    """

    def __init__(self) -> None:
        self._database: DuckDBPyConnection | None = None
        self._lock = threading.Lock()

    @property
    def release(self) -> str:
        """By which release of DuckDB rows are hashed."""
        import duckdb

        return f"duckdb {duckdb.__version__}"

    def of(self, table: pa.Table) -> pa.ChunkedArray:
        """A uint64 per row, in the order of the rows; equal for rows whose columns are equal by value and place."""
        if not table.num_rows or not table.num_columns:
            return pa.chunked_array([pa.array([0] * table.num_rows, pa.uint64())])
        with self._opened().cursor() as cursor:
            cursor.register("hashed", table)
            return cursor.sql("SELECT hash(hashed) FROM hashed").to_arrow_table().column(0)

    def close(self) -> None:
        """Let go of the database; the next question starts another one."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None

    def _opened(self) -> DuckDBPyConnection:
        with self._lock:  # shards are made by several threads
            if self._database is None:
                import duckdb

                self._database = duckdb.connect(
                    ":memory:",
                    config={
                        "threads": "1",  # rows in their order; a hash takes a hundredth of what made the row
                        "autoinstall_known_extensions": "false",
                        "autoload_known_extensions": "false",
                        "python_enable_replacements": "false",
                    },
                )
            return self._database


@cache
def row_hashes() -> RowHashes:
    """Those of this process: a run opens its lake for each asset and check, and a database takes as long to start as
    some hundred rows to hash."""
    found = RowHashes()
    atexit.register(found.close)  # else DuckDB prints what was left open when the interpreter ends
    return found
