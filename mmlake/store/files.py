"""Files that appear whole or not at all: written under a temporary name that ends in `.part`, synced, renamed, their
directory synced.

Enters: bytes. Leaves: a file that survives a power cut. `write_atomically` is for little data, `BufferedAtomicFile` for
much: it has an aligned buffer of its own and writes past the page cache where the file system allows.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO

from mmlake.durable import make_directory, sync_directory

UNFINISHED = ".part"
_EXTENSION = re.compile(r"[a-z0-9](?:[a-z0-9+._-]{0,30}[a-z0-9])?")
# what O_DIRECT wants lengths, offsets and addresses to be multiples of; 512 on some disks, 4096 on all
BLOCK_BYTES = 4096
BUFFER_BYTES = 4 << 20  # two huge pages; 256 KiB cost 1.5 x the CPU time, 8 MiB gain nothing (benchmarks/README.md)
_KEPT_BUFFERS = 4
_READ_BYTES = 64 << 10  # files up to here are read whole: a mapped one keeps a file descriptor


@lru_cache(maxsize=1024)  # a folder has few endings and many files
def plain_extension(extension: str) -> str:
    """The extension in lower case without its dot, of at most 32 ASCII characters; "bin" for what is no plain file
    ending (a slash, "..", "part", nothing)."""
    ending = extension.lower().removeprefix(".")
    plain = _EXTENSION.fullmatch(ending) and ".." not in ending and not f".{ending}".endswith(UNFINISHED)
    return ending if plain else "bin"


def write_atomically(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Put the bytes at the path so that a reader sees the old file or the new one, never a part; durable on return.

    data: whole, or in parts that are never all in memory."""
    make_directory(path.parent)
    with AtomicFile(path.parent) as file:
        for part in (data,) if isinstance(data, bytes) else data:
            file.write(part)
        file.sync()
        file.rename_to(path)
    sync_directory(path.parent)


def age_s(entry: os.DirEntry[str], now_s: float) -> float:
    """Seconds since the file was last written; minus infinity for what is no regular file or has just gone."""
    try:
        return (
            now_s - entry.stat(follow_symlinks=False).st_mtime
            if entry.is_file(follow_symlinks=False)
            else float("-inf")
        )
    except FileNotFoundError:
        return float("-inf")


def sweep_directory(directory: Path, *, older_than_s: float, now_s: float) -> int:
    """The number of unfinished files removed from the directory: those last written `older_than_s` or longer before
    `now_s`."""
    num_removed = 0
    try:
        with os.scandir(directory) as entries:
            stale = [
                entry.path
                for entry in entries
                if entry.name.endswith(UNFINISHED) and age_s(entry, now_s) >= older_than_s
            ]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    for path in stale:
        with suppress(FileNotFoundError):  # its writer has finished meanwhile
            os.unlink(path)
            num_removed += 1
    return num_removed


class AtomicFile:
    """A file under a temporary name, which `rename_to` puts in its place; removed at the end of the context where
    that was not called."""

    _handle, _is_renamed = -1, False  # on the class, since each small stream makes an object: that costs it nothing

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> AtomicFile:
        self._create()
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Append the bytes."""
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._handle, view) :]

    def sync(self) -> None:
        """Bring the bytes to the disk."""
        os.fsync(self._handle)

    def __exit__(self, *exc: object) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            try:
                os.close(handle)
            finally:
                if not self._is_renamed:
                    self.path.unlink(missing_ok=True)

    def rename_to(self, path: str | os.PathLike[str]) -> None:
        """Put the file at the path, over what is there. Its directory is for the caller to sync."""
        os.replace(self.path, path)
        self._is_renamed = True

    def _create(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.path = self._directory / f"{secrets.token_hex(8)}{UNFINISHED}"
        try:
            self._handle = os.open(self.path, flags, 0o666)
        except FileNotFoundError:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, flags, 0o666)


class Buffers:
    """Aligned buffers of BUFFER_BYTES that are used again and again: fresh ones page-fault, which halves the speed.
    Threads may share them."""

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self.is_direct = True  # until a file system under this store has refused O_DIRECT

    def take(self) -> memoryview:
        """A buffer of undefined content."""
        try:
            return self._free.pop()
        except IndexError:
            # shared ones would be written by forked children, too
            buffer = mmap.mmap(-1, BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with suppress(OSError, AttributeError):  # a kernel without huge pages
                buffer.madvise(mmap.MADV_HUGEPAGE)
            return memoryview(buffer)

    def give_back(self, buffer: memoryview) -> None:
        """Keep the buffer for the next writer."""
        if len(self._free) < _KEPT_BUFFERS:
            self._free.append(buffer)


class BufferedAtomicFile(AtomicFile):
    """An atomic file for much data. Bytes are collected in one aligned buffer, which its user may fill in place, and
    can be read back before they are synced.

    The file is made when the buffer is full for the first time, or at `sync`: bytes that are dropped before cost no
    file.

    is_direct: write past the page cache, which takes half the CPU time and leaves the cache to others; the next reader
    has to read from the disk.
    """

    _written = _filled = 0  # bytes in the file, a multiple of BLOCK_BYTES until `sync`; bytes in the buffer

    def __init__(self, directory: Path, buffers: Buffers, *, is_direct: bool = True) -> None:
        self._directory, self._buffers, self._is_direct = directory, buffers, is_direct

    def __enter__(self) -> BufferedAtomicFile:
        self._view = self._buffers.take()
        return self

    @property
    def size_bytes(self) -> int:
        """Bytes taken so far."""
        return self._written + self._filled

    def room(self) -> memoryview:
        """The free part of the buffer, never empty; pass `fill` the number of bytes used."""
        if self._filled == BUFFER_BYTES:
            self._flush()
        return self._view[self._filled :]

    def fill(self, count: int) -> None:
        """Count so many bytes of what `room` gave as written."""
        self._filled += count

    def write(self, data: bytes | memoryview) -> None:
        """Append the bytes. After an OSError none of them counts, and the call may be made again."""
        view, filled = memoryview(data).cast("B"), self._filled
        if len(view) <= BUFFER_BYTES - filled:  # most small blobs
            self._view[filled : filled + len(view)] = view
            self._filled = filled + len(view)
            return
        before = self.size_bytes
        while view:
            try:
                room = self.room()
            except OSError:
                if self._written <= before:
                    self._filled = before - self._written
                raise
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self._filled += count
            view = view[count:]

    def buffered(self) -> memoryview:
        """The bytes that are not yet in the file; valid until more is written."""
        return self._view[: self._filled]

    def read_back(self, offset: int, size: int) -> bytes:
        """Bytes that were written already. Must not run during `write`."""
        parts = []
        if offset < self._written:
            first = offset - offset % BLOCK_BYTES
            length = min(offset + size, self._written) - first
            parts.append(self._read(first, length)[offset - first :])
        if offset + size > self._written:
            parts.append(bytes(self._view[max(0, offset - self._written) : offset + size - self._written]))
        return b"".join(parts)

    def sync(self) -> None:
        """Bring everything to the disk. Nothing can be written after."""
        size = self.size_bytes
        self._open()
        if self._filled:
            padded = -(-self._filled // BLOCK_BYTES) * BLOCK_BYTES if self._is_direct else self._filled
            self._view[self._filled : padded] = bytes(padded - self._filled)
            self._pwrite(self._view[:padded], self._written)
            if padded != self._filled:
                os.ftruncate(self._handle, size)
        os.fsync(self._handle)

    def __exit__(self, *exc: object) -> None:
        try:
            if self._handle >= 0:
                super().__exit__(*exc)
        finally:
            self._buffers.give_back(self._view)

    def _open(self) -> None:
        if self._handle < 0:
            self._create()
            self._is_direct = self._is_direct and self._buffers.is_direct and self._set_direct(True)

    def _flush(self) -> None:
        self._open()
        self._pwrite(self._view[: self._filled], self._written)
        self._written += self._filled
        self._filled = 0

    def _pwrite(self, view: memoryview, offset: int) -> None:
        while view:
            try:
                count = os.pwrite(self._handle, view, offset)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._give_up_direct()
                continue
            if count % BLOCK_BYTES and count < len(view):
                self._give_up_direct()  # the rest is no longer aligned
            view, offset = view[count:], offset + count

    def _read(self, offset: int, size: int) -> bytes:
        # A descriptor of its own: the writer's may take aligned memory alone.
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            return read_exactly(file, size)

    def _set_direct(self, wanted: bool) -> bool:
        """Whether the file is now written past the page cache."""
        flag = getattr(os, "O_DIRECT", 0)
        if not flag:
            return False
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._handle, fcntl.F_SETFL, flags | flag if wanted else flags & ~flag)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._buffers.is_direct = False  # this store's file system has no O_DIRECT: nobody asks again
            return False
        return wanted

    def _give_up_direct(self) -> None:
        self._set_direct(False)
        self._is_direct = False


def in_memory(file: IO[bytes]) -> bytes | mmap.mmap:
    """The bytes of a file that never changes: small ones read, large ones mapped, in memory only as far as they are
    inspected."""
    if os.fstat(file.fileno()).st_size <= _READ_BYTES:
        return file.read()
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """The next bytes of the file; fewer only where it ends."""
    parts = []
    while size > 0 and (data := file.read(size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
