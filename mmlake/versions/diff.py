"""What changed between two versions, and why: only the segments that the two do not share are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mmlake.records import canonical_json
from mmlake.versions.manifest import Manifest
from mmlake.versions.segments import Segment
from mmlake.versions.selection import VERSION_SAMPLES

_MOVED = VERSION_SAMPLES.append(pa.field("cause", pa.string()))
_CHANGED = pa.schema(
    [
        ("sample", pa.string()),
        ("lead", pa.string()),
        ("modality", pa.string()),
        ("field", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)
# where a sample lies says nothing of what is trained on
_COMPARED = [name for name in VERSION_SAMPLES.names if name != "shard"]
NEW = "new"  # the cause of an added sample that the older version had never seen
# the cause of a removed sample that the newer version does not know at all: erased, or its source is gone
ABSENT = "absent"
ADMITTED_AGAIN = "was "  # prefix of an added sample's cause: what had kept it out of the older version

_Read = Callable[[Segment], list[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Diff:
    """The difference between two versions; tables are sorted by sample."""

    before: str  # manifest id
    after: str
    added: pa.Table  # VERSION_SAMPLES and cause: new, or `was <cause>` where the older version had excluded it
    removed: pa.Table  # VERSION_SAMPLES and cause: what excludes it now, or absent
    changed: pa.Table  # sample, lead, modality, field, before, after (values as JSON): one row per field
    num_shared_segments: int

    def summary(self) -> dict[str, dict[str, dict[str, int]]]:
        """Counts: added and removed by modality and cause, changed by modality and field."""
        return {
            "added": _counts(self.added, "cause"),
            "removed": _counts(self.removed, "cause"),
            "changed": _counts(self.changed, "field"),
        }


def compare(before: Manifest, after: Manifest, *, read: _Read) -> Diff:
    """The difference from `before` to `after`. read: gives the rows of a segment."""
    shared = {segment.digest for segment in before.segments} & {segment.digest for segment in after.segments}
    old, new = _rows(before.segments, shared, read), _rows(after.segments, shared, read)
    gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    excluded_now, excluded_then = (
        _causes(after.excluded_segments, gone, read),
        _causes(before.excluded_segments, come, read),
    )
    added = [
        new[name] | {"cause": ADMITTED_AGAIN + excluded_then[name] if name in excluded_then else NEW} for name in come
    ]
    removed = [old[name] | {"cause": excluded_now.get(name, ABSENT)} for name in gone]
    changed = [
        {
            "sample": name,
            "lead": new[name]["lead"],
            "modality": new[name]["modality"],
            "field": field,
            "before": canonical_json(old[name][field]),
            "after": canonical_json(new[name][field]),
        }
        for name in sorted(old.keys() & new.keys())
        for field in _COMPARED
        if old[name][field] != new[name][field]
    ]
    return Diff(
        before=before.id,
        after=after.id,
        added=pa.Table.from_pylist(added, schema=_MOVED),
        removed=pa.Table.from_pylist(removed, schema=_MOVED),
        changed=pa.Table.from_pylist(changed, schema=_CHANGED),
        num_shared_segments=len(shared),
    )


def _rows(segments: Iterable[Segment], skip: set[str], read: _Read) -> dict[str, dict[str, Any]]:
    return {row["sample"]: row for segment in segments if segment.digest not in skip for row in read(segment)}


def _causes(segments: Iterable[Segment], names: list[str], read: _Read) -> dict[str, str]:
    """The cause of each sample (given sorted) that is out; only segments whose range holds one of them are read."""
    wanted, found = set(names), dict[str, str]()
    for segment in segments:
        if bisect_left(names, segment.first) < bisect_right(names, segment.last):
            rows = read(segment)
            found |= {row["sample"]: row["cause"] for row in rows if row["is_whole"] and row["sample"] in wanted}
    return found


def _counts(table: pa.Table, column: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for modality, value in sorted(zip(table["modality"].to_pylist(), table[column].to_pylist(), strict=True)):
        by_value = counts.setdefault(modality, {})
        by_value[value] = by_value.get(value, 0) + 1
    return counts
