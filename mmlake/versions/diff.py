"""What changed between two versions, and why: only the segments that the two do not share are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.records import canonical_json
from mmlake.versions.edits import edits
from mmlake.versions.manifest import Manifest
from mmlake.versions.reasons import Reasons
from mmlake.versions.sample_schemas import EXCLUDED, VERSION_SAMPLES
from mmlake.versions.segments import Segment

_MOVED = VERSION_SAMPLES.append(pa.field("cause", pa.string())).append(pa.field("reason", pa.string()))
_CHANGED = pa.schema(
    [
        ("sample", pa.string()),
        ("lead", pa.string()),
        ("modality", pa.string()),
        ("field", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("reason", pa.string()),
    ]
)
# where a sample lies says nothing of what is trained on
_COMPARED = [name for name in VERSION_SAMPLES.names if name not in ("sample", "shard")]
NEW = "new"  # the cause of an added sample that the older version had never seen
# causes of a removed sample that the newer version does not know at all: its source shard is there and no longer holds
# it, as after an erasure; or nothing of its source shard is there any more
ABSENT, SHARD_GONE = "absent", "shard_gone"
ADMITTED_AGAIN = "was "  # prefix of an added sample's cause: what had kept it out of the older version


@dataclass(frozen=True, kw_only=True, slots=True)
class Diff:
    """The difference between two versions; tables are sorted by sample."""

    before: str  # version id
    after: str
    # VERSION_SAMPLES, cause (new, or `was <cause>` where the older version had excluded it) and reason (of REASONS)
    added: pa.Table
    removed: pa.Table  # likewise; cause: what excludes it now, absent or shard_gone
    changed: pa.Table  # sample, lead, modality, field, before, after (values as JSON), reason: one row per field
    num_shared_segments: int

    def summary(self) -> dict[str, dict[str, dict[str, int]]]:
        """Counts: added and removed by modality and cause, changed by modality and field."""
        return {
            "added": counts_of(self.added, "cause"),
            "removed": counts_of(self.removed, "cause"),
            "changed": counts_of(self.changed, "field"),
        }

    def edited(self) -> pa.Table:
        """EDITS of those that came and went: the same medium, or the same id of the source, with something else."""
        return edits(self.removed, self.added)

    def reasons(self) -> dict[str, dict[str, int]]:
        """Samples by reason, of those that came, went and changed; each counts once, a changed one by its first
        field. The numbers of each add up to all."""
        first = self.changed.group_by("sample", use_threads=False).aggregate([("reason", "first")])["reason_first"]
        columns = {"added": self.added["reason"], "removed": self.removed["reason"], "changed": first}
        return {
            what: {row["values"]: row["counts"] for row in sorted(pc.value_counts(one).to_pylist(), key=_most_first)}
            for what, one in columns.items()
        }


def _most_first(row: dict[str, Any]) -> tuple[int, str]:
    return -row["counts"], row["values"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of the two versions that are compared."""

    made: Manifest
    segments: tuple[Segment, ...]


def compare(before: Side, after: Side, *, read: Callable[[Segment, pa.Schema], pa.Table]) -> Diff:
    """The difference from `before` to `after`. read: gives the rows of a segment."""
    shared = {segment.digest for segment in before.segments} & {segment.digest for segment in after.segments}
    old, new = _by_shard(before.segments, shared), _by_shard(after.segments, shared)
    none = VERSION_SAMPLES.empty_table()
    gone, come, changed = [none], [none], [_CHANGED.empty_table()]
    for shard in sorted(old.keys() | new.keys(), key=str):  # one in memory at a time
        was, now = (
            pa.concat_tables([none, *(read(one, VERSION_SAMPLES) for one in side.get(shard, ()))])
            for side in (old, new)
        )
        went, came, both = _matched(was, now)
        gone.append(went)
        come.append(came)
        changed.append(both)
    # what is in another shard than it was
    went, came, both = _matched(pa.concat_tables(gone), pa.concat_tables(come))
    changed.append(both)
    known = {segment.digest for segment in before.made.excluded_segments} & {
        one.digest for one in after.made.excluded_segments
    }
    then, now = (_causes(one.made.excluded_segments, known, read) for one in (before, after))
    was = _found(came["sample"], then)
    cause = pc.if_else(pc.is_valid(was), pc.binary_join_element_wise(ADMITTED_AGAIN, was, ""), NEW)
    shards = {one.shard for one in (*after.segments, *after.made.excluded_segments)}
    # a version of an earlier release may not say of which shard its samples are
    is_there = pc.or_(pc.is_in(went["shard"], value_set=pa.array(sorted(map(str, shards)))), None in shards)
    unknown = pc.if_else(pc.fill_null(is_there, True), ABSENT, SHARD_GONE).combine_chunks()
    reasons = Reasons(before.made, after.made)
    differs = pa.concat_tables(changed).sort_by([("sample", "ascending"), ("field", "ascending")]).combine_chunks()
    return Diff(
        before=before.made.id,
        after=after.made.id,
        added=_moved(came, cause, reasons),
        removed=_moved(went, pc.coalesce(_found(went["sample"], now), unknown), reasons),
        changed=differs.set_column(6, "reason", _mapped(_behind(differs), reasons.of_field)),
        num_shared_segments=len(shared),
    )


def counts_of(table: pa.Table, column: str) -> dict[str, dict[str, int]]:
    """The number of rows by modality and value of the column, sorted."""
    counts: dict[str, dict[str, int]] = {}
    rows = table.group_by(["modality", column]).aggregate([([], "count_all")]).to_pylist()
    for row in sorted(rows, key=lambda row: (row["modality"], row[column])):
        counts.setdefault(row["modality"], {})[row[column]] = row["count_all"]
    return counts


def _by_shard(segments: Iterable[Segment], skip: set[str]) -> dict[str | None, list[Segment]]:
    found: dict[str | None, list[Segment]] = {}
    for segment in segments:
        if segment.digest not in skip:
            found.setdefault(segment.shard, []).append(segment)
    return found


def _causes(segments: Iterable[Segment], skip: set[str], read: Callable[[Segment, pa.Schema], pa.Table]) -> pa.Table:
    """Sample and cause of what is out as a whole. What is out of one version alone stands in a segment that the two do
    not share."""
    parts = [EXCLUDED.empty_table().select(["sample", "cause"])]
    for segment in segments:
        if segment.digest not in skip:
            rows = read(segment, EXCLUDED)
            parts.append(rows.filter(rows["is_whole"]).select(["sample", "cause"]))
    return pa.concat_tables(parts).combine_chunks()


def _found(samples: pa.ChunkedArray, causes: pa.Table) -> pa.Array:
    """The cause of each sample; null where none is known."""
    at = pc.index_in(samples, value_set=piece(causes["sample"])).combine_chunks()
    found: pa.Array = piece(causes["cause"]).take(at)
    return found


def _moved(samples: pa.Table, causes: pa.Array | pa.ChunkedArray, reasons: Reasons) -> pa.Table:
    samples = samples.append_column("cause", causes).append_column("reason", _mapped(causes, reasons.of_cause))
    return samples.cast(_MOVED).sort_by("sample").combine_chunks()


def _behind(changed: pa.Table) -> pa.Array:
    """Of each changed field the one that has its reason: the fields of a sample are without what is masked of it, so
    that they change with its parts."""
    with_parts = piece(changed["sample"].filter(pc.equal(changed["field"], "parts")))
    follows = pc.and_(pc.equal(changed["field"], "fields_json"), pc.is_in(changed["sample"], value_set=with_parts))
    found: pa.Array = piece(pc.if_else(follows, "parts", changed["field"]))
    return found


def _mapped(values: pa.Array | pa.ChunkedArray, reason: Callable[[str], str]) -> pa.Array:
    """The reason of each value; each distinct one is asked once."""
    encoded = piece(values).dictionary_encode()
    return pa.array([reason(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _matched(old: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """(rows of `old` alone, rows of `new` alone, _CHANGED of the others)."""
    old, new = old.combine_chunks(), new.combine_chunks()
    at = pc.index_in(new["sample"], value_set=piece(old["sample"])).combine_chunks()
    stays = pc.is_valid(at)
    was, now = old.take(at.drop_null()), new.filter(stays)
    gone = pc.invert(pc.is_in(old["sample"], value_set=piece(new["sample"])))
    changed = [_CHANGED.empty_table()]
    for field in _COMPARED:
        before, after = piece(was[field]), piece(now[field])
        rows = pa.array(np.flatnonzero(_differs(before, after)))
        if len(rows):
            columns = {name: now[name].take(rows) for name in ("sample", "lead", "modality")}
            columns["field"] = pa.array([field]).take(pa.array(np.zeros(len(rows), np.int64)))
            columns |= {"before": _as_json(before.take(rows)), "after": _as_json(after.take(rows))}
            columns["reason"] = pa.nulls(len(rows), pa.string())
            changed.append(pa.table(columns, schema=_CHANGED))
    return old.filter(gone), new.filter(pc.invert(stays)), pa.concat_tables(changed)


def _differs(before: pa.Array, after: pa.Array) -> np.ndarray:
    """Whether the values of each row differ; two nulls are equal. Both have one length and type."""
    lost: np.ndarray = pc.xor(pc.is_null(before), pc.is_null(after)).to_numpy(zero_copy_only=False)
    if pa.types.is_struct(before.type):
        for old, new in zip(before.flatten(), after.flatten(), strict=True):
            lost = lost | _differs(old, new)
        return lost
    if not pa.types.is_list(before.type):
        unequal: np.ndarray = pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        unequal |= lost
        return unequal
    sizes, others = (pc.fill_null(pc.list_value_length(one), 0).to_numpy() for one in (before, after))
    same = np.flatnonzero(sizes == others)
    differs: np.ndarray = lost | (sizes != others)
    old, new = before.take(pa.array(same)), after.take(pa.array(same))
    owners = same[pc.list_parent_indices(old).to_numpy()]
    differs[owners[_differs(old.flatten(), new.flatten())]] = True
    return differs


def _as_json(values: pa.Array) -> pa.Array:
    """Each value as canonical JSON; of plain values each distinct one is written once."""
    if pa.types.is_nested(values.type):
        return pa.array([canonical_json(value) for value in values.to_pylist()], pa.string())
    encoded = values.dictionary_encode()
    texts: list[Any] = [canonical_json(value) for value in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(encoded.indices), "null")
