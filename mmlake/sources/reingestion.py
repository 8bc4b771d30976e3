"""Rows of an `items` table read again: those that failed, with all of their samples."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.download.results import Downloads
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources.connectors.table import SOURCES, Connectors
from mmlake.sources.ingestion import ingested, read
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.raw_items import item_id_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.store import Blobs


def reingested(
    shard: Shard,
    modality: str,
    items: Callable[[list[str] | None], Iterable[pa.Table]],
    *,
    wanted: Collection[str],
    landing: Landing | str | os.PathLike[str],
    store: Blobs,
    settings: SourceSettings,
    advance: Advance = silent,
    downloads: Downloads | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> Iterator[pa.Table]:
    """The rows of the ITEMS table, some at a time and in no order, those read again whose sample has an item_id that is
    wanted. The shard must be the revision that the table was made from. In memory are nine bytes of each item.

    items: gives the table's columns of these names, or all, a part at a time, as often as it is called.
    wanted: may name rows of other modalities, whose text belongs to a medium here. Where the shard now has other
    rows, since what failed was the reading of the shard itself, all of them are read.
    """
    landing, parsed = as_landing(landing), parsed or ParsedFiles()
    samples, is_own = array("q"), array("b")  # by ordinal
    for item in read(
        shard, landing=landing, settings=settings, downloads=downloads, parsed=parsed, connectors=connectors
    ):
        samples.append(hash(item.sample_id))  # one that meets another's is read again for nothing
        is_own.append(item.modality == modality)
    ingested_again = partial(
        ingested, shard, modality, landing=landing, store=store, settings=settings, advance=advance,
        downloads=downloads, parsed=parsed, connectors=connectors,
    )  # fmt: skip
    own = np.flatnonzero(np.frombuffer(is_own, np.int8)) if is_own else np.zeros(0, np.int64)
    if not _are_of(items(["item_id"]), own, shard.key):
        yield from ingested_again()
        return
    samples_N, before = np.array(samples, np.int64), f"{shard.key}#"
    named = [int(one.removeprefix(before)) for one in wanted if one.startswith(before)]
    chosen = own[np.isin(samples_N[own], samples_N[[at for at in named if at < len(samples_N)]])]
    again = pa.array([item_id_of(shard.key, at) for at in chosen.tolist()], pa.string())
    for part in items(None):
        yield part.filter(pc.invert(pc.is_in(part["item_id"], value_set=again)))
    yield from ingested_again(wanted=frozenset(again.to_pylist()))


def _are_of(items: Iterable[pa.Table], ordinals: np.ndarray, key: str) -> bool:
    """Whether the ids of the rows are those of the items of the shard with that key and these ordinals, each once."""
    found = [np.zeros(0, np.int64)]
    for part in items:
        ids = part["item_id"]
        if not pc.all(pc.starts_with(ids, pattern=f"{key}#")).as_py() and len(ids):
            return False
        found.append(pc.utf8_slice_codeunits(ids, len(key) + 1).cast(pa.int64()).to_numpy())
    return np.array_equal(np.sort(np.concatenate(found)), ordinals)
