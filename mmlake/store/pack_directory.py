"""The packs of a directory: `packs/<name>.pack` with `packs/<name>.idx`, found without locks.

A pack is there once both files are. Written: pack, then index, each synced under a temporary name and renamed, then the
directory is synced. Deleted: pack, then index, so that what was erased cannot come back by rebuilding an index. A
reader that finds a pack gone lists the directory again: its blobs are in another one by then.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmlake.durable import sync_directory
from mmlake.errors import BlobCorrupt
from mmlake.records import Digest
from mmlake.store.bloom import BloomFilter
from mmlake.store.files import AtomicFile, BufferedAtomicFile, in_memory
from mmlake.store.index import Entry, PackIndex, sorted_once
from mmlake.store.pack_file import HEADER_BYTES, PackWriter, Record, parse_record

SETTLED_S = 300  # kernels write a rename back within 30 s on their own; ten times that for slow disks
_NAME = re.compile(r"([0-9a-f]{64})\.(idx|pack)")
_NEAR = 8  # a blob found in one of so many packs in front does not change their order
GLANCE_S = 0.002  # about a tick of the clock that stamps directories, within which a change need not show in any case
_CLOCK_S = 2.0  # a directory's time stamp that is younger may stay the same over another change


class Pack:
    """One pack and its index. Its methods raise FileNotFoundError where its file has gone meanwhile."""

    def __init__(self, directory: Path, name: str) -> None:
        """Raises FileNotFoundError, and BlobCorrupt where the index is damaged."""
        self.name, self.path, self.index_path = name, directory / f"{name}.pack", directory / f"{name}.idx"
        self.files = (self.path.name, self.index_path.name)
        with self.index_path.open("rb") as file:
            self.written_s = os.fstat(file.fileno()).st_ctime
            self.index = PackIndex(in_memory(file))

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the pack; fewer only at its end."""
        # Opened each time, 4 microseconds: a thousand packs would else hold a thousand descriptors, and the space of
        # what was erased.
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(handle, size, offset)
            while len(data) < size and (more := os.pread(handle, size - len(data), offset + len(data))):
                data += more
            return data
        finally:
            os.close(handle)

    def record(self, entry: Entry) -> Record:
        """The blob as it lies there, whose hash is not checked. Raises BlobCorrupt where its header is damaged."""
        return parse_record(self.read(entry.offset - HEADER_BYTES, HEADER_BYTES + entry.size_bytes), entry)

    def is_sound(self, entry: Entry) -> bool:
        """Whether the blob's header and bytes are what they were."""
        try:
            return self.record(entry).is_sound
        except FileNotFoundError:
            raise
        except (BlobCorrupt, OSError):
            return False

    def remains(self, entry: Entry) -> Record:
        """What can be had of a blob that may be damaged: its bytes, else none."""
        try:
            return self.record(entry)
        except BlobCorrupt:
            return Record(entry.digest, "bin", self.read(entry.offset, entry.size_bytes))
        except FileNotFoundError:
            raise
        except OSError:  # the disk cannot read it back
            return Record(entry.digest, "bin", b"")


def _record(pack: Pack, entry: Entry) -> Record | None:
    """The blob as it lies there, unchecked; None where it cannot be read. Raises FileNotFoundError."""
    try:
        return pack.record(entry)
    except FileNotFoundError:
        raise
    except (BlobCorrupt, OSError):
        return None


class Packs:
    """All packs of one directory, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._listed_path = directory, str(directory)  # the latter spares each lookup a conversion
        self._refreshing = threading.Lock()
        self._packs: tuple[Pack, ...] = ()
        self._names: frozenset[str] = frozenset()  # of all files when the directory was listed
        self._unread: set[str] = set()  # packs that were there then and could not be opened
        self._filter = BloomFilter()  # has at least the packs above
        self._glanced_s = float("-inf")  # when the directory was last inspected
        self._seen: tuple[int, int] | None = None  # time stamp and inode of the directory when it was listed
        self._is_settled = False  # whether any later change must have another time stamp
        self._anchored: set[str] = set()  # packs whose directory entries this object has synced

    def all(self) -> tuple[Pack, ...]:
        """Every pack there is now, the one that was asked for last in front."""
        self._refresh(is_miss=False)
        return self._packs

    def find(self, digest: Digest, *, is_hint: bool = False) -> tuple[Pack, Entry] | None:
        """The blob's place in the first pack that holds it. is_hint: the answer None may be as old as GLANCE_S,
        which spares a scan of the directory."""
        if is_hint and time.monotonic() - self._glanced_s < GLANCE_S and self._look_up(digest) is None:
            return None
        self._refresh(is_miss=False)
        found = self._look_up(digest)
        if found is None and not is_hint and self._refresh(is_miss=True):
            found = self._look_up(digest)
        return found

    def copies(self, digest: Digest) -> list[tuple[Pack, Entry]]:
        """The blob's place in every pack that holds it."""
        self.find(digest)
        return [(pack, entry) for pack in self._packs if (entry := pack.index.find(digest)) is not None]

    def records(self, digest: Digest) -> Iterator[Record | None]:
        """Every packed copy of the blob, unchecked; None for one that cannot be read. The first normally suffices: it
        is read from where it was when the directory was last listed, since a pack that is gone cannot be opened."""
        tried: set[str] = set()
        found = self._look_up(digest) or self.find(digest)
        while found is not None:
            pack, entry = found
            try:
                yield _record(pack, entry)
                tried.add(pack.name)
            except FileNotFoundError:  # merged or rewritten meanwhile: list again
                self.forget()
            found = next((place for place in self.copies(digest) if place[0].name not in tried), None)

    def digests(self) -> Iterator[Digest]:
        """Every digest in a pack, sorted, once."""
        return sorted_once(*((entry.digest for entry in pack.index) for pack in self.all()))

    def anchor(self, pack: Pack) -> None:
        """Make a young pack durable: its writer may have been killed between the rename and the sync of the
        directory."""
        if pack.name not in self._anchored and pack.written_s > time.time() - SETTLED_S:
            sync_directory(self.directory)
            self._anchored.add(pack.name)

    def commit(self, file: BufferedAtomicFile, writer: PackWriter) -> Pack:
        """Name the finished pack; durable, and found, when this returns."""
        file.sync()
        data = writer.index()
        name = PackIndex(data).name
        file.rename_to(self.directory / f"{name}.pack")
        pack = self._install(name, data)
        with self._refreshing:
            self._filter.add(pack.index)
            self._packs = (pack, *(other for other in self._packs if other.name != pack.name))
        return pack

    def install_index(self, pack_path: Path, data: bytes) -> Pack:
        """Give a pack that lost its index this one, and the name that goes with it."""
        name = PackIndex(data).name
        os.replace(pack_path, self.directory / f"{name}.pack")
        return self._install(name, data)

    def _install(self, name: str, data: bytes) -> Pack:
        with AtomicFile(self.directory) as file:
            file.write(data)
            file.sync()
            file.rename_to(self.directory / f"{name}.idx")
        if not self._anchored:  # the directory itself may be new
            sync_directory(self.directory.parent.parent)
            sync_directory(self.directory.parent)
        sync_directory(self.directory)
        self._anchored.add(name)
        return Pack(self.directory, name)

    def delete(self, pack: Pack) -> None:
        """Delete the pack for good, its bytes first."""
        for path in (pack.path, pack.index_path):
            path.unlink(missing_ok=True)
            sync_directory(self.directory)
        self.forget()

    def forget(self) -> None:
        """List the directory again before the next lookup."""
        self._seen, self._glanced_s = None, float("-inf")

    def _look_up(self, digest: Digest) -> tuple[Pack, Entry] | None:
        packs = self._packs  # before the filter, which has them by now
        if not packs or self._filter.excludes(digest):
            return None
        for at, pack in enumerate(packs):
            if (entry := pack.index.find(digest)) is not None:
                if at > _NEAR:  # blobs of one shard are asked for together
                    with self._refreshing:
                        if self._packs is packs:
                            self._packs = (pack, *packs[:at], *packs[at + 1 :])
                return pack, entry
        if self._filter.missed(len(packs), lambda: sum(len(pack.index) for pack in packs)):
            with self._refreshing:
                self._filter.build(pack.index for pack in self._packs)
        return None

    def _refresh(self, *, is_miss: bool) -> bool:
        """Whether the directory was listed, since it has changed or, on a miss, may have within its clock's tick."""
        now_s = time.monotonic()
        try:
            status = os.stat(self._listed_path)
        except (FileNotFoundError, NotADirectoryError):
            self._packs, self._names, self._seen, self._glanced_s = (), frozenset(), None, now_s
            return False
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._seen and (self._is_settled or not is_miss):
            self._glanced_s = now_s
            return False
        with self._refreshing:
            # The packs first: a thread that finds the new stamp, or a glance that is young, takes the packs for listed.
            self._packs = self._listed(self._packs)
            self._seen, self._is_settled, self._glanced_s = stamp, time.time() - status.st_mtime > _CLOCK_S, now_s
        return True

    def _listed(self, known: Iterable[Pack]) -> tuple[Pack, ...]:
        """The packs that are there now. Names are parsed where they are new: each batch that ends changes a directory
        of up to ten thousands of them."""
        names = frozenset(os.listdir(self.directory))
        packs = [pack for pack in known if names.issuperset(pack.files)]
        matches = (_NAME.fullmatch(name) for name in names - self._names)
        found = {match[1] for match in matches if match} | self._unread
        there = {name for name in found if f"{name}.idx" in names and f"{name}.pack" in names}
        self._names, self._unread = names, set()
        for name in sorted(there.difference(pack.name for pack in packs)) if there else ():
            # gone again; a damaged index is for `pack_rewrites` to find and build again
            try:
                pack = Pack(self.directory, name)
            except (FileNotFoundError, BlobCorrupt):
                self._unread.add(name)
                continue
            self._filter.add(pack.index)
            packs.append(pack)
        return tuple(packs)
