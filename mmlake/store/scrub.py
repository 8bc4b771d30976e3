"""Hashing many blobs again: packs are read in the order of their bytes, neighbours in one read, rather than a blob at a
time.

Enters: digests. Leaves: those that are missing or corrupt. `Blobs.verify` decides about each that was not found sound
that way, so both give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from mmlake.errors import BlobCorrupt, UnreadableItem
from mmlake.progress import Advance
from mmlake.records import Digest
from mmlake.store.blobs import Blobs
from mmlake.store.index import Entry, PackIndex
from mmlake.store.pack_file import HEADER_BYTES, parse_record

_READ_BYTES = 8 << 20  # of one read
# one read spans gaps up to this between wanted blobs: cheaper than another request. Those of a sample are mostly
# further apart
_GAP_BYTES = 64 << 10

ReadRange = Callable[[int, int], bytes]  # (offset, size) -> these bytes of the pack


def wrong_blobs(
    store: Blobs,
    digests: Iterable[Digest],
    *,
    packs: Iterable[tuple[PackIndex, ReadRange]],
    own: Callable[[Digest], bool | None],
    advance: Advance,
) -> Iterator[tuple[Digest, str]]:
    """As `Blobs.verify_all`. own: whether the file or object that a blob has to itself is sound; None where it has
    none."""
    wanted, sound, doubtful = set(digests), set[Digest](), set[Digest]()
    for index, read in packs:
        for digest, is_sound in _packed(index, read, wanted):
            if is_sound and digest not in sound:
                sound.add(digest)
                advance(1)
            elif not is_sound:
                doubtful.add(digest)
    for digest in sorted(wanted):
        is_sound_alone = own(digest)
        is_sound = digest in sound if is_sound_alone is None else is_sound_alone
        if (digest in doubtful or not is_sound) and (wrong := store.verify(digest)) is not None:
            yield digest, wrong
        if digest not in sound:
            advance(1)


def _packed(index: PackIndex, read: ReadRange, wanted: Set[Digest]) -> Iterator[tuple[Digest, bool]]:
    """(digest, whether its bytes were read and are sound) of every wanted blob of the pack."""
    for run in _runs(sorted((entry for entry in index if entry.digest in wanted), key=lambda entry: entry.offset)):
        start = run[0].offset - HEADER_BYTES
        try:
            data = read(start, max(_end(entry) for entry in run) - start)
        except (OSError, UnreadableItem):  # rewritten meanwhile, or the disk cannot read one of them
            data = b""
        for entry in run:
            yield entry.digest, _is_sound(data[entry.offset - HEADER_BYTES - start : _end(entry) - start], entry)


def _runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    run: list[Entry] = []
    for entry in entries:
        if run and (
            entry.offset - HEADER_BYTES - _end(run[-1]) > _GAP_BYTES or _end(entry) - run[0].offset > _READ_BYTES
        ):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _end(entry: Entry) -> int:
    return entry.offset + entry.size_bytes


def _is_sound(data: bytes, entry: Entry) -> bool:
    try:
        return parse_record(data, entry).is_sound
    except BlobCorrupt:
        return False
