"""The recall of an approximate step, estimated from a seeded sample, with its confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_UNITS = 1_000  # an interval of half a percentage point where all of 700 are found; their search costs n products
NUM_WITH_DUPLICATE = "recall_units"  # counts of a stamp: sampled units that have a duplicate
NUM_FOUND = "recall_found"  # of these, found
_CURVE = "recall_cells_"  # counts of a stamp: by cells searched, what is found and what is compared
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


def with_curve(pairs: pa.Table, curves: Iterable[Mapping[int, tuple[int, int]]]) -> pa.Table:
    """The pairs, whose metadata has the sums of the curves: cells searched for a unit -> (sampled units whose duplicate
    is in one of them, vectors compared for all sampled units that have one). Nothing where all search was exact."""
    counts: dict[str, int] = {}
    for curve in curves:
        for cells, (found, compared) in curve.items():
            for name, count in ((f"{_CURVE}{cells}_found", found), (f"{_CURVE}{cells}_compared", compared)):
                counts[name] = counts.get(name, 0) + count
    said = {name: str(count) for name, count in counts.items()}
    return pairs.replace_schema_metadata({**(pairs.schema.metadata or {}), **said}) if said else pairs


def recall_counts(pairs: pa.Table) -> dict[str, int]:
    """What a stamp of the pairs keeps of their recall."""
    metadata = {name.decode(): value for name, value in (pairs.schema.metadata or {}).items()}
    kept = (name for name in metadata if name in (NUM_WITH_DUPLICATE, NUM_FOUND) or name.startswith(_CURVE))
    return {name: int(metadata[name]) for name in kept}


def recall_of(counts: Mapping[str, int]) -> dict[str, Any] | None:
    """{units, found, recall, low, high} of a stamp's counts; None where the step estimates nothing. recall is None
    where no sampled unit has a duplicate. Where cells were searched, `curve` has a row per number of them: {cells,
    recall, low, high, compared}, the last the vectors that a unit is compared with on average."""
    if NUM_WITH_DUPLICATE not in counts:
        return None
    units, found = counts[NUM_WITH_DUPLICATE], counts[NUM_FOUND]
    low, high = wilson(found, units)
    recall = found / units if units else None
    said = {"units": units, "found": found, "recall": recall, "low": round(low, 6), "high": round(high, 6)}
    return said | ({"curve": curve} if (curve := _curve(counts, units)) else {})


def _curve(counts: Mapping[str, int], units: int) -> list[dict[str, Any]]:
    names = (name.removeprefix(_CURVE).partition("_") for name in counts if name.startswith(_CURVE))
    rows = []
    for cells in sorted({int(number) for number, _, _ in names}) if units else ():
        found = counts[f"{_CURVE}{cells}_found"]
        low, high = wilson(found, units)
        compared = round(counts[f"{_CURVE}{cells}_compared"] / units, 1)
        rows.append({"cells": cells, "recall": found / units, "low": low, "high": high, "compared": compared})
    return rows


def recall_words(one: Mapping[str, Any]) -> str:
    """The estimate for people: "1.000 (0.991 to 1.000), 412 of 412"."""
    if one["recall"] is None:
        return "no duplicate in the sample"
    return f"{one['recall']:.3f} ({one['low']:.3f} to {one['high']:.3f}), {one['found']:,} of {one['units']:,}"
