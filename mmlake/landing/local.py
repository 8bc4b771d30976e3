"""A landing zone in a local directory. Links that leave it, devices and pipes are listed as refused and never opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.landing.zone import MARKERS, UNFINISHED, Entry, Landing, native, portable


class LocalLanding(Landing):
    """A landing zone in a local directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        self.location = str(self.root)

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
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
                elif not item.name.endswith(UNFINISHED) and item.name not in MARKERS:
                    try:
                        entries.append(self._entry(path))
                    except FileNotFoundError:
                        continue  # it went while the directory was read: it is no longer there to be read
        return entries, below

    def files(self, directory: str) -> list[Entry]:
        try:
            return sorted(self._list(native(directory))[0], key=lambda entry: entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def stat(self, path: str) -> Entry | None:
        try:
            return None if (self.root / native(path)).is_dir() else self._entry(native(path))
        except (OSError, ValueError):
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
