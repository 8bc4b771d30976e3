"""What units come to among their candidates, many units at once: arrays in place of a call for each unit.

Enters: pairs of a unit and a candidate, and what was found between them. Leaves: whom each unit follows, and the rows
of a `Led`. It says what `leaders.Walk` says of one unit after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import AS_ALIKE, Edges
from mmlake.dedup.matching import HOLDS, INSIDE, MOST_OVERLAPS, NONE, OVERLAPS, SAME, Found
from mmlake.dedup.prints import Positions


class Judged(NamedTuple):
    """Units against their candidates. The rows of a unit stand together, its candidates in survivor order."""

    ones: Positions
    others: Positions
    found: Found  # what each of the ones is to the other of its row

    def takers(self) -> Positions:
        """The rows of those that take a unit, one at most for each: see `matching.Found.best`."""
        takes = (self.found.relation == SAME) | (self.found.relation == INSIDE)
        best = self._highest(np.where(takes, self.found.score, -np.inf))
        return self._firsts(takes & (self.found.score >= best - AS_ALIKE))

    def follows(self) -> Edges:
        """From those that take a unit to the unit."""
        return self._edges(self.takers())

    def misses(self) -> Edges:
        """From the closest one that a unit has nothing to do with, where it is like it at all, to the unit."""
        scores = np.where(self.found.relation == NONE, self.found.score, 0.0)
        return self._edges(self._firsts((scores > 0) & (scores == self._highest(scores))))

    def overlaps(self) -> Edges:
        """From those that share a part with a unit, the most alike of them, to the unit."""
        rows = np.flatnonzero(self.found.relation == OVERLAPS)
        rows = rows[np.lexsort((rows, -self.found.score[rows], self._unit[rows]))]
        unit = self._unit[rows]
        nth = np.arange(len(rows)) - np.searchsorted(unit, unit)
        return self._edges(rows[nth < MOST_OVERLAPS])

    def held(self) -> Edges:
        """From units to the candidates that they hold."""
        rows = np.flatnonzero(self.found.relation == HOLDS)
        return _edges_of(self.ones[rows], self.others[rows], self.found.at(rows))

    @property
    def _unit(self) -> Positions:
        """How many units stand before that of each row."""
        return np.cumsum(self._is_first) - 1

    @property
    def _is_first(self) -> NDArray[np.bool_]:
        is_first = np.ones(len(self.ones), np.bool_)
        is_first[1:] = self.ones[1:] != self.ones[:-1]
        return is_first

    def _highest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each row the highest score of its unit."""
        begins = np.flatnonzero(self._is_first)
        highest = np.maximum.reduceat(scores, begins) if len(begins) else scores
        return np.repeat(highest, np.diff(begins, append=len(scores)))

    def _firsts(self, chosen: NDArray[np.bool_]) -> Positions:
        """The first of the chosen rows of each unit that has some."""
        rows = np.flatnonzero(chosen)
        firsts: Positions = rows[np.diff(self._unit[rows], prepend=-1) != 0]
        return firsts

    def _edges(self, rows: Positions) -> Edges:
        """From the others to the ones."""
        return _edges_of(self.others[rows], self.ones[rows], self.found.at(rows).mirrored())


def _edges_of(left: Positions, right: Positions, found: Found) -> Edges:
    """As `Found.edge` makes each of them."""
    relation = np.where(found.relation == HOLDS, INSIDE, found.relation).astype(np.int8)
    spans = found.spans_s
    if spans is not None:
        spans = np.where(np.isnan(spans).any(axis=1, keepdims=True), np.float32(np.nan), spans)
    return Edges(left, right, relation, found.score, found.method, spans)
