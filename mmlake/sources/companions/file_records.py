"""Records by the files that they name: what a table or a manifest says, in a temporary table on disk, so that memory
stays small however many there are.

Enters: records and the paths in them. Leaves: an index that answers what is said of a file, and which records no file
took.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mmlake.errors import Fault
from mmlake.records import canonical_json
from mmlake.sources.raw_items import Content, Reading
from mmlake.sources.records.lines import Line

_CACHE_KIB = 8192  # of SQLite; everything beyond it lies in the temporary directory
_INDEXES_KEPT = 4
_BATCH_ROWS = 1000
_MAX_PER_FILE = 10_000  # records: all rows of a sample are in memory
_TABLES = (
    "CREATE TABLE records (number INTEGER PRIMARY KEY, label TEXT, body TEXT, code INTEGER, reason TEXT); CREATE TABLE "
    "files (path TEXT, number INTEGER, reason TEXT);"
)


class Record(NamedTuple):
    """One record of a table."""

    label: str  # "line:7" or "row:7"
    body: str | bytes  # its fields as JSON; its bytes where they are not, "" where there are none
    paths: tuple[str, ...]  # the files that it names, relative to the table's directory
    fault: Fault | None
    missing: str | None = None  # why one of the files is none that the table describes


class Index:
    """The records of one table by the files that they name."""

    def __init__(self, lines: Iterable[tuple[Line, list[str]]]) -> None:
        """lines: each record, and the files that it names."""
        self._lock = threading.Lock()
        # An empty name: a database of this connection alone, in the temporary directory as soon as it outgrows the
        # cache.
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};{_TABLES}"
        )
        waiting: list[tuple[int, Line, list[str]]] = []
        for at, (line, paths) in enumerate(lines):
            waiting.append((at, line, paths))
            if len(waiting) == _BATCH_ROWS:
                self._write(waiting)
                waiting = []
        self._write(waiting)
        self._database.executescript(
            "CREATE INDEX paths ON files (path); CREATE INDEX numbers ON files (number); CREATE INDEX labels ON "
            "records (label);"
        )

    def _write(self, waiting: list[tuple[int, Line, list[str]]]) -> None:
        records, files = [], []
        for number, line, paths in waiting:
            fault = line.fault or Fault(0, "")
            records.append(
                (number, line.name, line.data or json_of(line.fields), fault.code or None, fault.reason or None)
            )
            files += [(path, number) for path in paths]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO records VALUES (?,?,?,?,?)", records)
        self._database.executemany("INSERT INTO files VALUES (?,?,NULL)", files)
        self._database.execute("COMMIT")

    def _select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def records(self) -> Iterator[Record]:
        """All of them in the table's order, some at a time, so that others may ask in between."""
        last = -1
        while rows := self._select(
            "SELECT number, label, body, code, reason FROM records WHERE number > ? ORDER BY number LIMIT ?",
            last,
            _BATCH_ROWS,
        ):
            for last, label, body, code, reason in rows:
                fault = Fault(code, reason) if code is not None else self._beyond(last)
                files = self._select("SELECT path, reason FROM files WHERE number = ? ORDER BY rowid", last)
                yield Record(
                    label,
                    body,
                    tuple(path for path, _ in files),
                    fault,
                    next((reason for _, reason in files if reason is not None), None),
                )

    def _beyond(self, number: int) -> Fault | None:
        """Why a record is not told: more stand before it that name the same file than one sample may hold."""
        if number < _MAX_PER_FILE:
            return None
        sql = (
            "SELECT max((SELECT count(*) FROM files AS earlier WHERE earlier.path = files.path AND earlier.number < "
            "files.number)) FROM files WHERE number = ?"
        )
        before = self._select(sql, number)[0][0] or 0
        return (
            Fault(1008, f"num_records={before + 1} of one file not in [0, {_MAX_PER_FILE}]")
            if before >= _MAX_PER_FILE
            else None
        )

    def of(self, path: str) -> list[Record]:
        """The records that name the file, in the table's order."""
        sql = (
            "SELECT label, body FROM records WHERE code IS NULL AND number IN (SELECT number FROM files WHERE path = ? "
            "ORDER BY number LIMIT ?) ORDER BY number"
        )
        return [Record(label, body, (path,), None) for label, body in self._select(sql, path, _MAX_PER_FILE)]

    def tell_missing(self, found: Iterator[tuple[str, str]]) -> None:
        """Take note of (path, why it is none that the table describes), in place of what was noted before."""
        self._select("UPDATE files SET reason = NULL WHERE reason IS NOT NULL")
        for path, reason in found:
            self._select("UPDATE files SET reason = ? WHERE path = ?", reason, path)

    def paths(self) -> Iterator[str]:
        """Every file that is named, once, sorted."""
        last = ""
        while rows := self._select(
            "SELECT DISTINCT path FROM files WHERE path > ? ORDER BY path LIMIT ?", last, _BATCH_ROWS
        ):
            for (last,) in rows:
                yield last

    def is_any_there(self) -> bool:
        """Whether a file that is named is one that the table describes, as far as was told."""
        return bool(self._select("SELECT 1 FROM files WHERE reason IS NULL LIMIT 1"))

    def names_below(self, directory: str) -> bool:
        """Whether a file in that directory, or below it, is named."""
        # "0" is the character behind "/": all paths below one lie together.
        return bool(
            self._select("SELECT 1 FROM files WHERE path >= ? AND path < ? LIMIT 1", f"{directory}/", f"{directory}0")
        )

    def body(self, label: str) -> str | bytes | None:
        """The fields of the record of that name as JSON."""
        rows = self._select("SELECT body FROM records WHERE label = ?", label)
        return rows[0][0] if rows else None


def json_of(fields: Mapping[str, Any]) -> str:
    """The fields as JSON; "" where there are none. Half of a surrogate pair stays escaped: no database holds it."""
    text = canonical_json(fields) if fields else ""
    return (
        text
        if text.isascii() or text.encode("utf-8", "replace").decode() == text
        else json.dumps(fields, sort_keys=True)
    )


def kept(body: str | bytes) -> dict[str, Any]:
    """What a row keeps of a record."""
    if not body:
        return {}
    data = body if isinstance(body, bytes) else body.encode()
    return {
        "content": Content.of_bytes(data),
        "content_type": "application/json",
        "extension": "json",
        "size_bytes": len(data),
    }


_INDEXES: OrderedDict[tuple[object, ...], Index] = OrderedDict()
_INDEXING = threading.Lock()


def index_of(what: tuple[object, ...], reading: Reading, make: Callable[[], Index]) -> Index:
    """The index of what is told by that key, made once for all directories that this process reads one after the
    other."""
    settings = reading.settings
    key = (reading.landing.location, *what, settings.max_line_bytes, settings.max_json_values, settings.max_shard_bytes)
    with _INDEXING:
        if key not in _INDEXES:
            _INDEXES[key] = make()
        _INDEXES.move_to_end(key)
        while len(_INDEXES) > _INDEXES_KEPT:
            _INDEXES.popitem(last=False)
        return _INDEXES[key]
