"""Rows of a lake: its `items` tables as batches, whole or only what a version admits. Bytes stay in the store, named by
digest.

What the records of a sample say together goes to a metadata row; what one row says alone stays with the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json
from mmlake.rows.batch import RowBatch
from mmlake.rows.columns import agreed, opened
from mmlake.rows.order import as_mask, by_sample, content_mask, cut, filter_rows
from mmlake.rows.schema import METADATA, METADATA_POSITION, RESERVED, SCHEMA, align
from mmlake.schemas import ITEMS
from mmlake.tables import Slot, Tables

_BATCH_SAMPLES = 4096
_BATCH_BYTES = 256 << 20  # of texts in memory at once; bytes of media are not read here


def lake_shards(tables: Tables) -> list[str]:
    """The shards that have an items table of any modality, sorted."""
    return sorted(
        {shard for modality in tables.modalities(ITEMS.name) for shard in tables.shards(ITEMS.name, modality)}
    )


def lake_rows(
    tables: Tables,
    *,
    shards: Sequence[str] | None = None,
    digests: Collection[str] | None = None,
    is_distinct: bool = False,
    fields: Sequence[str] | None = None,
    advance: Advance = silent,
) -> Iterator[RowBatch]:
    """The rows of the shards in order, a few thousand whole samples at a time.

    advance: called for each shard. digests: only items of these; None for all. is_distinct: each digest comes once, in
    the first sample that has it, and what else has it loses that part; else every sample has all of its parts. fields:
    those of `metadata_json` that become columns, the others are left out; None keeps the JSON.
    Raises SettingsError for a shard without tables and for a field with the name of a reserved column.
    """
    known = lake_shards(tables)
    if unknown := sorted(set(shards or ()) - set(known)):
        raise SettingsError(
            f"shard {unknown[0]!r} has no items in {tables.root}; `mmlake scan` lists the shards, `mmlake run` "
            "ingests them"
        )
    if taken := sorted(set(fields or ()) & RESERVED):
        raise SettingsError(f"field {taken[0]!r} has the name of a column that every batch has; leave it out")
    wanted = None if digests is None else pa.array(sorted(digests), pa.string())
    given: pa.Array | None = pa.array([], pa.string()) if is_distinct else None
    for shard in known if shards is None else list(dict.fromkeys(shards)):
        batch = RowBatch(_with_metadata(_items(tables, shard), fields), source_files=(shard,), name="lake")
        if wanted is not None or given is not None:
            keep, given = _admitted(batch.to_arrow(), wanted, given)
            batch = filter_rows(batch, keep)
        if batch.num_rows:
            yield from cut(batch, max_samples=_BATCH_SAMPLES, max_bytes=_BATCH_BYTES)
        advance(1)


def absent(tables: Tables, digests: Collection[str]) -> list[str]:
    """Which of these digests no items table has, sorted: of a version whose sources changed since, what `lake_rows`
    does not give."""
    left = pa.array(sorted(digests), pa.string())
    for modality in tables.modalities(ITEMS.name):
        for shard in tables.shards(ITEMS.name, modality):
            held = tables.read(Slot(ITEMS.name, modality, shard), columns=["digest"])["digest"]
            left = left.filter(pc.invert(pc.is_in(left, value_set=held.combine_chunks())))
    found: list[str] = left.to_pylist()
    return found


def _items(tables: Tables, shard: str) -> pa.Table:
    parts = [
        tables.read(Slot(ITEMS.name, modality, shard))
        for modality in tables.modalities(ITEMS.name)
        if tables.has(ITEMS.name, modality, shard)
    ]
    table = pa.concat_tables(parts)
    # the order of the source, whatever table an item is in
    order = pc.sort_indices(table, sort_keys=[("item_id", "ascending")])
    return by_sample(align(table.take(order), SCHEMA))[0]


def _admitted(table: pa.Table, wanted: pa.Array | None, given: pa.Array | None) -> tuple[np.ndarray, pa.Array | None]:
    """(which rows stay, metadata rows included; the digests that have been given so far). wanted: None for all. given:
    None where a digest may come again."""
    digests, metadata = table["digest"], ~content_mask(table)
    keep = np.ones(table.num_rows, bool) if wanted is None else as_mask(pc.is_in(digests, wanted), table.num_rows)
    keep &= ~metadata
    if given is not None:
        keep &= ~as_mask(pc.is_in(digests, given), table.num_rows)
        rows = np.flatnonzero(keep & as_mask(pc.is_valid(digests), table.num_rows))
        found = digests.take(pa.array(rows)).combine_chunks()
        numbers = found.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        keep[np.delete(rows, np.unique(numbers, return_index=True)[1])] = False
        given = pa.concat_arrays([given, found.unique()])
    return keep | metadata, given


def _with_metadata(table: pa.Table, fields: Sequence[str] | None) -> pa.Table:
    """The table with a metadata row before each sample whose records say something."""
    table, bounds = by_sample(table)
    texts = table["metadata_json"].to_pylist()
    said: list[dict[str, Any]] = []
    own: list[dict[str, Any]] = []
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        same = len(set(texts[first:last])) == 1  # as in most samples: parsed once
        common, companions = (
            (opened(texts[first]), [{} for _ in range(last - first)])
            if same
            else agreed([opened(text) for text in texts[first:last]])
        )
        said.append(common)
        own += companions
    speaking = np.array([at for at, common in enumerate(said) if common], dtype=np.int64)
    heads = table.select(["sample_id", "source", "licence"]).take(pa.array(bounds[speaking]))
    rows = [
        {
            "sample_id": head["sample_id"],
            "position": METADATA_POSITION,
            "modality": METADATA,
            "content_type": "application/json",
            "source": head["source"],
            "licence": head["licence"],
        }
        for head in heads.to_pylist()
    ]
    if fields is None:
        rows = [
            row | {"metadata_json": canonical_json(said[at])} for row, at in zip(rows, speaking.tolist(), strict=True)
        ]
    content = table.set_column(
        table.schema.get_field_index("metadata_json"),
        "metadata_json",
        pa.array([canonical_json(one) if one and fields is None else None for one in own], pa.large_string()),
    )
    merged = pa.concat_tables([pa.Table.from_pylist(rows, schema=SCHEMA), content])
    if fields:
        values = [said[at] for at in speaking.tolist()] + own
        for name in fields:
            merged = merged.append_column(name, _column([one.get(name) for one in values]))
    places = np.concatenate([bounds[speaking] - 0.5, np.arange(table.num_rows)])
    return merged.take(pa.array(np.argsort(places, kind="stable")))


def _column(values: list[Any]) -> pa.Array:
    """The values as a column of their own type, as text where they have none in common; nested ones as JSON."""
    values = [canonical_json(value) if isinstance(value, (dict, list)) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or len(kinds) < 2:
        try:
            return pa.array([float(value) if float in kinds and value is not None else value for value in values])
        except (pa.ArrowInvalid, OverflowError):
            pass  # an integer beyond 64 bits
    return pa.array(
        [value if value is None or isinstance(value, str) else canonical_json(value) for value in values], pa.string()
    )
