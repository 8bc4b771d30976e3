"""How close members of clusters are to the rest, and which of them criteria leave for it.

Enters: members, and what says how close a unit is to others. Leaves: masks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import Lacks
from mmlake.dedup.prints import Positions

REST = 32  # of the others that closeness is worked out against
_SHINGLE_WORDS = 5  # as `text.prints` makes them
Mask = NDArray[np.bool_]
# (units, for each a row of as many others) -> how close each is to these in the mean
Closeness = Callable[[Positions, Positions], NDArray[np.float64]]


def but_itself(left: Positions, rest: Positions, most: int) -> Positions:
    """Of each the first of the rest, which it is one of, but itself: of shape (left, at most so many)."""
    first = rest[: most + 1]
    is_in = first != left[:, None]
    is_in[is_in.all(axis=1), -1] = False
    others: Positions = np.broadcast_to(first, is_in.shape)[is_in].reshape(len(left), -1)
    return others


def are_closest(rows: Positions, left: Mask, closeness: Closeness, *, slack: float) -> Mask:
    """Which of those left are as close to the others of their cluster as the closest. rows: clusters of one size, each
    sorted by rank."""
    cluster, at = np.nonzero(left)
    others = np.arange(min(rows.shape[1] - 1, REST))
    others = others + (others >= at[:, None])
    means = np.full(rows.shape, -np.inf)
    if len(cluster):
        means[cluster, at] = closeness(rows[cluster, at], rows[cluster[:, None], others])
    closest: Mask = means >= means.max(axis=1, keepdims=True) - slack
    return closest


def replaced_fraction(jaccard: float) -> float:
    """Of the words of two texts how many stand in place of others, one here and another there, where their shingles
    are this much alike: each takes the five with it that it stands in. In passages they are more."""
    shared = min(max(jaccard, 0.0), 1.0)
    return float(1 - (2 * shared / (1 + shared)) ** (1 / _SHINGLE_WORDS))


def are_explained(
    rows: Positions, worse: Mask, best: Mask, values: NDArray[np.float64], lacks: Lacks, *, of_words: float
) -> Mask:
    """Which of those that are worse by some number are so by no more than the words bring that only one has of them
    and each of the best. values: of that number. of_words: of the criterion."""
    cluster, one, other = np.nonzero(worse[:, :, None] & (best & ~np.isnan(values))[:, None, :])
    explained: Mask = worse.copy()
    if len(cluster):
        gaps = np.abs(values[cluster, one] - values[cluster, other])
        outdone = gaps > of_words * lacks(rows[cluster, one], rows[cluster, other])
        explained[cluster[outdone], one[outdone]] = False
    return explained
