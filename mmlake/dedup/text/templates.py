"""Whether two texts share wording because they are pages of one template.

What the pages of a template share, many of them share; what sets two of them apart, nobody else has. Copies of one
text are the other way round: either the two share wording that few others have, or what one lacks the other copies
still have. So the evidence is the number of texts that hold a shingle, counted once over the corpus: linear, and a
veto needs at least `MIN_SIBLINGS` of them.
"""

from __future__ import annotations

import copy
import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.loops import key_kernels, text_kernels
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions, Ragged
from mmlake.dedup.text import walk_kernels
from mmlake.dedup.text.pairs import wordings
from mmlake.dedup.text.verdicts import COMMON, MIN_SIBLINGS, code_of
from mmlake.engine import current

U64 = NDArray[np.uint64]

_SAMPLES_PER_TEXT = 64  # shingles counted of a text of mean length, 45 to 91 of it: evidence within .07
_PAIR_WORK = 200  # of one pair, in the unit of `text_kernels`
_SLOTS = 1 << 20  # of a table at once
_MOST = 255  # of texts counted for one shingle
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_MIN_SHARED_KEYS = 1
_COPY_FRACTION = 0.8  # of the keys of the longer text


class Siblings:
    """How many texts share a good part of their wording with a text, without being copies of it."""

    def __init__(self, keys: Ragged, *, fraction: float) -> None:
        """keys: of each text. fraction: of the keys of the text that has fewer, above which it is a sibling."""
        self._keys, self._fraction = keys, fraction
        self._postings = Postings(keys)
        self._postings.add_all(np.arange(len(keys)))
        self._known: dict[int, bool] = {}

    def are_many(self, one: int) -> bool:
        """Whether the text has more siblings than a few; a list of texts under one key is capped, so that the answer
        costs the same in a corpus of any size."""
        if one not in self._known:
            found, shared = self._postings.sharing(one)
            least = np.maximum(_MIN_SHARED_KEYS, self._fraction * np.minimum(self._size(one), self._size(found)))
            is_copy = shared >= _COPY_FRACTION * np.maximum(self._size(one), self._size(found))
            self._known[one] = int(((shared > least) & ~is_copy & (found != one)).sum()) > MIN_SIBLINGS
        return self._known[one]

    def _size(self, texts: int | NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.asarray(texts, np.int64)
        sizes: NDArray[np.int64] = self._keys.offsets[at + 1] - self._keys.offsets[at]
        return sizes


class Scale(NamedTuple):
    """What is counted, and in how many slots; of texts with about as many shingles it is one."""

    below: int  # the largest shingle that is counted
    shift: int  # of what a slot follows from

    @classmethod
    def of(cls, rows: Ragged) -> Scale:
        """Of these texts. It depends on the mean number of their shingles in powers of two, so that a few more texts
        seldom change it."""
        num = len(rows.values)
        halvings = max(0, round(math.log2(max(1.0, num / max(1, len(rows)) / _SAMPLES_PER_TEXT))))
        return cls((2**64 - 1) >> halvings, 64 - max(8, (2 * num >> halvings).bit_length()))


class Commonness:
    """How many texts of a corpus hold a shingle, for a sample of the shingles; counts may be one or two too high."""

    def __init__(self, rows: Ragged) -> None:
        """rows: the shingles of each text, distinct."""
        self._rows, self.scale, shingles = rows, Scale.of(rows), rows.values
        self.below, self.shift = np.uint64(self.scale.below), self.scale.shift
        self.table = current().zeros(1 << (64 - self.shift), np.uint8)
        kernels = key_kernels.compiled(len(shingles))
        if kernels is not None:
            key_kernels.counted(kernels, shingles, rows.offsets, self.scale.below, self.table)
            return
        for at in range(0, len(shingles), 1 << 20):
            block = shingles[at : at + (1 << 20)]
            slots, counts = np.unique(self._slots(block[block <= self.below]), return_counts=True)
            self.table[slots] = np.minimum(self.table[slots] + counts, _MOST)

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, rows: Ragged) -> Commonness:
        """The same counts, asked for by these of the texts."""
        one = copy.copy(self)
        one._rows = rows
        return one

    def common(self) -> NDArray[np.uint8]:
        """Of each slot whether as many texts hold its shingles as a template has, in bits."""
        found = current().zeros(len(self.table) // 8, np.uint8)
        for low in range(0, len(self.table), _SLOTS):
            part = self.table[low : low + _SLOTS]
            found[low // 8 : (low + len(part)) // 8] = np.packbits(part >= COMMON)
        return found

    def slots_of(self, texts: Positions) -> NDArray[np.uint8]:
        """Of each slot whether one of these texts has a shingle in it, in bits."""
        shingles, is_in = self._rows.take(texts).values, current().zeros(len(self.table), np.bool_)
        is_in[self._slots(shingles[shingles <= self.below])] = True
        return np.packbits(is_in)

    def holders(self, slots: NDArray[np.uint8], texts: Positions) -> NDArray[np.bool_]:
        """Which of these texts have a shingle in one of the slots. slots: in bits, as `common` has them."""
        values, offsets, found = self._rows.values, self._rows.offsets, np.zeros(len(texts), np.bool_)
        kernels = key_kernels.compiled(_SAMPLES_PER_TEXT * len(texts))
        if kernels is None:
            rows = self._rows.take(texts)
            is_in = np.unpackbits(slots)[self._slots(rows.values)] > 0
            return any_of(is_in & (rows.values <= self.below), rows.offsets)
        blocks = slots.reshape(-1, 32).any(axis=1)
        kernels.marked(values, offsets, texts, self.below, np.uint64(self.shift), slots, blocks, found)
        return found

    def _slots(self, shingles: U64) -> U64:
        return (shingles * _SPREAD) >> np.uint64(self.shift)

    def wording(self, one: int, others: Positions) -> NDArray[np.int8]:
        """What text `one` shares with each of the others, as `text.verdicts.wording_of` says."""
        return wordings(self.codes(one, others))

    def codes(self, one: int, others: Positions) -> NDArray[np.int8]:
        """The same, and by what counts it is so (`text.pairs`)."""
        fraction = int(self.below) / 2**64
        return np.array([code_of(of_pair, fraction) for of_pair in self._histograms(one, others)], np.int8)

    def codes_of_pairs(self, left: Positions, right: Positions) -> NDArray[np.int8]:
        """The same of each pair."""
        found = np.zeros(len(left), np.int8)
        kernels = walk_kernels.kernels() if text_kernels.is_worthwhile(_PAIR_WORK * len(left)) else None
        if kernels is not None:
            is_in = np.zeros(len(self._rows), np.bool_)
            is_in[left] = is_in[right] = True  # most of them are asked for several times
            texts, at, rows = np.flatnonzero(is_in), np.cumsum(is_in) - 1, self._rows
            begins = np.concatenate(([0], np.cumsum(rows.lengths[texts])))
            ends, sampled, counts = begins[1:].copy(), np.zeros(begins[-1], np.uint64), np.zeros(begins[-1], np.uint8)
            table = self.table, self.shift, self.below
            kernels.looked_up(rows.values, rows.offsets, texts, *table, begins, ends, sampled, counts)
            room = np.zeros((3, _MOST + 1), np.int64)
            kernels.judge(sampled, counts, begins, ends, self.below, at[left], at[right], found, room)
            return found
        for row, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            found[row] = self.codes(one, np.array([other]))[0]
        return found

    def _histograms(self, one: int, others: Positions) -> NDArray[np.int64]:
        """How many sampled shingles are counted so many times, for each other text: of both, of each alone."""
        counts = np.zeros((len(others), 3, _MOST + 1), np.int64)
        values, offsets = self._rows.values, self._rows.offsets
        kernels = text_kernels.compiled(int((offsets[others + 1] - offsets[others]).sum()))
        if kernels is not None:
            kernels.siblings(values, offsets, one, others, self.table, self.shift, self.below, counts)
            return counts
        left = self._sampled(one)
        for at, other in enumerate(others.tolist()):
            right = self._sampled(other)
            is_shared = np.isin(left, right, assume_unique=True)
            own = right[~np.isin(right, left, assume_unique=True)]
            for row, part in enumerate((left[is_shared], left[~is_shared], own)):
                counts[at, row] = np.bincount(self.table[self._slots(part)], minlength=_MOST + 1)
        return counts

    def _sampled(self, text: int) -> U64:
        row = self._rows[text]
        return row[row <= self.below]


def any_of(values: NDArray[np.bool_], offsets: Positions) -> NDArray[np.bool_]:
    """Of each row whether a value is true."""
    sums = np.concatenate(([0], np.cumsum(values)))
    has: NDArray[np.bool_] = sums[offsets[1:]] > sums[offsets[:-1]]
    return has
