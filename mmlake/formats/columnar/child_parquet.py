"""Parquet in the child process: one file, whose row groups are read a batch of rows at a time, page checksums verified.

What a group may decode to is bounded by the sizes in its footer before it is read, by what was decoded while it is
read, and by the limit of memory in any case: a footer says what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake.formats.columnar import child_source
from mmlake.formats.columnar.child_source import SLICE_ROWS, Answer, ColumnarLimits, File, Refused
from mmlake.formats.columnar.weights import weight_of
from mmlake.memory_limits import limit_memory

# a footer takes up to 34 times as much in memory (100,000 columns); a thousand columns in fifty row groups are 5 MB
_MAX_FOOTER_BYTES = 12 << 20
_TAIL_BYTES = 8  # length of the footer, and a mark
_ROW_BYTES = 256  # what a row costs as an item, even where all its cells are null
_LEVEL_BYTES = 8  # what a value takes in memory where it is null or a number
_READ_BYTES = 64 << 20  # a group up to here is fetched column by column in one piece each, a larger one bit by bit
_MIN_BUFFER_BYTES, _MAX_BUFFER_BYTES = 1 << 16, 4 << 20
_COPIES = 4  # of a group, or of an item as large as may be, that may be in memory at once besides what is decoded


class ParquetFile:
    """The file that is open."""

    def __init__(self, file: File, limits: ColumnarLimits) -> None:
        size_bytes = file.size_bytes or 0
        footer_bytes = int.from_bytes(bytes(file.read_at(max(0, size_bytes - _TAIL_BYTES), 4)), "little")
        if footer_bytes > min(_MAX_FOOTER_BYTES, size_bytes) and footer_bytes + _TAIL_BYTES < size_bytes:
            raise Refused(1008, f"footer_bytes={footer_bytes} not in [0, {_MAX_FOOTER_BYTES}]")
        self._native, self._limits, self._size_bytes = file.native, limits, size_bytes
        self._is_local = isinstance(file.native, pa.MemoryMappedFile)
        self._file = pq.ParquetFile(self._native, page_checksum_verification=True)
        self._slices = child_source.Rows()
        about: pq.FileMetaData = self._file.metadata
        groups = [max(0, about.row_group(at).num_rows) for at in range(about.num_row_groups)]
        self.opened = Answer({"num_rows": about.num_rows, "groups": groups}, (), self._file.schema_arrow)

    def rows(self, part: int, offset: int, limit: int, is_careful: bool) -> Answer:
        """Rows of a group from that one on. limit: of rows that are decoded at a time, 0 for as many as fit.
        is_careful: whether lists of texts stay references into their dictionaries, which one row may repeat without
        end."""
        key = (part, limit, is_careful)
        try:
            return self._slices.take(offset, key, self._batches(part, limit, is_careful), self._limits.batch_bytes)
        except MemoryError:
            self._slices.forget()
            pa.default_memory_pool().release_unused()
            raise

    def _batches(self, group: int, limit: int, is_careful: bool) -> Iterator[pa.RecordBatch]:
        about = self._file.metadata.row_group(group)
        columns = [about.column(at) for at in range(about.num_columns)]
        if elsewhere := [column.path_in_schema for column in columns if column.file_path]:
            raise Refused(1007, f"the columns {elsewhere[:12]} lie in another file")
        stored = sum(max(0, column.total_compressed_size) for column in columns)
        limit_bytes = max(child_source.FLOOR_BYTES, min(stored, self._size_bytes) * self._limits.max_expansion)
        sizes = (max(column.total_uncompressed_size, column.num_values * _LEVEL_BYTES) for column in columns)
        decoded = about.num_rows * _ROW_BYTES + sum(sizes)
        if decoded > limit_bytes:
            raise Refused(1008, f"decoded_bytes={decoded} not in [0, {limit_bytes}] for {stored} bytes in the file")
        copies = _COPIES * min(stored, self._size_bytes, self._limits.max_item_bytes)
        limit_memory(self._limits.max_decoded_bytes + copies)
        average = max(about.total_byte_size, decoded) // max(1, about.num_rows)
        rows = max(1, min(limit or SLICE_ROWS, SLICE_ROWS, self._limits.batch_bytes // max(1, average)))
        references = self._referable(columns) if is_careful else []
        return self._metered(self._reader(stored, len(columns), references), group, rows, limit_bytes)

    def _reader(self, stored_bytes: int, num_columns: int, references: list[str]) -> pq.ParquetFile:
        """The file, read as is best for a group of that size: what is mapped lies in memory already."""
        if self._is_local and not references:
            return self._file
        share = _READ_BYTES // max(1, num_columns)
        is_large = stored_bytes > _READ_BYTES and not self._is_local
        return pq.ParquetFile(
            self._native,
            metadata=self._file.metadata,
            page_checksum_verification=True,
            read_dictionary=references,
            pre_buffer=not is_large and not self._is_local,
            buffer_size=max(_MIN_BUFFER_BYTES, min(_MAX_BUFFER_BYTES, share)) if is_large else 0,
        )

    def _referable(self, columns: list[pq.ColumnChunkMetaData]) -> list[str]:
        return [
            column.path_in_schema
            for at, column in enumerate(columns)
            if column.has_dictionary_page
            and column.physical_type == "BYTE_ARRAY"
            and self._file.schema.column(at).max_repetition_level > 0
        ]

    def _referred_bytes(self, batch: pa.RecordBatch, limit_bytes: int) -> int:
        """What the columns of references would come to as values; without rows that are too large each by itself,
        of which no values are made."""
        columns = [column for column in batch.columns if _has_references(column.type)]
        if (total := sum(weight_of(column) for column in columns)) <= limit_bytes:
            return total
        rows = (sum(weight_of(column.slice(at, 1)) for column in columns) for at in range(batch.num_rows))
        return sum(size for size in rows if size <= self._limits.max_line_bytes)

    def _metered(self, file: pq.ParquetFile, group: int, rows: int, limit_bytes: int) -> Iterator[pa.RecordBatch]:
        decoded = 0
        for batch in file.iter_batches(batch_size=rows, row_groups=[group], use_threads=False):
            decoded += batch.nbytes + batch.num_rows * _ROW_BYTES + self._referred_bytes(batch, limit_bytes)
            if decoded > limit_bytes:
                raise Refused(1008, f"decoded_bytes>={decoded} not in [0, {limit_bytes}]")
            yield batch
            del batch  # before the next one is read


def _has_references(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(_has_references(kind.field(at).type) for at in range(kind.num_fields))
