"""The catalog brought up to date with the stage tables: bulk, idempotent, every distinct digest accounted for."""

from __future__ import annotations

from mmlake import catalog, contracts
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.tables import Slot, Stamp, Stopwatch, joint_version

CODE_VERSION = "1"
SLOT = Slot("catalog", "all")
_ROW_TABLES = ("items", "tracks", "verdicts", "embeddings")


def catalog_inputs(lake: Lake) -> dict[str, str]:
    """Data versions of everything that the catalog is joined from."""
    inputs = {}
    for modality in lake.parts.modalities:
        for table in _ROW_TABLES:
            inputs[f"{modality}/{table}"] = joint_version(lake.tables.stamps(table, modality))
        clusters = lake.tables.stamp(Slot("duplicate_clusters", modality))
        inputs[f"{modality}/duplicate_clusters"] = clusters.data_version if clusters else ""
    return inputs


def catalog_is_current(lake: Lake) -> bool:
    """Whether the catalog holds what the stage tables hold now."""
    stamp = lake.tables.stamp(SLOT)
    return stamp is not None and stamp.code_version == CODE_VERSION and stamp.inputs == catalog_inputs(lake)


def update_catalog(lake: Lake, *, advance: Advance = silent, run_id: str = "") -> Stamp:
    """The stamp of the catalog, which now holds one row per distinct digest of all items. Raises ContractBroken
    where one is missing or too many."""
    started = Stopwatch()
    inputs, counts, expected = catalog_inputs(lake), {"inserted": 0, "updated": 0}, set()
    for modality in lake.parts.modalities:
        items, tracks, verdicts, embeddings = (lake.tables.concat(table, modality) for table in _ROW_TABLES)
        rows = catalog.rows(
            items,
            tracks,
            verdicts,
            lake.tables.read(Slot("duplicate_clusters", modality)),
            embeddings,
            modality=modality,
        )
        contracts.same_keys(
            f"{modality}: items -> catalog", contracts.digests(items), rows.column("digest").to_pylist()
        )
        for name, count in lake.catalog.upsert(rows).items():
            counts[name] = counts.get(name, 0) + count
        expected |= set(rows.column("digest").to_pylist())
        advance(rows.num_rows)
    counts["removed"] = lake.catalog.remove_absent(expected)
    lake.catalog.compact()
    held = lake.catalog.read(["digest"]).column("digest").to_pylist()
    counts["accounted"] = contracts.same_keys("stage tables -> catalog", expected, held)
    size = sum(path.stat().st_size for path in (lake.root / "catalog").rglob("*") if path.is_file())
    stamp = Stamp(
        data_version=lake.catalog.data_version(),
        schema_version=1,
        num_rows=len(held),
        size_bytes=size,
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=inputs,
        counts=counts,
        run_id=run_id,
        **started.fields(),
    )
    return lake.tables.mark(SLOT, stamp)
