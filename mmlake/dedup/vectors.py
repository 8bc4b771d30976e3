"""Semantic duplicates as stars: each unit is tied to one better placed unit whose vector is within the bound.

Enters: unit vectors and what decides who stays. Leaves: the vectors' matcher and its candidates. Units come in survivor
order, a block at a time, and are compared with those that lead so far: all of them (flat), or those in the cells that
lie as near as the nearest one, within a slack (cells; SemDeDup, Abbas et al. 2023, compares within one cell only). A
cluster of a thousand equal vectors is a thousand products, not half a million pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import semantic
from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.prints import Positions, Ragged
from mmlake.dedup.settings import INDEXES, DedupSettings
from mmlake.errors import SettingsError

Vectors = NDArray[np.float32]
# which pairs (positions, two arrays of one length) are kept apart whatever their cosine
Apart = Callable[[Positions, Positions], NDArray[np.bool_]]

_SLACK = 1e-4  # candidates this far below the bound are kept for the float64 check: float32 products err by 1e-6
_BLOCK_ROWS = 1_024
_MOST_LEADERS = 16  # that a unit is given, the nearest ones
_NEAREST_CELLS = 8
_CELL_SLACK = 0.05  # of cosine behind the best cell: recall .999 at 3.3 cells per vector on real embeddings


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
        found = list(_candidates(vectors, order, bound - _SLACK, apart, settings))
        unit = np.concatenate([np.empty(0, np.int64), *(one for one, _ in found)])
        leader = np.concatenate([np.empty(0, np.int64), *(other for _, other in found)])
        self.neighbours = _both_ways(unit, leader, len(vectors))

    def compare(self, one: int, others: Positions) -> Found:
        """Cosines in float64, rounded to what float32 vectors can bear."""
        cosine = self._vectors[others].astype(np.float64) @ self._vectors[one].astype(np.float64)
        cosine = np.minimum(cosine.round(6), 1.0)
        near = cosine >= self._bound
        near[near] = ~self._apart(np.full(int(near.sum()), one, np.int64), others[near])
        relation = np.where(near, SAME, NONE).astype(np.int8)
        return Found(relation, np.maximum(cosine, 0.0), np.zeros(len(others), np.int8))


def _candidates(
    vectors: Vectors, order: Positions, bound: float, apart: Apart, settings: DedupSettings
) -> Iterator[tuple[Positions, Positions]]:
    """(units, candidates of them that are better placed), in blocks."""
    index = settings.index
    if index not in INDEXES:
        raise SettingsError(f"dedup.index is {index!r}; expected one of {', '.join(INDEXES)}")
    if len(vectors) < 2:
        return
    if index == "auto":
        index = "flat" if len(vectors) < settings.flat_max_items else "cells"
    if index not in ("flat", "cells"):
        yield from semantic.proposed(vectors, bound, index, settings)
        return
    room: _Flat | _Cells = _Flat() if index == "flat" else _Cells(vectors, settings)
    for low in range(0, len(order), _BLOCK_ROWS):
        units = order[low : low + _BLOCK_ROWS]
        led, leaders = _kept(*room.near(vectors, units, bound), apart)
        yield led, leaders
        free = units[~np.isin(units, led)]
        one, other = np.nonzero(np.tril(vectors[free] @ vectors[free].T >= bound, -1))
        one, other = _kept(free[one], free[other], apart)
        followers, places = _greedy(free, one, other)
        yield one[places], other[places]
        room.add(vectors, free[~np.isin(free, followers)])


def _kept(units: Positions, leaders: Positions, apart: Apart) -> tuple[Positions, Positions]:
    keep = ~apart(units, leaders)
    return units[keep], leaders[keep]


def _greedy(free: Positions, one: Positions, other: Positions) -> tuple[Positions, NDArray[np.bool_]]:
    """(those of a block that follow another of it, in its order; which pairs name one that leads)."""
    follows: set[int] = set()
    order = {unit: at for at, unit in enumerate(free.tolist())}
    keep = np.zeros(len(one), np.bool_)
    for at in np.argsort([order[unit] for unit in one.tolist()], kind="stable").tolist():
        if int(other[at]) not in follows:
            follows.add(int(one[at]))
            keep[at] = True
    return np.array(sorted(follows), np.int64), keep


class _Flat:
    """Every unit against every leader."""

    def __init__(self) -> None:
        self._leaders: list[Positions] = []

    def near(self, vectors: Vectors, units: Positions, bound: float) -> tuple[Positions, Positions]:
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for leaders in self._leaders:
            one, other = _closest(vectors[units] @ vectors[leaders].T, bound)
            parts.append((units[one], leaders[other]))
        return np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts])

    def add(self, vectors: Vectors, leaders: Positions) -> None:
        self._leaders.append(leaders)


class _Cells:
    """Every unit against the leaders of the cells around it."""

    def __init__(self, vectors: Vectors, settings: DedupSettings) -> None:
        num = max(2, round(2 * len(vectors) ** 0.5))
        self._centroids = semantic.centroids(vectors, num, settings)
        self._leaders: list[list[Positions]] = [[] for _ in range(len(self._centroids))]

    def near(self, vectors: Vectors, units: Positions, bound: float) -> tuple[Positions, Positions]:
        """A unit is compared with cells whose centroid is within the slack of its best one, at most eight."""
        products = vectors[units] @ self._centroids.T
        count = min(_NEAREST_CELLS, products.shape[1])
        cells = np.argpartition(-products, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(products, cells, axis=1)
        near = values >= values.max(axis=1, keepdims=True) - _CELL_SLACK
        rows, cells = np.repeat(np.arange(len(units)), near.sum(axis=1)), cells[near]
        by_cell = np.argsort(cells, kind="stable")
        rows, cells = rows[by_cell], cells[by_cell]
        begins = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]]) if len(cells) else cells
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for low, high in zip(begins, np.r_[begins[1:], len(rows)], strict=True):
            if not (held := self._leaders[cells[low]]):
                continue
            leaders = self._joined(int(cells[low]), held)
            here = units[rows[low:high]]
            one, other = _closest(vectors[here] @ vectors[leaders].T, bound)
            parts.append((here[one], leaders[other]))
        return np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts])

    def _joined(self, cell: int, held: list[Positions]) -> Positions:
        if len(held) > 1:
            self._leaders[cell] = held = [np.concatenate(held)]
        return held[0]

    def add(self, vectors: Vectors, leaders: Positions) -> None:
        """Each leader stands in its nearest cell."""
        if not len(leaders):
            return
        cells = np.argmax(vectors[leaders] @ self._centroids.T, axis=1)
        for cell in np.unique(cells):
            self._leaders[cell].append(leaders[cells == cell])


def _closest(products: NDArray[np.float32], bound: float) -> tuple[Positions, Positions]:
    """(row, column) of the products at or above the bound, at most `_MOST_LEADERS` of a row, the largest."""
    hits = (products >= bound).sum(axis=1)
    for row in np.flatnonzero(hits > _MOST_LEADERS):
        floor = np.partition(products[row], -_MOST_LEADERS)[-_MOST_LEADERS]
        products[row, products[row] < floor] = -2.0
    one, other = np.nonzero(products >= bound)
    return one.astype(np.int64), other.astype(np.int64)


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
    gone = np.asarray(dropped, np.bool_)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:sample])
    stays = np.flatnonzero(~gone)
    found, missed = int(gone[chosen].sum()), 0
    for low in range(0, len(chosen), _BLOCK_ROWS):
        units = chosen[low : low + _BLOCK_ROWS]
        units = units[~gone[units]]
        one, other = np.nonzero(vectors[units] @ vectors[stays].T >= bound)
        one, other = units[one], stays[other]
        one, other = one[one != other], other[one != other]
        missed += len(np.unique(one[~apart(one, other)]))
    return found + missed, found
