"""Tables on disk for records that may be too many for memory: one temporary SQLite database per owner."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from typing import Any

# Of SQLite, while rows are added and when all are there: many files may describe one directory. Everything beyond it
# lies in the temporary directory.
_CACHE_KIB, _KEPT_KIB = 8192, 2048
_BATCH_ROWS = 1000


class ScratchTables:
    """Tables that are filled once and then asked by any thread. They vanish with the object."""

    def __init__(self, tables: str) -> None:
        """tables: the SQL that makes them."""
        self._lock = threading.Lock()
        # An empty name: a database of this connection alone, in the temporary directory as soon as it outgrows the
        # cache.
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};{tables}"
        )
        # whoever parsed a file has no end to close it at; a connection that is only dropped is a warning of Python 3.13
        weakref.finalize(self, self._database.close)
        self._waiting: dict[str, list[tuple[Any, ...]]] = {}

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """One more row, with a value for every column. It can be asked for behind `finish`."""
        rows = self._waiting.setdefault(table, [])
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            self._write(table, rows)

    def _write(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
            self._database.execute("COMMIT")
            rows.clear()

    def finish(self, sql: str = "") -> None:
        """All rows are there. sql: the indices, and whatever else follows from all rows."""
        for table, rows in self._waiting.items():
            self._write(table, rows)
        self._database.executescript(f"{sql};PRAGMA cache_size = -{_KEPT_KIB};PRAGMA shrink_memory")

    def select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def value(self, sql: str, *values: object) -> Any:
        """The first value of the first row; None where there is no row."""
        rows = self.select(sql, *values)
        return rows[0][0] if rows else None

    def change(self, sql: str, *values: object) -> int:
        """The number of rows that a statement changed."""
        with self._lock:
            return self._database.execute(sql, values).rowcount

    def pages(self, sql: str, *values: object, by: str = "number", first: object = -1) -> Iterator[tuple[Any, ...]]:
        """The rows of a query with a condition, ordered by their first column, some at a time, so that others may ask
        in between and memory stays small. by: the name of that column. first: what is less than every value of it."""
        last = first
        while rows := self.select(f"{sql} AND {by} > ? ORDER BY {by} LIMIT {_BATCH_ROWS}", *values, last):
            yield from rows
            last = rows[-1][0]
