"""Separated values whose line of names has a text: one text record per row, other cells as its metadata, all of them
strings.

`.tsv` is separated by tabs, `.csv` by commas, or by semicolons or bars where the line of names says so and no comma
would do. A table without the name of a text is a document, as is one beside a medium that is called like it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.utf16 import UTF_16, decoded_head
from mmlake.sources.connectors.json_lines import row_of_fault, rows_of_fields, stream_of
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.lines import separated_lines
from mmlake.sources.settings import SourceSettings
from mmlake.streams import read_up_to

if TYPE_CHECKING:
    from mmlake.sources.companions.siblings import Neighbours

_OTHERS = (";", "|")  # what else separates a `.csv`


def claims(head: bytes, name: str) -> bool:
    """Whether the first bytes may be a line of names, with more behind it."""
    return b"\n" in head and (sniff.is_textual(head) or head.startswith(UTF_16))


def is_told(look: Callable[[int], bytes], name: str, neighbours: Neighbours) -> bool:
    """Whether the file lies alone, and one of its names is that of a text."""
    return neighbours.leave_alone(name) and holds_records(look, name, neighbours.settings)


def holds_records(look: Callable[[int], bytes], name: str, settings: SourceSettings) -> bool:
    """Whether one of the names is that of a text."""
    return delimiter_of(look(sniff.HEAD_BYTES), name, settings=settings) is not None


def delimiter_of(head: bytes, name: str, *, settings: SourceSettings) -> str | None:
    """What separates the cells, where one of the names in the first line is that of a text; None where none is.

    A comma where it gives such a name, whatever else would. Else the one of the others that gives such a name among
    several, and a first row of as many cells, as far as the bytes go; none where both do.
    """
    first, _, behind = decoded_head(head).lstrip("\r\n").partition("\n")
    is_tabbed = sniff.extension_of(name) == "tsv"
    usual = "\t" if is_tabbed else ","
    if record_fields.may_hold_texts(_cells(first, usual), settings=settings):
        return usual
    found = []
    for delimiter in () if is_tabbed else _OTHERS:
        names = _cells(first, delimiter)
        row, newline, _ = behind.partition("\n")
        # A quote may go on over several lines: such a row is not counted.
        is_counted = bool(newline) and bool(row.strip()) and '"' not in row
        if (
            len(names) > 1
            and record_fields.may_hold_texts(names, settings=settings)
            and (not is_counted or len(_cells(row, delimiter)) == len(names))
        ):
            found.append(delimiter)
    return found[0] if len(found) == 1 else None


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of one line; none where its quotes do not close."""
    reader = csv.reader(
        [line.rstrip("\r")],
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
    )
    try:
        return [cell.strip() for cell in next(reader, [])]
    except csv.Error:
        return []


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the records in order, broken ones included."""
    names, line = SampleNames(reading.key), None
    with stream_of(reading) as stream:
        head = _head(stream)
    delimiter = delimiter_of(head, reading.path, settings=reading.settings)
    for line in separated_lines(reading, delimiter, has_quotes=None if delimiter is None else delimiter != "\t"):
        if line.fault is not None:
            yield row_of_fault(line.fault, line.name, line.number, reading, names)
        else:
            yield from rows_of_fields(line.fields, line.name, line.number, reading, names)
    if line is None:
        yield reading.fault(1006, "num_records=0 not in [1, inf)", modality="text", content=Content(reading.open))


def _head(stream: IO[bytes]) -> bytes:
    """The first bytes; fewer where the stream breaks."""
    try:
        return read_up_to(stream, sniff.HEAD_BYTES)
    except UnreadableItem:
        return b""
