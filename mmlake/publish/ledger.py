"""The cost ledger and the precompute plan of a whole lake."""

from __future__ import annotations

import pyarrow as pa

from mmlake import costs
from mmlake.errors import BlobMissing
from mmlake.lake import Lake
from mmlake.tables import Slot, Stamp


def lake_slots(lake: Lake) -> list[Slot]:
    """Every slot of the lake that has a stamp, readable or not."""
    if not lake.tables.root.exists():
        return []
    tables = sorted(path.name for path in lake.tables.root.iterdir() if path.is_dir())
    return [
        Slot(table, modality, shard)
        for table in tables
        for modality in (*lake.parts.modalities, "all")
        for shard in lake.tables.shards(table, modality)
    ]


def lake_stamps(lake: Lake) -> dict[Slot, Stamp]:
    """Every stamp of the lake. Raises TableCorrupt where one cannot be read."""
    return {slot: stamp for slot in lake_slots(lake) if (stamp := lake.tables.stamp(slot)) is not None}


def ledger(lake: Lake) -> pa.Table:
    """Seconds, bytes and estimated dollars per step and modality (schema COSTS)."""
    return costs.stage_costs(lake_stamps(lake))


def plan(lake: Lake, *, reads_per_month: float) -> pa.Table:
    """Keep or make again, per artifact (schema PLAN). What decoding leaves in the store counts with its table."""
    table = ledger(lake)
    made = {f"{row['modality']}/{row['stage']}": row["table_bytes"] for row in table.to_pylist()}
    sizes = {
        name: made[name] + _derived_bytes(lake, modality)
        for modality in lake.parts.modalities
        if (name := f"{modality}/tracks") in made
    }
    return costs.precompute_plan(table, sizes, reads_per_month=reads_per_month)


def _derived_bytes(lake: Lake, modality: str) -> int:
    """Bytes of the keyframes and sound tracks that decoding the modality put into the store."""
    digests: set[str] = set()
    for tracks in lake.tables.scan_parts("tracks", modality, columns=["audio_digest", "frames_digest", "keyframes"]):
        for name in ("audio_digest", "frames_digest"):
            digests |= set(tracks.column(name).drop_null().to_pylist())
        digests |= {frame["digest"] for frames in tracks.column("keyframes").to_pylist() for frame in frames}
    return sum(_size(lake, digest) for digest in digests)


def _size(lake: Lake, digest: str) -> int:
    try:
        return lake.store.size(digest)
    except BlobMissing:
        return 0  # `mmlake fsck` says so; it takes no room
