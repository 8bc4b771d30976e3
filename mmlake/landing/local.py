"""A landing zone in a local directory. Links that leave it, devices and pipes are listed as refused and never
opened."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import IO

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing.zone import Entry, Landing, LeftOut, is_odd, left_out_as, native, portable

# where huggingface_hub keeps data sets
_CACHED = re.compile(r"/datasets--(?P<org>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})/")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: a pipe must not hang the run
_BLOB = re.compile(r"(?:^|/)blobs/[0-9a-f]{40,64}$")
_PATH = itemgetter(Entry._fields.index("path"))
_KEPT_S = 1.0  # how long an open directory is used before it is looked up by its path again


class LocalLanding(Landing):
    """A landing zone in a local directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        self.location = str(self.root)
        self._kept: _Directory | None = None  # the directory whose files were read last

    def __reduce__(self) -> tuple[type[LocalLanding], tuple[Path]]:
        return LocalLanding, (self.root,)  # an open directory stays in its process

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        return self._below(".")

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        start = native(directory)
        is_there = start == "." or (not is_odd(start) and (self.root / start).is_dir())
        return self._below(start) if is_there else iter(())

    def _below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        pending = [directory]
        while pending:
            directory = pending.pop()
            entries, below = self._list(directory)
            if entries:
                yield portable(directory), sorted(entries, key=_PATH)
            pending.extend(sorted(below, reverse=True))

    def _list(self, directory: str) -> tuple[list[Entry], list[str]]:
        self._kept = None
        entries, below = [], []
        with self._scandir(directory) as found:
            for item in found:
                name = item.name
                path = name if directory == "." else f"{directory}/{name}"
                if item.is_dir(follow_symlinks=False):
                    if name.startswith("."):
                        continue
                    if os.access(item.path, os.R_OK | os.X_OK):
                        below.append(path)
                    else:  # becomes a row: else its files would be missing without a word, or end the whole scan
                        entries.append(Entry(portable(path), 0, 0, "a directory that we may not list"))
                elif left_out_as(name) is None:
                    try:
                        here = item.stat(follow_symlinks=False)
                        if stat.S_ISREG(here.st_mode):
                            entries.append(Entry(portable(path), here.st_size, here.st_mtime_ns))
                        else:
                            entries.append(self._entry(path, here))
                    except FileNotFoundError:
                        continue  # deleted while the directory was listed
        return entries, below

    def left_out(self) -> Iterator[LeftOut]:
        pending = [""]
        while pending:
            at, below = pending.pop(), list[str]()
            with suppress(FileNotFoundError), self._scandir(at or ".") as found:
                for item in sorted(found, key=lambda one: one.name):
                    path, reason = f"{at}{item.name}", left_out_as(item.name)
                    if item.is_dir(follow_symlinks=False):
                        if item.name.startswith("."):
                            yield LeftOut(portable(path) + "/", 0, "hidden")
                        elif os.access(item.path, os.R_OK | os.X_OK):  # else it is listed, as refused
                            below.append(f"{path}/")
                    elif reason is not None:
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            yield LeftOut(portable(path), item.stat(follow_symlinks=False).st_size, reason)
            pending.extend(reversed(below))

    def _scandir(self, directory: str) -> os._ScandirIterator[str]:
        try:
            return os.scandir(self.root / directory)
        except PermissionError as error:
            place = (
                f"landing zone {self.root}"
                if directory == "."
                else f"directory {directory} of landing zone {self.root}"
            )
            raise SettingsError(
                f"{place} may not be listed by this user; give the right to read it, or name another directory "
                "with --landing"
            ) from error

    def files(self, directory: str) -> list[Entry]:
        try:
            return sorted(self._list(native(directory))[0], key=_PATH)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def has(self, path: str) -> bool:
        try:
            return path == "." or self.stat(path) is not None or self._holds(native(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _holds(self, directory: str) -> bool:
        """Whether `_below` would list anything: of a directory of very many files, each part of it asks."""
        pending = [directory]
        while pending:
            with self._scandir(directory := pending.pop()) as found:
                for item in found:
                    if not item.is_dir(follow_symlinks=False):
                        if left_out_as(item.name) is None:
                            return True
                    elif not item.name.startswith("."):
                        if not os.access(item.path, os.R_OK | os.X_OK):
                            return True  # it is listed, as refused
                        pending.append(f"{directory}/{item.name}")
        return False

    def local_path(self, path: str) -> Path | None:
        return self.root / native(path)

    def stat(self, path: str) -> Entry | None:
        try:
            return None if (self.root / native(path)).is_dir() else self._entry(native(path))
        except (OSError, ValueError):
            return None

    def _entry(self, path: str, here: os.stat_result | None = None) -> Entry:
        here, refused = here or os.lstat(self.root / path), None
        if stat.S_ISLNK(here.st_mode):
            self._refuse_hub_cache(path)
            target = self._target(path)
            if target is None:
                refused = "a link that leaves the landing zone or leads nowhere"
            else:
                here = os.stat(target)
        if refused is None and not stat.S_ISREG(here.st_mode):
            refused = "a link to a directory" if stat.S_ISDIR(here.st_mode) else "a device, pipe or socket"
        # The size of a refused entry is 0: it must not depend on what a link points to.
        return Entry(portable(path), 0 if refused else here.st_size, here.st_mtime_ns, refused)

    def _refuse_hub_cache(self, path: str) -> None:
        """Raises SettingsError for a link of huggingface_hub's cache: each file of such a landing zone would be a
        refused link, or would be there twice."""
        link, parts = self.root / path, (self.root / path).parts
        found = _CACHED.search("/".join(parts))
        if found is None or not _BLOB.search(os.readlink(link)):
            return
        raise SettingsError(
            f"landing zone {self.root} is in the cache of huggingface_hub, whose files are links to "
            f"{'/'.join(parts[: parts.index('snapshots')])}/blobs; make a copy with "
            f"`hf download --repo-type dataset {found['org']}/{found['name']} --revision {found['commit']} "
            "--local-dir DIR` and land DIR"
        )

    def _target(self, path: str) -> Path | None:
        try:
            target = (self.root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return target if target.is_relative_to(self.root) else None

    def _open_unlinked(self, path: str) -> int | None:
        """The open file where its path has no link in it, by what the kernel says of the open file; None where the
        path must be resolved, which costs fifty times as much."""
        wanted = f"{self.location}/{path}"
        try:
            handle = os.open(wanted, _FLAGS)
        except (OSError, ValueError):
            return None
        with suppress(OSError):  # no /proc
            if os.readlink(f"/proc/self/fd/{handle}") == wanted:
                return handle
        os.close(handle)
        return None

    def head(self, path: str, size_bytes: int) -> bytes:
        directory, slash, name = native(path).rpartition("/")
        kept = None if slash and not directory else self._keep(directory)
        if kept is not None:
            try:
                handle = os.open(name, _FLAGS, dir_fd=kept.handle)
            except (OSError, ValueError):
                pass  # a link, or gone: `open` says which
            else:
                try:
                    here = os.fstat(handle)
                    if stat.S_ISREG(here.st_mode):
                        data = os.read(handle, size_bytes)
                        # some network file systems return less than there is
                        if len(data) >= min(size_bytes, here.st_size):
                            return data
                finally:
                    os.close(handle)
        return super().head(path, size_bytes)

    def _keep(self, directory: str) -> _Directory | None:
        """The open directory, whose files then cost a third to open; None where its path has a link in it, or there
        is no such directory."""
        kept = self._kept
        if kept is not None and kept.path == directory and time.monotonic() < kept.until_s:
            return kept
        wanted = f"{self.location}/{directory}" if directory else self.location
        try:
            kept = _Directory(
                directory,
                os.open(wanted, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC),
                time.monotonic() + _KEPT_S,
            )
            if os.readlink(f"/proc/self/fd/{kept.handle}") != wanted:
                return None
        except (AttributeError, OSError, ValueError):  # also where the system has no O_PATH or no /proc
            return None
        self._kept = kept
        return kept

    def open(self, path: str) -> IO[bytes]:
        real = native(path)
        if real.startswith("/") or ".." in real.split("/") or "\0" in real:
            raise UnreadableItem(1007, f"path {path[:200]!r} leaves the landing zone")
        handle = self._open_unlinked(real)
        if handle is None:
            target = self._target(real)
            if target is None:
                raise UnreadableItem(
                    1007 if (self.root / real).is_symlink() else 1001,
                    "the file is missing, or a link that leaves the landing zone",
                )
            try:
                handle = os.open(target, _FLAGS)  # the path was resolved above, so a link here was put there since
            except OSError as error:
                raise UnreadableItem(1001, f"the file cannot be opened ({os.strerror(error.errno or 0)})") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnreadableItem(1007, "not a regular file")
        return os.fdopen(handle, "rb")


class _Directory:
    """An open directory, closed with the last reference to it."""

    __slots__ = ("handle", "path", "until_s")

    def __init__(self, path: str, handle: int, until_s: float) -> None:
        self.path, self.handle, self.until_s = path, handle, until_s

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.handle)


def refuse_around(lake: Path, zone: Landing) -> Landing:
    """The landing zone. Raises SettingsError where the lake lies in it, so that what a run writes would be ingested by
    the next one; a hidden directory, which is not listed, may hold it."""
    place = zone.local_path(".")
    real, around = lake.resolve(), place.resolve() if place is not None else None
    if around is not None and real.is_relative_to(around):
        if any(part.startswith(".") for part in real.relative_to(around).parts):
            return zone
        raise SettingsError(
            f"lake {lake} lies in its landing zone {place}, so that what it holds would be ingested; name a directory "
            "elsewhere with --lake"
        )
    return zone
