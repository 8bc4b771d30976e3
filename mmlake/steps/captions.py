"""The row step that asks language models about units."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.errors import ContractBroken
from mmlake.schemas.captions import CAPTIONS
from mmlake.steps.begun import in_slices
from mmlake.steps.preprocess import among, retried, unit_tracks_of
from mmlake.steps.step import Before, Job, Step
from mmlake.tables import Slot


def _captions(job: Job) -> pa.Table:
    return _captions_of(job, unit_tracks_of(job), before=_before(job))


def _retry_captions(job: Job, before: Before) -> Iterator[pa.Table]:
    rows = before.replaced()
    good = rows.filter(pc.not_equal(rows["status"], "unreadable"))
    again = _captions_of(job, among(unit_tracks_of(job), before.made), before=good)
    return retried(job, CAPTIONS, before, [again])


def _captions_of(job: Job, tracks: pa.Table, *, before: pa.Table | None) -> pa.Table:
    assert job.row.captioner is not None
    settings = job.lake.settings
    how = {"before": before, "settings": settings.captions, "endpoint": settings.endpoint}
    return in_slices(job, job.row.captioner, tracks, **how)


def _before(job: Job) -> pa.Table | None:
    """The table as it is, whose answers cost money; None where there is none of this schema."""
    slot = Slot(CAPTIONS.name, job.modality, job.shard)
    stamp = job.lake.tables.stamp(slot)
    return job.lake.tables.read(slot) if stamp is not None and stamp.schema_version == CAPTIONS.version else None


def _check_captions(job: Job, found: pa.Table) -> int:
    border = f"{job.modality}/captions[{job.shard}]"
    flagged = pc.equal(found["status"], "flagged")
    contracts.failures_explained(border, found.filter(pc.invert(flagged)), key=CAPTIONS.key)
    doubted = found.filter(flagged)
    if doubted["error_code"].null_count or doubted["error"].null_count:
        raise ContractBroken(f"{border}: flagged rows have no code or no reason; correct the stage")
    known = contracts.digests(contracts.made(job.read("units")))
    return contracts.known_keys(border, known, contracts.digests(found))


CAPTIONS_STEP = Step(
    name=schemas.CAPTIONS.name,
    stage="captions",
    schema=CAPTIONS,
    code_version="2",
    make=_captions,
    remake=_retry_captions,
    check=_check_captions,
    inputs=("tracks", "units"),
    column="captioner",
    settings=("captions", "endpoint"),
    kinds=("openai",),
    description="What language models say of units, checked: lines of transcripts corrected, with the times that they "
    "had; clips described with a sentence, event tags and what happens when. Empty where [captions] chooses no model.",
)
