"""Stars instead of all pairs: each unit that goes is tied to the one unit that stays for it, and to nothing else.

Units come in survivor order. Each is compared with leaders that share keys with it, and follows the best of those that
it is the same as; otherwise it leads. Then each cluster elects its survivor; every follower is verified against the
survivor, and one that does not pass is led anew. So no chain swallows what is unlike its survivor, the cost is linear
whatever the prints are (1,000 copies cost 1,000 comparisons), and the outcome depends on the set of units alone.
Source: greedy leader clustering (Hartigan 1975, ch. 3), candidates from an inverted index with capped lists.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import HOLDS, INSIDE, NONE, OVERLAPS, SAME, Found, Matcher
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions
from mmlake.dedup.survivors import Standing
from mmlake.progress import Advance, silent

_MOST_LEADERS = 16  # that one unit is compared with
_CHUNK = 64  # units compared with one other at once
_ROUNDS = 3  # in which what fails its new survivor is led anew
_MOST_MISSES = 32  # closest pairs that are not the same, kept for people to judge the bound by
_AS_ALIKE = 0.1  # of the score: of leaders this much alike the best placed one takes a unit
_ALIVE = -1


@dataclass(slots=True)
class Stars:
    """Edges from a unit that stays to one that goes, or that it shares a part with: lists of one length."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    # SAME, INSIDE (right lies inside left), OVERLAPS, or NONE: the closest of what was compared and is not the same
    relation: list[int] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    method: list[int] = field(default_factory=list)
    # start and end in left, start and end in right; None where whole meets whole
    spans_s: list[tuple[float, ...] | None] = field(default_factory=list)

    def add(self, left: int, right: int, edge: Edge, relation: int) -> None:
        """One more edge."""
        self.left.append(left)
        self.right.append(right)
        self.relation.append(relation)
        self.score.append(edge.score)
        self.method.append(edge.method)
        self.spans_s.append(edge.spans_s)


@dataclass(frozen=True, slots=True)
class Edge:
    """What was found between a unit and the leader that it was compared with."""

    relation: int
    score: float
    method: int
    spans_s: tuple[float, ...] | None  # start and end in the leader, then in the unit


def stars(
    matcher: Matcher,
    standing: Standing,
    *,
    equal: NDArray[np.uint64],
    advance: Advance = silent,
) -> Stars:
    """The edges between the matcher's units, sorted.

    equal: of shape (units, 2): units with the same row, but for zeros, have equal prints.
    """
    walk = Walk(matcher, standing)
    walk.collapse(equal)
    leading = walk.order[(walk.leader_of[walk.order] == _ALIVE) & walk.has_candidates[walk.order]]
    advance(len(walk.order) - len(leading))
    walk.lead(leading, advance=advance)
    walk.elect_all()
    walk.settle()
    return walk.edges()


class Walk:
    """Who follows whom, while it is found out."""

    def __init__(self, matcher: Matcher, standing: Standing) -> None:
        self._matcher, self._standing = matcher, standing
        num = len(standing)
        self.order = standing.order()
        self.place = np.empty(num, np.int64)
        self.place[self.order] = np.arange(num)
        self.leader_of = np.full(num, _ALIVE, np.int64)
        self._edge: dict[int, Edge] = {}  # of followers
        self._followers: dict[int, list[int]] = {}
        self._postings = Postings(matcher.keys)
        # what shares no key with anybody leads without more ado
        self.has_candidates = self._postings.lengths > 0
        if matcher.neighbours is not None:
            self.has_candidates |= matcher.neighbours.lengths > 0
        self._enlisted = ~self.has_candidates
        self._released: list[int] = []  # lost their leader, and have no other yet
        self._held: list[tuple[int, int, Edge]] = []  # (unit that holds a leader, the leader, what was found)
        self._evidence: dict[tuple[int, int], Edge] = {}  # (better placed, other) of what overlaps
        # the closest pairs that are not the same: score, places of both (the order that a heap needs), what was found
        self._misses: list[tuple[float, int, int, Edge]] = []

    def collapse(self, equal: NDArray[np.uint64]) -> None:
        """Units with equal prints follow the best placed of them, as far as the exact measure agrees."""
        says = np.flatnonzero(equal.any(axis=1))
        if not len(says):
            return
        rows = says[np.lexsort((self.place[says], equal[says, 1], equal[says, 0]))]
        begins = np.flatnonzero(np.r_[True, (equal[rows[1:]] != equal[rows[:-1]]).any(axis=1)])
        for low, high in zip(begins, np.r_[begins[1:], len(rows)], strict=True):
            if high - low > 1:
                self._take(int(rows[low]), rows[low + 1 : high])
        self._released.clear()  # they are led with all others

    def lead(self, units: Iterable[int], *, advance: Advance = silent) -> None:
        """Give each of the units, in survivor order, a leader, or make it one."""
        for one in map(int, units):
            advance(1)
            others = self._leaders_for(one)
            if not len(others) or not self._join(one, others):
                self._enlist(one)

    def elect_all(self) -> None:
        """Let each cluster elect its survivor."""
        for leader in sorted(self._followers, key=lambda one: self.place[one]):
            if leader not in self._followers:  # taken by a new survivor since
                continue
            members = np.array([leader, *self._followers[leader]], np.int64)
            winner = self._standing.elect(members, self._closeness)
            if winner != leader:
                self._crown(winner, leader)

    def settle(self) -> None:
        """Lead anew what was released, and let what holds a leader take it, until nothing moves."""
        for _ in range(_ROUNDS):
            held, self._held = self._held, []
            for holder, leader, edge in sorted(held, key=lambda one: (self.place[one[0]], self.place[one[1]])):
                self._absorb(holder, leader, edge)
            released, self._released = self._released, []
            self.lead(sorted(set(released), key=lambda one: self.place[one]))
            if not self._held and not self._released:
                return

    def edges(self) -> Stars:
        """All edges: what goes, in survivor order, then what overlaps and stays."""
        found = Stars()
        for one in sorted(self._edge, key=lambda one: self.place[one]):
            edge = self._edge[one]
            found.add(int(self.leader_of[one]), one, edge, INSIDE if edge.relation == INSIDE else SAME)
        for (left, right), edge in sorted(self._evidence.items(), key=lambda one: [self.place[at] for at in one[0]]):
            if self.leader_of[left] != right and self.leader_of[right] != left:
                found.add(left, right, edge, OVERLAPS)
        for score, left, right, edge in sorted(self._misses, reverse=True):
            if score > 0 and self.leader_of[self.order[-right]] != self.order[-left]:
                found.add(int(self.order[-left]), int(self.order[-right]), edge, NONE)
        return found

    def _leaders_for(self, one: int) -> Positions:
        """At most `_MOST_LEADERS` candidates that lead: most keys in common first, then the better placed."""
        found, shared = self._postings.sharing(one)
        near = self._matcher.neighbours
        if near is not None and len(near[one]):
            others = near[one].astype(np.int64)
            others = others[self._enlisted[others]]
            found = np.concatenate((others, found))
            shared = np.concatenate((np.full(len(others), np.iinfo(np.int64).max), shared))
            found, first = np.unique(found, return_index=True)
            shared = shared[first]
        usable = (shared >= self._matcher.min_shared) & (self.leader_of[found] == _ALIVE) & (found != one)
        found, shared = found[usable], shared[usable]
        if len(found) > _MOST_LEADERS:
            found = found[np.lexsort((self.place[found], -shared))[:_MOST_LEADERS]]
        leaders: Positions = found[np.argsort(self.place[found])]
        return leaders

    def _join(self, one: int, others: Positions) -> bool:
        """Whether the unit follows one of the leaders, given in their order; what else was found is noted."""
        found = self._matcher.compare(one, others)
        takes = (found.relation == SAME) | (found.relation == INSIDE)
        allowed = takes & self._standing.allows(others, one)
        of_leaders = found.mirrored()
        for at in np.flatnonzero(found.relation == OVERLAPS).tolist():
            self._note(one, int(others[at]), _edge(of_leaders, at))
        for at in np.flatnonzero(found.relation == HOLDS).tolist():
            self._held.append((one, int(others[at]), _edge(found, at)))
        if (found.relation == NONE).any():
            self._miss(one, others, of_leaders)
        if not allowed.any():
            return False
        at = int(np.argmax(allowed & (found.score >= found.score[allowed].max() - _AS_ALIKE)))
        leader, members = int(others[at]), self._followers.pop(one, [])
        self._follow(one, leader, _edge(of_leaders, at))
        self._take(leader, self._loosened(members))
        return True

    def _miss(self, one: int, leaders: Positions, found: Found) -> None:
        """Keep the closest leader that the unit is not the same as, if it is among the closest of all."""
        at = int(np.argmax(np.where(found.relation == NONE, found.score, -1.0)))
        score = float(found.score[at])
        if len(self._misses) >= _MOST_MISSES and score <= self._misses[0][0]:
            return
        row = (score, -int(self.place[leaders[at]]), -int(self.place[one]), _edge(found, at))
        (heapq.heappushpop if len(self._misses) >= _MOST_MISSES else heapq.heappush)(self._misses, row)

    def _take(self, leader: int, units: Positions) -> None:
        """Let the units follow the leader where the exact measure agrees; release the others."""
        for low in range(0, len(units), _CHUNK):
            chunk = units[low : low + _CHUNK]
            found = self._matcher.compare(leader, chunk)
            agreed = ((found.relation == SAME) | (found.relation == HOLDS)) & self._standing.allows(leader, chunk)
            for at, unit in enumerate(chunk.tolist()):
                if agreed[at]:
                    self._follow(unit, leader, _edge(found, at))
                else:
                    self._released.append(unit)

    def _crown(self, winner: int, leader: int) -> None:
        """The winner leads instead of the leader; the members that fail against it are released."""
        members = self._loosened([leader, *self._followers.pop(leader)])
        self._take(winner, members[members != winner])
        self._postings.replace(leader, winner)
        self._enlisted[leader], self._enlisted[winner] = False, True
        others = self._leaders_for(winner)
        others = others[~np.isin(others, self._released)]
        if len(others):
            self._meet(winner, others)

    def _meet(self, winner: int, others: Positions) -> None:
        """A new survivor against the leaders around it: of two that are the same one goes."""
        found = self._matcher.compare(winner, others)
        of_others = found.mirrored()
        for at, other in enumerate(others.tolist()):
            if self.leader_of[winner] != _ALIVE or self.leader_of[other] != _ALIVE:
                continue
            stays = winner
            if found.relation[at] == SAME:
                stays = self._better(winner, other)
            elif found.relation[at] == INSIDE:
                stays = other
            elif found.relation[at] != HOLDS:
                continue
            edge, goer = (_edge(found, at), other) if stays == winner else (_edge(of_others, at), winner)
            self._absorb(stays, goer, edge)

    def _better(self, one: int, other: int) -> int:
        """Which of two survivors stays: the election of all that follow either, among the two."""
        pair = np.array([one, other], np.int64)
        rest = np.array([*pair, *self._followers.get(one, []), *self._followers.get(other, [])], np.int64)
        return self._standing.elect(pair, self._closeness, rest=rest)

    def _absorb(self, keeper: int, goer: int, edge: Edge) -> None:
        """The goer, which leads, follows the keeper, and so do its followers as far as they pass."""
        both_lead = self.leader_of[keeper] == _ALIVE and self.leader_of[goer] == _ALIVE and keeper != goer
        if not both_lead or not self._standing.allows(keeper, goer)[0]:
            return
        members = self._loosened(self._followers.pop(goer, []))
        self._follow(goer, keeper, edge)
        self._take(keeper, members)

    def _loosened(self, members: list[int]) -> Positions:
        """The members, which follow nobody any more."""
        for one in members:
            self._edge.pop(one, None)
            self.leader_of[one] = _ALIVE
        return np.array(members, np.int64)

    def _follow(self, one: int, leader: int, edge: Edge) -> None:
        self.leader_of[one] = leader
        self._edge[one] = edge
        self._followers.setdefault(leader, []).append(one)

    def _enlist(self, one: int) -> None:
        self._enlisted[one] = True
        self._postings.add(one)

    def _note(self, one: int, other: int, edge: Edge) -> None:
        """Evidence of a common part; `edge` has the spans of the other first."""
        if self.place[one] < self.place[other]:
            spans = None if edge.spans_s is None else (*edge.spans_s[2:], *edge.spans_s[:2])
            edge, one, other = Edge(edge.relation, edge.score, edge.method, spans), other, one
        self._evidence[other, one] = edge

    def _closeness(self, one: int, others: Positions) -> float:
        scores = [
            self._matcher.compare(one, others[low : low + _CHUNK]).closeness for low in range(0, len(others), _CHUNK)
        ]
        return float(np.concatenate(scores).mean()) if scores else 0.0


def _edge(found: Found, at: int) -> Edge:
    """Of what the leader's comparison found: `found.relation` is HOLDS where the unit lies inside the leader."""
    relation = int(found.relation[at])
    spans = None if found.spans_s is None else tuple(float(value) for value in found.spans_s[at])
    if spans is not None and any(value != value for value in spans):
        spans = None
    return Edge(INSIDE if relation == HOLDS else relation, float(found.score[at]), int(found.method[at]), spans)
