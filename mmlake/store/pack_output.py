"""Records into new packs: what merging and erasing have in common, whether packs are files or objects.

Enters: records that stay, as functions that read them. Leaves: packs that were committed. Deleting the old ones is for
the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from mmlake.records import Digest
from mmlake.store.files import BufferedAtomicFile, Buffers, plain_extension
from mmlake.store.pack_file import PackWriter, Record

ReadRecord = Callable[[], Record]


class NamedPack(Protocol):
    """A finished pack."""

    name: str


class PackHome(Protocol):
    """Where finished packs go: a directory, or a bucket."""

    directory: Path  # of the unfinished pack

    def commit(self, file: BufferedAtomicFile, writer: PackWriter) -> NamedPack: ...


def write_packs(home: PackHome, buffers: Buffers, records: Iterable[tuple[Digest, ReadRecord]]) -> set[str]:
    """The names of the packs that now hold the records, each blob once: a sound copy, else a damaged one, so that
    the damage can still be reported."""
    names: set[str] = set()
    kept: set[Digest] = set()
    with ExitStack() as files:
        file = writer = None
        for record in _sound_first(records, kept):
            if file is None or writer is None:
                file = files.enter_context(BufferedAtomicFile(home.directory, buffers))
                writer = PackWriter(file.write)
            writer.add(record.digest, record.data, extension=plain_extension(record.extension))
            kept.add(record.digest)
            if writer.is_full:
                names.add(home.commit(file, writer).name)
                file = writer = None
        if file is not None and writer is not None:
            names.add(home.commit(file, writer).name)
    return names


def _sound_first(records: Iterable[tuple[Digest, ReadRecord]], kept: set[Digest]) -> Iterator[Record]:
    """The records of blobs that are not yet kept: sound ones in their order, then damaged ones, which are read again
    rather than held."""
    damaged: list[tuple[Digest, ReadRecord]] = []
    for digest, read in records:
        if digest not in kept:
            record = read()
            if record.is_sound:
                yield record
            else:
                damaged.append((digest, read))
    for digest, read in damaged:
        if digest not in kept:
            yield read()
