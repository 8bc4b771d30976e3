"""The store below a prefix of an S3 bucket: large blobs an object each, small ones of a batch in packs.

    blobs/<sha256>                    a blob; its extension is metadata of the object
    packs/<name>.pack, <name>.idx     as in a directory: the pack is uploaded, then its index, and is there once both
                                      are
    quarantine/                       damaged copies with the reason next to them

A stream is spooled to the local disk while it is hashed, and then uploaded under its digest: bytes that are there
already are not sent, a part that fails is read again, and no copy from a temporary key is needed, which S3 allows up to
5 GB. Reads go by ranges through the block cache.
"""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from mmlake.errors import BlobMissing, RemoteUnavailable, UnreadableItem
from mmlake.locks import exclusive_lock
from mmlake.progress import Advance, silent
from mmlake.records import Digest, canonical_json, digest_of, is_digest
from mmlake.remote.bucket import SINGLE_PUT_BYTES, Bucket, ObjectInfo
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.s3 import Address, Damaged, Missing
from mmlake.remote.settings import RemoteSettings
from mmlake.store import s3_copies, s3_objects
from mmlake.store.batch import Batch
from mmlake.store.blobs import Blobs, StoreStats, as_file
from mmlake.store.files import Buffers, plain_extension, sweep_directory
from mmlake.store.index import sorted_once
from mmlake.store.pack_file import PACKED_BELOW_BYTES, Record
from mmlake.store.pack_rewrites import MAX_SMALL_PACKS, SMALL_PACK_BYTES
from mmlake.store.s3_packs import S3Packs
from mmlake.store.scrub import wrong_blobs
from mmlake.store.stats import counted

_LOG = logging.getLogger("mmlake.store")
_CHUNK_BYTES = 1 << 20
_MAX_SEEN = 100_000  # objects whose size and version are remembered: 30 MiB
_ONE_BY_ONE = 500  # blobs that are looked up singly; beyond, listing the store is cheaper
_EXTENSION = "extension"
_WRITERS: dict[str, ExitStack] = {}  # stores that this process alone may write, because they ignore conditions
_ADMITTING = threading.Lock()


class S3Store(Blobs):
    """Immutable blobs below a prefix. Any number of threads and processes may put and read at once, where the storage
    honours conditional writes.

    Where it does not, one process of this machine at a time may write, and none of another machine may:
    `docs/store.md`.
    """

    def __init__(
        self,
        location: str,
        *,
        client: Any = None,
        remote: RemoteSettings | None = None,
        connections: RemoteConnections | None = None,
    ) -> None:
        self._address = Address.parse(location)
        settings, connections = remote or RemoteSettings(), connections or RemoteConnections()
        self.bucket = Bucket(
            self._address.bucket, client=client, connections=connections, settings=settings, is_own=True
        )
        self._cache = connections.cache(settings)
        self._spool = settings.directory() / "stores" / digest_of(str(self._address).encode())[:16]
        self._packs = S3Packs(self.bucket, self._address.key("packs/"), spool=self._spool, cache=self._cache)
        self._buffers = Buffers()
        self._batch = Batch(self._packs, self._buffers, admit=self._admit)
        self._seen: OrderedDict[Digest, ObjectInfo] = OrderedDict()
        self._lock = threading.Lock()
        self._is_admitted = False

    @property
    def location(self) -> str:
        """The address."""
        return str(self._address)

    def put(self, data: bytes | memoryview, *, extension: str = "bin") -> Digest:
        """See `Blobs.put`."""
        digest, size = digest_of(data), memoryview(data).nbytes
        if self._holds(digest, size):
            return digest
        if not (self._batch.takes(size) and self._batch.add(digest, data, extension=extension)):
            self._upload(digest, size, extension, lambda: io.BytesIO(data))
        return digest

    def put_stream(self, stream: IO[bytes], *, extension: str = "bin", head: bytes = b"") -> tuple[Digest, int]:
        """See `Blobs.put_stream`."""
        hasher, size = hashlib.sha256(head), len(head)
        self._spool.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._spool) as file:  # without a name: a killed writer leaves nothing
            file.write(head)
            while chunk := stream.read(_CHUNK_BYTES):
                hasher.update(chunk)
                file.write(chunk)
                size += len(chunk)
            digest = hasher.hexdigest()
            if self._holds(digest, size):
                return digest, size
            file.seek(0)
            if not (self._batch.takes(size) and self._batch.add(digest, file.read(), extension=extension)):
                file.seek(0)
                self._upload(digest, size, extension, lambda: file)
        return digest, size

    def _upload(self, digest: Digest, size: int, extension: str, file: Callable[[], IO[bytes]]) -> None:
        self._admit()
        key, metadata, etag = self._key(digest), {_EXTENSION: plain_extension(extension)}, None
        if size > SINGLE_PUT_BYTES:
            self.bucket.upload(key, file(), size_bytes=size, metadata=metadata)
        else:
            etag = self.bucket.put(key, file().read(), metadata=metadata)
        if etag is not None:
            self._remember(digest, ObjectInfo(key, size, etag, 0, metadata))
        elif (found := self.bucket.head(key)) is None or found.size_bytes != size:
            raise RemoteUnavailable(
                f"PUT {self.location}/blobs/{digest}: {size} bytes were written and are not there; the storage "
                "loses writes, use another"
            )
        else:
            self._remember(digest, found)

    def open(self, digest: Digest) -> IO[bytes]:
        """See `Blobs.open`. A packed blob is whole in memory."""
        records, found = self._located(digest)
        for record in records:
            if record is not None and record.is_sound:
                return as_file(record.data)
        if found is None:
            raise self.corrupt(digest, "other bytes, or cannot be read")
        if found.size_bytes == 0:
            return as_file(b"")
        gone, corrupt = partial(self._gone, digest), partial(self.corrupt, digest)
        return s3_objects.opened(self.bucket, self._cache, digest, found, gone=gone, corrupt=corrupt)

    def _gone(self, digest: Digest, error: UnreadableItem) -> Exception:
        """What to raise where the version of the blob's object is no longer there."""
        self._forget(digest)
        if isinstance(error, Missing):
            return self.missing(digest)
        return self.corrupt(digest, "other bytes: its object was written over")

    def read(self, digest: Digest) -> bytes:
        """See `Blobs.read`; transferred again where bytes changed on the way."""
        with suppress(Damaged):
            return super().read(digest)
        return super().read(digest)

    @contextmanager
    def local(self, digest: Digest) -> Iterator[Path]:
        """See `Blobs.local`; transferred again where bytes changed on the way."""
        with ExitStack() as stack:
            try:
                path = stack.enter_context(super().local(digest))
            except Damaged:
                path = stack.enter_context(super().local(digest))
            yield path

    def size(self, digest: Digest) -> int:
        """See `Blobs.size`."""
        if (waiting := self._batch.entry(digest)) is not None:
            return waiting[0].size_bytes
        if is_digest(digest) and (packed := self._packs.find(digest, is_hint=True)) is not None:
            return packed[1].size_bytes
        if (found := self._find(digest)) is not None:
            return found.size_bytes
        if is_digest(digest) and (packed := self._packs.find(digest)) is not None:
            return packed[1].size_bytes
        raise self.missing(digest)

    def extension(self, digest: Digest) -> str:
        """See `Blobs.extension`; "bin" where only damaged bytes could say."""
        records, found = self._located(digest)
        for record in records:
            if record is not None:
                return record.extension
        return found.metadata.get(_EXTENSION, "bin") if found is not None else "bin"

    def __contains__(self, digest: Digest) -> bool:
        if not is_digest(digest):
            return False
        if digest in self._batch or self._packs.find(digest, is_hint=True) is not None:
            return True
        self._forget(digest)
        return self._find(digest) is not None or self._packs.find(digest) is not None

    def digests(self) -> Iterator[Digest]:
        """See `Blobs.digests`. Those of an open batch come when it has ended."""
        return sorted_once(self._packs.digests(), (digest for digest, _ in self._loose()))

    def verify(self, digest: Digest) -> str | None:
        """See `Blobs.verify`; "corrupt" where any copy is. Reads the storage itself, past the cache."""
        if not is_digest(digest):
            return "missing"
        self._forget(digest)
        try:
            records, found = self._located(digest, is_cached=False)
        except BlobMissing:
            return "missing"
        copies = [record is not None and record.is_sound for record in records]
        if found is not None and (is_sound := self._is_sound(digest, found)) is not None:
            copies.append(is_sound)
        return "missing" if not copies else None if all(copies) else "corrupt"

    def verify_all(self, digests: Iterable[Digest], *, advance: Advance = silent) -> Iterator[tuple[Digest, str]]:
        """See `Blobs.verify_all`. Packs are read front to back, a request per 8 MiB; where many blobs are wanted,
        the store is listed and none is asked for by itself."""
        wanted = set(digests)
        listed = (
            {digest: found for digest, found in self._loose() if digest in wanted}
            if len(wanted) > _ONE_BY_ONE
            else None
        )

        def own(digest: Digest) -> bool | None:
            if listed is None:
                self._forget(digest)
            found = self._find(digest) if listed is None else listed.get(digest)
            return None if found is None else self._is_sound(digest, found)

        return wrong_blobs(
            self, wanted, packs=((pack.index, pack.read) for pack in self._packs.all()), own=own, advance=advance
        )

    def _is_sound(self, digest: Digest, found: ObjectInfo) -> bool | None:
        return s3_objects.is_sound(self.bucket, digest, found)

    def quarantine(self, digest: Digest, *, reason: str = "its bytes do not hash to its name") -> int:
        """See `Blobs.quarantine`; the prefix is `quarantine/`."""
        if not is_digest(digest):
            return 0
        self._batch.seal()
        records = list(self._packs.remains(digest))
        damaged, sound = [one for one in records if not one.is_sound], [one for one in records if one.is_sound]
        for record in damaged:
            self._set_aside(digest, record.extension, reason, data=record.data)
        if damaged:
            if sound:  # goes with the damaged ones: it becomes an object first
                data = sound[0].data
                self._upload(digest, len(data), sound[0].extension, lambda: io.BytesIO(data))
            self._packs.drop([digest], self._buffers)
        num_moved = len(damaged)
        self._forget(digest)
        if (found := self._find(digest)) is not None and self._is_sound(digest, found) is False:
            self._set_aside(digest, found.metadata.get(_EXTENSION, "bin"), reason, key=found.key)
            self.bucket.delete([found.key])
            self._forget(digest)
            num_moved += 1
        return num_moved

    def _set_aside(
        self, digest: Digest, extension: str, reason: str, *, data: bytes = b"", key: str | None = None
    ) -> None:
        root = self._address.key("quarantine/")
        number = sum(1 for one in self.bucket.objects(f"{root}{digest}.") if one.key.endswith(".json"))
        if key is None:
            self.bucket.put(f"{root}{digest}.{number}.damaged", data)
        else:
            self.bucket.copy(key, f"{root}{digest}.{number}.damaged")
        self.bucket.put(
            f"{root}{digest}.{number}.json",
            canonical_json({"digest": digest, "extension": extension, "reason": reason}).encode(),
        )

    def remove_all(self, digests: Iterable[Digest]) -> int:
        """See `Blobs.remove_all`."""
        wanted = {digest for digest in digests if is_digest(digest)}
        if any(digest in self._batch for digest in wanted):
            self._batch.seal()
        freed = self._packs.drop(wanted, self._buffers)
        for digest in wanted:
            self._forget(digest)
        if len(wanted) > _ONE_BY_ONE:
            loose = [found for digest, found in self._loose() if digest in wanted]
        else:
            loose = [found for digest in sorted(wanted) if (found := self._find(digest)) is not None]
        self.bucket.delete(found.key for found in loose)
        for digest in wanted:
            self._forget(digest)
        return freed + sum(found.size_bytes for found in loose)

    def sweep(self, *, older_than_s: float, now_s: float) -> int:
        """See `Blobs.sweep`: unfinished multipart uploads, and what this machine spooled."""
        ended = self.bucket.abort_uploads(self._address.key(""), older_than_s=older_than_s, now_s=now_s)
        return ended + sweep_directory(self._spool, older_than_s=older_than_s, now_s=now_s)

    def stats(self) -> StoreStats:
        """See `Blobs.stats`."""
        objects = ((digest, found.size_bytes) for digest, found in self._loose())
        return counted(
            [pack.index for pack in self._packs.all()],
            objects,
            is_packed=lambda digest: self._packs.find(digest, is_hint=True) is not None,
        )

    def compact(self, *, small_bytes: int = SMALL_PACK_BYTES, max_small: int = MAX_SMALL_PACKS) -> int:
        """As `BlobStore.compact`. It pays here, too: each pack costs a lookup in every search and every machine a
        download of its index."""
        return self._packs.compact(self._buffers, small_bytes=small_bytes, max_small=max_small)

    def thin(self) -> int:
        """See `Blobs.thin`. Readers and writers may go on meanwhile."""
        self._admit()
        loose = dict(self._loose())
        return s3_copies.thin(
            self._packs,
            self._buffers,
            bucket=self.bucket,
            marks=self._address.key("thinning/"),
            objects=loose,
            has_sound_object=lambda digest: self._is_sound(digest, loose[digest]) is True,
        )

    def rebuild_indexes(self) -> int:
        """The number of packs without an index (its writer was killed between the two, or it was lost) that have one
        again."""
        return self._packs.rebuild_indexes()

    def _key(self, digest: Digest) -> str:
        return self._address.key(f"blobs/{digest}")

    def _loose(self) -> Iterator[tuple[Digest, ObjectInfo]]:
        for found in self.bucket.objects(root := self._key("")):
            if is_digest(digest := found.key.removeprefix(root)):
                yield digest, found

    def _located(self, digest: Digest, *, is_cached: bool = True) -> tuple[list[Record | None], ObjectInfo | None]:
        """(packed copies, None for one that cannot be read; the blob's own object). Raises BlobMissing where there
        is neither."""
        if (record := self._batch.record(digest)) is not None:
            return [record], None
        if is_digest(digest):
            for is_hint in (True, False):  # the listing of packs is asked for again only where the blob is nowhere else
                records = list(self._packs.records(digest, is_cached=is_cached, is_hint=is_hint))
                found = self._find(digest) if not records or not is_cached else None
                if records or found is not None:
                    return records, found
        raise self.missing(digest)

    def _holds(self, digest: Digest, size: int) -> bool:
        """Whether the bytes are there already, or will be with this batch. A small blob is not asked for: a
        conditional PUT costs no more than the question."""
        if digest in self._batch or digest in self._seen or self._packs.find(digest, is_hint=True) is not None:
            return True
        return size >= PACKED_BELOW_BYTES and self._find(digest) is not None

    def _find(self, digest: Digest) -> ObjectInfo | None:
        """The blob's own object, asked for once."""
        if not is_digest(digest):
            return None
        with self._lock:
            if (seen := self._seen.get(digest)) is not None:
                return seen
        found = self.bucket.head(self._key(digest))
        if found is not None:
            self._remember(digest, found)
        return found

    def _remember(self, digest: Digest, found: ObjectInfo) -> None:
        with self._lock:
            self._seen[digest] = found
            if len(self._seen) > _MAX_SEEN:
                self._seen.popitem(last=False)

    def _forget(self, digest: Digest) -> None:
        with self._lock:
            self._seen.pop(digest, None)

    def _admit(self) -> None:
        """Let this process write. Raises LakeLocked where the storage ignores conditions and another process of this
        machine is writing."""
        if self._is_admitted:
            return
        with _ADMITTING:
            if not self.bucket.is_conditional(self._address.key("")) and self.location not in _WRITERS:
                held = ExitStack()
                what = f"the store {self.location}, which takes one writer at a time,"
                held.enter_context(exclusive_lock(self._spool / "writer.lock", what=what))
                _WRITERS[self.location] = held
                _LOG.warning("store %s ignores conditional writes: run no second writer anywhere", self.location)
            self._is_admitted = True
