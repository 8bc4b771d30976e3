"""The first half of a join, made from the one of an earlier set of units: only what something new touches is judged."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.kept_comparisons import joined
from mmlake.dedup.led import MOST_LEADERS, Candidates, Edge, EdgeRows, Edges, Led
from mmlake.dedup.matching import HOLDS, SAME, Matcher
from mmlake.dedup.postings import MOST_PER_KEY, Postings
from mmlake.dedup.prints import Positions, Ragged

_CHUNK = 64  # units compared with one other at once


@dataclass(frozen=True, slots=True)
class Changes:
    """An earlier join and what became of its units; arrays have a row per unit that it had."""

    at: Positions  # where they stand now; -1: gone
    is_staying: NDArray[np.bool_]  # there, unchanged, and in the same order among each other
    led_before: NDArray[np.bool_]
    equal: NDArray[np.uint64]
    keys: Ragged
    led: Led


class Repair:
    """Who follows whom, while it is found out anew for what changed."""

    def __init__(
        self, matcher: Matcher, order: Positions, place: Positions, postings: Postings, changes: Changes,
        learn: Callable[[int, Positions], None],
    ) -> None:  # fmt: skip
        """learn: gets a unit and those that will be compared with it, so that this can be found out at once."""
        self._learn = learn
        self._matcher, self._order, self._place, self._postings = matcher, order, place, postings
        self._changes = changes
        self._is_anew = np.zeros(len(order), np.bool_)  # units whose earlier outcome no longer counts
        holders, self._begins = postings.holders(order)
        self._holder_places = place[holders]
        num, staying = len(order), np.flatnonzero(changes.is_staying)
        self._stays = np.zeros(num, np.bool_)
        self._stays[changes.at[staying]] = True
        self._leads = np.zeros(num, np.bool_)
        self._leads[changes.at[staying]] = changes.led_before[staying]
        follows = self._kept(changes.led.follows, changes.led.follows.right)
        self._leader_of = np.full(num, -1, np.int64)
        self._leader_of[follows.right] = follows.left
        taken = staying[changes.led.head_of[staying] >= 0]
        self._head_of = np.full(num, -1, np.int64)
        self._head_of[changes.at[taken]] = changes.at[changes.led.head_of[taken]]
        self._was_taken = np.zeros(num, np.bool_)
        self._was_taken[changes.at[taken]] = True
        self._candidates, self._is_bereft = self._candidates_before(staying)
        self._lists: dict[int, list[int]] = {}  # number of a key -> places of the leaders that have it
        self._waiting: list[int] = []  # places of the units to judge, a heap
        self._is_waiting = np.zeros(num, np.bool_)
        self._is_touched = np.zeros(num, np.bool_)  # heads whose members, or whose leader, may be others now
        self._follows, self._held, self._overlaps, self._misses = (EdgeRows() for _ in range(4))
        self._released: list[int] = []

    def led(self, equal: NDArray[np.uint64]) -> Led:
        """The outcome for the units as they are."""
        self._collapse(equal)
        while self._waiting:
            place = heapq.heappop(self._waiting)
            self._judge(int(self._order[place]), place)
        self._hand_on()
        return self._whole()

    def _collapse(self, equal: NDArray[np.uint64]) -> None:
        """Step 1 for the prints of units that came or went, and all that follows from it for keys that are gone."""
        changes = self._changes
        came, went = equal[~self._stays, 0], changes.equal[~changes.is_staying, 0]
        rows = np.flatnonzero(np.isin(equal[:, 0], np.concatenate((came, went))) & equal.any(axis=1))
        rows = rows[np.lexsort((self._place[rows], equal[rows, 1], equal[rows, 0]))]
        self._head_of[rows] = -1
        is_first = np.r_[True, (equal[rows[1:]] != equal[rows[:-1]]).any(axis=1)][: len(rows)]
        begins = np.flatnonzero(is_first)
        for low, high in zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=False):
            head, members = int(rows[low]), rows[low + 1 : high]
            for one, edge in self._compared(head, members):
                if edge is not None:
                    self._head_of[one] = head
            self._is_touched[head] = True
        is_taken = self._head_of >= 0
        self._is_anew[rows[is_taken[rows]]] = True
        leaving = np.flatnonzero(is_taken & self._leads)
        self._leads[leaving] = False
        for one in np.flatnonzero(~is_taken & (~self._stays | self._was_taken)).tolist():
            self._wait(one)
        self._forget(leaving)

    def _candidates_before(self, staying: Positions) -> tuple[Candidates, NDArray[np.bool_]]:
        """(of units that stay what they were compared with, of which of them that is gone)."""
        changes, before = self._changes, self._changes.led.candidates
        now = Candidates.none(len(self._order), MOST_LEADERS)
        is_bereft = np.zeros(len(self._order), np.bool_)
        assert before is not None, "a join that is kept has candidates"
        rows, is_there = changes.at[staying], np.append(changes.is_staying, True)  # -1: nobody, who stays
        at = np.append(changes.at, -1)
        is_bereft[rows] = ~is_there[before.units[staying]].all(axis=1)
        now.units[rows], now.last[rows] = at[before.units[staying]], at[before.last[staying]]
        now.shared[rows] = before.shared[staying]
        return now, is_bereft

    def _forget(self, leaving: Positions) -> None:
        """What was compared with a leader that is gone, or that leaves since another takes it, is judged again; so is
        what now meets one that was behind the end of a full list."""
        changes = self._changes
        is_left = np.zeros(len(self._order) + 1, np.bool_)
        is_left[leaving] = True
        for one in np.flatnonzero(self._is_bereft | is_left[self._candidates.units].any(axis=1)).tolist():
            self._wait(one)
        keys = changes.keys.take(np.flatnonzero(changes.led_before & ~changes.is_staying)).values
        rows, is_shared = _rows_of(keys, self._postings.shared)
        numbers, num_lost = np.unique(
            np.concatenate([rows[is_shared], *(self._postings.numbers(one) for one in leaving.tolist())]),
            return_counts=True,
        )
        num_held = self._begins[numbers + 1] - self._begins[numbers]
        for at in np.flatnonzero(num_held + num_lost > MOST_PER_KEY).tolist():
            listed, first = self._listed(int(numbers[at])), MOST_PER_KEY - int(num_lost[at])
            if first < len(listed):
                self._wait_behind(int(numbers[at]), listed[first] if first >= 0 else -1)

    def _judge(self, one: int, place: int) -> None:
        """Steps 2 and 3 for the unit, of which all that stand before it are judged."""
        others = self._leaders_for(one, place)
        self._is_anew[one] = self._is_touched[one] = True
        leader = self._joined(one, others) if len(others) else -1
        self._leader_of[one] = leader
        if self._leads[one] != (leader < 0):
            self._leads[one] = leader < 0
            if leader < 0:
                self._come(one, place)
            else:
                self._go(one, place)

    def _come(self, one: int, place: int) -> None:
        """A unit leads now: of those behind it all are judged that have it among their candidates, or lose another
        one that it pushes out of a full list."""
        numbers, is_met = self._postings.numbers(one), []
        for number in numbers.tolist():
            if (listed := self._lists.get(number)) is not None:
                insort(listed, place)
            is_met.append(self._is_listed(number, place))
            if is_met[-1] and self._may_be_full(number) and len(self._listed(number)) > MOST_PER_KEY:
                pushed = self._listed(number)[MOST_PER_KEY]
                behind = self._behind(np.array([number]), pushed)
                others = self._order[behind]
                self._wait_all(others[(self._candidates.units[others] == self._order[pushed]).any(axis=1)])
        found, shared = np.unique(self._behind(numbers[is_met], place), return_counts=True)
        units = self._order[found]
        least, last = self._candidates.shared[units], self._candidates.last[units]
        enters = (shared > least) | ((shared == least) & (place < self._place[last]))
        units = units[enters & (shared >= self._matcher.min_shared)]
        self._learn(one, units)
        self._wait_all(units)

    def _go(self, one: int, place: int) -> None:
        """A unit leads no more: who had it as a candidate is judged, and who meets the one that comes up behind it."""
        numbers, was_met = self._postings.numbers(one), []
        for number in numbers.tolist():
            if (listed := self._lists.get(number)) is not None:
                del listed[bisect_left(listed, place)]
            was_met.append(self._is_listed(number, place))
            if was_met[-1] and self._may_be_full(number) and len(self._listed(number)) >= MOST_PER_KEY:
                self._wait_behind(number, self._listed(number)[MOST_PER_KEY - 1])
        others = self._order[np.unique(self._behind(numbers[was_met], place))]
        self._wait_all(others[(self._candidates.units[others] == one).any(axis=1)])

    def _may_be_full(self, number: int) -> bool:
        return bool(self._begins[number + 1] - self._begins[number] > MOST_PER_KEY)

    def _is_listed(self, number: int, place: int) -> bool:
        """Whether a leader of this place is, or was, among those that the key lists."""
        return not self._may_be_full(number) or bisect_left(self._listed(number), place) < MOST_PER_KEY

    def _behind(self, numbers: Positions, place: int) -> Positions:
        """The places behind this one of the units that hold the keys, once for each key."""
        places = self._places_of(numbers)
        return places[places > place]

    def _places_of(self, numbers: Positions) -> Positions:
        """The places of the units that hold the keys, key by key."""
        lengths = self._begins[numbers + 1] - self._begins[numbers]
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self._begins[numbers] - ends + lengths, lengths)
        places: Positions = self._holder_places[rows]
        return places

    def _wait_behind(self, number: int, place: int) -> None:
        self._wait_all(self._order[self._behind(np.array([number]), place)])

    def _wait_all(self, units: Positions) -> None:
        for one in units[~self._is_waiting[units] & (self._head_of[units] < 0)].tolist():
            self._wait(one)

    def _listed(self, number: int) -> list[int]:
        listed = self._lists.get(number)
        if listed is None:
            places = self._holder_places[self._begins[number] : self._begins[number + 1]]
            listed = self._lists[number] = places[self._leads[self._order[places]]].tolist()
        return listed

    def _wait(self, one: int) -> None:
        if not self._is_waiting[one] and self._head_of[one] < 0:
            self._is_waiting[one] = True
            heapq.heappush(self._waiting, int(self._place[one]))

    def _leaders_for(self, one: int, place: int) -> Positions:
        """As `leaders.Walk` finds them."""
        numbers = self._postings.numbers(one)
        is_long = self._begins[numbers + 1] - self._begins[numbers] > MOST_PER_KEY
        places = self._places_of(numbers[~is_long])
        parts = [places[(places < place) & self._leads[self._order[places]]]]
        for number in numbers[is_long].tolist():
            listed = self._listed(number)
            parts.append(np.array(listed[: min(MOST_PER_KEY, bisect_left(listed, place))], np.int64))
        found, shared = np.unique(np.concatenate(parts), return_counts=True)
        usable = shared >= self._matcher.min_shared
        found, shared = found[usable], shared[usable]
        if len(found) >= MOST_LEADERS:
            best = np.lexsort((found, -shared))[:MOST_LEADERS]
            found, shared = found[best], shared[best]
        self._candidates.note(one, self._order[found], shared)
        others: Positions = self._order[np.sort(found)]
        return others

    def _joined(self, one: int, others: Positions) -> int:
        """The leader that the unit follows, -1 for none; what else was found is noted."""
        found = self._matcher.compare(one, others)
        of_leaders = found.mirrored()
        for at in found.overlapping().tolist():
            self._overlaps.add(int(others[at]), one, of_leaders.edge(at))
        for at in np.flatnonzero(found.relation == HOLDS).tolist():
            self._held.add(one, int(others[at]), found.edge(at))
        closest = found.closest_miss()
        if closest >= 0:
            self._misses.add(int(others[closest]), one, of_leaders.edge(closest))
        chosen = found.best(np.ones(len(others), np.bool_))
        if chosen < 0:
            return -1
        self._follows.add(int(others[chosen]), one, of_leaders.edge(chosen))
        return int(others[chosen])

    def _hand_on(self) -> None:
        """Who has equal prints with a unit that was judged, or with others than before, follows its leader."""
        taken = np.flatnonzero(self._head_of >= 0)
        taken = taken[self._is_touched[self._head_of[taken]]]
        taken = taken[np.argsort(self._head_of[taken], kind="stable")]
        begins = np.flatnonzero(np.r_[True, np.diff(self._head_of[taken]) != 0][: len(taken)])
        for low, high in zip(begins.tolist(), [*begins[1:].tolist(), len(taken)], strict=False):
            head = int(self._head_of[taken[low]])
            leader = head if self._leader_of[head] < 0 else int(self._leader_of[head])
            for one, edge in self._compared(leader, taken[low:high]):
                self._is_anew[one] = True
                if edge is None:
                    self._released.append(one)
                else:
                    self._follows.add(leader, one, edge)

    def _compared(self, leader: int, units: Positions) -> Iterator[tuple[int, Edge | None]]:
        """Each of the units, with the edge by which it follows the leader, if it does."""
        for low in range(0, len(units), _CHUNK):
            chunk = units[low : low + _CHUNK]
            found = self._matcher.compare(leader, chunk)
            for at, one in enumerate(chunk.tolist()):
                yield one, found.edge(at) if found.relation[at] in (SAME, HOLDS) else None

    def _whole(self) -> Led:
        old = self._changes.led
        released = self._changes.at[old.released[self._changes.is_staying[old.released]]]
        return Led(
            follows=joined(self._kept(old.follows, old.follows.right), self._follows.edges()),
            held=joined(self._kept(old.held, old.held.left), self._held.edges()),
            overlaps=joined(self._kept(old.overlaps, old.overlaps.right), self._overlaps.edges()),
            misses=joined(self._kept(old.misses, old.misses.right), self._misses.edges()),
            released=np.concatenate((released[~self._is_anew[released]], np.array(self._released, np.int64))),
            head_of=self._head_of,
            candidates=self._candidates,
        )

    def _kept(self, edges: Edges, judged: Positions) -> Edges:
        """Those that still count, in positions as they are now. judged: whose outcome each is."""
        at = self._changes.at
        rows = self._changes.is_staying[judged]
        rows[rows] = ~self._is_anew[at[judged[rows]]]
        kept = edges.take(rows)
        return kept._replace(left=at[kept.left], right=at[kept.right])


def _rows_of(values: NDArray[np.uint64], sorted_values: NDArray[np.uint64]) -> tuple[Positions, NDArray[np.bool_]]:
    """(for each value the first row that has it, which of them are there)."""
    at = np.searchsorted(sorted_values, values)
    at[at == len(sorted_values)] = 0
    return at, sorted_values[at] == values if len(sorted_values) else np.zeros(len(values), np.bool_)
