"""How a Parquet row group is read within bounded memory: how many rows at a time, which columns by reference, or not at
all.

Enters: a row group's footer and its page headers. Leaves: a `Plan`. A page is expanded as a whole and rows as they are
asked for, so that what counts is the largest page of every column and what the rows of one batch can come to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake.errors import UnreadableItem
from mmlake.sources.settings import SourceSettings
from mmlake.sources.tables.footers import Chunk, Footer, footer_place
from mmlake.sources.tables.pages import Weight, weigh
from mmlake.sources.tables.pagevalues import Shape, looked_into

# it takes up to 34 times as much in memory (100,000 columns); a thousand columns in fifty row groups are 5 MB
_MAX_FOOTER_BYTES = 12 << 20

_BATCH_ROWS = 1024
_FLOOR_BYTES = 64 << 20  # a group that decodes to less is read, however small it is in the file
_ROW_BYTES = 256  # what a row costs as an item, even where all its cells are null
_READ_BYTES = 64 << 20  # a group up to here is read column by column in one piece each, a larger one page by page
# a cell that does not compress is in memory as page, expanded page, array, Python value and what is stored
_STORED_TIMES = 6
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_LOOK_BYTES = 8 << 20  # columns that may take more are looked into where there is not enough for all
_ROW_VALUE_BYTES = 64 << 20  # rows with larger lists are not read
_REFERENCE_BYTES = 16  # levels and place in the dictionary of a value that stays a reference
_MIN_BUFFER_BYTES, _MAX_BUFFER_BYTES = 1 << 16, 4 << 20


BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)  # pyarrow's ways to say that a file is damaged


class DamagedGroup(Exception):
    """The rows of a group cannot be read any further."""


class File(pq.ParquetFile):
    """The file, which tells where its columns lie without pyarrow: that ends the process where what the footer says
    of them cannot be."""

    _footer: Footer | None = None

    def chunks(self, group: int, stream: IO[bytes]) -> list[Chunk]:
        """The columns of the row group. Raises UnreadableItem 1001 where the footer does not parse."""
        if self._footer is None:
            self._footer = Footer(stream)
        return self._footer.chunks(group)


def opened(stream: IO[bytes]) -> File:
    """The file by its footer. Raises UnreadableItem: 1001 where that cannot be read, 1008 where it is too large to
    be."""
    _, size = footer_place(stream)
    stream.seek(0)
    if size > _MAX_FOOTER_BYTES:
        raise UnreadableItem(1008, f"footer_bytes={size} not in [0, {_MAX_FOOTER_BYTES}]")
    try:
        return File(stream, page_checksum_verification=True)
    except BROKEN as error:
        raise UnreadableItem(1001, "the footer of the Parquet file cannot be read") from error


@dataclass(frozen=True, slots=True)
class Plan:
    """How one row group is read."""

    num_rows: int
    batch_rows: int
    limit_bytes: int  # that all of it may decode to
    references: tuple[str, ...]  # columns whose values stay references into their dictionary until they are needed
    buffer_bytes: int  # of a column's stretch of the file; 0: all of it
    is_read_at_once: bool  # whether all columns are read before the first row, and held up to the last

    def batches(self, file: pq.ParquetFile, stream: IO[bytes], group: int) -> Iterator[pa.RecordBatch]:
        """The rows in order. Raises DamagedGroup behind those that can be read, and nothing that whoever takes them
        raises."""
        try:
            yield from self._batches(file, stream, group)
        except BROKEN as error:
            raise DamagedGroup from error

    def _batches(self, file: pq.ParquetFile, stream: IO[bytes], group: int) -> Iterator[pa.RecordBatch]:
        if self.references or self.buffer_bytes:
            file = pq.ParquetFile(
                stream,
                metadata=file.metadata,
                page_checksum_verification=True,
                read_dictionary=list(self.references),
                buffer_size=self.buffer_bytes,
                pre_buffer=self.is_read_at_once,
            )
        for batch in file.iter_batches(
            batch_size=self.batch_rows, row_groups=[group], use_threads=not self.buffer_bytes
        ):
            is_large = batch.nbytes > _LOOK_BYTES
            if is_large:
                pa.default_memory_pool().release_unused()  # which it else keeps: twice what is in use, measured
            yield batch
            del batch  # before the next one is read
            if is_large:
                pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One column of the group."""

    path: str
    stored_bytes: int
    shape: Shape
    weight: Weight
    row_values: int  # no row has more values

    @property
    def is_referable(self) -> bool:
        """Whether its values may stay references: a row may repeat one value any number of times."""
        return (
            self.shape.max_repetition > 0
            and self.shape.is_bytes
            and self.weight.value_bytes > 0
            and self.weight.all_bytes > _FLOOR_BYTES
        )

    def most_bytes(self, num_rows: int) -> int:
        """What so many rows in a row can take in memory at most."""
        num_values = min(self.weight.num_values, num_rows * self.row_values)
        return (
            num_values * _REFERENCE_BYTES + self.weight.value_bytes
            if self.is_referable
            else self.weight.most_bytes(num_values)
        )


def plan(file: File, group: int, stream: IO[bytes], settings: SourceSettings) -> Plan:
    """How the group is read. Raises UnreadableItem: 1008 for one that would expand without end or take more memory
    than it may, 1001 for a damaged one."""
    about = file.metadata.row_group(group)
    chunks = _chunks(file, group, stream)
    stored = sum(chunk.stored_bytes for chunk in chunks)
    limit = max(_FLOOR_BYTES, stored * settings.max_expansion)
    decoded = about.num_rows * _ROW_BYTES + sum(chunk.weight.decoded_bytes for chunk in chunks)
    pages = sum(chunk.weight.page_bytes for chunk in chunks)
    if max(decoded, pages) > limit:
        raise UnreadableItem(
            1008, f"decoded_bytes={max(decoded, pages)} not in [0, {limit}] for {stored} bytes in the file"
        )
    buffer = (
        0
        if stored <= _READ_BYTES
        else max(_MIN_BUFFER_BYTES, min(_MAX_BUFFER_BYTES, _READ_BYTES // max(1, len(chunks))))
    )
    held = pages + sum(
        chunk.weight.stored_bytes + min(buffer, chunk.stored_bytes) if buffer else chunk.stored_bytes
        for chunk in chunks
    )
    allowed = max(settings.max_decoded_bytes, _STORED_TIMES * sum(chunk.weight.stored_bytes for chunk in chunks))
    average = max(about.total_byte_size, decoded) // max(1, about.num_rows)
    rows = max(1, min(_BATCH_ROWS, settings.batch_bytes // max(1, average)))
    most = 2 * settings.batch_bytes  # in one batch, where it is of several rows
    if sum(chunk.most_bytes(rows) for chunk in chunks) > most:
        chunks = [_looked_into(chunk, stream) if chunk.most_bytes(rows) > _LOOK_BYTES else chunk for chunk in chunks]
        pa.default_memory_pool().release_unused()
    while rows > 1 and sum(chunk.most_bytes(rows) for chunk in chunks) > most:
        rows //= 2
    if (needed := held + sum(_needed_bytes(chunk, rows) for chunk in chunks)) > allowed:
        raise UnreadableItem(1008, f"memory_bytes={needed} not in [0, {allowed}], which sources.max_decoded_bytes sets")
    is_read_at_once = not buffer or _costs_less_at_once(chunks, stored, rows)
    return Plan(
        about.num_rows,
        rows,
        limit,
        tuple(chunk.path for chunk in chunks if chunk.is_referable),
        buffer,
        is_read_at_once,
    )


def _costs_less_at_once(chunks: list[_Chunk], stored_bytes: int, rows: int) -> bool:
    """Whether less memory is taken where all columns are read at once: then nothing is copied that is not
    compressed, while a page that is read alone is there twice for a moment."""
    pages, arrays = sum(chunk.weight.stored_bytes for chunk in chunks), sum(chunk.most_bytes(rows) for chunk in chunks)
    return all(chunk.shape.codec is None for chunk in chunks) and stored_bytes + arrays <= max(
        2 * pages, pages + arrays + _READ_BYTES
    )


def _needed_bytes(chunk: _Chunk, rows: int) -> int:
    """What so many rows can take: as arrays, and one of them as Python values and as what is stored."""
    one = chunk.most_bytes(1)
    return chunk.most_bytes(rows) + 2 * (min(one, _ROW_VALUE_BYTES) if chunk.shape.max_repetition else one)


def _chunks(file: File, group: int, stream: IO[bytes]) -> list[_Chunk]:
    found, schema = file.chunks(group, stream), file.schema
    if len(found) != len(schema):
        raise UnreadableItem(1001, f"num_columns={len(found)} not in [{len(schema)}, {len(schema)}], as the schema has")
    chunks = []
    for at, chunk in enumerate(found):
        column = schema.column(at)
        if chunk.is_elsewhere:
            raise UnreadableItem(1007, f"the column {column.path[:80]!r} lies in another file")
        if chunk.is_encrypted or not chunk.codec:
            raise UnreadableItem(
                1001,
                f"the column {column.path[:80]!r} is "
                f"{'encrypted' if chunk.is_encrypted else 'compressed in a way that Parquet does not know'}",
            )
        width = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(column.physical_type)
        weight = weigh(stream, chunk.start, chunk.stored_bytes, width_bytes=width)
        shape = Shape(
            column.max_repetition_level,
            column.max_definition_level,
            None if chunk.codec == "uncompressed" else chunk.codec,
            is_bytes=width is None,
        )
        chunks.append(
            _Chunk(column.path, chunk.stored_bytes, shape, weight, weight.num_values if shape.max_repetition else 1)
        )
    return chunks


def _looked_into(chunk: _Chunk, stream: IO[bytes]) -> _Chunk:
    """The chunk as its pages are found to be; as their headers tell it where they do not expand, which reading them
    will tell."""
    try:
        weight, row_values = looked_into(stream, chunk.weight, chunk.shape)
    except UnreadableItem:
        return chunk
    return replace(chunk, weight=weight, row_values=row_values)
