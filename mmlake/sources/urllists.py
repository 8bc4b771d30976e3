"""The lines of a list of URLs, whatever it is written in: plain lines, JSON lines, comma or tab separated values, Parquet.

Enters: a shard. Leaves: one `Line` per record, good or bad, in their order; nothing is fetched here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.sources import texts
from mmlake.sources.columns import cells_of, plain_of
from mmlake.sources.compression import SUFFIXES, compression_of
from mmlake.sources.jsonl import lines_of, stream_of
from mmlake.sources.rowgroups import BROKEN, opened, plan
from mmlake.sources.rows import Fault, Reading
from mmlake.sources.sniff import is_textual

_ENDINGS = (".urls", ".urls.txt", ".urls.jsonl", ".urls.csv", ".urls.tsv")
ENDINGS = (*_ENDINGS, *(f"{ending}{suffix}" for ending in _ENDINGS for suffix in SUFFIXES), ".urls.parquet")

_URL = "url"


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a list."""

    name: str  # "line:7" or "row:7", counted from 1
    number: int
    fields: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is a list of URLs: its name says so, and its bytes are text or Parquet."""
    lower = name.lower()
    if lower.endswith(".urls.parquet"):
        return head.startswith(b"PAR1")
    return lower.endswith(ENDINGS) and (not head or is_textual(head)) and compression_of(head) is None


def lines(reading: Reading) -> Iterator[Line]:
    """The records of the list. Where it breaks, a last one says so."""
    name = reading.path.lower()
    name = name.removesuffix(next((suffix for suffix in SUFFIXES if name.endswith(suffix)), ""))
    if name.endswith(".parquet"):
        yield from _parquet(reading)
        return
    read = _json_lines if name.endswith(".jsonl") else _separated if name.endswith((".csv", ".tsv")) else _plain
    number = 0
    try:
        for line in read(reading):
            number = line.number
            yield line
    except UnreadableItem as error:
        yield Line(f"line:{number + 1}", number + 1, fault=Fault(1001 if error.code == 1003 else error.code, f"{error.reason}; {number} lines were read"))


def _numbered(reading: Reading) -> Iterator[tuple[int, bytes | int]]:
    with stream_of(reading) as stream:
        yield from enumerate(lines_of(stream, reading.settings.max_line_bytes), 1)


def _too_long(size_bytes: int, reading: Reading) -> Fault:
    return Fault(1008, f"line_bytes={size_bytes} not in [0, {reading.settings.max_line_bytes}]")


def _plain(reading: Reading) -> Iterator[Line]:
    for number, line in _numbered(reading):
        if isinstance(line, int):
            yield Line(f"line:{number}", number, fault=_too_long(line, reading))
            continue
        data = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
        if not data or data.startswith(b"#"):
            continue
        try:
            yield Line(f"line:{number}", number, {_URL: data.decode()})
        except UnicodeDecodeError as error:
            yield Line(f"line:{number}", number, fault=Fault(1004, f"the line is not UTF-8 at byte {error.start}"))


def _json_lines(reading: Reading) -> Iterator[Line]:
    for number, line in _numbered(reading):
        if isinstance(line, int):
            yield Line(f"line:{number}", number, fault=_too_long(line, reading))
        elif line.strip():
            try:
                yield Line(f"line:{number}", number, texts.parse_object(line, settings=reading.settings))
            except UnreadableItem as error:
                yield Line(f"line:{number}", number, fault=Fault.of(error))


def _separated(reading: Reading) -> Iterator[Line]:
    """Comma or tab separated values (RFC 4180) with a line of names; an empty cell has no value."""
    broken: list[Fault] = []

    def decoded() -> Iterator[str]:
        for number, line in _numbered(reading):
            if isinstance(line, int):
                broken.append(_too_long(line, reading))
                yield "\n"
                continue
            try:
                yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode() + "\n"
            except UnicodeDecodeError as error:
                broken.append(Fault(1004, f"the line is not UTF-8 at byte {error.start}"))
                yield line.decode("utf-8", "backslashreplace") + "\n"

    tabs = ".tsv" in reading.path.lower()
    reader = csv.reader(decoded(), delimiter="\t" if tabs else ",", strict=True, quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    names: list[str] | None = None
    number = 0
    while True:
        fault = None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells, fault = (
                [],
                Fault(1003, f"the quotes of the record that ends on line {reader.line_num} do not close, or a cell is longer than {csv.field_size_limit()} characters"),
            )
        fault = broken.pop() if broken else fault
        broken.clear()
        if not cells and fault is None:
            continue
        if names is None:
            names = [name.strip() for name in cells]
            if fault is not None:
                raise UnreadableItem(fault.code, f"{fault.reason}, in the line of names")
            continue
        number += 1
        if fault is None and len(cells) != len(names):
            fault = Fault(1003, f"num_cells={len(cells)} not in [{len(names)}, {len(names)}]")
        fields = {} if fault else {name: cell for name, cell in zip(names, cells, strict=True) if cell}
        yield Line(f"row:{number}", number, fields, fault)


def _parquet(reading: Reading) -> Iterator[Line]:
    with reading.open() as stream:
        try:
            file = opened(stream)
        except UnreadableItem as error:
            yield Line("row:1", 1, fault=Fault.of(error))
            return
        first = 0
        for group in range(file.num_row_groups):
            num_rows, number = file.metadata.row_group(group).num_rows, first
            where = f"row group {group} of {file.num_row_groups}"
            fault = None
            try:
                for batch in plan(file, group, stream, reading.settings).batches(file, stream, group):
                    for cells in cells_of(batch, settings=reading.settings):
                        number += 1
                        yield _row(number, cells)
            except UnreadableItem as error:
                fault = Fault(error.code, f"{where}: {error.reason}; its {num_rows} rows are not read")
            except BROKEN:
                fault = Fault(1001, f"{where}: rows {number + 1} to {first + num_rows} cannot be read, or fail their checksum")
            if fault is not None:
                yield Line(f"group:{group}", number + 1, fault=fault)
            first += num_rows


def _row(number: int, cells: dict[str, Any] | Fault) -> Line:
    if isinstance(cells, Fault):
        return Line(f"row:{number}", number, fault=cells)
    return Line(f"row:{number}", number, {name: plain_of(value) for name, value in cells.items() if value is not None})
