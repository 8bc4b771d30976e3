"""Benchmarks that a user runs: on generated vectors, or on those of a lake."""

from __future__ import annotations

from mmlake.bench.ann import Plan, Row, measure
from mmlake.bench.growth import Fit, break_even, fitted
from mmlake.bench.results import run, write
from mmlake.bench.vectors import clustered, of_lake

__all__ = [
    "Fit", "Plan", "Row", "break_even", "clustered", "fitted", "measure", "of_lake", "run", "write",
]  # fmt: skip
