"""Which shards of the landing zone the lake knows, and in which revision.

Enters: the listing of `sources.scan`. Leaves: what is new, what changed, what is gone. It is a cache of the landing
zone that saves opening files again, never the record of what was ingested: that is the stamps of the `items` tables.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.durable import make_directory
from mmlake.errors import MmlakeError, TableCorrupt
from mmlake.recent_files import RecentReads
from mmlake.sources import Shard

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS shards (key TEXT PRIMARY KEY, revision TEXT NOT NULL, present INTEGER NOT NULL, shard "
    "TEXT NOT NULL)"
)
_REMEMBERED = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
_PRESENT = "is_present"
# what `moved_from` asks for of a row, which is NULL of a damaged one
_SIZE, _FORMAT, _PATH = (
    f"CASE WHEN json_valid(shard) THEN json_extract(shard, '$.{name}') END" for name in ("size_bytes", "format", "path")
)
_NAME = f"substr({_PATH}, length(rtrim({_PATH}, replace({_PATH}, '/', ''))) + 1)"  # behind the last slash
_INDEXES = (
    f"CREATE INDEX IF NOT EXISTS gone_alike ON shards ({_SIZE}, {_FORMAT}, key) WHERE present = 0",
    f"CREATE INDEX IF NOT EXISTS gone_named ON shards ({_SIZE}, {_FORMAT}, {_NAME}, key) WHERE present = 0",
)
_MOST_MOVED = 8  # shards that one may have been: recordings of one length may all have as many bytes
_SHARD_BYTES = 2_048  # of a shard in memory, about
_WAIT_S = 60.0  # another process may be recording a large listing


@dataclass(frozen=True, slots=True)
class Listing:
    """What one scan of the landing zone found, against what was known."""

    new: tuple[Shard, ...]
    changed: tuple[Shard, ...]  # known under this key, but with other contents: a new revision
    gone: tuple[str, ...]  # keys that were there before; their rows stay in the lake
    unchanged: int
    failures: tuple[MmlakeError, ...] = ()  # why landing zones could not be inspected, each naming its own
    unseen: frozenset[str] = frozenset()  # keys of known shards there: counted as unchanged, and not to be read now


class Registry:
    """The known shards, in one SQLite file that any number of processes may open."""

    def __init__(self, path: Path, *, recent: RecentReads | None = None) -> None:
        """recent: as of `Tables`. A run asks a dozen times which shards there are, and for each of them by its key; a
        commit changes the file."""
        self.path, self._recent = path, recent or RecentReads()

    def get(self, key: str) -> Shard:
        """The shard of that key. Raises MmlakeError where it was never registered."""
        known: dict[str, Shard] | None = self._recent.shards.get(os.fspath(self.path))
        if known is not None and key in known:
            return known[key]
        with self._open() as database:
            row = database.execute("SELECT shard FROM shards WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise MmlakeError(
                f"shard {key!r} is not registered in {self.path}; run `mmlake run`, or wait for the landing sensor"
            )
        return _shard(row[0])

    def known(self) -> dict[str, Shard]:
        """Every shard that was there at the last scan, by key."""
        path = os.fspath(self.path)

        def parsed() -> tuple[dict[str, Shard], int]:
            shards = self._shards("WHERE present = 1")
            return shards, len(shards) * _SHARD_BYTES

        try:
            return dict(self._recent.shards.read(path, parsed))
        except FileNotFoundError:
            return {}

    def gone(self) -> dict[str, Shard]:
        """The shards that were there once and are not now, by key."""
        return self._shards("WHERE present = 0")

    def some(self, keys: Iterable[str]) -> dict[str, Shard]:
        """Those of these shards that are there or ever were, by key."""
        return self._shards("WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys)))

    def keys(self, modality: str) -> list[str]:
        """Keys of the present shards that hold rows of the modality, sorted."""
        return [key for key, shard in self.known().items() if modality in shard.modalities]

    def moved_from(self, key: str) -> list[str]:
        """Keys of shards that are gone and had as many bytes in the same format as this one has: it may be one of them
        under another name. Its revision says nothing of that, since names and times count in it. Of many a few, those
        first whose path ends like its own: a directory above them was renamed."""
        own = self._shards("WHERE key = ?", key).get(key)
        if own is None or not own.size_bytes:
            return []
        alike, given = f"WHERE present = 0 AND {_SIZE} = ? AND {_FORMAT} = ?", (own.size_bytes, own.format)
        named = self._keys(f"{alike} AND {_NAME} = ?", *given, own.path.rpartition("/")[2])
        others = self._keys(alike, *given, at_most=_MOST_MOVED + len(named))
        return list(dict.fromkeys([*named, *others]))[:_MOST_MOVED]

    def directories(self) -> list[str]:
        """Those that hold the files of every shard that was ever there, sorted. Nothing is listed for it: a landing
        zone of a million files would be, at each step over a corpus."""
        return sorted({path for shard in self._shards().values() for path in shard.homes})

    def _shards(self, where: str = "", *given: str) -> dict[str, Shard]:
        """The shards of these rows by key, sorted."""
        if not self.path.exists():
            return {}
        with self._open() as database:
            rows = database.execute(f"SELECT key, shard FROM shards {where} ORDER BY key", given)
            return {key: _shard(text) for key, text in rows}

    def _keys(self, where: str, *given: object, at_most: int = _MOST_MOVED) -> list[str]:
        """The first keys of these rows."""
        with self._open() as database:
            rows = database.execute(f"SELECT key FROM shards {where} ORDER BY key LIMIT ?", (*given, at_most))
            return [key for (key,) in rows]

    def compare(self, listed: Iterable[Shard]) -> Listing:
        """The listing against what is known; nothing is recorded."""
        known, seen = self.known(), set()
        new, changed, unchanged = [], [], 0
        for shard in listed:
            seen.add(shard.key)
            before = known.get(shard.key)
            if before is None:
                new.append(shard)
            elif before.revision != shard.revision:
                changed.append(shard)
            else:
                unchanged += 1
        return Listing(
            new=tuple(new),
            changed=tuple(changed),
            gone=tuple(key for key in known if key not in seen),
            unchanged=unchanged,
        )

    def record(self, shards: Iterable[Shard], *, gone: Iterable[str] = ()) -> None:
        """Remember these shards as present and those keys as gone, all or nothing."""
        rows = [(shard.key, shard.revision, _text(asdict(shard), is_present=True)) for shard in shards]
        with self._open() as database:
            for index in _INDEXES:  # by those who write alone: a lake may be on storage that is not written
                database.execute(index)
            database.executemany(
                "INSERT INTO shards VALUES (?, ?, 1, ?) ON CONFLICT(key) DO UPDATE SET revision = "
                "excluded.revision, present = 1, shard = excluded.shard",
                rows,
            )
            for key in gone:
                _change(database, key, is_present=False)

    def reopen(self, key: str) -> None:
        """Let the next scan of the landing zone open this shard whatever its revision: what it holds may be known
        wrongly."""
        with self._open() as database:
            _change(database, key, revision="")

    def connectors(self) -> str:
        """What `remember_connectors` was last given; empty where it never was."""
        if not self.path.exists():
            return ""
        with self._open() as database:
            row = database.execute("SELECT value FROM facts WHERE name = 'connectors'").fetchone()
        return row[0] if row is not None else ""

    def remember_connectors(self, signatures: str) -> None:
        """Remember the connectors of plugins that every known file was offered to, and the settings that it was
        recognised by: with others, all are opened anew."""
        if signatures == self.connectors():
            return
        with self._open() as database:
            database.execute(
                "INSERT INTO facts VALUES ('connectors', ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value",
                (signatures,),
            )

    def problems(self) -> list[str]:
        """A sentence for each row that is not what was written, or for the file where SQLite cannot read it."""
        if not self.path.exists():
            return []
        if not self.path.stat().st_size:
            return [f"{self.path} is empty"]
        found = []
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                found += [
                    f"{self.path}: SQLite says {said}" for (said,) in database.execute("PRAGMA integrity_check(1)")
                ]
                found = [] if found == [f"{self.path}: SQLite says ok"] else found
                # SQLite reads what is missing of the last page as zeros, and says nothing
                pages, page_bytes = (database.execute(f"PRAGMA page_{one}").fetchone()[0] for one in ("count", "size"))
                if (size_bytes := self.path.stat().st_size) < pages * page_bytes:
                    found.append(f"{self.path} has {size_bytes} bytes of {pages * page_bytes}")
                for key, revision, present, text in database.execute(
                    "SELECT key, revision, present, shard FROM shards"
                ):
                    try:
                        fields = checked_json.loads(text.encode())
                        is_same = (fields["key"], fields["revision"]) == (key, revision) and present in (0, 1)
                    except (ValueError, KeyError, AttributeError):
                        is_same = False
                    if not is_same or bool(present) != fields.get(_PRESENT, bool(present)):
                        found.append(f"{self.path}: the row of shard {key!r} is not what was written")
        except (sqlite3.Error, UnicodeDecodeError):
            return [f"{self.path} cannot be read to its end"]
        return found

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        make_directory(self.path.parent)
        with closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as database, database:
            database.execute(_SCHEMA)
            database.execute(_REMEMBERED)
            yield database


def _text(fields: Mapping[str, Any], *, is_present: bool) -> str:
    """What a row says of a shard, with its checksum: SQLite has none."""
    return checked_json.dumps({**fields, _PRESENT: is_present}).decode()


def _fields(text: str) -> dict[str, Any]:
    try:
        return checked_json.loads(text.encode())
    except ValueError as error:
        raise TableCorrupt("a row of landing.sqlite is damaged; run `mmlake fsck --kind landing --repair`") from error


def _change(database: sqlite3.Connection, key: str, *, is_present: bool | None = None, **changed: str) -> None:
    for present, text in database.execute("SELECT present, shard FROM shards WHERE key = ?", (key,)).fetchall():
        fields = {**_fields(text), **changed}
        now = bool(present) if is_present is None else is_present
        database.execute(
            "UPDATE shards SET revision = ?, present = ?, shard = ? WHERE key = ?",
            (fields["revision"], int(now), _text(fields, is_present=now), key),
        )


def _shard(text: str) -> Shard:
    fields = _fields(text)
    fields.pop(_PRESENT, None)
    for name in ("modalities", "directories", "described_by"):
        fields[name] = tuple(fields.get(name, ()))
    return Shard(**fields)
