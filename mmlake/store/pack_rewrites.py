"""Rewriting packs: merging small ones, taking blobs out for good, building lost indexes again.

One process at a time does this, under a lock. The new pack is durable before an old one is deleted, so readers find
every blob that stays at any moment, and a kill in between leaves blobs twice at worst.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from mmlake.durable import make_directory
from mmlake.errors import BlobCorrupt
from mmlake.records import Digest
from mmlake.store.files import Buffers
from mmlake.store.index import Entry, index_bytes, pack_entry, places
from mmlake.store.pack_directory import Pack, Packs
from mmlake.store.pack_file import scan
from mmlake.store.pack_output import write_packs

SMALL_PACK_BYTES = 64 << 20  # packs below this are worth merging: each costs a lookup 0.7 us
MAX_SMALL_PACKS = 16  # so many are left alone: about one per shard that came since the last compaction


@contextmanager
def _alone(packs: Packs) -> Iterator[bool]:
    """Hold the lock for rewriting packs, once it is free. False on a file system without locks: two rewriters
    then leave blobs twice at worst, since each writes before it deletes."""
    make_directory(packs.directory)
    with (packs.directory / "lock").open("ab") as file:
        is_alone = False
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            is_alone = True
        packs.forget()
        yield is_alone


def compact(
    packs: Packs, buffers: Buffers, *, small_bytes: int = SMALL_PACK_BYTES, max_small: int = MAX_SMALL_PACKS
) -> int:
    """How many packs fewer there are: those below `small_bytes` are merged into few where there are more than
    `max_small` of them."""
    if not packs.directory.is_dir():
        return 0
    with _alone(packs):
        before = packs.all()
        small = [pack for pack in before if pack.index.pack_bytes < small_bytes]
        if len(small) <= max_small:
            return 0
        _rewrite(packs, buffers, small, dropped=frozenset())
        return len(before) - len(packs.all())


def drop(packs: Packs, buffers: Buffers, digests: Iterable[Digest]) -> int:
    """Bytes freed by rewriting every pack that holds one of the blobs without it, each once."""
    dropped = frozenset(digests)
    if not any(packs.find(digest) for digest in dropped):
        return 0
    with _alone(packs):
        holders: dict[str, tuple[Pack, int]] = {}
        for digest in dropped:
            for pack, entry in packs.copies(digest):
                holders[pack.name] = (pack, holders.get(pack.name, (pack, 0))[1] + entry.size_bytes)
        for pack, _ in holders.values():
            _rewrite(packs, buffers, [pack], dropped=dropped)
        return sum(freed for _, freed in holders.values())


def thin(packs: Packs, buffers: Buffers, *, files: Iterable[Digest], has_sound_file: Callable[[Digest], bool]) -> int:
    """The number of further copies that were removed: a blob stays as its file where that is sound, else in the largest
    pack that holds it sound.

    files: the blobs that are files. has_sound_file: makes the file durable, too. 0 on a file system without locks: of
    two processes that do this at once, each might remove the copy that the other keeps.
    """
    if not packs.directory.is_dir():
        return 0
    with _alone(packs) as is_alone:
        if not is_alone:
            return 0
        spare: dict[str, set[Digest]] = {}
        for digest in files:
            if (copies := packs.copies(digest)) and has_sound_file(digest):
                for pack, _ in copies:
                    spare.setdefault(pack.name, set()).add(digest)
        there = sorted(packs.all(), key=lambda pack: (-pack.index.pack_bytes, pack.name))
        for found in places([pack.index for pack in there]):
            if len(found) > 1 and found[0][1].digest not in spare.get(there[found[0][0]].name, ()):
                kept = next((there[at] for at, entry in found if there[at].is_sound(entry)), None)
                if kept is not None:
                    packs.anchor(kept)
                    for at, entry in found:
                        if there[at] is not kept:
                            spare.setdefault(there[at].name, set()).add(entry.digest)
        for pack in there:
            if pack.name in spare:
                _rewrite(packs, buffers, [pack], dropped=frozenset(spare[pack.name]))
        return sum(map(len, spare.values()))


def _rewrite(packs: Packs, buffers: Buffers, old: list[Pack], *, dropped: frozenset[Digest]) -> None:
    """Put what the packs hold, without the dropped, into new ones, then delete them."""
    in_order = ((pack, entry) for pack in old for entry in sorted(pack.index, key=lambda entry: entry.offset))
    made = write_packs(
        packs,
        buffers,
        ((entry.digest, partial(pack.remains, entry)) for pack, entry in in_order if entry.digest not in dropped),
    )
    for pack in old:
        if pack.name not in made:
            packs.delete(pack)


def broken_indexes(packs: Packs) -> list[Path]:
    """The files of packs that have no index, or one that does not hash to its name."""
    broken = []
    for path in sorted(packs.directory.glob("*.pack")):
        try:
            pack = Pack(packs.directory, path.stem)
            is_sound = pack.index.is_sound and pack.index.name == path.stem
        except (FileNotFoundError, BlobCorrupt):
            is_sound = False
        if not is_sound:
            broken.append(path)
    return broken


def rebuild_indexes(packs: Packs) -> int:
    """The number of packs whose lost or damaged index was built again from their records; the bytes of the pack stay
    as they are."""
    if not packs.directory.is_dir():
        return 0
    with _alone(packs):
        broken = broken_indexes(packs)
        for path in broken:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                entries: dict[Digest, Entry] = {}
                for entry in scan(partial(_read_at, file.fileno()), size):
                    entries.setdefault(entry.digest, entry)
            (packs.directory / f"{path.stem}.idx").unlink(missing_ok=True)
            packs.install_index(path, index_bytes(map(pack_entry, entries.values()), pack_bytes=size))
        packs.forget()
        return len(broken)


def _read_at(handle: int, offset: int, size: int) -> bytes:
    return os.pread(handle, size, offset)
