"""The landing zone as the library sees it: a tree of files that is listed and opened here and nowhere else.

Enters: a root directory. Leaves: directories with their files, and binary files opened for reading. Another kind of storage needs the
same four methods (`directories`, `files`, `stat`, `open`). Links that leave the root, devices and pipes are listed as refused and never opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote_from_bytes, unquote_to_bytes

from mmlake.errors import UnreadableItem

_UNFINISHED = (".part", ".tmp", ".crdownload", ".filepart")  # what copying programs call a file that they still write
_MARKERS = ("_SUCCESS", "_source.json")
_ENCODED = "fsencoded:"  # prefix of a path whose bytes are no UTF-8 and so could not stand in a table


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the landing zone."""

    path: str  # relative, POSIX, in its portable spelling (see `portable`)
    size_bytes: int
    modified_ns: int
    refused: str | None = None  # why it is never opened, in our words

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Landing:
    """A landing zone in a local directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        """(directory, its files sorted by path), directories sorted; "." is the root. Hidden, unfinished and marker files are left out."""
        pending = ["."]
        while pending:
            directory = pending.pop()
            entries, below = self._list(directory)
            if entries:
                yield portable(directory), sorted(entries, key=lambda entry: entry.path)
            pending.extend(sorted(below, reverse=True))

    def _list(self, directory: str) -> tuple[list[Entry], list[str]]:
        entries, below = [], []
        with os.scandir(self.root / directory) as found:
            for item in found:
                if item.name.startswith("."):
                    continue
                path = item.name if directory == "." else f"{directory}/{item.name}"
                if item.is_dir(follow_symlinks=False):
                    below.append(path)
                elif not item.name.endswith(_UNFINISHED) and item.name not in _MARKERS:
                    try:
                        entries.append(self._entry(path))
                    except FileNotFoundError:
                        continue  # it went while the directory was read: it is no longer there to be read
        return entries, below

    def files(self, directory: str) -> list[Entry]:
        """The files directly in the directory at the portable path, sorted; none where it does not exist."""
        try:
            return sorted(self._list(native(directory))[0], key=lambda entry: entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def stat(self, path: str) -> Entry | None:
        """The file at the portable path, or None where there is none."""
        try:
            return self._entry(native(path))
        except OSError:
            return None

    def _entry(self, path: str) -> Entry:
        here = os.lstat(self.root / path)
        refused = None
        if stat.S_ISLNK(here.st_mode):
            target = self._target(path)
            if target is None:
                refused = "a link that leaves the landing zone or leads nowhere"
            else:
                here = os.stat(target)
        if refused is None and not stat.S_ISREG(here.st_mode):
            refused = "a link to a directory" if stat.S_ISDIR(here.st_mode) else "a device, pipe or socket"
        # What is refused has no content for us: its size must not depend on what a link points at.
        return Entry(portable(path), 0 if refused else here.st_size, here.st_mtime_ns, refused)

    def _target(self, path: str) -> Path | None:
        try:
            target = (self.root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return target if target.is_relative_to(self.root) else None

    def open(self, path: str) -> IO[bytes]:
        """The file at the portable path, for reading and seeking. Raises UnreadableItem: 1007 unsafe, 1001 missing or not readable."""
        real = native(path)
        if real.startswith("/") or ".." in real.split("/") or "\0" in real:
            raise UnreadableItem(1007, f"path {path[:200]!r} leaves the landing zone")
        target = self._target(real)
        if target is None:
            raise UnreadableItem(1007 if (self.root / real).is_symlink() else 1001, "the file is missing, or a link that leaves the landing zone")
        try:
            # O_NOFOLLOW: the path was resolved above, so a link here was put there since. O_NONBLOCK: a pipe must not hang the run.
            handle = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableItem(1001, f"the file cannot be opened ({os.strerror(error.errno or 0)})") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnreadableItem(1007, "not a regular file")
        return os.fdopen(handle, "rb")


def as_landing(landing: Landing | str | os.PathLike[str]) -> Landing:
    """The landing zone itself, or the one in that directory."""
    return landing if isinstance(landing, Landing) else Landing(landing)


def portable(path: str) -> str:
    """The path as tables and refs hold it: itself, or percent-encoded where its bytes are no UTF-8. Reversed by `native`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _ENCODED + quote_from_bytes(os.fsencode(path), safe="/")
    return _ENCODED + quote_from_bytes(path.encode(), safe="/") if path.startswith(_ENCODED) else path


def native(path: str) -> str:
    """The path as the file system spells it."""
    return os.fsdecode(unquote_to_bytes(path.removeprefix(_ENCODED))) if path.startswith(_ENCODED) else path
