"""Which Parquet files of a Delta table are current. Its files are never changed: a row that is updated or deleted is a
new file and a line of the log, `_delta_log`, that removes the old one, which lies there until somebody vacuums.

Source: the Delta transaction protocol (PROTOCOL.md of delta-io/delta): commits `<20 digits>.json`, one action a line,
`add` and `remove` with the path relative to the table, percent-encoded; checkpoints `<20 digits>.checkpoint.parquet`,
or in numbered parts, a row for each action that makes up that version. Those with sidecars are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.landing import Entry, Landing, native, portable
from mmlake.sources.companions import places
from mmlake.sources.records.cells import group_cells, limits_of
from mmlake.sources.settings import SourceSettings

LOG = "_delta_log"
_COMMIT = re.compile(r"\d{20}\.json")
# one file, or its part of so many
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_MAX_LINE_BYTES = 16 << 20  # of one action; one with the statistics of very many columns has some kB
ADVICE = "write its latest version as Parquet files of their own"


class Table(NamedTuple):
    """The current files of a table. added: path -> why it is not read, None where it is."""

    added: dict[str, str | None]
    fault: str | None = None  # why nobody knows which they are


def log_of(root: str, landing: Landing) -> list[Entry]:
    """The commits and checkpoints of the table there in their order; none where it is no table."""
    found = landing.files(places.join(root, LOG))
    return [entry for entry in found if _COMMIT.fullmatch(entry.name) or _CHECKPOINT.fullmatch(entry.name)]


def replayed(root: str, log: list[Entry], landing: Landing, settings: SourceSettings) -> Table:
    """The table behind its last commit, from the first one on, or from the latest checkpoint where that is gone."""
    commits = {int(entry.name[:20]): entry for entry in log if _COMMIT.fullmatch(entry.name)}
    checkpoints = _checkpoints(log)
    last = max((*commits, *checkpoints), default=0)
    begin = -1 if 0 in commits else max(checkpoints, default=-1)
    added: dict[str, str | None] = {}
    for number in range(max(begin, 0), last + 1):
        try:
            if number == begin:
                _apply(_checkpointed(checkpoints[number], landing, settings), native(root), added)
            elif number in commits:
                _apply(_actions(commits[number], landing), native(root), added)
            else:
                return Table({}, f"of a Delta table whose log lacks version {number}; {ADVICE}")
        except (UnreadableItem, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return Table({}, f"of a Delta table whose version {number} cannot be read; {ADVICE}")
    return Table(added)


def _checkpoints(log: list[Entry]) -> dict[int, list[Entry]]:
    """Version -> the files of its checkpoint, of those that are whole."""
    found = dict[tuple[int, int], list[Entry]]()  # (version, number of parts) -> those that are there
    for entry in log:
        if named := _CHECKPOINT.fullmatch(entry.name):
            found.setdefault((int(named[1]), int(named[2] or 1)), []).append(entry)
    return {version: parts for (version, num_parts), parts in found.items() if len(parts) == num_parts}


def _checkpointed(parts: list[Entry], landing: Landing, settings: SourceSettings) -> Iterator[dict[str, Any]]:
    """The actions of a checkpoint. Raises UnreadableItem, also where others stand in sidecars."""
    for entry in parts:
        with ParquetReader(partial(landing.open, entry.path), limits_of(settings)) as file:
            first = 0
            for group, num_rows in enumerate(file.groups):
                number = first
                for number, cells in group_cells(file, group, first, settings):
                    if isinstance(cells, Fault) or cells.get("sidecar") is not None:
                        raise UnreadableItem(1003, f"row {number} of {entry.name} has no actions that are read")
                    yield cells
                first += num_rows
                if number != first:
                    raise UnreadableItem(1001, f"row group {group} of {entry.name} has rows less than its footer says")


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
            reason = f"of a Delta table that deletes single rows of it (deletion vectors); {ADVICE}"
            found[_path(new, root)] = reason if is_partly else None
    added.update(found)


def _path(action: dict[str, Any], root: str) -> str:
    """Where the file lies in the landing zone. root: its native path. Absolute addresses are of files elsewhere."""
    return portable(places.join(root, unquote(action["path"])))
