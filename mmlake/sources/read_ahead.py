"""Files opened before their turn, ranges asked for before they are read: what hides the round trips to remote storage
from a reader of many items.

Enters: paths with the ranges that will be read. Leaves: the files in the same order. Of a landing zone on this machine
each is opened in its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import IO, NamedTuple, TypeVar

from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.formats import sniff
from mmlake.landing import Entry, Landing, listed_ahead
from mmlake.sources.connectors.table import directory_of
from mmlake.sources.directory_parts import is_in, is_named
from mmlake.sources.raw_items import BlobOf
from mmlake.sources.shard import Shard, each_directory
from mmlake.streams import expect

# of one file, announced behind the range that is read: four requests of 8 MiB, which the read-ahead has in flight at
# once
_AHEAD_BYTES = 32 << 20
_FIRST_BYTES = 8 << 20  # of a file whose turn has not come

Span = tuple[int, int]  # from and up to a byte
Read = TypeVar("Read", bound=tuple[int, int, object])


class Opened(NamedTuple):
    """A file and its first bytes, which were read from it."""

    file: IO[bytes]
    head: bytes


# the file; None for a directory that is one shard. Raises what opening and reading it raised
Begin = Callable[[], Opened | None]


def opened_ahead(landing: Landing, wanted: Iterable[tuple[str, list[Span]]]) -> Iterator[tuple[str, Begin]]:
    """(path, what gives its file, to be called once and closed by its caller) in the order of the paths."""
    if landing.num_at_once < 2:
        for path, spans in wanted:
            yield path, partial(_begun, landing, path, spans)
        return
    waiting: deque[tuple[str, Future[Opened | None]]] = deque()
    with ThreadPoolExecutor(landing.num_at_once, thread_name_prefix="mmlake-fetching") as pool:
        try:
            for path, spans in wanted:
                waiting.append((path, pool.submit(_begun, landing, path, spans)))
                if len(waiting) > landing.num_at_once:
                    path, future = waiting.popleft()
                    yield path, future.result
            while waiting:
                path, future = waiting.popleft()
                yield path, future.result
        finally:
            for _, future in waiting:
                future.cancel()
            for _, future in waiting:
                _close(future)


def loose_files_ahead(
    shard: Shard, landing: Landing, endings: tuple[str, ...], blob_of: BlobOf | None
) -> AbstractContextManager[Landing]:
    """The landing zone, for one who will read all loose files of the shard in their order. endings: of names that claim
    a container. blob_of: files that have a blob here are not read to their end."""
    part = "" if shard.directories else shard.part

    def wanted(entry: Entry) -> int:
        if is_named(entry, endings) or not is_in(entry, part):
            return 0
        return 1 if blob_of is not None and blob_of(entry) is not None else max(1, entry.size_bytes)

    directories = (one.path for one in each_directory(shard))
    return listed_ahead(landing.part_of(shard.path), directories, wanted)


def announced(file: IO[bytes], reads: Iterable[Read]) -> Iterator[Read]:
    """The same reads of the file, (start, stop, anything), those behind each announced to it."""
    known = list(reads)
    upto, ahead_bytes = 0, 0
    for at, read in enumerate(known):
        if ahead_bytes <= _AHEAD_BYTES // 2 and upto < len(known):
            first = upto
            while upto < len(known) and (ahead_bytes < _AHEAD_BYTES or upto <= at):
                ahead_bytes += known[upto][1] - known[upto][0]
                upto += 1
            expect(file, [(start, stop) for start, stop, _ in known[first:upto]])
        yield read
        ahead_bytes -= read[1] - read[0]


def _begun(landing: Landing, path: str, spans: list[Span]) -> Opened | None:
    if directory_of(path, landing) == path:
        return None
    file = landing.open(path)
    try:
        left, first = _FIRST_BYTES, [(0, sniff.HEAD_BYTES)]
        for start, stop in spans:
            if left <= 0:
                break
            first.append((start, min(stop, start + left)))
            left -= stop - start
        expect(file, first)
        return Opened(file, file.read(sniff.HEAD_BYTES))
    except BaseException:
        file.close()
        raise


def _close(future: Future[Opened | None]) -> None:
    """Close a file that nobody took; why there is none matters to nobody."""
    with suppress(CancelledError, UnreadableItem, MmlakeError, OSError):
        if (opened := future.result()) is not None:
            opened.file.close()
