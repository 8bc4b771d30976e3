"""Arrow IPC: files (`.arrow`, Feather of version 2) and streams, as the library `datasets` writes them. Which column is
what is decided by name and type.

A record batch that cannot be read is one row that says so, and the next batch is read. Another process reads the file
(`formats/columnar`), since damage may end the one that it runs in. Arrow keeps no checksums: wrong bits that still
decode are not noticed, except inside compressed buffers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.child_arrow import CONTINUES, FEATHER_1, MAGIC, is_schema
from mmlake.formats.columnar.readers import ArrowReader, Part
from mmlake.formats.sniff import extension_of
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.cells import cells_of, limits_of
from mmlake.sources.records.column_rows import record_items
from mmlake.sources.records.columns import Columns, columns_of, modalities_of, schema_faults
from mmlake.sources.records.lines import stream_of

NAMES = (".arrow", ".feather", ".arrows", ".ipc")  # endings of files
_ROW = re.compile(r"row:(\d+)(?:/.*)?", re.DOTALL)


def claims(head: bytes, name: str) -> bool:
    """Whether a file with these first bytes is an Arrow IPC file or stream. The oldest streams need a name that says
    so."""
    is_named = f".{extension_of(name)}" in NAMES
    return head.startswith((MAGIC, FEATHER_1)) or ((is_named or head.startswith(CONTINUES)) and is_schema(head))


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the schema cannot be read."""
    return modalities_of(_opened, reading)


def _opened(reading: Reading) -> ArrowReader:
    return ArrowReader(lambda: stream_of(reading), limits_of(reading.settings))


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the file in order; within a row media in the order of the columns, then texts."""
    return _items(reading, None)


def some(reading: Reading, members: Collection[str]) -> Iterator[RawItem]:
    """The rows of the batches in which these members lie; the bodies of others are passed over."""
    found = [_ROW.fullmatch(member) for member in members]
    return _items(reading, None if None in found else {int(match[1]) for match in found if match is not None})


def _items(reading: Reading, wanted: set[int] | None) -> Iterator[RawItem]:
    """wanted: numbers of rows; None: all."""
    try:
        file = _opened(reading)
    except UnreadableItem as error:
        entry = reading.landing.stat(reading.path)
        if entry is not None and not entry.size_bytes:
            yield reading.empty(reading.home)
        else:
            reason = error.reason or "the schema of the file cannot be read"
            yield reading.fault(1001 if error.code == 1003 else error.code, reason, modality=reading.home)
        return
    with file:
        columns = columns_of(file.schema, reading.settings)
        yield from schema_faults(file.schema, columns, reading)
        if columns.modalities:
            yield from _Table(reading, columns, file).items(wanted)


class _Table:
    """The rows of one file."""

    def __init__(self, reading: Reading, columns: Columns, file: ArrowReader) -> None:
        self._reading, self._columns, self._file = reading, columns, file
        self._names, self._number = SampleNames(reading.key), 0  # _number: rows so far, whether they were read or not

    def items(self, wanted: set[int] | None) -> Iterator[RawItem]:
        """The items of the rows with these numbers, and of the other rows of their batches; None takes all."""
        home, is_found = self._columns.modalities[0], False  # is_found: whether the file holds anything
        try:
            for part in self._file.parts():
                is_found = is_found or part.broken is not None or (part.num_rows > 0 and not part.is_dictionary)
                if part.broken is not None:
                    yield self._fault(part.broken.code, part.broken.reason, part)
                elif part.is_dictionary:
                    continue
                elif wanted is None or any(self._number < one <= self._number + part.num_rows for one in wanted):
                    yield from self._batch(part)
                else:
                    self._number += part.num_rows
                if wanted is not None and self._number >= max(wanted, default=0):
                    return
        except UnreadableItem as error:
            reason = f"{error.reason or 'the file is damaged'}; {self._number} rows were read"
            yield self._reading.fault(1001 if error.code == 1003 else error.code, reason, modality=home)
            return
        if not is_found:
            yield self._reading.empty(home, what="num_rows")

    def _fault(self, code: int, reason: str, part: Part) -> RawItem:
        count = "" if self._file.num_batches is None or part.is_dictionary else f" of {self._file.num_batches}"
        kind, home = "dictionary" if part.is_dictionary else "batch", self._columns.modalities[0]
        reason, member = f"{kind} {part.number}{count}: {reason}", f"{kind}:{part.number}"
        return self._reading.fault(code, reason, modality=home, member=member)

    def _batch(self, part: Part) -> Iterator[RawItem]:
        stop = self._number + part.num_rows
        try:
            yield from self._rows(part)
        except UnreadableItem as error:
            if error.code == 1002:
                raise
            reason = error.reason or "the batch is damaged"
            yield self._fault(error.code, f"{reason}; rows {self._number + 1} to {stop} are not read", part)
        self._number = stop

    def _rows(self, part: Part) -> Iterator[RawItem]:
        decoded_bytes = limit_bytes = 0

        def meter(num_bytes: int) -> None:
            nonlocal decoded_bytes
            decoded_bytes += num_bytes
            if decoded_bytes > limit_bytes:
                raise UnreadableItem(1008, f"decoded_bytes>={decoded_bytes} not in [0, {limit_bytes}]")

        for batch, limit_bytes in self._file.batches(part):  # noqa: B007 - the meter reads it
            for fields in cells_of(batch, self._columns.media, settings=self._reading.settings, meter=meter):
                self._number += 1
                yield from record_items(fields, self._number, self._reading, self._columns, self._names)
                del fields  # before the next one is made
            del batch
