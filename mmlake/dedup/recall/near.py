"""The recall of a join by keys, estimated on a seeded sample: its units are compared with those that an exhaustive
pass finds nearest (`mmlake.dedup.recall.nearest`), by the exact measure that the join uses.

Two units that neither keys nor the pass bring together count for nothing, so it is an estimate against a second,
independent way to find candidates. What it costs does not grow with the corpus: of a large one only a part is passed
over, and the interval says how much that is worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import HOLDS, INSIDE, SAME, Compare
from mmlake.dedup.prints import Positions, PrintTable, Ragged
from mmlake.dedup.recall.key_curve import key_curve
from mmlake.dedup.recall.nearest import Scores
from mmlake.dedup.splitmix import mix64
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.stars.survivors import Standing

_SAMPLE_UNITS, _SAMPLE_FRACTION = 200, 4  # of a small corpus one in so many
_NEAREST = 6  # of each sampled unit, compared by the exact measure
_MOST_PASSED = 20_000  # units
_MOST_VALUES = 4_000_000  # of their prints
_AT_ONCE = 512  # units

KeysOf = Callable[[Positions], Ragged]  # units -> the keys that the join brings them together by
Then = Callable[[Stars, Compare, KeysOf, int], None]  # the last: how many keys two candidates have in common at least


class Estimates:
    """What the keys of several tiers found of what they should have."""

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self.counted: list[tuple[int, int]] = []  # as `recall.near` gives them
        self.curves: list[dict[int, tuple[int, int]]] = []  # as `key_curve` does

    def add(
        self,
        standing: Standing,
        prints: PrintTable,
        nearest: Callable[[PrintTable, Positions], Scores],
        numbers: NDArray[np.uint64],
        found: Stars,
        compare: Compare,
        keys: KeysOf,
        min_shared: int,
    ) -> None:
        """Add those of a tier that is joined; the first four as of `recall.near`, the others as of `Then`."""
        units, keepers, others = near_recall(compare, found, standing, prints, nearest, numbers=numbers, seed=self.seed)
        is_found = keepers >= 0
        self.counted.append((len(units), int(is_found.sum())))
        if len(units):
            going_for, is_among = keys(np.where(is_found, keepers, units)), np.isin(units, others)
            curve = key_curve(keys(units), going_for, is_found, keys(others), is_among, min_shared=min_shared)
            self.curves.append(curve)


def sampled(numbers: NDArray[np.uint64], *, seed: int) -> Positions:
    """The units whose duplicates are counted; sorted. numbers: of each one that follows from its digest alone, so that
    among more units nearly the same are chosen, and what they were compared with is known."""
    count = min(_SAMPLE_UNITS, -(-len(numbers) // _SAMPLE_FRACTION))
    found: Positions = np.sort(_drawn(numbers, 2 * seed)[:count])
    return found


def passed_over(prints: PrintTable, numbers: NDArray[np.uint64], *, seed: int) -> Positions:
    """The units that sampled ones are held against: all of them, or a seeded part that bounds what it costs; sorted."""
    order = _drawn(numbers, 2 * seed + 1)
    work = np.cumsum(sum(rows.lengths[order] for rows in prints.values()))
    num = min(_MOST_PASSED, int(np.searchsorted(work, _MOST_VALUES, side="right")))
    found: Positions = np.sort(order[: max(1, num)])
    return found


def _drawn(numbers: NDArray[np.uint64], seed: int) -> Positions:
    """All units, in an order that the seed draws."""
    order: Positions = np.argsort(mix64(numbers ^ mix64(np.array([seed % 2**64], np.uint64))), kind="stable")
    return order


def near_recall(
    compare: Compare,
    found: Stars,
    standing: Standing,
    prints: PrintTable,
    nearest: Callable[[PrintTable, Positions], Scores],
    *,
    numbers: NDArray[np.uint64],
    seed: int,
) -> tuple[Positions, Positions, Positions]:
    """(sampled units that have a duplicate among the units passed over; what each of them goes for, -1 where the join
    did not find it; the units passed over).

    A sampled unit that goes counts where what it goes for was passed over; one that stays is compared with those that
    stay. numbers: as of `sampled`. found: the edges of the join.
    """
    chosen, others = sampled(numbers, seed=seed), passed_over(prints, numbers, seed=seed)
    goes_for = np.full(len(standing), -1, np.int64)
    is_verdict = np.isin(found.relation, (SAME, INSIDE))
    goes_for[np.array(found.right, np.int64)[is_verdict]] = np.array(found.left, np.int64)[is_verdict]
    keepers = goes_for[chosen]
    going, staying = chosen[np.isin(keepers, others) & (keepers >= 0)], chosen[keepers < 0]
    close = _nearest(nearest(prints, staying), staying, others[goes_for[others] < 0])
    is_missed = [_is_missed(compare, standing, one, row) for one, row in zip(staying.tolist(), close, strict=True)]
    missed = staying[np.array(is_missed, np.bool_)]
    return np.concatenate((going, missed)), np.concatenate((goes_for[going], goes_for[missed])), others


def _nearest(scores: Scores, chosen: Positions, units: Positions) -> NDArray[np.int64]:
    """For each of the chosen the units nearest to it, of shape (chosen, nearest); -1 where there are fewer."""
    best = np.full((len(chosen), _NEAREST), -np.inf)
    place = np.full((len(chosen), _NEAREST), -1, np.int64)
    for low in range(0, len(units), _AT_ONCE):
        block = units[low : low + _AT_ONCE]
        values = scores(block).T.astype(np.float64)
        values[chosen[:, None] == block] = -np.inf
        values = np.concatenate((best, values), axis=1)
        places = np.concatenate((place, np.broadcast_to(block, (len(chosen), len(block)))), axis=1)
        top = np.argsort(-values, axis=1, kind="stable")[:, :_NEAREST]
        best, place = np.take_along_axis(values, top, 1), np.take_along_axis(places, top, 1)
    place[~np.isfinite(best)] = -1
    return place


def _is_missed(compare: Compare, standing: Standing, one: int, nearest: Positions) -> bool:
    """Whether the unit, which stays, and one of the others, which stay too, should not both stay."""
    others = nearest[nearest >= 0]
    if not len(others):
        return False
    relation = compare(one, others).relation
    lies_inside = (relation == INSIDE) & standing.allows(others, np.full(len(others), one))
    holds = (relation == HOLDS) & standing.allows(np.full(len(others), one), others)
    return bool(((relation == SAME) | lies_inside | holds).any())
