"""Checksums of the files of the catalog's table, since Lance has none: of 60 flipped bits 20 gave silently other rows.

    catalog/files.json    path below the table -> size and SHA-256 of every file, and whether a writer is at work

A writer says first that it is at work. Once it is done, what is new is hashed, brought to the disk with its directories
(Lance syncs no rename), and written down. Files of Lance never change under their name, so that a hash that was written
down is never taken anew.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mmlake import checked_json
from mmlake.store import sync_directory, write_atomically

NAME = "files.json"
_HINT = (
    "_versions/latest_version_hint.json"  # the one file that Lance writes again under its name; whatever it says, the
)
# newest version is found (measured)
# what this process has hashed: (path, inode, size, times) -> SHA-256; a search in a service hashes each file once
_HASHED: dict[tuple[str, int, int, int, int], str] = {}
_MAX_HASHED = 100_000
# the ends of Lance's files, of formats 0.x (manifests) and 2.x (data and indexes)
_MAGIC, _DATA_VERSION, _LATEST_VERSION, _PLACE_BYTES = b"LANC", 2, 16, 16
_MANIFEST_END, _DATA_END, _LENGTH = struct.Struct("<QHH4s"), struct.Struct("<QQQIIHH4s"), struct.Struct("<I")
_OS_ERROR = re.compile(r"os error (\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    is_open: bool  # a writer is at work, or died
    files: dict[str, tuple[int, str]]  # size, SHA-256


class TableFiles:
    """The files of one table, and what is written down of them."""

    def __init__(self, table: Path, record: Path) -> None:
        self._table, self._record = table, record
        self._left: frozenset[str] = frozenset()  # files that were there when the writer began

    def begin(self) -> None:
        """Write down that a writer is at work."""
        known, self._left = self._read(), frozenset(name for name, _ in self._walk())
        if not self._table.is_dir():
            known = _Record(is_open=True, files={})
        elif known is None:
            return  # of an earlier release: nothing is known of its files until a writer has ended
        self._write(_Record(is_open=True, files=known.files))

    def finish(self) -> None:
        """Bring what is new to the disk, and write down all files as they are. Raises OSError where the disk lost a
        write, and Lance did not notice: what is written down is believed from then on."""
        known = self._read()
        before, files, touched = known.files if known is not None else {}, dict[str, tuple[int, str]](), set[Path]()
        for name, path in self._walk():
            if name in before and name != _HINT:
                files[name] = before[name]
                continue
            with path.open("rb") as file:
                if name not in self._left and not _is_whole(file):
                    raise OSError(errno.EIO, "the disk lost a part of what was written", str(path))
                file.seek(0)
                files[name] = (os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
                os.fsync(file.fileno())
            touched.update([path.parent, *(above for above in path.parents if self._table in above.parents)])
        for directory in sorted({*touched, self._table, self._table.parent}) if files else ():
            sync_directory(directory)
        self._write(_Record(is_open=False, files=files))

    @property
    def is_settled(self) -> bool:
        """Whether the last writer has ended, so that every file of the table is written down."""
        known = self._read()
        return known is not None and not known.is_open

    def settled(self) -> object | None:
        """What the last writer wrote down, another one for each writer; None where it has not ended, or nothing is
        known. Raises ValueError where that is damaged."""
        known = self._read()
        return None if known is None or known.is_open else known

    def problems(self, *, up_to_bytes: int | None = None, anew: bool = False) -> list[str]:
        """A sentence for each file that is not what was written. up_to_bytes: of larger tables only sizes are
        compared; None hashes all. anew: hash what this process has hashed before, too, and name files that nobody
        wrote down. Raises ValueError where the record is damaged."""
        while True:
            known = self._read()
            found = [] if known is None else list(self._wrong(known, up_to_bytes=up_to_bytes, anew=anew))
            if not found or self._read() == known:  # else a writer began or ended meanwhile
                return found

    def _wrong(self, known: _Record, *, up_to_bytes: int | None, anew: bool) -> Iterator[str]:
        is_hashed = up_to_bytes is None or sum(size for size, _ in known.files.values()) <= up_to_bytes
        for name, (size, sha256) in sorted(known.files.items()):
            if name == _HINT and (known.is_open or not anew):
                continue
            path = self._table / name
            try:
                facts = path.stat()
            except FileNotFoundError:
                if not known.is_open:  # a writer that is at work may have pruned it
                    yield f"{path} is missing"
                continue
            if facts.st_size != size:
                yield f"{path} has {facts.st_size} bytes, expected {size}"
            elif is_hashed and _sha256(path, facts, anew=anew) != sha256:
                yield f"{path} does not hash to what was written"
        if anew and not known.is_open:
            yield from (f"{path} is no file of the table" for name, path in self._walk() if name not in known.files)

    def _walk(self) -> Iterator[tuple[str, Path]]:
        for path in sorted(self._table.rglob("*")):
            if path.is_file():
                yield path.relative_to(self._table).as_posix(), path

    def _read(self) -> _Record | None:
        """What is written down; None where nothing is. Raises ValueError."""
        try:
            body = checked_json.loads(self._record.read_bytes())
            files = {name: (int(size), str(sha256)) for name, (size, sha256) in body["files"].items()}
            return _Record(is_open=bool(body["is_open"]), files=files)
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("the record of the files is damaged") from error

    def _write(self, record: _Record) -> None:
        body = {"is_open": record.is_open, "files": {name: list(facts) for name, facts in record.files.items()}}
        write_atomically(self._record, checked_json.dumps(body))


def _is_whole(file: IO[bytes]) -> bool:
    """Whether a file of Lance has the size that its end says. Of a write that fails in the background Lance learns
    nothing when no other follows it: a file of 859 bytes had its last 320, and every search ended in an error."""
    size = file.seek(0, os.SEEK_END)
    if file.name.endswith(".manifest"):  # message: its size, itself; then where it begins, version, magic
        head = _at_end(file, size, _MANIFEST_END)
        start = head[0] if head is not None and head[-1] == _MAGIC else size
        length = _at_end(file, min(start + _LENGTH.size, size), _LENGTH)
        return length is not None and start + _LENGTH.size + length[0] + _MANIFEST_END.size == size
    if file.name.endswith(".lance"):  # two tables with the places of columns and buffers; then where they begin
        end = _at_end(file, size, _DATA_END)
        if end is None or end[-1] != _MAGIC:
            return False
        data_at, columns_at, buffers_at, num_buffers, num_columns, version, _, _ = end
        if version != _DATA_VERSION:  # of another release, of which only that is known; else another part of the file
            return bool(_DATA_VERSION < version <= _LATEST_VERSION and max(data_at, columns_at, buffers_at) < size)
        return (columns_at + _PLACE_BYTES * num_columns, size - _DATA_END.size) == (
            buffers_at,
            buffers_at + _PLACE_BYTES * num_buffers,
        )
    return True


def _at_end(file: IO[bytes], end: int, what: struct.Struct) -> tuple[Any, ...] | None:
    """What stands before that place of the file; None where it is too short."""
    file.seek(max(0, end - what.size))
    data = file.read(what.size)
    return what.unpack(data) if len(data) == what.size and end >= what.size else None


def _sha256(path: Path, facts: os.stat_result, *, anew: bool) -> str:
    key = (str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    if anew or key not in _HASHED:
        if len(_HASHED) >= _MAX_HASHED:
            _HASHED.clear()
        with path.open("rb") as file:
            _HASHED[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _HASHED[key]


def is_of_machine(error: Exception) -> bool:
    """Whether the error is the operating system's, which Lance quotes; a file that is missing is a damage."""
    said = _OS_ERROR.search(str(error))
    code = getattr(error, "errno", None) or (int(said[1]) if said else None)
    return code not in (None, errno.ENOENT)
