"""One run of `mmlake bench ann`: rows over sizes and dimensions, growth, projection and the choice of an index; as
JSON, CSV and a plot."""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.bench.ann import Plan, Row, measure
from mmlake.bench.growth import LEAST_EXPONENT, Fit, break_even, fitted
from mmlake.bench.plot import curves
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.vectors.index_choice import choose_index, code_parts
from mmlake.progress import Advance, silent

PROJECTED = 1_000_000_000
_PROJECTED_DIMENSION = 512  # 2 TB of float32 at 1 B vectors
_JOINS = ("flat join", "cells", "ivf-flat", "ivf-pq", "hnsw", "scann")

Vectors = np.ndarray
# (number, dimension) -> vectors
Source = Callable[[int, int], Vectors]


def run(
    source: Source,
    *,
    sizes: Sequence[int],
    dimensions: Sequence[int],
    bound: float,
    budget_cpu_s: float,
    plan: Plan,
    settings: DedupSettings,
    advance: Advance = silent,
) -> dict[str, Any]:
    """Everything that was measured and what follows from it, as plain data."""
    rows = [
        row
        for dimension in dimensions
        for size in sizes
        for row in measure(source(size, dimension), bound=bound, plan=plan, settings=settings, advance=advance)
    ]
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "bound": bound,
        "plan": asdict(plan),
        "budget_cpu_s": budget_cpu_s,
        "rows": [asdict(row) for row in rows],
        "growth": [_growth(rows, dimension, budget_cpu_s) for dimension in dimensions],
        "projection": _projection(rows, max(dimensions)),
        "choices": [
            asdict(choose_index(num, dimension, settings=settings)) | {"num": num, "dimension": dimension}
            for dimension in sorted({*dimensions, _PROJECTED_DIMENSION})
            for num in sorted({*sizes, 1_000_000, 100_000_000, PROJECTED})
        ],
    }


def write(found: dict[str, Any], folder: Path) -> dict[str, str]:
    """Kind -> the file that was written: ann.json, ann.csv and ann.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"ann.{kind}" for kind in ("json", "csv", "svg")}
    paths["json"].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    with paths["csv"].open("w", newline="", encoding="utf-8") as sink:
        rows = csv.DictWriter(sink, [field.name for field in fields(Row)])
        rows.writeheader()
        rows.writerows(found["rows"])
    paths["svg"].write_bytes(curves(found))
    return {kind: str(path) for kind, path in paths.items()}


def _growth(rows: Sequence[Row], dimension: int, budget_cpu_s: float) -> dict[str, Any]:
    """Fits of the cost of joining all vectors, where brute force meets the budget, and where cells become cheaper."""
    flat, cells = (_fit(rows, name, dimension) for name in ("flat join", "cells"))
    exact = _fit(rows, "flat join", dimension, exponent=2.0)
    fits = {name: _fit(rows, name, dimension) for name in _JOINS}
    return {
        "dimension": dimension,
        "fits": {name: asdict(fit) for name, fit in fits.items() if fit is not None},
        "brute_force_meets_budget_at": _round(exact.size_at(budget_cpu_s)) if exact is not None else None,
        "brute_force_meets_budget_at_measured_growth": _round(flat.size_at(budget_cpu_s)) if flat is not None else None,
        "cells_are_cheaper_from": _round(break_even(flat, cells)) if flat is not None and cells is not None else None,
    }


def _round(value: float | None) -> int | None:
    return None if value is None else round(value)


def _fit(rows: Sequence[Row], name: str, dimension: int, *, exponent: float | None = None) -> Fit | None:
    """Of the search for all vectors, without the building of the index: by the cheapest of the parameters that find
    most at the largest size, since an index that finds less is no cheaper one."""
    mine = [row for row in rows if row.index == name and row.dimension == dimension]
    if not mine:
        return None
    largest = [row for row in mine if row.num == max(row.num for row in mine)]
    best = min(largest, key=lambda row: (-(row.recall_at_bound or 0), -(row.recall_at_k or 0), row.join_cpu_s))
    shown = sorted((row for row in mine if _kind(row) == _kind(best)), key=lambda row: row.num)
    return fitted([row.num for row in shown], [row.num / row.queries_per_cpu_s for row in shown], exponent=exponent)


def _kind(row: Row) -> str:
    """The parameter, but for the number of cells, which follows from that of the vectors."""
    return row.parameter if row.index not in ("flat join", "cells") else ""


def _projection(rows: Sequence[Row], dimension: int) -> dict[str, Any]:
    """A billion vectors of 512 numbers: bytes by arithmetic; CPU time from the largest size of the largest dimension,
    times the ratio of the dimensions, by measured growth, but by no less than theory has. Nobody ran it."""
    ratio = _PROJECTED_DIMENSION / dimension
    codes = code_parts(_PROJECTED_DIMENSION) + 8
    cost = {}
    for name in _JOINS:
        measured = _fit(rows, name, dimension)
        if measured is None:
            continue
        exponent = max(measured.exponent, LEAST_EXPONENT[name]) if name != "flat join" else LEAST_EXPONENT[name]
        fit = _fit(rows, name, dimension, exponent=exponent)
        assert fit is not None
        cost[name] = {"cpu_hours": round(fit.seconds(PROJECTED) * ratio / 3600, 1), "exponent": exponent}
    return {
        "num": PROJECTED,
        "dimension": _PROJECTED_DIMENSION,
        "float32_bytes": 4 * _PROJECTED_DIMENSION * PROJECTED,
        "code_bytes": codes * PROJECTED,
        "bytes_arithmetic": f"float32: 4 x {_PROJECTED_DIMENSION} x 1e9; codes: ({codes - 8} + 8 of the id) x 1e9",
        "measured_at_dimension": dimension,
        "joins": cost,
    }
