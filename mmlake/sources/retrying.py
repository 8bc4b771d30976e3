"""Failed rows of a finished `items` table tried again; all others stay as they are, and their bytes are not read."""

from __future__ import annotations

import os
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources.ingesting import rows_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.sources.web.answers import Downloads
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
) -> pa.Table:
    """The ITEMS table with those rows read again whose item_id is wanted. The shard must be the revision that the table was made from."""
    again = list(rows_of(shard, modality, landing=as_landing(landing), store=store, settings=settings, wanted=frozenset(wanted), advance=advance, downloads=downloads))
    kept = items.filter(pc.invert(pc.is_in(items.column("item_id"), value_set=pa.array([row["item_id"] for row in again], pa.string()))))
    return schemas.conform(schemas.ITEMS, pa.concat_tables([kept, schemas.from_rows(schemas.ITEMS, again)]))
