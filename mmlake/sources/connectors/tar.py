"""WebDataset shards: tars, plain or compressed, whose members with one stem are one sample.

The stem is the path up to the first dot of the file name, folder included: `a/000.jpg` and `b/000.jpg` are two samples.
A compressed tar is expanded to a temporary file; its rows have no byte range, since a range of the compressed file is
not the item.

Of each member the name and 34 bytes are noted (`archive`). Under a limit the walk ends a margin behind the first
samples (`Reach`), and no more of a compressed tar is expanded than that takes. Where one of these samples lacks what
its record names, or is the labels of an image, the rest may lie further behind: then the walk goes on until it is found
or the archive ends.
"""

from __future__ import annotations

import io
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from itertools import compress, count
from operator import eq
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import compression_of, expanded
from mmlake.formats.label_files import LABEL_NAMES
from mmlake.formats.tar import LONG, SHORT, Run, TarMember, walk
from mmlake.sources.connectors.archive import Archive, connector, labels_of, stems_of
from mmlake.sources.names import label_of, stem_of
from mmlake.sources.raw_items import Member, Reading
from mmlake.sources.samples.shard_samples import Samples
from mmlake.streams import Slice, Window

_BUFFER_BYTES = 8192
# of each member, read along with its header: enough to recognize most media, which then need no read of their own
_PEEK_BYTES = 64
# records up to here are kept from the first walk, as long as they take no more in all: each spares a read
_SMALL_BYTES, _KEPT_BYTES = 1536, 4 << 20
_JOINED_NAMES = 512
_MEMORY_BYTES = 32 << 20  # a compressed tar up to here is expanded in memory
# of a compressed tar that are expanded at first under a limit; twice as many each time that they do not suffice
_FIRST_BYTES = 4 << 20
_FURTHER = 8  # times as far goes a walk that did not find all that the first samples name
# Behind the first samples an archive's members are listed on, since those of a sample may lie apart: programs with
# several threads mix a few samples, and the table of transcripts of a LibriSpeech chapter may follow its last
# recording, of a speaker's 25 minutes (some hundred members, 30 MB). Whichever of both is reached first ends it.
_MARGIN_STEMS = 256
_MARGIN_BYTES = 64 << 20


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a tar."""
    return sniff.is_tar_header(head)


@contextmanager
def _samples(reading: Reading) -> Iterator[Samples]:
    with reading.open() as file:
        head = file.read(sniff.HEAD_BYTES)
        file.seek(0)
        compression = None if sniff.is_tar_header(head) else compression_of(head)
        if not head:
            yield Samples(lambda: iter(()), reading, faults=[reading.empty()])
        elif compression is None:
            yield _first_samples(lambda reach: _Tar(file, reading, is_ranged=True, reach=reach), reading)
        else:
            with (
                tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool,
                expanded(file, compression, limit_bytes=reading.settings.max_shard_bytes) as stream,
            ):
                expansion = _Expansion(stream, spool)
                yield _first_samples(lambda reach: _expanded_tar(expansion, reading, reach), reading)


modalities, items = connector(_samples)


def _first_samples(list_members: Callable[[Reach | None], _Tar], reading: Reading) -> Samples:
    """The samples of the archive, or as many from its start as hold the first ones. list_members: up to there."""
    if reading.limit is None:
        return list_members(None).samples()
    times = 1
    while True:
        archive = list_members(Reach(reading.limit, times=times))
        if archive.is_whole:
            return archive.samples()
        if not (archive.lacks_images(reading.limit) or _is_lacking(archive.samples(), reading.limit)):
            return archive.samples()
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


class Reach:
    """How far the members of an archive are listed under a limit: up to a new stem behind the first ones and their
    margin."""

    def __init__(self, limit: int, *, times: int) -> None:
        """limit: stems that shall be whole. times: so many margins follow them."""
        self._limit, self._margin_stems, self._margin_bytes = limit, times * _MARGIN_STEMS, times * _MARGIN_BYTES
        self._seen: set[int] = set()
        self._margin_at = 0  # where it begins

    def anew(self) -> Reach:
        """The same from the archive's start."""
        other = copy(self)
        other._seen = set()
        return other

    def num_within(self, stems: Iterable[int], offsets: Iterable[int]) -> int:
        """How many of the next members are still listed. stems: hashes. offsets: where in the archive their bytes
        lie."""
        within = 0
        for stem, offset in zip(stems, offsets, strict=True):
            if stem not in self._seen:
                behind = len(self._seen) - self._limit
                if behind == 0:
                    self._margin_at = offset
                # One sample behind the limit is whole as well, so that the last one before it is known to be.
                if behind > 0 and (behind > self._margin_stems or offset - self._margin_at > self._margin_bytes):
                    return within
                self._seen.add(stem)
            within += 1
        return within


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


def _expanded_tar(expansion: _Expansion, reading: Reading, reach: Reach | None) -> _Tar:
    """The archive inside, of which no more is expanded than the members within reach take."""
    if not expansion.is_whole:
        expansion.grow(None if reach is None else max(_FIRST_BYTES, expansion.size_bytes))
    while True:
        archive = _Tar(expansion.spool, reading, is_ranged=False, reach=reach and reach.anew())
        if not archive.is_whole or expansion.is_whole:
            break
        expansion.grow(2 * expansion.size_bytes)  # what ended there is what was expanded of it
    if archive.is_whole and expansion.fault is not None:
        # the tar's own end is then a consequence
        archive.faults = [reading.fault(expansion.fault.code, expansion.fault.reason, modality="text")]
    return archive


class _Tar(Archive):
    """The members of a tar by their places. is_whole: whether all of them are listed."""

    def __init__(self, file: IO[bytes], reading: Reading, *, is_ranged: bool, reach: Reach | None) -> None:
        """is_ranged: whether a range of the file is a range of the shard as it lies. reach: how far the members are
        listed; None: to the end."""
        super().__init__(reading)
        self._window, self._is_ranged = Window(file), is_ranged
        self._called, self._offsets, self._sizes, self._kinds = _Names(), array("q"), array("q"), array("b")
        self._unsafe: dict[int, str] = {}  # why members are refused
        self._links: dict[int, str] = {}  # what hard links name
        self._small: dict[int, bytes] = {}  # members whose bytes are known
        self._room = _KEPT_BYTES
        most = LONG if reach is None else SHORT
        try:
            for found in walk(self._window, head_bytes=_PEEK_BYTES, whole_bytes=_SMALL_BYTES, most=most):
                run = found if isinstance(found, Run) else self._alone(found)
                within = run if reach is None else _within(run, reach)
                if within.offsets:
                    self._keep(within)
                if within is not run:
                    self.is_whole = False
                    break
        except UnreadableItem as error:
            self.fail(error)
        self.settle()
        if self._links:
            self._follow_links()

    def _alone(self, member: TarMember) -> Run:
        """A member that no run can hold, as one."""
        if member.unsafe is not None:
            self._unsafe[len(self._offsets)] = member.unsafe
        if member.link is not None:
            self._links[len(self._offsets)] = member.link
        return Run(member.name, [member.offset], [member.size_bytes], [b""])

    def _keep(self, run: Run) -> None:
        """Keep the places, names and kinds of the members."""
        names, first = _names_of(run), len(self._offsets)
        self._called.add(names)
        self._offsets.extend(run.offsets)
        self._sizes.extend(run.sizes)
        self._kinds.extend(map(sniff.prefix_number, run.heads))
        if self._room > 0:
            for which in compress(count(), map(eq, map(len, run.heads), run.sizes)):  # those that were read whole
                if self._kinds[first + which] < 0 and (head := run.heads[which]):
                    self._small[first + which] = head
                    self._room -= len(head)
        self.note(names, run.names)

    def _follow_links(self) -> None:
        """Give hard links the bytes of the members that they name, as `tar` does where several names are one file."""
        wanted, found = set(self._links.values()), dict[str, int]()
        for at, name, _, _ in self._called.all():
            if at in self._links and (target := found.get(self._links[at])) is not None:
                for column in (self._offsets, self._sizes, self._kinds):
                    column[at] = column[target]
                del self._unsafe[at]
            if name in wanted and at not in self._unsafe:
                found[name] = at

    def name_at(self, at: int) -> str:
        return self._called.named(at)[1]

    def members(self, order: Iterable[int] | None, *, is_listed: bool) -> Iterator[Member]:
        offsets, sizes, kinds, repeated, links = self._offsets, self._sizes, self._kinds, self.repeated, self._links
        file, path, is_ranged = self._window.file, self.reading.path, self._is_ranged
        max_bytes, has_labels = self.reading.settings.max_item_bytes, self.may_hold_labels
        for at, name, stem, label in self._called.all() if order is None else map(self._called.named, order):
            size, number = sizes[at], kinds[at]
            member = _TarMember(name, stem, size, path, label, file)
            # no header of a link stands before its bytes
            member.start, member.is_range = offsets[at], is_ranged and at not in links
            if at in repeated or (has_labels and name.endswith(LABEL_NAMES)):
                self.mark(at, member)
            if number >= 0 and size <= max_bytes:  # its first bytes were seen when it was listed
                yield member.classify(sniff.PREFIX_KINDS[number])
            else:
                yield self._classified(at, member)
                if is_listed:
                    member.forget()

    def _classified(self, at: int, member: Member) -> Member:
        """The member, of which more than the first bytes is to be seen."""
        name, size, settings = member.name, member.size_bytes, self.reading.settings
        if at in self._unsafe:
            return member.classify(None, Fault(1007, self._unsafe[at]), is_readable=False)
        if size > settings.max_item_bytes:
            fault = Fault(1008, f"size_bytes={size} not in [0, {settings.max_item_bytes}]")
            return member.classify(sniff.kind_of(b"", name), fault, is_readable=False)
        num_wanted = min(size, sniff.HEAD_BYTES)
        head = self._small.get(at) or self._window.read(member.start, num_wanted)
        if len(head) < num_wanted:
            fault = Fault.of(_shorter(member.start + len(head)))
            return member.classify(sniff.kind_of(b"", name), fault, is_readable=False)
        member.known, member.is_whole = head, len(head) == size
        return member.classify_by(head, settings)


def _names_of(run: Run) -> list[str]:
    return [run.names] if len(run.offsets) == 1 else run.names.split("\0")


def _within(run: Run, reach: Reach) -> Run:
    """The members that are within reach: the same run where all of them are."""
    names = _names_of(run)
    num = reach.num_within(map(hash, stems_of(names, run.names)), run.offsets)
    if num == len(names):
        return run
    return Run("\0".join(names[:num]), run.offsets[:num], run.sizes[:num], run.heads[:num])


_Named = tuple[int, str, str, str]  # a member's number, name, stem, and name in locators, were it the only one of it


class _Names:
    """The names of all members, many in one object."""

    def __init__(self) -> None:
        self._texts, self._waiting = list[str](), list[str]()  # _JOINED_NAMES each, a zero between two; the last ones
        self._odd = dict[int, str]()  # names that hold a zero themselves
        self._which, self._open = -1, list[str]()  # the text that was asked for last, and its names

    def add(self, names: list[str]) -> None:
        """More names."""
        if len(names) == 1 and "\0" in names[0]:
            self._odd[len(self._texts) * _JOINED_NAMES + len(self._waiting)] = names[0]
            names = [""]
        self._waiting += names
        while len(self._waiting) >= _JOINED_NAMES:
            self._texts.append("\0".join(self._waiting[:_JOINED_NAMES]))
            del self._waiting[:_JOINED_NAMES]

    def all(self) -> Iterator[_Named]:
        """Every member, in their order."""
        texts = [*self._texts, "\0".join(self._waiting)] if self._waiting else self._texts
        for start, joined in zip(count(step=_JOINED_NAMES), texts, strict=False):
            names = joined.split("\0")
            if self._odd:
                names = [name or self._odd.get(at, "") for at, name in enumerate(names, start)]
            yield from zip(count(start), names, stems_of(names, joined), labels_of(names, joined), strict=False)

    def named(self, at: int) -> _Named:
        """The member of that number."""
        which, place = divmod(at, _JOINED_NAMES)
        if which != self._which:
            self._which = which
            self._open = self._texts[which].split("\0") if which < len(self._texts) else self._waiting
        name = self._open[place] or self._odd.get(at, "")
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


class _TarMember(Member):
    """A member as it lies in the archive."""

    __slots__ = ()

    def open(self) -> IO[bytes]:
        return io.BufferedReader(_Body(self.file, self.start, self.size_bytes), _BUFFER_BYTES)

    def fetch(self, size_bytes: int) -> bytes:
        wanted = min(size_bytes, self.size_bytes)
        self.file.seek(self.start)
        data: bytes = self.file.read(wanted)
        if len(data) < wanted:
            raise _shorter(self.start + len(data))
        return data
