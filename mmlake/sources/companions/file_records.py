"""The records of one file by the files that they name, in tables on disk, so that memory stays small however many there
are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from mmlake.errors import Fault
from mmlake.records import canonical_json
from mmlake.sources.companions.file_lists import is_medium
from mmlake.sources.parsed_files import Kind
from mmlake.sources.records.lines import Line
from mmlake.sources.records.scratch import ScratchTables

_MAX_PER_FILE = 10_000  # records: all rows of a sample are in memory
_TABLES = """
CREATE TABLE records (number INTEGER PRIMARY KEY, label TEXT, body TEXT, code INTEGER, reason TEXT);
CREATE TABLE files (path TEXT, number INTEGER, reason TEXT);
"""
_INDICES = """
CREATE INDEX paths ON files (path);
CREATE INDEX numbers ON files (number);
CREATE INDEX labels ON records (label);
"""


class Record(NamedTuple):
    """One record of a table."""

    label: str  # "line:7" or "row:7"
    body: str | bytes  # its fields as JSON; its bytes where they are not, "" where there are none
    paths: tuple[str, ...]  # the files that it names, relative to the table's directory
    fault: Fault | None
    missing: str | None = None  # why one of the files is none that the table describes

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a record without a fault."""
        found: dict[str, Any] = json.loads(self.body or "{}")
        return found


class FileRecords:
    """The records of one table by the files that they name."""

    def __init__(self, lines: Iterable[tuple[Line, list[str]]]) -> None:
        """lines: each record, and the files that it names."""
        self._tables = ScratchTables(_TABLES)
        for number, (line, paths) in enumerate(lines):
            code, reason = (None, None) if line.fault is None else (line.fault.code, line.fault.reason)
            self._tables.add("records", (number, line.name, line.data or _json_of(line.fields), code, reason))
            for path in paths:
                self._tables.add("files", (path, number, None))
        self._tables.finish(_INDICES)

    def records(self) -> Iterator[Record]:
        """All of them in the table's order, some at a time, so that others may ask in between."""
        rows = self._tables.pages("SELECT number, label, body, code, reason FROM records WHERE TRUE")
        for number, label, body, code, reason in rows:
            fault = Fault(code, reason) if code is not None else self._beyond(number)
            files = self._tables.select("SELECT path, reason FROM files WHERE number = ? ORDER BY rowid", number)
            missing = next((reason for _, reason in files if reason is not None), None)
            yield Record(label, body, tuple(path for path, _ in files), fault, missing)

    def _beyond(self, number: int) -> Fault | None:
        """Why a record is left out: more stand before it that name the same file than one sample may hold."""
        if number < _MAX_PER_FILE:
            return None
        sql = (
            "SELECT max((SELECT count(*) FROM files AS earlier WHERE earlier.path = files.path AND earlier.number < "
            "files.number)) FROM files WHERE number = ?"
        )
        before = self._tables.value(sql, number) or 0
        reason = f"num_records={before + 1} of one file not in [0, {_MAX_PER_FILE}]"
        return Fault(1008, reason) if before >= _MAX_PER_FILE else None

    def of(self, path: str) -> list[Record]:
        """The records that name the file, in the table's order."""
        sql = (
            "SELECT label, body FROM records WHERE code IS NULL AND number IN (SELECT number FROM files WHERE path = ? "
            "ORDER BY number LIMIT ?) ORDER BY number"
        )
        return [Record(label, body, (path,), None) for label, body in self._tables.select(sql, path, _MAX_PER_FILE)]

    def note_missing(self, found: Iterable[tuple[str, str]]) -> None:
        """Take note of (path, why it is none that the table describes), in place of what was noted before."""
        self._tables.change("UPDATE files SET reason = NULL WHERE reason IS NOT NULL")
        for path, reason in found:
            self._tables.change("UPDATE files SET reason = ? WHERE path = ?", reason, path)

    def paths(self) -> Iterator[str]:
        """Every file that is named, once, sorted."""
        found = self._tables.pages("SELECT DISTINCT path FROM files WHERE TRUE", by="path", first="")
        return (path for (path,) in found)

    def is_named(self, path: str) -> bool:
        """Whether a record names the file."""
        return bool(self._tables.select("SELECT 1 FROM files WHERE path = ? LIMIT 1", path))

    def is_any_there(self) -> bool:
        """Whether a file that is named is one that the table describes, as far as was noted."""
        return bool(self._tables.select("SELECT 1 FROM files WHERE reason IS NULL LIMIT 1"))

    def names_below(self, directory: str) -> bool:
        """Whether a file in that directory, or below it, is named."""
        # "0" is the character behind "/": all paths below one lie together.
        sql = "SELECT 1 FROM files WHERE path >= ? AND path < ? LIMIT 1"
        return bool(self._tables.select(sql, f"{directory}/", f"{directory}0"))

    @cached_property
    def have_ids(self) -> bool:
        """Whether some of them name a medium by what has no extension of one."""
        return not all(map(is_medium, self.paths()))

    def body(self, label: str) -> str | bytes | None:
        """The fields of the record of that name as JSON."""
        found: str | bytes | None = self._tables.value("SELECT body FROM records WHERE label = ?", label)
        return found


FILE_RECORDS: Kind[FileRecords] = Kind(max_size=16)


def _json_of(fields: Mapping[str, Any]) -> str:
    """The fields as JSON; "" where there are none. Half of a surrogate pair stays escaped: no database holds it."""
    text = canonical_json(fields) if fields else ""
    is_storable = text.isascii() or text.encode("utf-8", "replace").decode() == text
    return text if is_storable else json.dumps(fields, sort_keys=True)
