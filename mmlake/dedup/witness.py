"""A second witness for semantic pairs of text: how much wording they share.

A sentence encoder puts pages of one template ("create a gateway", "delete a gateway") as close together as it puts
paraphrases: .88 to .97 for both on command references. They differ in wording: paraphrases share almost no 5-grams,
siblings of a template share many of them, and texts that share most of them are near duplicates already. So a semantic
pair that shares more than a little is a pair of siblings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, PrintTable
from mmlake.dedup.settings import DedupSettings


def template_veto(
    prints: PrintTable, *, settings: DedupSettings
) -> Callable[[Positions, Positions], NDArray[np.bool_]]:
    """Which pairs, given as two arrays of positions, are kept apart: those whose smaller 5-gram set is shared by more
    than `settings.semantic_shared_fraction`. Units without shingles are never kept apart.

    prints: of the units; only the method `shingles` is read.
    """
    shingles = prints["shingles"]

    def is_apart(left: Positions, right: Positions) -> NDArray[np.bool_]:
        shared = [_shared(shingles[i], shingles[j]) for i, j in zip(left.tolist(), right.tolist(), strict=True)]
        return np.array(shared, np.float64) > settings.semantic_shared_fraction

    return is_apart


def _shared(left: np.ndarray, right: np.ndarray) -> float:
    """Share of the smaller set that is in the larger one, 0..1; 0 where one is empty. Both are sorted and distinct."""
    if not len(left) or not len(right):
        return 0.0
    return len(np.intersect1d(left, right, assume_unique=True)) / min(len(left), len(right))
