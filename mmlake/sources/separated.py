"""Comma or tab separated values whose line of names has a text: one text record per row, other cells as its metadata, all of them strings.

A table without such a name is a document, as is one beside a medium that is called like it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator

from mmlake.sources import fields as record_fields
from mmlake.sources import sniff
from mmlake.sources.jsonl import SampleNames, row_of_fault, rows_of_fields
from mmlake.sources.neighbours import Neighbours
from mmlake.sources.rows import Content, RawItem, Reading
from mmlake.sources.urllists import separated_lines


def claims(head: bytes, name: str) -> bool:
    """Whether the first bytes may be a line of names, with more behind it."""
    return b"\n" in head and sniff.is_textual(head)


def is_told(look: Callable[[int], bytes], name: str, neighbours: Neighbours) -> bool:
    """Whether the file lies alone, and one of its names is that of a text."""
    return neighbours.leave_alone(name) and record_fields.may_hold_texts(names_of(look(sniff.HEAD_BYTES), name), settings=neighbours.settings)


def names_of(head: bytes, name: str) -> list[str]:
    """The names in the first line of a table; none where it is no such line."""
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")[0].decode("utf-8", "replace")
    tabs = sniff.extension_of(name) == "tsv"
    try:
        return [cell.strip() for cell in next(csv.reader([first], delimiter="\t" if tabs else ",", strict=True, quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL), [])]
    except csv.Error:
        return []


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the records in order, broken ones included."""
    names, line = SampleNames(reading.key), None
    for line in separated_lines(reading):
        if line.fault is not None:
            yield row_of_fault(line.fault, line.name, line.number, reading, names)
        else:
            yield from rows_of_fields(line.fields, line.name, line.number, reading, names)
    if line is None:
        yield reading.fault(1006, "num_records=0 not in [1, inf)", modality="text", content=Content(reading.open))
