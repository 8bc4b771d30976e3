"""What all files of columns share: what their schema as a whole gets wrong, and the rows that one record becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mmlake.errors import Fault
from mmlake.formats.columnar.child_source import ColumnarLimits
from mmlake.records import SourceRef
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading, first_field
from mmlake.sources.settings import SourceSettings
from mmlake.sources.tables.columnroles import Columns
from mmlake.sources.tables.columns import items_of


def limits_of(settings: SourceSettings) -> ColumnarLimits:
    """What a columnar file may take, as the settings say."""
    return ColumnarLimits(
        settings.batch_bytes,
        settings.max_expansion,
        settings.max_decoded_bytes,
        settings.max_item_bytes,
        settings.max_line_bytes,
    )


def schema_faults(schema: pa.Schema, columns: Columns, reading: Reading) -> Iterator[RawItem]:
    """What is wrong with the columns: that none is to be read, or that some hide others."""
    if not columns.modalities:
        reason = f"none of the columns {schema.names[:12]} holds a text, image, video or audio"
        yield reading.fault(1003, reason, modality=reading.hint or "text")
    elif repeated := sorted(name for name, count in Counter(schema.names).items() if count > 1):
        reason = f"the columns {repeated[:12]} stand in the file more than once; only the last of each is read"
        yield reading.fault(1003, reason, modality=columns.modalities[0], member="columns")


def record_items(
    fields: dict[str, Any] | Fault, number: int, reading: Reading, columns: Columns, names: SampleNames
) -> Iterator[RawItem]:
    """The items of the row with this number. Rows are counted from 1, like lines of JSONL."""
    if isinstance(fields, Fault):
        yield reading.fault(fields.code, fields.reason, modality=columns.modalities[0], member=f"row:{number}")
        return

    def locate(column: str) -> SourceRef:
        return SourceRef(path=reading.path, member=f"row:{number}/{column}" if column else f"row:{number}")

    identity = first_field(fields, reading.settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    yield from items_of(fields, columns, sample_id=sample_id, locate=locate, settings=reading.settings)
