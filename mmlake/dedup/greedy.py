"""Who follows whom before survivors are elected: the first half of a join as arrays.

It ends in a `Led`, which depends on the order of units, their keys and the matcher's verdicts alone; the second half
(mmlake/dedup/stars/leaders.py) goes on from it. Three make one: `leaders.Walk`, which is the reference; a matcher that
walks by itself (`Walked`), for one that is compiled; and `kept.join`, from the one of an earlier set of units.

How it comes about:
1. Units with equal prints (equal rows of `equal`, but for zeros): the first of them in survivor order takes each other
   one that `compare(first, others)` calls SAME or HOLDS. The others of them are led as if their prints were unlike.
2. All that follow nobody are gone through in survivor order. Candidates of a unit are the leaders so far that share at
   least `min_shared` of its keys, where a key counts for the first `postings.MOST_PER_KEY` leaders that have it, and
   all leaders among its `neighbours`. The `MOST_LEADERS` with the most keys in common (neighbours before all, then the
   better placed) are compared with it by `compare(unit, them)`, in survivor order. Of those that are SAME or INSIDE,
   and whose score is at most `AS_ALIKE` below the best one of these, the best placed takes the unit; else it leads.
3. Where a unit that took others in step 1 goes, its leader takes those that `compare(leader, them)` calls SAME or
   HOLDS; the rest is released: it neither leads nor follows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions

MOST_LEADERS = 16  # that one unit is compared with
_MOST_SHARED = np.iinfo(np.int32).max  # what is a neighbour shares more keys than any
AS_ALIKE = 0.1  # of the score: of leaders this much alike the best placed one takes a unit


@dataclass(frozen=True, slots=True)
class Edge:
    """What was found between a unit and the leader that it was compared with."""

    relation: int
    score: float
    method: int
    spans_s: tuple[float, ...] | None  # start and end in the leader, then in the unit


class Edges(NamedTuple):
    """Pairs of units and what was found between them: arrays with a row per pair."""

    left: Positions
    right: Positions
    relation: NDArray[np.int8]  # of right to left
    score: NDArray[np.float64]
    method: NDArray[np.int8]
    # start and end in left, start and end in right, of shape (pairs, 4), NaN where whole meets whole; None: all of them
    spans_s: NDArray[np.float32] | None = None
    detail: NDArray[np.float64] | None = None  # as `matching.Found` has it; of comparisons that are kept alone

    def take(self, rows: Positions | NDArray[np.bool_]) -> Edges:
        """These rows, in this order."""
        spans = None if self.spans_s is None else self.spans_s[rows]
        detail = None if self.detail is None else self.detail[rows]
        return Edges(
            self.left[rows], self.right[rows], self.relation[rows], self.score[rows], self.method[rows], spans, detail
        )

    def each(self) -> Iterator[tuple[int, int, Edge]]:
        """(left, right, what was found) of each row."""
        columns = (column.tolist() for column in self[:5] if column is not None)
        for left, right, relation, score, method, span_s in zip(*columns, self.spans(), strict=True):
            yield left, right, Edge(relation, score, method, span_s)

    def spans(self) -> list[tuple[float, ...] | None]:
        """The spans of each row; None where whole meets whole."""
        if self.spans_s is None:
            return [None] * len(self.left)
        return [None if row[0] != row[0] else tuple(row) for row in self.spans_s.tolist()]


class EdgeRows:
    """Edges while they are found, in 26 bytes each and 24 more for those with spans."""

    def __init__(self) -> None:
        self._pairs, self._kinds, self._scores = array("q"), array("b"), array("d")
        self._span_rows, self._spans_s = array("q"), array("f")

    def add(self, left: int, right: int, edge: Edge) -> None:
        """One more row."""
        if edge.spans_s is not None:
            self._span_rows.append(len(self._scores))
            self._spans_s.extend(edge.spans_s)
        self._pairs.extend((left, right))
        self._kinds.extend((edge.relation, edge.method))
        self._scores.append(edge.score)

    def add_all(self, edges: Edges) -> None:
        """More rows."""
        if edges.spans_s is not None:
            rows = np.flatnonzero(~np.isnan(edges.spans_s[:, 0]))
            self._span_rows.frombytes((rows + len(self._scores)).astype(np.int64).tobytes())
            self._spans_s.frombytes(edges.spans_s[rows].astype(np.float32).tobytes())
        self._pairs.frombytes(np.stack((edges.left, edges.right), axis=1).astype(np.int64).tobytes())
        self._kinds.frombytes(np.stack((edges.relation, edges.method), axis=1).astype(np.int8).tobytes())
        self._scores.frombytes(edges.score.astype(np.float64).tobytes())

    def edges(self) -> Edges:
        """All rows so far."""
        pairs, kinds = np.array(self._pairs, np.int64).reshape(-1, 2), np.array(self._kinds, np.int8).reshape(-1, 2)
        spans = None
        if self._span_rows:
            spans = np.full((len(pairs), 4), np.nan, np.float32)
            spans[np.array(self._span_rows)] = np.array(self._spans_s, np.float32).reshape(-1, 4)
        return Edges(pairs[:, 0], pairs[:, 1], kinds[:, 0], np.array(self._scores, np.float64), kinds[:, 1], spans)

    def latest(self, num: int) -> Edges:
        """Of each pair the row that was added last; sorted. num: units are below it."""
        edges = self.edges()
        codes = edges.left * num + edges.right
        rows = np.argsort(codes, kind="stable")
        return edges.take(rows[np.diff(codes[rows], append=-1) != 0])


def edges_of(rows: Iterable[tuple[int, int, Edge]]) -> Edges:
    """Rows as arrays, in their order."""
    found = EdgeRows()
    for row in rows:
        found.add(*row)
    return found.edges()


class Candidates(NamedTuple):
    """What each unit that was gone through in step 2 was compared with; arrays with a row per unit."""

    units: NDArray[np.int32]  # of shape (units, MOST_LEADERS): leaders, in no order that counts; -1: there was room
    last: NDArray[np.int32]  # the one that another leader would have to be placed before; -1: there was room
    shared: NDArray[np.int32]  # how many keys that one shares with the unit; 0: there was room

    @classmethod
    def none(cls, num: int, most: int = MOST_LEADERS) -> Candidates:
        """Of so many units that were compared with nobody."""
        nobody = np.full((num, most), -1, np.int32)
        return cls(nobody, np.full(num, -1, np.int32), np.zeros(num, np.int32))

    def note(self, one: int, found: Positions, shared: Positions) -> None:
        """The candidates of a unit, the one to be placed before last."""
        self.units[one] = -1
        self.units[one, : len(found)] = found
        is_full = len(found) == self.units.shape[1]
        self.last[one], self.shared[one] = (found[-1], min(shared[-1], _MOST_SHARED)) if is_full else (-1, 0)

    def note_all(self, ones: Positions, found_NM: Positions, shared: Positions) -> None:
        """The same of many units, -1 where there is room. shared: with the last one of each, 0 where there is none."""
        self.units[ones], self.last[ones] = found_NM, found_NM[:, -1]
        self.shared[ones] = np.minimum(shared, _MOST_SHARED)


@dataclass(frozen=True, slots=True)
class Led:
    """Who follows whom; the order of rows does not count. What is neither to the right of `follows` nor released
    leads, and is listed under its keys."""

    # left: the leader, right: who follows it, once. SAME, or INSIDE where right lies inside left
    follows: Edges
    # left: a unit that holds (HOLDS) one of the leaders that it was compared with, right: that leader. INSIDE
    held: Edges
    # left: the leader, right: a unit that was compared with it and shares a part with it. OVERLAPS
    overlaps: Edges
    # left: of the leaders that right was compared with and that are apart (NONE) from it, the one with the highest
    # score, the best placed of several; none where that score is 0. NONE
    misses: Edges
    # lost the leader that they had equal prints with, and its leader does not take them
    released: Positions
    head_of: Positions  # of shape (units,): who took the unit in step 1; -1 for nobody
    candidates: Candidates | None = None  # where a join is kept


class Outcome(NamedTuple):
    """What a whole join comes to; the order of rows does not count."""

    follows: Edges  # left: the survivor, right: who goes for it, once. SAME, or INSIDE where right lies inside left
    overlaps: Edges  # left: the better placed, right: another that shares a part with it. OVERLAPS
    misses: Edges  # left: a leader that right was compared with and is apart from. NONE


@runtime_checkable
class Walked(Protocol):
    """A matcher that may go through its units by itself."""

    def walked(
        self, order: Positions, *, equal: NDArray[np.uint64], postings: Postings, items: Positions | None = None
    ) -> Led | None:
        """What `leaders.Walk` would find; None where it is asked to do it.

        order: all positions in survivor order. equal: of shape (units, 2). postings: of the keys, nobody listed; those
        that lead are, afterwards. items: for each unit a number that stands
        for its item, where `matching.OfItems` judges spans of one item; None where no two units are of one item.
        Survivor order alone decides who may take whom: `Standing.allows` whatever stands before another to take it.
        """
