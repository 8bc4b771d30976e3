"""The packs of a store on S3: their indexes on the local disk, their bytes by ranges.

An index never changes (its name is its hash), so it is fetched once per machine. The prefix is listed at a process's
first lookup, and again where a blob that must be there is not found. A put trusts a listing for a minute: at worst it
stores a blob a second time.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from mmlake.errors import BlobCorrupt, RemoteUnavailable
from mmlake.records import Digest
from mmlake.remote.bucket import Bucket, ObjectInfo
from mmlake.remote.cache import BlockCache
from mmlake.remote.reading import open_file
from mmlake.remote.s3 import Changed, Missing
from mmlake.store.bloom import BloomFilter
from mmlake.store.files import BufferedAtomicFile, Buffers, in_memory, write_atomically
from mmlake.store.index import Entry, PackIndex, index_bytes, pack_entry, sorted_once
from mmlake.store.pack_file import HEADER_BYTES, PackWriter, Record, parse_record, scan
from mmlake.store.pack_output import write_packs

_LISTED_S = 60.0  # a listing younger than this does for a hint
_WINDOW_BYTES = 8 << 20
_MAX_INDEX_BYTES = 64 << 20  # that of a full pack has 44 MiB


class S3Pack:
    """One pack and its index."""

    def __init__(self, name: str, found: ObjectInfo, index: PackIndex, *, bucket: Bucket, cache: BlockCache) -> None:
        self.name, self.found, self.index = name, found, index
        self._bucket, self._cache = bucket, cache

    @property
    def _identity(self) -> str:
        return f"{self._bucket.endpoint} {self._bucket.name} {self.found.key}@{self.found.etag}"

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the pack from the storage itself; fewer only at its end. Raises Missing."""
        size = min(size, self.found.size_bytes - offset)
        return (
            self._bucket.read_range(self.found.key, etag=self.found.etag, offset=offset, size=size) if size > 0 else b""
        )

    def read_cached(self, offset: int, size: int) -> bytes:
        """As `read`, through the block cache."""
        with open_file(self._cache, self._identity, self.found.size_bytes, self.read) as file:
            file.seek(offset)
            return file.read(size)

    def record(self, entry: Entry, *, is_cached: bool = True) -> Record:
        """The blob as it lies there: damaged only where two transfers say so, since bytes may change on the way.
        Raises BlobCorrupt where its header is damaged, Missing."""
        at, size = entry.offset - HEADER_BYTES, HEADER_BYTES + entry.size_bytes
        if is_cached:
            with suppress(BlobCorrupt):
                if (found := parse_record(self.read_cached(at, size), entry)).is_sound:
                    return found
            self._cache.forget(self._identity, self.found.size_bytes)
        with suppress(BlobCorrupt):
            if (found := parse_record(self.read(at, size), entry)).is_sound:
                return found
        return parse_record(self.read(at, size), entry)

    def remains(self, entry: Entry, *, read: Callable[[int, int], bytes] | None = None) -> Record:
        """What can be had of a blob that may be damaged. read: takes the place of `read`, as `in_order` does where
        many are wanted; what is damaged by it is transferred again."""
        if read is not None:
            with suppress(BlobCorrupt):
                found = parse_record(read(entry.offset - HEADER_BYTES, HEADER_BYTES + entry.size_bytes), entry)
                if found.is_sound:
                    return found
        try:
            return self.record(entry, is_cached=False)
        except BlobCorrupt:
            return Record(entry.digest, "bin", self.read(entry.offset, entry.size_bytes))

    def in_order(self) -> Callable[[int, int], bytes]:
        """As `read`, for reading the whole pack in the order of its bytes: a request per 8 MiB, past the cache."""
        start, window = 0, b""

        def read(offset: int, size: int) -> bytes:
            nonlocal start, window
            if not start <= offset <= offset + size <= start + len(window):
                start, window = offset, self.read(offset, max(size, _WINDOW_BYTES))
            return window[offset - start : offset - start + size]

        return read


class S3Packs:
    """All packs below a prefix that ends in a slash."""

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        spool: Path,
        cache: BlockCache,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = spool  # where a batch collects its pack before it is uploaded
        self._bucket, self._prefix, self._cache, self._clock = bucket, prefix, cache, clock
        self._lock = threading.RLock()
        self._packs: dict[str, S3Pack] = {}
        self._filter = BloomFilter()  # has at least the packs above
        self._without_index: list[ObjectInfo] = []
        self._listed_s = float("-inf")

    def all(self) -> list[S3Pack]:
        """Every pack there is now."""
        self._list()
        return list(self._packs.values())

    def find(self, digest: Digest, *, is_hint: bool = False) -> tuple[S3Pack, Entry] | None:
        """The blob's place in a pack. is_hint: the answer None may be a minute old, which spares a listing."""
        found = next(iter(self._copies(digest)), None)
        if found is None and (not is_hint or self._clock() - self._listed_s > _LISTED_S):
            self._list()
            found = next(iter(self._copies(digest)), None)
        return found

    def records(self, digest: Digest, *, is_cached: bool = True, is_hint: bool = False) -> Iterator[Record | None]:
        """Every packed copy of the blob, unchecked; None for one that cannot be read. is_hint: as for `find`."""
        tried: set[str] = set()
        self.find(digest, is_hint=is_hint)
        while fresh := [(pack, entry) for pack, entry in self._copies(digest) if pack.found.etag not in tried]:
            for pack, entry in fresh:
                tried.add(pack.found.etag)
                try:
                    yield pack.record(entry, is_cached=is_cached)
                except (Missing, Changed):  # rewritten meanwhile
                    self._list()
                    break
                except BlobCorrupt:
                    yield None

    def remains(self, digest: Digest) -> Iterator[Record]:
        """What can be had of every packed copy."""
        self._list()
        for pack, entry in self._copies(digest):
            yield pack.remains(entry)

    def digests(self) -> Iterator[Digest]:
        """Every digest in a pack, sorted, once."""
        return sorted_once(*((entry.digest for entry in pack.index) for pack in self.all()))

    def commit(self, file: BufferedAtomicFile, writer: PackWriter) -> S3Pack:
        """Upload the finished pack, then its index; found when this returns."""
        file.sync()
        data = writer.index()
        name = PackIndex(data).name
        with file.path.open("rb") as written:
            self._bucket.upload(f"{self._prefix}{name}.pack", written, size_bytes=writer.size_bytes)
        return self._install(name, data)

    def drop(self, digests: Iterable[Digest], buffers: Buffers) -> int:
        """Bytes freed by rewriting every pack that holds one of the blobs without it, each once."""
        dropped = frozenset(digests)
        if not dropped:
            return 0
        freed = 0
        for pack in self.all():
            if gone := [entry for entry in pack.index if entry.digest in dropped]:
                self._rewrite([pack], dropped, buffers)
                freed += sum(entry.size_bytes for entry in gone)
        return freed

    def take_out(
        self, pack: S3Pack, digests: frozenset[Digest], buffers: Buffers, *, may_delete: Callable[[], bool]
    ) -> bool:
        """Whether the pack went, once what else it holds was in another one. may_delete: asked right before; where
        it is false, blobs of the pack lie in two."""
        return self._rewrite([pack], digests, buffers, may_delete=may_delete)

    def rebuild_indexes(self) -> int:
        """The number of packs that had no index and have one again, under the name of that index."""
        self._list()
        orphans, self._without_index = self._without_index, []
        for found in orphans:
            pack = S3Pack(
                "",
                found,
                PackIndex(index_bytes((), pack_bytes=found.size_bytes)),
                bucket=self._bucket,
                cache=self._cache,
            )
            places: dict[Digest, Entry] = {}
            # twice, since a header that changed on the way hides its blob; each entry was held against a checksum
            for read in (pack.in_order(), pack.in_order()):
                for entry in scan(read, found.size_bytes):
                    places.setdefault(entry.digest, entry)
            data = index_bytes(map(pack_entry, places.values()), pack_bytes=found.size_bytes)
            key = f"{self._prefix}{PackIndex(data).name}.pack"
            if key != found.key:
                self._bucket.copy(found.key, key)
            self._install(PackIndex(data).name, data)
            if key != found.key:
                self._bucket.delete([found.key])
        return len(orphans)

    def compact(self, buffers: Buffers, *, small_bytes: int, max_small: int) -> int:
        """How many packs fewer there are: those below `small_bytes` are merged where there are more than
        `max_small`."""
        before = self.all()
        small = [pack for pack in before if pack.found.size_bytes < small_bytes]
        if len(small) <= max_small:
            return 0
        self._rewrite(small, frozenset(), buffers)
        return len(before) - len(self.all())

    def _rewrite(
        self,
        old: list[S3Pack],
        dropped: frozenset[Digest],
        buffers: Buffers,
        *,
        may_delete: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Upload what stays as new packs, then delete the old ones, their bytes first: readers find every blob that
        stays at any moment."""
        in_order = (
            (pack, read, entry)
            for pack in old
            for read in (pack.in_order(),)
            for entry in sorted(pack.index, key=lambda entry: entry.offset)
        )
        made = write_packs(
            self,
            buffers,
            (
                (entry.digest, partial(pack.remains, entry, read=read))
                for pack, read, entry in in_order
                if entry.digest not in dropped
            ),
        )
        is_free = may_delete()
        for pack in old:
            if pack.name not in made and is_free:
                for ending in ("pack", "idx"):
                    self._bucket.delete([f"{self._prefix}{pack.name}.{ending}"])
                (self.directory / f"{pack.name}.idx").unlink(missing_ok=True)
        self._list()
        return is_free

    def _install(self, name: str, data: bytes) -> S3Pack:
        key = f"{self._prefix}{name}"
        is_there = self._bucket.put(f"{key}.idx", data) is not None or self._bucket.head(f"{key}.idx") is not None
        found = self._bucket.head(f"{key}.pack")
        if not is_there or found is None:
            raise RemoteUnavailable(
                f"a pack of {self._bucket.name}/{self._prefix} was written and is not there; if nobody removed "
                "it, the storage loses writes: use another"
            )
        write_atomically(self.directory / f"{name}.idx", data)
        pack = S3Pack(
            name, found, PackIndex(_mapped(self.directory / f"{name}.idx")), bucket=self._bucket, cache=self._cache
        )
        with self._lock:
            self._filter.add(pack.index)
            self._packs[name] = pack
        return pack

    def _copies(self, digest: Digest) -> list[tuple[S3Pack, Entry]]:
        with self._lock:
            packs = [] if self._filter.excludes(digest) else list(self._packs.values())
        copies = [(pack, entry) for pack in packs if (entry := pack.index.find(digest)) is not None]
        if not copies and self._filter.missed(len(packs), lambda: sum(len(pack.index) for pack in packs)):
            with self._lock:
                self._filter.build(pack.index for pack in self._packs.values())
        return copies

    def _list(self) -> None:
        files: dict[str, dict[str, ObjectInfo]] = {}
        for found in self._bucket.objects(self._prefix):
            name, _, ending = found.key.removeprefix(self._prefix).rpartition(".")
            if ending in ("pack", "idx"):
                files.setdefault(name, {})[ending] = found
        with self._lock:
            there = {name for name, both in files.items() if len(both) == 2}
            self._packs = {
                name: self._known(name, files[name]["pack"])
                or self._opened(name, files[name]["pack"], files[name]["idx"])
                for name in sorted(there)
            }
            self._without_index = [both["pack"] for both in files.values() if "idx" not in both]
            self._listed_s = self._clock()

    def _known(self, name: str, found: ObjectInfo) -> S3Pack | None:
        known = self._packs.get(name)
        return known if known is not None and known.found.etag == found.etag else None

    def _opened(self, name: str, found: ObjectInfo, index: ObjectInfo) -> S3Pack:
        """The pack with its index from this machine's copy, or fetched. Raises BlobCorrupt where the index does not
        hash to its name."""
        path = self.directory / f"{name}.idx"
        for is_local in (True, False, False):  # bytes may change on the way
            if is_local and not path.exists():
                continue
            size = min(index.size_bytes, _MAX_INDEX_BYTES)
            data = (
                path.read_bytes()
                if is_local
                else self._bucket.read_range(index.key, etag=index.etag, offset=0, size=size)
            )
            if data[-32:].hex() == name and PackIndex(data).is_sound:
                if not is_local:
                    write_atomically(path, data)
                pack = S3Pack(name, found, PackIndex(_mapped(path)), bucket=self._bucket, cache=self._cache)
                self._filter.add(pack.index)
                return pack
        raise BlobCorrupt(
            f"the index {index.key} of a pack does not hash to its name; delete it and run `mmlake fsck "
            "--repair`, which builds it again from its pack"
        )


def _mapped(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        return in_memory(file)
