"""The catalog brought up to date with the stage tables: bulk, idempotent, every distinct digest accounted for."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import catalog, contracts, preprocess
from mmlake.lake import Lake
from mmlake.parts import measure_columns
from mmlake.progress import Advance, silent
from mmlake.tables import Slot, Stamp, Stopwatch, joint_version

CODE_VERSION = "3"
SLOT = Slot("catalog", "all")
_ROW_TABLES = ("items", "verdicts", "embeddings")
_LOG = logging.getLogger(__name__)


def catalog_inputs(lake: Lake) -> dict[str, str]:
    """Data versions of everything that the catalog is joined from."""
    inputs = {}
    for modality in lake.parts.modalities:
        for table in (*_ROW_TABLES, "tracks", "units", "measures"):
            inputs[f"{modality}/{table}"] = joint_version(lake.tables.stamps(table, modality))
        clusters = lake.tables.stamp(Slot("duplicate_clusters", modality))
        inputs[f"{modality}/duplicate_clusters"] = clusters.data_version if clusters else ""
    return inputs


def catalog_is_current(lake: Lake) -> bool:
    """Whether the catalog holds what the stage tables hold now."""
    stamp = lake.tables.stamp(SLOT)
    return stamp is not None and stamp.code_version == CODE_VERSION and stamp.inputs == catalog_inputs(lake)


def update_catalog(lake: Lake, *, advance: Advance = silent, run_id: str = "") -> Stamp:
    """The stamp of the catalog, which now holds one row per distinct unit of all items. Raises ContractBroken
    where one is missing or too many."""
    started = Stopwatch()
    inputs, counts, expected = catalog_inputs(lake), {"inserted": 0, "updated": 0}, set()
    fields, left_out = _source_fields(lake)
    for modality, row in lake.parts.modalities.items():
        items, verdicts, embeddings = (lake.tables.concat(table, modality) for table in _ROW_TABLES)
        tracks = unit_tracks_of(lake, modality)
        rows = catalog.rows(
            items,
            tracks,
            verdicts,
            lake.tables.read(Slot("duplicate_clusters", modality)),
            embeddings,
            modality=modality,
            measures=lake.tables.concat("measures", modality, columns=["digest", "measure", "value"]),
            measure_columns=measure_columns(row),
            source_fields=fields,
        )
        contracts.same_keys(
            f"{modality}: units -> catalog",
            unit_digests(lake, modality),
            rows.column("digest").to_pylist(),
        )
        for name, count in lake.catalog.upsert(rows).items():
            counts[name] = counts.get(name, 0) + count
        expected |= set(rows.column("digest").to_pylist())
        advance(rows.num_rows)
    counts["source_fields_left_out"] = left_out
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


def unit_tracks_of(lake: Lake, modality: str) -> pa.Table:
    """The tracks of the units of all shards; a shard that has no units yet has none."""
    found = [preprocess.UNIT_TRACKS.empty_table()]
    for shard in lake.tables.shards("units", modality):
        tracks, units = (lake.tables.read(Slot(table, modality, shard)) for table in ("tracks", "units"))
        found.append(preprocess.unit_tracks(tracks, units))
    return pa.concat_tables(found)


def unit_digests(lake: Lake, modality: str) -> set[str]:
    """The units of all items; an item that no table of units has yet is one."""
    items = set(contracts.digests(lake.tables.concat("items", modality, columns=["digest"])))
    found = lake.tables.concat("units", modality, columns=["digest", "parent_digest", "kind"])
    units = found.filter(pc.not_equal(found.column("kind"), preprocess.GAP))
    return items - set(found.column("parent_digest").to_pylist()) | set(units.column("digest").to_pylist())


def _source_fields(lake: Lake) -> tuple[pa.StructType | None, int]:
    """The source fields of all items that have bytes, with one type over the lake, and how many are left out."""
    types = catalog.FieldTypes()
    for modality in lake.parts.modalities:
        for _, items in lake.tables.scan("items", modality, columns=["digest", "metadata_json"]):
            types.add(items.filter(items.column("digest").is_valid()).column("metadata_json").to_pylist())
    struct, left_out = types.struct()
    if left_out:
        kept = 0 if struct is None else struct.num_fields
        _LOG.info("catalog: %d source fields are columns, %d are left out (docs/catalog.md)", kept, left_out)
    return struct, left_out
