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
from mmlake.versions.selection import VERSION_ITEMS

_MOVED = VERSION_ITEMS.append(pa.field("cause", pa.string()))
_CHANGED = pa.schema(
    [
        ("digest", pa.string()),
        ("modality", pa.string()),
        ("field", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)
NEW = "new"  # the cause of an added item that the older version had never seen
# the cause of a removed item that the newer version does not know at all: erased, or its source is gone
ABSENT = "absent"
ADMITTED_AGAIN = "was "  # prefix of an added item's cause: what had kept it out of the older version

_Read = Callable[[Segment], list[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Diff:
    """The difference between two versions; tables are sorted by digest."""

    before: str  # manifest id
    after: str
    added: pa.Table  # VERSION_ITEMS and cause: new, or `was <cause>` where the older version had excluded it
    removed: pa.Table  # VERSION_ITEMS and cause: what excludes it now, or absent
    changed: pa.Table  # digest, modality, field, before, after (values as JSON): one row per field
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
        new[digest] | {"cause": ADMITTED_AGAIN + excluded_then[digest] if digest in excluded_then else NEW}
        for digest in come
    ]
    removed = [old[digest] | {"cause": excluded_now.get(digest, ABSENT)} for digest in gone]
    changed = [
        {
            "digest": digest,
            "modality": new[digest]["modality"],
            "field": name,
            "before": canonical_json(old[digest][name]),
            "after": canonical_json(new[digest][name]),
        }
        for digest in sorted(old.keys() & new.keys())
        for name in VERSION_ITEMS.names
        if old[digest][name] != new[digest][name]
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
    return {row["digest"]: row for segment in segments if segment.digest not in skip for row in read(segment)}


def _causes(segments: Iterable[Segment], digests: list[str], read: _Read) -> dict[str, str]:
    """The cause of each digest (given sorted) that the segments name; only segments whose range holds one of them
    are read."""
    wanted, found = set(digests), dict[str, str]()
    for segment in segments:
        if bisect_left(digests, segment.first) < bisect_right(digests, segment.last):
            found |= {row["digest"]: row["cause"] for row in read(segment) if row["digest"] in wanted}
    return found


def _counts(table: pa.Table, column: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for modality, value in sorted(zip(table["modality"].to_pylist(), table[column].to_pylist(), strict=True)):
        by_value = counts.setdefault(modality, {})
        by_value[value] = by_value.get(value, 0) + 1
    return counts
