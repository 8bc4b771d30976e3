"""Items read again by their locators, many at once: each file is opened once, ranges that lie close are one read, equal
ones are read once.

A range is believed only where it can be checked or cannot be wrong: in a compressed archive, and where the header
before the range is not that of the member, the archive is read from its start instead, once for all members that are
wanted.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, TypeVar

from mmlake.errors import Fault, MmlakeError, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats import zip as zip_format
from mmlake.formats.compression import compression_of, expanded
from mmlake.formats.tar import BLOCK, name_and_size
from mmlake.formats.texts import printable
from mmlake.landing import Landing, Span, ranges_ahead
from mmlake.records import SourceRef
from mmlake.sources.connectors.table import LANCE, LOOSE, SOURCES, Connectors, directory_of
from mmlake.sources.ingestion import Reader, reader_of
from mmlake.sources.names import label_of
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.raw_items import Content, Reading, within
from mmlake.sources.settings import SourceSettings
from mmlake.streams import Window, expect

# read and thrown away rather than asked for anew: less than what one round trip to remote storage moves
_GAP_BYTES = 128 << 10
# ranges are joined up to here; bounds the memory, and what is read twice where a joined read fails
_READ_BYTES = 32 << 20
# announced behind the range that is read: four requests of 8 MiB, which the read-ahead has in flight at once
_AHEAD_BYTES = 32 << 20
_NAME_BYTES = 256  # of a long name, compared where it stands in a block of its own

_BEFORE_BYTES = 2 * BLOCK  # read before a range in an archive, to see whose it is

Found = bytes | Fault
Read = TypeVar("Read", bound=tuple[int, int, object])
# (bytes before a range, its locator) -> whether they are the header of its member
Check = Callable[[bytes, SourceRef], bool]


def fetch(
    ref: SourceRef,
    *,
    landing: Landing | str | os.PathLike[str],
    settings: SourceSettings | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> bytes:
    """The bytes of the item that the locator names, read again from the landing zone; those whose digest the item's row
    holds.

    A frame is not picked: `mmlake.rows.materialize` does that. settings: those of the ingest, where field names were
    changed. parsed: as for `fetch_many`. Raises UnreadableItem where the file or the member is gone.
    """
    for _, found in fetch_many([ref], landing=landing, settings=settings, parsed=parsed, connectors=connectors):
        if isinstance(found, bytes):
            return found
        raise UnreadableItem(found.code, found.reason)
    raise AssertionError("fetch_many answers every locator")


def fetch_many(
    refs: Sequence[SourceRef],
    *,
    landing: Landing | str | os.PathLike[str],
    settings: SourceSettings | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> Iterator[tuple[int, Found]]:
    """(place in `refs`, the item's bytes or why there are none) for every locator, in the order of the files and of
    what lies in them.

    Whatever is wrong with one file or member, also inside a landing zone, is the fault of that one. Only wrong settings
    raise. parsed: of the owner of this and other calls; None: what is parsed goes with the call.
    """
    reader = reader_of(landing, settings, parsed, connectors)
    by_path: dict[str, dict[SourceRef, list[int]]] = {}
    for at, ref in enumerate(refs):
        by_path.setdefault(ref.path, {}).setdefault(ref._replace(frame_index=None), []).append(at)
    spans = ((path, _spans(places)) for path, places in by_path.items())
    with ranges_ahead(reader.landing, spans) as ahead:
        fetcher = _Fetcher(replace(reader, landing=ahead))
        for path, wanted in by_path.items():
            left = dict(wanted)
            for ref, found in fetcher.file(path, list(left)):
                yield from ((at, found) for at in left.pop(ref))
            for ref, places in left.items():
                yield from ((at, Fault(1001, f"{path} no longer has the member {ref.member!r}")) for at in places)


class _Fetcher:
    """Reads items of one landing zone again."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self.landing = reader, reader.landing
        self._limit = reader.settings.max_item_bytes

    def file(self, path: str, refs: list[SourceRef]) -> Iterator[tuple[SourceRef, Found]]:
        """What one file gives; locators that are not answered name what it does not have."""
        left = dict.fromkeys(refs)
        try:
            for ref, found in self._opened(path, refs):
                del left[ref]
                yield ref, found
        except UnreadableItem as error:
            yield from ((ref, Fault.of(error)) for ref in left)
        except MmlakeError:
            raise
        # the per-file border: another kind of landing zone raises anything, and one file must not cost the others
        except Exception as error:  # noqa: BLE001
            yield from ((ref, Fault(1001, f"reading the file failed ({type(error).__name__})")) for ref in left)

    def _opened(self, path: str, refs: list[SourceRef]) -> Iterator[tuple[SourceRef, Found]]:
        if directory_of(path, self.landing) == path:
            yield from self._members(self._reader.reading(path), LANCE, refs)
            return
        with self.landing.open(path) as file:
            head = file.read(sniff.HEAD_BYTES)
            ranged = [ref for ref in refs if _is_ranged(ref)]
            if ranged and compression_of(head) is not None:
                ranged = [ref for ref in ranged if ref.member is None]
            done = set[SourceRef]()
            for ref, part in _ranges(file, ranged, checked=_check_of(path, head)):
                if part is not None:
                    done.add(ref)
                    yield ref, part
            whole = [ref for ref in refs if ref.member is None and ref not in done]
            for ref in whole:
                if (at := ref.byte_offset) is not None:
                    reason = f"byte_offset={at} stands next to byte_size={ref.byte_size}, and no member is named"
                    yield ref, Fault(1003, reason)
            if whole := [ref for ref in whole if ref.byte_offset is None]:
                found = self._whole(path, file, head)
                yield from ((ref, found) for ref in whole)
        if rest := [ref for ref in refs if ref.member is not None and ref not in done]:
            entry = self.landing.stat(path)
            if entry is None:
                raise UnreadableItem(1001, "the file is missing")
            yield from self._members(self._reader.reading(path, entries=[entry]), self._reader.format_of(entry), rest)

    def _whole(self, path: str, file: IO[bytes], head: bytes) -> Found:
        """The whole file; a loose one that is compressed counts as what it holds."""
        compression = compression_of(head)
        entry = self.landing.stat(path) if compression is not None else None
        if compression is None or entry is None or self._reader.format_of(entry) != LOOSE:
            file.seek(0)
            return _found(lambda: within(file, self._limit))
        open_file = partial(self.landing.open, path)
        unpacked = lambda: expanded(open_file(), compression, limit_bytes=self._limit)
        return _found(lambda: Content(unpacked, open_file).read(self._limit))

    def _members(self, reading: Reading, name: str, refs: list[SourceRef]) -> Iterator[tuple[SourceRef, Found]]:
        """Members by one pass over the shard, which ends at the last one that is wanted."""
        connector = self._reader.connectors[name]
        if (take := connector.take) is not None:
            for ref in refs:
                data = _found(partial(take, reading, ref))
                if isinstance(data, bytes) and len(data) > self._limit:
                    data = Fault(1008, f"size_bytes={len(data)} not in [0, {self._limit}]")
                yield ref, data
            return
        wanted: dict[str | None, list[SourceRef]] = {}
        for ref in refs:
            wanted.setdefault(ref.member, []).append(ref)
        names = [name for name in wanted if name is not None]
        for item in (
            connector.some(reading, names)
            if connector.some is not None and len(names) == len(wanted)
            else connector.items(reading)
        ):
            content = item.content
            # A faulty row may share the name of the thing that it describes, and has no bytes.
            if item.ref.path != reading.path or item.ref.member not in wanted or content is None:
                continue
            found = _found(partial(content.read, self._limit))
            yield from ((ref, found) for ref in wanted.pop(item.ref.member))
            if not wanted:
                return


def _is_ranged(ref: SourceRef) -> bool:
    return ref.byte_offset is not None and bool(ref.byte_size)


def _spans(refs: Iterable[SourceRef]) -> list[Span]:
    """What will be read of a file for these locators, as far as they say."""
    return [(start, stop) for start, stop, _ in _joined(filter(_is_ranged, refs), before=_BEFORE_BYTES)]


def _found(read: Callable[[], bytes]) -> Found:
    try:
        return read()
    except UnreadableItem as error:
        return Fault.of(error)


def _check_of(path: str, head: bytes) -> Check | None:
    """How ranges are checked in a file with these first bytes; None where it is no archive."""
    if sniff.is_tar_header(head):
        return _is_behind_tar_header
    return _is_behind_zip_header if head.startswith(zip_format.HEADER) or path.lower().endswith(".zip") else None


def _ranges(
    file: IO[bytes], refs: list[SourceRef], *, checked: Check | None
) -> Iterator[tuple[SourceRef, Found | None]]:
    """What lies in the ranges; None for one that does not lie behind the header of its member. checked: whether it
    does, in archives."""
    for start, stop, group in _announced(file, _joined(refs, before=_BEFORE_BYTES if checked else 0)):
        data = _read(file, start, stop)
        if isinstance(data, Fault) and len(group) > 1:
            for ref in group:
                yield from _ranges(file, [ref], checked=checked)
            continue
        for ref in group:
            yield ref, _cut_out(data, start, ref, checked=checked)


def _cut_out(data: Found, start: int, ref: SourceRef, *, checked: Check | None) -> Found | None:
    if isinstance(data, Fault):
        return data
    offset, size = _offset(ref), ref.byte_size or 0
    at = offset - start
    if checked is not None and ref.member is not None and not checked(data[max(0, at - _BEFORE_BYTES) : at], ref):
        return None
    part = data[at : at + size]
    if len(part) == size:
        return part
    return Fault(1002, f"bytes {offset} to {offset + size} are wanted, {len(part) or 'none'} are there")


def _is_behind_zip_header(before: bytes, ref: SourceRef) -> bool:
    """Whether the bytes before a range end with the header of its member. Where a name and what stands behind it are
    longer than what is read, the archive is asked."""
    at = before.rfind(zip_format.HEADER)
    while at >= 0:
        try:
            member, start = zip_format.header_at(Window(io.BytesIO(before)), at)
        except UnreadableItem:
            start = -1
        if start == len(before):
            return (
                member.method == zip_format.STORED
                and label_of(member.name) == (ref.member or "").partition("#dup=")[0]
                and member.size_bytes in (0, ref.byte_size)
            )
        at = before.rfind(zip_format.HEADER, 0, at)
    return False


def _is_behind_tar_header(blocks: bytes, ref: SourceRef) -> bool:
    """Whether the last of the blocks before a range is the header of its member; the one before it may hold a name
    too long or too wide for a header."""
    try:
        name, size = name_and_size(blocks[-BLOCK:])
    except UnreadableItem:
        return False
    label, spelled = (ref.member or "").partition("#dup=")[0], printable(name)
    same = (
        label in (spelled, spelled.replace("#", "%23"))
        or label.encode("utf-8", "replace")[:_NAME_BYTES] in blocks[:-BLOCK]
    )
    return same and size == ref.byte_size


def _read(file: IO[bytes], start: int, stop: int) -> Found:
    try:
        file.seek(start)
        data = file.read(stop - start)
    except UnreadableItem as error:
        return Fault.of(error)
    except Exception as error:  # noqa: BLE001 - the per-range border: the other ranges may well be readable
        return Fault(1001, f"reading bytes {start} to {stop} failed ({type(error).__name__})")
    return bytes(data) if data is not None else Fault(1001, f"reading bytes {start} to {stop} gave no answer")


def _joined(refs: Iterable[SourceRef], *, before: int) -> Iterator[tuple[int, int, list[SourceRef]]]:
    """(start, stop, ranges inside) of the reads that cover the ranges and so many bytes before each."""
    start = stop = 0
    group: list[SourceRef] = []
    for ref in sorted(refs, key=lambda ref: (_offset(ref), ref.byte_size or 0)):
        first, last = max(0, _offset(ref) - before), _offset(ref) + (ref.byte_size or 0)
        if group and (first > stop + _GAP_BYTES or max(stop, last) - start > _READ_BYTES):
            yield start, stop, group
            group = []
        if not group:
            start, stop = first, last
        stop = max(stop, last)
        group.append(ref)
    if group:
        yield start, stop, group


def _offset(ref: SourceRef) -> int:
    return ref.byte_offset or 0


def _announced(file: IO[bytes], reads: Iterable[Read]) -> Iterator[Read]:
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
