"""The lines of a list of URLs, whatever it is written in: plain lines, JSON lines, comma or tab separated values,
Parquet.

Enters: a shard. Leaves: one `Line` per record, good or bad, in their order; nothing is fetched here.
"""

from __future__ import annotations

import csv
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.formats.compression import SUFFIXES, compression_of
from mmlake.formats.json_elements import elements_of
from mmlake.formats.sniff import extension_of, is_textual
from mmlake.formats.utf16 import as_utf_8
from mmlake.sources.connectors.json_lines import lines_of, stream_of
from mmlake.sources.raw_items import Reading
from mmlake.sources.tables.columns import cells_of, plain_of
from mmlake.sources.tables.tabular import limits_of

_ENDINGS = (".urls", ".urls.txt", ".urls.json", ".urls.jsonl", ".urls.csv", ".urls.tsv")
ENDINGS = (*_ENDINGS, *(f"{ending}{suffix}" for ending in _ENDINGS for suffix in SUFFIXES), ".urls.parquet")

_URL = "url"


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a list."""

    name: str  # "line:7" or "row:7", counted from 1
    number: int
    fields: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    data: bytes = b""  # of a record that cannot be read, where they are few enough


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
    read = {"json": _json_list, "jsonl": _json_lines, "csv": _separated, "tsv": _separated}.get(
        extension_of(name), _plain
    )
    yield from _to_the_end(reading, read)


def json_records(reading: Reading, *, is_list: bool) -> Iterator[Line]:
    """The records of a JSON list, or of JSON lines, whatever the file is called. Where it breaks, a last one says
    so."""
    return _to_the_end(reading, _json_list if is_list else _json_lines)


def separated_lines(
    reading: Reading, delimiter: str | None = None, names: tuple[str, ...] = (), *, has_quotes: bool | None = None
) -> Iterator[Line]:
    """The records of a table of separated values. Where it breaks, a last one says so.

    delimiter: None takes what the name says. names: of the cells, where no line says so. has_quotes: None says that
    only commas do.
    """
    return _to_the_end(reading, lambda reading: _separated(reading, delimiter, names, has_quotes))


def _to_the_end(reading: Reading, read: Callable[[Reading], Iterator[Line]]) -> Iterator[Line]:
    number = 0
    try:
        for line in read(reading):
            number = line.number
            yield line
    except UnreadableItem as error:
        yield Line(
            f"line:{number + 1}",
            number + 1,
            fault=Fault(1001 if error.code == 1003 else error.code, f"{error.reason}; {number} lines were read"),
        )


def _numbered(
    reading: Reading, as_read: Callable[[IO[bytes]], IO[bytes]] = lambda stream: stream
) -> Iterator[tuple[int, bytes | int]]:
    with stream_of(reading) as stream:
        yield from enumerate(lines_of(as_read(stream), reading.settings.max_line_bytes), 1)


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
        if isinstance(line, int) or line.strip():
            yield _object(line, "line", number, reading)


def _json_list(reading: Reading) -> Iterator[Line]:
    with stream_of(reading) as stream:
        for number, element in enumerate(elements_of(stream, reading.settings.max_line_bytes), 1):
            yield _object(element, "row", number, reading)


def _object(data: bytes | int, unit: str, number: int, reading: Reading) -> Line:
    """The record that a JSON object is. data: its bytes, or how many there are where they are too many."""
    name = f"{unit}:{number}"
    if isinstance(data, int):
        return Line(name, number, fault=_too_long(data, reading))
    try:
        return Line(name, number, texts.parse_object(data, settings=reading.settings))
    except UnreadableItem as error:
        return Line(name, number, fault=Fault.of(error), data=data)


class _Lines:
    """The decoded lines of a table, whose reader asks for as many as a record has."""

    def __init__(self, reading: Reading, delimiter: bytes) -> None:
        self._numbered, self._reading, self._delimiter = _numbered(reading, as_utf_8), reading, delimiter
        self._left_bytes = self._left_values = 0
        self.fault: Fault | None = None  # of the record

    def begin_record(self) -> None:
        """A record is asked for: the lines from here on are its own."""
        settings = self._reading.settings
        self._left_bytes, self._left_values, self.fault = settings.max_line_bytes, settings.max_json_values, None

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = next(self._numbered)
        if isinstance(line, int):
            self.fault = _too_long(line, self._reading)
            return "\n"
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            limit = self._reading.settings.max_line_bytes
            self.fault = Fault(1008, f"record_bytes>={limit - self._left_bytes} not in [0, {limit}]")
            raise _EndlessRecord
        self._left_values -= line.count(self._delimiter)
        if self._left_values < 0:
            limit = self._reading.settings.max_json_values
            self.fault = Fault(1008, f"num_cells>={limit - self._left_values} not in [0, {limit}]")
            return "\n"
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        try:
            return line.decode() + "\n"
        except UnicodeDecodeError as error:
            self.fault = Fault(1004, f"the line is not UTF-8 at byte {error.start}")
            return line.decode("utf-8", "backslashreplace") + "\n"


class _EndlessRecord(Exception):
    """A quoted cell goes on over more lines than a record may have. What follows is read as records again."""


_CELL_CHARS: list[int] = []  # what each table that is being read allows a cell
_CELL_LOCK = threading.Lock()


@contextmanager
def _long_cells(max_chars: int) -> Iterator[None]:
    """The module csv has one limit for the whole process, 131,072 characters, less than a document may have: it is
    raised while tables are read, and set back behind them."""
    with _CELL_LOCK:
        if not _CELL_CHARS:
            _CELL_CHARS.append(csv.field_size_limit())
        _CELL_CHARS.append(max_chars)
        csv.field_size_limit(max(_CELL_CHARS))
    try:
        yield
    finally:
        with _CELL_LOCK:
            _CELL_CHARS.remove(max_chars)
            csv.field_size_limit(max(_CELL_CHARS))
            if len(_CELL_CHARS) == 1:
                _CELL_CHARS.clear()


def _separated(
    reading: Reading, delimiter: str | None = None, given: tuple[str, ...] = (), has_quotes: bool | None = None
) -> Iterator[Line]:
    """Comma separated values (RFC 4180), or others, which have no quotes, with a line of names; an empty cell has no
    value."""
    with _long_cells(reading.settings.max_text_bytes):
        yield from _records(reading, delimiter, given, has_quotes)


def _records(
    reading: Reading, delimiter: str | None, given: tuple[str, ...], has_quotes: bool | None
) -> Iterator[Line]:
    delimiter = delimiter or ("\t" if extension_of(reading.path) == "tsv" else ",")
    has_quotes = delimiter == "," if has_quotes is None else has_quotes
    lines = _Lines(reading, delimiter.encode())
    reader = csv.reader(
        lines, delimiter=delimiter, strict=True, quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    )
    names, number = list(given), 0
    while True:
        fault, cells = None, list[str]()
        lines.begin_record()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            fault = Fault(
                1003,
                f"the quotes of the record that ends on line {reader.line_num} do not close, or a cell is longer "
                f"than {csv.field_size_limit()} characters",
            )
        except _EndlessRecord:
            pass
        fault = lines.fault or fault
        if not cells and fault is None:
            continue
        if not names:
            if fault is not None:
                raise UnreadableItem(fault.code, f"{fault.reason}, in the line of names")
            names = _told_apart([name.strip() for name in cells])
            continue
        number += 1
        if fault is None and len(cells) != len(names) and not (given and 1 < len(cells) < len(given)):
            fault = Fault(1003, f"num_cells={len(cells)} not in [{2 if given else len(names)}, {len(names)}]")
        fields = {} if fault else {name: cell for name, cell in zip(names, cells, strict=False) if cell}
        yield Line(f"row:{number}", number, fields, fault)


def _told_apart(names: list[str]) -> list[str]:
    """The names, each once: a number behind a second one, so that no cell hides another."""
    counts = Counter[str]()
    found = []
    for name in names:
        found.append(f"{name}.{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return found


def _parquet(reading: Reading) -> Iterator[Line]:
    try:
        with ParquetReader(reading.open, limits_of(reading.settings)) as file:
            yield from _parquet_rows(file, reading)
    except UnreadableItem as error:
        yield Line("row:1", 1, fault=Fault(error.code, error.reason or "the footer of the Parquet file cannot be read"))


def _parquet_rows(file: ParquetReader, reading: Reading) -> Iterator[Line]:
    first = 0
    for group, num_rows in enumerate(file.groups):
        number = first
        try:
            for batch in file.batches(group):
                for cells in cells_of(batch, settings=reading.settings):
                    number += 1
                    yield _row(number, cells)
        except UnreadableItem as error:
            reason = f"row group {group} of {len(file.groups)}: rows {number + 1} to {first + num_rows} cannot be read"
            reason += f": {error.reason or 'they are damaged, or fail their checksum'}"
            yield Line(f"group:{group}", number + 1, fault=Fault(error.code, reason))
        first += num_rows


def _row(number: int, cells: dict[str, Any] | Fault) -> Line:
    if isinstance(cells, Fault):
        return Line(f"row:{number}", number, fault=cells)
    return Line(f"row:{number}", number, {name: plain_of(value) for name, value in cells.items() if value is not None})
