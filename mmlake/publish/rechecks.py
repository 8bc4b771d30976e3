"""The contracts of the catalog and of versions, checked on what is on disk now."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts
from mmlake.errors import ContractBroken, ShardCorrupt
from mmlake.lake import Lake
from mmlake.publish.catalog import unit_digests
from mmlake.publish.version_shards import hashed_shards
from mmlake.shards import ShardIndex, verify_shards


def recheck_catalog(lake: Lake, modality: str | None = None) -> int:
    """Rows of the catalog, of the modality or of all: one per distinct unit of its items, each as it was written.
    Raises ContractBroken."""
    lake.catalog.verify_unique()
    expected = {
        digest for one in ([modality] if modality else lake.parts.modalities) for digest in unit_digests(lake, one)
    }
    held = lake.catalog.read(["digest", "modality"])
    if modality:  # a digest that another modality has too may have its row there
        shared = pc.is_in(held["digest"], value_set=pa.array(sorted(expected), pa.string()))
        held = held.filter(pc.or_(pc.equal(held["modality"], modality), shared))
    rows = contracts.same_keys("units -> catalog", expected, held["digest"].to_pylist())
    if problems := lake.catalog.verify(modality):
        raise ContractBroken(
            f"catalog: {len(problems)} rows are not as they were written, such as {problems[0]}; materialize the "
            "catalog again"
        )
    return rows


def recheck_manifest(lake: Lake, version: str) -> int:
    """Samples of the version: manifest and segments hash to their names, totals add up, and no sample is excluded too.
    Raises ContractBroken."""
    if problems := lake.versions.verify(version):
        raise ContractBroken(f"{version}: {'; '.join(problems)}")
    held = lake.versions.samples(version).column("sample").to_pylist()
    excluded = lake.versions.excluded(version)
    both = set(held) & set(excluded.filter(excluded["is_whole"]).column("sample").to_pylist())
    if both:
        raise ContractBroken(
            f"{version}: {len(both)} samples are held and excluded at once, such as {min(both)}; build the version "
            "again"
        )
    return len(held)


def recheck_shards(lake: Lake, version: str) -> int:
    """Samples in the version's training shards, every one of the manifest, every byte hashed since it was written.
    Raises ShardCorrupt, ContractBroken."""
    directory = lake.shards_dir / lake.versions.resolve(version)
    if problems := verify_shards(directory, hashed=hashed_shards(lake), only_new=True):
        raise ShardCorrupt(f"{version}: {'; '.join(problems)}; materialize training_shards again")
    held, written = lake.versions.read(version).num_samples, ShardIndex.read(directory).num_samples
    if held != written:
        raise ContractBroken(
            f"{version}: the manifest holds {held} samples, its shards {written}; materialize training_shards again"
        )
    return written


def losses_of(lake: Lake, version: str) -> dict[str, float]:
    """Modality -> the share of its parent's samples by which the version has fewer; only where it has fewer."""
    made = lake.versions.read(version)
    if not made.parents:
        return {}
    now, before = made.samples, lake.versions.read(made.parents[0]).samples
    counts = {name: (total["num_samples"], now.get(name, {}).get("num_samples", 0)) for name, total in before.items()}
    return {name: 1 - held / total for name, (total, held) in counts.items() if held < total}
