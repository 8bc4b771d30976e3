"""Open batches: small blobs on their way into a pack, readable before they are durable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mmlake.errors import RemoteUnavailable
from mmlake.records import Digest
from mmlake.store.files import BufferedAtomicFile, Buffers, plain_extension
from mmlake.store.index import Entry
from mmlake.store.pack_file import PACKED_BELOW_BYTES, PackWriter, Record
from mmlake.store.pack_output import PackHome

_MAX_RECORDS = 1 << 17  # per pack of a batch: their places are held in memory, 50 MiB
_MAX_BYTES = 256 << 20


class Batch:
    """What the batches of one store object, in all threads, have put since the last seal. Memory holds one buffer
    and the places of blobs, a `.part` file their bytes."""

    def __init__(
        self,
        packs: PackHome,
        buffers: Buffers,
        *,
        admit: Callable[[], None] | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """admit: raises where this process may not write, asked before each pack. settle: makes durable what the
        store has put next to the pack."""
        self._packs, self._buffers, self._admit, self._settle = packs, buffers, admit, settle
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._depths: dict[int, int] = {}  # thread -> batches that it has open
        self._pending: dict[Digest, tuple[Entry, str]] = {}
        self._file: BufferedAtomicFile | None = None
        self._writer: PackWriter | None = None

    @contextmanager
    def open(self, location: str) -> Iterator[None]:
        """A batch of this thread, as `Blobs.batch` says. Those of several threads share a pack, which the first of them
        to end makes durable for all.

        location: of the store, for messages.
        """
        self._enter()
        try:
            yield
        except BaseException as error:
            try:
                self._leave()
            except (OSError, RemoteUnavailable):  # the first error is the one to report
                error.add_note(
                    f"the pack of its batch in {location} could not be written either: its small blobs are not in "
                    "the store"
                )
            raise
        else:
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            thread = threading.get_ident()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def _leave(self) -> None:
        """Close this thread's innermost batch; at the outermost one everything becomes durable, whatever other
        threads have open."""
        with self._lock:
            thread = threading.get_ident()
            self._depths[thread] -= 1
            if not self._depths[thread]:
                del self._depths[thread]
                self.flush()

    def __contains__(self, digest: Digest) -> bool:
        return digest in self._pending

    @property
    def is_ours(self) -> bool:
        """Whether this thread has a batch open, at whose end everything will be durable."""
        return threading.get_ident() in self._depths and os.getpid() == self._process

    def takes(self, size_bytes: int) -> bool:
        """Whether a blob of this size goes into a pack now."""
        # a forked child would write into its parent's file
        return bool(self._depths) and size_bytes < PACKED_BELOW_BYTES and os.getpid() == self._process

    def add(self, digest: Digest, data: bytes | memoryview, *, extension: str) -> bool:
        """Whether the blob, which must be small enough (`takes`), was taken; not where the last batch has been
        closed meanwhile."""
        extension = plain_extension(extension)
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
            if found is None or self._file is None:
                return None
            entry, extension = found
            return Record(digest, extension, self._file.read_back(entry.offset, entry.size_bytes))

    def flush(self) -> None:
        """Make durable what was put so far; the batches stay open."""
        with self._lock:
            try:
                if self._settle is not None:
                    self._settle()
            finally:
                self.seal()

    def seal(self) -> None:
        """Turn what waits into a pack, durable when this returns. On an OSError all of it is lost, and the next put
        starts anew."""
        with self._lock:
            file, writer = self._file, self._writer
            if file is None or writer is None:
                return
            try:
                self._packs.commit(file, writer)
            finally:
                self._file = self._writer = None
                self._pending = {}
                file.__exit__()

    def _begin(self) -> None:
        if self._admit is not None:
            self._admit()
        file = BufferedAtomicFile(self._packs.directory, self._buffers)
        file.__enter__()
        self._file, self._writer = file, PackWriter(file.write)
