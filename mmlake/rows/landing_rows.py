"""Rows of a landing zone that needs no lake: shard after shard, whatever their formats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake import sources
from mmlake.errors import SettingsError
from mmlake.landing import Landing
from mmlake.progress import Advance, silent
from mmlake.rows.batch import RowBatch
from mmlake.rows.row_reader import read_rows
from mmlake.rows.schema import REQUIRED, RESERVED, SCHEMA
from mmlake.rows.stored_rows import read_parquet_rows


def pick_shards(
    landing: Landing, keys: Sequence[str] | None, *, settings: sources.SourceSettings
) -> list[sources.Shard]:
    """The landing zone's shards of these keys; all of them for None. Raises SettingsError for a key that no shard
    has."""
    found = {shard.key: shard for shard in sources.scan(landing, settings=settings)}
    if unknown := sorted(set(keys or ()) - set(found)):
        raise SettingsError(f"shard {unknown[0]!r} is not in {landing.location}; `mmlake scan` lists the shards")
    return list(found.values()) if keys is None else [found[key] for key in dict.fromkeys(keys)]


def landing_rows(
    shards: Sequence[sources.Shard],
    *,
    landing: Landing,
    settings: sources.SourceSettings,
    fields: Sequence[str] | None = None,
    per_image_fields: Sequence[str] = (),
    per_text_fields: Sequence[str] = (),
    with_bytes: bool = False,
    batch_bytes: int = 64 << 20,
    advance: Advance = silent,
) -> Iterator[RowBatch]:
    """The rows of the shards, batches of whole samples. Parquet files that hold rows already give them as they are.

    fields: the only fields of the records that are kept, as columns; None keeps all. with_bytes: whether media are read
    on the way, once, which compressed tars want. advance: called for each shard. Raises SettingsError for a field with
    the name of a reserved column.
    """
    if taken := sorted({*(fields or ()), *per_image_fields, *per_text_fields} & RESERVED):
        raise SettingsError(f"field {taken[0]!r} has the name of a column that every batch has; leave it out")
    # A tar that the writer of rows made names its samples so; else their ids would be percent forms of percent forms.
    settings = replace(settings, sample_id_field=settings.sample_id_field or "sample_id")
    for stored, group in itertools.groupby(
        shards, key=lambda shard: shard.format == "parquet" and _holds_rows(landing, shard.path)
    ):
        members = list(group)
        if stored:
            batches = read_parquet_rows(
                [shard.path for shard in members], landing=landing, fields=fields, max_batch_bytes=batch_bytes
            )
        else:
            batches = read_rows(
                members,
                landing=landing,
                settings=settings,
                fields=fields,
                per_image_fields=per_image_fields,
                per_text_fields=per_text_fields,
                materialize="read" if with_bytes else "never",
                max_batch_bytes=batch_bytes,
                not_a_list="report",
            )
        waiting = {shard.path for shard in members}
        for batch in batches:
            yield batch if fields is None else _without_record(batch)
            begun = waiting.intersection(batch.source_files)
            waiting -= begun
            advance(len(begun))
        advance(len(waiting))  # directories, and shards without rows


def _holds_rows(landing: Landing, path: str) -> bool:
    try:
        with landing.open(path) as file:
            names = set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError, ValueError):  # ValueError: a name that is no text
        return False  # a damaged file: its reader says why
    return names.issuperset(REQUIRED)


def _without_record(batch: RowBatch) -> RowBatch:
    """The batch without the whole record that `metadata_json` keeps next to the columns that were asked for."""
    table = batch.to_arrow()
    if (at := table.schema.get_field_index("metadata_json")) < 0:
        return batch
    return replace(
        batch,
        table=table.set_column(
            at, SCHEMA.field("metadata_json"), pa.nulls(table.num_rows, SCHEMA.field("metadata_json").type)
        ),
    )
