"""A landing zone whose next files are listed and opened while those before them are read: what hides the round trips
to remote storage from a reader of many loose files.

Enters: the directories, or the files with their ranges, in the order in which they will be read. Leaves: the same
landing zone; what is asked for out of that order is asked for then. Of one on this machine nothing is done ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import IO, NamedTuple

from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.landing.zone import MARKERS, Entry, Landing, LeftOut
from mmlake.streams import expect, read_up_to

_HEAD_BYTES = (1 << 15) + 512  # of a file whose turn has not come; no reader of loose files asks for more at first
_FIRST_BYTES = 8 << 20  # of the ranges of one, at most

Span = tuple[int, int]  # from and up to a byte
# whether a file will be read, and how much of it at least; 0 where it will not
Wanted = Callable[[Entry], int]


def listed_ahead(landing: Landing, directories: Iterable[str], wanted: Wanted) -> AbstractContextManager[Landing]:
    """The landing zone for one who will list these directories in order, and read those of their files that are wanted
    in the order of the listings."""
    if landing.num_at_once < 2:
        return nullcontext(landing)
    return closing(AheadLanding(landing, directories, wanted))


def files_ahead(landing: Landing, files: Iterable[Entry], wanted: Wanted) -> AbstractContextManager[Landing]:
    """The same, for one who has listed them."""
    asked = ((entry, wanted(entry)) for entry in files if entry.refused is None)
    return _planned(landing, (_Planned(entry.path, entry, [(0, size)]) for entry, size in asked if size))


def opened_ahead(landing: Landing, files: Iterable[Entry]) -> AbstractContextManager[Landing]:
    """The landing zone for one who will read the first bytes of these files in this order."""
    return _planned(landing, (_Planned(entry.path, entry) for entry in files if entry.refused is None))


def ranges_ahead(landing: Landing, files: Iterable[tuple[str, Sequence[Span]]]) -> AbstractContextManager[Landing]:
    """The landing zone for one who will open these files in this order, and read these ranges of each."""
    return _planned(landing, (_Planned(path, None, spans) for path, spans in files))


def _planned(landing: Landing, files: Iterable[_Planned]) -> AbstractContextManager[Landing]:
    if landing.num_at_once < 2:
        return nullcontext(landing)
    ahead = AheadLanding(landing, (), lambda entry: 0)
    ahead.plan(files)
    return closing(ahead)


class _Planned(NamedTuple):
    """A file that will be read. entry: where a listing has named it."""

    path: str
    entry: Entry | None
    spans: Sequence[Span] = ()


class _Opened(NamedTuple):
    """A file and its first bytes, which were read from it."""

    file: IO[bytes]
    head: bytes


class AheadLanding(Landing):
    """The landing zone, in which as many files as it takes at once are opened before their turn. For one thread. The
    order is a guess: who reads files once more from the start, or leaves some out, is followed."""

    def __init__(self, landing: Landing, directories: Iterable[str], wanted: Wanted) -> None:
        self.location, self.num_at_once = landing.location, landing.num_at_once
        self._landing, self._wanted = landing, wanted
        self._directories = iter(directories)
        self._listings = dict[str, Future[list[Entry]]]()
        self._unplanned, self._planned = deque[str](), deque[str]()  # directories among those, in their order
        self._order = list[_Planned]()
        self._places = dict[str, int]()  # in that order
        self._opened = dict[str, Future[_Opened]]()
        self._next = self._turn = 0  # places: of the file that is asked for next, and of the one that was read last
        self._lone = -1  # of the last one that was asked for out of turn
        self._markers = dict[str, Entry | None]()
        self._pool = ThreadPoolExecutor(self.num_at_once, thread_name_prefix="mmlake-ahead")

    def plan(self, files: Iterable[_Planned]) -> None:
        """These files will be read after those that are known."""
        for file in files:
            if file.path not in self._places:
                self._places[file.path] = len(self._order)
                self._order.append(file)

    def files(self, directory: str) -> list[Entry]:
        self._ask()
        listing = self._listings.get(directory)
        if listing is None:
            return self._landing.files(directory)
        found = listing.result()
        self._ask()
        return found

    def head(self, path: str, size_bytes: int) -> bytes:
        opened = self._in_turn(path)
        if opened is None:
            return self._landing.head(path, size_bytes)
        file, head = opened
        if len(head) < min(size_bytes, _HEAD_BYTES) or len(head) >= size_bytes:
            return head[:size_bytes]
        file.seek(len(head))
        return head + read_up_to(file, size_bytes - len(head))

    def open(self, path: str) -> IO[bytes]:
        opened = self._in_turn(path)
        if opened is None:
            return self._landing.open(path)
        del self._opened[path]  # it is the caller's now
        opened.file.seek(0)
        return opened.file

    def stat(self, path: str) -> Entry | None:
        """As `Landing.stat`. Each directory asks for the defaults of all above it: what markers are there is asked
        once."""
        if path.rpartition("/")[2] not in MARKERS:
            return self._landing.stat(path)
        if path not in self._markers:
            self._markers[path] = self._landing.stat(path)
        return self._markers[path]

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        return self._landing.directories()

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        return self._landing.directories_below(directory)

    def has(self, path: str) -> bool:
        return self._landing.has(path)

    def left_out(self) -> Iterator[LeftOut]:
        return self._landing.left_out()

    def naming(self) -> AbstractContextManager[None]:
        return self._landing.naming()

    def local_path(self, path: str) -> Path | None:
        return self._landing.local_path(path)

    def provenance(self) -> Mapping[str, object]:
        return self._landing.provenance()

    def defaults(self, directory: str = ".") -> dict[str, str]:
        return self._landing.defaults(directory)

    def sparing(self) -> Landing:
        return self._landing.sparing()

    def verify(self, path: str) -> None:
        self._landing.verify(path)

    def close(self) -> None:
        """Close what nobody took. The landing zone can still be read, with nothing ahead."""
        opened, self._opened = self._opened, {}
        self._places, self._order, self._listings, self._directories = {}, [], {}, iter(())
        self._unplanned.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for one in opened.values():
            _close(one)
        self._pool.shutdown()

    def _in_turn(self, path: str) -> _Opened | None:
        """The file, where it is one of those that are opened ahead; the next ones are. Raises what opening it raised,
        once."""
        place = self._places.get(path)
        if place is None:
            return None
        if path in self._opened:
            self._turn = max(self._turn, place)
        else:
            is_near = 0 <= place - self._next <= self.num_at_once
            # a lone one may be a table of what the others are; two are the order in which they are read now
            if not is_near and not 0 < place - self._lone <= self.num_at_once:
                self._lone = place
                return None
            self._next = self._turn = place
        self._ask()
        self._give_up()
        try:
            return self._opened[path].result()
        except BaseException:
            del self._opened[path]
            raise

    def _ask(self) -> None:
        """Ask for the next listings and files, as many as may be under way."""
        while len(self._unplanned) < self.num_at_once and (directory := next(self._directories, None)) is not None:
            self._listings[directory] = self._pool.submit(self._landing.files, directory)
            self._unplanned.append(directory)
        while self._next <= self._turn + self.num_at_once:
            if self._next < len(self._order):
                file = self._order[self._next]
                if file.path not in self._opened:
                    self._opened[file.path] = self._pool.submit(_begun, self._landing, file)
                self._next += 1
            elif self._unplanned and self._listings[self._unplanned[0]].done():
                self._plan_next()
            else:
                break

    def _plan_next(self) -> None:
        """The files of the next directory will be read after those that are known; its reader is given the listing."""
        directory = self._unplanned.popleft()
        self._planned.append(directory)
        if self._listings[directory].exception() is None:
            listed = self._listings[directory].result()
            wanted = ((entry, self._wanted(entry)) for entry in listed if entry.refused is None)
            self.plan(_Planned(entry.path, entry, [(0, size)]) for entry, size in wanted if size)
        if len(self._planned) > self.num_at_once:
            del self._listings[self._planned.popleft()]

    def _give_up(self) -> None:
        """Close what is far from the turn: files of one sample are read together, so a few may come again."""
        far = [path for path in self._opened if abs(self._places[path] - self._turn) > self.num_at_once]
        for path in far:
            _close(self._opened.pop(path))


def _begun(landing: Landing, planned: _Planned) -> _Opened:
    file = landing.open(planned.path) if planned.entry is None else landing.open_listed(planned.entry)
    try:
        left, first = _FIRST_BYTES, list[Span]()
        for start, stop in planned.spans:
            if left <= 0:
                break
            first.append((start, min(stop, start + left)))
            left -= stop - start
        if any(stop > _HEAD_BYTES for _, stop in first):
            expect(file, [(0, _HEAD_BYTES), *first])
        return _Opened(file, read_up_to(file, _HEAD_BYTES))
    except BaseException:
        file.close()
        raise


def _close(opened: Future[_Opened]) -> None:
    """Close a file that nobody took; why there is none matters to nobody."""
    opened.cancel()
    with suppress(CancelledError, UnreadableItem, MmlakeError, OSError):
        opened.result().file.close()
