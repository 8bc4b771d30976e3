"""Parquet files, one batch of rows at a time, page checksums verified. Which column is what is decided by name and
type.

A row group that cannot be read is one row that says so, and the next group is read. Another process reads the file
(`formats/columnar`), since damage may end the one that it runs in.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.sources.companions.places import PARQUET
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.cells import group_cells, limits_of
from mmlake.sources.records.column_rows import record_items
from mmlake.sources.records.columns import Columns, columns_of, modalities_of, schema_faults


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a Parquet file."""
    return head.startswith(b"PAR1")


def is_kept(name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is no table of what other files hold."""
    return name != PARQUET or not siblings.have_description(name)


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the file does not open."""
    return modalities_of(_opened, reading)


def num_samples(reading: Reading) -> int | None:
    """The number of rows, from the footer; None where that does not open or the file holds nothing to read."""
    try:
        with _opened(reading) as file:
            return file.num_rows if columns_of(file.schema, reading.settings).modalities else None
    except UnreadableItem:
        return None


def _opened(reading: Reading) -> ParquetReader:
    return ParquetReader(reading.open, limits_of(reading.settings))


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the file in order; within a row media in the order of the columns, then texts."""
    with reading.open() as stream:
        if not stream.read(1):
            yield reading.empty(reading.home)
            return
    try:
        file = _opened(reading)
    except UnreadableItem as error:
        reason = error.reason or "the footer of the Parquet file cannot be read"
        yield reading.fault(error.code, reason, modality=reading.home)
        return
    with file:
        columns = columns_of(file.schema, reading.settings)
        yield from schema_faults(file.schema, columns, reading)
        names, first = SampleNames(reading.key), 0
        for group, num_rows in enumerate(file.groups if columns.modalities else ()):
            yield from _group(file, group, first, reading, columns, names)
            first += num_rows
        if columns.modalities and first != file.num_rows:
            reason = f"the row groups have {first} rows, the footer says {file.num_rows}"
            yield reading.fault(1001, reason, modality=columns.modalities[0], member="groups")


def _group(
    file: ParquetReader, group: int, first: int, reading: Reading, columns: Columns, names: SampleNames
) -> Iterator[RawItem]:
    number, num_rows, code, broken = first, file.groups[group], 1001, None
    try:
        for number, fields in group_cells(file, group, first, reading.settings, columns.media):
            yield from record_items(fields, number, reading, columns, names)
            del fields  # before the next one is made
        if number != first + num_rows:
            where = f"row group {group} of {len(file.groups)}"
            broken = f"{where} has {number - first} rows, its footer says {num_rows}"
    except UnreadableItem as error:
        code, broken = error.code, error.reason
    if broken is not None:
        yield reading.fault(code, broken, modality=columns.modalities[0], member=f"group:{group}")
