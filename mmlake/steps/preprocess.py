"""What the steps of the preprocess stage do: items to tracks, tracks to alignments, and both to units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, preprocess, schemas
from mmlake.engine.sorting import is_among
from mmlake.errors import ContractBroken
from mmlake.schemas.table import TableSchema
from mmlake.steps import standing
from mmlake.steps.begun import in_slices
from mmlake.steps.step import Before, Job


def among(table: pa.Table, wanted: pa.Array) -> pa.Table:
    """The rows of these digests, which are sorted."""
    return table.filter(is_among(table["digest"], wanted))


def retried(job: Job, schema: TableSchema, before: Before, again: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The table in parts: the rows that were made again, in whatever order, among those that stand."""
    made = (schemas.conform(schema, part) for part in again)
    return standing.in_order(job, schema, chain(before.kept(), made))


def by_one_model(before: Before, again: Iterable[pa.Table]) -> Iterator[pa.Table] | None:
    """The rows made again, if the model that makes them also made those that stand; its weights may be other ones under
    the same settings, and then all rows have to be made."""
    rest, begun = iter(again), list[pa.Table]()
    while not begun or not begun[-1].num_rows:
        if (part := next(rest, None)) is None:
            break
        begun.append(part)
    columns = [before.column, "revision"]
    stand = (part.filter(pc.invert(before.is_made(part))) for part in before.tables(columns))
    revisions = {one for part in chain(begun, stand) for one in part["revision"].unique().to_pylist()}
    return chain(begun, rest) if len(revisions) < 2 else None


def make_tracks(job: Job) -> Iterator[pa.Table]:
    return standing.in_order(job, schemas.TRACKS, _tracks_of(job, _items(job)))


def retry_tracks(job: Job, before: Before) -> Iterator[pa.Table]:
    return retried(job, schemas.TRACKS, before, _tracks_of(job, among(_items(job), before.made)))


def _items(job: Job) -> pa.Table:
    """What tracks are made from, which the texts are no part of."""
    return job.read("items", list(preprocess.ITEM_COLUMNS))


def _tracks_of(job: Job, items: pa.Table) -> Iterator[pa.Table]:
    made = preprocess.track_parts(
        items,
        job.modality,
        decoder=job.row.decoder,
        store=job.lake.store,
        settings=job.lake.settings.preprocess,
        decode=job.lake.settings.decode,
        runner=job.runner,
        scratch=standing.engine(job).scratch.made_folder(),
        advance=job.advance,
    )
    return (job.keep(rows) for rows in made)


def check_tracks(job: Job, tracks: pa.Table) -> int:
    border = f"{job.modality}/tracks[{job.shard}]"
    contracts.failures_explained(border, tracks)
    return contracts.same_keys(
        border, contracts.digests(job.read("items", ["digest"])), tracks.column("digest").to_pylist()
    )


def make_alignments(job: Job) -> pa.Table:
    return _alignments_of(job, job.read("tracks"))


def retry_alignments(job: Job, before: Before) -> Iterator[pa.Table]:
    return retried(job, schemas.ALIGNMENTS, before, [_alignments_of(job, among(job.read("tracks"), before.made))])


def _alignments_of(job: Job, tracks: pa.Table) -> pa.Table:
    assert job.row.aligner is not None
    return in_slices(job, job.row.aligner, tracks, settings=job.lake.settings.align, runner=job.runner)


def check_alignments(job: Job, found: pa.Table) -> int:
    border = f"{job.modality}/alignments[{job.shard}]"
    flagged = pc.equal(found.column("status"), "flagged")
    contracts.failures_explained(border, found.filter(pc.invert(flagged)))
    doubted = found.filter(flagged)
    if doubted.column("error_code").null_count or doubted.column("error").null_count:
        raise ContractBroken(f"{border}: flagged rows have no code or no reason; correct the stage")
    transcribed = contracts.made(job.read("tracks", ["digest", "status", "transcript"]))
    transcribed = transcribed.filter(pc.is_valid(transcribed.column("transcript")))
    return contracts.same_keys(border, contracts.digests(transcribed), found.column("digest").to_pylist())


def make_units(job: Job) -> pa.Table:
    return schemas.conform(schemas.UNITS, pa.concat_tables(_units_of(job, part) for part in job.parts("tracks")))


def retry_units(job: Job, before: Before) -> Iterator[pa.Table]:
    found = (among(part, before.made) for part in job.parts("tracks"))
    return retried(job, schemas.UNITS, before, (_units_of(job, part) for part in found if part.num_rows))


def _units_of(job: Job, tracks: pa.Table) -> pa.Table:
    return preprocess.units(
        tracks,
        splitter=job.row.splitter,
        alignments=None if job.row.aligner is None else job.read("alignments"),
        store=job.lake.store,
        settings=job.lake.settings.units,
        runner=job.runner,
        advance=job.advance,
    )


def check_units(job: Job, found: pa.Table) -> int:
    """The number of items, each of which is one whole unit or is tiled by spans and gaps."""
    border = f"{job.modality}/units[{job.shard}]"
    contracts.failures_explained(border, found)
    tracks = job.read("tracks", ["digest", "duration_s"])
    preprocess.check_tiling(border, tracks, found)
    return contracts.same_keys(border, contracts.digests(tracks), contracts.digests(found, "parent_digest"))


def unit_tracks_of(job: Job) -> pa.Table:
    """The tracks of the partition's units."""
    return preprocess.unit_tracks(job.read("tracks"), job.read("units"))


def unit_track_parts(job: Job) -> Iterator[pa.Table]:
    """The same rows, some at a time and in order of their digests: where all items are whole, as texts and pictures
    are. Spans of one item belong together and are in no order, so that such a shard is one part."""
    if not are_whole(job):
        yield unit_tracks_of(job)
        return
    for tracks, units in zip(job.parts("tracks"), job.parts("units"), strict=True):
        yield preprocess.unit_tracks(tracks, units)


def are_whole(job: Job) -> bool:
    """Whether each item is one unit, so that row after row of tracks and units are of the same one."""
    names = ["kind", "digest", "parent_digest"]
    for tracks, units in zip_longest(job.parts("tracks", ["digest"]), job.parts("units", names)):
        if tracks is None or units is None or tracks.num_rows != units.num_rows:
            return False
        if pc.any(pc.not_equal(units["kind"], preprocess.WHOLE)).as_py() or any(
            not tracks["digest"].equals(units[name]) for name in names[1:]
        ):
            return False
    return True
