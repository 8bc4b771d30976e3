"""From measured sizes to sizes that nobody has measured: a power law, with how well it fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_MOST_LOGARITHM = math.log(1e18)


@dataclass(frozen=True, slots=True)
class Fit:
    """CPU seconds = scale * n ** exponent."""

    scale: float
    exponent: float
    r_squared: float  # of the logarithms

    def seconds(self, num: float) -> float:
        """CPU seconds at this size."""
        return float(self.scale * num**self.exponent)

    def size_at(self, seconds: float) -> float | None:
        """The size that takes so many CPU seconds; None where no size does, or one beyond any."""
        return _size(math.log(seconds / self.scale), self.exponent)


# in theory: all products; 2 sqrt(n) centroids and a few lists of sqrt(n) / 2 for each vector; log n steps
LEAST_EXPONENT = {"flat join": 2.0, "cells": 1.5, "ivf-flat": 1.5, "ivf-pq": 1.5, "hnsw": 1.1, "scann": 1.5}


def fitted(sizes: Sequence[int], seconds: Sequence[float], *, exponent: float | None = None) -> Fit | None:
    """Least squares of the logarithms; None below two sizes.

    exponent: where it is given, only the scale is to be found: that of the largest size, where fixed costs matter
    least.
    """
    kept = [(size, cost) for size, cost in zip(sizes, seconds, strict=True) if cost > 0]
    if len({size for size, _ in kept}) < 2:
        return None
    x, y = np.log([size for size, _ in kept]), np.log([cost for _, cost in kept])
    if exponent is None:
        slope, intercept = np.polyfit(x, y, 1)
    else:
        slope, intercept = exponent, y[-1] - exponent * x[-1]
    rest, total = float(((y - slope * x - intercept) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return Fit(float(np.exp(intercept)), float(slope), round(1 - rest / total, 4) if total else 1.0)


def break_even(exact: Fit, other: Fit) -> float | None:
    """The size from which the other is cheaper than exact search; None where it never becomes so, or beyond any size:
    of two lines that are all but parallel noise says where they meet."""
    return _size(math.log(other.scale / exact.scale), exact.exponent - other.exponent)


def _size(logarithm: float, exponent: float) -> float | None:
    return math.exp(logarithm / exponent) if exponent > 0 and logarithm < _MOST_LOGARITHM * exponent else None
