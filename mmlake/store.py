"""Blobs by the SHA-256 of their bytes: `blobs/ab/cd/<sha256>.<ext>`.

Enters: bytes or a stream. Leaves: a digest that names them for ever. A blob is written aside, synced, renamed and never written
again, so a killed writer leaves at most a `.part` file that nothing refers to; `sweep` takes those away. See `docs/store.md`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.records import Digest, digest_of, is_digest

_CHUNK_BYTES = 1 << 20  # one reused buffer; fresh 16 MiB buffers page-fault and halve the speed
_UNFINISHED = ".part"
_SETTLED_S = 300  # kernels write a rename back within 30 s on their own; ten times that for slow disks
_EXTENSION = re.compile(r"[a-z0-9](?:[a-z0-9+._-]{0,30}[a-z0-9])?")
_TWO_HEX = re.compile(r"[0-9a-f]{2}")


class BlobStore:
    """Immutable blobs under one root directory. Any number of threads and processes may put and read at once."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._anchored: set[str] = set()  # prefixes "ab" and "abcd" whose directory entries this object has synced; at most 65,792

    def put(self, data: bytes | memoryview, *, extension: str = "bin") -> Digest:
        """The digest of the bytes, which are durable in the store when this returns. Bytes that are already there are not written again.

        extension: for people's eyes only. What is no plain file ending (a slash, "..", "part", nothing) becomes "bin": a strange name must not lose the bytes.
        """
        digest = digest_of(data)
        if not self._holds(digest, extension):
            with _Aside(self._directory(digest)) as aside:
                aside.file.write(data)
                self._commit(aside, digest, extension)
        return digest

    def put_stream(self, stream: IO[bytes], *, extension: str = "bin") -> tuple[Digest, int]:
        """(digest, size in bytes) of what the stream still holds; read in chunks, never whole. extension: as for `put`."""
        hasher, size, buffer = hashlib.sha256(), 0, bytearray(_CHUNK_BYTES)
        view = memoryview(buffer)
        # Under the root, so that the rename stays within one file system.
        with _Aside(self.root / "incoming") as aside:
            while count := _read_into(stream, buffer):
                hasher.update(view[:count])
                aside.file.write(view[:count])
                size += count
            digest = hasher.hexdigest()
            if not self._holds(digest, extension):
                self._commit(aside, digest, extension)
        return digest, size

    def path(self, digest: Digest) -> Path:
        """The file that holds the blob. Raises BlobMissing."""
        if (path := self._find(digest)) is None:
            raise BlobMissing(f"blob {digest!r} is named but absent from {self.root}; run `mmlake fsck`, then ingest its source shard again")
        return path

    def read(self, digest: Digest) -> bytes:
        """The blob's bytes, checked against its name. Raises BlobMissing, BlobCorrupt."""
        data = self.path(digest).read_bytes()
        if (actual := digest_of(data)) != digest:
            raise BlobCorrupt(f"blob {digest} in {self.root} now hashes to {actual}; run `mmlake fsck`")
        return data

    def open(self, digest: Digest) -> IO[bytes]:
        """The blob as a binary file, unchecked. Raises BlobMissing."""
        return self.path(digest).open("rb")

    def size(self, digest: Digest) -> int:
        """Size in bytes. Raises BlobMissing."""
        return self.path(digest).stat().st_size

    def __contains__(self, digest: Digest) -> bool:
        return self._find(digest) is not None

    def digests(self) -> Iterator[Digest]:
        """Every digest in the store, sorted, once. Files that are no blobs are passed over."""
        for directory in self._directories():
            last = ""
            for name in sorted(os.listdir(directory)):
                digest = _digest_in(name)
                if digest is not None and digest != last and digest.startswith(directory.parent.name + directory.name):
                    yield digest
                    last = digest

    def verify(self, digest: Digest) -> str | None:
        """None when the blob's bytes hash to its name, else what is wrong: "missing" or "corrupt" (which a disk that cannot read it back is, too)."""
        try:
            with self.path(digest).open("rb") as file:
                return None if hashlib.file_digest(file, "sha256").hexdigest() == digest else "corrupt"
        except (BlobMissing, FileNotFoundError):  # the latter: removed between finding and opening
            return "missing"
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return "corrupt"

    def remove(self, digest: Digest) -> int:
        """Bytes freed by deleting the blob for good; 0 where it was absent. The one way to mend a corrupt blob: remove it, then put its bytes again."""
        freed = 0
        while (path := self._find(digest)) is not None:
            freed += path.stat().st_size
            path.unlink()
            sync_directory(path.parent)
        return freed

    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """The number of unfinished `.part` files removed: those last written `older_than_s` or longer before `now_s` (seconds since 1970).

        Choose an age above the longest write, since a younger file may belong to a living writer.
        """
        num_removed = 0
        incoming = self.root / "incoming"
        for directory in (*((incoming,) if incoming.is_dir() else ()), *self._directories()):
            with os.scandir(directory) as entries:
                stale = [entry.path for entry in entries if entry.name.endswith(_UNFINISHED) and _age_s(entry, now_s) >= older_than_s]
            for path in stale:
                with suppress(FileNotFoundError):  # its writer has finished meanwhile
                    os.unlink(path)
                    num_removed += 1
        return num_removed

    def _directory(self, digest: Digest) -> Path:
        return self.root / digest[:2] / digest[2:4]

    def _directories(self) -> Iterator[Path]:
        """The directories `ab/cd` that exist, sorted."""
        for outer in _two_hex_directories(self.root):
            yield from _two_hex_directories(outer)

    def _find(self, digest: Digest, name: str | None = None) -> Path | None:
        """The blob's file. name: what to try before the directory is listed, since the extension is not known from the digest."""
        if not is_digest(digest):  # else "" or "../x" would name a file that is no blob
            return None
        directory = self._directory(digest)
        if name is not None and (directory / name).exists():
            return directory / name
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return next((directory / name for name in sorted(names) if _digest_in(name) == digest), None)

    def _holds(self, digest: Digest, extension: str) -> bool:
        """Whether the bytes are there already, and durable.

        A writer that was killed after its rename left an entry that nobody has synced, so a young one is synced here, once per directory and object.
        """
        path = self._find(digest, _name(digest, extension))
        if path is None:
            return False
        if digest[:4] not in self._anchored and path.stat().st_ctime > time.time() - _SETTLED_S:
            sync_directory(path.parent)
            self._anchor(digest)
        return True

    def _commit(self, aside: _Aside, digest: Digest, extension: str) -> None:
        """Give the bytes their name, unless another writer was faster; durable on return."""
        aside.sync()
        directory = self._directory(digest)
        if aside.path.parent != directory:
            directory.mkdir(parents=True, exist_ok=True)
        self._anchor(digest)
        handle = os.open(directory, os.O_RDONLY)
        try:
            # Else two writers could give one digest two extensions, or replace a blob that a reader has open. The kernel drops the lock of a killed writer.
            with suppress(OSError):  # a file system without locks (some network mounts): at worst the same bytes are kept twice
                fcntl.flock(handle, fcntl.LOCK_EX)
            if self._find(digest) is None:
                os.replace(aside.path, directory / _name(digest, extension))
            os.fsync(handle)
        finally:
            os.close(handle)

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


def _name(digest: Digest, extension: str) -> str:
    ending = extension.lower().removeprefix(".")
    plain = _EXTENSION.fullmatch(ending) and ".." not in ending and not f".{ending}".endswith(_UNFINISHED)
    return f"{digest}.{ending if plain else 'bin'}"


def _digest_in(name: str) -> Digest | None:
    """The digest of a blob's file name; None for every other file."""
    digest, dot, _ = name.partition(".")
    return digest if dot and is_digest(digest) and not name.endswith(_UNFINISHED) else None


def _two_hex_directories(directory: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(directory) if _TWO_HEX.fullmatch(name))
    except FileNotFoundError:
        return []
    return [path for name in names if (path := directory / name).is_dir()]


def _age_s(entry: os.DirEntry[str], now_s: float) -> float:
    """Seconds since the file was last written; below every age for what is no regular file or has just gone."""
    try:
        return now_s - entry.stat(follow_symlinks=False).st_mtime if entry.is_file(follow_symlinks=False) else float("-inf")
    except FileNotFoundError:
        return float("-inf")


def _read_into(stream: IO[bytes], buffer: bytearray) -> int:
    if hasattr(stream, "readinto"):
        count = stream.readinto(buffer)
        if count is None:  # would pass for the end of the stream and store a torn item
            raise BlockingIOError(errno.EAGAIN, "the stream is in non-blocking mode and has no bytes yet; put a blocking stream")
        return count
    data = stream.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)


class _Aside:
    """A file that is not yet in its place: renamed there by its user, removed on leaving otherwise."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{secrets.token_hex(8)}{_UNFINISHED}"

    def __enter__(self) -> _Aside:
        self.file = self.path.open("xb")
        return self

    def sync(self) -> None:
        """Bring the bytes to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def __exit__(self, *exc: object) -> None:
        try:
            self.file.close()  # tries to write what a full disk refused, and fails again
        finally:
            self.path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make renames inside the directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes) -> None:
    """Put the bytes at the path so that a reader sees the old file or the new one, never a part; durable on return."""
    missing = [above for above in (path.parent, *path.parent.parents) if not above.exists()]
    with _Aside(path.parent) as aside:
        aside.file.write(data)
        aside.sync()
        os.replace(aside.path, path)
    for directory in (path.parent, *(above.parent for above in missing)):
        sync_directory(directory)
