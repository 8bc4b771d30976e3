"""The tables of samples brought up to date with the items: one per source shard, over all modalities, and one stamp
that stands for them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.schemas import ITEMS
from mmlake.schemas.samples import SAMPLES
from mmlake.steps import OVER_ALL, SAMPLES_STEP, recheck, run_step
from mmlake.tables import ALL, Slot, Stamp, Stopwatch, joint_version

SLOT = Slot(SAMPLES.name, OVER_ALL)


def samples_inputs(lake: Lake) -> dict[str, str]:
    """Data versions of everything that samples are made from."""
    return {
        f"{modality}/{ITEMS.name}": joint_version(lake.tables.stamps(ITEMS.name, modality))
        for modality in lake.parts.modalities
    }


def samples_are_current(lake: Lake) -> bool:
    """Whether the samples were made from the items as they are now."""
    stamp = lake.tables.stamp(SLOT)
    made_by = SAMPLES_STEP.code_version, SAMPLES.version
    return (
        stamp is not None
        and (stamp.code_version, stamp.schema_version) == made_by
        and stamp.inputs == samples_inputs(lake)
    )


def scan_samples(lake: Lake, *, columns: list[str] | None = None) -> Iterator[tuple[str, pa.Table]]:
    """(shard, samples) of every source shard, in order of the shard's name, one in memory at a time."""
    for shard in _shards(lake):
        yield shard, lake.tables.read(Slot(SAMPLES.name, OVER_ALL, shard), columns=columns)


def update_samples(lake: Lake, *, advance: Advance = silent, run_id: str = "") -> Stamp:
    """The stamp that stands for the samples of all shards. Made are those of shards whose items changed, removed those
    of shards that have none any more. Raises ContractBroken where an item is in no sample or in two.

    advance: called with the number of items of each shard that is made.
    """
    started, inputs, spent = Stopwatch(), samples_inputs(lake), [0.0, 0.0]
    with_items = _shards_with_items(lake)
    for shard in sorted(set(_shards(lake)) - set(with_items)):
        lake.tables.remove(Slot(SAMPLES.name, OVER_ALL, shard))
    stamps: dict[Slot, Stamp] = {}
    num_made = 0
    for shard in with_items:
        made = run_step(SAMPLES_STEP, lake, OVER_ALL, shard, run_id=run_id)
        stamps[made.slot] = stamp = made.stamp
        if not made.reused:
            num_made += 1
            spent = [spent[0] + stamp.seconds, spent[1] + stamp.cpu_seconds]
            advance(stamp.counts["accounted"])
    counts = sum((Counter(stamp.counts) for stamp in stamps.values()), Counter[str](accounted=0))
    measured = started.fields()
    # what the tables of shards say of themselves would count twice in the ledger of costs
    measured |= {name: measured[name] - used for name, used in zip(("seconds", "cpu_seconds"), spent, strict=True)}
    joint = Stamp(
        data_version=joint_version(stamps),
        schema_version=SAMPLES.version,
        num_rows=sum(stamp.num_rows for stamp in stamps.values()),
        size_bytes=0,
        code_version=SAMPLES_STEP.code_version,
        settings_digest="",
        inputs=inputs,
        counts={"items": counts.pop("accounted", 0), **counts, "shards": len(stamps), "shards_made": num_made},
        run_id=run_id,
        **measured,
    )
    return lake.tables.mark(SLOT, joint)


def recheck_samples(lake: Lake) -> int:
    """The number of items that the samples on disk account for: all of every shard, each once. Raises ContractBroken,
    TableCorrupt."""
    found = _shards(lake)
    if lost := sorted(set(_shards_with_items(lake)) ^ set(found)):
        raise ContractBroken(
            f"items -> samples: {len(lost)} shards have items and no samples or samples and no items, such as "
            f"{lost[0]!r}; materialize samples again"
        )
    _, num_items = recheck(SAMPLES_STEP, lake, OVER_ALL, shards=found)
    return num_items


def _shards_with_items(lake: Lake) -> list[str]:
    """The shards that have items of some modality, sorted."""
    return sorted({shard for modality in lake.parts.modalities for shard in lake.tables.shards(ITEMS.name, modality)})


def _shards(lake: Lake) -> list[str]:
    """The shards that have a table of samples, without the stamp that stands for all."""
    return [shard for shard in lake.tables.shards(SAMPLES.name, OVER_ALL) if shard != ALL]
