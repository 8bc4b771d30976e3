"""A file that is read at any place, and is never mapped: a mapped file that becomes shorter ends the process that reads
it (SIGBUS)."""

from __future__ import annotations

import hashlib
import os
import weakref
from pathlib import Path

_READ_BYTES = 1 << 30  # at once; the system gives no more than 2 GiB
_HASHED_BYTES = 1 << 20


class ReadFile:
    """An open file; closed with its last reference at the latest, as a map is."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.close = weakref.finalize(self, os.close, self._descriptor)

    def read(self, offset: int, num_bytes: int) -> bytes:
        """The bytes there, fewer where the file ends before."""
        data = os.pread(self._descriptor, min(num_bytes, _READ_BYTES), offset)
        while len(data) < num_bytes:
            more = os.pread(self._descriptor, min(num_bytes - len(data), _READ_BYTES), offset + len(data))
            if not more:
                break
            data += more
        return data

    def state(self) -> tuple[int, int]:
        """Size in bytes and time of the last change in ns: one of them differs once somebody has written to it."""
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def sha256(self) -> str:
        """The SHA-256 of all of it, in hexadecimal."""
        hasher, at = hashlib.sha256(), 0
        while part := self.read(at, _HASHED_BYTES):
            hasher.update(part)
            at += len(part)
        return hasher.hexdigest()
