"""What the first two row steps do: a shard to items, and items to the blobs that the store has."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import checked_json, contracts, parts, schemas, sources
from mmlake.errors import BlobMissing, ContractBroken, MmlakeError
from mmlake.lake import Lake
from mmlake.steps import standing
from mmlake.steps.former import files_kept, kept_path
from mmlake.steps.step import Before, Job
from mmlake.store import write_atomically
from mmlake.tables import Slot


def make_items(job: Job) -> Iterator[pa.Table]:
    shard = job.lake.registry.get(job.shard)
    if not any(map(job.lake.landing.has, shard.directories or (shard.path,))):
        # A shard that is gone says nothing about its data, so it must not become rows that say "unreadable".
        raise MmlakeError(
            f"shard {job.shard} is no longer at {shard.path} in {job.lake.landing.location}; land it again, or "
            "scan the landing zone anew so that it counts as gone"
        )
    slot = Slot(schemas.ITEMS.name, job.modality, job.shard)
    files = sources.StoredFiles(_known(files_kept(job.lake, slot)), job.lake.store)
    found = sources.ingested(
        shard,
        job.modality,
        landing=job.lake.landing,
        store=job.lake.store,
        settings=job.lake.settings.sources,
        connectors=job.lake.parts.connectors,
        advance=job.advance,
        downloads=job.lake.downloads,
        parsed=job.lake.parsed_files,
        files=files,
    )
    yield from standing.in_order(job, schemas.ITEMS, found)
    path = kept_path(job.lake, slot, "files")
    if files.now or path.exists():
        write_atomically(path, checked_json.dumps({"files": files.now}))


def _known(paths: Iterable[Path]) -> dict[str, list[str]]:
    """What large loose files were, as far as it was kept and is whole."""
    known: dict[str, list[str]] = {}
    for path in paths:
        with suppress(OSError, ValueError, KeyError):
            known |= checked_json.loads(path.read_bytes())["files"]
    return known


def retry_items(job: Job, before: Before) -> Iterator[pa.Table]:
    shard = job.lake.registry.get(job.shard)
    if shard.format == sources.URL_LIST:
        # What an address gives now may be of another modality than the row that failed; what was downloaded before is
        # not downloaded again.
        yield from make_items(job)
        return
    found = sources.reingested(
        shard,
        job.modality,
        before.tables,
        wanted=before.keys,
        landing=job.lake.landing,
        store=job.lake.store,
        settings=job.lake.settings.sources,
        connectors=job.lake.parts.connectors,
        advance=job.advance,
        downloads=job.lake.downloads,
        parsed=job.lake.parsed_files,
    )
    yield from standing.in_order(job, schemas.ITEMS, found)
    before.num_kept = sum(part.num_rows for part in before.tables(["item_id"]))


def reading(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.steering([lake.parts.connectors[lake.registry.get(shard).format]])


def check_items(job: Job, items: pa.Table) -> int:
    strange = items.filter(pc.not_equal(items.column("modality"), job.modality)).num_rows
    if strange:
        raise ContractBroken(
            f"{job.modality}/items[{job.shard}]: {strange} rows are of another modality; correct the connector"
        )
    bare = items.filter(pc.and_(pc.is_null(items.column("digest")), pc.equal(items.column("status"), "ok"))).num_rows
    if bare:
        raise ContractBroken(
            f"{job.modality}/items[{job.shard}]: {bare} rows are ok but have no digest; correct the connector"
        )
    return int(items.num_rows)


def make_blobs(job: Job) -> pa.Table:
    counted = pa.concat_tables(job.parts("items", ["digest"])).group_by("digest").aggregate([([], "count_all")])
    counted = counted.filter(pc.is_valid(counted["digest"])).sort_by("digest")
    sizes, lost = array("q"), array("b")
    for digest in counted["digest"]:
        try:
            sizes.append(job.lake.store.size(digest.as_py()))
            lost.append(False)
        except BlobMissing:
            sizes.append(0)
            lost.append(True)
        job.advance(1)
    is_lost = pa.array(np.array(lost, np.bool_))
    columns = {
        "digest": counted["digest"],
        "size_bytes": pa.array(np.array(sizes, np.int64)),
        "num_occurrences": counted["count_all"],
        "status": pc.if_else(is_lost, "unreadable", "ok"),
        "error_code": pc.if_else(is_lost, pa.scalar(2001, pa.int32()), None),
    }
    return schemas.conform(schemas.BLOBS, schemas.from_columns(schemas.BLOBS, columns))


def check_blobs(job: Job, blobs: pa.Table) -> int:
    items = job.read("items", ["digest"])
    contracts.same_keys(
        f"{job.modality}/blobs[{job.shard}]", contracts.digests(items), blobs.column("digest").to_pylist()
    )
    return int(sum(blobs.column("num_occurrences").to_pylist()) + items.column("digest").null_count)
