"""Blobs that are a file each: `ab/cd/<sha256>.<extension>`."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmlake.records import Digest
from mmlake.store.files import Aside, sweep_directory, sync_directory
from mmlake.store.names import blob_name, digest_in
from mmlake.store.packs import SETTLED_S

_TWO_HEX = re.compile(r"[0-9a-f]{2}")


class LooseFiles:
    """The files of one root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._anchored: set[str] = set()  # prefixes "ab" and "abcd" whose directory entries this object has synced; at most 65,792

    def directory(self, digest: Digest) -> Path:
        """Where the blob's file belongs."""
        return self.root / digest[:2] / digest[2:4]

    def find(self, digest: Digest) -> Path | None:
        """The blob's file."""
        directory = f"{self.root}/{digest[:2]}/{digest[2:4]}"
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = sorted(name for name in names if name.startswith(digest) and digest_in(name) == digest)
        return Path(directory, found[0]) if found else None

    def holds(self, digest: Digest) -> bool:
        """Whether the bytes are there already, and durable.

        A writer that was killed after its rename left an entry that nobody has synced, so a young one is synced here, once per directory and object.
        """
        path = self.find(digest)
        if path is None:
            return False
        if digest[:4] not in self._anchored and path.stat().st_ctime > time.time() - SETTLED_S:
            sync_directory(path.parent)
            self._anchor(digest)
        return True

    def commit(self, aside: Aside, digest: Digest, extension: str) -> Path:
        """The file of the bytes, which get their name unless another writer was faster; durable on return."""
        aside.sync()
        directory = self.directory(digest)
        if aside.path.parent != directory:
            directory.mkdir(parents=True, exist_ok=True)
        self._anchor(digest)
        handle = os.open(directory, os.O_RDONLY)
        try:
            # Else two writers could give one digest two extensions, or replace a blob that a reader has open. The kernel drops the lock of a killed writer.
            with suppress(OSError):  # a file system without locks (some network mounts): at worst the same bytes are kept twice
                fcntl.flock(handle, fcntl.LOCK_EX)
            path = self.find(digest)
            if path is None:
                path = directory / blob_name(digest, extension)
                os.replace(aside.path, path)
            os.fsync(handle)
            return path
        finally:
            os.close(handle)

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
                digest = digest_in(name)
                if digest is not None and digest.startswith(prefix):
                    yield digest, directory / name

    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """The number of unfinished files removed."""
        return sum(sweep_directory(directory, older_than_s=older_than_s, now_s=now_s) for directory in self._directories())

    def _directories(self) -> Iterator[Path]:
        """The directories `ab/cd` that exist, sorted."""
        for outer in _two_hex_directories(self.root):
            yield from _two_hex_directories(outer)

    def _anchor(self, digest: Digest) -> None:
        """Make the directories above the blob durable, once per object: each may be new, or left unsynced by a killed writer."""
        if digest[:4] in self._anchored:
            return
        if digest[:2] not in self._anchored:
            sync_directory(self.root.parent)
            sync_directory(self.root)
            self._anchored.add(digest[:2])
        sync_directory(self.root / digest[:2])
        self._anchored.add(digest[:4])


def _two_hex_directories(directory: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(directory) if _TWO_HEX.fullmatch(name))
    except FileNotFoundError:
        return []
    return [path for name in names if (path := directory / name).is_dir()]
