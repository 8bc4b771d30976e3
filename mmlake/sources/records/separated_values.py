"""Records of separated values: comma separated ones (RFC 4180), or others, which may have no quotes.

Enters: a stream. Leaves: the cells of each record by name, good or bad; an empty cell has no value.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, Final, Literal

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.charsets import as_utf_8
from mmlake.formats.texts import lines_of
from mmlake.sources.settings import SourceSettings

# whether there are quotes -> what the module csv calls it
QUOTING: Final[dict[bool, Literal[0, 3]]] = {True: csv.QUOTE_MINIMAL, False: csv.QUOTE_NONE}
_LEAST_CELL_CHARS = 131_072  # what a cell may have under any settings: as many as the module csv allows by itself


def first_cells(line: str, delimiter: str, *, has_quotes: bool, is_strict: bool = False) -> list[str]:
    """The cells of one line without white space around them; none where it cannot be cut into cells. is_strict: quotes
    must close."""
    reader = csv.reader([line], delimiter=delimiter, strict=is_strict, quoting=QUOTING[has_quotes])
    try:
        return [cell.strip() for cell in next(reader, [])]
    except csv.Error:
        return []


class _Lines:
    """The decoded lines of a table, whose reader asks for as many as a record has."""

    def __init__(self, stream: IO[bytes], delimiter: bytes, settings: SourceSettings) -> None:
        self._numbered = enumerate(lines_of(as_utf_8(stream), settings.max_line_bytes), 1)
        self._settings, self._delimiter = settings, delimiter
        self._left_bytes = self._left_values = 0
        self.fault: Fault | None = None  # of the record

    def begin_record(self) -> None:
        """A record is asked for: the lines from here on are its own."""
        self._left_bytes, self._left_values = self._settings.max_line_bytes, self._settings.max_json_values
        self.fault = None

    @property
    def num_bytes(self) -> int:
        """What the record has so far."""
        return self._settings.max_line_bytes - self._left_bytes

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = next(self._numbered)
        max_bytes, max_values = self._settings.max_line_bytes, self._settings.max_json_values
        if isinstance(line, int):
            self.fault = Fault(1008, f"line_bytes={line} not in [0, {max_bytes}]")
            return "\n"
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            self.fault = Fault(1008, f"record_bytes>={max_bytes - self._left_bytes} not in [0, {max_bytes}]")
            raise _EndlessRecord
        self._left_values -= line.count(self._delimiter)
        if self._left_values < 0:
            self.fault = Fault(1008, f"num_cells>={max_values - self._left_values} not in [0, {max_values}]")
            return "\n"
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        try:
            return line.decode() + "\n"
        except UnicodeDecodeError as error:
            self.fault = Fault(1004, f"the line is not UTF-8 at byte {error.start}")
            return line.decode("utf-8", "backslashreplace") + "\n"


class _EndlessRecord(Exception):
    """A quoted cell goes on over more lines than a record may have. What follows is read as records again."""


def cells_by_name(
    stream: IO[bytes], delimiter: str, *, names: tuple[str, ...], has_quotes: bool, settings: SourceSettings
) -> Iterator[tuple[int, dict[str, str], Fault | None]]:
    """(number from 1, cells by name, what is wrong) of each record. names: of the cells; none: the first record names
    them. Raises UnreadableItem where that one cannot be read, or the stream breaks."""
    # The module csv has one limit for the whole process, less than a document may have. It is lifted for good, so that
    # no table depends on another that is read at the same time; `_Lines` bounds each record, and the check below each
    # cell.
    csv.field_size_limit(sys.maxsize)
    max_chars = max(settings.max_text_bytes, _LEAST_CELL_CHARS)
    lines, header, number = _Lines(stream, delimiter.encode(), settings), list(names), 0
    reader = csv.reader(lines, delimiter=delimiter, strict=True, quoting=QUOTING[has_quotes])
    while True:
        is_cut, cells = False, list[str]()
        lines.begin_record()
        try:
            cells = next(reader)
            is_cut = lines.num_bytes > max_chars and any(len(cell) > max_chars for cell in cells)
        except StopIteration:
            return
        except csv.Error:
            is_cut = True
        except _EndlessRecord:
            pass
        fault = lines.fault
        if fault is None and is_cut:
            reason = f"the quotes of the record that ends on line {reader.line_num} do not close, or a cell is longer"
            fault = Fault(1003, f"{reason} than {max_chars} characters")
        if not cells and fault is None:
            continue
        if not header:
            if fault is not None:
                raise UnreadableItem(fault.code, f"{fault.reason}, in the line of names")
            header = _distinct([name.strip() for name in cells])
            continue
        number += 1
        if fault is None and len(cells) != len(header) and not (names and 1 < len(cells) < len(names)):
            fault = Fault(1003, f"num_cells={len(cells)} not in [{2 if names else len(header)}, {len(header)}]")
        yield number, {} if fault else {name: cell for name, cell in zip(header, cells, strict=False) if cell}, fault


def _distinct(names: list[str]) -> list[str]:
    """The names, each once: a number behind a second one, so that no cell hides another."""
    counts = Counter[str]()
    found = []
    for name in names:
        found.append(f"{name}.{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return found
