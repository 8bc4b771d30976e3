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

import functools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import MOST_LEADERS, Candidates, Edge, EdgeRows, Led, Outcome, Walked, edges_of
from mmlake.dedup.matching import HOLDS, INSIDE, SAME, Found, Matcher, is_shared_out, listed_near, prepared
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.elections import Closeness, Clusters, Members, Taken
from mmlake.dedup.stars.followers import Followers
from mmlake.dedup.stars.shares import Shares, have_a_choice
from mmlake.dedup.stars.star_edges import Stars, stars_of
from mmlake.dedup.stars.survivors import Standing
from mmlake.engine import current
from mmlake.progress import Advance, silent

_CHUNK = 64  # units compared with one other at once
_ELECTED = 1 << 14  # clusters of which two members are known to elect whom at once
_ROUNDS = 3  # in which what fails its new survivor is led anew
_ALIVE = -1


def stars(
    matcher: Matcher,
    standing: Standing,
    *,
    equal: NDArray[np.uint64],
    advance: Advance = silent,
) -> Stars:
    """The edges between the matcher's units, sorted. equal: of shape (units, 2): units with the same row, but for
    zeros, have equal prints."""
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

    def __init__(self, matcher: Matcher, standing: Standing, postings: Postings | None = None) -> None:
        self._matcher, self._standing, self._closeness = matcher, standing, Closeness(matcher)
        num, scratch = len(standing), current()
        self.order = scratch.laid(standing.order())
        self.place = scratch.zeros(num, np.int64)
        self.place[self.order] = np.arange(num)
        self.leader_of = scratch.full(num, _ALIVE, np.int64)
        self._head_of = scratch.full(num, _ALIVE, np.int64)  # by equal prints
        self._followers = Followers(num)
        self.postings = Postings(matcher.keys) if postings is None else postings
        # what shares no key with anybody leads without more ado
        self.has_candidates = self.postings.lengths > 0
        if matcher.neighbours is not None:
            self.has_candidates |= matcher.neighbours.lengths > 0
        self._enlisted = ~self.has_candidates
        self._released: set[int] = set()  # lost their leader, and have no other yet
        self._held: list[tuple[int, int, Edge]] = []  # (unit that holds a leader, the leader, what was found)
        self._evidence = EdgeRows()  # of what overlaps, the better placed to the left; the last row of a pair counts
        self._is_moved = scratch.zeros(num, np.bool_)  # leaders with other followers than when they last elected
        self.known_elections: dict[Members, int] = {}  # whom clusters elect
        self.elections: dict[Members, int] | None = None  # those that were asked for; None: nothing is kept
        self._misses = EdgeRows()  # of each unit the closest leader that it is not the same as
        self._candidates: Candidates | None = None
        self._is_settling = False  # behind the first half

    def lead_all(self, equal: NDArray[np.uint64], *, advance: Advance = silent, is_kept: bool = False) -> None:
        """The first half, as `mmlake.dedup.greedy` defines it. is_kept: candidates are noted for the next join."""
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
        self._candidates, self._is_settling = None, True  # candidates of the first half are kept
        self.elect_all()
        self.settle()
        if is_shared_out(self._matcher) and len(self._followers) > 1:
            self.elect_all(np.array(sorted(self._share_out()), np.int64))
            self.settle()
        elif self._standing.asks_all:
            self.elect_all(np.flatnonzero(self._is_moved & (self.leader_of == _ALIVE)))
            self.settle()
        return Outcome(
            follows=self._followers.edges(self.leader_of),
            overlaps=self._evidence.latest(len(self.order)),
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
        self._head_of[:] = self.leader_of

    def lead(self, units: Iterable[int], *, advance: Advance = silent) -> None:
        """Give each of the units, in survivor order, a leader, or make it one."""
        for one in prepared(self._matcher, map(int, units), self._leaders_for):
            advance(1)
            others = self._leaders_for(one)
            if not len(others) or not self._join(one, others):
                self._enlist(one)

    def led(self) -> Led:
        """What stands after `lead_all`."""
        return Led(
            follows=self._followers.edges(self.leader_of),
            held=edges_of(self._held),
            overlaps=self._evidence.latest(len(self.order)),
            misses=self._misses.edges(),
            released=np.array(sorted(self._released), np.int64),
            head_of=self._head_of,
            candidates=self._candidates,
        )

    def take_over(self, led: Led, *, are_listed: bool = False) -> None:
        """Stand where `lead_all` would have come to. are_listed: those that lead are in the postings already."""
        self._head_of = led.head_of
        self.leader_of[led.follows.right] = led.follows.left
        self._followers.add_all(led.follows)
        self._held = list(led.held.each())
        self._evidence.add_all(led.overlaps)
        self._misses.add_all(led.misses)
        self._released = set(led.released.tolist())
        leads = self.leader_of == _ALIVE
        leads[led.released] = False
        self._enlisted |= leads
        if not are_listed:
            self.postings.add_all(self.order[leads[self.order]])

    def elect_all(self, leaders: Positions | None = None) -> None:
        """Let each cluster, or those of these leaders, elect its survivor."""
        if leaders is None:
            leaders = self._followers.leaders()
        leaders = leaders[np.argsort(self.place[leaders])]
        for low in range(0, len(leaders), _ELECTED):
            self._elect(leaders[low : low + _ELECTED])

    def _elect(self, leaders: Positions) -> None:
        clusters = Clusters.of(leaders, self.leader_of)
        winners = clusters.winners(self._standing, self._closeness, self.known_elections)
        if self.elections is not None:
            said = zip(clusters.each(), winners.tolist(), strict=True)
            self.elections |= {members: winner for members, winner in said if winner >= 0}
        self._is_moved[leaders] = False
        taken = clusters.taken(winners, self._closeness.paired)
        found = {} if taken is None else self._crown_apart(clusters, taken, winners)
        for row, (leader, winner) in enumerate(zip(leaders.tolist(), winners.tolist(), strict=True)):
            if winner < 0 or self._is_moved[leader]:  # survivors before it took members or brought some
                members = tuple(sorted((leader, *self._followers.of(leader))))
                winner = self._elected(members) if len(members) > 1 else leader
                found.pop(row, None)
            if winner != leader:
                self._crown(winner, leader, found.get(row))

    def _elected(self, members: Members) -> int:
        winner = self.known_elections.get(members)
        if winner is None:
            winner = self._closeness.elected(self._standing, np.array(members))
        if self.elections is not None:
            self.elections[members] = winner
        return winner

    def _crown_apart(self, clusters: Clusters, taken: Taken, winners: Positions) -> dict[int, Found]:
        """Let winners lead whose clusters nobody outside has a key in common with, and all of whose members follow
        them; in `winners` their leaders stand for them. Of the others what was found."""
        is_apart, edges = taken.apart(self._standing, self._num_tied)
        apart = taken.clusters[is_apart]
        self._followers.leave(clusters.leaders[apart])
        self.leader_of[edges.left], self.leader_of[edges.right] = _ALIVE, edges.left
        self._followers.add_all(edges)
        self._enlisted[edges.right], self._enlisted[edges.left] = False, True
        winners[apart] = clusters.leaders[apart]
        return taken.rest(is_apart)

    def settle(self) -> None:
        """Lead anew what was released, and let what holds a leader take it, until nothing moves."""
        for _ in range(_ROUNDS):
            held, self._held = self._held, []
            for holder, leader, edge in sorted(held, key=lambda one: (self.place[one[0]], self.place[one[1]])):
                self._absorb(holder, leader, edge)
            released, self._released = self._released, set()
            self.lead(sorted(released, key=lambda one: self.place[one]))
            if not self._held and not self._released:
                return

    def _share_out(self) -> set[int]:
        """Let members go for another survivor that they are the same as; the survivors that lost or got some.
        Whoever has equal prints with a member goes with it, as far as the exact measure agrees."""
        members = {leader: self._followers.of(leader) for leader in self._followers.leaders().tolist()}
        edges = {one: self._followers.edge(one) for one in np.flatnonzero(self.leader_of != _ALIVE).tolist()}
        shares, with_head = Shares(members, self.place), self._by_head()
        is_all = self._matcher.neighbours is None
        may_choose = have_a_choice(self.postings, self.leader_of == _ALIVE, is_all=is_all)
        ones = [one for one in edges if may_choose[one] and self._head_of[one] < 0 and edges[one].relation == SAME]
        ones.sort(key=lambda one: int(self.place[one]))
        for one in prepared(self._matcher, ones, self._other_leaders):
            others = self._other_leaders(one)
            if len(others):
                found = self._matcher.compare(one, others)
                of_others = found.mirrored()
                for at in np.flatnonzero(found.relation == SAME).tolist():
                    shares.add(one, int(others[at]), of_others.edge(at), num=1 + len(with_head.get(one, ())))
        return self._move(list(shares.moves(edges, self.leader_of)), with_head)

    def _other_leaders(self, one: int) -> Positions:
        others = self._leaders_for(one)
        found: Positions = others[(others != self.leader_of[one]) & self._standing.allows(others, one)]
        return found

    def _move(self, moves: list[tuple[int, int, Edge]], with_head: dict[int, list[int]]) -> set[int]:
        """Let members, and those with their prints, go for others; the survivors that lost or got some."""
        leaving: dict[int, set[int]] = {}  # by the survivor that they leave
        twins: dict[int, list[int]] = {}
        for one, _, _ in moves:
            before = int(self.leader_of[one])
            twins[one] = [twin for twin in with_head.get(one, ()) if self.leader_of[twin] == before]
            leaving.setdefault(before, set()).update((one, *twins[one]))
        for before, gone in leaving.items():  # each list once, and before any of its members is in another
            self._followers.keep(before, [member for member in self._followers.of(before) if member not in gone])
        for one, leader, edge in moves:
            self._follow(one, leader, edge)
            loose = np.array(twins[one], np.int64)
            self.leader_of[loose] = _ALIVE
            self._take(leader, loose)
        return leaving.keys() | {leader for _, leader, _ in moves}

    def _by_head(self) -> dict[int, list[int]]:
        """Who took units with equal prints -> these units."""
        found: dict[int, list[int]] = {}
        for one in np.flatnonzero(self._head_of >= 0).tolist():
            found.setdefault(int(self._head_of[one]), []).append(one)
        return found

    @functools.cached_property
    def _num_tied(self) -> Positions:
        """How many units keys tie together with each, itself included; 0 where that is not known or may not be all."""
        is_all = self._matcher.neighbours is None and not is_shared_out(self._matcher)
        return self.postings.num_tied() if is_all else np.zeros(len(self.order), np.int64)

    def _leaders_for(self, one: int) -> Positions:
        """At most `MOST_LEADERS` candidates that lead: most keys in common first, then the better placed."""
        found, shared = self.postings.sharing(one)
        if len(others := listed_near(self._matcher, one, self._enlisted, searches=self._is_settling)):
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
        leader, members = int(others[at]), self._loosened(one)
        self._follow(one, leader, of_leaders.edge(at))
        self._take(leader, members)
        return True

    def _take(self, leader: int, units: Positions) -> None:
        """Let the units follow the leader where the exact measure agrees; release the others."""
        for low in range(0, len(units), _CHUNK):
            chunk = units[low : low + _CHUNK]
            self._take_found(leader, chunk, self._matcher.compare(leader, chunk))

    def _take_found(self, leader: int, units: Positions, found: Found) -> None:
        """The same, of units of which it is known what the leader is to them."""
        agreed = ((found.relation == SAME) | (found.relation == HOLDS)) & self._standing.allows(leader, units)
        for at, unit in enumerate(units.tolist()):
            if agreed[at]:
                self._follow(unit, leader, found.edge(at))
            else:
                self._released.add(unit)

    def _crown(self, winner: int, leader: int, found: Found | None) -> None:
        """The winner leads instead of the leader; the members that fail against it are released. found: what it is to
        them, sorted; None where it is not known."""
        members = np.array(sorted((leader, *self._loosened(leader).tolist())), np.int64)
        members, num_released = members[members != winner], len(self._released)
        if found is None:
            self._take(winner, members)
        else:
            self._take_found(winner, members, found)
        if len(members) + 1 == self._num_tied[winner] and num_released == len(self._released):
            return  # nobody outside has a key of theirs, and nobody inside is led anew
        self.postings.replace(leader, winner)
        self._enlisted[leader], self._enlisted[winner] = False, True
        others = self._leaders_for(winner)
        if self._released:
            others = np.array([one for one in others.tolist() if one not in self._released], np.int64)
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
        rest = np.array([*pair, *self._followers.of(one), *self._followers.of(other)], np.int64)
        return self._closeness.elected(self._standing, pair, rest=rest)

    def _absorb(self, keeper: int, goer: int, edge: Edge) -> None:
        """The goer, which leads, follows the keeper, and so do its followers as far as they pass."""
        both_lead = self.leader_of[keeper] == _ALIVE and self.leader_of[goer] == _ALIVE and keeper != goer
        if not both_lead or not self._standing.allows(keeper, goer)[0]:
            return
        members = self._loosened(goer)
        self._follow(goer, keeper, edge)
        self._take(keeper, members)

    def _loosened(self, leader: int) -> Positions:
        """Who follows the leader; they follow nobody any more."""
        loose = np.array(self._followers.pop(leader), np.int64)
        self.leader_of[loose] = _ALIVE
        self._is_moved[leader] = True
        return loose

    def _follow(self, one: int, leader: int, edge: Edge) -> None:
        self.leader_of[one] = leader
        self._is_moved[leader] = True
        self._followers.add(leader, one, edge)

    def _enlist(self, one: int) -> None:
        self._enlisted[one] = True
        self.postings.add(one)

    def _note(self, one: int, other: int, edge: Edge) -> None:
        """Evidence of a common part; `edge` has the spans of the other first."""
        if self.place[one] < self.place[other]:
            spans = None if edge.spans_s is None else (*edge.spans_s[2:], *edge.spans_s[:2])
            edge, one, other = Edge(edge.relation, edge.score, edge.method, spans), other, one
        self._evidence.add(other, one, edge)
