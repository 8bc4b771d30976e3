"""Arrow IPC: files (`.arrow`, Feather of version 2) and streams, as the library `datasets` writes them. Which column is
what is told by name and type.

A record batch that cannot be read is one row that says so, and the next batch is read. Before Arrow sees a batch, its
message has told what it would expand to; before its values are made, every offset in it is checked. Arrow keeps no
checksums: wrong bits that still decode are not noticed, except inside compressed buffers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import UnreadableItem
from mmlake.formats.sniff import extension_of
from mmlake.sources.connectors.json_lines import stream_of
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.settings import SourceSettings
from mmlake.sources.tables.columnroles import Columns, columns_of
from mmlake.sources.tables.columns import cells_of
from mmlake.sources.tables.messages import Broken, Buffer, Messages, Part, is_arrow
from mmlake.sources.tables.tabular import ROW_BYTES, record_items, schema_faults

NAMES = (".arrow", ".feather", ".arrows", ".ipc")  # endings of files
# pyarrow's ways to say that a message is damaged
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError)
_FLOOR_BYTES = 64 << 20  # a batch that decodes to less is read, however small it is in the file
_STATED_BYTES = 8  # of a compressed buffer: what it expands to, or -1 where it is as it is
_SLICE_ROWS = 1024
_ROW = re.compile(r"row:(\d+)(?:/.*)?", re.DOTALL)


def claims(head: bytes, name: str) -> bool:
    """Whether a file with these first bytes is an Arrow IPC file or stream."""
    return is_arrow(head, is_named=f".{extension_of(name)}" in NAMES)


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the schema cannot be read."""
    home = (reading.hint or "text",)
    try:
        with stream_of(reading) as stream:
            return columns_of(_Decoder(Messages(stream).schema).schema, reading.settings).modalities or home
    except (UnreadableItem, *_BROKEN):
        return home


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the file in order; within a row media in the order of the columns, then texts."""
    return _items(reading, None)


def some(reading: Reading, members: Collection[str]) -> Iterator[RawItem]:
    """The rows of the batches in which these members lie; the bodies of others are passed over."""
    found = [_ROW.fullmatch(member) for member in members]
    return _items(reading, None if None in found else {int(match[1]) for match in found if match is not None})


def _items(reading: Reading, wanted: set[int] | None) -> Iterator[RawItem]:
    """wanted: numbers of rows; None: all."""
    home = reading.hint or "text"
    with stream_of(reading) as stream:
        try:
            messages = Messages(stream)
        except UnreadableItem as error:
            entry = reading.landing.stat(reading.path)
            is_empty = entry is not None and not entry.size_bytes
            fault = (
                (1006, "size_bytes=0 not in [1, inf)")
                if is_empty
                else (1001 if error.code == 1003 else error.code, error.reason)
            )
            yield reading.fault(*fault, modality=home, content=Content(reading.open) if is_empty else None)
            return
        try:
            decoder = _Decoder(messages.schema)
            columns = columns_of(decoder.schema, reading.settings)
            faults = list(schema_faults(decoder.schema, columns, reading))
        except _BROKEN:
            yield reading.fault(1001, "the schema of the file cannot be read", modality=home)
            return
        yield from faults
        if columns.modalities:
            yield from _Table(reading, columns, decoder, messages).items(wanted)


class _Table:
    """The rows of one file."""

    def __init__(self, reading: Reading, columns: Columns, decoder: _Decoder, messages: Messages) -> None:
        self._reading, self._columns, self._decoder, self._messages = reading, columns, decoder, messages
        self._names, self._number = SampleNames(reading.key), 0  # _number: rows so far, whether they were read or not

    def items(self, wanted: set[int] | None) -> Iterator[RawItem]:
        """The items of the rows with these numbers and of those beside them; None takes all."""
        last = None if wanted is None else max(wanted, default=0)
        is_told = False  # whether anything was said of the file
        try:
            for part in self._messages.parts():
                is_told = is_told or isinstance(part, Broken) or (part.num_rows > 0 and not part.is_dictionary)
                if isinstance(part, Broken):
                    yield self._fault(part.fault.code, part.fault.reason, part)
                elif part.is_dictionary:
                    yield from self._dictionary(part)
                elif wanted is None or any(self._number < one <= self._number + part.num_rows for one in wanted):
                    yield from self._batch(part)
                else:
                    self._number += part.num_rows
                if last is not None and self._number >= last:
                    return
        except UnreadableItem as error:
            code = 1001 if error.code == 1003 else error.code
            yield self._reading.fault(
                code, f"{error.reason}; {self._number} rows were read", modality=self._columns.modalities[0]
            )
            return
        if not is_told:
            yield self._reading.fault(
                1006,
                "num_rows=0 not in [1, inf)",
                modality=self._columns.modalities[0],
                content=Content(self._reading.open),
            )

    def _fault(self, code: int, reason: str, part: Part | Broken) -> RawItem:
        count = "" if self._messages.num_batches is None or part.is_dictionary else f" of {self._messages.num_batches}"
        what = "dictionary" if part.is_dictionary else "batch"
        return self._reading.fault(
            code,
            f"{what} {part.number}{count}: {reason}",
            modality=self._columns.modalities[0],
            member=f"{what}:{part.number}",
        )

    def _dictionary(self, part: Part) -> Iterator[RawItem]:
        try:
            body = part.body()
            _check(part, body, self._reading.settings, self._decoder.dictionary_bytes)
            self._decoder.add(part, body)
        except UnreadableItem as error:
            if error.code == 1002:
                raise
            yield self._fault(error.code, f"{error.reason}; rows that refer to it are not read", part)

    def _batch(self, part: Part) -> Iterator[RawItem]:
        first, stop = self._number, self._number + part.num_rows
        try:
            body = part.body()
            limit = _check(part, body, self._reading.settings, self._decoder.dictionary_bytes)
            batch = self._decoder.batch(part, body)
            del body
            yield from self._rows(batch, limit)
        except UnreadableItem as error:
            if error.code == 1002:
                raise
            yield self._fault(error.code, f"{error.reason}; rows {self._number + 1} to {stop} are not read", part)
        except pa.ArrowException:  # no ValueError: the batch was decoded, so that it would be a fault of ours
            yield self._fault(1001, f"rows {self._number + 1} to {stop} cannot be read", part)
        self._number = first + part.num_rows

    def _rows(self, batch: pa.RecordBatch, limit_bytes: int) -> Iterator[RawItem]:
        decoded = 0

        def meter(num_bytes: int) -> None:
            nonlocal decoded
            decoded += num_bytes
            if decoded > limit_bytes:
                raise UnreadableItem(1008, f"decoded_bytes>={decoded} not in [0, {limit_bytes}]")

        for start in range(0, batch.num_rows, _SLICE_ROWS):
            for fields in cells_of(
                batch.slice(start, _SLICE_ROWS), self._columns, settings=self._reading.settings, meter=meter
            ):
                self._number += 1
                yield from record_items(fields, self._number, self._reading, self._columns, self._names)
                del fields  # before the next one is made


def _check(part: Part, body: Buffer, settings: SourceSettings, dictionary_bytes: int) -> int:
    """What the part may come to as values. Raises UnreadableItem: 1008 where it would expand without end or take
    more memory than it may."""
    expanded = 0
    for start, size in part.buffers if part.is_compressed else ():
        if size:
            stated = (
                int.from_bytes(body[start : start + _STATED_BYTES], "little", signed=True)
                if size >= _STATED_BYTES
                else -2
            )
            if stated < -1:
                raise UnreadableItem(1001, "a compressed buffer says what cannot be")
            expanded += size if stated < 0 else stated
    held = dictionary_bytes if part.is_dictionary else 0
    limit = max(_FLOOR_BYTES, (part.body_bytes + len(part.head) + dictionary_bytes) * settings.max_expansion)
    if (decoded := expanded + (0 if part.is_dictionary else part.num_rows * ROW_BYTES)) > limit:
        raise UnreadableItem(
            1008, f"decoded_bytes={decoded} not in [0, {limit}] for {part.body_bytes} bytes in the file"
        )
    if (needed := held + expanded + (part.body_bytes if part.is_dictionary else 0)) > settings.max_decoded_bytes:
        raise UnreadableItem(
            1008,
            f"memory_bytes={needed} not in [0, {settings.max_decoded_bytes}], which sources.max_decoded_bytes "
            "sets; write smaller record batches, or none that are compressed",
        )
    return limit


class _Decoder:
    """Arrow's own reader, which is given one checked message after another."""

    def __init__(self, schema: bytes) -> None:
        """Raises what pyarrow raises where the schema is damaged."""
        self._first, self._dictionaries = schema, list[Buffer]()
        self.dictionary_bytes = 0
        self._restart()
        self.schema = _bare(self._reader.schema)

    def _restart(self) -> None:
        self._feed = _Feed([self._first, *self._dictionaries])
        options = pa.ipc.IpcReadOptions(use_threads=False)
        self._reader: Any = pa.ipc.open_stream(pa.PythonFile(self._feed, mode="r"), options=options)

    def add(self, part: Part, body: Buffer) -> None:
        """Keep a dictionary for the batches behind it."""
        self._feed.parts += [part.head, body]
        self._dictionaries += [part.head, body]
        self.dictionary_bytes += len(body)

    def batch(self, part: Part, body: Buffer) -> pa.RecordBatch:
        """The record batch, all of whose offsets are sound. Raises what pyarrow raises, or UnreadableItem 1001."""
        self._feed.parts += [part.head, body]
        try:
            found = self._reader.read_next_batch()
            if found.num_rows != part.num_rows or self._feed.parts:
                raise UnreadableItem(
                    1001, f"num_rows={found.num_rows} not in [{part.num_rows}, {part.num_rows}], as its message says"
                )
            found.validate()
            for column in found.columns:
                validate(column)
            return pa.RecordBatch.from_arrays([_storage(column) for column in found.columns], schema=self.schema)
        except (*_BROKEN, StopIteration) as error:
            self._restart()
            raise UnreadableItem(1001, "the batch is damaged") from error
        except UnreadableItem:
            self._restart()
            raise


class _Feed:
    """The messages as a file that Arrow reads from, without copies of large ones."""

    closed = False

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts = parts

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.parts = []

    def read(self, size: int) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int) -> Buffer:
        """The next bytes: of one message where it has as many, which is how Arrow asks for its head and its body."""
        while self.parts and not len(self.parts[0]):
            del self.parts[0]
        if not self.parts:
            return b""
        data, rest = self.parts[0][:size], memoryview(self.parts[0])[size:]
        self.parts[0] = rest
        if not len(rest):
            del self.parts[0]
        return data if len(data) == size or not self.parts else bytes(data) + bytes(self.read_buffer(size - len(data)))


def _bare(schema: pa.Schema) -> pa.Schema:
    """The schema with extension types as what they are stored as, but for UUIDs, which have a spelling."""
    fields = [
        pa.field(field.name, field.type.storage_type, field.nullable) if _is_extended(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if _is_extended(column.type) else column


def _is_extended(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid"


def validate(column: pa.Array) -> None:
    """Raises ArrowInvalid where an offset, a length or an index leads out of the column. Texts that are no UTF-8
    cost their own rows, later."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if pa.types.is_dictionary(column.type):
            column.indices.validate(full=True)
            validate(column.dictionary)
            most = pc.max(column.indices).as_py()
            if most is not None and (most >= len(column.dictionary) or pc.min(column.indices).as_py() < 0):
                raise
        else:
            column.view(_as_bytes(column.type)).validate(full=True)


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in the place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_string_view(kind):
        return pa.binary_view()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_bytes(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_as_bytes(kind.value_type)))
    return kind
