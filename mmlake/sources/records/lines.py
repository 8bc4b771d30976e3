"""Records of a list, whatever it is written in: plain lines, JSON lines, a JSON list, separated values, Parquet; and
their rows.

Enters: a shard. Leaves: one `Line` per record, good or bad, in their order, and of each the rows: every text of it,
interleaved images at their places, or one row that says why it has none. Nothing is fetched here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.formats.charsets import as_utf_8
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.formats.compression import MARK_BYTES, SUFFIXES, compression_of, expanded, expanded_head
from mmlake.formats.json_elements import BOM, CutElement, elements_of
from mmlake.formats.sniff import HEAD_BYTES, extension_of
from mmlake.formats.texts import lines_of
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, Opener, RawItem, Reading, become_text
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.cells import group_cells, limits_of, metadata_of
from mmlake.sources.records.fields import first_field, licence_field, spellings
from mmlake.sources.records.separated_values import cells_by_name
from mmlake.sources.settings import SourceSettings
from mmlake.streams import read_up_to

_ENDINGS = (".urls", ".urls.txt", ".urls.json", ".urls.jsonl", ".urls.csv", ".urls.tsv")
# of names of lists of URLs
ENDINGS = (*_ENDINGS, *(f"{ending}{suffix}" for ending in _ENDINGS for suffix in SUFFIXES), ".urls.parquet")

_URL = "url"


@dataclass(slots=True)  # not frozen, which doubles what it costs to make one
class Line:
    """One record of a list."""

    name: str  # "line:7" or "row:7", counted from 1
    number: int
    fields: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    data: bytes | None = None  # its bytes, where they are JSON or cannot be read, and are few enough
    size_bytes: int = 0  # of a record whose bytes are too many


def stream_of(reading: Reading) -> IO[bytes]:
    """The shard's file, expanded where it is compressed, for reading in order."""
    return expanded_stream(reading.open(), reading.settings)


def expanded_stream(file: IO[bytes], settings: SourceSettings) -> IO[bytes]:
    """What the file expands to, for reading in order; the file itself where it is not compressed."""
    compression = compression_of(file.read(MARK_BYTES))
    file.seek(0)
    return expanded(file, compression, limit_bytes=settings.max_shard_bytes) if compression else file


def head_reader(head: bytes, open_file: Opener) -> Callable[[int], bytes]:
    """A way to so many of a file's first bytes, expanded where it is compressed. head: its first HEAD_BYTES as they
    lie."""
    compression = compression_of(head)

    def head_of(size_bytes: int) -> bytes:
        if compression is None and (size_bytes <= len(head) or len(head) < HEAD_BYTES):
            return head[:size_bytes]
        with open_file() as file:
            if compression is None:
                return read_up_to(file, size_bytes)
            return expanded_head(file, compression, size_bytes=size_bytes)

    return head_of


def lines(reading: Reading) -> Iterator[Line]:
    """The records of a list of URLs, or of a table of descriptions. Where it breaks, a last one says so."""
    name = reading.path.lower()
    name = name.removesuffix(next((suffix for suffix in SUFFIXES if name.endswith(suffix)), ""))
    extension = extension_of(name)
    if name.endswith(".parquet"):
        yield from _parquet(reading)
    elif extension in ("csv", "tsv"):
        yield from separated_lines(reading)
    else:
        yield from to_the_end(reading, {"json": json_elements, "jsonl": json_lines}.get(extension, _plain))


def json_records(reading: Reading, *, is_list: bool) -> Iterator[Line]:
    """The records of a JSON list, or of JSON lines, whatever the file is called, without the bytes of good ones. Where
    it breaks, a last one says so."""
    return to_the_end(reading, json_elements if is_list else json_lines)


def separated_lines(
    reading: Reading, delimiter: str | None = None, names: tuple[str, ...] = (), *, has_quotes: bool | None = None
) -> Iterator[Line]:
    """The records of a table of separated values. Where it breaks, a last one says so.

    delimiter: None takes what the name says. names: of the cells, where no line says so. has_quotes: None says that
    only commas do.
    """
    delimiter = delimiter or ("\t" if extension_of(reading.path) == "tsv" else ",")
    quotes = delimiter == "," if has_quotes is None else has_quotes

    def read(reading: Reading) -> Iterator[Line]:
        with stream_of(reading) as stream:
            for number, cells, fault in cells_by_name(
                stream, delimiter, names=names, has_quotes=quotes, settings=reading.settings
            ):
                yield Line(f"row:{number}", number, cells, fault)

    return to_the_end(reading, read)


def cut_lines(reading: Reading, names: tuple[str, ...], cells_of: Callable[[str], list[str]]) -> Iterator[Line]:
    """The records of lines that a function cuts into as many cells as there are names. Where the file breaks, a last
    one says so."""

    def read(reading: Reading) -> Iterator[Line]:
        with stream_of(reading) as stream:
            for number, data in enumerate(lines_of(as_utf_8(stream), reading.settings.max_line_bytes), 1):
                label = f"line:{number}"
                if isinstance(data, int):
                    yield too_long(label, number, data, reading)
                elif data.strip():
                    try:
                        cells = cells_of(data.removeprefix(BOM).decode())
                    except UnicodeDecodeError as error:
                        yield not_utf_8(label, number, error, data)
                        continue
                    fault = (
                        Fault(1003, f"num_cells={len(cells)} not in [{len(names)}, {len(names)}]")
                        if len(cells) != len(names)
                        else None
                    )
                    yield Line(label, number, {} if fault else dict(zip(names, cells, strict=True)), fault, data)

    return to_the_end(reading, read)


def to_the_end(reading: Reading, read: Callable[[Reading], Iterator[Line]]) -> Iterator[Line]:
    """The records that a function reads. Where the file breaks, a last one says so."""
    number = 0
    try:
        for line in read(reading):
            number = line.number
            if line.fault is None:
                line.data = None  # the fields say the same, and many lines may wait for their addresses
            yield line
    except UnreadableItem as error:
        yield Line(f"line:{number + 1}", number + 1, fault=fault_of_end(error, f"{number} lines"))


def fault_of_end(error: UnreadableItem, read: str) -> Fault:
    """Why nothing more of a list is read. read: how much was, with its unit."""
    return Fault(1001 if error.code == 1003 else error.code, f"{error.reason}; {read} were read")


def numbered_lines(reading: Reading) -> Iterator[tuple[int, bytes | int]]:
    """(number from 1, line or the size of one that is too long) of the shard's file."""
    with stream_of(reading) as stream:
        yield from enumerate(lines_of(stream, reading.settings.max_line_bytes), 1)


def too_long(label: str, number: int, size_bytes: int, reading: Reading) -> Line:
    """A record of more bytes than the settings allow."""
    fault = Fault(1008, f"line_bytes={size_bytes} not in [0, {reading.settings.max_line_bytes}]")
    return Line(label, number, fault=fault, size_bytes=size_bytes)


def not_utf_8(label: str, number: int, error: UnicodeDecodeError, data: bytes | None = None) -> Line:
    """A record that is no UTF-8."""
    return Line(label, number, fault=Fault(1004, f"the line is not UTF-8 at byte {error.start}"), data=data)


def _plain(reading: Reading) -> Iterator[Line]:
    for number, line in numbered_lines(reading):
        if isinstance(line, int):
            yield too_long(f"line:{number}", number, line, reading)
            continue
        data = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
        if not data or data.startswith(b"#"):
            continue
        try:
            yield Line(f"line:{number}", number, {_URL: data.decode()})
        except UnicodeDecodeError as error:
            yield not_utf_8(f"line:{number}", number, error)


def json_lines(reading: Reading) -> Iterator[Line]:
    """The records of JSON lines, with their bytes. Raises UnreadableItem behind the last one where the file breaks."""
    for number, line in numbered_lines(reading):
        if isinstance(line, int) or line.strip():
            yield json_record(line, "line", number, reading)


def json_elements(reading: Reading) -> Iterator[Line]:
    """The records of a JSON list, with their bytes. Raises UnreadableItem behind the last one where the list breaks."""
    with stream_of(reading) as stream:
        for number, element in enumerate(elements_of(stream, reading.settings.max_line_bytes), 1):
            yield json_record(element, "row", number, reading)


def json_record(data: bytes | int, unit: str, number: int, reading: Reading) -> Line:
    """The record that a JSON object is, with its bytes. data: these, or how many there are where they are too many."""
    label = f"{unit}:{number}"
    if isinstance(data, int):
        return too_long(label, number, data, reading)
    try:
        # by position: there is one for every record of a list
        return Line(label, number, texts.parse_object(data, settings=reading.settings), None, data)
    except UnreadableItem as error:
        return Line(label, number, fault=Fault.of(error), data=data)


def _parquet(reading: Reading) -> Iterator[Line]:
    try:
        with ParquetReader(reading.open, limits_of(reading.settings)) as file:
            number = first = 0
            for group, num_rows in enumerate(file.groups):
                try:
                    for number, cells in group_cells(file, group, first, reading.settings):
                        fields, fault = ({}, cells) if isinstance(cells, Fault) else (metadata_of(cells, ()), None)
                        yield Line(f"row:{number}", number, fields, fault)
                except UnreadableItem as error:
                    yield Line(f"group:{group}", number + 1, fault=Fault.of(error))
                number = first = first + num_rows
    except UnreadableItem as error:
        yield Line("row:1", 1, fault=Fault(error.code, error.reason or "the footer of the Parquet file cannot be read"))


def text_alone(reading: Reading) -> tuple[str, ...]:
    """The modalities of a file of records whose rows are all texts."""
    return ("text",)


def rows_of_lines(lines: Iterable[Line], reading: Reading, unit: str, *, image_home: str = "text") -> Iterator[RawItem]:
    """The rows of the records in order. Where the file breaks, a last row says so, with what is there of a record that
    is cut. unit: what the reason counts. image_home: as for `rows_of_line`."""
    names, number = SampleNames(reading.key), 0
    try:
        for line in lines:
            number = line.number
            yield from rows_of_line(line, reading, names, image_home=image_home)
    except UnreadableItem as error:
        fault = fault_of_end(error, f"{number} {unit}")
        if isinstance(error, CutElement) and error.data:
            cut = reading.fault(fault.code, fault.reason, modality="text", member=f"row:{number + 1}")
            yield with_bytes(cut, error.data)
        else:
            yield reading.fault(fault.code, fault.reason, modality="text")


def rows_of_line(line: Line, reading: Reading, names: SampleNames, *, image_home: str = "text") -> Iterator[RawItem]:
    """The rows of one record of a list. image_home: the modality whose table gets the images that a record lists among
    its texts."""
    if line.fault is None:  # no generator of its own, which every record would pay
        return _rows(line, reading, names, image_home)
    item = _row_of_fault(line.fault, line.name, reading.path, names.of(None, line.number))
    item.size_bytes = line.size_bytes
    return iter((item if line.data is None else with_bytes(item, line.data),))


def _rows(line: Line, reading: Reading, names: SampleNames, image_home: str) -> Iterator[RawItem]:
    fields, label, number = line.fields, line.name, line.number
    settings, path = reading.settings, reading.path
    found = record_fields.text_fields(fields, (), settings=settings)
    may_be_listed = not found or interleaved.is_listed(fields, settings=settings)
    parts = interleaved.parts_of(fields, settings=settings) if may_be_listed else []
    identity = first_field(fields, settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    if not found and not parts:
        blank = _row_of_fault(Fault(1003, _no_text(fields, settings)), label, path, sample_id)
        yield with_bytes(blank, canonical_json(fields).encode() if line.data is None else line.data)
        return
    used, first = record_fields.taken(found), 0
    if parts:
        used |= interleaved.used_lists(fields, settings=settings)
    metadata, licence = record_fields.without(fields, used), licence_field(fields, settings)
    blank = RawItem("text", SourceRef(path, label), sample_id, metadata=metadata, licence=licence)
    if parts:

        def locate(pointer: str) -> SourceRef:
            return SourceRef(path, f"{label}#/{pointer}")

        yield from (item for _, item in interleaved.items_of_parts(parts, blank, locate=locate, image_home=image_home))
        first = parts[-1].position + 1
    for position, one in enumerate(found, first):
        # A text at the beginning is the record's; a locator of another one says where in the record it stands.
        ref = SourceRef(path, f"{label}#{one.pointer}") if position else blank.ref
        item = RawItem("text", ref, sample_id, position, metadata=metadata, own=one.own, licence=licence)
        yield become_text(item, one.text, one.role)


def _no_text(fields: Mapping[str, Any], settings: SourceSettings) -> str:
    """Why a record has no text."""
    if not fields:
        return "the record has no fields"
    named = spellings(tuple(fields), settings.text_fields, settings.caption_fields, settings.transcript_fields)
    for name in itertools.chain.from_iterable(named):
        value = fields[name]
        kind = "null" if value is None else f"of type {type(value).__name__}"
        return f"the field {name!r} is {kind}, expected a text"
    remedy = "name the one that is in sources.text_fields"
    return f"none of the fields {sorted(fields)[:12]} is a text field; {remedy}"


def _row_of_fault(fault: Fault, label: str, path: str, sample_id: str) -> RawItem:
    """The row of a record that says nothing, without bytes."""
    return RawItem(modality="text", role="document", ref=SourceRef(path, label), sample_id=sample_id, fault=fault)


def with_bytes(item: RawItem, data: bytes) -> RawItem:
    """The row with the bytes of its record."""
    return item.replace(
        content=Content.of_bytes(data), content_type="application/json", extension="json", size_bytes=len(data)
    )
