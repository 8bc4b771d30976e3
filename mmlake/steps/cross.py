"""The steps of duplicates across modalities: prints of what films and recordings carry, and which units that lie in
the lake by themselves meet it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, dedup, parts, preprocess
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.records import LEADING_ROLES
from mmlake.schemas.cross import COMPONENT_FINGERPRINTS, CROSS_PAIRS
from mmlake.steps import standing
from mmlake.steps.preprocess import among, retried, unit_tracks_of
from mmlake.steps.step import Before, Job, Step

_CARRIERS = {"video": "in_films", "audio": "in_recordings"}  # modality -> the column that names what it carries


def carriers_of(lake: Lake, modality: str) -> dict[str, str]:
    """Modality of carriers -> the component of theirs that is of this modality."""
    row = lake.parts.modality(modality)
    named = {carrier: getattr(row, column) for carrier, column in _CARRIERS.items()}
    return {carrier: component for carrier, component in named.items() if component is not None}


def _fingerprints(job: Job) -> pa.Table:
    return _fingerprints_of(job, _carrying(job))


def _fingerprints_again(job: Job, before: Before) -> Iterator[pa.Table]:
    again = _fingerprints_of(job, among(_carrying(job), before.made))
    return retried(job, COMPONENT_FINGERPRINTS, before, [again])


def _fingerprints_of(job: Job, tracks: pa.Table) -> pa.Table:
    assert job.row.components is not None
    return dedup.component_fingerprints(
        tracks,
        {component: job.lake.parts.modality(other).tiers for component, other in job.row.components.items()},
        store=job.lake.store,
        settings=job.lake.settings.dedup,
        runner=job.runner,
        advance=job.advance,
    )


def _carrying(job: Job) -> pa.Table:
    """The tracks of the units that decoded and lead a sample."""
    made = contracts.made(unit_tracks_of(job))
    return made.filter(pc.is_in(made["role"], value_set=pa.array(LEADING_ROLES, pa.string())))


def _tiers(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What the stamp says of plugins whose tiers make the prints."""
    others = lake.parts.modality(modality).components or {}
    return parts.steering([tier for other in others.values() for tier in lake.parts.modality(other).tiers])


def _check_fingerprints(job: Job, table: pa.Table) -> int:
    """The number of components, each of which has its prints or a reason why there are none."""
    border = f"{job.modality}/{COMPONENT_FINGERPRINTS.name}[{job.shard}]"
    contracts.failures_explained(border, table)
    tracks, key = _carrying(job), ["digest", "component_digest"]
    num = 0
    for component in job.row.components or {}:
        expected = _names(dedup.components_of(tracks, component).select(key))
        rows = table.filter(pc.equal(table["component"], component)).select(key)
        num += contracts.same_keys(f"{border}: {component}", expected, sorted(set(_names(rows))))
    return num


def _names(rows: pa.Table) -> list[str]:
    return ["/".join(row.values()) for row in rows.to_pylist()]


def _pairs(job: Job) -> pa.Table:
    components = pa.concat_tables(
        components_of(job, carrier, component) for carrier, component in carriers_of(job.lake, job.modality).items()
    )
    return dedup.cross_pairs(
        standing.Fingerprints(job),
        components,
        job.row.tiers,
        settings=job.lake.settings.dedup,
        alone=_standing_alone(job),
        engine=standing.engine(job),
        advance=job.advance,
    )


def components_of(job: Job, carrier: str, component: str) -> pa.Table:
    """COMPONENT_FINGERPRINTS that say something, of all shards of the modality `carrier`, with `carrier_modality`; each
    key once."""
    columns = ["digest", "component", "component_digest", "time_s", "method", "hashes", "status"]
    rows = contracts.made(job.lake.tables.concat(COMPONENT_FINGERPRINTS.name, carrier, columns=columns))
    says = pc.greater(pc.list_value_length(rows["hashes"]), 0)
    rows = rows.filter(pc.and_(pc.equal(rows["component"], component), says))
    rows = standing.first_per_key(rows, ["digest", "component", "component_digest", "method"])
    return rows.append_column("carrier_modality", pa.array([carrier] * rows.num_rows, pa.string()))


def _standing_alone(job: Job) -> pa.ChunkedArray:
    """Every unit that leads a sample, sorted, whatever its verdict is: a recipe may admit what a rule keeps out."""
    units = job.lake.tables.concat("units", job.modality, columns=["digest", "kind", "role"])
    leads = pc.is_in(units["role"], value_set=pa.array(LEADING_ROLES, pa.string()))
    digests = pc.unique(units.filter(pc.and_(leads, pc.not_equal(units["kind"], preprocess.GAP)))["digest"])
    return pa.chunked_array([digests.take(pc.sort_indices(digests))], pa.string())


def _check_pairs(job: Job, pairs: pa.Table) -> int:
    known = contracts.digests(job.lake.tables.concat("units", job.modality, columns=["digest"]))
    contracts.known_keys(f"{job.modality}: {CROSS_PAIRS.name}", known, pairs["digest"].to_pylist())
    carriers = carriers_of(job.lake, job.modality)
    if strangers := set(pairs["carrier_modality"].to_pylist()) - carriers.keys():
        raise ContractBroken(
            f"{job.modality}/{CROSS_PAIRS.name}: carriers of {sorted(strangers)}, which carry no {job.modality}; "
            "correct the step"
        )
    for carrier in carriers:
        units = contracts.digests(job.lake.tables.concat(COMPONENT_FINGERPRINTS.name, carrier, columns=["digest"]))
        named = pairs.filter(pc.equal(pairs["carrier_modality"], carrier))["carrier"].to_pylist()
        contracts.known_keys(f"{job.modality}: carriers of {CROSS_PAIRS.name}", units, named)
    return len(pairs)


def _own_tiers(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.steering(lake.parts.modality(modality).tiers)


COMPONENTS_STEP = Step(
    name=COMPONENT_FINGERPRINTS.name,
    stage="dedup",
    schema=COMPONENT_FINGERPRINTS,
    code_version="8",
    in_workers=True,
    make=_fingerprints,
    remake=_fingerprints_again,
    check=_check_fingerprints,
    inputs=("tracks", "units"),
    column="components",
    settings=dedup.FINGERPRINT_SETTINGS,
    parts=_tiers,
    kinds=("numpy",),
    description="Prints of what units carry of other modalities, by the tiers of these: keyframes as pictures, sound "
    "as recordings, transcripts as texts. Made of stored blobs; no film is decoded again.",
)

CROSS_STEP = Step(
    name=CROSS_PAIRS.name,
    stage="dedup",
    schema=CROSS_PAIRS,
    code_version="9",
    over_shards=True,
    make=_pairs,
    check=_check_pairs,
    inputs=("fingerprints", "units", *(f"{carrier}/{COMPONENT_FINGERPRINTS.name}" for carrier in _CARRIERS)),
    column="in_films",
    input_columns={f"{carrier}/{COMPONENT_FINGERPRINTS.name}": column for carrier, column in _CARRIERS.items()},
    settings=("dedup",),
    parts=_own_tiers,
    kinds=("numpy",),
    unit="pairs",
    counts=dedup.cross_counts,
    description="Units that lie in the lake by themselves and that a film or recording carries too: pictures that are "
    "a keyframe, recordings that are a sound track, texts that are a transcript. Evidence; a recipe may drop them.",
)
