"""The plot of a benchmark of indexes: recall against speed, recall against memory, and the cost of growth."""

from __future__ import annotations

import io
from typing import Any

_COLOURS = {
    "flat": "#7b8087", "flat join": "#1d1f22", "cells": "#3f7d58", "ivf-flat": "#3d6fa5", "ivf-pq": "#c9782b",
    "hnsw": "#b34a4a", "scann": "#8a6d1f",
}  # fmt: skip
_OTHER = "#7d64a8"


def curves(found: dict[str, Any]) -> bytes:
    """An SVG with a row of three plots per dimension; the same results give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    dimensions = [one["dimension"] for one in found["growth"]]
    with mpl.rc_context({"svg.hashsalt": "mmlake", "font.size": 9}):
        figure = Figure(figsize=(13, 3.7 * len(dimensions)), layout="constrained")
        axes = figure.subplots(len(dimensions), 3, squeeze=False)
        for row, growth in zip(axes, found["growth"], strict=True):
            _recall(row[0], found, growth["dimension"], "queries_per_cpu_s", "queries per CPU second")
            _recall(row[1], found, growth["dimension"], "bytes_per_vector", "bytes per vector in memory")
            _costs(row[2], found, growth)
        axes[0][0].legend(fontsize=7, frameon=False)
        axes[0][2].legend(fontsize=7, frameon=False)
        sink = io.BytesIO()
        figure.savefig(sink, format="svg", metadata={"Date": None})
    return sink.getvalue()


def _recall(axes: Any, found: dict[str, Any], dimension: int, column: str, label: str) -> None:
    largest = max(row["num"] for row in found["rows"] if row["dimension"] == dimension)
    rows = [row for row in found["rows"] if row["num"] == largest and row["dimension"] == dimension]
    for name in dict.fromkeys(row["index"] for row in rows):
        points = [
            (row["recall_at_bound"], row[column])
            for row in rows
            if row["index"] == name and row["recall_at_bound"] is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", ms=4, lw=1, color=_COLOURS.get(name, _OTHER), label=name)
    axes.set_yscale("log")
    axes.set_xlabel(f"recall of pairs at cosine {found['bound']:g} and more")
    axes.set_ylabel(label)
    axes.set_title(f"{largest:,} vectors of {dimension}", fontsize=9)
    _plain(axes)


def _costs(axes: Any, found: dict[str, Any], growth: dict[str, Any]) -> None:
    """What a join of all vectors costs: measured, and along the fit up to where brute force meets the budget."""
    end = growth["brute_force_meets_budget_at"] or 0
    for name, fit in growth["fits"].items():
        colour = _COLOURS.get(name, _OTHER)
        rows = [row for row in found["rows"] if row["index"] == name and row["dimension"] == growth["dimension"]]
        searches = [row["num"] / row["queries_per_cpu_s"] for row in rows]
        axes.plot([row["num"] for row in rows], searches, "o", ms=3, alpha=0.5, color=colour)
        sizes = [min(row["num"] for row in rows), max(end, *(row["num"] for row in rows))]
        costs = [fit["scale"] * size ** fit["exponent"] for size in sizes]
        axes.plot(sizes, costs, "-", lw=1, color=colour, label=f"{name}: n^{fit['exponent']:.2f}")
    axes.axhline(found["budget_cpu_s"], ls="--", lw=1, color="#5d636b")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("vectors")
    axes.set_ylabel("CPU seconds to search for all")
    axes.set_title(f"dashed: budget; brute force meets it at {end:,}", fontsize=9)
    _plain(axes)


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
