"""A database of SQLite in a directory that cannot be written to: read as it is, without the files that SQLite adds to a
database in WAL mode."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

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
            raise FileNotFoundError(
                errno.ENOENT, "there is no journal of downloads, and none can be made here", str(self._path)
            )
        if self._database is None or state != self._seen:
            self.close()
            self._database, self._seen = self._opened(), state
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
