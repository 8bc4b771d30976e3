"""The result of every address that was ever requested: one SQLite file, so that nothing is downloaded twice and a
killed run goes on.

A result without bytes is valid until the settings that decided it change: the column `policy` is their digest. One with
bytes is valid under the crawl rules that it came under and under looser ones: the column `manners` is the digest of the
rules.

Where an address says nothing of its content, the content decides which table has its row; and contents change. So the
tables of a list belong to generations: within one, an address stays a row of the table to which it was first assigned
(`homes`). A table that is made once more with other settings opens the next generation (`turns`), and the other tables
of its list are then out of date.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from mmlake import checked_json
from mmlake.download.results import DownloadResult
from mmlake.durable import make_directory
from mmlake.error_codes import TRANSIENT_CODES
from mmlake.formats.urls import redacted
from mmlake.records import digest_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS downloads (
    address TEXT PRIMARY KEY, manners TEXT NOT NULL, policy TEXT NOT NULL, code INTEGER, digest TEXT,
    fetched_s REAL NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turns (
    list TEXT PRIMARY KEY, turn INTEGER NOT NULL, policy TEXT NOT NULL, made TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS homes (
    list TEXT, address TEXT, modality TEXT NOT NULL, PRIMARY KEY (list, address)
) WITHOUT ROWID;
"""
_POLL_S = 0.005
_WAIT_S = 30.0  # for another process that writes; a group of answers takes milliseconds


def _keep_log(connection: sqlite3.Connection) -> None:
    """Have the database write ahead. SQLite refuses that at once, without its timeout, while somebody else opens the
    file for the first time."""
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)


class Journal:
    """The results by address. One object may be used by several threads one after another, the file by several
    processes."""

    def __init__(self, path: Path) -> None:
        """Where nothing can be written, only reading works; the rest raises OSError."""
        self._path = path
        # in this order: another process may make the directory in between
        self._snapshot = None if not path.parent.exists() or is_writable(path) else Snapshot(path)
        self._connection: sqlite3.Connection | None = None

    @property
    def _known(self) -> sqlite3.Connection:
        """The database, for reading."""
        return self._database if self._snapshot is None else self._snapshot.connection()

    @property
    def _database(self) -> sqlite3.Connection:
        """The database, for reading and writing."""
        if self._snapshot is not None:
            raise OSError(errno.EROFS, "the journal of downloads cannot be written here", str(self._path))
        if self._connection is None:
            make_directory(self._path.parent)
            self._connection = sqlite3.connect(
                self._path, timeout=_WAIT_S, check_same_thread=False, isolation_level=None
            )
            # a lake has no end to close it at; a connection that is only dropped is a warning of Python 3.13
            weakref.finalize(self, self._connection.close)
            _keep_log(self._connection)
            # a lost commit is a second download, and the file stays whole
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        return self._connection

    def find(self, url: str, *, valid_rules: Collection[str], policy: str) -> DownloadResult | None:
        """The result of the address, where it is still valid. valid_rules: the digests of all crawl rules under which
        one with bytes is."""
        row = self._known.execute(
            "SELECT manners, policy, code, answer FROM downloads WHERE address = ?", (_key(url),)
        ).fetchone()
        if row is None or (row[0] not in valid_rules if row[2] is None else row[1] != policy):
            return None
        return _result(row[3], url)

    def last(self, url: str) -> DownloadResult | None:
        """The result of the last request for the address, whether it is still valid or not."""
        row = self._known.execute("SELECT answer FROM downloads WHERE address = ?", (_key(url),)).fetchone()
        return None if row is None else _result(row[0], url)

    def record(self, results: Iterable[DownloadResult], *, rules: str, policy: str, now_s: float) -> None:
        """Write the results down, all or none. rules: the digest of the crawl rules, which may forbid a response
        although it came."""
        rows = [(_key(one.url), rules, policy, one.code, one.digest, now_s, _text(one)) for one in results]
        with closing(self._database.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany("INSERT OR REPLACE INTO downloads VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            cursor.execute("COMMIT")

    def forget(self, urls: Iterable[str] | None, *, codes: Collection[int] = TRANSIENT_CODES) -> int:
        """How many results with one of the codes were forgotten, of these addresses or of all: they are requested again
        at the next ingest."""
        forgetting = f"DELETE FROM downloads WHERE code IN ({','.join('?' * len(codes))})"
        if urls is None:
            return self._database.execute(forgetting, (*codes,)).rowcount
        one = f"{forgetting} AND address = ?"
        return sum(self._database.execute(one, (*codes, _key(url))).rowcount for url in urls)

    def generation(self, name: str, modality: str, *, policy: str) -> int:
        """The generation, from 0, of the table of that modality of the list of that name, if it were made now. policy:
        the digest of the settings that decide its results."""
        number, _, is_next = self._generation(name, modality, policy)
        return number + is_next

    def begin_table(self, name: str, modality: str, *, policy: str) -> None:
        """Record that the table is being made, in its generation."""
        with closing(self._database.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            number, made, is_next = self._generation(name, modality, policy)
            if is_next:
                cursor.execute("DELETE FROM homes WHERE list = ?", (name,))
            if is_next or not made:
                turn = (name, number + is_next, policy, modality)
                cursor.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?)", turn)
            elif modality not in made:
                cursor.execute("UPDATE turns SET made = ? WHERE list = ?", (" ".join((*made, modality)), name))
            cursor.execute("COMMIT")

    def _generation(self, name: str, modality: str, policy: str) -> tuple[int, list[str], bool]:
        """(the list's generation, modalities of the tables made in it, whether this table opens the next)."""
        row = self._known.execute("SELECT turn, policy, made FROM turns WHERE list = ?", (name,)).fetchone()
        if row is None:
            return 0, [], False
        made = row[2].split()
        return row[0], made, modality in made and row[1] != policy

    def table_of(self, name: str, url: str, modality: str) -> str:
        """The modality whose table has the row of the address in this generation of the list; this one where none has
        it yet."""
        key = (name, _key(url))
        asked = "SELECT modality FROM homes WHERE list = ? AND address = ?"
        row = self._known.execute(asked, key).fetchone()
        if row is None:
            self._database.execute("INSERT OR IGNORE INTO homes VALUES (?, ?, ?)", (*key, modality))
            row = self._database.execute(asked, key).fetchone()  # another process may have been first
        return str(row[0])

    def release_tables(self, names: Iterable[str] | None) -> None:
        """Forget which table has which address of these lists, or of all. All tables of such a list must then be made
        once more."""
        if names is None:
            names = [name for (name,) in self._database.execute("SELECT list FROM turns").fetchall()]
        lists = [(name,) for name in names]
        self._database.executemany("DELETE FROM homes WHERE list = ?", lists)
        self._database.executemany("UPDATE turns SET made = '' WHERE list = ?", lists)

    def counts(self) -> dict[int | None, int]:
        """How many results there are by code, None for those with bytes."""
        return dict(self._known.execute("SELECT code, COUNT(*) FROM downloads GROUP BY code").fetchall())

    def problems(self) -> list[str]:
        """A sentence for each result that is not what was written, or for the file where SQLite cannot read it."""
        try:
            said = [line for (line,) in self._known.execute("PRAGMA integrity_check(1)")]
            found = [] if said == ["ok"] else [f"{self._path}: SQLite says {line}" for line in said]
            for address, code, digest, answer in self._known.execute(
                "SELECT address, code, digest, answer FROM downloads"
            ):
                result = _result(answer, "")
                if result is None or (result.code, result.digest) != (code, digest):
                    found.append(f"{self._path}: the result of the address with SHA-256 {address[:12]} is damaged")
        except (sqlite3.Error, UnicodeDecodeError):
            return [f"{self._path} cannot be read to its end"]
        return found

    def close(self) -> None:
        for one in (self._connection, self._snapshot):
            if one is not None:
                one.close()
        self._connection = None


def _result(text: str, url: str) -> DownloadResult | None:
    """What `_text` wrote; None where it is damaged: the address is then requested again."""
    try:
        return DownloadResult(**{**checked_json.loads(text.encode()), "url": url})
    except ValueError:
        return None


def _text(result: DownloadResult) -> str:
    answer = {**asdict(result), "url": "", "final_url": result.final_url and redacted(result.final_url)}
    return checked_json.dumps(answer).decode()


def _key(url: str) -> str:
    """The SHA-256 of the address: addresses may hold secrets, and a key of one size is found faster."""
    return digest_of(url.encode("utf-8", "backslashreplace"))


_State = tuple[tuple[int, int, int] | None, ...]  # of the database and its log: (inode, size, time of the last change)


def is_writable(path: Path) -> bool:
    """Whether the database can be written, or made; SQLite writes files next to it, too."""
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


class Snapshot:
    """The database as it lies there now; opened again when its files have changed, since another machine may write
    them."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, path.with_name(f"{path.name}-wal")
        self._database: sqlite3.Connection | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._seen: _State = ()

    def connection(self) -> sqlite3.Connection:
        """A connection for reading. Raises FileNotFoundError where there is no database."""
        state = _state(self._path), _state(self._log)
        if state[0] is None:
            reason = "there is no journal of downloads, and none can be made here"
            raise FileNotFoundError(errno.ENOENT, reason, str(self._path))
        if self._database is None or state != self._seen:
            self.close()
            self._database, self._seen = self._opened(), state
            weakref.finalize(self, self._database.close)
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def _opened(self) -> sqlite3.Connection:
        if not (self._log.exists() and self._log.stat().st_size):
            return _connected(f"{self._path.absolute().as_uri()}?mode=ro&immutable=1")
        # the index of the log: somebody writes now, and with it SQLite can follow
        if self._path.with_name(f"{self._path.name}-shm").exists():
            return _connected(f"{self._path.absolute().as_uri()}?mode=ro")
        # What a killed process left in the log counts, and nobody writes: read in a copy, since SQLite would make an
        # index here.
        self._copy = tempfile.TemporaryDirectory(prefix="mmlake-")
        copy = Path(self._copy.name, self._path.name)
        shutil.copyfile(self._path, copy)
        shutil.copyfile(self._log, f"{copy}-wal")
        return _connected(f"{copy.as_uri()}?mode=rw")


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
