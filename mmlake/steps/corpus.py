"""The corpus steps: one table per modality, over all of its shards."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import __version__, contracts, dedup, schemas
from mmlake.engine.digest_index import DigestIndex
from mmlake.lake import Lake
from mmlake.modalities import Modality
from mmlake.records import canonical_json, digest_of
from mmlake.steps import standing
from mmlake.steps.caption_scores import CAPTION_SCORES_STEP
from mmlake.steps.contamination import CONTAMINATION_STEP
from mmlake.steps.cross import CROSS_STEP
from mmlake.steps.row import ROW_STEPS, near_tiers
from mmlake.steps.step import Job, Step
from mmlake.tables import Slot


def _near(job: Job) -> pa.Table:
    nodes = standing.nodes(job)
    return dedup.near_pairs(
        standing.Fingerprints(job),
        job.row.tiers if nodes.num_rows else (),  # most lakes lack a modality
        nodes=nodes,
        criteria=job.row.survivors,
        settings=job.lake.settings.dedup,
        kept=_kept_joins(job),
        engine=standing.engine(job),
        runner=job.runner,
        advance=job.advance,
    )


def _kept_joins(job: Job) -> dedup.KeptJoins:
    """Where the joins of the modality are kept; they are no input of anything, and may be deleted."""
    made_with = {
        "release": __version__,
        "code": CORPUS_STEPS["near_duplicates"].code_version,
        "prints": ROW_STEPS["fingerprints"].code_version,
        "settings": job.lake.settings.digest(("dedup",)),
        "tiers": near_tiers(job.lake, job.modality, job.shard),
        # by another release of these a comparison may differ in the last bits of its score
        "libraries": {name: _release_of(name) for name in ("numpy", "opencv-python-headless")},
    }
    return dedup.KeptJoins(job.lake.root / "kept" / job.modality, canonical_json(made_with))


@cache
def _release_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


def _check_near(job: Job, pairs: pa.Table) -> int:
    return _check_pairs(job, pairs, "fingerprints")


def _semantic(job: Job) -> pa.Table:
    nodes = standing.nodes(job)
    near = dedup.cluster(nodes, job.lake.tables.read(Slot("near_duplicates", job.modality)), criteria=job.row.survivors)
    columns = ["digest", "encoder", "vector", "status"]
    embeddings = job.lake.tables.scan_parts("embeddings", job.modality, columns=columns)
    return dedup.semantic_pairs(
        DigestIndex(nodes["digest"]).among(embeddings, "digest"),
        job.lake.parts.semantic_bounds,
        nodes=nodes,
        criteria=job.row.survivors,
        near=near,
        apart=partial(_apart, job, nodes),
        settings=job.lake.settings.dedup,
        engine=standing.engine(job),
        advance=job.advance,
    )


def _apart(job: Job, nodes: pa.Table, digests: pa.Array) -> dedup.Apart:
    """Pairs that are no semantic duplicates: siblings of one template, long texts that say other things, two drawings,
    and two spans of one item. One speaker in one room is near itself in every vector, and says something else each
    time; what is truly said twice has a near pair."""
    parents = nodes["parent_digest"].take(pa.array(DigestIndex(nodes["digest"]).find(digests)))
    items = pc.dictionary_encode(parents.combine_chunks()).indices.to_numpy()
    prints = dedup.prints_at(
        map(contracts.made, _veto_prints(job)), dedup.VETO_PRINTS, digests, engine=standing.engine(job)
    )
    veto = dedup.veto(prints, settings=job.lake.settings.dedup)

    def is_apart(left: dedup.Positions, right: dedup.Positions) -> NDArray[np.bool_]:
        apart: NDArray[np.bool_] = items[left] == items[right]
        apart[~apart] = veto(left[~apart], right[~apart])
        return apart

    return is_apart


def _veto_prints(job: Job) -> Iterable[pa.Table]:
    """The fingerprints that keep units apart, where the modality has any."""
    has_some = any(set(dedup.VETO_PRINTS) & set(tier.methods) for tier in job.row.tiers)
    return standing.Fingerprints(job) if has_some else ()


def _criteria(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What a stamp says of the criteria by which survivors are elected; no section of the settings holds them."""
    criteria = lake.parts.modality(modality).survivors
    return {"dedup/criteria": digest_of(repr(criteria).encode())[:16]}


def _of_tiers(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return near_tiers(lake, modality, shard) | _criteria(lake, modality, shard)


def _bound(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What the stamp says of the encoder's row: its bound, which no section of the settings holds."""
    encoder = lake.parts.encoder(lake.encoder_of(modality), modality)
    bound = {f"encoders/{encoder.name}": f"duplicate_cosine={encoder.duplicate_cosine:g}"}
    return bound | _criteria(lake, modality, shard)


def _check_semantic(job: Job, pairs: pa.Table) -> int:
    return _check_pairs(job, pairs, "embeddings")


def _check_pairs(job: Job, pairs: pa.Table, table: str) -> int:
    border = f"{job.modality}: pairs of {table}"
    used = [pairs.select([side]).rename_columns(["digest"]) for side in ("left", "right")]
    known = job.lake.tables.scan_parts(table, job.modality, columns=["digest"])
    if len(strangers := standing.engine(job).relations.strangers(used, known)):
        contracts.known_keys(border, (), strangers.to_pylist())  # which raises
    return int(pc.count_distinct(pa.concat_tables(used)["digest"]).as_py())


def _clusters(job: Job) -> pa.Table:
    near, semantic = (
        job.lake.tables.read(Slot(name, job.modality)) for name in ("near_duplicates", "semantic_duplicates")
    )
    return dedup.cluster(standing.nodes(job), pa.concat_tables([near, semantic]), criteria=job.row.survivors)


def _check_clusters(job: Job, clusters: pa.Table) -> int:
    expected, actual = standing.compared(job), clusters["digest"]
    if pa.chunked_array([expected]).equals(actual):  # both are sorted
        return len(expected)
    return contracts.same_keys(f"{job.modality}/duplicate_clusters", expected.to_pylist(), actual.to_pylist())


CORPUS_STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="near_duplicates",
            stage="dedup",
            schema=schemas.PAIRS,
            code_version="36",
            over_shards=True,
            make=_near,
            check=_check_near,
            inputs=("fingerprints", *standing.INPUTS),
            reads_priorities=True,
            settings=("dedup",),
            parts=_of_tiers,
            kinds=("numpy",),
            unit="pairs",
            counts=dedup.recall_counts,
            description="What is the same thing but for encoding, size, trim or light edits: from each unit that "
            "stays to those that go for it, every one verified against it by the exact measure.",
        ),
        Step(
            name="semantic_duplicates",
            stage="dedup",
            schema=schemas.PAIRS,
            code_version="18",
            over_shards=True,
            make=_semantic,
            check=_check_semantic,
            inputs=("embeddings", "fingerprints", *standing.INPUTS),
            corpus_inputs=("near_duplicates",),
            reads_priorities=True,
            settings=("dedup",),
            parts=_bound,
            kinds=("faiss",),
            unit="pairs",
            counts=dedup.recall_counts,
            description="Survivors of the near tier whose vectors are closer than the encoder's bound, from each unit "
            "that stays to those that go for it.",
        ),
        Step(
            name="duplicate_clusters",
            stage="dedup",
            schema=schemas.CLUSTERS,
            code_version="9",
            over_shards=True,
            make=_clusters,
            check=_check_clusters,
            inputs=standing.INPUTS,
            corpus_inputs=("near_duplicates", "semantic_duplicates"),
            reads_priorities=True,
            settings=("dedup",),
            parts=_criteria,
            kinds=("parquet",),
            description="One survivor for each group of duplicates, by source priority, verdict, fidelity, closeness "
            "and digest, with the reason: any arrival order gives the same result.",
        ),
        CONTAMINATION_STEP,
        CROSS_STEP,
        CAPTION_SCORES_STEP,
    )
}


def corpus_steps(row: Modality) -> list[Step]:
    """The corpus steps that the modality has, in data order."""
    return [step for step in CORPUS_STEPS.values() if step.is_for(row)]
