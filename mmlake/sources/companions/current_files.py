"""Which Parquet files of a Delta or Iceberg table are current. Their files are never changed: a row that is updated or
deleted is a new file, and a commit that no longer names the old one, which lies there until somebody cleans up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from mmlake.landing import Entry, Landing
from mmlake.sources.companions import delta_log, iceberg
from mmlake.sources.companions.delta_log import Table
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.settings import SourceSettings

_Replayed = Callable[[str, list[Entry], Landing, SourceSettings], Table]
# (directory of a table's commits, those at a root, the table behind them)
_FORMATS: tuple[tuple[str, Callable[[str, Landing], list[Entry]], _Replayed], ...] = (
    (delta_log.LOG, delta_log.log_of, delta_log.replayed),
    (iceberg.LOG, iceberg.log_of, iceberg.replayed),
)
_ENDING = ".parquet"
_TABLES = Kind[Table](max_size=1 << 20, size_of=lambda one: len(one.added) + 1)  # files
_log = logging.getLogger(__name__)


def current_files(
    directory: str, entries: list[Entry], landing: Landing, parsed: ParsedFiles, settings: SourceSettings
) -> list[Entry]:
    """The files of the directory without the commits of a table, and without the Parquet files that its latest version
    does not name. Refused are those of which single rows are deleted, and all of a table whose commits are not whole:
    rows that somebody deleted are not to come back."""
    for name, log_of, _ in _FORMATS:
        before, is_log, _ = f"/{directory}/".rpartition(f"/{name}/")
        if is_log and log_of(before.strip("/") or ".", landing):
            return []
    if not any(entry.name.endswith(_ENDING) for entry in entries):
        return entries
    for root in _upwards(directory):
        for name, log_of, replayed in _FORMATS:
            if log := log_of(root, landing):
                key = landing.location, root, name, tuple(log)
                table = parsed.get(_TABLES, key, partial(replayed, root, log, landing, settings))
                found = list(_of_table(entries, table))
                if left_out := len(entries) - len(found):
                    _log.info("%s: %d files are not of the latest version of the table %s", directory, left_out, root)
                return found
    return entries


def _of_table(entries: list[Entry], table: Table) -> Iterator[Entry]:
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
