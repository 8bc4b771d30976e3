"""Rows of an `items` table read again: those that failed, with all of their samples."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.download.results import Downloads
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources.connectors.table import SOURCES, Connectors
from mmlake.sources.ingestion import ingest, read
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.raw_items import item_id_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.store import Blobs


def reingest(
    shard: Shard,
    modality: str,
    items: pa.Table,
    *,
    wanted: Collection[str],
    landing: Landing | str | os.PathLike[str],
    store: Blobs,
    settings: SourceSettings,
    advance: Advance = silent,
    downloads: Downloads | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> pa.Table:
    """The ITEMS table with those rows read again whose sample has an item_id that is wanted. The shard must be the
    revision that the table was made from.

    wanted: may name rows of other modalities, whose text belongs to a medium here. Where the shard now has other
    rows, since what failed was the reading of the shard itself, all of them are read.
    """
    landing, parsed = as_landing(landing), parsed or ParsedFiles()
    found = [
        (item_id_of(shard.key, item), item.sample_id, item.modality)
        for item in read(
            shard, landing=landing, settings=settings, downloads=downloads, parsed=parsed, connectors=connectors
        )
    ]
    ingest_again = partial(
        ingest, shard, modality, landing=landing, store=store, settings=settings, advance=advance, downloads=downloads,
        parsed=parsed, connectors=connectors,
    )  # fmt: skip
    if {item_id for item_id, _, kind in found if kind == modality} != set(items.column("item_id").to_pylist()):
        return ingest_again()
    samples = {sample_id for item_id, sample_id, _ in found if item_id in wanted}
    chosen = frozenset(item_id for item_id, sample_id, kind in found if kind == modality and sample_id in samples)
    again = ingest_again(wanted=chosen)
    is_again = pc.is_in(items.column("item_id"), value_set=again.column("item_id").combine_chunks())
    return schemas.conform(schemas.ITEMS, pa.concat_tables([items.filter(pc.invert(is_again)), again]))
