"""The first half of a join, made from the one of an earlier set of units: only what something new touches is judged.

Who leads depends on the leaders before it alone, so there is one outcome, in whatever order units are judged: what is
touched is judged together, again and again, until nobody leads, or leads no more, that others were not judged with.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import MOST_LEADERS, Candidates, Edge, EdgeRows, Edges, Led
from mmlake.dedup.kept.comparisons import joined
from mmlake.dedup.loops import key_kernels
from mmlake.dedup.matching import HOLDS, SAME, Each
from mmlake.dedup.postings import MOST_PER_KEY, Postings
from mmlake.dedup.prints import Positions, Ragged, rows_in
from mmlake.dedup.stars.judged import Judged

_CHUNK = 64  # units compared with one other at once
_MOST_NEW = 256  # new units judged at once


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
        self, matcher: Each, order: Positions, place: Positions, postings: Postings, changes: Changes,
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
        self._leads = np.zeros(num, np.bool_)  # by place
        self._leads[place[changes.at[staying]]] = changes.led_before[staying]
        follows = self._kept(changes.led.follows, changes.led.follows.right)
        self._leader_of = np.full(num, -1, np.int64)
        self._leader_of[follows.right] = follows.left
        taken = staying[changes.led.head_of[staying] >= 0]
        self._head_of = np.full(num, -1, np.int64)
        self._head_of[changes.at[taken]] = changes.at[changes.led.head_of[taken]]
        self._was_taken = np.zeros(num, np.bool_)
        self._was_taken[changes.at[taken]] = True
        self._candidates, self._is_bereft = self._candidates_before(staying)
        self._may_be_full: NDArray[np.bool_] = np.diff(self._begins) > MOST_PER_KEY  # keys: more hold it than it lists
        self._lists: dict[int, list[int]] = {}  # number of a key -> places of the leaders that have it
        self._has_list = np.zeros(len(postings.shared), np.bool_)
        self._long_begins = np.full(len(postings.shared), -1, np.int64)  # of keys with full lists: see below
        self._counts, self._room = np.zeros(num, np.int32), np.empty(num, np.int64)
        self._waiting: list[int] = []  # places of the units to judge
        self._is_waiting = np.zeros(num, np.bool_)
        self._is_touched = np.zeros(num, np.bool_)  # heads whose members, or whose leader, may be others now
        self._follows = EdgeRows()  # of those that are taken with their equal prints
        self._released: list[int] = []

    def led(self, equal: NDArray[np.uint64]) -> Led:
        """The outcome for the units as they are."""
        self._collapse(equal)
        while self._waiting:
            waiting, self._waiting = np.sort(np.array(self._waiting, np.int64)), []
            units = self._order[waiting]
            # of what is new nothing is known: it is judged before the others, so that these meet all that will lead,
            # and few at once to begin with, so that a heap of new ones soon has its leader
            new, low = units[~self._stays[units]], 0
            while low < len(new):
                rows = min(low + 1, _MOST_NEW)
                self._judge(new[low : low + rows])
                low += rows
            touched, self._waiting = self._order[np.unique(np.append(waiting, self._waiting).astype(np.int64))], []
            self._judge(touched[self._is_waiting[touched]])
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
        leaving = np.flatnonzero(is_taken & self._leads[self._place])
        self._leads[self._place[leaving]] = False
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
        rows = rows_in(self._postings.shared, keys)
        numbers, num_lost = np.unique(
            np.concatenate([rows[rows >= 0], *(self._postings.numbers(one) for one in leaving.tolist())]),
            return_counts=True,
        )
        num_held = self._begins[numbers + 1] - self._begins[numbers]
        for at in np.flatnonzero(num_held + num_lost > MOST_PER_KEY).tolist():
            listed, first = self._listed(int(numbers[at])), MOST_PER_KEY - int(num_lost[at])
            if first < len(listed):
                self._wait_behind(int(numbers[at]), listed[first] if first >= 0 else -1)

    def _judge(self, units: Positions) -> None:
        """Steps 2 and 3 for the units, in survivor order, among the leaders that there are; whom it touches waits."""
        self._is_waiting[units] = False
        self._is_anew[units] = self._is_touched[units] = True
        self._note_candidates(units)
        among = self._compared_with_candidates(units)
        takers = among.takers()
        self._leader_of[units] = -1
        self._leader_of[among.ones[takers]] = among.others[takers]
        places = self._place[units]
        leads = self._leader_of[units] < 0
        for at in np.flatnonzero(self._leads[places] != leads).tolist():
            one, place = int(units[at]), int(places[at])
            if self._is_waiting[one]:
                continue  # it was judged among others than those that lead by now
            self._leads[place] = leads[at]
            if leads[at]:
                self._come(one, place)
            else:
                self._go(one, place)

    def _come(self, one: int, place: int) -> None:
        """A unit leads now: of those behind it all are judged that have it among their candidates, or lose another
        one that it pushes out of a full list."""
        numbers = self._postings.numbers(one)
        for number in numbers[self._has_list[numbers]].tolist():
            insort(self._lists[number], place)
        is_met = np.ones(len(numbers), np.bool_)
        for at in np.flatnonzero(self._may_be_full[numbers]).tolist():
            listed = self._listed(int(numbers[at]))
            is_met[at] = bisect_left(listed, place) < MOST_PER_KEY
            if is_met[at] and len(listed) > MOST_PER_KEY:
                pushed = listed[MOST_PER_KEY]
                others = self._order[self._behind(numbers[[at]], pushed)]
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
        numbers = self._postings.numbers(one)
        for number in numbers[self._has_list[numbers]].tolist():
            del self._lists[number][bisect_left(self._lists[number], place)]
        was_met = np.ones(len(numbers), np.bool_)
        for at in np.flatnonzero(self._may_be_full[numbers]).tolist():
            listed = self._listed(int(numbers[at]))
            was_met[at] = bisect_left(listed, place) < MOST_PER_KEY
            if was_met[at] and len(listed) >= MOST_PER_KEY:
                self._wait_behind(int(numbers[at]), listed[MOST_PER_KEY - 1])
        others = self._order[np.unique(self._behind(numbers[was_met], place))]
        self._wait_all(others[(self._candidates.units[others] == one).any(axis=1)])

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
            listed = self._lists[number] = places[self._leads[places]].tolist()
            self._has_list[number] = True
        return listed

    def _wait(self, one: int) -> None:
        if not self._is_waiting[one] and self._head_of[one] < 0:
            self._is_waiting[one] = True
            self._waiting.append(int(self._place[one]))

    def _note_candidates(self, units: Positions) -> None:
        """The candidates of each of the units, as `leaders.Walk` finds them."""
        numbers, offsets = self._postings.numbers_of(units)
        places, shape = self._place[units], (len(units), MOST_LEADERS)
        found, shared = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
        is_long = self._may_be_full[numbers]
        listed = self._handed_over(np.unique(numbers[is_long]))
        kernels = key_kernels.compiled(len(numbers))
        if kernels is not None:
            kernels.leading(
                numbers, offsets, places, self._begins, self._holder_places, self._long_begins, listed, self._leads,
                self._matcher.min_shared, self._counts, self._room, found, shared,
            )  # fmt: skip
        else:
            for at, (low, high) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
                met = self._met(numbers[low:high], is_long[low:high], int(places[at]))
                found[at, : len(met[0])], shared[at, : len(met[0])] = met
        self._candidates.note_all(units, np.where(found < 0, -1, self._order[found]), shared[:, -1])

    def _handed_over(self, numbers: Positions) -> Positions:
        """Of keys with full lists those that are listed, one key after the other, how many they are before them; where
        each begins is noted."""
        lists = [self._listed(number)[:MOST_PER_KEY] for number in numbers.tolist()]
        ends = np.cumsum([1 + len(listed) for listed in lists], dtype=np.int64)
        self._long_begins[numbers] = ends - [1 + len(listed) for listed in lists]
        return np.array([one for listed in lists for one in (len(listed), *listed)], np.int64)

    def _met(self, numbers: Positions, is_long: NDArray[np.bool_], place: int) -> tuple[Positions, Positions]:
        """(places of the candidates of the unit at this place, how many of its keys they have), the last one last."""
        places = self._places_of(numbers[~is_long])
        parts = [places[(places < place) & self._leads[places]]]
        for number in numbers[is_long].tolist():
            listed = self._listed(number)
            parts.append(np.array(listed[: min(MOST_PER_KEY, bisect_left(listed, place))], np.int64))
        found, shared = np.unique(np.concatenate(parts), return_counts=True)
        usable = shared >= self._matcher.min_shared
        found, shared = found[usable], shared[usable]
        best = np.lexsort((found, -shared))[:MOST_LEADERS]
        return found[best], shared[best]

    def _compared_with_candidates(self, units: Positions) -> Judged:
        """The units against their candidates."""
        candidates = self._candidates.units[units]
        places = np.sort(np.where(candidates < 0, -1, self._place[candidates]), axis=1)
        row, at = np.nonzero(places >= 0)
        ones, others = units[row], self._order[places[row, at]]
        return Judged(ones, others, self._matcher.compare_each(ones, others))

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
        old, judged = self._changes.led, np.flatnonzero(self._is_anew & (self._head_of < 0))
        new = self._compared_with_candidates(judged)
        self._follows.add_all(new.follows())
        released = self._changes.at[old.released[self._changes.is_staying[old.released]]]
        return Led(
            follows=joined(self._kept(old.follows, old.follows.right), self._follows.edges()),
            held=joined(self._kept(old.held, old.held.left), new.held()),
            overlaps=joined(self._kept(old.overlaps, old.overlaps.right), new.overlaps()),
            misses=joined(self._kept(old.misses, old.misses.right), new.misses()),
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
