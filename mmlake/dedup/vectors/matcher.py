"""Semantic duplicates as stars: each unit is tied to one better placed unit whose vector is within the bound.

Enters: unit vectors and what decides who stays. Leaves: the vectors' matcher and its candidates. Units come in survivor
order, a block at a time, and are compared with those that lead so far: all of them (flat), or those in the cells that
lie as near as the nearest one, within a slack (cells; SemDeDup, Abbas et al. 2023, compares within one cell only). A
cluster of a thousand equal vectors is a thousand products, not half a million pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.prints import Positions, Ragged
from mmlake.dedup.settings import INDEXES, DedupSettings
from mmlake.dedup.vectors import proposals
from mmlake.dedup.vectors.index_choice import choose_index
from mmlake.errors import SettingsError

Vectors = NDArray[np.float32]
# which pairs (positions, two arrays of one length) are kept apart whatever their cosine
Apart = Callable[[Positions, Positions], NDArray[np.bool_]]

_SLACK = 1e-4  # candidates this far below the bound are kept for the float64 check: float32 products err by 1e-6
# units taken at once: few first, so that dense heaps soon have their leader, and never so many that their pairs, up to
# 256 of each in such a heap, take more than some 40 MB
_FIRST_BLOCK, _LAST_BLOCK = 256, 8_192
_ROWS, _PRODUCTS = 2_048, 1 << 22  # rows of a product, and cells of it: in a dense heap all of them are pairs
_OPEN, _LEADS, _FOLLOWS = range(3)  # of a unit, while a block is decided
_MOST_LEADERS = 16  # that a unit is given, the best placed ones
_NEAREST_CELLS = 16
CELLS_SEARCHED = (1, 2, 4, 8, 16)  # of the curve that a version keeps
_CELL_SLACK = 0.05  # of cosine behind the best cell, at least: recall .999 at 3.3 cells per vector on real embeddings
_SLACK_DEVIATIONS = 2.5  # that cover what two vectors within the bound differ by towards two centroids


def never_apart(left: Positions, right: Positions) -> NDArray[np.bool_]:
    """No pair is."""
    return np.zeros(len(left), np.bool_)


class VectorMatcher:
    """Vectors of one encoder: the same where the exact cosine reaches the bound."""

    min_shared = 1

    def __init__(
        self,
        vectors: Vectors,
        order: Positions,
        *,
        bound: float,
        apart: Apart = never_apart,
        settings: DedupSettings | None = None,
    ) -> None:
        settings = settings or DedupSettings()
        self._vectors, self._bound, self._apart = vectors, bound, apart
        self.keys = Ragged.empty(len(vectors))
        self.cells = _cells_of(vectors, order, bound - _SLACK, settings)  # None where another index searches
        found = list(_candidates(vectors, order, bound, apart, settings, self.cells))
        unit = np.concatenate([np.empty(0, np.int64), *(one for one, _ in found)])
        leader = np.concatenate([np.empty(0, np.int64), *(other for _, other in found)])
        self.neighbours = _both_ways(unit, leader, len(vectors))

    def near(self, one: int, listed: NDArray[np.bool_]) -> Positions:
        """The candidates of the unit among those that are listed: the neighbours are those that led before clusters
        elected, and survivors that came later are searched for as leaders were."""
        if self.cells is None:
            found: Positions = self.neighbours[one].astype(np.int64)
            return found[listed[found]]
        found = self.cells.near(one, listed, self._bound - _SLACK)
        return found[~self._apart(np.full(len(found), one, np.int64), found)]

    def compare(self, one: int, others: Positions) -> Found:
        """Cosines in float64, rounded to what float32 vectors can bear."""
        cosine = self._vectors[others].astype(np.float64) @ self._vectors[one].astype(np.float64)
        cosine = np.minimum(cosine.round(6), 1.0)
        near = cosine >= self._bound
        near[near] = ~self._apart(np.full(int(near.sum()), one, np.int64), others[near])
        relation = np.where(near, SAME, NONE).astype(np.int8)
        return Found(relation, np.maximum(cosine, 0.0), np.zeros(len(others), np.int8))


def _index_of(vectors: Vectors, settings: DedupSettings) -> str:
    """The index that searches these vectors. Raises SettingsError for an unknown one."""
    if settings.index not in INDEXES:
        raise SettingsError(f"dedup.index is {settings.index!r}; expected one of {', '.join(INDEXES)}")
    if len(vectors) < proposals.FEWEST:
        return "flat"
    return choose_index(*vectors.shape, settings=settings).index if settings.index == "auto" else settings.index


def _cells_of(vectors: Vectors, order: Positions, bound: float, settings: DedupSettings) -> Cells | None:
    index = _index_of(vectors, settings)
    if index not in ("flat", "cells") or len(vectors) < 2:
        return None
    num = 1 if index == "flat" else max(2, round(2 * len(vectors) ** 0.5))
    return Cells(vectors, order, proposals.centroids(vectors, num, settings) if num > 1 else None, bound)


def _candidates(
    vectors: Vectors, order: Positions, bound: float, apart: Apart, settings: DedupSettings, cells: Cells | None
) -> Iterator[tuple[Positions, Positions]]:
    """(units, candidates of them that are better placed), in blocks."""
    if len(vectors) < 2:
        return
    if cells is None:
        yield from proposals.proposed(vectors, bound - _SLACK, _index_of(vectors, settings), settings)
        return
    low, rows = 0, _FIRST_BLOCK
    while low < len(order):
        units = order[low : low + rows]
        one, other, product = cells.better_placed(units, bound - _SLACK)
        # who follows nobody in the end leads, and is a candidate itself: near the bound the exact cosine says it
        keep = product >= bound + _SLACK
        unsure = np.flatnonzero(~keep)
        keep[unsure] = proposals.cosines(vectors, one[unsure], other[unsure]) >= bound
        keep[keep] = ~apart(one[keep], other[keep])
        one, other, leads = _greedy(units, one[keep], other[keep])
        yield one, other
        cells.enlist(leads)
        low, rows = low + rows, min(2 * rows, _LAST_BLOCK)


def _greedy(units: Positions, one: Positions, other: Positions) -> tuple[Positions, Positions, Positions]:
    """(units, leaders of them, the units that lead): a unit follows where one of its candidates leads. Pairs come in
    any order, units in survivor order; candidates that are none of these units lead already.

    In rounds over whole arrays: who has no candidate leads, who has one that leads follows, and who has none but
    followers leads. What one of a heap decides is known in the second round, and memory is that of the pairs.
    """
    order = np.argsort(units)
    number, (row, column) = units[order], (np.searchsorted(units, side, sorter=order) for side in (one, other))
    is_here = number[np.minimum(column, len(units) - 1)] == other
    row, column = order[row].astype(np.int32), order[np.minimum(column, len(units) - 1)].astype(np.int32)
    state = np.full(len(units), _LEADS, np.int8)
    state[row] = _OPEN
    state[row[~is_here]] = _FOLLOWS
    left, right = row[is_here], column[is_here]
    while len(left):
        state[left[state[right] == _LEADS]] = _FOLLOWS
        is_open = state[left] == _OPEN
        left, right = left[is_open], right[is_open]
        waits = np.zeros(len(units), np.bool_)
        waits[left[state[right] == _OPEN]] = True
        state[left[~waits[left]]] = _LEADS
        left, right = left[waits[left]], right[waits[left]]
    leads = ~is_here
    leads[is_here] = state[column[is_here]] == _LEADS
    return one[leads], other[leads], units[state == _LEADS]


class Cells:
    """Units that lead, each in its nearest cell. Without centroids there is one cell, which is exact."""

    def __init__(self, vectors: Vectors, order: Positions, centroids: Vectors | None, bound: float) -> None:
        self._vectors, self._centroids = vectors, centroids
        # two unit vectors at cosine b lie sqrt(2 - 2b) apart; along one direction that is 1/sqrt(d) of it
        deviation = (2 * (2 - 2 * min(bound, 1.0)) / max(1, vectors.shape[1])) ** 0.5
        self._slack = max(_CELL_SLACK, _SLACK_DEVIATIONS * deviation)
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._home = np.zeros(len(order), np.int32)
        self._leaders: list[Positions] = [np.empty(0, np.int64)] * (1 if centroids is None else len(centroids))

    def better_placed(self, units: Positions, bound: float) -> tuple[Positions, Positions, NDArray[np.float32]]:
        """(unit, candidate, their product in float32) at or above the bound: candidates lead, or are of the same block
        and stand before the unit. At most `_MOST_LEADERS` of a unit and cell, the best placed ones."""
        rows, cells = self._probes(units)
        homes = np.argsort(self._home[units], kind="stable")
        bounds = np.searchsorted(self._home[units][homes], np.arange(len(self._leaders) + 1))
        begins = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
        ones, others, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for low, high in zip(begins, np.r_[begins[1:], len(rows)], strict=True):
            cell = int(cells[low])
            pool = np.concatenate((self._leaders[cell], units[homes[bounds[cell] : bounds[cell + 1]]]))
            if not len(pool):
                continue
            pooled = self._vectors[pool]
            step = min(_ROWS, max(1, _PRODUCTS // len(pool)))
            for at in range(low, high, step):
                here = units[rows[at : min(high, at + step)]]
                products = (self._vectors[here] @ pooled.T).ravel()
                near = np.flatnonzero(products >= bound)
                row, column = np.divmod(near, len(pool))
                better = self._place[pool[column]] < self._place[here[row]]
                row, column, near = row[better], column[better], near[better]
                first = np.searchsorted(row, row)
                few = np.arange(len(row)) - first < _MOST_LEADERS
                row, column = row[few], column[few]
                ones.append(here[row])
                others.append(pool[column])
                values.append(products[near[few]])
        return np.concatenate(ones), np.concatenate(others), np.concatenate(values)

    def enlist(self, leaders: Positions) -> None:
        """They lead from now on."""
        homes = self._home[leaders]
        order = np.argsort(homes, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(homes[order])) + 1) if len(order) else []:
            cell = int(homes[part[0]])
            self._leaders[cell] = np.concatenate((self._leaders[cell], leaders[part]))

    def near(self, one: int, listed: NDArray[np.bool_], bound: float) -> Positions:
        """Those of the listed units at or above the bound, but the unit itself, that lie in cells which are searched
        for it."""
        near: Positions
        if self._centroids is None:
            near = np.flatnonzero((self._vectors @ self._vectors[one] >= bound) & listed)
            near = near[near != one]
            return near
        products = self._vectors[[one]] @ self._centroids.T
        cells = np.flatnonzero(self._is_searched(products, products.argmax(axis=1)))
        of, begins = self._by_home
        among = np.concatenate([of[begins[cell] : begins[cell + 1]] for cell in cells.tolist()])
        among = np.sort(among[listed[among] & (among != one)])
        near = among[self._vectors[among] @ self._vectors[one] >= bound]
        return near

    @functools.cached_property
    def _by_home(self) -> tuple[Positions, Positions]:
        """(all units by the cell that is their home, where each cell begins)."""
        of = np.argsort(self._home, kind="stable")
        return of, np.searchsorted(self._home[of], np.arange(len(self._leaders) + 1))

    def curve(self, units: Positions, others: Positions) -> dict[int, tuple[int, int]]:
        """Cells searched for a unit -> (of these pairs, how many have the other unit in one of them; vectors compared
        for all of the units). Empty where one cell holds all, which is exact."""
        if self._centroids is None:
            return {}
        sizes = np.array([len(leaders) for leaders in self._leaders])
        rank, compared = np.empty(len(units), np.int64), np.zeros((0, len(sizes)), np.int64)
        for low in range(0, len(units), _ROWS):
            part, homes = units[low : low + _ROWS], self._home[others[low : low + _ROWS]]
            products = self._vectors[part] @ self._centroids.T
            rank[low : low + _ROWS] = (products > np.take_along_axis(products, homes[:, None], axis=1)).sum(axis=1)
            nearest = np.argsort(-products, axis=1, kind="stable")
            compared = np.concatenate((compared, np.cumsum(sizes[nearest], axis=1)))
        searched = [count for count in CELLS_SEARCHED if count <= len(sizes)]
        return {count: (int((rank < count).sum()), int(compared[:, count - 1].sum())) for count in searched}

    def _is_searched(self, products: Vectors, homes: Positions) -> NDArray[np.bool_]:
        """Which cells are searched for each row of products with their centroids: the two nearest, and those within the
        slack of the nearest, at most sixteen. homes: where the largest product is."""
        rows = np.arange(len(products))
        largest = products[rows, homes]
        products[rows, homes] = -np.inf
        second = products.max(axis=1)
        products[rows, homes] = largest
        near: NDArray[np.bool_] = products >= np.minimum(largest - self._slack, second)[:, None]
        count = min(_NEAREST_CELLS, products.shape[1])
        for one in np.flatnonzero(near.sum(axis=1) > count).tolist():
            near[one, np.argpartition(-products[one], count - 1)[count:]] = False
        return near

    def _probes(self, units: Positions) -> tuple[Positions, NDArray[np.int64]]:
        """(rows of the units, cells to search), sorted by cell. The nearest one becomes the unit's home."""
        if self._centroids is None:
            return np.arange(len(units)), np.zeros(len(units), np.int64)
        rows, cells = [], []
        for low in range(0, len(units), _ROWS):
            part = units[low : low + _ROWS]
            products = self._vectors[part] @ self._centroids.T
            self._home[part] = homes = products.argmax(axis=1)
            near = self._is_searched(products, homes)
            row, column = np.divmod(np.flatnonzero(near), near.shape[1])
            rows.append(row + low)
            cells.append(column)
        joined, of = np.concatenate(rows), np.concatenate(cells)
        order = np.argsort(of, kind="stable")
        return joined[order], of[order]


def _both_ways(unit: Positions, leader: Positions, num: int) -> Ragged:
    """The neighbours of each unit: its candidates, and those that it is a candidate of."""
    codes = np.unique(np.concatenate((unit * num + leader, leader * num + unit)))
    owners = codes // num if num else codes
    offsets = np.searchsorted(owners, np.arange(num + 1)).astype(np.int64)
    return Ragged((codes % num if num else codes).astype(np.uint64), offsets)


def recall(
    vectors: Vectors, dropped: Sequence[bool] | NDArray[np.bool_], *, bound: float, apart: Apart, seed: int, sample: int
) -> tuple[int, int]:
    """(units of a seeded sample that have a duplicate among the units that stay, how many of them were found).

    Exact: a sampled unit that stays is compared with all others that stay.
    """
    goes_for = np.where(np.asarray(dropped, np.bool_), 0, -1)
    found = duplicates_of_sample(vectors, goes_for, bound=bound, apart=apart, seed=seed, sample=sample)
    return len(found.units), found.num_found


class Sampled(NamedTuple):
    """Sampled units that have a duplicate among the units that stay, each with one of those; missed ones last."""

    units: Positions
    others: Positions
    num_found: int


def _near_among(vectors: Vectors, asking: Positions, others: Positions, bound: float) -> tuple[Positions, Positions]:
    """(asking unit, other unit) at or above the bound in float32; of each asking one the others in their order."""
    found = [np.empty((2, 0), np.int64)]
    for low in range(0, len(others), _LAST_BLOCK):
        block = others[low : low + _LAST_BLOCK]
        one, other = np.nonzero(vectors[asking] @ vectors[block].T >= bound)
        found.append(np.stack((asking[one], block[other])))
    one, other = np.concatenate(found, axis=1)
    return one, other


def duplicates_of_sample(
    vectors: Vectors, goes_for: NDArray[np.int64], *, bound: float, apart: Apart, seed: int, sample: int
) -> Sampled:
    """As `recall` counts them. goes_for: what each unit goes for, -1 where it stays."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:sample])
    stays = np.flatnonzero(goes_for < 0)
    found = chosen[goes_for[chosen] >= 0]
    units, others = [found], [goes_for[found]]
    for low in range(0, len(chosen), _ROWS):
        asking = chosen[low : low + _ROWS]
        asking = asking[goes_for[asking] < 0]
        one, other = _near_among(vectors, asking, stays, bound - _SLACK)
        sure = (one != other) & (proposals.cosines(vectors, one, other) >= bound)
        one, other = one[sure], other[sure]
        missed = ~apart(one, other)
        missed_units, first = np.unique(one[missed], return_index=True)
        units.append(missed_units)
        others.append(other[missed][first])
    return Sampled(np.concatenate(units), np.concatenate(others), len(found))
