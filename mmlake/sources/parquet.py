"""Parquet files, one batch of rows at a time, page checksums verified. Which column is what is told by name and type.

A row group that cannot be read is one row that says so, and the next group is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef
from mmlake.sources.columns import Columns, cells_of, columns_of, items_of
from mmlake.sources.jsonl import SampleNames
from mmlake.sources.pages import weigh
from mmlake.sources.rows import Content, Fault, RawItem, Reading, first_field
from mmlake.sources.settings import SourceSettings

_BATCH_ROWS = 1024
_FLOOR_BYTES = 64 << 20  # a group that decodes to less is read, however small it is in the file
_ROW_BYTES = 256  # what a row costs as an item, even where all its cells are null

_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)  # pyarrow's ways to say that a file is damaged


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the file does not open."""
    try:
        with reading.open() as file:
            return columns_of(pq.ParquetFile(file).schema_arrow, reading.settings).modalities or (reading.hint or "text",)
    except (UnreadableItem, *_BROKEN):
        return (reading.hint or "text",)


def num_samples(reading: Reading) -> int | None:
    """The number of rows, from the footer; None where that does not open or the file holds nothing to read."""
    try:
        with reading.open() as file:
            found = pq.ParquetFile(file)
            return found.metadata.num_rows if columns_of(found.schema_arrow, reading.settings).modalities else None
    except _BROKEN:
        return None


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the file in order; within a row media in the order of the columns, then texts."""
    home = reading.hint or "text"
    with reading.open() as stream:
        if not stream.read(1):
            yield reading.fault(1006, "size_bytes=0 not in [1, inf)", modality=home, content=Content(reading.open))
            return
        stream.seek(0)
        try:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            columns = columns_of(file.schema_arrow, reading.settings)
        except _BROKEN:
            yield reading.fault(1001, "the footer of the Parquet file cannot be read", modality=home)
            return
        if not columns.modalities:
            yield reading.fault(1003, f"none of the columns {file.schema_arrow.names[:12]} holds a text, image, video or audio", modality=home)
            return
        names, first = SampleNames(reading.key), 0
        for group in range(file.num_row_groups):
            num_rows = file.metadata.row_group(group).num_rows
            yield from _group(file, group, first, reading, columns, names, stream)
            first += num_rows


def _group(file: pq.ParquetFile, group: int, first: int, reading: Reading, columns: Columns, names: SampleNames, stream: IO[bytes]) -> Iterator[RawItem]:
    about = file.metadata.row_group(group)
    where = f"row group {group} of {file.num_row_groups}"
    try:
        batch_rows, limit = _portions(about, stream, reading.settings)
    except UnreadableItem as error:
        yield reading.fault(error.code, f"{where}: {error.reason}; its {about.num_rows} rows are not read", modality=columns.modalities[0], member=f"group:{group}")
        return
    number, broken, decoded = first, None, 0
    try:
        for batch in file.iter_batches(batch_size=batch_rows, row_groups=[group]):
            decoded += batch.nbytes + batch.num_rows * _ROW_BYTES
            if decoded > limit:
                reason = f"{where}: decoded_bytes>={decoded} not in [0, {limit}]; rows {number + 1} to {first + about.num_rows} are not read"
                yield reading.fault(1008, reason, modality=columns.modalities[0], member=f"group:{group}")
                return
            for fields in cells_of(batch):
                number += 1
                if isinstance(fields, Fault):
                    yield reading.fault(fields.code, fields.reason, modality=columns.modalities[0], member=f"row:{number}")
                else:
                    yield from _row(fields, number, reading, columns, names)
    except _BROKEN:
        broken = f"{where}: rows {number + 1} to {first + about.num_rows} cannot be read, or fail their checksum"
    if broken is None and number != first + about.num_rows:
        broken = f"{where} has {number - first} rows, its footer says {about.num_rows}"
    if broken is not None:
        yield reading.fault(1001, broken, modality=columns.modalities[0], member=f"group:{group}")


def _portions(about: pq.RowGroupMetaData, stream: IO[bytes], settings: SourceSettings) -> tuple[int, int]:
    """(rows decoded at a time, bytes that the group may decode to). Raises UnreadableItem: 1008 for a group that would expand without end, 1001 for a damaged one."""
    try:
        chunks = [about.column(at) for at in range(about.num_columns)]
    except _BROKEN as error:
        raise UnreadableItem(1001, "the footer does not say where its columns lie") from error
    stored = sum(chunk.total_compressed_size for chunk in chunks)
    limit = max(_FLOOR_BYTES, stored * settings.max_expansion)
    decoded, pages, repeated = about.num_rows * _ROW_BYTES, 0, 0
    for chunk in chunks:
        start = min((offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset), default=0)
        weight = weigh(stream, start, chunk.total_compressed_size)
        decoded, pages, repeated = decoded + weight.decoded_bytes, pages + weight.page_bytes, repeated + weight.value_bytes
    if max(decoded, pages) > limit:
        raise UnreadableItem(1008, f"decoded_bytes={max(decoded, pages)} not in [0, {limit}] for {stored} bytes in the file")
    average = max(about.total_byte_size, decoded) // max(1, about.num_rows)
    return max(1, min(_BATCH_ROWS, settings.batch_bytes // max(1, average, repeated))), limit


def _row(fields: dict[str, Any], number: int, reading: Reading, columns: Columns, names: SampleNames) -> Iterator[RawItem]:
    """Rows are counted from 1, like lines of JSONL."""

    def locate(column: str) -> SourceRef:
        return SourceRef(path=reading.path, member=f"row:{number}/{column}" if column else f"row:{number}")

    identity = first_field(fields, reading.settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    yield from items_of(fields, columns, sample_id=sample_id, locate=locate, settings=reading.settings)
