"""Blocks of remote files on the local disk: what was fetched once is not fetched again, by whichever process.

Enters: a file's identity (with its version: another version is another file) and the bytes of a range. Leaves: the
bytes of a block, whole and checked, or nothing. A block file is written under a temporary name and renamed, and ends in
a checksum of its name and bytes, so one that is cut, damaged or in the wrong place counts as absent. The directory may
be deleted at any time.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.records import canonical_json, digest_of
from mmlake.remote.settings import RemoteSettings

_LOG = logging.getLogger("mmlake.remote")
# CRC-32: against bit rot and torn writes, not against malice; who may write here may change the lake
_CHECK_BYTES = 4
_UNFINISHED = ".part"
_STALE_S = 3600.0  # a block is written in milliseconds: an hour-old part file has no writer
_TRIM_TO = 0.9  # of the bound, so that not every further block trims again
_TRIM_EVERY = 16  # a process inspects the whole directory whenever it has written a sixteenth of the bound
# the cache cannot be written to: reading goes on without it
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


class BlockCache:
    """A bounded directory of blocks. Threads and processes may share it."""

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        self.settings = settings or RemoteSettings()
        self.root = self.settings.directory() / "blocks"
        self._lock = threading.Lock()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._pending: dict[tuple[str, int], Future[None]] = {}
        self._untrimmed_bytes = self.settings.cache_bytes  # so that the first write trims what earlier processes left

    def load(self, key: str, block: int) -> bytes | None:
        """The block's bytes, or None where they are not here or not whole."""
        path = self._path(key, block)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        body = memoryview(data)[:-_CHECK_BYTES] if len(data) > _CHECK_BYTES else memoryview(b"")
        if not body or _check(key, block, body) != data[-_CHECK_BYTES:]:
            _LOG.warning("cache block %s is cut or damaged; fetched again", path)
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            # mtime is the time of last use, by which blocks are evicted: file systems often keep no access times
            os.utime(path)
        return bytes(body)

    def has(self, key: str, block: int) -> bool:
        """Whether there is a file for the block; it may still turn out damaged."""
        return self._path(key, block).exists()

    def keep(self, key: str, block: int, data: bytes | memoryview) -> None:
        """Keep the block, where the disk has room."""
        path = self._path(key, block)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}{_UNFINISHED}")
        try:
            # another process may remove the directory, while it is empty, before the file is made in it
            for _ in range(2):
                path.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError), temporary.open("xb") as file:
                    file.write(data)
                    file.write(_check(key, block, data))
                    break
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno not in (*_FULL, errno.ENOENT):
                raise
            _LOG.warning(
                "cache %s cannot take a block (%s); reading goes on without it",
                self.root,
                os.strerror(error.errno or 0),
            )
            return
        self._trim_when_due(len(data))

    def ahead(self, key: str, blocks: list[int], fetch: Callable[[], None]) -> None:
        """Fetch these blocks in the background by `fetch`, unless one of them is under way already."""
        with self._lock:
            if any((key, block) in self._pending for block in blocks):
                return
            future = self._executor().submit(fetch)
            for block in blocks:
                self._pending[key, block] = future
        future.add_done_callback(lambda _: self._forget(key, blocks))

    def is_coming(self, key: str, block: int) -> bool:
        """Whether a fetch of the block in the background is under way."""
        with self._lock:
            return (key, block) in self._pending

    def wait(self, key: str, block: int) -> None:
        """Return when no fetch of the block is under way. `load` then says whether it succeeded; the reader's own
        fetch raises what went wrong."""
        with self._lock:
            future = self._pending.get((key, block))
        if future is not None:
            with suppress(UnreadableItem, RemoteUnavailable, CancelledError):
                future.result()

    def cancel(self, key: str) -> None:
        """Drop what was asked for ahead of the file and has not begun."""
        with self._lock:
            futures = {future for (owner, _), future in self._pending.items() if owner == key}
        for future in futures:
            future.cancel()

    def forget(self, identity: str, size_bytes: int) -> None:
        """Delete the file's blocks, which turned out not to be what its publisher states."""
        key = block_key(identity, size_bytes, self.settings.block_bytes)
        self.cancel(key)
        shutil.rmtree(self.root / key[:2] / key, ignore_errors=True)

    def trim(self) -> int:
        """Bytes freed by deleting the least recently used blocks of a directory above its bound; 0 where another
        process is doing that."""
        with self._trimming() as is_ours:
            if not is_ours:
                return 0
            found, stale = self._blocks()
            total, freed = sum(block.size_bytes for block in found), 0
            aim = total if total <= self.settings.cache_bytes else int(self.settings.cache_bytes * _TRIM_TO)
            for block in sorted(found, key=lambda one: one.used_s):
                if total - freed <= aim:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(block.path)
                    freed += block.size_bytes
                stale.append(block.path)
            for path in stale:
                with suppress(OSError):
                    if path.endswith(_UNFINISHED):
                        os.unlink(path)
                    os.rmdir(os.path.dirname(path))  # refused while it holds another block
            return freed

    def _path(self, key: str, block: int) -> Path:
        return self.root / key[:2] / key / f"{block:08d}"

    def _executor(self) -> ThreadPoolExecutor:
        # A forked child inherits the pool without its threads.
        if self._pool is None or self._pool[0] != os.getpid():
            self._pending.clear()
            self._pool = (os.getpid(), ThreadPoolExecutor(self.settings.threads, thread_name_prefix="mmlake-ahead"))
        return self._pool[1]

    def _forget(self, key: str, blocks: list[int]) -> None:
        with self._lock:
            for block in blocks:
                self._pending.pop((key, block), None)

    def _trim_when_due(self, num_bytes: int) -> None:
        with self._lock:
            self._untrimmed_bytes += num_bytes
            is_due = self._untrimmed_bytes >= self.settings.cache_bytes // _TRIM_EVERY
            if is_due:
                self._untrimmed_bytes = 0
        if is_due:
            self.trim()

    @contextmanager
    def _trimming(self) -> Iterator[bool]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".trim.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    def _blocks(self) -> tuple[list[_Kept], list[str]]:
        """(blocks, part files that killed writers left)."""
        found: list[_Kept] = []
        stale: list[str] = []
        now_s = time.time()
        for directory, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(directory, name)
                if name.startswith("."):
                    continue
                with suppress(FileNotFoundError):
                    here = os.stat(path)
                    if not name.endswith(_UNFINISHED):
                        found.append(_Kept(path, here.st_size, here.st_mtime))
                    elif now_s - here.st_mtime > _STALE_S:
                        stale.append(path)
        return found, stale


@dataclass(frozen=True, slots=True)
class _Kept:
    path: str
    size_bytes: int
    used_s: float


def block_key(identity: str, size_bytes: int, block_bytes: int) -> str:
    """The name under which a file's blocks are kept: it changes with location, version, size and block size."""
    return digest_of(canonical_json([identity, size_bytes, block_bytes]).encode())[:40]


def _check(key: str, block: int, data: bytes | memoryview) -> bytes:
    return zlib.crc32(data, zlib.crc32(f"{key}/{block}".encode())).to_bytes(_CHECK_BYTES, "big")
