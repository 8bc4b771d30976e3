"""Copies that were cut at other places: units of which no other unit has all, but the units of one item together.

A film that was trimmed and coded again is cut into units at other borders, as is an excerpt that crosses a border of
what it was taken from: each of its units overlaps two of the original's, and by pairs alone all would stay. So a unit
that only overlaps others is compared once more, with units of one item behind each other (a run). Where the run holds
all of it, in one part or in several, it goes for the unit of the run that it has most in common with.

Enters: the edges at which a join ends. Leaves: the same, with ACROSS in place of OVERLAPS where that is so. What they
come to depends on the edges and the prints alone, so a join that goes on from an earlier one ends at the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edge, EdgeRows, Edges
from mmlake.dedup.matching import ACROSS, INSIDE, OVERLAPS, SAME
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.stars.survivors import Standing

_MOST_ITEMS = 2  # whose units a unit is compared with: those that it has most in common with
_LEAST_SHARE = 0.2  # of a unit, in common with one item: less is a jingle, or an intro
_MOST_UNITS = 6  # of a run: a unit has at most 30 s, most others at least 10
_MARGIN_S = 2.0  # by which a run is longer than what it has to hold: spans of common parts are that exact
_GAP_US = 20_000  # between two units that follow each other: borders are whole frames or hops


class Covers(Protocol):
    """A matcher that knows what a unit has in common with several others behind each other."""

    def covered(self, one: int, run: Positions, seconds: NDArray[np.float64]) -> float:
        """How alike the unit and what it has in common with the run are, 0..1; 0 where the run does not hold all of it.
        seconds: how long each unit of the run is; none of them has a gap behind it."""


@dataclass(frozen=True)
class Places:
    """Where in which item each unit lies; arrays with a row per unit."""

    items: Positions  # a number that stands for the item
    starts_us: NDArray[np.int64]
    ends_us: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: pa.Table | None) -> Places | None:
        """Those of a table with parent_digest, start and end; None where it has no such columns."""
        if nodes is None or not {"parent_digest", "start", "end"} <= set(nodes.column_names):
            return None
        items = nodes["parent_digest"].combine_chunks().dictionary_encode().indices
        starts, ends = (nodes[name].cast(pa.int64()).fill_null(0).to_numpy() for name in ("start", "end"))
        return cls(items.to_numpy().astype(np.int64), starts, ends)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """How long each unit is."""
        found: NDArray[np.float64] = (self.ends_us - self.starts_us) / 1e6
        return found


class _Meeting(NamedTuple):
    """What a unit has in common with the units of one item."""

    shared_s: float
    other: int  # the unit of the item that it has most in common with
    others: tuple[int, ...]  # all that it has something in common with
    span_s: tuple[float, float, float, float]  # of both
    score: float
    method: int


def led_across(edges: Stars, standing: Standing, places: Places, covers: Covers) -> Stars:
    """The edges, with units that lie in a run of another item's units led by one of these.

    Units of the item whose best unit stands last go first, and nothing goes for what went: of two items that hold each
    other one stays.
    """
    table = _table(edges)
    rows = np.flatnonzero(table.relation == OVERLAPS)
    if not len(rows) or table.spans_s is None:
        return edges
    walk = _Walk(table, standing, places, covers)
    for one, meetings in walk.in_turn(rows):
        for meeting in meetings:
            if walk.lead(one, meeting):
                break
    return walk.edges()


class _Walk:
    """What goes across, while it is found out."""

    def __init__(self, table: Edges, standing: Standing, places: Places, covers: Covers) -> None:
        self._table, self._standing, self._places, self._covers = table, standing, places, covers
        self._keeper = np.arange(len(standing))
        follows = np.flatnonzero((table.relation == SAME) | (table.relation == INSIDE))
        self._keeper[table.right[follows]] = table.left[follows]
        self._followers = table.right[follows][np.argsort(table.left[follows], kind="stable")]
        self._leaders = np.sort(table.left[follows], kind="stable")
        self._place = np.empty(len(standing), np.int64)
        self._place[standing.order()] = np.arange(len(standing))
        self._order = np.lexsort((places.starts_us, places.items))  # units of one item together, in time
        self._at = np.empty(len(standing), np.int64)
        self._at[self._order] = np.arange(len(standing))
        self._gone: set[int] = set()
        self._wanted: set[int] = set()  # by what went
        self._held: dict[int, bool] = {}  # `_stays` of those asked for
        self._found: dict[int, tuple[int, Edge]] = {}  # what goes: for whom, and how

    def in_turn(self, rows: Positions) -> Iterator[tuple[int, list[_Meeting]]]:
        """Each unit that stays and overlaps units of other items, with what it has in common with which of them."""
        items, table = self._places.items, self._table
        ones = np.concatenate((table.left[rows], table.right[rows]))
        others = np.concatenate((table.right[rows], table.left[rows]))
        usable = np.flatnonzero((self._keeper[ones] == ones) & (items[ones] != items[others]))
        best = np.full(int(items.max(initial=0)) + 1, len(self._place))
        np.minimum.at(best, items, self._place)
        # by turn, units of one item together
        usable = usable[np.lexsort((self._place[others[usable]], items[others[usable]], ones[usable]))]
        usable = usable[np.lexsort((self._places.starts_us[ones[usable]], -best[items[ones[usable]]]))]
        for low, high in _runs(ones[usable]):
            one, met = int(ones[usable[low]]), list[_Meeting]()
            for first, end in _runs(items[others[usable[low:high]]]):
                met.append(self._meeting(usable[low + first : low + end], rows, others))
            yield (
                one,
                [meeting for meeting in sorted(met, key=self._least)[:_MOST_ITEMS] if self._is_enough(one, meeting)],
            )

    def _meeting(self, sides: Positions, rows: Positions, others: Positions) -> _Meeting:
        """What one unit has in common with those of one item. sides: of `rows`, seen from the left, then the right."""
        spans = self._table.spans_s
        assert spans is not None
        is_right = sides >= len(rows)
        at = rows[sides % len(rows)]
        spans_s = np.where(is_right[:, None], spans[at][:, [2, 3, 0, 1]], spans[at]).astype(np.float64)
        shared_s = spans_s[:, 1] - spans_s[:, 0]
        most = int(np.argmax(shared_s))  # of equals the better placed, which stands first
        a, b, c, d = spans_s[most].tolist()
        return _Meeting(
            float(shared_s.sum()), int(others[sides[most]]), tuple(others[sides].tolist()), (a, b, c, d),
            float(self._table.score[at[most]]), int(self._table.method[at[most]]),
        )  # fmt: skip

    def _least(self, meeting: _Meeting) -> tuple[float, int]:
        return -round(meeting.shared_s, 3), int(self._place[meeting.other])

    def _is_enough(self, one: int, meeting: _Meeting) -> bool:
        return meeting.shared_s >= _LEAST_SHARE * float(self._places.seconds[one])

    def lead(self, one: int, meeting: _Meeting) -> bool:
        """Let the unit, and what goes for it, go for the other, where units around that one hold all of it."""
        if one in self._wanted:
            return False
        run = self._run(one, meeting)
        keepers = np.unique(self._keeper[run])
        leader = int(self._keeper[meeting.other])
        low, high = np.searchsorted(self._leaders, [one, one + 1])
        goers = [one, *self._followers[low:high].tolist()]
        if one in keepers or self._gone & set(keepers.tolist()):
            return False
        if (self._places.items[goers] == self._places.items[leader]).any():  # what an item repeats is no copy
            return False
        if not all(self._standing.allows(keepers, goer).all() for goer in goers):
            return False
        if not all(map(self._stays, run.tolist())):
            return False
        seconds = self._places.seconds[run]
        scores: list[float] = []
        for goer in goers:
            scores.append(self._covers.covered(goer, run, seconds))
            if not scores[-1]:
                return False
        for goer, score in zip(goers, scores, strict=True):
            a, b, c, d = meeting.span_s
            spans_s = (c, d, a, b) if goer == one and leader == meeting.other else None
            self._found[goer] = leader, Edge(ACROSS, score, meeting.method, spans_s)
        self._gone.add(one)
        self._wanted.update(keepers.tolist())
        return True

    def _stays(self, one: int) -> bool:
        """Whether all of the unit stays: it does itself, or whom it goes for holds it. Two films may be the same where
        each has a third that the other has not."""
        if one not in self._held:
            keeper = self._keeper[[one]]
            seconds = self._places.seconds[keeper]
            self._held[one] = int(keeper[0]) == one or bool(self._covers.covered(one, keeper, seconds))
        return self._held[one]

    def _run(self, one: int, meeting: _Meeting) -> Positions:
        """Units of the other's item around it, as many as can hold the unit, and those that it overlaps."""
        first, end, in_first, in_end = meeting.span_s
        seconds = self._places.seconds
        rest_s = float(seconds[meeting.other])
        before_s = first - in_first + _MARGIN_S
        behind_s = float(seconds[one]) - end - (rest_s - in_end) + _MARGIN_S
        run, met = [meeting.other], self._at[list(meeting.others)]
        for step, wanted_s, last in ((-1, before_s, int(met.min())), (1, behind_s, int(met.max()))):
            at = int(self._at[meeting.other])
            while (wanted_s > 0 or at * step < last * step) and len(run) < _MOST_UNITS and self._goes_on(at, step):
                at += step
                run.append(int(self._order[at]))
                wanted_s -= float(seconds[run[-1]])
        units = np.array(run, np.int64)
        ordered: Positions = units[np.argsort(self._places.starts_us[units])]
        return ordered

    def _goes_on(self, at: int, step: int) -> bool:
        """Whether a unit of the same item follows without a gap."""
        if not 0 <= at + step < len(self._order):
            return False
        one, other = self._order[[min(at, at + step), max(at, at + step)]].tolist()
        is_next = abs(int(self._places.starts_us[other] - self._places.ends_us[one])) <= _GAP_US
        return bool(self._places.items[one] == self._places.items[other]) and is_next

    def edges(self) -> Stars:
        """All edges, those across in place of what they make void."""
        table, stars, num = self._table, Stars(), len(self._place)
        rows = EdgeRows()
        for one in sorted(self._found, key=lambda one: self._place[one]):
            leader, edge = self._found[one]
            rows.add(leader, one, edge)
        found = rows.edges()
        is_follow = (table.relation == SAME) | (table.relation == INSIDE)
        is_void = is_follow & np.isin(table.right, found.right)
        is_void |= np.isin(_codes(table, num), _codes(found, num))
        stars.add_all(table.take(~is_void & is_follow))
        stars.add_all(found)
        stars.add_all(table.take(~is_void & ~is_follow))
        return stars


def _runs(values: Positions) -> Iterator[tuple[int, int]]:
    """(first, end) of each run of equal values."""
    ends = np.append(np.flatnonzero(np.diff(values)) + 1, len(values)).tolist() if len(values) else []
    yield from zip([0, *ends], ends, strict=False)


def _codes(edges: Edges, num: int) -> Positions:
    """A number for each pair, whichever of the two comes first."""
    codes: Positions = np.minimum(edges.left, edges.right) * num + np.maximum(edges.left, edges.right)
    return codes


def _table(edges: Stars) -> Edges:
    return Edges(
        np.array(edges.left, np.int64),
        np.array(edges.right, np.int64),
        np.array(edges.relation, np.int8),
        np.array(edges.score, np.float64),
        np.array(edges.method, np.int8),
        edges.spans_s.array(),
    )
