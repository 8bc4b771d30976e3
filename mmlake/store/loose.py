"""Blobs that are a file each: `ab/cd/<sha256>.<extension>`."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmlake.durable import sync_directory
from mmlake.records import Digest, is_digest
from mmlake.store.files import UNFINISHED, AtomicFile, plain_extension, sweep_directory
from mmlake.store.pack_directory import GLANCE_S, SETTLED_S

_CLOCK_S = 2.0  # how coarse the time stamps of files may be
_TWO_HEX = re.compile(r"[0-9a-f]{2}")


class LooseFiles:
    """The files of one root directory."""

    def __init__(self, root: Path) -> None:
        self.root, self._root_path = root, str(root)  # the latter spares each lookup a conversion
        # prefixes "ab" and "abcd" whose directory entries this object has synced; at most 65,792
        self._anchored: set[str] = set()
        # prefix "abcd" -> when this object last synced the names of the files there
        self._synced_s: dict[str, float] = {}
        self._unsynced: set[str] = set()  # prefixes "abcd" where names wait for `settle`
        self._settling = threading.Lock()
        self._bare_until_s = 0.0  # until when no file is searched for, since there was none at all

    def directory(self, digest: Digest) -> Path:
        """Where the blob's file belongs."""
        return self.root / digest[:2] / digest[2:4]

    def find(self, digest: Digest) -> Path | None:
        """The blob's file."""
        directory = f"{self._root_path}/{digest[:2]}/{digest[2:4]}"
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = sorted(name for name in names if name.startswith(digest) and _digest_in(name) == digest)
        return Path(directory, found[0]) if found else None

    def holds(self, digest: Digest) -> bool:
        """Whether the bytes are there already, and durable.

        A writer that was killed after its rename, or whose batch is still open, left a name that nobody has synced: a
        young one is synced here.
        """
        now_s = time.monotonic()
        if now_s < self._bare_until_s:
            return False
        # a third of what a refused listing costs; what hides it will refuse the write, too
        if not os.access(f"{self._root_path}/{digest[:2]}/{digest[2:4]}", os.F_OK):
            if self._is_bare():
                self._bare_until_s = now_s + GLANCE_S
            return False
        path = self.find(digest)
        if path is None:
            return False
        known_s = max(time.time() - SETTLED_S, self._synced_s.get(digest[:4], 0.0) - _CLOCK_S)
        if path.stat().st_ctime > known_s:
            self._sync(digest[:4])
            self._anchor({digest[:4]})
        return True

    def _is_bare(self) -> bool:
        """Whether there is no loose blob at all."""
        try:
            return not any(map(_TWO_HEX.fullmatch, os.listdir(self._root_path)))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False

    def commit(self, file: AtomicFile, digest: Digest, extension: str, *, is_settled_later: bool = False) -> Path:
        """Where the blob's file now is: this one under its name, or that of a writer who was faster; durable on
        return, or after `settle`."""
        file.sync()
        self._bare_until_s = 0.0
        directory = self.directory(digest)
        if file.path.parent != directory:
            directory.mkdir(parents=True, exist_ok=True)
        if not is_settled_later:
            self._anchor({digest[:4]})
        handle = os.open(directory, os.O_RDONLY)
        try:
            # Without the lock two writers could give one digest two extensions, or replace a blob that a reader has
            # open. The kernel drops the lock of a killed writer.
            # a file system without locks (some network mounts): at worst the same bytes are kept twice
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            path = self.find(digest)
            if path is None:
                path = directory / _blob_name(digest, extension)
                file.rename_to(path)
            if is_settled_later:
                self._unsynced.add(digest[:4])
            else:
                now_s = time.time()
                os.fsync(handle)
                self._synced_s[digest[:4]] = now_s
            return path
        finally:
            os.close(handle)

    def settle(self) -> None:
        """Make every name durable that was left for later, by whichever thread. After an OSError the next call tries
        again."""
        with self._settling:  # threads that come meanwhile wait: their names may be among those
            taken: set[str] = set()
            try:
                while self._unsynced:
                    taken.add(self._unsynced.pop())
                self._anchor(taken)
                for prefix in sorted(taken):
                    self._sync(prefix)
            except BaseException:
                self._unsynced |= taken
                raise

    def remove(self, digest: Digest) -> int:
        """Bytes freed by deleting every file of the blob."""
        freed = 0
        while (path := self.find(digest)) is not None:
            freed += path.stat().st_size
            path.unlink()
            sync_directory(path.parent)
        return freed

    def files(self) -> Iterator[tuple[Digest, Path]]:
        """(digest, file) of every blob, sorted; files that are no blobs are passed over."""
        for directory in self._directories():
            prefix = directory.parent.name + directory.name
            for name in sorted(os.listdir(directory)):
                digest = _digest_in(name)
                if digest is not None and digest.startswith(prefix):
                    yield digest, directory / name

    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """The number of unfinished files removed."""
        return sum(
            sweep_directory(directory, older_than_s=older_than_s, now_s=now_s) for directory in self._directories()
        )

    def _directories(self) -> Iterator[Path]:
        """The directories `ab/cd` that exist, sorted."""
        for outer in _two_hex_directories(self.root):
            yield from _two_hex_directories(outer)

    def _anchor(self, prefixes: set[str]) -> None:
        """Make the directories of these prefixes durable, once per object: each may be new, or left unsynced by a
        killed writer."""
        fresh = prefixes - self._anchored
        above = {prefix[:2] for prefix in fresh}
        if above - self._anchored:
            sync_directory(self.root.parent)
            sync_directory(self.root)
        for prefix in sorted(above):
            sync_directory(self.root / prefix)
        self._anchored |= fresh | above

    def _sync(self, prefix: str) -> None:
        """Make the names in a directory "abcd" durable."""
        now_s = time.time()
        sync_directory(f"{self._root_path}/{prefix[:2]}/{prefix[2:]}")
        self._synced_s[prefix] = now_s


def _blob_name(digest: Digest, extension: str) -> str:
    """The name of the blob's file."""
    return f"{digest}.{plain_extension(extension)}"


def _digest_in(name: str) -> Digest | None:
    """The digest of a blob's file name; None for every other file."""
    digest, dot, _ = name.partition(".")
    return digest if dot and is_digest(digest) and not name.endswith(UNFINISHED) else None


def _two_hex_directories(directory: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(directory) if _TWO_HEX.fullmatch(name))
    except FileNotFoundError:
        return []
    return [path for name in names if (path := directory / name).is_dir()]
