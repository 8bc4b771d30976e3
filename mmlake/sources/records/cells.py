"""The cells of columnar files as Python values, some rows at a time, and as the JSON that metadata keep of them."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.columnar.child_source import ColumnarLimits
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.formats.columnar.weights import weight_of
from mmlake.records import digest_of
from mmlake.sources.settings import SourceSettings

Cells = dict[str, Any] | Fault  # of one row by name, or why it has none

_VIEWED_BYTES = 4 << 20  # a row of more stays in the arrays that it was decoded to
_INLINE_BYTES = 4096  # bytes of an unmapped binary cell that metadata keep; longer ones are named by digest


def limits_of(settings: SourceSettings) -> ColumnarLimits:
    """What a columnar file may take, as the settings say."""
    return ColumnarLimits(*(getattr(settings, name) for name in ColumnarLimits._fields))


def cells_of(
    batch: pa.RecordBatch,
    media: Collection[str] = (),
    *,
    settings: SourceSettings,
    meter: Callable[[int], None] | None = None,
) -> Iterator[Cells]:
    """The rows as Python values, some at a time. Faults of their own are rows whose cells have none (bytes in a text
    column, times beyond the calendar) and rows whose cells, those of the columns of media left out, would take twice
    the bytes that a line of JSON may have.

    meter: called before some rows are made with the bytes that they will take; what it raises ends the iteration."""
    pending = [batch]
    while pending:
        part = pending.pop()
        weights = {name: weight_of(part.column(at)) for at, name in enumerate(part.schema.names)}
        size_bytes = sum(weight for name, weight in weights.items() if name not in media)
        if part.num_rows > 1 and sum(weights.values()) > settings.batch_bytes:
            half = part.num_rows // 2
            pending += [part.slice(half), part.slice(0, half)]
        elif part.num_rows == 1 and size_bytes > settings.max_line_bytes:
            yield Fault(1008, f"row_bytes={size_bytes} not in [0, {settings.max_line_bytes}] as values in memory")
        else:
            if meter is not None:
                meter(sum(weights.values()))
            yield from _values(part, media)
            del part


def _values(batch: pa.RecordBatch, media: Collection[str]) -> Iterator[Cells]:
    try:
        if batch.num_rows == 1 and batch.nbytes > _VIEWED_BYTES:
            cells = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: (_viewed(column) if name in media else column.to_pylist())[0] for name, column in cells}
            return
        yield from batch.to_pylist()
        return
    except (ValueError, OverflowError, pa.ArrowException):
        pass  # one bad cell fails the whole batch: find it
    for at in range(batch.num_rows):
        try:
            yield batch.slice(at, 1).to_pylist()[0]
        except (ValueError, OverflowError, pa.ArrowException):
            yield Fault(1003, "a cell of the row has no value of its column's type")


def _viewed(array: pa.Array) -> list[Any]:
    """The values of an array of media, bytes as views of it: a film is not to be in memory once more, and a scalar
    of pyarrow is a copy."""
    kind, is_valid = array.type, array.is_valid().to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        _, ends, data = array.buffers()
        offsets = memoryview(ends).cast("B").cast("i" if pa.types.is_binary(kind) else "q")
        stops, view = offsets[array.offset : array.offset + len(array) + 1], memoryview(data or b"").cast("B")
        return [view[stops[at] : stops[at + 1]] if valid else None for at, valid in enumerate(is_valid)]
    if pa.types.is_struct(kind) and len({field.name for field in kind}) == kind.num_fields:
        fields = [(field.name, _viewed(array.field(at))) for at, field in enumerate(kind)]
        structs = ({name: values[at] for name, values in fields} for at in range(len(array)))
        return [one if valid else None for one, valid in zip(structs, is_valid, strict=True)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values, lengths = iter(_viewed(array.flatten())), array.value_lengths().to_pylist()
        return [None if length is None else list(islice(values, length)) for length in lengths]
    return list(array.to_pylist())


def group_cells(
    file: ParquetReader, group: int, first: int, settings: SourceSettings, media: Collection[str] = ()
) -> Iterator[tuple[int, Cells]]:
    """(number, cells) of each row of a group of a Parquet file. first: rows before it. Raises UnreadableItem with a
    reason that names the rows that cannot be read."""
    number = first
    try:
        for batch in file.batches(group):
            for cells in cells_of(batch, media, settings=settings):
                number += 1
                yield number, cells
                del cells  # before the next one is made
            del batch
    except UnreadableItem as error:
        rows = f"row group {group} of {len(file.groups)}: rows {number + 1} to {first + file.groups[group]}"
        reason = f"{rows} cannot be read: {error.reason or 'they are damaged, or fail their checksum'}"
        raise UnreadableItem(error.code, reason) from error


def metadata_of(fields: Mapping[str, Any], used: Collection[str | None]) -> dict[str, Any]:
    """The other fields of a record that have a value, as JSON has them."""
    return {name: plain_of(value) for name, value in fields.items() if name not in used and value is not None}


def plain_of(value: Any) -> Any:
    """The value as JSON has it: times in ISO 8601, exact decimals as text, short bytes in base64 and long ones by
    digest."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, dict):
        return {str(key): plain_of(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(child) for child in value]
    if isinstance(value, (bytes, memoryview)):
        if len(value) <= _INLINE_BYTES:
            return {"base64": base64.b64encode(value).decode()}
        return {"digest": digest_of(value), "size_bytes": len(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, (uuid.UUID, decimal.Decimal)) else repr(value)
