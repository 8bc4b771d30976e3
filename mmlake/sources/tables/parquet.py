"""Parquet files, one batch of rows at a time, page checksums verified. Which column is what is told by name and type.

A row group that cannot be read is one row that says so, and the next group is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from mmlake.errors import UnreadableItem
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.tables.columnroles import Columns, columns_of
from mmlake.sources.tables.columns import cells_of
from mmlake.sources.tables.rowgroups import BROKEN, DamagedGroup, File, opened, plan
from mmlake.sources.tables.tabular import ROW_BYTES, record_items, schema_faults


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the file does not open."""
    try:
        with reading.open() as file:
            return columns_of(opened(file).schema_arrow, reading.settings).modalities or (reading.hint or "text",)
    except (UnreadableItem, *BROKEN):
        return (reading.hint or "text",)


def num_samples(reading: Reading) -> int | None:
    """The number of rows, from the footer; None where that does not open or the file holds nothing to read."""
    try:
        with reading.open() as file:
            found = opened(file)
            return found.metadata.num_rows if columns_of(found.schema_arrow, reading.settings).modalities else None
    except (UnreadableItem, *BROKEN):
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
            file = opened(stream)
            columns = columns_of(file.schema_arrow, reading.settings)
        except UnreadableItem as error:
            yield reading.fault(error.code, error.reason, modality=home)
            return
        except BROKEN:
            yield reading.fault(1001, "the footer of the Parquet file cannot be read", modality=home)
            return
        yield from schema_faults(file.schema_arrow, columns, reading)
        if not columns.modalities:
            return
        names, first = SampleNames(reading.key), 0
        for group in range(file.num_row_groups):
            num_rows = file.metadata.row_group(group).num_rows
            yield from _group(file, group, first, reading, columns, names, stream)
            first += num_rows


def _group(
    file: File, group: int, first: int, reading: Reading, columns: Columns, names: SampleNames, stream: IO[bytes]
) -> Iterator[RawItem]:
    num_rows, home = file.metadata.row_group(group).num_rows, columns.modalities[0]
    where = f"row group {group} of {file.num_row_groups}"
    try:
        planned = plan(file, group, stream, reading.settings)
    except UnreadableItem as error:
        yield reading.fault(
            error.code,
            f"{where}: {error.reason}; its {num_rows} rows are not read",
            modality=home,
            member=f"group:{group}",
        )
        return
    number, broken, decoded = first, None, 0
    try:
        for batch in planned.batches(file, stream, group):
            decoded += batch.nbytes + batch.num_rows * ROW_BYTES
            if decoded > planned.limit_bytes:
                reason = (
                    f"{where}: decoded_bytes>={decoded} not in [0, {planned.limit_bytes}]; rows {number + 1} to "
                    f"{first + num_rows} are not read"
                )
                yield reading.fault(1008, reason, modality=home, member=f"group:{group}")
                return
            for fields in cells_of(batch, columns, settings=reading.settings):
                number += 1
                yield from record_items(fields, number, reading, columns, names)
                del fields  # before the next one is made
            del batch
    except (DamagedGroup, pa.ArrowException):  # no ValueError: it would be a fault of ours
        broken = f"{where}: rows {number + 1} to {first + num_rows} cannot be read, or fail their checksum"
    if broken is None and number != first + num_rows:
        broken = f"{where} has {number - first} rows, its footer says {num_rows}"
    if broken is not None:
        yield reading.fault(1001, broken, modality=home, member=f"group:{group}")
