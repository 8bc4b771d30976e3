"""Which Parquet files of a Delta table are current. Its files are never changed: a row that is updated or deleted is a
new file and a line of the log, `_delta_log`, that removes the old one, which lies there until somebody vacuums.

Source: the Delta transaction protocol (PROTOCOL.md of delta-io/delta): commits `<20 digits>.json`, one action a line,
`add` and `remove` with the path relative to the table, percent-encoded. Checkpoints, which are Parquet, are not read.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing, native, portable
from mmlake.sources.companions import places
from mmlake.sources.parsed_files import Kind, ParsedFiles

LOG = "_delta_log"
_COMMIT = re.compile(r"\d{20}\.json")
_ENDING = ".parquet"
_MAX_LINE_BYTES = 16 << 20  # of one action; one with the statistics of very many columns has some kB
_ADVICE = "write its latest version as Parquet files of their own"
_log = logging.getLogger(__name__)


class _Table(NamedTuple):
    """The current files of a table. added: path -> why it is not read, None where it is."""

    added: dict[str, str | None]
    fault: str | None = None  # why nobody knows which they are


_TABLES = Kind[_Table](max_size=1 << 20, size_of=lambda one: len(one.added) + 1)  # files


def current_files(directory: str, entries: list[Entry], landing: Landing, parsed: ParsedFiles) -> list[Entry]:
    """The files of the directory without the log of a Delta table, and without the Parquet files that its latest
    version does not name. Refused are those of which single rows are deleted, and all of a table whose log is not
    whole: rows that somebody deleted are not to come back."""
    before, is_log, _ = f"/{directory}/".partition(f"/{LOG}/")
    if is_log:
        return [] if _commits(before.strip("/") or ".", landing) else entries
    if not any(entry.name.endswith(_ENDING) for entry in entries):
        return entries
    for root in _upwards(directory):
        if commits := _commits(root, landing):
            key = landing.location, root, tuple(commits)
            table = parsed.get(_TABLES, key, partial(_replayed, root, commits, landing))
            found = list(_of_table(entries, table))
            if left_out := len(entries) - len(found):
                _log.info("%s: %d files are not of the latest version of the Delta table %s", directory, left_out, root)
            return found
    return entries


def _of_table(entries: list[Entry], table: _Table) -> Iterator[Entry]:
    for entry in entries:
        if not entry.name.endswith(_ENDING):
            yield entry
        elif table.fault is not None:
            yield entry._replace(refused=table.fault)
        elif entry.path in table.added:
            yield entry._replace(refused=entry.refused or table.added[entry.path])


def _upwards(directory: str) -> Iterator[str]:
    """The directory and those above it."""
    parts = [] if directory == "." else directory.split("/")
    return ("/".join(parts[:depth]) or "." for depth in range(len(parts), -1, -1))


def _commits(root: str, landing: Landing) -> list[Entry]:
    """The commits of the table there in their order; none where it is no table."""
    return [entry for entry in landing.files(places.join(root, LOG)) if _COMMIT.fullmatch(entry.name)]


def _replayed(root: str, commits: list[Entry], landing: Landing) -> _Table:
    added: dict[str, str | None] = {}
    for number, entry in enumerate(commits):
        if entry.name != f"{number:020}.json":
            return _Table({}, f"of a Delta table whose log lacks version {number}; {_ADVICE}")
        try:
            _apply(_actions(entry, landing), native(root), added)
        except (UnreadableItem, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return _Table({}, f"of a Delta table whose version {number} cannot be read; {_ADVICE}")
    return _Table(added)


def _actions(entry: Entry, landing: Landing) -> Iterator[dict[str, Any]]:
    with landing.open(entry.path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if line.strip():
                yield json.loads(line)


def _apply(actions: Iterable[dict[str, Any]], root: str, added: dict[str, str | None]) -> None:
    """Bring the current files to what they are behind a commit. In it a file that goes and comes again, with other rows
    deleted, may stand in either order: what goes counts first."""
    found = dict[str, str | None]()
    for action in actions:
        if removed := action.get("remove"):
            added.pop(_path(removed, root), None)
        if new := action.get("add"):
            is_partly = new.get("deletionVector") is not None
            reason = f"of a Delta table that deletes single rows of it (deletion vectors); {_ADVICE}"
            found[_path(new, root)] = reason if is_partly else None
    added.update(found)


def _path(action: dict[str, Any], root: str) -> str:
    """Where the file lies in the landing zone. root: its native path. Absolute addresses are of files elsewhere."""
    return portable(places.join(root, unquote(action["path"])))
