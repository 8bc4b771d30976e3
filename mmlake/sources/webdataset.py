"""WebDataset shards: tars, plain or compressed, whose members with one stem are one sample.

The stem is the path up to the first dot of the file name, folder included: `a/000.jpg` and `b/000.jpg` are two samples. A compressed
tar is expanded to a temporary file; its rows have no byte range, since a range of the compressed file is not the item.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef
from mmlake.sources import sniff
from mmlake.sources.beside import Transcripts, speakers_among, tables_among, without
from mmlake.sources.compression import compression_of, expanded
from mmlake.sources.members import Member, look
from mmlake.sources.rows import Content, Fault, RawItem, Reading, printable
from mmlake.sources.samples import Samples
from mmlake.sources.tars import CutMember, TarMember, Window, walk
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
    faults: list[RawItem] = []
    with reading.open() as file:
        head = file.read(sniff.HEAD_BYTES)
        file.seek(0)
        compression = compression_of(head)
        if not head:
            faults.append(reading.fault(1006, "size_bytes=0 not in [1, inf)", modality="text", content=Content(reading.open)))
            yield Samples((), reading, faults=faults)
        elif compression is None:
            yield _grouped(_members(file, reading, faults, ranged=True), reading, faults)
        else:
            with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
                cut = _expand(file, spool, compression, reading)
                members = _members(spool, reading, faults, ranged=False)
                if cut is not None:
                    faults[:] = [reading.fault(cut.code, cut.reason, modality="text")]  # the tar's own end is then a consequence
                yield _grouped(members, reading, faults)


def _grouped(members: list[Member], reading: Reading, faults: list[RawItem]) -> Samples:
    tables = tables_among(members)
    if not tables:
        return Samples(members, reading, faults=faults)
    others = without(members, tables)
    stems = frozenset(member.stem for member in others)
    return Samples(others, reading, faults=faults, tellers=[Transcripts(tables, reading, stems=stems, speakers=speakers_among(members))])


def _expand(file: IO[bytes], spool: Any, compression: str, reading: Reading) -> Fault | None:
    try:
        with expanded(file, compression, limit_bytes=reading.settings.max_shard_bytes) as stream:
            # read1 and not read: a large read that breaks half way would throw away what it has.
            while part := stream.read1(1 << 16):
                spool.write(part)
    except UnreadableItem as error:
        return Fault(1001 if error.code == 1003 else error.code, error.reason)
    return None


def _members(file: IO[bytes], reading: Reading, faults: list[RawItem], *, ranged: bool) -> list[Member]:
    found: list[Member] = []
    labels: set[str] = set()
    seen: dict[str, int] = {}
    try:
        window = Window(file)
        for entry in walk(window):
            num_before = seen.get(entry.name, 0)
            seen[entry.name] = num_before + 1
            label = _label(entry.name, num_before, labels)
            found.append(_member(window, entry, label, reading, ranged=ranged, duplicate=num_before > 0))
    except UnreadableItem as error:
        member = printable(error.member) if isinstance(error, CutMember) else None
        faults.append(reading.fault(error.code, error.reason, modality="text", member=member))
    return found


def _label(name: str, num_before: int, labels: set[str]) -> str:
    """The member's name in locators, unique in the archive: `#dup=<n>` behind the name of every repetition."""
    if not num_before and name.isascii() and "#" not in name and "%" not in name and "\\" not in name:
        return name  # no other name can get this label
    base = printable(name).replace("#", "%23")
    label = f"{base}#dup={num_before}" if num_before else base
    while label in labels:
        num_before += 1
        label = f"{base}#dup={num_before}"
    labels.add(label)
    return label


def _member(window: Window, entry: TarMember, label: str, reading: Reading, *, ranged: bool, duplicate: bool) -> Member:
    name, offset, size, unsafe = entry
    folder, _, base = name.removeprefix("./").rpartition("/")
    stem = base.partition(".")[0]
    if folder:
        stem = f"{folder}/{stem}"
    stored = _Stored(window.file, reading.path, label, offset, size)
    kind, content, fault, extension = None, None, None, sniff.extension_of(base)
    if unsafe is not None:
        fault = Fault(1007, unsafe)
    elif size > reading.settings.max_item_bytes:
        kind, fault = sniff.kind_of(b"", name), Fault(1008, f"size_bytes={size} not in [0, {reading.settings.max_item_bytes}]")
    else:
        kind, content, fault = look(stored, name, size, reading, head=window.read(offset, min(size, sniff.HEAD_BYTES)), extension=extension)
        stored.is_range = ranged and content is stored
    return Member(name=name, stem=stem, size_bytes=size, kind=kind, content=content, locate=stored.locate, fault=fault, duplicate=duplicate, extension=extension)


class _Stored(Content):
    """A member as it lies in the archive: its place and the way to its bytes in one object, since a shard has up to millions."""

    __slots__ = ("_file", "_label", "_offset", "_path", "_size", "is_range")
    raw = None
    stored = None

    def __init__(self, file: IO[bytes], path: str, label: str, offset: int, size_bytes: int) -> None:
        self._file, self._path, self._label, self._offset, self._size = file, path, label, offset, size_bytes
        self.is_range = False  # whether this range of the shard as it lies on disk is the item

    def open(self) -> IO[bytes]:
        """The member's bytes."""
        return io.BufferedReader(Slice(self._file, self._offset, self._size), _BUFFER_BYTES)

    def first(self, size_bytes: int) -> bytes:
        """So many of its first bytes."""
        self._file.seek(self._offset)
        return self._file.read(min(size_bytes, self._size))

    def locate(self, pointer: str) -> SourceRef:
        """The locator of the member, or of a text inside it."""
        if self.is_range and not pointer:
            return SourceRef(self._path, self._label, self._offset, self._size)
        return SourceRef(self._path, f"{self._label}#{pointer}" if pointer else self._label)
