"""The recall of an approximate step, estimated from a seeded sample, with its confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_UNITS = 1_000  # an interval of half a percentage point where all of 700 are found; their search costs n products
NUM_WITH_DUPLICATE = "recall_units"  # counts of a stamp: sampled units that have a duplicate
NUM_FOUND = "recall_found"  # of these, found
_Z = 1.959963984540054  # two-sided 95 %


def wilson(found: int, units: int, *, z: float = _Z) -> tuple[float, float]:
    """The interval of a share, 95 % unless z says otherwise (Wilson 1927); (0, 1) where nothing was sampled."""
    if not units:
        return 0.0, 1.0
    share = found / units
    scale = 1 + z * z / units
    centre = (share + z * z / (2 * units)) / scale
    half = z * ((share * (1 - share) + z * z / (4 * units)) / units) ** 0.5 / scale
    return max(0.0, centre - half) if found else 0.0, min(1.0, centre + half) if found < units else 1.0


def with_recall(pairs: pa.Table, counted: Iterable[tuple[int, int]]) -> pa.Table:
    """The pairs, whose metadata has the sums of what was counted: (sampled units that have a duplicate, of these
    found). Nothing where nothing was counted."""
    counted = list(counted)
    if not counted:
        return pairs
    counts = {
        NUM_WITH_DUPLICATE: str(sum(units for units, _ in counted)),
        NUM_FOUND: str(sum(found for _, found in counted)),
    }
    return pairs.replace_schema_metadata({**(pairs.schema.metadata or {}), **counts})


def recall_counts(pairs: pa.Table) -> dict[str, int]:
    """What a stamp of the pairs keeps of their recall."""
    metadata = pairs.schema.metadata or {}
    return {name: int(metadata[name.encode()]) for name in (NUM_WITH_DUPLICATE, NUM_FOUND) if name.encode() in metadata}


def recall_of(counts: Mapping[str, int]) -> dict[str, Any] | None:
    """{units, found, recall, low, high} of a stamp's counts; None where the step estimates nothing. recall is None
    where no sampled unit has a duplicate."""
    if NUM_WITH_DUPLICATE not in counts:
        return None
    units, found = counts[NUM_WITH_DUPLICATE], counts[NUM_FOUND]
    low, high = wilson(found, units)
    recall = found / units if units else None
    return {"units": units, "found": found, "recall": recall, "low": round(low, 6), "high": round(high, 6)}


def recall_words(one: Mapping[str, Any]) -> str:
    """The estimate for people: "1.000 (0.991 to 1.000), 412 of 412"."""
    if one["recall"] is None:
        return "no duplicate in the sample"
    return f"{one['recall']:.3f} ({one['low']:.3f} to {one['high']:.3f}), {one['found']:,} of {one['units']:,}"
