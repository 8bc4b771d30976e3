"""The step of samples: one table per source shard over all modalities, so its inputs are tables of each of them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import samples
from mmlake.schemas import ITEMS
from mmlake.schemas.samples import SAMPLES
from mmlake.steps.step import Job, Step

OVER_ALL = "all"  # the modality of a table over all of them
_WITHOUT_LEAD = "without_lead"  # counts samples that no part leads, which have no modality


def _samples(job: Job) -> pa.Table:
    return samples.assemble(_items(job))


def _check_samples(job: Job, table: pa.Table) -> int:
    return samples.check_samples(_items(job), table)


def _items(job: Job) -> list[pa.Table]:
    """What samples are made from, and no more of it."""
    return job.read_held(SAMPLES_STEP.inputs, list(samples.COLUMNS))


def _counts(table: pa.Table) -> Mapping[str, int]:
    """Samples of the source, and rows by modality."""
    rows = {
        entry["values"] or _WITHOUT_LEAD: entry["counts"]
        for entry in pc.value_counts(table.column("modality")).to_pylist()
    }
    return {"occurrences": pc.sum(table.column("num_occurrences")).as_py() or 0, **rows}


SAMPLES_STEP = Step(
    name=SAMPLES.name,
    stage="samples",
    schema=SAMPLES,
    code_version="1",
    make=_samples,
    check=_check_samples,
    inputs=(f"*/{ITEMS.name}",),
    counts=_counts,
    kinds=("parquet",),
    unit="samples",
    description="What belongs together in a source: ordered parts with their roles, and the fields that the source"
    " gave; one row per distinct sample of a shard.",
)
