"""The store in a directory: large blobs a file each, small ones of a batch in packs."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mmlake.durable import make_directory, put_in_place
from mmlake.progress import Advance, silent
from mmlake.records import Digest, canonical_json, digest_of, is_digest
from mmlake.store import pack_rewrites
from mmlake.store.batch import Batch
from mmlake.store.blobs import Blobs, StoreStats, as_file
from mmlake.store.files import (
    AtomicFile,
    BufferedAtomicFile,
    Buffers,
    sweep_directory,
    write_atomically,
)
from mmlake.store.index import sorted_once
from mmlake.store.loose import LooseFiles
from mmlake.store.pack_directory import Packs
from mmlake.store.pack_file import PACKED_BELOW_BYTES, Record
from mmlake.store.pack_rewrites import MAX_SMALL_PACKS, SMALL_PACK_BYTES
from mmlake.store.scrub import wrong_blobs
from mmlake.store.stats import counted


class BlobStore(Blobs):
    """Immutable blobs under one root directory. Any number of threads and processes may put and read at once."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._loose = LooseFiles(self.root)
        self._packs = Packs(self.root / "packs")
        self._incoming = self.root / "incoming"
        self._buffers = Buffers()
        self._batch = Batch(self._packs, self._buffers, settle=self._loose.settle)

    @property
    def location(self) -> str:
        """The root directory."""
        return str(self.root)

    def put(self, data: bytes | memoryview, *, extension: str = "bin") -> Digest:
        """See `Blobs.put`."""
        digest, size = digest_of(data), memoryview(data).nbytes
        if self._holds(digest):
            return digest
        if not (self._batch.takes(size) and self._batch.add(digest, data, extension=extension)):
            self._put_loose(digest, data, extension=extension, is_settled_later=self._batch.is_ours)
        return digest

    def put_stream(self, stream: IO[bytes], *, extension: str = "bin", head: bytes = b"") -> tuple[Digest, int]:
        """See `Blobs.put_stream`. The bytes are hashed and written from one buffer."""
        # Under the root, so that the rename stays within one file system.
        with BufferedAtomicFile(self._incoming, self._buffers) as file:
            if head:
                file.write(head)
            hasher, read = hashlib.sha256(head), _reader(stream)
            while count := read(room := file.room()):
                hasher.update(room[:count])
                file.fill(count)
            if count is None:  # taken for the end of the stream, it would store a torn item
                raise BlockingIOError(
                    errno.EAGAIN, "the stream is in non-blocking mode and has no bytes yet; put a blocking stream"
                )
            digest, size = hasher.hexdigest(), file.size_bytes
            if self._holds(digest):
                return digest, size
            if not (self._batch.takes(size) and self._batch.add(digest, file.buffered(), extension=extension)):
                self._loose.commit(file, digest, extension, is_settled_later=self._batch.is_ours)
        return digest, size

    def read(self, digest: Digest) -> bytes:
        """The blob's bytes, checked against its name; of several copies a sound one. Raises BlobMissing,
        BlobCorrupt."""
        actual = None
        for data in self._copies(digest):
            if (actual := digest_of(data)) == digest:
                return data
        raise self.missing(digest) if actual is None else self.corrupt(digest, actual)

    def open(self, digest: Digest) -> IO[bytes]:
        """See `Blobs.open`. A packed blob is whole in memory."""
        path = self._large(digest)
        return as_file(self.read(digest)) if path is None else path.open("rb")

    def size(self, digest: Digest) -> int:
        """See `Blobs.size`."""
        if (waiting := self._batch.entry(digest)) is not None:
            return waiting[0].size_bytes
        if (packed := self._find_packed(digest)) is not None:
            return packed
        if not is_digest(digest) or (path := self._loose.find(digest)) is None:
            raise self.missing(digest)
        return path.stat().st_size

    def extension(self, digest: Digest) -> str:
        """See `Blobs.extension`; "bin" where only damaged bytes could say."""
        for record in self._packed(digest):
            if record is not None:
                return record.extension
        path = self._loose.find(digest) if is_digest(digest) else None
        if path is not None:
            return path.name.partition(".")[2]
        if digest in self:
            return "bin"
        raise self.missing(digest)

    def __contains__(self, digest: Digest) -> bool:
        # else "" or "../x" would name a file that is no blob
        return is_digest(digest) and (
            digest in self._batch or self._packs.find(digest) is not None or self._loose.find(digest) is not None
        )

    def digests(self) -> Iterator[Digest]:
        """See `Blobs.digests`. Those of an open batch come when it has ended."""
        return sorted_once(self._packs.digests(), (digest for digest, _ in self._loose.files()))

    @contextmanager
    def local(self, digest: Digest) -> Iterator[Path]:
        """See `Blobs.local`. A large blob is its own file."""
        path = self._large(digest)
        if path is not None:
            yield path
            return
        with super().local(digest) as copy:
            yield copy

    def verify(self, digest: Digest) -> str | None:
        """See `Blobs.verify`; "corrupt" where any copy is."""
        if not is_digest(digest):
            return "missing"
        copies = [record is not None and record.is_sound for record in self._packed(digest)]
        if (is_own_sound := self._is_own_sound(digest)) is not None:
            copies.append(is_own_sound)
        return "missing" if not copies else None if all(copies) else "corrupt"

    def verify_all(self, digests: Iterable[Digest], *, advance: Advance = silent) -> Iterator[tuple[Digest, str]]:
        """See `Blobs.verify_all`. Packs are read front to back."""
        return wrong_blobs(
            self,
            digests,
            packs=((pack.index, pack.read) for pack in self._packs.all()),
            own=self._is_own_sound,
            advance=advance,
        )

    def _is_own_sound(self, digest: Digest) -> bool | None:
        with suppress(FileNotFoundError):  # removed between finding and opening
            if is_digest(digest) and (path := self._loose.find(digest)) is not None:
                return _is_sound(path, digest)
        return None

    def quarantine(self, digest: Digest, *, reason: str = "its bytes do not hash to its name") -> int:
        """See `Blobs.quarantine`; the directory is `quarantine/` under the root."""
        self._batch.seal()
        if not is_digest(digest):
            return 0
        num_moved = 0
        while (path := self._loose.find(digest)) is not None and not _is_sound(path, digest):
            self._set_aside(digest, path.name.partition(".")[2], reason, path=path)
            num_moved += 1
        copies = self._packs.copies(digest)
        if num_damaged := sum(not pack.is_sound(entry) for pack, entry in copies):
            for record in (pack.remains(entry) for pack, entry in copies):
                if not record.is_sound:
                    self._set_aside(digest, record.extension, reason, data=record.data)
                elif path is None:  # all packed copies go with the damaged one: a sound one becomes a file first
                    path = self._put_loose(digest, record.data, extension=record.extension)
            pack_rewrites.drop(self._packs, self._buffers, [digest])
        return num_moved + num_damaged

    def remove_all(self, digests: Iterable[Digest]) -> int:
        """See `Blobs.remove_all`. A batch that is open in another process may bring a blob back."""
        wanted = {digest for digest in digests if is_digest(digest)}
        if any(digest in self._batch for digest in wanted):
            self._batch.seal()
        return pack_rewrites.drop(self._packs, self._buffers, wanted) + sum(
            self._loose.remove(digest) for digest in sorted(wanted)
        )

    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """See `Blobs.sweep`."""
        swept = ("incoming", "packs", "quarantine")
        num_removed = sum(sweep_directory(self.root / name, older_than_s=older_than_s, now_s=now_s) for name in swept)
        return num_removed + self._loose.sweep(older_than_s=older_than_s, now_s=now_s)

    def stats(self) -> StoreStats:
        """See `Blobs.stats`."""
        return counted(
            [pack.index for pack in self._packs.all()],
            self._file_sizes(),
            is_packed=lambda digest: self._packs.find(digest) is not None,
        )

    def _file_sizes(self) -> Iterator[tuple[Digest, int]]:
        for digest, path in self._loose.files():
            with suppress(FileNotFoundError):  # removed since it was listed
                yield digest, path.stat().st_size

    def compact(self, *, small_bytes: int = SMALL_PACK_BYTES, max_small: int = MAX_SMALL_PACKS) -> int:
        """How many packs fewer there are: those below `small_bytes` are merged into few where there are more than
        `max_small`. Readers and writers may go on meanwhile."""
        return pack_rewrites.compact(self._packs, self._buffers, small_bytes=small_bytes, max_small=max_small)

    def thin(self) -> int:
        """See `Blobs.thin`. Readers and writers may go on meanwhile."""
        files = (digest for digest, _ in self._loose.files())
        return pack_rewrites.thin(
            self._packs,
            self._buffers,
            files=files,
            has_sound_file=lambda digest: self._is_own_sound(digest) is True and self._loose.holds(digest),
        )

    def broken_packs(self) -> list[Path]:
        """The packs whose index is lost or damaged: blobs in them may seem missing."""
        return pack_rewrites.broken_indexes(self._packs)

    def rebuild_indexes(self) -> int:
        """The number of packs whose lost or damaged index was built again from the pack."""
        return pack_rewrites.rebuild_indexes(self._packs)

    def _put_loose(
        self, digest: Digest, data: bytes | memoryview, *, extension: str, is_settled_later: bool = False
    ) -> Path:
        directory = self._loose.directory(digest)
        with (
            AtomicFile(directory)
            if memoryview(data).nbytes < PACKED_BELOW_BYTES
            else BufferedAtomicFile(directory, self._buffers) as file
        ):
            file.write(data)
            return self._loose.commit(file, digest, extension, is_settled_later=is_settled_later)

    def _holds(self, digest: Digest) -> bool:
        """Whether the bytes are there already, and durable, or will be with this batch."""
        if digest in self._batch:
            return True
        if (found := self._packs.find(digest, is_hint=True)) is not None:
            self._packs.anchor(found[0])
            return True
        return self._loose.holds(digest)

    def _copies(self, digest: Digest) -> Iterator[bytes]:
        """The bytes of every copy, unchecked; none for one that cannot be read."""
        for record in self._packed(digest):
            yield b"" if record is None else record.data
        with suppress(FileNotFoundError):  # removed between finding and opening
            if is_digest(digest) and (path := self._loose.find(digest)) is not None:
                yield path.read_bytes()

    def _packed(self, digest: Digest) -> Iterator[Record | None]:
        """The copies of the blob in the open batch and in packs, unchecked; None for one that cannot be read."""
        if not is_digest(digest):
            return
        if (record := self._batch.record(digest)) is not None:
            yield record
            return
        yield from self._packs.records(digest)

    def _find_packed(self, digest: Digest) -> int | None:
        found = self._packs.find(digest) if is_digest(digest) else None
        return None if found is None else found[1].size_bytes

    def _large(self, digest: Digest) -> Path | None:
        """The blob's own file where no pack holds it, too. Raises BlobMissing where neither is there."""
        if is_digest(digest):
            if digest in self._batch or self._packs.find(digest, is_hint=True) is not None:
                return None
            if (path := self._loose.find(digest)) is not None:
                return path
            if digest in self:  # packed since
                return None
        raise self.missing(digest)

    def _set_aside(
        self, digest: Digest, extension: str, reason: str, *, data: bytes | None = None, path: Path | None = None
    ) -> None:
        directory = self.root / "quarantine"
        make_directory(directory)
        number = next(
            number
            for number in range(len(os.listdir(directory)) + 1)
            if not (directory / f"{digest}.{number}.json").exists()
        )
        write_atomically(
            directory / f"{digest}.{number}.json",
            canonical_json({"digest": digest, "extension": extension, "reason": reason}).encode(),
        )
        target = directory / f"{digest}.{number}.damaged"
        if path is None:
            write_atomically(target, data or b"")
            return
        put_in_place(path, target)


def _is_sound(path: Path, digest: Digest) -> bool:
    """Whether the file hashes to the digest; not where the disk cannot read it back."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False


def _reader(stream: IO[bytes]) -> Callable[[memoryview], int | None]:
    """Fills a buffer from the stream and says how far; None where the stream would block."""
    if (into := getattr(stream, "readinto", None)) is not None:
        return into  # type: ignore[no-any-return]

    def read(room: memoryview) -> int:
        data = stream.read(len(room))
        room[: len(data)] = data
        return len(data)

    return read
