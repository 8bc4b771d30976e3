"""An open batch: small blobs on their way into a pack, readable before they are durable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from mmlake.records import Digest
from mmlake.store.files import Buffers, Draft
from mmlake.store.index import Entry
from mmlake.store.pack import PACKED_BELOW_BYTES, PackWriter, Record

_MAX_RECORDS = 1 << 17  # per pack of a batch, whose places are held in memory: 40 MiB
_MAX_BYTES = 256 << 20


class PackHome(Protocol):
    """Where finished packs go: a directory, or a bucket."""

    directory: Path  # of the unfinished pack

    def commit(self, draft: Draft, writer: PackWriter) -> object: ...


class Batch:
    """What the batches of one store object, in all threads, have put since the last seal. Holds one buffer and the places in memory, the bytes in a `.part` file."""

    def __init__(self, packs: PackHome, buffers: Buffers, *, settle: Callable[[], None] | None = None) -> None:
        """settle: makes durable what its store has put beside the pack."""
        self._packs, self._buffers, self._settle = packs, buffers, settle
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._depths: dict[int, int] = {}  # thread -> batches that it has open
        self._pending: dict[Digest, tuple[Entry, str]] = {}
        self._draft: Draft | None = None
        self._writer: PackWriter | None = None

    def enter(self) -> None:
        """Open a batch in this thread."""
        with self._lock:
            thread = threading.get_ident()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def leave(self) -> None:
        """Close this thread's innermost batch; durable when it was the outermost, whatever other threads have open."""
        with self._lock:
            thread = threading.get_ident()
            self._depths[thread] -= 1
            if not self._depths[thread]:
                del self._depths[thread]
                try:
                    if self._settle is not None:
                        self._settle()
                finally:
                    self.seal()

    def __contains__(self, digest: Digest) -> bool:
        return digest in self._pending

    @property
    def is_ours(self) -> bool:
        """Whether this thread has a batch open, at whose end everything will be durable."""
        return threading.get_ident() in self._depths and os.getpid() == self._process

    def takes(self, size_bytes: int) -> bool:
        """Whether a blob of this size goes into a pack now."""
        return bool(self._depths) and size_bytes < PACKED_BELOW_BYTES and os.getpid() == self._process  # a forked child would write into its parent's file

    def add(self, digest: Digest, data: bytes | memoryview, *, extension: str) -> bool:
        """Whether the blob was taken; not where the last batch has been closed meanwhile."""
        with self._lock:
            if not self._depths:
                return False
            if digest in self._pending:
                return True
            if self._writer is None:
                self._begin()
            assert self._writer is not None
            self._pending[digest] = (self._writer.add(digest, data, extension=extension), extension)
            if self._writer.size_bytes >= _MAX_BYTES or len(self._pending) >= _MAX_RECORDS:
                self.seal()
            return True

    def entry(self, digest: Digest) -> tuple[Entry, str] | None:
        """(place, extension) of a blob that waits here."""
        return self._pending.get(digest)

    def record(self, digest: Digest) -> Record | None:
        """A blob that waits here."""
        if digest not in self._pending:
            return None
        with self._lock:
            found = self._pending.get(digest)
            if found is None or self._draft is None:
                return None
            entry, extension = found
            return Record(digest, extension, self._draft.read_back(entry.offset, entry.size_bytes))

    def seal(self) -> None:
        """Turn what waits into a pack, durable when this returns. On an OSError all of it is lost, and the next put starts anew."""
        with self._lock:
            draft, writer = self._draft, self._writer
            if draft is None or writer is None:
                return
            try:
                self._packs.commit(draft, writer)
            finally:
                self._draft = self._writer = None
                self._pending = {}
                draft.__exit__()

    def _begin(self) -> None:
        draft = Draft(self._packs.directory, self._buffers)
        draft.__enter__()
        self._draft, self._writer = draft, PackWriter(draft.write)
