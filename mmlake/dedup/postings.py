"""Who holds a key: an inverted index with capped lists, so that a key that everybody has costs no more than one."""

from __future__ import annotations

import functools

import numpy as np

from mmlake.dedup.loops import key_kernels
from mmlake.dedup.numbering import Index, numbered, renumbered
from mmlake.dedup.prints import Positions, Ragged, blocks_of
from mmlake.engine import cumulated, current

MOST_PER_KEY = 64  # units listed under one key; the first ones, which are the best placed
_BLOCK = 1 << 20  # keys of units that are listed at once


class Postings:
    """key -> units, of those that were added. Keys that one unit alone holds take no memory."""

    def __init__(self, keys: Ragged, before: tuple[Index, Positions] | None = None) -> None:
        """before: an earlier index, and of each unit the row that it had there with the same keys, -1 for none."""
        found = numbered(keys, current()) if before is None else renumbered(keys, *before, current())
        self.shared, self._offsets = found.shared, found.offsets
        self._ids: np.ndarray = found.ids
        np.minimum(found.holders, MOST_PER_KEY, out=found.holders)
        self._starts = cumulated(found.holders, current())
        self._slots = current().zeros(int(self._starts[-1]), np.int64)
        self._counts = current().zeros(len(found.shared), np.int16)

    @property
    def lengths(self) -> Positions:
        """How many of its keys each unit shares with another."""
        return np.diff(self._offsets)

    @property
    def index(self) -> Index:
        """What the next one may go on from."""
        return Index(self.shared, self._ids, self._offsets)

    def numbers(self, one: int) -> Positions:
        """The rows of `shared` that are keys of the unit."""
        numbers: Positions = self._ids[self._offsets[one] : self._offsets[one + 1]]
        return numbers

    def numbers_of(self, units: Positions) -> tuple[np.ndarray, Positions]:
        """(the same of many units, one after the other; where those of each begin)."""
        lengths = self._offsets[units + 1] - self._offsets[units]
        begins = np.concatenate(([0], np.cumsum(lengths)))
        return self._ids[np.arange(begins[-1]) + np.repeat(self._offsets[units] - begins[:-1], lengths)], begins

    @functools.cached_property
    def part_of(self) -> Positions:
        """For each unit the first one of those that it is tied to by keys, directly or through others."""
        return key_kernels.tied(self._ids, self._offsets, len(self.shared))

    @property
    def is_tied_fast(self) -> bool:
        """Whether there is compiled code that finds out who is tied to whom."""
        return key_kernels.compiled(len(self._ids)) is not None

    def num_tied(self) -> Positions:
        """How many units that is with each, itself included; 0 where there is no compiled code to find it out."""
        if not self.is_tied_fast:
            return np.zeros(len(self._offsets) - 1, np.int64)
        num: Positions = np.bincount(self.part_of)[self.part_of]
        return num

    def holders(self, order: Positions) -> tuple[Positions, Positions]:
        """(the units that hold each of the `shared` keys, in this order of all, key by key; where each key's begin)."""
        kernels = key_kernels.compiled(len(self._ids))
        if kernels is not None:
            lengths = np.bincount(self._ids, minlength=len(self._counts))
            held, found = np.concatenate(([0], np.cumsum(lengths))), np.empty(len(self._ids), np.int64)
            kernels.listed(self._ids, self._offsets, order, held, np.zeros(len(lengths), np.int32), found)
            return found, held
        ids, begins = self.numbers_of(order)
        held = np.concatenate(([0], np.cumsum(np.bincount(ids, minlength=len(self._counts)))))
        return np.repeat(order, np.diff(begins))[np.argsort(ids, kind="stable")], held

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
        """List these units, in their order, where a list has room."""
        kernels = key_kernels.compiled(len(self._ids))
        if kernels is not None:
            counts = self._counts.astype(np.int32)
            kernels.listed(self._ids, self._offsets, units, self._starts, counts, self._slots)
            self._counts[:] = counts
            return
        ends = np.cumsum(self._offsets[units + 1] - self._offsets[units])
        for low, high in blocks_of(ends, _BLOCK):
            self._add_some(units[low:high])

    def _add_some(self, units: Positions) -> None:
        ids, begins = self.numbers_of(units)
        order = np.argsort(ids, kind="stable")
        ids, units = ids[order], np.repeat(units, np.diff(begins))[order]
        is_first = np.ones(len(ids), np.bool_)
        is_first[1:] = ids[1:] != ids[:-1]
        firsts = np.flatnonzero(is_first)
        held = np.diff(np.append(firsts, len(ids)))
        nth = np.arange(len(ids)) - np.repeat(firsts, held) + self._counts[ids]
        listed = nth < MOST_PER_KEY
        self._slots[self._starts[ids[listed]] + nth[listed]] = units[listed]
        self._counts[ids[firsts]] = np.minimum(self._counts[ids[firsts]] + held, MOST_PER_KEY)

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
