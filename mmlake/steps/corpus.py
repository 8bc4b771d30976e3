"""The corpus steps: one table per modality, over all of its shards."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, dedup, preprocess, schemas, sources
from mmlake.lake import Lake
from mmlake.records import LEADING_ROLES
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.steps.row import near_tiers
from mmlake.steps.step import Job, Step
from mmlake.tables import Slot


def _near(job: Job) -> pa.Table:
    # one blob may lie in several shards, and have failed in one of them
    made = contracts.made(job.lake.tables.concat("fingerprints", job.modality))
    compared = pc.is_in(made.column("digest"), value_set=pa.array(_compared(job), pa.string()))
    fingerprints = _first_per_key(made.filter(compared), ["digest", "method"])
    return dedup.near_pairs(fingerprints, job.row.tiers, settings=job.lake.settings.dedup, advance=job.advance)


def _check_near(job: Job, pairs: pa.Table) -> int:
    return _check_pairs(job, pairs, "fingerprints")


def _semantic(job: Job) -> pa.Table:
    near = job.lake.tables.read(Slot("near_duplicates", job.modality))
    clusters = dedup.cluster(_nodes(job), near)
    survivors = clusters.filter(clusters.column("is_survivor")).column("digest")
    made = contracts.made(job.lake.tables.concat("embeddings", job.modality))
    embeddings = _first_per_key(made, ["digest", "encoder"])
    usable = pc.is_in(embeddings.column("digest"), value_set=survivors.combine_chunks())
    pairs = dedup.semantic_pairs(
        embeddings.filter(usable),
        job.lake.parts.semantic_bounds,
        settings=job.lake.settings.dedup,
        advance=job.advance,
    )
    pairs = _of_different_items(job, pairs)
    if not pairs.num_rows:
        return pairs
    return dedup.without_template_siblings(
        pairs,
        job.lake.tables.concat("fingerprints", job.modality, columns=["digest", "method", "hashes"]),
        settings=job.lake.settings.dedup,
    )


def _of_different_items(job: Job, pairs: pa.Table) -> pa.Table:
    """The pairs without those of two spans of one item: one speaker in one room is near itself in every vector, and
    says something else each time. What is truly said twice has a near pair."""
    units = job.lake.tables.concat("units", job.modality, columns=["digest", "parent_digest"])
    parents = [
        units["parent_digest"].take(pc.index_in(pairs[side], value_set=units["digest"].combine_chunks()))
        for side in ("left", "right")
    ]
    return pairs.filter(pc.not_equal(*parents))


def _bound(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What the stamp says of the encoder's row: its bound, which no section of the settings holds."""
    encoder = lake.parts.encoder(lake.encoder_of(modality), modality)
    return {f"encoders/{encoder.name}": f"duplicate_cosine={encoder.duplicate_cosine:g}"}


def _check_semantic(job: Job, pairs: pa.Table) -> int:
    return _check_pairs(job, pairs, "embeddings")


def _check_pairs(job: Job, pairs: pa.Table, table: str) -> int:
    known = contracts.digests(job.lake.tables.concat(table, job.modality, columns=["digest"]))
    used = set(pairs.column("left").to_pylist()) | set(pairs.column("right").to_pylist())
    return contracts.known_keys(f"{job.modality}: pairs of {table}", known, used)


def _clusters(job: Job) -> pa.Table:
    near, semantic = (
        job.lake.tables.read(Slot(name, job.modality)) for name in ("near_duplicates", "semantic_duplicates")
    )
    return dedup.cluster(_nodes(job), pa.concat_tables([near, semantic]))


def _check_clusters(job: Job, clusters: pa.Table) -> int:
    return contracts.same_keys(
        f"{job.modality}/duplicate_clusters", _compared(job), clusters.column("digest").to_pylist()
    )


def _compared(job: Job) -> list[str]:
    """Every admitted unit that leads a sample, sorted. Captions and transcripts are no documents: one that many
    pictures have is no duplicate."""
    tables = job.lake.tables
    verdicts = tables.concat("verdicts", job.modality, columns=["digest", "status"])
    units = tables.concat("units", job.modality, columns=["digest", "role"])
    leading = pc.is_in(units.column("role"), value_set=pa.array(LEADING_ROLES, pa.string()))
    return sorted(set(contracts.admitted(verdicts)) & set(contracts.digests(units.filter(leading))))


def _nodes(job: Job) -> pa.Table:
    """Every compared unit of the modality with what decides who survives: source priority, then verdict and size,
    then digest."""
    tables, size = job.lake.tables, job.row.size
    priorities = sources.priorities(job.lake.landing)
    items = tables.concat("items", job.modality, columns=["digest", "source"])
    priority: dict[str, int] = {}
    occurrences: dict[str, int] = {}
    for digest, source in zip(*(items.column(name).to_pylist() for name in ("digest", "source")), strict=True):
        if digest is not None:
            priority[digest] = min(priority.get(digest, 2**31 - 1), priorities.get(source, DEFAULT_PRIORITY))
            occurrences[digest] = occurrences.get(digest, 0) + 1
    tracks = tables.concat("tracks", job.modality, columns=["digest", size])
    sizes = dict(zip(tracks.column("digest").to_pylist(), tracks.column(size).to_pylist(), strict=True))
    parents = _parents(job)
    verdicts = tables.concat("verdicts", job.modality, columns=["digest", "status"])
    clean = set(contracts.digests(contracts.made(verdicts)))
    digests = _compared(job)
    return pa.table(
        {
            "digest": pa.array(digests, pa.string()),
            "priority": pa.array([priority[parents[digest][0]] for digest in digests], pa.int32()),
            # The verdict comes first: a flagged item never outlives a clean one, however large it is and whatever
            # weight the settings give it.
            "quality": pa.array(
                [(digest in clean) + _fraction(_size(*parents[digest], sizes)) for digest in digests], pa.float64()
            ),
            "num_occurrences": pa.array([occurrences[parents[digest][0]] for digest in digests], pa.int32()),
        }
    )


def _parents(job: Job) -> dict[str, tuple[str, float | None]]:
    """Unit -> (its item, its length in seconds where it is a span)."""
    units = job.lake.tables.concat("units", job.modality, columns=["digest", "parent_digest", "kind", "start", "end"])
    is_whole = pc.equal(units["kind"], preprocess.WHOLE)
    lengths = pc.if_else(is_whole, None, pc.divide(pc.subtract(units["end"], units["start"]).cast(pa.float64()), 1e6))
    columns = (units["digest"], units["parent_digest"], lengths)
    return {unit: (parent, length) for unit, parent, length in zip(*(c.to_pylist() for c in columns), strict=True)}


def _size(parent: str, length_s: float | None, sizes: Mapping[str, float | None]) -> float | None:
    """The size of a unit: only what has a duration is cut to spans."""
    return sizes.get(parent) if length_s is None else length_s


def _fraction(size: float | None) -> float:
    """The size squeezed into 0..0.25, keeping its order."""
    return 0.25 * (1.0 - 1.0 / (1.0 + math.log1p(size or 0.0)))


def _first_per_key(table: pa.Table, key: list[str]) -> pa.Table:
    """The table without the repeats that arise when one blob lies in several shards; which one stays does not
    matter, they are equal."""
    if not table.num_rows:
        return table
    indexed = table.select(key).append_column("row", pa.array(np.arange(table.num_rows)))
    rows = indexed.group_by(key).aggregate([("row", "min")]).column("row_min")
    return table.take(pc.take(rows, pc.sort_indices(rows)))


CORPUS_STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="near_duplicates",
            stage="dedup",
            schema=schemas.PAIRS,
            code_version="3",
            over_shards=True,
            make=_near,
            check=_check_near,
            inputs=("fingerprints", "units", "verdicts"),
            settings=("dedup",),
            parts=near_tiers,
            kinds=("numpy",),
            unit="pairs",
            description="Pairs that are the same thing but for encoding, size, trim or light edits; every "
            "candidate was verified by the exact measure.",
        ),
        Step(
            name="semantic_duplicates",
            stage="dedup",
            schema=schemas.PAIRS,
            code_version="5",
            over_shards=True,
            make=_semantic,
            check=_check_semantic,
            inputs=("embeddings", "fingerprints", "items", "tracks", "units", "verdicts"),
            corpus_inputs=("near_duplicates",),
            reads_priorities=True,
            settings=("dedup",),
            parts=_bound,
            kinds=("faiss",),
            unit="pairs",
            description="Pairs of survivors of the near tier whose vectors are closer than the encoder's bound.",
        ),
        Step(
            name="duplicate_clusters",
            stage="dedup",
            schema=schemas.CLUSTERS,
            code_version="4",
            over_shards=True,
            make=_clusters,
            check=_check_clusters,
            inputs=("items", "tracks", "units", "verdicts"),
            corpus_inputs=("near_duplicates", "semantic_duplicates"),
            reads_priorities=True,
            settings=("dedup",),
            kinds=("parquet",),
            description="Connected components of all pairs with one survivor each, by source priority, quality, then "
            "digest: any arrival order gives the same result.",
        ),
    )
}
