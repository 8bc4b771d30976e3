"""WebDataset shards: tars, plain or compressed, whose members with one stem are one sample.

The stem is the path up to the first dot of the file name, folder included: `a/000.jpg` and `b/000.jpg` are two samples.
A compressed tar is expanded to a temporary file; its rows have no byte range, since a range of the compressed file is
not the item.

An archive is walked twice: first for the names and places of its members, of which the name and 34 bytes each are
noted, then sample by sample. So memory holds one sample, however many the archive has, and members of one sample may
lie apart. Under a limit the first walk ends a margin behind the first samples (`beginning.Reach`), and no more of a
compressed tar is expanded than that takes. Where one of these samples lacks what its record names, the rest may lie
further behind: then the walk goes on until it is found or the archive ends.
"""

from __future__ import annotations

import io
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import compress, count
from operator import eq
from typing import IO, Any

import numpy as np

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import compression_of, expanded
from mmlake.formats.tar import LONG, SHORT, CutMember, Run, TarMember, Window, walk
from mmlake.formats.texts import printable
from mmlake.records import SourceRef
from mmlake.sources.companions import transcripts
from mmlake.sources.companions.companion import Transcripts, speakers_among, tables_among, without
from mmlake.sources.first_samples import Reach
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.samples.member import Member, look
from mmlake.sources.samples.plain import Plain
from mmlake.sources.samples.shard_samples import Samples, record_endings
from mmlake.sources.samples.stems import (
    by_first,
    by_sample,
    is_mixed,
    label_of,
    labels_alone,
    labels_of,
    stem_of,
    stems_of,
)
from mmlake.streams import Slice

_BUFFER_BYTES = 8192  # a look at a member costs one read of this size
# of each member, read along with its header: they tell most media, which then need no look of their own
_PEEK_BYTES = 64
# records up to here are kept from the first walk, as long as they take no more in all: each spares a read
_SMALL_BYTES, _KEPT_BYTES = 1536, 4 << 20
_JOINED_NAMES = 512
_MEMORY_BYTES = 32 << 20  # a compressed tar up to here is expanded in memory
# of a compressed tar that are expanded at first under a limit; twice as many each time that they do not suffice
_FIRST_BYTES = 4 << 20
_FURTHER = 8  # times as far goes a walk that did not find all that the first samples name


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the rows have, exactly: headers are walked, bodies are skipped."""
    with _samples(reading) as samples:
        return samples.modalities


def items(reading: Reading) -> Iterator[RawItem | Plain]:
    """The shard's rows. Their bytes can be read until the next item is taken."""
    with _samples(reading) as samples:
        yield from samples.items()


@contextmanager
def _samples(reading: Reading) -> Iterator[Samples]:
    with reading.open() as file:
        head = file.read(sniff.HEAD_BYTES)
        file.seek(0)
        compression = compression_of(head)
        if not head:
            yield Samples(
                lambda: iter(()),
                reading,
                faults=[
                    reading.fault(1006, "size_bytes=0 not in [1, inf)", modality="text", content=Content(reading.open))
                ],
            )
        elif compression is None:
            yield _begun(lambda reach: _Archive(file, reading, is_ranged=True, reach=reach), reading)
        else:
            with (
                tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool,
                expanded(file, compression, limit_bytes=reading.settings.max_shard_bytes) as stream,
            ):
                expansion = _Expansion(stream, spool)
                yield _begun(lambda reach: _expanded_archive(expansion, reading, reach), reading)


def _begun(list_members: Callable[[Reach | None], _Archive], reading: Reading) -> Samples:
    """The samples of the archive, or as many from its start as hold the first ones. list_members: up to there."""
    if reading.limit is None:
        return _grouped(list_members(None), reading)
    times = 1
    while True:
        archive = list_members(Reach(reading.limit, times=times))
        if archive.is_whole or not _is_lacking(_grouped(archive, reading), reading.limit):
            return _grouped(archive, reading)
        times *= _FURTHER


def _is_lacking(samples: Samples, limit: int) -> bool:
    """Whether there are no more samples than these, or one of them lacks what may lie further behind."""
    seen: set[str] = set()
    for item in samples.items():
        seen.add(item.sample_id)
        if len(seen) > limit:
            return False
        if samples.is_lacking:
            return True
    return True


def _grouped(archive: _Archive, reading: Reading) -> Samples:
    if not archive.may_hold_tables:
        return Samples(
            lambda: archive.groups(is_listed=archive.is_mixed),
            reading,
            faults=archive.faults,
            is_mixed=archive.is_mixed,
            is_archive=True,
        )
    # What a table says is looked up by stem, so that the stems of all samples must be known.
    members = list(archive.members(is_listed=True))
    tables = tables_among(members)
    groups: dict[str, list[Member]] = {}
    for member in without(members, tables):
        groups.setdefault(member.stem, []).append(member)
    tellers = (
        [Transcripts(tables, reading, stems=frozenset(groups), speakers=speakers_among(members))] if tables else []
    )
    return Samples(
        lambda: iter(groups.values()),
        reading,
        faults=archive.faults,
        tellers=tellers,
        is_mixed=archive.is_mixed,
        is_archive=True,
    )


class _Expansion:
    """The beginning of a compressed tar, expanded so far."""

    def __init__(self, stream: io.BufferedReader, spool: Any) -> None:
        self.spool, self.size_bytes, self._stream = spool, 0, stream
        self.is_whole = False
        self.fault: Fault | None = None  # why it ends before its time

    def grow(self, size_bytes: int | None) -> None:
        """Expand up to that size; None: all of it."""
        self.spool.seek(0, io.SEEK_END)
        try:
            while size_bytes is None or self.size_bytes < size_bytes:
                # read1 and not read: a large read that breaks half way would throw away what it has.
                part = self._stream.read1(1 << 16)
                if not part:
                    self.is_whole = True
                    return
                self.size_bytes += self.spool.write(part)
        except UnreadableItem as error:
            self.is_whole, self.fault = True, Fault(1001 if error.code == 1003 else error.code, error.reason)


def _expanded_archive(expansion: _Expansion, reading: Reading, reach: Reach | None) -> _Archive:
    """The archive inside, of which no more is expanded than the members within reach take."""
    if not expansion.is_whole:
        expansion.grow(None if reach is None else max(_FIRST_BYTES, expansion.size_bytes))
    while True:
        archive = _Archive(expansion.spool, reading, is_ranged=False, reach=reach and reach.anew())
        if not archive.is_whole or expansion.is_whole:
            break
        expansion.grow(2 * expansion.size_bytes)  # what ended there is what was expanded of it
    if archive.is_whole and expansion.fault is not None:
        # the tar's own end is then a consequence
        archive.faults = [reading.fault(expansion.fault.code, expansion.fault.reason, modality="text")]
    return archive


class _Archive:
    """The members of a tar by their places. faults: why the archive ends before its time, where it does. is_whole:
    whether all its members are listed."""

    def __init__(self, file: IO[bytes], reading: Reading, *, is_ranged: bool, reach: Reach | None) -> None:
        """is_ranged: whether a range of the file is a range of the shard as it lies. reach: how far the members are
        listed; None: to the end."""
        self._window, self._reading, self._is_ranged = Window(file), reading, is_ranged
        self._names, self._offsets, self._sizes, self._kinds = _Names(), array("q"), array("q"), array("b")
        self._unsafe: dict[int, str] = {}  # why members are refused
        self._links: dict[int, str] = {}  # what hard links name
        self._small: dict[int, bytes] = {}  # members whose bytes are known
        self._room = _KEPT_BYTES
        self.may_hold_tables, self.is_whole = False, True
        self.faults: list[RawItem] = []
        self._endings = record_endings(reading.settings)
        stems, names, records = array("q"), array("q"), array("b")
        try:
            for found in walk(
                self._window, head_bytes=_PEEK_BYTES, whole_bytes=_SMALL_BYTES, most=LONG if reach is None else SHORT
            ):
                run = found if isinstance(found, Run) else self._alone(found)
                within = run if reach is None else _within(run, reach)
                if within.offsets:
                    self._note(within, stems, names, records)
                if within is not run:
                    self.is_whole = False
                    break
        except UnreadableItem as error:
            member = printable(error.member) if isinstance(error, CutMember) else None
            self.faults.append(reading.fault(error.code, error.reason, modality="text", member=member))
        self._order = by_first(np.frombuffer(stems, np.int64))
        self.is_mixed = is_mixed(np.frombuffer(stems, np.int64), np.frombuffer(records, np.int8))
        # of those whose names meet
        self._labels = labels_of(np.frombuffer(names, np.int64), lambda at: self._names.named(at)[1])
        if self._links:
            self._follow_links()

    def _alone(self, member: TarMember) -> Run:
        """A member that no run can hold, as one."""
        if member.unsafe is not None:
            self._unsafe[len(self._offsets)] = member.unsafe
        if member.link is not None:
            self._links[len(self._offsets)] = member.link
        return Run(member.name, [member.offset], [member.size_bytes], [b""])

    def _note(self, run: Run, stems: array[int], names: array[int], records: array[int]) -> None:
        """Keep the places, names and kinds of the members, and give the hashes of their stems and of their names in
        locators, and whether they are called records."""
        called, first = _called(run), len(self._offsets)
        self._names.add(called, run.names)
        self._offsets.extend(run.offsets)
        self._sizes.extend(run.sizes)
        self._kinds.extend(map(sniff.prefix_number, run.heads))
        if self._room > 0:
            for which in compress(count(), map(eq, map(len, run.heads), run.sizes)):  # those that were read whole
                if self._kinds[first + which] < 0 and (head := run.heads[which]):
                    self._small[first + which] = head
                    self._room -= len(head)
        stems.extend(map(hash, stems_of(called, run.names)))
        names.extend(map(hash, labels_alone(called, run.names)))
        lower = run.names.lower()
        records.extend(
            [name.lower().endswith(self._endings) for name in called]
            if any(map(lower.__contains__, self._endings))
            else bytes(len(called))
        )
        if not self.may_hold_tables and ".txt" in lower:
            self.may_hold_tables = any(transcripts.prefix_of(name) is not None for name in called)

    def _follow_links(self) -> None:
        """Give hard links the bytes of the members that they name, as `tar` does where several names are one file."""
        wanted, found = set(self._links.values()), dict[str, int]()
        for at, name, _, _ in self._names.all():
            if at in self._links and (target := found.get(self._links[at])) is not None:
                self._offsets[at], self._sizes[at], self._kinds[at] = (
                    self._offsets[target],
                    self._sizes[target],
                    self._kinds[target],
                )
                del self._unsafe[at]
            if name in wanted and at not in self._unsafe:
                found[name] = at

    def groups(self, *, is_listed: bool = False) -> Iterator[list[Member]]:
        """The members of each sample. What they hold can be read as long as the file is open. is_listed: as for
        `members`."""
        return by_sample(self.members(self._order, is_listed=is_listed))

    def members(self, order: Iterable[int] | None = None, *, is_listed: bool) -> Iterator[Member]:
        """All members, in the order of the archive or in another one. is_listed: whether all are kept, so that none
        may hold its first bytes."""
        offsets, sizes, kinds, odd, links = self._offsets, self._sizes, self._kinds, self._labels, self._links
        file, path, is_ranged, max_bytes = (
            self._window.file,
            self._reading.path,
            self._is_ranged,
            self._reading.settings.max_item_bytes,
        )
        for at, name, stem, label in self._names.all() if order is None else map(self._names.named, order):
            size, number, is_repeated = sizes[at], kinds[at], False
            if at in odd:
                label, is_repeated = odd[at]
            # no header of a link stands before its bytes
            stored = _Stored(file, path, label, offsets[at], size, is_ranged and at not in links)
            if number >= 0 and size <= max_bytes:  # its first bytes were seen when it was listed
                yield Member(
                    name,
                    stem,
                    size_bytes=size,
                    kind=sniff.PREFIX_KINDS[number],
                    content=stored,
                    locate=stored.locate,
                    duplicate=is_repeated,
                )
            else:
                yield self._looked_at(at, name, stem, stored, is_repeated=is_repeated, is_listed=is_listed)

    def _looked_at(
        self, at: int, name: str, stem: str, stored: _Stored, *, is_repeated: bool, is_listed: bool
    ) -> Member:
        size, settings = self._sizes[at], self._reading.settings
        kind, content, fault, extension = None, None, None, sniff.extension_of(name)
        if at in self._unsafe:
            fault = Fault(1007, self._unsafe[at])
        elif size > settings.max_item_bytes:
            kind, fault = (
                sniff.kind_of(b"", name),
                Fault(1008, f"size_bytes={size} not in [0, {settings.max_item_bytes}]"),
            )
        else:
            looked = min(size, sniff.HEAD_BYTES)
            head = stored.peek(self._window, looked) if (known := self._small.get(at)) is None else stored.keep(known)
            if len(head) < looked:
                kind, fault = sniff.kind_of(b"", name), Fault.of(_shorter(self._offsets[at] + len(head)))
            else:
                kind, content, fault = look(stored, name, size, self._reading, head=head, extension=extension)
        stored.is_range &= content is stored
        if is_listed:
            stored.forget()
        return Member(
            name,
            stem,
            size_bytes=size,
            kind=kind,
            content=content,
            locate=stored.locate,
            fault=fault,
            duplicate=is_repeated,
            extension=extension,
        )


def _called(run: Run) -> list[str]:
    return [run.names] if len(run.offsets) == 1 else run.names.split("\0")


def _within(run: Run, reach: Reach) -> Run:
    """The members that are within reach: the same run where all of them are."""
    called = _called(run)
    num = reach.num_within(map(hash, stems_of(called, run.names)), run.offsets)
    return (
        run if num == len(called) else Run("\0".join(called[:num]), run.offsets[:num], run.sizes[:num], run.heads[:num])
    )


_Named = tuple[int, str, str, str]  # a member's number, name, stem, and name in locators, were it the only one of it


class _Names:
    """The names of all members, those of a run in one object."""

    def __init__(self) -> None:
        # number of the first member of each run, its names with a zero between each two
        self._starts, self._texts = array("q"), list[str]()
        self._waiting = list[str]()  # single names that are to be joined
        self._odd = dict[int, str]()  # names that hold a zero themselves
        self._size = 0
        self._first, self._open = 0, list[str]()  # of the run that was asked for last

    def add(self, names: list[str], joined: str) -> None:
        """More names, and the same in one text."""
        if len(names) > 1:
            self._join()
            self._starts.append(self._size)
            self._texts.append(joined)
        else:
            if "\0" in joined:
                self._odd[self._size] = joined
            self._waiting.append("" if "\0" in joined else joined)
        self._size += len(names)
        if len(self._waiting) == _JOINED_NAMES:
            self._join()

    def _join(self) -> None:
        if self._waiting:
            self._starts.append(self._size - len(self._waiting))
            self._texts.append("\0".join(self._waiting))
            self._waiting = []

    def all(self) -> Iterator[_Named]:
        """Every member, in their order."""
        self._join()
        for start, joined in zip(self._starts, self._texts, strict=True):
            names = joined.split("\0")
            if self._odd:
                names = [name or self._odd.get(at, "") for at, name in enumerate(names, start)]
            yield from zip(
                range(start, start + len(names)),
                names,
                stems_of(names, joined),
                labels_alone(names, joined),
                strict=True,
            )

    def named(self, at: int) -> _Named:
        """The member of that number."""
        found = at - self._first
        if not 0 <= found < len(self._open):
            self._join()
            which = bisect_right(self._starts, at) - 1
            self._first, self._open = self._starts[which], self._texts[which].split("\0")
            found = at - self._first
        name = self._open[found] or self._odd.get(at, "")
        return at, name, stem_of(name), label_of(name)


def _shorter(at: int) -> UnreadableItem:
    return UnreadableItem(1002, f"the archive ends at byte {at}, inside a member: it became shorter while it was read")


class _Body(Slice):
    """The bytes of a member, all of them or an error."""

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        if not count and len(buffer) and self._at < self._size:
            raise _shorter(self._offset + self._at)
        return count


class _Stored(Content):
    """A member as it lies in the archive: its place and the way to its bytes in one object."""

    __slots__ = ("_file", "_head", "_label", "_offset", "_path", "_size", "is_range")
    raw = stored = text = None

    def __init__(self, file: IO[bytes], path: str, label: str, offset: int, size_bytes: int, is_range: bool) -> None:
        """is_range: whether this range of the shard as it lies on disk is the item."""
        self._file, self._path, self._label, self._offset, self._size, self._head = (
            file,
            path,
            label,
            offset,
            size_bytes,
            b"",
        )
        self.is_range = is_range

    def peek(self, window: Window, size_bytes: int) -> bytes:
        """So many of its first bytes, which are kept for `first`."""
        return self.keep(window.read(self._offset, size_bytes))

    def keep(self, head: bytes) -> bytes:
        """The same first bytes, which are kept for `first`."""
        self._head = head
        return head

    def forget(self) -> None:
        """Let the first bytes go."""
        self._head = b""

    def open(self) -> IO[bytes]:
        """The member's bytes."""
        return io.BufferedReader(_Body(self._file, self._offset, self._size), _BUFFER_BYTES)

    def first(self, size_bytes: int) -> bytes:
        """So many of its first bytes."""
        wanted = min(size_bytes, self._size)
        if wanted <= len(self._head):
            return self._head if wanted == len(self._head) else self._head[:wanted]
        self._file.seek(self._offset)
        data = self._file.read(wanted)
        if len(data) < wanted:
            raise _shorter(self._offset + len(data))
        return data

    def locate(self, pointer: str) -> SourceRef:
        """The locator of the member, or of a text inside it."""
        if self.is_range and not pointer:
            return SourceRef(self._path, self._label, self._offset, self._size)
        return SourceRef(self._path, f"{self._label}#{pointer}" if pointer else self._label)
