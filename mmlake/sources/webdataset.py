"""WebDataset shards: tars, plain or compressed, whose members with one stem are one sample.

The stem is the path up to the first dot of the file name, folder included: `a/000.jpg` and `b/000.jpg` are two samples. A compressed
tar is expanded to a temporary file; its rows have no byte range, since a range of the compressed file is not the item.

An archive is walked twice: first for the places of its members, of which 33 bytes each are noted, then sample by sample. So memory
holds one sample, however many the archive has, and members of one sample may lie apart.
"""

from __future__ import annotations

import io
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef
from mmlake.sources import sniff, transcripts
from mmlake.sources.beside import Transcripts, speakers_among, tables_among, without
from mmlake.sources.compression import compression_of, expanded
from mmlake.sources.members import Member, look
from mmlake.sources.rows import Content, Fault, RawItem, Reading, printable
from mmlake.sources.samples import Samples, record_endings
from mmlake.sources.tars import BLOCK, CutMember, TarMember, Window, plain_name, walk
from mmlake.streams import Slice

_BUFFER_BYTES = 8192  # a look at a member costs one read of this size
_MEMORY_BYTES = 32 << 20  # a compressed tar up to here is expanded in memory


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the shard's rows have, exactly: every header is walked, bodies are skipped."""
    with _samples(reading) as samples:
        return samples.modalities


def items(reading: Reading) -> Iterator[RawItem]:
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
            yield Samples(lambda: iter(()), reading, faults=[reading.fault(1006, "size_bytes=0 not in [1, inf)", modality="text", content=Content(reading.open))])
        elif compression is None:
            yield _grouped(_Archive(file, reading, is_ranged=True), reading)
        else:
            with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
                cut = _expand(file, spool, compression, reading)
                archive = _Archive(spool, reading, is_ranged=False)
                if cut is not None:
                    archive.faults = [reading.fault(cut.code, cut.reason, modality="text")]  # the tar's own end is then a consequence
                yield _grouped(archive, reading)


def _grouped(archive: _Archive, reading: Reading) -> Samples:
    if not archive.may_hold_tables:
        return Samples(lambda: archive.groups(is_listed=archive.is_mixed), reading, faults=archive.faults, is_mixed=archive.is_mixed)
    # What a table says is looked up by stem, so that the stems of all samples must be known.
    members = list(archive.members(is_listed=True))
    tables = tables_among(members)
    groups: dict[str, list[Member]] = {}
    for member in without(members, tables):
        groups.setdefault(member.stem, []).append(member)
    tellers = [Transcripts(tables, reading, stems=frozenset(groups), speakers=speakers_among(members))] if tables else []
    return Samples(lambda: iter(groups.values()), reading, faults=archive.faults, tellers=tellers, is_mixed=archive.is_mixed)


def _expand(file: IO[bytes], spool: Any, compression: str, reading: Reading) -> Fault | None:
    try:
        with expanded(file, compression, limit_bytes=reading.settings.max_shard_bytes) as stream:
            # read1 and not read: a large read that breaks half way would throw away what it has.
            while part := stream.read1(1 << 16):
                spool.write(part)
    except UnreadableItem as error:
        return Fault(1001 if error.code == 1003 else error.code, error.reason)
    return None


class _Archive:
    """The members of a tar by their places. faults: why the archive ends before its time, where it does."""

    def __init__(self, file: IO[bytes], reading: Reading, *, is_ranged: bool) -> None:
        """is_ranged: whether a range of the file is a range of the shard as it lies."""
        self._window, self._reading, self._is_ranged = Window(file), reading, is_ranged
        self._offsets, self._sizes = array("q"), array("q")
        self._odd: dict[int, TarMember] = {}  # members whose name or refusal does not stand in the header before their bytes alone
        self._labels: dict[int, tuple[str, bool]] = {}  # (name in locators, whether it repeats a member's) of those whose names meet
        self.may_hold_tables = False
        self.faults: list[RawItem] = []
        stems, names, records = array("q"), array("q"), array("b")
        try:
            self._list(stems, names, records)
        except UnreadableItem as error:
            member = printable(error.member) if isinstance(error, CutMember) else None
            self.faults.append(reading.fault(error.code, error.reason, modality="text", member=member))
        self._order = _by_first(np.frombuffer(stems, np.int64))
        self.is_mixed = _is_mixed(np.frombuffer(stems, np.int64), np.frombuffer(records, np.int8))
        self._tell_apart(np.frombuffer(names, np.int64))

    def _list(self, stems: array[int], names: array[int], records: array[int]) -> None:
        """Note the places of all members, the hashes of their stems and of their names in locators, and whether they are called records."""
        offsets, sizes, odd, endings = self._offsets, self._sizes, self._odd, record_endings(self._reading.settings)
        for entry in walk(self._window):
            name, offset, size, unsafe, is_plain = entry
            if not is_plain or unsafe is not None:
                odd[len(offsets)] = entry
            offsets.append(offset)
            sizes.append(size)
            stems.append(hash(_stem(name)))
            records.append(name.lower().endswith(endings))
            names.append(hash(_base_label(name)))
            if transcripts.prefix_of(name) is not None:
                self.may_hold_tables = True

    def _tell_apart(self, names: np.ndarray) -> None:
        """Give every repetition of a name a label of its own: `#dup=<n>` behind it, unique in the archive."""
        _, places, counts = np.unique(names, return_inverse=True, return_counts=True)
        seen: dict[str, int] = {}
        labels: set[str] = set()
        for at in np.flatnonzero(counts[places] > 1).tolist():
            name = self._name(at)
            num_before = seen.get(name, 0)
            seen[name] = num_before + 1
            base = _base_label(name)
            label = f"{base}#dup={num_before}" if num_before else base
            number = num_before
            while label in labels:
                number += 1
                label = f"{base}#dup={number}"
            labels.add(label)
            self._labels[at] = (label, num_before > 0)

    def _name(self, at: int) -> str:
        return self._odd[at].name if at in self._odd else plain_name(self._window.read(self._offsets[at] - BLOCK, BLOCK))

    def groups(self, *, is_listed: bool = False) -> Iterator[list[Member]]:
        """The members of each sample. What they hold can be read as long as the file is open. is_listed: as for `members`."""
        group: list[Member] = []
        stem = None
        for member in self.members(self._order, is_listed=is_listed):
            if member.stem != stem:
                if group:
                    yield group
                group, stem = [], member.stem
            group.append(member)
        if group:
            yield group

    def members(self, order: Iterable[int] | None = None, *, is_listed: bool) -> Iterator[Member]:
        """All members, in the order of the archive or in another one. is_listed: whether all are kept, so that none may hold its first bytes."""
        reading, file, read, offsets, sizes, labels = self._reading, self._window.file, self._window.read, self._offsets, self._sizes, self._labels
        for at in range(len(offsets)) if order is None else order:
            offset, size = offsets[at], sizes[at]
            looked = size if size < sniff.HEAD_BYTES else sniff.HEAD_BYTES
            if at in self._odd:
                name, unsafe, head = self._odd[at].name, self._odd[at].unsafe, read(offset, looked)
            else:
                block = read(offset - BLOCK, BLOCK + looked)
                if len(block) < BLOCK:
                    raise _shorter(offset - BLOCK + len(block))
                name, unsafe, head = plain_name(block), None, block[BLOCK:]
            label, is_repeated = labels[at] if at in labels else (_base_label(name), False)
            stored, kind, content, extension = _Stored(file, reading.path, label, offset, size, head), None, None, sniff.extension_of(name)
            if unsafe is not None:
                fault: Fault | None = Fault(1007, unsafe)
            elif len(head) < looked:
                kind, fault = sniff.kind_of(b"", name), Fault.of(_shorter(offset + len(head)))
            elif size > reading.settings.max_item_bytes:
                kind, fault = sniff.kind_of(b"", name), Fault(1008, f"size_bytes={size} not in [0, {reading.settings.max_item_bytes}]")
            else:
                kind, content, fault = look(stored, name, size, reading, head=head, extension=extension)
                stored.is_range = self._is_ranged and content is stored
            if is_listed:
                stored.forget()
            yield Member(name, _stem(name), size_bytes=size, kind=kind, content=content, locate=stored.locate, fault=fault, duplicate=is_repeated, extension=extension)


def _by_first(stems: np.ndarray) -> list[int] | None:
    """The members in the order of their samples' first members; None where they lie so already, as in nearly every archive."""
    starts = stems[np.flatnonzero(np.diff(stems, prepend=stems[:1] - 1))] if len(stems) else stems
    if len(np.unique(starts)) == len(starts):
        return None
    _, firsts, samples = np.unique(stems, return_index=True, return_inverse=True)
    return np.argsort(firsts[samples], kind="stable").tolist()


def _is_mixed(stems: np.ndarray, records: np.ndarray) -> bool:
    """Whether some samples have a record and others none, or some have several."""
    counts = np.bincount(np.unique(stems, return_inverse=True)[1], weights=records)
    return bool(np.any(counts > 1) or (np.any(counts == 1) and np.any(counts == 0)))


def _stem(name: str) -> str:
    if "/" not in name:
        return name.partition(".")[0]
    folder, _, base = name.removeprefix("./").rpartition("/")
    return f"{folder}/{base.partition('.')[0]}" if folder else base.partition(".")[0]


def _base_label(name: str) -> str:
    """What locators call a member whose name no other has."""
    if name.isascii() and "#" not in name and "%" not in name and "\\" not in name:
        return name  # no other name gets this label
    return printable(name).replace("#", "%23")


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

    def __init__(self, file: IO[bytes], path: str, label: str, offset: int, size_bytes: int, head: bytes) -> None:
        self._file, self._path, self._label, self._offset, self._size, self._head = file, path, label, offset, size_bytes, head
        self.is_range = False  # whether this range of the shard as it lies on disk is the item

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
