"""Who holds a key: an inverted index with capped lists, so that a key that everybody has costs no more than one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import key_kernels
from mmlake.dedup.prints import Positions, Ragged

MOST_PER_KEY = 64  # units listed under one key; the first ones, which are the best placed
_BLOCK = 1 << 20


class Postings:
    """key -> units, of those that were added. Keys that one unit alone holds take no memory."""

    def __init__(self, keys: Ragged) -> None:
        kernels = key_kernels.compiled(len(keys.values))
        if kernels is None:
            shared, ids, lengths = _numbered(keys)
        else:
            shared, ids, lengths = key_kernels.numbered(kernels, keys.values, keys.offsets)
        self.shared = shared
        self._ids, self._offsets = ids, np.concatenate(([0], np.cumsum(lengths)))
        held = np.bincount(ids, minlength=len(shared))
        self._starts = np.concatenate(([0], np.cumsum(np.minimum(held, MOST_PER_KEY))))
        self._slots = np.empty(int(self._starts[-1]), np.int64)
        self._counts = np.zeros(len(shared), np.int16)

    @property
    def lengths(self) -> Positions:
        """How many of its keys each unit shares with another."""
        return np.diff(self._offsets)

    def numbers(self, one: int) -> Positions:
        """The rows of `shared` that are keys of the unit."""
        numbers: Positions = self._ids[self._offsets[one] : self._offsets[one + 1]]
        return numbers

    def holders(self, order: Positions) -> tuple[Positions, Positions]:
        """(the units that hold each of the `shared` keys, in this order, key by key; where each key's begin)."""
        lengths = self.lengths[order]
        begins = np.concatenate(([0], np.cumsum(lengths)))
        ids = self._ids[np.arange(begins[-1]) + np.repeat(self._offsets[order] - begins[:-1], lengths)]
        held = np.concatenate(([0], np.cumsum(np.bincount(ids, minlength=len(self._counts)))))
        return np.repeat(order, lengths)[np.argsort(ids, kind="stable")], held

    def sharing(self, one: int) -> tuple[Positions, Positions]:
        """(the units listed under the keys of this one, sorted; how many of the keys each of them has)."""
        ids = self._ids[self._offsets[one] : self._offsets[one + 1]]
        ids = ids[self._counts[ids] > 0]
        if not len(ids):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        lists = [
            self._slots[start : start + count]
            for start, count in zip(self._starts[ids].tolist(), self._counts[ids].tolist(), strict=True)
        ]
        return np.unique(np.concatenate(lists), return_counts=True)

    def add(self, one: int) -> None:
        """List the unit under its keys, where a list has room."""
        ids = self._ids[self._offsets[one] : self._offsets[one + 1]]
        free = ids[self._counts[ids] < self._starts[ids + 1] - self._starts[ids]]
        self._slots[self._starts[free] + self._counts[free]] = one
        self._counts[free] += 1

    def add_all(self, units: Positions) -> None:
        """List these units, in their order; nobody may be listed yet."""
        units, begins = self.holders(units)
        held = np.diff(begins)
        nth = np.arange(len(units)) - np.repeat(begins[:-1], held)
        listed = np.flatnonzero(nth < MOST_PER_KEY)
        ids = np.repeat(np.arange(len(held)), held)[listed]
        self._slots[self._starts[ids] + nth[listed]] = units[listed]
        self._counts[:] = np.minimum(held, MOST_PER_KEY)

    def replace(self, old: int, new: int) -> None:
        """List the new unit under its keys, in the place of the old one where both have the key."""
        ids = self._ids[self._offsets[new] : self._offsets[new + 1]]
        counts, starts = self._counts[ids].astype(np.int64), self._starts[ids]
        key = np.repeat(np.arange(len(ids)), counts)
        places = np.arange(len(key)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        listed, has_new = self._slots[places], np.zeros(len(ids), np.bool_)
        has_new[key[listed == new]] = True
        is_old = (listed == old) & ~has_new[key]
        self._slots[places[is_old]] = new
        has_new[key[is_old]] = True
        free = ~has_new & (counts < self._starts[ids + 1] - starts)
        self._slots[(starts + counts)[free]] = new
        self._counts[ids[free]] += 1


def _numbered(keys: Ragged) -> tuple[NDArray[np.uint64], np.ndarray, Positions]:
    """(keys that more than one unit has, sorted; for each unit the numbers of its shared keys, one after the other; how
    many each has), a block at a time."""
    ordered = np.sort(keys.values)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    shared = again[np.r_[True, again[1:] != again[:-1]]] if len(again) else again
    del ordered, again
    parts = [np.empty(0, np.int32)]
    is_shared = np.zeros(len(keys.values), np.bool_)
    for low in range(0, len(keys.values) if len(shared) else 0, _BLOCK):
        block = keys.values[low : low + _BLOCK]
        at = np.searchsorted(shared, block)
        at[at == len(shared)] = 0
        hit = shared[at] == block
        is_shared[low : low + _BLOCK] = hit
        parts.append(at[hit].astype(np.int32))
    sums = np.concatenate(([0], np.cumsum(is_shared, dtype=np.int64)))
    return shared, np.concatenate(parts), sums[keys.offsets[1:]] - sums[keys.offsets[:-1]]
