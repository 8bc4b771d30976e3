"""Stars instead of all pairs: each unit that goes is tied to the one unit that stays for it, and to nothing else.

Units come in survivor order. Each is compared with leaders that share keys with it, and follows the best of those that
it is the same as; otherwise it leads. Then each cluster elects its survivor; every follower is verified against the
survivor, and one that does not pass is led anew. Last, a member that is the same as several survivors goes for the one
that most are the same as (`shares`), so that a family is no two stars. So no chain swallows what is unlike its
survivor, the cost is linear whatever the prints are (1,000 copies cost 1,000 comparisons), and the outcome depends on
the set of units alone.
Source: greedy leader clustering (Hartigan 1975, ch. 3), candidates from an inverted index with capped lists.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.led import MOST_LEADERS, Candidates, Edge, EdgeRows, Edges, Led, Outcome, Walked, edges_of
from mmlake.dedup.matching import HOLDS, INSIDE, SAME, Matcher, is_shared_out
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions
from mmlake.dedup.shares import Shares
from mmlake.dedup.star_edges import Stars, stars_of
from mmlake.dedup.survivors import Standing
from mmlake.progress import Advance, silent

_CHUNK = 64  # units compared with one other at once
_ROUNDS = 3  # in which what fails its new survivor is led anew
_ALIVE = -1


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
    return led_walk(matcher, standing, equal=equal, advance=advance).settled()


def led_walk(matcher: Matcher, standing: Standing, *, equal: NDArray[np.uint64], advance: Advance = silent) -> Walk:
    """The walk behind its first half."""
    walk = Walk(matcher, standing)
    led = matcher.walked(walk.order, equal=equal, postings=walk.postings) if isinstance(matcher, Walked) else None
    if led is None:
        walk.lead_all(equal, advance=advance)
    else:
        walk.take_over(led, are_listed=True)
        advance(len(standing))
    return walk


class Walk:
    """Who follows whom, while it is found out."""

    def __init__(self, matcher: Matcher, standing: Standing) -> None:
        self._matcher, self._standing = matcher, standing
        num = len(standing)
        self.order = standing.order()
        self.place = np.empty(num, np.int64)
        self.place[self.order] = np.arange(num)
        self.leader_of = np.full(num, _ALIVE, np.int64)
        self._head_of = self.leader_of.copy()  # by equal prints
        self._edge: dict[int, Edge] = {}  # of followers
        self._followers: dict[int, list[int]] = {}
        self.postings = Postings(matcher.keys)
        # what shares no key with anybody leads without more ado
        self.has_candidates = self.postings.lengths > 0
        if matcher.neighbours is not None:
            self.has_candidates |= matcher.neighbours.lengths > 0
        self._enlisted = ~self.has_candidates
        self._released: list[int] = []  # lost their leader, and have no other yet
        self._held: list[tuple[int, int, Edge]] = []  # (unit that holds a leader, the leader, what was found)
        self._evidence = EdgeRows()  # of what overlaps, the better placed to the left; the last row of a pair counts
        self.known_elections: dict[tuple[int, ...], int] = {}  # members, sorted -> the one that they elect
        self.elections: dict[tuple[int, ...], int] = {}  # those that were asked for
        # one * units + other -> how close they are, where it is known; what is found is added. None: nothing is kept
        self.known_closeness: dict[int, float] | None = None
        self._misses = EdgeRows()  # of each unit the closest leader that it is not the same as
        self._candidates: Candidates | None = None

    def lead_all(self, equal: NDArray[np.uint64], *, advance: Advance = silent, is_kept: bool = False) -> None:
        """The first half, as `mmlake.dedup.led` defines it. is_kept: candidates are noted for the next join."""
        self._candidates = Candidates.none(len(self.order), MOST_LEADERS) if is_kept else None
        self.collapse(equal)
        leading = self.order[(self.leader_of[self.order] == _ALIVE) & self.has_candidates[self.order]]
        advance(len(self.order) - len(leading))
        self.lead(leading, advance=advance)

    def settled(self) -> Stars:
        """The edges at which the second half ends."""
        return stars_of(self.outcome(), self.place)

    def outcome(self) -> Outcome:
        """Where the second half ends."""
        self._candidates = None  # those of the first half are kept
        self.elect_all()
        self.settle()
        if is_shared_out(self._matcher) and len(self._followers) > 1:
            self.elect_all(self._share_out())
            self.settle()
        return Outcome(
            follows=edges_of((int(self.leader_of[one]), one, edge) for one, edge in self._edge.items()),
            overlaps=self._overlaps(),
            misses=self._misses.edges(),
        )

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
        self._head_of = self.leader_of.copy()

    def lead(self, units: Iterable[int], *, advance: Advance = silent) -> None:
        """Give each of the units, in survivor order, a leader, or make it one."""
        for one in map(int, units):
            advance(1)
            others = self._leaders_for(one)
            if not len(others) or not self._join(one, others):
                self._enlist(one)

    def led(self) -> Led:
        """What stands after `lead_all`."""
        return Led(
            follows=edges_of((int(self.leader_of[one]), one, self._edge[one]) for one in self._edge),
            held=edges_of(self._held),
            overlaps=self._overlaps(),
            misses=self._misses.edges(),
            released=np.array(self._released, np.int64),
            head_of=self._head_of,
            candidates=self._candidates,
        )

    def take_over(self, led: Led, *, are_listed: bool = False) -> None:
        """Stand where `lead_all` would have come to. are_listed: those that lead are in the postings already."""
        self._head_of = led.head_of
        for leader, one, edge in led.follows.each():
            self._follow(one, leader, edge)
        self._held = list(led.held.each())
        self._evidence.add_all(led.overlaps)
        self._misses.add_all(led.misses)
        self._released = led.released.tolist()
        leads = self.leader_of == _ALIVE
        leads[led.released] = False
        self._enlisted |= leads
        if not are_listed:
            self.postings.add_all(self.order[leads[self.order]])

    def elect_all(self, leaders: Iterable[int] | None = None) -> None:
        """Let each cluster, or those of these leaders, elect its survivor."""
        self._elect_pairs()
        for leader in sorted(self._followers if leaders is None else leaders, key=lambda one: self.place[one]):
            if leader not in self._followers:  # taken by a new survivor since
                continue
            winner = self._elected(tuple(sorted((leader, *self._followers[leader]))))
            if winner != leader:
                self._crown(winner, leader)

    def _elect_pairs(self) -> None:
        """What clusters of two elect, all at once: most are such."""
        pairs = [(leader, *followers) for leader, followers in self._followers.items() if len(followers) == 1]
        if pairs:
            sides = np.sort(np.array(pairs, np.int64), axis=1)
            winners = self._standing.elect_pairs(sides[:, 0], sides[:, 1]).tolist()
            self.known_elections |= dict(zip(map(tuple, sides.tolist()), winners, strict=True))

    def _elected(self, members: tuple[int, ...]) -> int:
        winner = self.known_elections.get(members)
        if winner is None:
            winner = self._standing.elect(np.array(members, np.int64), self._closeness)
        self.elections[members] = winner
        return winner

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

    def _share_out(self) -> set[int]:
        """Let members go for another survivor that they are the same as; the survivors that lost or got some.
        Whoever has equal prints with a member goes with it, as far as the exact measure agrees."""
        shares, with_head = Shares(self._followers, self.place), self._by_head()
        for one in sorted(self._edge, key=lambda one: self.place[one]):
            if self._head_of[one] >= 0 or self._edge[one].relation != SAME:
                continue
            others = self._leaders_for(one)
            others = others[(others != self.leader_of[one]) & self._standing.allows(others, one)]
            if len(others):
                found = self._matcher.compare(one, others)
                of_others = found.mirrored()
                for at in np.flatnonzero(found.relation == SAME).tolist():
                    shares.add(one, int(others[at]), of_others.edge(at), num=1 + len(with_head.get(one, ())))
        touched: set[int] = set()
        for one, leader, edge in shares.moves(self._edge, self.leader_of):
            before = int(self.leader_of[one])
            touched |= {before, leader}
            twins = [twin for twin in with_head.get(one, ()) if self.leader_of[twin] == before]
            leaving = {one, *twins}
            self._followers[before] = [member for member in self._followers[before] if member not in leaving]
            self._follow(one, leader, edge)
            self._take(leader, self._loosened(twins))
        self._followers = {leader: members for leader, members in self._followers.items() if members}
        return touched

    def _by_head(self) -> dict[int, list[int]]:
        """Who took units with equal prints -> these units."""
        found: dict[int, list[int]] = {}
        for one in np.flatnonzero(self._head_of >= 0).tolist():
            found.setdefault(int(self._head_of[one]), []).append(one)
        return found

    def _overlaps(self) -> Edges:
        return self._evidence.latest(len(self.order))

    def _leaders_for(self, one: int) -> Positions:
        """At most `MOST_LEADERS` candidates that lead: most keys in common first, then the better placed."""
        found, shared = self.postings.sharing(one)
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
        if len(found) >= MOST_LEADERS:
            best = np.lexsort((self.place[found], -shared))[:MOST_LEADERS]
            found, shared = found[best], shared[best]
        if self._candidates is not None:
            self._candidates.note(one, found, shared)
        leaders: Positions = found[np.argsort(self.place[found])]
        return leaders

    def _join(self, one: int, others: Positions) -> bool:
        """Whether the unit follows one of the leaders, given in their order; what else was found is noted."""
        found = self._matcher.compare(one, others)
        of_leaders = found.mirrored()
        for at in found.overlapping().tolist():
            self._note(one, int(others[at]), of_leaders.edge(at))
        for at in np.flatnonzero(found.relation == HOLDS).tolist():
            self._held.append((one, int(others[at]), found.edge(at)))
        if (at := found.closest_miss()) >= 0:
            self._misses.add(int(others[at]), one, of_leaders.edge(at))
        at = found.best(self._standing.allows(others, one))
        if at < 0:
            return False
        leader, members = int(others[at]), self._followers.pop(one, [])
        self._follow(one, leader, of_leaders.edge(at))
        self._take(leader, self._loosened(members))
        return True

    def _take(self, leader: int, units: Positions) -> None:
        """Let the units follow the leader where the exact measure agrees; release the others."""
        for low in range(0, len(units), _CHUNK):
            chunk = units[low : low + _CHUNK]
            found = self._matcher.compare(leader, chunk)
            agreed = ((found.relation == SAME) | (found.relation == HOLDS)) & self._standing.allows(leader, chunk)
            for at, unit in enumerate(chunk.tolist()):
                if agreed[at]:
                    self._follow(unit, leader, found.edge(at))
                else:
                    self._released.append(unit)

    def _crown(self, winner: int, leader: int) -> None:
        """The winner leads instead of the leader; the members that fail against it are released."""
        members = self._loosened([leader, *self._followers.pop(leader)])
        self._take(winner, members[members != winner])
        self.postings.replace(leader, winner)
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
            edge, goer = (found.edge(at), other) if stays == winner else (of_others.edge(at), winner)
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
        self.postings.add(one)

    def _note(self, one: int, other: int, edge: Edge) -> None:
        """Evidence of a common part; `edge` has the spans of the other first."""
        if self.place[one] < self.place[other]:
            spans = None if edge.spans_s is None else (*edge.spans_s[2:], *edge.spans_s[:2])
            edge, one, other = Edge(edge.relation, edge.score, edge.method, spans), other, one
        self._evidence.add(other, one, edge)

    def _closeness(self, one: int, others: Positions) -> float:
        if self.known_closeness is not None:
            return self._recalled_closeness(one, others, self.known_closeness)
        scores = [
            self._matcher.compare(one, others[low : low + _CHUNK]).closeness for low in range(0, len(others), _CHUNK)
        ]
        return float(np.concatenate(scores).mean()) if scores else 0.0

    def _recalled_closeness(self, one: int, others: Positions, known: dict[int, float]) -> float:
        codes = (one * len(self.order) + others).tolist()
        missing = others[[code not in known for code in codes]]
        for low in range(0, len(missing), _CHUNK):
            chunk = missing[low : low + _CHUNK]
            found = self._matcher.compare(one, chunk).closeness.tolist()
            known |= zip((one * len(self.order) + chunk).tolist(), found, strict=True)
        return float(np.mean([known[code] for code in codes])) if codes else 0.0
