"""WebDataset shards: tars, plain or compressed, whose members with one stem are one sample.

The stem is the path up to the first dot of the file name, folder included: `a/000.jpg` and `b/000.jpg` are two samples. A compressed
tar is expanded to a temporary file; its rows have no byte range, since a range of the compressed file is not the item.
"""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef
from mmlake.sources import sniff
from mmlake.sources.compression import compression_of, expanded
from mmlake.sources.members import Member, look
from mmlake.sources.rows import Content, Fault, RawItem, Reading, printable
from mmlake.sources.samples import Samples
from mmlake.sources.tars import CutMember, TarMember, walk

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
            yield Samples(_members(file, reading, faults, ranged=True), reading, faults=faults)
        else:
            with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
                cut = _expand(file, spool, compression, reading)
                members = _members(spool, reading, faults, ranged=False)
                if cut is not None:
                    faults[:] = [reading.fault(cut.code, cut.reason, modality="text")]  # the tar's own end is then a consequence
                yield Samples(members, reading, faults=faults)


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
    seen: Counter[str] = Counter()
    try:
        for entry in walk(file):
            label = _label(entry.name, seen[entry.name], labels)
            found.append(_member(file, entry, label, reading, ranged=ranged, duplicate=seen[entry.name] > 0))
            seen[entry.name] += 1
    except UnreadableItem as error:
        member = printable(error.member) if isinstance(error, CutMember) else None
        faults.append(reading.fault(error.code, error.reason, modality="text", member=member))
    return found


def _label(name: str, num_before: int, labels: set[str]) -> str:
    """The member's name in locators, unique in the archive: `#dup=<n>` behind the name of every repetition."""
    base = printable(name).replace("#", "%23")
    label = f"{base}#dup={num_before}" if num_before else base
    while label in labels:
        num_before += 1
        label = f"{base}#dup={num_before}"
    labels.add(label)
    return label


def _member(file: IO[bytes], entry: TarMember, label: str, reading: Reading, *, ranged: bool, duplicate: bool) -> Member:
    def slice_of() -> IO[bytes]:
        return io.BufferedReader(_Slice(file, entry.offset, entry.size_bytes), _BUFFER_BYTES)

    folder, _, base = entry.name.removeprefix("./").rpartition("/")
    stem = base.partition(".")[0]
    common: dict[str, Any] = {"name": entry.name, "stem": f"{folder}/{stem}" if folder else stem, "size_bytes": entry.size_bytes, "duplicate": duplicate}
    locate = _locator(reading.path, label, None)
    if entry.unsafe is not None:
        return Member(**common, kind=None, content=None, locate=locate, fault=Fault(1007, entry.unsafe))
    if entry.size_bytes > reading.settings.max_item_bytes:
        reason = f"size_bytes={entry.size_bytes} not in [0, {reading.settings.max_item_bytes}]"
        return Member(**common, kind=sniff.kind_of(b"", entry.name), content=None, locate=locate, fault=Fault(1008, reason))
    kind, content, fault = look(slice_of, entry.name, entry.size_bytes, reading)
    if ranged and content.raw is None:
        locate = _locator(reading.path, label, entry)
    return Member(**common, kind=kind, content=content, locate=locate, fault=fault)


def _locator(path: str, label: str, entry: TarMember | None) -> Callable[[str], SourceRef]:
    def locate(pointer: str) -> SourceRef:
        if pointer or entry is None:
            return SourceRef(path=path, member=f"{label}#{pointer}" if pointer else label)
        return SourceRef(path=path, member=label, byte_offset=entry.offset, byte_size=entry.size_bytes)

    return locate


class _Slice(io.RawIOBase):
    """A range of a file that others read too: it seeks before every read."""

    def __init__(self, file: IO[bytes], offset: int, size_bytes: int) -> None:
        self._file, self._offset, self._size, self._at = file, offset, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._offset + self._at)
        data = self._file.read(min(len(buffer), max(0, self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
