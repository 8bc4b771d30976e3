"""The tables of samples brought up to date with the items: one per source shard, over all modalities, and one stamp
that stands for them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import samples
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.sample_schema import SAMPLES
from mmlake.schemas import ITEMS, conform
from mmlake.tables import ALL, Slot, Stamp, Stopwatch, check_key, joint_version

CODE_VERSION = "1"
SLOT = Slot(SAMPLES.name, "all")
_WITHOUT_LEAD = "without_lead"  # counts samples that no part leads, which have no modality


def samples_inputs(lake: Lake) -> dict[str, str]:
    """Data versions of everything that samples are made from."""
    return {
        f"{modality}/{ITEMS.name}": joint_version(lake.tables.stamps(ITEMS.name, modality))
        for modality in lake.parts.modalities
    }


def samples_are_current(lake: Lake) -> bool:
    """Whether the samples were made from the items as they are now."""
    stamp = lake.tables.stamp(SLOT)
    return stamp is not None and _is_made_by_this(stamp) and stamp.inputs == samples_inputs(lake)


def scan_samples(lake: Lake, *, columns: list[str] | None = None) -> Iterator[tuple[str, pa.Table]]:
    """(shard, samples) of every source shard, in order of the shard's name, one in memory at a time."""
    for slot in _stamps(lake):
        yield slot.shard, lake.tables.read(slot, columns=columns)


def update_samples(lake: Lake, *, advance: Advance = silent, run_id: str = "") -> Stamp:
    """The stamp that stands for the samples of all shards. Made are those of shards whose items changed, removed those
    of shards that have none any more. Raises ContractBroken where an item is in no sample or in two.

    advance: called with the number of items of each shard that is made.
    """
    started, inputs, spent = Stopwatch(), samples_inputs(lake), [0.0, 0.0]
    items = _items(lake)
    for slot in _stamps(lake):
        if slot.shard not in items:
            lake.tables.remove(slot)
    stamps: dict[Slot, Stamp] = {}
    num_made = 0
    for shard, versions in items.items():
        slot = Slot(SAMPLES.name, "all", shard)
        stamp = lake.tables.stamp(slot)
        if stamp is None or not _is_made_by_this(stamp) or stamp.inputs != _named(versions):
            stamp = _make(lake, slot, versions, run_id=run_id)
            num_made += 1
            spent = [spent[0] + stamp.seconds, spent[1] + stamp.cpu_seconds]
            advance(stamp.counts["items"])
        stamps[slot] = stamp
    counts = sum((Counter(stamp.counts) for stamp in stamps.values()), Counter[str]())
    measured = started.fields()
    # what the tables of shards say of themselves would count twice in the ledger of costs
    measured |= {name: measured[name] - used for name, used in zip(("seconds", "cpu_seconds"), spent, strict=True)}
    joint = Stamp(
        data_version=joint_version(stamps),
        schema_version=SAMPLES.version,
        num_rows=sum(stamp.num_rows for stamp in stamps.values()),
        size_bytes=0,
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=inputs,
        counts={**counts, "shards": len(stamps), "shards_made": num_made},
        run_id=run_id,
        **measured,
    )
    return lake.tables.mark(SLOT, joint)


def recheck_samples(lake: Lake) -> int:
    """The number of items that the samples on disk account for: all of every shard, each once. Raises ContractBroken,
    TableCorrupt."""
    found, items = _stamps(lake), _items(lake)
    if lost := sorted(items.keys() ^ {slot.shard for slot in found}):
        raise ContractBroken(
            f"items -> samples: {len(lost)} shards have items and no samples or samples and no items, such as "
            f"{lost[0]!r}; materialize samples again"
        )
    total = 0
    for slot in found:
        table = conform(SAMPLES, lake.tables.read(slot))
        check_key(slot, SAMPLES, table)
        total += samples.check_samples(list(_tables(lake, items[slot.shard])), table)
    return total


def _is_made_by_this(stamp: Stamp) -> bool:
    return stamp.code_version == CODE_VERSION and stamp.schema_version == SAMPLES.version


def _items(lake: Lake) -> dict[str, dict[Slot, str]]:
    """Shard -> slot of each of its items tables -> data version; sorted."""
    found: dict[str, dict[Slot, str]] = {}
    for modality in lake.parts.modalities:
        for slot, stamp in lake.tables.stamps(ITEMS.name, modality).items():
            found.setdefault(slot.shard, {})[slot] = stamp.data_version
    return dict(sorted(found.items()))


def _stamps(lake: Lake) -> dict[Slot, Stamp]:
    """The stamps of the tables of shards, without the one that stands for all."""
    return {slot: stamp for slot, stamp in lake.tables.stamps(SAMPLES.name, "all").items() if slot.shard != ALL}


def _named(versions: dict[Slot, str]) -> dict[str, str]:
    return {str(slot): version for slot, version in versions.items()}


def _tables(lake: Lake, slots: Iterable[Slot]) -> Iterator[pa.Table]:
    """What samples are made from, and no more of it."""
    for slot in slots:
        yield lake.tables.read(slot, columns=list(samples.COLUMNS))


def _make(lake: Lake, slot: Slot, versions: dict[Slot, str], *, run_id: str) -> Stamp:
    started = Stopwatch()
    items = list(_tables(lake, versions))
    table = samples.assemble(items)
    return lake.tables.write(
        slot,
        SAMPLES,
        table,
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=_named(versions),
        counts=_counts(table, num_items=sum(one.num_rows for one in items)),
        run_id=run_id,
        **started.fields(),
    )


def _counts(table: pa.Table, *, num_items: int) -> dict[str, int]:
    """Items, samples of the source, and rows by modality."""
    rows = {
        entry["values"] or _WITHOUT_LEAD: entry["counts"]
        for entry in pc.value_counts(table.column("modality")).to_pylist()
    }
    return {"items": num_items, "occurrences": pc.sum(table.column("num_occurrences")).as_py() or 0, **rows}
