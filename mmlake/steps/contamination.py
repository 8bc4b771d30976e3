"""The corpus step that finds units of eval sets in the corpus."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, dedup, preprocess, schemas
from mmlake.lake import Lake
from mmlake.schemas.cross import COMPONENT_FINGERPRINTS
from mmlake.steps import standing
from mmlake.steps.cross import components_of
from mmlake.steps.eval_sets import EvalUnits, eval_revision, eval_units, prints_and_vectors
from mmlake.steps.step import Job, Step

_TIERS = ["exact", "near", "semantic"]  # cheapest first: of one pair only the first one's row stays


def _contamination(job: Job) -> pa.Table:
    found = [_of_units(job), *(_of_components(job, *pair) for pair in _components(job.lake, job.modality).items())]
    return schemas.conform(schemas.CONTAMINATION, pa.concat_tables([schemas.empty(schemas.CONTAMINATION), *found]))


def _components(lake: Lake, modality: str) -> dict[str, str]:
    """Component that units carry -> its own modality."""
    return dict(lake.parts.modality(modality).components or {})


def _held(job: Job, modality: str) -> dict[str, EvalUnits]:
    """Name of each eval set -> its units of the modality, where it has some."""
    sets = job.lake.settings.decontaminate.of(modality)
    held = {one.name: eval_units(job.lake, one, modality) for one in sets}
    return {name: units for name, units in held.items() if units.names.num_rows}


def _of_units(job: Job) -> pa.Table:
    """What the units themselves are in."""
    held = _held(job, job.modality)
    if not held:
        return schemas.empty(schemas.CONTAMINATION)
    digests = _compared(job)
    fingerprints, embeddings = prints_and_vectors(job.lake, job.modality, digests)
    found = []
    for name, units in held.items():
        hits = [
            dedup.exact_hits(digests.combine_chunks(), units.names["digest"].combine_chunks()),
            _near(job, fingerprints, units),
            _semantic(job, fingerprints, embeddings, units),
        ]
        found.append(_named(_best(_asked(job, pa.concat_tables(hits), units)), name, units))
    return pa.concat_tables(found)


def _of_components(job: Job, component: str, modality: str) -> pa.Table:
    """What they carry of another modality: a film with a keyframe that is an eval picture."""
    held = _held(job, modality)
    if not held:
        return schemas.empty(schemas.CONTAMINATION)
    components = components_of(job, job.modality, component)
    tiers, settings = job.lake.parts.modality(modality).tiers, job.lake.settings.dedup
    found = []
    for name, units in held.items():
        hits = dedup.component_hits(components, units.fingerprints, tiers, settings=settings, advance=job.advance)
        found.append(_named(_best(_asked(job, hits, units)), name, units))
    return pa.concat_tables(found)


def _named(hits: pa.Table, name: str, units: EvalUnits) -> pa.Table:
    """CONTAMINATION by this eval set."""
    at = pc.index_in(hits["eval_digest"], value_set=units.names["digest"].combine_chunks())
    hits = hits.append_column("eval_key", units.names["eval_key"].take(at))
    hits = hits.append_column("eval_set", pa.array([name] * hits.num_rows, pa.string()))
    return hits.select(schemas.CONTAMINATION.arrow.names).cast(schemas.CONTAMINATION.arrow)


def _asked(job: Job, hits: pa.Table, units: EvalUnits) -> pa.Table:
    """The hits but for the right answers of probes and their duplicates: those are there to be found."""
    if not units.answers or not hits.num_rows:
        return hits
    clusters = job.read("duplicate_clusters", ["digest", "survivor"])
    stays = dict(zip(*(clusters[name].to_pylist() for name in clusters.column_names), strict=True))
    right = {probe: {stays.get(answer, answer) for answer in answers} for probe, answers in units.answers.items()}
    pairs = zip(hits["digest"].to_pylist(), hits["eval_digest"].to_pylist(), strict=True)
    return hits.filter(
        pa.array([stays.get(unit, unit) not in right.get(probe, ()) for unit, probe in pairs], pa.bool_())
    )


def _near(job: Job, fingerprints: pa.Table, units: EvalUnits) -> pa.Table:
    return dedup.near_hits(
        fingerprints, units.fingerprints, job.row.tiers, settings=job.lake.settings.dedup, advance=job.advance
    )


def _semantic(job: Job, fingerprints: pa.Table, embeddings: pa.Table, units: EvalUnits) -> pa.Table:
    return dedup.semantic_hits(
        embeddings,
        units.embeddings,
        job.lake.parts.semantic_bounds,
        fingerprints=fingerprints,
        eval_fingerprints=units.fingerprints,
        settings=job.lake.settings.dedup,
        advance=job.advance,
    )


def _best(hits: pa.Table) -> pa.Table:
    """One row per pair: that of the cheapest tier, of its methods the one with the highest score."""
    hits = hits.append_column("rank", pc.index_in(hits["tier"], value_set=pa.array(_TIERS)))
    keys = [("rank", "ascending"), ("score", "descending"), ("method", "ascending")]
    return standing.first_per_key(hits.sort_by(keys), ["digest", "eval_digest"]).drop_columns("rank")


def _compared(job: Job) -> pa.ChunkedArray:
    """Every unit that leads a sample and every caption, whatever its verdict is: a recipe may admit what a rule keeps
    out."""
    roles = job.lake.settings.decontaminate.roles(job.modality)
    units = job.lake.tables.concat("units", job.modality, columns=["digest", "kind", "role"])
    is_of = pc.is_in(units["role"], value_set=pa.array(roles, pa.string()))
    units = units.filter(pc.and_(is_of, pc.not_equal(units["kind"], preprocess.GAP)))
    return standing.first_per_key(units, ["digest"])["digest"]


def _check(job: Job, table: pa.Table) -> int:
    known = contracts.digests(job.lake.tables.concat("units", job.modality, columns=["digest"]))
    return contracts.known_keys(f"{job.modality}: contamination", known, table["digest"].to_pylist())


def eval_sets_of(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What the stamp says of the eval sets: decontaminate/<name> -> revision; of what units carry,
    decontaminate/<name>/<modality>."""
    sets = lake.settings.decontaminate
    found = {f"decontaminate/{one.name}": eval_revision(lake, one, modality) for one in sets.of(modality)}
    for other in _components(lake, modality).values():
        found |= {f"decontaminate/{one.name}/{other}": eval_revision(lake, one, other) for one in sets.of(other)}
    return found


CONTAMINATION_STEP = Step(
    name="contamination",
    stage="dedup",
    schema=schemas.CONTAMINATION,
    code_version="13",
    over_shards=True,
    make=_contamination,
    check=_check,
    inputs=("fingerprints", "embeddings", "units", COMPONENT_FINGERPRINTS.name),
    input_columns={COMPONENT_FINGERPRINTS.name: "components"},
    corpus_inputs=("duplicate_clusters",),  # of what a probe asks for the copies are right answers, too
    settings=("decontaminate", "dedup"),
    parts=eval_sets_of,
    kinds=("numpy",),
    description="Units of the corpus that are in an eval set of [decontaminate], verbatim, edited, contained or "
    "paraphrased, each with the eval sample that it meets. Empty where no set is configured.",
)
