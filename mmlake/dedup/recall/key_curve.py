"""What fewer keys would find and what they would cost: the curve of recall against candidates that a version keeps.

Enters: the keys of sampled units that have a duplicate, with the one that each goes for, and of others. Leaves: for
several shares of all keys, drawn by their values, how many of the pairs still have enough of them in common, and how
many of the others do. The memory of a join by keys goes with the share, its time with what is compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, Ragged
from mmlake.dedup.recall.estimates import OF
from mmlake.dedup.splitmix import mix64

SHARES = (1, 2, 4, 8, OF)  # sixteenths of all keys
_BITS = 22  # of a filter of the keys that are sought
_UNITS_AT_ONCE = 1_024


def key_curve(
    sampled: Ragged,
    goes_for: Ragged,
    is_found: NDArray[np.bool_],
    others: Ragged,
    is_among: NDArray[np.bool_],
    *,
    min_shared: int,
) -> dict[int, tuple[int, int]]:
    """Sixteenths of the keys -> (of these units, how many share enough of those keys with the one that they go for; how
    many of the others share enough of them with a unit, all units together).

    sampled, goes_for: a row of keys for each unit; where `is_found` says so, that of a duplicate. others: those that
    the units are candidates of. is_among: which of the units are of these too, and are no candidates of themselves.
    min_shared: how many keys two candidates have in common.
    """
    bounds = [np.uint64(share * 2**64 // OF - 1) for share in SHARES]
    found = _have(sampled, goes_for, np.flatnonzero(is_found), bounds, min_shared)
    compared = _candidates(sampled, others, bounds, min_shared)
    compared -= _have(sampled, sampled, np.flatnonzero(is_among), bounds, min_shared)
    return {share: (int(found[row]), int(compared[row])) for row, share in enumerate(SHARES)}


def _have(left: Ragged, right: Ragged, rows: Positions, bounds: list[np.uint64], min_shared: int) -> Positions:
    """For each bound in how many of these rows the two have so many keys below it in common."""
    num = np.zeros(len(bounds), np.int64)
    for row in rows.tolist():
        both = np.sort(mix64(np.intersect1d(left[row], right[row])))
        num += np.searchsorted(both, bounds, side="right") >= min_shared
    return num


def _candidates(sampled: Ragged, others: Ragged, bounds: list[np.uint64], min_shared: int) -> Positions:
    """For each bound how many pairs of a sampled unit and another have so many keys below it in common."""
    from scipy.sparse import csr_matrix

    num = np.zeros(len(bounds), np.int64)
    known, column = np.unique(mix64(sampled.values), return_inverse=True)
    owner = np.repeat(np.arange(len(sampled)), sampled.lengths)
    own = csr_matrix((np.ones(len(column), np.int32), (column, owner)), (len(known), len(sampled)))
    is_sought, shift = np.zeros(1 << _BITS, np.bool_), np.uint64(64 - _BITS)
    is_sought[known >> shift] = True
    for low in range(0, len(others), _UNITS_AT_ONCE):
        rows = others.take(np.arange(low, min(low + _UNITS_AT_ONCE, len(others))))
        values = mix64(rows.values)
        at = np.flatnonzero(is_sought[values >> shift])
        place = np.minimum(np.searchsorted(known, values[at]), len(known) - 1)
        at, place = at[is_known := known[place] == values[at]], place[is_known]
        for row, bound in enumerate(bounds):
            few = known[place] <= bound
            begins = np.searchsorted(at[few], rows.offsets)
            held = csr_matrix((np.ones(few.sum(), np.int32), place[few], begins), (len(rows), len(known)))
            num[row] += int(((held @ own).data >= min_shared).sum())
    return num
