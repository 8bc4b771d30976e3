"""Separated values whose line of names has a text: one text record per row, other cells as its metadata, all of them
strings.

`.tsv` is separated by tabs, `.csv` by commas, or by semicolons or bars where the line of names says so and no comma
would do. A table without the name of a text is a document, as is one that is called like a medium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.charsets import UTF_16, decoded_head
from mmlake.sources.companions.siblings import has_no_medium
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.lines import rows_of_line, separated_lines, stream_of, text_alone
from mmlake.sources.records.separated_values import first_cells
from mmlake.sources.settings import SourceSettings
from mmlake.streams import read_up_to

_OTHERS = (";", "|")  # what else separates a `.csv`
modalities, is_kept = text_alone, has_no_medium


def claims(head: bytes, name: str) -> bool:
    """Whether the first bytes may be a line of names, with more behind it."""
    return b"\n" in head and (sniff.is_textual(head) or head.startswith(UTF_16))


def holds_records(head: Callable[[int], bytes], name: str, settings: SourceSettings) -> bool:
    """Whether one of the columns has the name of a text. head: gives so many of the file's first bytes."""
    return delimiter_of(head(sniff.HEAD_BYTES), name, settings=settings) is not None


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
    return first_cells(line.rstrip("\r"), delimiter, has_quotes=delimiter != "\t", is_strict=True)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the records in order, broken ones included."""
    names, line = SampleNames(reading.key), None
    with stream_of(reading) as stream:
        head = _head(stream)
    delimiter = delimiter_of(head, reading.path, settings=reading.settings)
    for line in separated_lines(reading, delimiter, has_quotes=None if delimiter is None else delimiter != "\t"):
        yield from rows_of_line(line, reading, names)
    if line is None:
        yield reading.empty(what="num_records")


def _head(stream: IO[bytes]) -> bytes:
    """The first bytes; fewer where the stream breaks."""
    try:
        return read_up_to(stream, sniff.HEAD_BYTES)
    except UnreadableItem:
        return b""
