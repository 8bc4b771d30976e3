"""A join that goes on from the one before: what is new costs what it touches, and the outcome is that of a whole join.

Enters: the units as they are, and a `Kept`: the first half of an earlier join with its keys and comparisons. Leaves:
the stars, and the `Kept` for next time. Whether a unit leads depends on the leaders before it that share its keys, and
on nothing else (mmlake/dedup/greedy.py): so only units are gone through again, in survivor order (`Repair`), of which
the candidates changed because a leader came or went. The second half runs as a whole, on comparisons that are known.
"""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edges, Led
from mmlake.dedup.image.keys import Known
from mmlake.dedup.kept.comparisons import Remembered, no_edges
from mmlake.dedup.kept.repair import Changes, Repair
from mmlake.dedup.matching import Matcher, OfItems
from mmlake.dedup.numbering import Index
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions, PrintTable, Ragged
from mmlake.dedup.splitmix import mix64
from mmlake.dedup.stars.leaders import Walk
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.stars.survivors import Standing
from mmlake.progress import Advance, silent

M = TypeVar("M", bound=Matcher)
_MOST_ALIKE = 4  # sorted texts that begin with the same eight bytes


def places(texts: pa.Array, among: pa.Array) -> Positions:
    """Where each of the texts stands among others; -1 where it does not."""
    one, other = _words(texts), _words(among)
    if one is not None and other is not None and one.shape[1] == other.shape[1]:
        sought, heads = one[:, 0].byteswap(), other[:, 0].byteswap()  # as the texts are sorted
        steps = np.flatnonzero(np.diff(heads, prepend=heads[0] - 1) != 0) if (heads[1:] >= heads[:-1]).all() else None
        if steps is not None and np.diff(steps, append=len(heads)).max() <= _MOST_ALIKE:
            return _among(one, other, np.searchsorted(heads, sought))
    if texts.type != among.type:  # one side has become more than offsets of 32 bits can count
        texts, among = texts.cast(pa.large_string()), among.cast(pa.large_string())
    found: Positions = pc.fill_null(pc.index_in(texts, value_set=among), -1).to_numpy().astype(np.int64)
    return found


def _among(texts: NDArray[np.uint64], others: NDArray[np.uint64], at: Positions) -> Positions:
    """Where each of the texts stands among sorted others, at this place or one of the next; -1 where it does not."""
    found = np.full(len(texts), -1, np.int64)
    left = np.arange(len(texts))
    for step in range(_MOST_ALIKE):
        left = left[at[left] + step < len(others)]
        is_here = (others.take(at[left] + step, axis=0) == texts.take(left, axis=0)).all(axis=1)
        found[left[is_here]] = at[left[is_here]] + step
        left = left[~is_here]
    return found


def _words(texts: pa.Array) -> NDArray[np.uint64] | None:
    """The bytes of texts of one length, eight at once, of shape (texts, words); None of others, and of none."""
    if isinstance(texts, pa.ChunkedArray) or not len(texts) or texts.null_count:
        return None
    wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, values = texts.buffers()
    begins = np.frombuffer(offsets, wide)[texts.offset : texts.offset + len(texts) + 1]
    length = int(begins[1] - begins[0])
    if not length or length % 8 or (np.diff(begins) != length).any():
        return None
    return np.frombuffer(values, np.uint8)[begins[0] : begins[-1]].reshape(-1, length).view("<u8")


@dataclass(frozen=True)
class Units:
    """What units are compared; positions are rows of all arrays."""

    digests: pa.Array  # sorted
    made_equal: NDArray[np.uint64] | Callable[[], NDArray[np.uint64]]  # `equal`, or what makes it when it is asked for
    items: pa.Array | None = None  # digests of the items that they are spans of

    @functools.cached_property
    def numbers(self) -> NDArray[np.uint64]:
        """A number of each that follows from its digest alone."""
        words = _words(self.digests)
        if words is None:
            sums = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in self.digests.to_pylist())
            return np.frombuffer(b"".join(sums), "<u8").astype(np.uint64)
        found = np.zeros(len(words), np.uint64)
        for column in words.T:
            found = mix64(found ^ column)
        return found

    @functools.cached_property
    def equal(self) -> NDArray[np.uint64]:
        """Of shape (units, 2): of their prints."""
        return self.made_equal() if callable(self.made_equal) else self.made_equal

    def judged_by(self, matcher: M) -> M | OfItems:
        """The matcher, which says less of two spans of one item."""
        if self.items is None or len(distinct := pc.unique(self.items)) == len(self.items):
            return matcher
        return OfItems(matcher, pc.index_in(self.items, value_set=distinct).to_numpy())

    def derived(self, prints: PrintTable, make: Callable[[PrintTable], Ragged], prior: Kept | None) -> Ragged:
        """What `make` makes of the prints of each, made now for those that an earlier join does not have."""
        if prior is None or prior.derived is None:
            return make(prints)
        at = self._before(prior)
        new = np.flatnonzero(at < 0)
        made = make({method: rows.take(new) for method, rows in prints.items()})
        at[new] = len(prior.derived) + np.arange(len(new))
        both = Ragged(
            np.concatenate((prior.derived.values, made.values)),
            np.concatenate((prior.derived.offsets, prior.derived.offsets[-1] + made.offsets[1:])),
        )
        return both.take(at)

    def known(self, prior: Kept | None) -> Known | None:
        """The keys of an earlier join that has what they were made of."""
        if prior is None or prior.derived is None:
            return None
        return Known(prior.derived, prior.keys, self._before(prior))

    def _before(self, prior: Kept) -> Positions:
        """Of each unit the row that it had with the same prints; -1: none."""
        at = places(self.digests, prior.units.digests)
        known = np.flatnonzero(at >= 0)
        at[known[(prior.units.equal[at[known]] != self.equal[known]).any(axis=1)]] = -1
        return at


@dataclass(frozen=True, slots=True)
class Elections:
    """Which clusters elected whom, and by what; arrays but the last have a row per unit."""

    criteria: str
    rank: Positions
    priority: NDArray[np.int64]
    is_clean: NDArray[np.bool_]
    values: NDArray[np.float64]
    clusters: Ragged  # of each the winner, then all members, sorted

    @classmethod
    def of(cls, standing: Standing, found: dict[tuple[int, ...], int]) -> Elections:
        """Those that were found."""
        clusters = Ragged.of(np.array([winner, *members], np.uint64) for members, winner in found.items())
        return cls(
            repr(standing.criteria), standing.rank, standing.priority, standing.is_clean, standing.values, clusters
        )

    def still(self, standing: Standing, at: Positions, is_same: NDArray[np.bool_]) -> dict[tuple[int, ...], int]:
        """Those of which all members are there, unchanged, and stand as they stood. at: where units stand now."""
        rows = np.flatnonzero(is_same)
        now = at[rows]
        if repr(standing.criteria) != self.criteria or not _in_one_order(self.rank[rows], standing.rank[now]):
            return {}
        stands = is_same.copy()
        stands[rows] = (self.priority[rows] == standing.priority[now]) & (self.is_clean[rows] == standing.is_clean[now])
        values = self.values[rows], standing.values[now]
        stands[rows] &= ((values[0] == values[1]) | (np.isnan(values[0]) & np.isnan(values[1]))).all(axis=1)
        members, begins = self.clusters.values.astype(np.int64), self.clusters.offsets[:-1]
        good = np.logical_and.reduceat(stands[members], begins) if len(begins) else np.empty(0, np.bool_)
        kept = self.clusters.take(np.flatnonzero(good))
        row, ends = at[kept.values.astype(np.int64)].tolist(), kept.offsets.tolist()
        # digests are sorted in both, so members stay sorted
        return {tuple(row[low + 1 : high]): row[low] for low, high in zip(ends[:-1], ends[1:], strict=True)}


@dataclass(frozen=True, slots=True)
class Kept:
    """A join as it was."""

    units: Units
    order: Positions  # of survivors
    keys: Ragged
    led: Led
    known: Edges  # every comparison that was made, sorted by left and right
    elections: Elections
    index: Index  # of the keys
    derived: Ragged | None = None  # what keys are made of, where a tier says so


def kept_stars(
    matcher: Matcher, standing: Standing, *, units: Units, prior: Kept | None, advance: Advance = silent
) -> tuple[Stars, Matcher, Callable[[], Kept]]:
    """(what `leaders.stars` gives, a matcher that knows what was compared, what the next join goes on from: asked for
    once nothing more is compared).

    prior: of a matcher of the same kind and settings, whose verdicts depend on the prints of the two units alone.
    """
    old = None if prior is None or matcher.neighbours is not None else _Old.of(prior, units, matcher)
    remembered = Remembered(matcher, no_edges() if old is None else old.known)
    judge = units.judged_by(remembered)
    walk = Walk(judge, standing, None if prior is None or old is None else old.postings(prior, matcher.keys))
    walk.elections = {}
    if prior is None or old is None:
        walk.lead_all(units.equal, advance=advance, is_kept=True)
        led = walk.led()
    else:
        changes = old.changes(prior, walk.place)
        led = Repair(judge, walk.order, walk.place, walk.postings, changes, remembered.learn).led(units.equal)
        walk.take_over(led)
        walk.known_elections = prior.elections.still(standing, old.at, old.has_prints)
        advance(len(standing))
    found = walk.settled()
    elections = Elections.of(standing, walk.elections)
    return (
        found,
        judge,
        lambda: Kept(units, walk.order, matcher.keys, led, remembered.known(), elections, walk.postings.index),
    )


@dataclass(frozen=True, slots=True)
class _Old:
    """An earlier join, seen from the units as they are now."""

    at: Positions  # of its units, where they stand now; -1 for those that are gone
    has_prints: NDArray[np.bool_]  # of its units: still there, with the same prints
    has_keys: NDArray[np.bool_]  # and with the same keys
    is_same: NDArray[np.bool_]  # and of the same item
    known: Edges

    @classmethod
    def of(cls, prior: Kept, units: Units, matcher: Matcher) -> _Old:
        """What of it still holds."""
        at = places(prior.units.digests, units.digests)
        here = np.flatnonzero(at >= 0)
        has_prints = at >= 0
        has_prints[here] = (prior.units.equal[here] == units.equal[at[here]]).all(axis=1)
        has_keys = has_prints.copy()
        if prior.derived is not prior.keys:  # keys that are derived follow from the prints
            has_keys[here] &= _equal_rows(prior.keys, here, matcher.keys, at[here])
        is_same = has_keys.copy()
        if prior.units.items is None or units.items is None:
            is_same &= prior.units.items is units.items
        else:
            is_same[here] &= pc.equal(prior.units.items.take(here), units.items.take(at[here])).to_numpy(
                zero_copy_only=False
            )
        known = prior.known.take(has_prints[prior.known.left] & has_prints[prior.known.right])
        # digests are sorted in both, so the rows stay sorted
        known = known._replace(left=at[known.left], right=at[known.right])
        return cls(at, has_prints, has_keys, is_same, known)

    def postings(self, prior: Kept, keys: Ragged) -> Postings:
        """The index of the keys, from that of the earlier join."""
        rows, at = np.flatnonzero(self.has_keys), np.full(len(keys), -1, np.int64)
        at[self.at[rows]] = rows
        return Postings(keys, (prior.index, at))

    def changes(self, prior: Kept, place: Positions) -> Changes:
        """What came and went, and the outcome for all others. place: in survivor order, of the units as they are."""
        before = prior.order[self.is_same[prior.order]]
        is_staying = self.is_same.copy()
        is_staying[before[~_rising(place[self.at[before]])]] = False
        leads = np.ones(len(self.at), np.bool_)
        leads[prior.led.follows.right] = leads[prior.led.released] = False
        return Changes(
            at=self.at, is_staying=is_staying, led_before=leads, equal=prior.units.equal, keys=prior.keys,
            led=prior.led,
        )  # fmt: skip


def _in_one_order(one: Positions, other: Positions) -> bool:
    return bool((np.diff(other[np.argsort(one)]) > 0).all())


def _equal_rows(one: Ragged, rows: Positions, other: Ragged, others: Positions) -> NDArray[np.bool_]:
    """Which of the rows hold the same values."""
    equal: NDArray[np.bool_] = one.lengths[rows] == other.lengths[others]
    some = np.flatnonzero(equal & (one.lengths[rows] > 0))
    if len(some):
        left, right = one.take(rows[some]), other.take(others[some])
        equal[some] = np.logical_and.reduceat(left.values == right.values, left.offsets[:-1])
    return equal


def _rising(places: Positions) -> NDArray[np.bool_]:
    """Which of the places form a longest rising subsequence (Schensted 1961); all of them where nothing moved."""
    if (np.diff(places) > 0).all():
        return np.ones(len(places), np.bool_)
    tails: list[int] = []
    last: list[int] = []  # row of each tail
    before = np.full(len(places), -1, np.int64)
    for row, value in enumerate(places.tolist()):
        at = bisect_left(tails, value)
        before[row] = last[at - 1] if at else -1
        tails[at : at + 1] = [value]
        last[at : at + 1] = [row]
    rising = np.zeros(len(places), np.bool_)
    row = last[-1]
    while row >= 0:
        rising[row] = True
        row = int(before[row])
    return rising
