"""A bound on how many shingles two texts share, from 2,048 bits of each: most candidates share next to nothing, and to
find that out their shingles are not read. The loops are compiled with those of the walk (`text.walk_kernels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmlake.dedup.text.walk_arrays import FILTER_BITS, FILTER_NUMBERS


def _filters(values: Any, starts: Any, bits: Any, spare: Any) -> None:  # pragma: no cover: compiled
    """Sets a bit for each shingle of each text. bits, spare: zeros."""
    for row in range(starts.shape[0] - 1):
        for at in range(starts[row], starts[row + 1]):
            slot = values[at] & np.uint64(FILTER_BITS - 1)
            place, bit = FILTER_NUMBERS * row + np.int64(slot >> np.uint64(6)), np.uint64(1) << (slot & np.uint64(63))
            if bits[place] & bit:
                spare[row] += 1
            bits[place] |= bit


def _most_shared(texts: Any, one: Any, other: Any) -> Any:  # pragma: no cover: compiled
    """How many shingles two texts have in common at most: bits that both set, and what shares a bit within a text."""
    pairs, fours, eights = (
        np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F),
    )  # fmt: skip
    num = np.uint64(0)
    for at in range(FILTER_NUMBERS):
        both = texts.bits[FILTER_NUMBERS * one + at] & texts.bits[FILTER_NUMBERS * other + at]
        both -= (both >> np.uint64(1)) & pairs
        both = (both & fours) + ((both >> np.uint64(2)) & fours)
        both = (both + (both >> np.uint64(4))) & eights
        num += (both * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return np.int64(num) + min(texts.spare[one], texts.spare[other])
