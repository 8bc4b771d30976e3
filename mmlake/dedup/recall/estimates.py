"""The recall of an approximate step, estimated from a seeded sample, with its confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_UNITS = 1_000  # an interval of half a percentage point where all of 700 are found; their search costs n products
NUM_WITH_DUPLICATE = "recall_units"  # counts of a stamp: sampled units that have a duplicate
NUM_FOUND = "recall_found"  # of these, found
OF = 16  # parts of the keys of a unit, of which a curve takes more and more
_CURVE = "recall_{}_"  # counts of a stamp: by cells searched or sixteenths of the keys, what is found and compared
_STEPS = {"cells": 1, "keys": 1 / OF}  # what a curve is over, and what one of its steps is
_Z = 1.959963984540054  # two-sided 95 %


def wilson(found: int, units: int) -> tuple[float, float]:
    """The interval of a share, 95 % (Wilson 1927); (0, 1) where nothing was sampled."""
    if not units:
        return 0.0, 1.0
    share, z = found / units, _Z
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


def with_curve(pairs: pa.Table, curves: Iterable[Mapping[int, tuple[int, int]]], *, over: str) -> pa.Table:
    """The pairs, whose metadata has the sums of the curves: step -> (sampled units whose duplicate is found by then,
    units compared for all sampled ones that have a duplicate). over: "cells" searched for a unit, or "keys", in
    sixteenths of them. Nothing where there is no curve: all search was exact."""
    counts: dict[str, int] = {}
    for curve in curves:
        for step, (found, compared) in curve.items():
            for name, count in (("found", found), ("compared", compared)):
                name = f"{_CURVE.format(over)}{step}_{name}"
                counts[name] = counts.get(name, 0) + count
    said = {name: str(count) for name, count in counts.items()}
    return pairs.replace_schema_metadata({**(pairs.schema.metadata or {}), **said}) if said else pairs


def recall_counts(pairs: pa.Table) -> dict[str, int]:
    """What a stamp of the pairs keeps of their recall."""
    metadata = {name.decode(): value for name, value in (pairs.schema.metadata or {}).items()}
    curves = tuple(_CURVE.format(over) for over in _STEPS)
    kept = (name for name in metadata if name in (NUM_WITH_DUPLICATE, NUM_FOUND) or name.startswith(curves))
    return {name: int(metadata[name]) for name in kept}


def recall_of(counts: Mapping[str, int]) -> dict[str, Any] | None:
    """{units, found, recall, low, high} of a stamp's counts; None where the step estimates nothing. recall is None
    where no sampled unit has a duplicate. Where cells or keys were searched, `curve` has a row for each of several
    numbers of cells or shares of the keys: {cells or keys, recall, low, high, compared}, the last the units that one is
    compared with on average."""
    if NUM_WITH_DUPLICATE not in counts:
        return None
    units, found = counts[NUM_WITH_DUPLICATE], counts[NUM_FOUND]
    low, high = wilson(found, units)
    recall = found / units if units else None
    said = {"units": units, "found": found, "recall": recall, "low": round(low, 6), "high": round(high, 6)}
    curve = [row for over in _STEPS for row in _curve(counts, units, over)]
    return said | ({"curve": curve} if curve else {})


def _curve(counts: Mapping[str, int], units: int, over: str) -> list[dict[str, Any]]:
    begin, step = _CURVE.format(over), _STEPS[over]
    names = (name.removeprefix(begin).partition("_") for name in counts if name.startswith(begin))
    rows = []
    for number in sorted({int(number) for number, _, _ in names}) if units else ():
        found = counts[f"{begin}{number}_found"]
        low, high = wilson(found, units)
        compared = round(counts[f"{begin}{number}_compared"] / units, 1)
        rows.append({over: number * step, "recall": found / units, "low": low, "high": high, "compared": compared})
    return rows


def recall_words(one: Mapping[str, Any]) -> str:
    """The estimate for people: "1.000 (0.991 to 1.000), 412 of 412"."""
    if one["recall"] is None:
        return "no duplicate in the sample"
    return f"{one['recall']:.3f} ({one['low']:.3f} to {one['high']:.3f}), {one['found']:,} of {one['units']:,}"
