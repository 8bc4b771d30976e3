"""What was found of pairs of texts whose verdict depends on how many texts hold a shingle: no such pair is compared
twice, and the next join knows which verdicts to check again.

All that a verdict takes from these counts is a wording (`text.verdicts.wording_of`). Which wording it is follows from
which shingles `COMMON` texts hold; only of a site's wording, and where `text.verdicts.siblings` finds as many as a
template has, the counts beyond that decide as well. So a wording is kept with a mark that says which of both it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import Found
from mmlake.dedup.prints import Positions
from mmlake.dedup.text.verdicts import BY_COUNTS, WORDING
from mmlake.engine import current

_PER_TEXT = 24  # pairs kept, in the mean
_LEAST_SLOTS = 1 << 10
_WORDING: Final = np.int8(WORDING)
_BY_COUNTS: Final = np.int8(BY_COUNTS)  # every count of a shingle decides, not only whether `COMMON` texts hold it


class Pairs(NamedTuple):
    """Columns with a row per pair."""

    left: NDArray[np.int32]  # the smaller position
    right: NDArray[np.int32]
    code: NDArray[np.int8]  # wording, and whether every count decides
    relation: NDArray[np.int8]  # of left to right
    method: NDArray[np.int8]
    score: NDArray[np.float64]

    @classmethod
    def zeros(cls, num: int) -> Pairs:
        """Room for so many; what is not used of it takes neither memory nor disk."""
        return cls(*(current().zeros(num, kind) for kind in _KINDS))

    def take(self, rows: Positions | NDArray[np.bool_]) -> Pairs:
        """These rows, in this order."""
        return Pairs(*(column[rows] for column in self._columns()))

    def moved(self, at: Positions) -> Pairs:
        """Of texts that stand elsewhere, in an order that stays."""
        return self._replace(left=at[self.left].astype(np.int32), right=at[self.right].astype(np.int32))

    def and_those(self, others: Pairs) -> Pairs:
        """The rows of both."""
        columns = zip(self._columns(), others._columns(), strict=True)
        return Pairs(*(np.concatenate(both) for both in columns))

    def fill(self, begin: int, others: Pairs) -> None:
        """Rows from this one on are the others'."""
        for column, values in zip(self._columns(), others._columns(), strict=True):
            column[begin : begin + len(values)] = values

    def distinct(self, num: int) -> Pairs:
        """Each pair once, sorted. num: positions are below it."""
        codes = self.left.astype(np.int64) * num + self.right
        rows = np.argsort(codes, kind="stable")
        return self.take(rows[np.diff(codes[rows], prepend=-1) != 0])

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return tuple(self)


_KINDS = (np.int32, np.int32, np.int8, np.int8, np.int8, np.float64)


def are_by_counts(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Of which of these every count decides."""
    found: NDArray[np.bool_] = (codes & _BY_COUNTS) != 0
    return found


def wordings(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """The wordings that they say."""
    return codes & _WORDING


class KnownPairs:
    """The pairs of a join, while it finds them."""

    def __init__(self, num: int, known: Pairs | None = None) -> None:
        """num: of texts. known: from the join before, and still right."""
        known = Pairs.zeros(0) if known is None else known
        num_known = len(known.left)
        self.rows = Pairs.zeros(num_known + _PER_TEXT * (num + 1))
        self.rows.fill(0, known)
        self.ends = np.array([num_known, 0])  # how many there are; how many of them `slots` lists
        # compiled code finds a pair by them: row + 1 at a place that follows from it, or behind that
        self.slots = current().zeros(max(_LEAST_SLOTS, 1 << (4 * num + 2 * num_known).bit_length()), np.int32)
        self.is_beyond = np.zeros(num, np.bool_)  # texts with a pair for which there was no room

    def add(self, one: int, others: Positions, codes: NDArray[np.int8], found: Found) -> None:
        """What this text is to others, as far as there is room."""
        low = int(self.ends[0])
        fits = np.arange(len(others)) < len(self.rows.left) - low
        relation = np.where(one < others, found.relation, found.mirrored().relation)
        sides = np.minimum(one, others).astype(np.int32), np.maximum(one, others).astype(np.int32)
        self.rows.fill(low, Pairs(*sides, codes, relation, found.method, found.score).take(fits))
        self.ends[0] += fits.sum()
        self.is_beyond[others[~fits]] = True
        self.is_beyond[one] |= not fits.all()

    def pairs(self) -> Pairs:
        """Each pair once."""
        return self.rows.take(np.arange(self.ends[0])).distinct(len(self.is_beyond))
