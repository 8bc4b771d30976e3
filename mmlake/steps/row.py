"""The row steps: one table per (modality, shard), in data order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, dedup, embed, parts, preprocess, quality, schemas
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES, Modality
from mmlake.records import LEADING_ROLES, ROLES, signed
from mmlake.steps.items import check_blobs, check_items, make_blobs, make_items, reading, retry_items
from mmlake.steps.step import Job, Step
from mmlake.table_schema import TableSchema


def _tracks(job: Job) -> pa.Table:
    return _tracks_of(job, job.read("items"))


def _retry_tracks(job: Job, tracks: pa.Table, wanted: frozenset[str]) -> pa.Table:
    return _retried(schemas.TRACKS, tracks, wanted, _tracks_of(job, _among(job.read("items"), wanted)))


def _tracks_of(job: Job, items: pa.Table) -> pa.Table:
    return preprocess.tracks(
        items,
        job.modality,
        decoder=job.row.decoder,
        store=job.lake.store,
        settings=job.lake.settings.preprocess,
        runner=job.runner,
        advance=job.advance,
    )


def _among(table: pa.Table, wanted: frozenset[str]) -> pa.Table:
    """The rows of these digests."""
    return table.filter(pc.is_in(table.column("digest"), value_set=pa.array(sorted(wanted), pa.string())))


def _retried(schema: TableSchema, before: pa.Table, wanted: frozenset[str], again: pa.Table) -> pa.Table:
    """The table with the rows of these digests in place of what it said of them."""
    tried = pc.is_in(before.column("digest"), value_set=pa.array(sorted(wanted), pa.string()))
    return schemas.conform(schema, pa.concat_tables([before.filter(pc.invert(tried)), again]))


def _check_tracks(job: Job, tracks: pa.Table) -> int:
    border = f"{job.modality}/tracks[{job.shard}]"
    contracts.failures_explained(border, tracks)
    return contracts.same_keys(
        border, contracts.digests(job.read("items", ["digest"])), tracks.column("digest").to_pylist()
    )


def _alignments(job: Job) -> pa.Table:
    return _alignments_of(job, job.read("tracks"))


def _retry_alignments(job: Job, found: pa.Table, wanted: frozenset[str]) -> pa.Table:
    return _retried(schemas.ALIGNMENTS, found, wanted, _alignments_of(job, _among(job.read("tracks"), wanted)))


def _alignments_of(job: Job, tracks: pa.Table) -> pa.Table:
    assert job.row.aligner is not None
    return job.row.aligner(
        tracks, store=job.lake.store, settings=job.lake.settings.align, runner=job.runner, advance=job.advance
    )


def _check_alignments(job: Job, found: pa.Table) -> int:
    border = f"{job.modality}/alignments[{job.shard}]"
    flagged = pc.equal(found.column("status"), "flagged")
    contracts.failures_explained(border, found.filter(pc.invert(flagged)))
    doubted = found.filter(flagged)
    if doubted.column("error_code").null_count or doubted.column("error").null_count:
        raise ContractBroken(f"{border}: flagged rows have no code or no reason; correct the stage")
    transcribed = contracts.made(job.read("tracks", ["digest", "status", "transcript"]))
    transcribed = transcribed.filter(pc.is_valid(transcribed.column("transcript")))
    return contracts.same_keys(border, contracts.digests(transcribed), found.column("digest").to_pylist())


def _measures(job: Job) -> pa.Table:
    return _measures_of(job, job.read("tracks"))


def _retry_measures(job: Job, measures: pa.Table, wanted: frozenset[str]) -> pa.Table:
    return _retried(schemas.MEASURES, measures, wanted, _measures_of(job, _among(job.read("tracks"), wanted)))


def _measures_of(job: Job, tracks: pa.Table) -> pa.Table:
    return quality.measure(
        tracks,
        job.row.measurements,
        alignments=None if job.row.aligner is None else job.read("alignments", ["digest", "confidence"]),
        scorers=job.row.scorers,
        store=job.lake.store,
        runner=job.runner,
        advance=job.advance,
    )


def _measuring(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    row = lake.parts.modality(modality)
    revisions = {f"measurements/{one.name}": one.revision for one in row.measurements}
    revisions |= {f"scorers/{one.name}": one.revision for one in row.scorers}
    return parts.steering([*row.measurements, *row.scorers]) | revisions


def _check_measures(job: Job, measures: pa.Table) -> int:
    border = f"{job.modality}/measures[{job.shard}]"
    contracts.failures_explained(border, measures)
    decoded = contracts.made(job.read("tracks", ["digest", "status"]))
    return contracts.same_keys(border, contracts.digests(decoded), contracts.digests(measures))


def _verdicts(job: Job) -> pa.Table:
    return quality.judge(job.read("tracks"), job.read("measures"), job.row.rules, settings=job.lake.settings.quality)


def _judging(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.rule_versions(lake.parts.modality(modality).rules)


def _check_verdicts(job: Job, verdicts: pa.Table) -> int:
    return contracts.same_keys(
        f"{job.modality}/verdicts[{job.shard}]",
        contracts.digests(job.read("tracks", ["digest"])),
        verdicts.column("digest").to_pylist(),
    )


def _decoded(job: Job, *, roles: Sequence[str] = ROLES) -> pa.Table:
    """The tracks that decoded and have one of the roles, whatever their verdict is: a new threshold makes no vector."""
    tracks = contracts.made(job.read("tracks"))
    return tracks.filter(pc.is_in(tracks.column("role"), value_set=pa.array(roles, pa.string())))


def _fingerprints(job: Job) -> pa.Table:
    return _fingerprints_of(job, _decoded(job, roles=LEADING_ROLES))


def _retry_fingerprints(job: Job, fingerprints: pa.Table, wanted: frozenset[str]) -> pa.Table:
    again = _fingerprints_of(job, _among(_decoded(job, roles=LEADING_ROLES), wanted))
    return _retried(schemas.FINGERPRINTS, fingerprints, wanted, again)


def _fingerprints_of(job: Job, tracks: pa.Table) -> pa.Table:
    return dedup.fingerprint(
        tracks,
        job.row.tiers,
        store=job.lake.store,
        settings=job.lake.settings.dedup,
        runner=job.runner,
        advance=job.advance,
    )


def near_tiers(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """What a stamp says of the plugins whose tiers find the modality's near duplicates."""
    tiers = lake.parts.modality(modality).tiers
    foreign = {"settings/dedup": lake.settings.digest(("dedup",))} if any(tier.plugin for tier in tiers) else {}
    return parts.steering(tiers) | foreign  # which settings a plugin reads, nobody says


def _embeddings(job: Job) -> pa.Table:
    return _embeddings_of(job, _decoded(job))


def _retry_embeddings(job: Job, embeddings: pa.Table, wanted: frozenset[str]) -> pa.Table:
    again = _embeddings_of(job, _among(_decoded(job), wanted))
    return _retried(schemas.EMBEDDINGS, embeddings, wanted, again)


def _embeddings_of(job: Job, tracks: pa.Table) -> pa.Table:
    lake = job.lake
    return embed.embed(
        tracks,
        job.modality,
        encoder=lake.encoder_of(job.modality),
        store=lake.store,
        executor=lake.executor,
        settings=lake.settings.embed,
        encoders=lake.parts.encoders,
        runner=job.runner,
        advance=job.advance,
    )


def _encoding(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    return parts.steering([lake.parts.encoder(lake.encoder_of(modality), modality)])


def _check_fingerprints(job: Job, fingerprints: pa.Table) -> int:
    """Each tier accounts for every decoded item of the leading roles: another tier's rows do not make up for its
    own."""
    expected = contracts.digests(_decoded(job, roles=LEADING_ROLES))
    for tier in job.row.tiers:
        border = f"{job.modality}[{job.shard}]: decoded tracks -> fingerprints of {signed(tier.method, tier.plugin)}"
        methods = pa.array([signed(method, tier.plugin) for method in tier.methods], pa.string())
        rows = fingerprints.filter(pc.is_in(fingerprints.column("method"), value_set=methods))
        contracts.failures_explained(border, rows)
        contracts.same_keys(border, expected, contracts.digests(rows))
    return len(expected)


def _check_embeddings(job: Job, embeddings: pa.Table) -> int:
    border = f"{job.modality}[{job.shard}]: decoded tracks -> embeddings"
    contracts.failures_explained(border, embeddings, key=("digest", "encoder"))
    return contracts.same_keys(border, contracts.digests(_decoded(job)), contracts.digests(embeddings))


ROW_STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="items",
            stage="sources",
            schema=schemas.ITEMS,
            code_version="5",
            make=make_items,
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
            code_version="3",
            in_workers=True,
            make=_tracks,
            remake=_retry_tracks,
            check=_check_tracks,
            inputs=("items",),
            settings=("preprocess",),
            kinds=("ffmpeg",),
            description="What decoding gives: size, duration, shots, keyframes, a mono 16 kHz track, the "
            "transcript, normalized text. What cannot be decoded is a row with its code.",
        ),
        Step(
            name="alignments",
            stage="preprocess",
            schema=schemas.ALIGNMENTS,
            code_version="1",
            in_workers=True,
            make=_alignments,
            remake=_retry_alignments,
            check=_check_alignments,
            inputs=("tracks",),
            column="aligner",
            settings=("align",),
            kinds=("pocketsphinx",),
            description="Transcripts laid on their sound: how sure it is that they match, and the times of words. One "
            "that does not match has no times, but a code and a reason.",
        ),
        Step(
            name="measures",
            stage="quality",
            schema=schemas.MEASURES,
            code_version="3",
            in_workers=True,
            make=_measures,
            remake=_retry_measures,
            check=_check_measures,
            inputs=("tracks", "alignments"),
            input_columns={"alignments": "aligner"},
            settings=(),
            parts=_measuring,
            kinds=("numpy",),
            unit="measures",
            description="The numbers that quality rules judge: one row per item and measure. An item whose "
            "measures cannot be taken is one row with its code.",
        ),
        Step(
            name="verdicts",
            stage="quality",
            schema=schemas.VERDICTS,
            code_version=f"1.{quality.rules_digest({name: row.rules for name, row in MODALITIES.items()})}",
            make=_verdicts,
            check=_check_verdicts,
            inputs=("tracks", "measures"),
            settings=("quality",),
            parts=_judging,
            kinds=("parquet",),
            description="Status, reason, severity and weight per item. A new threshold makes new verdicts and decodes "
            "nothing.",
        ),
        Step(
            name="fingerprints",
            stage="dedup",
            schema=schemas.FINGERPRINTS,
            code_version="3",
            in_workers=True,
            make=_fingerprints,
            remake=_retry_fingerprints,
            check=_check_fingerprints,
            inputs=("tracks",),
            settings=dedup.FINGERPRINT_SETTINGS,
            parts=near_tiers,
            kinds=("numpy",),
            description="What near duplicates are found by: MinHash signatures, perceptual hashes, hash sequences, "
            "audio fingerprints. Of all decoded items that lead a sample; one of which none can be made is a row with "
            "its code.",
        ),
        Step(
            name="embeddings",
            stage="embed",
            schema=schemas.EMBEDDINGS,
            code_version="3",
            in_workers=True,
            make=_embeddings,
            remake=_retry_embeddings,
            check=_check_embeddings,
            inputs=("tracks",),
            settings=("embed",),
            parts=_encoding,
            kinds=("pytorch",),
            gpu=True,
            description="One unit vector per decoded item, with the encoder and revision that made it; an item that "
            "has none is a row with its code.",
        ),
    )
}


def row_steps(row: Modality) -> list[Step]:
    """The steps that the modality has, in data order."""
    return [step for step in ROW_STEPS.values() if step.is_for(row)]
