"""What the step `speakers` does: tracks to who speaks when."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from mmlake import contracts, schemas, voices
from mmlake.steps.begun import in_slices
from mmlake.steps.preprocess import among, by_one_model, retried
from mmlake.steps.step import Before, Job


def make_speakers(job: Job) -> pa.Table:
    return _speakers_of(job, job.read("tracks"))


def retry_speakers(job: Job, before: Before) -> pa.Table | Iterator[pa.Table]:
    again = by_one_model(before, [_speakers_of(job, among(job.read("tracks"), before.made))])
    return make_speakers(job) if again is None else retried(job, schemas.SPEAKERS, before, again)


def _speakers_of(job: Job, tracks: pa.Table) -> pa.Table:
    assert job.row.diarizer is not None
    return in_slices(job, job.row.diarizer, tracks, settings=job.lake.settings.speakers)


def check_speakers(job: Job, found: pa.Table) -> int:
    """The number of tracks with sound, each of which has a row; none where no diarizer is chosen."""
    border = f"{job.modality}/speakers[{job.shard}]"
    contracts.failures_explained(border, found)
    audible = voices.with_sound(job.read("tracks"), settings=job.lake.settings.speakers)
    return contracts.same_keys(border, contracts.digests(audible), found.column("digest").to_pylist())
