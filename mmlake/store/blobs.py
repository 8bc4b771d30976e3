"""What every store of blobs can do, wherever the bytes lie. `BlobStore` keeps them in a directory."""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.progress import Advance, silent
from mmlake.records import Digest, digest_of
from mmlake.store.batch import Batch


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreStats:
    """How much lies in a store. A blob that lies there twice counts once, and its further copies are spare."""

    num_loose: int  # blobs that are a file or object of their own, and in no pack
    loose_bytes: int
    num_packed: int  # blobs inside of packs
    packed_bytes: int  # of those blobs, without their headers
    num_packs: int
    num_spare: int = 0  # further copies: writers at once may each have stored a blob, which does no harm
    spare_bytes: int = 0


class Blobs(ABC):
    """Immutable blobs by the SHA-256 of their bytes. Any number of threads and processes may put and read at once."""

    _batch: Batch

    @abstractmethod
    def put(self, data: bytes | memoryview, *, extension: str = "bin") -> Digest:
        """The digest of the bytes, durable in the store when this returns; inside of a `batch`, when that ends. Bytes
        that are already there are not written again.

        extension: for people's eyes only. What is no plain file ending (a slash, "..", "part", nothing) becomes "bin":
        a strange name must not lose the bytes.
        """

    @abstractmethod
    def put_stream(self, stream: IO[bytes], *, extension: str = "bin", head: bytes = b"") -> tuple[Digest, int]:
        """(digest, size in bytes) of `head` and what the stream still holds; read in parts, never whole. Otherwise as
        `put`.

        head: bytes that were taken from the front of the stream already, to detect their type.
        """

    def batch(self) -> AbstractContextManager[None]:
        """While this lasts, small blobs go into one pack, and this object finds them at once; durable, and seen by
        other objects, when it ends.

        A batch inside of another joins it. What was put is kept when the block raises, too: equal work tried again then
        writes less.
        Its end raises OSError where the pack cannot be written, and none of its small blobs are then in the store; or
        where a directory cannot be synced, and large blobs are then visible, but may not survive a power cut.
        """
        return self._batch.open(self.location)

    def flush(self) -> None:
        """Make durable what the batches of this object have put so far, and seen by other objects. Raises as the end of
        a batch does."""
        self._batch.flush()

    @abstractmethod
    def open(self, digest: Digest) -> IO[bytes]:
        """The blob as a seekable binary file. Small packed blobs are checked against their name here, large ones are
        not. Raises BlobMissing, BlobCorrupt."""

    @abstractmethod
    def size(self, digest: Digest) -> int:
        """Size in bytes. Raises BlobMissing."""

    @abstractmethod
    def extension(self, digest: Digest) -> str:
        """The file ending that the blob was first put with, without its dot. Raises BlobMissing."""

    @abstractmethod
    def __contains__(self, digest: Digest) -> bool: ...

    @abstractmethod
    def digests(self) -> Iterator[Digest]:
        """Every digest in the store, sorted, once. Files that are no blobs are passed over."""

    @abstractmethod
    def quarantine(self, digest: Digest, *, reason: str = "its bytes do not hash to its name") -> int:
        """The number of damaged copies that were moved into the store's quarantine, with the reason next to them.
        Sound copies stay; where there is none, a put stores the blob anew."""

    @abstractmethod
    def remove_all(self, digests: Iterable[Digest]) -> int:
        """Bytes freed by deleting every copy of the blobs for good; absent ones count 0. Each pack that holds some
        is rewritten once."""

    @abstractmethod
    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """The number of unfinished files removed: those last written `older_than_s` or longer before `now_s` (seconds
        since 1970).

        Choose an age above the longest batch, since a younger file may belong to a living writer.
        """

    @abstractmethod
    def stats(self) -> StoreStats:
        """How much lies in the store."""

    def compact(self) -> int:
        """How many packs fewer there are: small ones are merged where there are many. Readers and writers may go on
        meanwhile."""
        return 0

    def thin(self) -> int:
        """The number of further copies that were removed from packs; of each blob one sound copy stays. 0 where two
        processes that did this at once could not be kept apart."""
        return 0

    def broken_packs(self) -> list[Path]:
        """The packs whose index is lost or damaged: blobs in them may seem missing. An empty list where the store
        cannot count without reading every index."""
        return []

    def rebuild_indexes(self) -> int:
        """The number of packs whose lost or damaged index was built again from the pack."""
        return 0

    def read(self, digest: Digest) -> bytes:
        """The blob's bytes, checked against its name. Raises BlobMissing, BlobCorrupt."""
        with self.open(digest) as file:
            data = file.read()
        if (actual := digest_of(data)) != digest:
            raise self.corrupt(digest, actual)
        return data

    def read_range(self, digest: Digest, offset: int, size: int) -> bytes:
        """So many bytes from there on; fewer where the blob ends. Checked like `open`. Raises BlobMissing,
        BlobCorrupt."""
        with self.open(digest) as file:
            file.seek(offset)
            return file.read(size)

    @contextmanager
    def local(self, digest: Digest) -> Iterator[Path]:
        """A file that holds the blob, with its extension, for libraries that want a path; not to be written, and
        gone with the context. Raises BlobMissing, BlobCorrupt."""
        with (
            self.open(digest) as blob,
            tempfile.NamedTemporaryFile(prefix="mmlake-", suffix=f".{self.extension(digest)}") as file,
        ):
            shutil.copyfileobj(blob, file, 1 << 20)
            file.flush()
            yield Path(file.name)

    def verify(self, digest: Digest) -> str | None:
        """None when the blob's bytes hash to its name, else what is wrong: "missing", or "corrupt", also where the
        disk cannot read it back."""
        try:
            with self.open(digest) as file:
                # any binary file will do
                return None if hashlib.file_digest(file, "sha256").hexdigest() == digest else "corrupt"  # type: ignore[arg-type]
        except BlobMissing:
            return "missing"
        except BlobCorrupt:
            return "corrupt"

    def verify_all(self, digests: Iterable[Digest], *, advance: Advance = silent) -> Iterator[tuple[Digest, str]]:
        """(digest, "missing" or "corrupt") of each blob that `verify` finds wrong; far cheaper than one by one where
        many lie in a pack. advance: called with 1 for each blob done."""
        for digest in digests:
            if (wrong := self.verify(digest)) is not None:
                yield digest, wrong
            advance(1)

    def remove(self, digest: Digest) -> int:
        """Bytes freed by deleting the blob for good; 0 where it was absent."""
        return self.remove_all([digest])

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the blobs lie, as messages say it."""

    def missing(self, digest: Digest) -> BlobMissing:
        """The error for a blob that is not there."""
        return BlobMissing(
            f"blob {digest!r} is named but absent from {self.location}; run `mmlake fsck`, then ingest its source "
            "shard again"
        )

    def corrupt(self, digest: Digest, actual: str) -> BlobCorrupt:
        """The error for a blob whose bytes hash to something else."""
        return BlobCorrupt(f"blob {digest} in {self.location} now hashes to {actual}; run `mmlake fsck`")


def as_file(data: bytes) -> IO[bytes]:
    """The bytes as a seekable file without a copy."""
    return io.BytesIO(data)
