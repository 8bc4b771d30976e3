"""Who follows a unit, and what was found between the two: arrays with a row per unit, so that a million copies take no
object each."""

from __future__ import annotations

import numpy as np

from mmlake.dedup.greedy import Edge, Edges
from mmlake.dedup.prints import Positions
from mmlake.engine import current

_NOBODY = -1


class Followers:
    """Lists of followers, each linked from one to the next; in no order that counts."""

    def __init__(self, num: int) -> None:
        """num: of units, which nobody follows yet."""
        scratch = current()
        self._first, self._next = (scratch.full(num, _NOBODY, np.int64) for _ in range(2))
        self._relation, self._method = (scratch.zeros(num, np.int8) for _ in range(2))
        self._score = scratch.zeros(num, np.float64)
        self._spans_s: dict[int, tuple[float, ...]] = {}

    def add(self, leader: int, one: int, edge: Edge) -> None:
        """The one, which follows nobody, follows the leader."""
        self._next[one], self._first[leader] = self._first[leader], one
        self._relation[one], self._score[one], self._method[one] = edge.relation, edge.score, edge.method
        if edge.spans_s is not None:
            self._spans_s[one] = edge.spans_s
        else:
            self._spans_s.pop(one, None)

    def add_all(self, edges: Edges) -> None:
        """Each to the right of an edge, once, follows the one to its left; nobody followed these before."""
        order = np.argsort(edges.left, kind="stable")
        left, right = edges.left[order], edges.right[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = left[1:] != left[:-1]
        self._first[left[is_first]] = right[is_first]
        self._next[right[:-1]] = np.where(is_first[1:], _NOBODY, right[1:])
        self._next[right[-1:]] = _NOBODY
        self._relation[edges.right] = edges.relation
        self._score[edges.right] = edges.score
        self._method[edges.right] = edges.method
        if edges.spans_s is not None:
            spans = zip(edges.right.tolist(), edges.spans(), strict=True)
            self._spans_s |= {one: span for one, span in spans if span is not None}

    def of(self, leader: int) -> list[int]:
        """Who follows it."""
        found, one = [], int(self._first[leader])
        while one != _NOBODY:
            found.append(one)
            one = int(self._next[one])
        return found

    def pop(self, leader: int) -> list[int]:
        """Who follows it; nobody any more."""
        found = self.of(leader)
        self._first[leader] = _NOBODY
        return found

    def leave(self, leaders: Positions) -> None:
        """Nobody follows these any more."""
        self._first[leaders] = _NOBODY

    def keep(self, leader: int, members: list[int]) -> None:
        """Of those that follow it, these alone follow it any more."""
        self._first[leader] = _NOBODY
        for one in members:
            self._next[one], self._first[leader] = self._first[leader], one

    def edge(self, one: int) -> Edge:
        """What was found between it and the one that it follows."""
        return Edge(int(self._relation[one]), float(self._score[one]), int(self._method[one]), self._spans_s.get(one))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._first != _NOBODY))

    def leaders(self) -> Positions:
        """Whom somebody follows."""
        return np.flatnonzero(self._first != _NOBODY)

    def edges(self, leader_of: Positions) -> Edges:
        """Of all that follow. leader_of: of each unit; -1 for nobody."""
        right = np.flatnonzero(leader_of != _NOBODY)
        spans = None
        if self._spans_s:
            whole = (np.nan,) * 4
            spans = np.array([self._spans_s.get(one, whole) for one in right.tolist()], np.float32).reshape(-1, 4)
        return Edges(leader_of[right], right, self._relation[right], self._score[right], self._method[right], spans)
