"""The columns of the stored table: those of every lake, those that its parts and sources add, and how they grow.

A measure or an encoder adds a column and rewrites nothing. A source field that appears or gets a wider type changes the
struct of all rows: the table is written anew in one commit, so that readers see the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.catalog.hashes import row_hashes
from mmlake.catalog.join import CATALOG_SCHEMA, METADATA, is_vector
from mmlake.errors import SettingsError

STORED = CATALOG_SCHEMA.append(pa.field("row_hash", pa.string(), nullable=False))
# what no measure is called: the columns of every lake, and what a search adds
TAKEN = frozenset([*STORED.names, METADATA, "cluster_score"])
_BATCH_ROWS = 4_096


def is_taken(measure: str) -> bool:
    """Whether the catalog has a column of that name that holds something else than a measure."""
    return measure in TAKEN or is_vector(measure)


def is_measure(field: pa.Field) -> bool:
    """Whether the column holds a measure."""
    return not is_taken(field.name) and pa.types.is_float64(field.type)


def grown(table: Any, rows: pa.Table) -> Any:
    """The table with every column of the rows but the metadata, which `retyped` gives; adding one rewrites nothing."""
    stored = table.schema  # asked of the files each time
    known = frozenset(stored.names)
    for field in rows.schema:
        if is_vector(field.name) and field.name in known:
            held = stored.field(field.name).type.list_size
            if held != field.type.list_size:
                raise SettingsError(
                    f"column '{field.name}' holds {held} dimensions, the rows bring {field.type.list_size}; give the "
                    "new revision of the encoder another name"
                )
    new = [
        pa.field(field.name, pa.list_(pa.float32(), field.type.list_size) if is_vector(field.name) else field.type)
        for field in rows.schema
        if field.name not in known and field.name != "row_hash"
    ]
    if new:
        table.add_columns(new)
    return table


def must_retype(table: Any, rows: pa.Table) -> bool:
    """Whether the source fields of the rows are others than those of the table."""
    return METADATA in rows.column_names and table.schema.field(METADATA).type != rows.schema.field(METADATA).type


def retyped(table: Any, struct: pa.StructType) -> pa.RecordBatchReader:
    """All rows with this struct of source fields and their new hashes: fields that keep their type keep their values,
    integers become floats, what else changed is null until the next upsert, which finds the row changed."""
    schema = pa.schema(
        [pa.field(METADATA, struct) if field.name == METADATA else field.with_metadata({}) for field in table.schema]
    )
    return pa.RecordBatchReader.from_batches(schema, _retyped(table, schema))


def _retyped(table: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in table.search().limit(None).to_batches(_BATCH_ROWS):
        columns = {name: batch.column(name) for name in schema.names}
        columns[METADATA] = _recast(columns[METADATA], schema.field(METADATA).type)
        columns["row_hash"] = pa.array(row_hashes(pa.table({**columns})), pa.string())
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _recast(cells: pa.StructArray, struct: pa.StructType) -> pa.StructArray:
    before = {cells.type.field(at).name: pc.struct_field(cells, [at]) for at in range(cells.type.num_fields)}
    arrays = []
    for at in range(struct.num_fields):
        name, kind = struct.field(at).name, struct.field(at).type
        values = before.get(name)
        if values is not None and pa.types.is_integer(values.type) and pa.types.is_floating(kind):
            values = values.cast(kind, safe=False)
        arrays.append(values if values is not None and values.type == kind else pa.nulls(len(cells), kind))
    return pa.StructArray.from_arrays(arrays, fields=list(struct), mask=cells.is_null())


def sound_vectors(table: Any, names: list[str], modalities: list[str]) -> pa.Table:
    """Digest and vectors under these names of the modalities' rows that hash to what was written: what a row keeps of
    an encoder that the lake no longer uses. A damaged row keeps none, since its new hash would hide the damage."""
    among = ", ".join(f"'{modality}'" for modality in modalities)
    some = " OR ".join(f"{name} IS NOT NULL" for name in names)
    kept = []
    for batch in table.search().where(f"modality IN ({among}) AND ({some})").limit(None).to_batches(_BATCH_ROWS):
        rows = pa.Table.from_batches([batch])
        kept.append(rows.filter(pc.equal(rows["row_hash"], pa.array(row_hashes(rows)))).select(["digest", *names]))
    fields = [pa.field("digest", pa.string()), *(table.schema.field(name) for name in names)]
    return pa.concat_tables([one.cast(pa.schema(fields)) for one in kept]) if kept else pa.schema(fields).empty_table()
