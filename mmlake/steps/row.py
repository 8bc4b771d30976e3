"""The row steps: one table per (modality, shard), in data order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, dedup, embed, parts, preprocess, quality, schemas
from mmlake.engine.sorting import Along
from mmlake.film_decoders import OF_PICTURES
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES, Modality
from mmlake.progress import Advance
from mmlake.records import LEADING_ROLES, ROLES, signed
from mmlake.steps.begun import in_slices
from mmlake.steps.captions import CAPTIONS_STEP
from mmlake.steps.cross import COMPONENTS_STEP
from mmlake.steps.items import check_blobs, check_items, make_blobs, make_items, reading, retry_items
from mmlake.steps.preprocess import (
    among,
    are_whole,
    by_one_model,
    check_alignments,
    check_tracks,
    check_units,
    make_alignments,
    make_tracks,
    make_units,
    retried,
    retry_alignments,
    retry_tracks,
    retry_units,
    unit_track_parts,
)
from mmlake.steps.speakers import check_speakers, make_speakers, retry_speakers
from mmlake.steps.step import Before, Job, Step
from mmlake.store import Blobs

_FAILING = ("digest", "status", "error_code", "error")  # columns by which failures are accounted for


def _measures(job: Job) -> Iterator[pa.Table]:
    return (_measures_of(job, tracks) for tracks in unit_track_parts(job))


def _retry_measures(job: Job, before: Before) -> Iterator[pa.Table]:
    found = (among(tracks, before.made) for tracks in unit_track_parts(job))
    return retried(job, schemas.MEASURES, before, (_measures_of(job, part) for part in found if part.num_rows))


def _measures_of(job: Job, tracks: pa.Table) -> pa.Table:
    return in_slices(job, partial(_measured, job), tracks)


def _measured(job: Job, tracks: pa.Table, *, store: Blobs, advance: Advance) -> pa.Table:
    measured = quality.measure(
        tracks,
        job.row.measurements,
        alignments=None if job.row.aligner is None else job.read("alignments", ["digest", "confidence"]),
        scorers=job.row.scorers,
        store=store,
        runner=job.runner,
        advance=advance,
    )
    return quality.with_measures(measured, _model_measures(job, tracks)) if job.row.model_measures else measured


def _model_measures(job: Job, tracks: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows of the measures that encoders take."""
    lake = job.lake
    found = embed.model_measures(
        contracts.made(tracks),
        job.modality,
        job.row.model_measures,
        store=lake.store,
        executor=lake.executor,
        settings=lake.settings.embed,
        head=lake.settings.quality.aesthetic_head,
        encoders=lake.parts.encoders,
        runner=job.runner,
    )
    return ({"digest": digest, **asdict(one)} for digest, one in found)


def _measuring(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    row = lake.parts.modality(modality)
    revisions = {f"measurements/{one.name}": one.revision for one in row.measurements}
    revisions |= {f"scorers/{one.name}": one.revision for one in row.scorers}
    settings = lake.settings
    by_models = embed.steers(
        row.model_measures, settings.embed, lake.parts.encoders, head=settings.quality.aesthetic_head
    )
    return parts.steering([*row.measurements, *row.scorers]) | revisions | by_models


def _check_measures(job: Job, measures: pa.Table) -> int:
    border = f"{job.modality}/measures[{job.shard}]"
    contracts.failures_explained(border, measures)
    return contracts.same_keys(border, contracts.digests(contracts.made(_units(job))), contracts.digests(measures))


def _verdicts(job: Job) -> Iterator[pa.Table]:
    """Of items that are whole, units and measures are sorted by the same digests, so that a part of the one needs a
    part of the other."""
    judged = partial(quality.judge, rules=job.row.rules, settings=job.lake.settings.quality)
    columns = ["digest", "measure", "value", "error"]
    if not are_whole(job):
        yield judged(_units(job), job.read("measures", columns))
        return
    measures = Along(job.parts("measures", columns), "digest")
    for units in job.parts("units"):
        if units.num_rows:
            yield judged(units, measures.up_to(units["digest"][-1].as_py()))


def _judging(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.rule_versions(lake.parts.modality(modality).rules)


def _check_verdicts(job: Job, verdicts: pa.Table) -> int:
    return contracts.same_keys(
        f"{job.modality}/verdicts[{job.shard}]",
        contracts.digests(_units(job)),
        verdicts.column("digest").to_pylist(),
    )


def _units(job: Job) -> pa.Table:
    """The partition's units, without gaps."""
    units = job.read("units")
    return units.filter(pc.not_equal(units.column("kind"), preprocess.GAP))


def _decoded(units: pa.Table, *, roles: Sequence[str] = ROLES) -> pa.Table:
    """Those that decoded and have one of the roles, whatever their verdict is: a new threshold makes no vector. units:
    or their tracks."""
    made = contracts.made(units)
    return made.filter(pc.is_in(made.column("role"), value_set=pa.array(roles, pa.string())))


def _fingerprints(job: Job) -> Iterator[pa.Table]:
    roles = _compared(job)
    return (_fingerprints_of(job, _decoded(tracks, roles=roles)) for tracks in unit_track_parts(job))


def _compared(job: Job) -> tuple[str, ...]:
    return job.lake.settings.decontaminate.roles(job.modality)


def _retry_fingerprints(job: Job, before: Before) -> Iterator[pa.Table]:
    found = (among(_decoded(tracks, roles=_compared(job)), before.made) for tracks in unit_track_parts(job))
    return retried(job, schemas.FINGERPRINTS, before, (_fingerprints_of(job, part) for part in found if part.num_rows))


def _fingerprints_of(job: Job, tracks: pa.Table) -> pa.Table:
    how = {"tiers": job.row.tiers, "settings": job.lake.settings.dedup, "runner": job.runner}
    return in_slices(job, dedup.fingerprint, tracks, **how)


def near_tiers(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What a stamp says of the plugins whose tiers find the modality's near duplicates."""
    tiers = lake.parts.modality(modality).tiers
    foreign = {"settings/dedup": lake.settings.digest(("dedup",))} if any(tier.plugin for tier in tiers) else {}
    return parts.steering(tiers) | foreign  # which settings a plugin reads, nobody says


def _fingerprinting(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    more = lake.settings.decontaminate.roles(modality)[len(LEADING_ROLES) :]
    return near_tiers(lake, modality, shard) | {f"role/{role}": "compared" for role in more}


def _embeddings(job: Job) -> Iterator[pa.Table]:
    return (_embeddings_of(job, _decoded(tracks)) for tracks in unit_track_parts(job))


def _retry_embeddings(job: Job, before: Before) -> Iterator[pa.Table]:
    found = (among(_decoded(tracks), before.made) for tracks in unit_track_parts(job))
    again = by_one_model(before, (_embeddings_of(job, part) for part in found if part.num_rows))
    return _embeddings(job) if again is None else retried(job, schemas.EMBEDDINGS, before, again)


def _embeddings_of(job: Job, tracks: pa.Table) -> pa.Table:
    lake = job.lake
    return in_slices(
        job,
        embed.embed,
        tracks,
        modality=job.modality,
        encoder=lake.encoder_of(job.modality),
        executor=lake.executor,
        settings=lake.settings.embed,
        encoders=lake.parts.encoders,
        runner=job.runner,
    )


def _encoding(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.steering([lake.parts.encoder(lake.encoder_of(modality), modality)])


def _check_fingerprints(job: Job, fingerprints: pa.Table) -> int:
    """Each tier accounts for every decoded unit of the roles that are compared: another tier's rows do not make up for
    its own."""
    expected = contracts.digests(_decoded(_units(job), roles=_compared(job)))
    for tier in job.row.tiers:
        border = f"{job.modality}[{job.shard}]: decoded units -> fingerprints of {signed(tier.method, tier.plugin)}"
        methods = pa.array([signed(method, tier.plugin) for method in tier.methods], pa.string())
        rows = fingerprints.filter(pc.is_in(fingerprints.column("method"), value_set=methods))
        contracts.failures_explained(border, rows)
        contracts.same_keys(border, expected, contracts.digests(rows))
    return len(expected)


def _check_embeddings(job: Job, embeddings: pa.Table) -> int:
    border = f"{job.modality}[{job.shard}]: decoded units -> embeddings"
    contracts.failures_explained(border, embeddings, key=("digest", "encoder"))
    return contracts.same_keys(border, contracts.digests(_decoded(_units(job))), contracts.digests(embeddings))


ROW_STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="items",
            stage="sources",
            schema=schemas.ITEMS,
            code_version="34",
            make=make_items,
            checked=("digest", "modality"),
            remake=retry_items,
            check=check_items,
            settings=("sources",),
            parts=reading,
            kinds=("parquet",),
            description="One row per item that the shard holds, readable or not, with licence, source and locator; the "
            "bytes are in the store.",
        ),
        Step(
            name="blobs",
            stage="store",
            schema=schemas.BLOBS,
            code_version="1",
            make=make_blobs,
            check=check_blobs,
            inputs=("items",),
            kinds=("parquet",),
            unit="blobs",
            description="The distinct blobs of the shard as the store has them, with the number of "
            "occurrences of each: exact duplicates share one blob.",
        ),
        Step(
            name="tracks",
            stage="preprocess",
            schema=schemas.TRACKS,
            code_version="52",
            in_workers=True,
            make=make_tracks,
            checked=_FAILING,
            remake=retry_tracks,
            check=check_tracks,
            inputs=("items",),
            settings=("preprocess", *OF_PICTURES),
            kinds=("ffmpeg",),
            description="What decoding gives: size, duration, shots, keyframes, a mono 16 kHz track, where "
            "somebody speaks, the transcript, normalized text. What cannot be decoded is a row with its code.",
        ),
        Step(
            name="alignments",
            stage="preprocess",
            schema=schemas.ALIGNMENTS,
            code_version="7",
            in_workers=True,
            make=make_alignments,
            remake=retry_alignments,
            check=check_alignments,
            inputs=("tracks",),
            column="aligner",
            settings=("align",),
            kinds=("pocketsphinx",),
            description="Transcripts laid on their sound: how sure it is that they match, and the times of words. One "
            "that does not match has no times, but a code and a reason.",
        ),
        Step(
            name="speakers",
            stage="preprocess",
            schema=schemas.SPEAKERS,
            code_version="2",
            make=make_speakers,
            remake=retry_speakers,
            check=check_speakers,
            inputs=("tracks",),
            column="diarizer",
            settings=("speakers",),
            kinds=("pytorch",),
            description="Who speaks when, where a diarizer is chosen: turns of speakers that are numbered within their "
            "recording. It runs in a process that may be killed.",
        ),
        Step(
            name="units",
            stage="preprocess",
            schema=schemas.UNITS,
            code_version="9",
            in_workers=True,
            make=make_units,
            remake=retry_units,
            remade_by="parent_digest",
            check=check_units,
            inputs=("tracks", "alignments"),
            input_columns={"alignments": "aligner"},
            settings=("units",),
            kinds=("numpy",),
            unit="units",
            description="What is measured, judged and chosen from here on: whole items, and the spans that long "
            "recordings and films are cut to, and films that stand still for a while. Spans and named gaps add up to "
            "their item.",
        ),
        Step(
            name="measures",
            stage="quality",
            schema=schemas.MEASURES,
            code_version="12",
            in_workers=True,
            make=_measures,
            checked=_FAILING,
            remake=_retry_measures,
            check=_check_measures,
            inputs=("tracks", "units", "alignments"),
            input_columns={"alignments": "aligner"},
            settings=(),
            parts=_measuring,
            kinds=("numpy",),
            unit="measures",
            description="The numbers that quality rules judge: one row per unit and measure. A unit whose "
            "measures cannot be taken is one row with its code.",
        ),
        Step(
            name="verdicts",
            stage="quality",
            schema=schemas.VERDICTS,
            code_version=f"1.{quality.rules_digest({name: row.rules for name, row in MODALITIES.items()})}",
            make=_verdicts,
            checked=("digest",),
            check=_check_verdicts,
            inputs=("units", "measures"),
            settings=("quality",),
            parts=_judging,
            kinds=("parquet",),
            description="Status, reason, severity and weight per unit. A new threshold makes new verdicts and decodes "
            "nothing.",
        ),
        Step(
            name="fingerprints",
            stage="dedup",
            schema=schemas.FINGERPRINTS,
            code_version="23",
            in_workers=True,
            make=_fingerprints,
            checked=(*_FAILING, "method"),
            remake=_retry_fingerprints,
            check=_check_fingerprints,
            inputs=("tracks", "units"),
            settings=dedup.FINGERPRINT_SETTINGS,
            parts=_fingerprinting,
            kinds=("numpy",),
            description="What near duplicates are found by: shingles and words of texts, perceptual hashes, hash "
            "sequences, audio fingerprints. Of all decoded units that lead a sample, and of captions where there are "
            "eval sets; one of which none can be made is a row with its code.",
        ),
        Step(
            name="embeddings",
            stage="embed",
            schema=schemas.EMBEDDINGS,
            code_version="9",
            in_workers=True,
            make=_embeddings,
            checked=(*_FAILING, "encoder"),
            remake=_retry_embeddings,
            check=_check_embeddings,
            inputs=("tracks", "units"),
            settings=("embed",),
            parts=_encoding,
            kinds=("pytorch",),
            gpu=True,
            description="One vector per decoded unit, with the encoder and revision that made it; a unit that has none "
            "is a row with its code.",
        ),
        COMPONENTS_STEP,
        CAPTIONS_STEP,
    )
}


def row_steps(row: Modality) -> list[Step]:
    """The steps that the modality has, in data order."""
    return [step for step in ROW_STEPS.values() if step.is_for(row)]
