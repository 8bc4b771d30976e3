"""What a tier says about units: which of them are candidates, and how one compares with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, Ragged

NONE, SAME, INSIDE, HOLDS, OVERLAPS = range(5)
RELATIONS = {NONE: "apart", SAME: "same", INSIDE: "inside", OVERLAPS: "overlaps"}  # as PAIRS says it, of `right`
_DETAIL_WEIGHT = 0.3  # frames and tones, which the score is less for, count more
_SIBLING_SCORE = 0.85  # of two spans of one item
_MIRRORED = np.array([NONE, SAME, HOLDS, INSIDE, OVERLAPS], np.int8)


class Found(NamedTuple):
    """One unit against several others: arrays with a row per other."""

    # SAME: either may go. INSIDE: the one lies wholly inside the other, only the one may go. HOLDS: the mirror image.
    # OVERLAPS: they share a part, nobody goes
    relation: NDArray[np.int8]
    score: NDArray[np.float64]  # similarity 0..1, also where there is no relation
    method: NDArray[np.int8]  # position in Tier.pair_methods
    # start and end in the one, start and end in the other, of shape (others, 4); None where whole meets whole
    spans_s: NDArray[np.float32] | None = None
    # how much of the finest detail both have, 0..1; None where the tier knows nothing finer than the score
    detail: NDArray[np.float64] | None = None

    @property
    def closeness(self) -> NDArray[np.float64]:
        """What the members of a cluster are compared by: a copy that lost something is further from all others."""
        return self.score if self.detail is None else self.score + _DETAIL_WEIGHT * self.detail

    def mirrored(self) -> Found:
        """The same, seen from the others."""
        spans = None if self.spans_s is None else self.spans_s[:, [2, 3, 0, 1]]
        return Found(_MIRRORED[self.relation], self.score, self.method, spans, self.detail)

    def at(self, rows: NDArray[np.bool_] | Positions) -> Found:
        """These rows of it."""
        spans = None if self.spans_s is None else self.spans_s[rows]
        detail = None if self.detail is None else self.detail[rows]
        return Found(self.relation[rows], self.score[rows], self.method[rows], spans, detail)


class Matcher(Protocol):
    """All units of one tier; positions are rows of the print table it was made of."""

    @property
    def keys(self) -> Ragged:
        """Distinct keys of each unit: units that share `min_shared` of them are candidates."""

    @property
    def min_shared(self) -> int:
        """How many keys two candidates have in common at least."""

    @property
    def neighbours(self) -> Ragged | None:
        """Positions of candidates found by other means than keys, in both directions."""

    def compare(self, one: int, others: Positions) -> Found:
        """The unit against each of the others, by the exact measure; `compare(b, [a])` mirrors `compare(a, [b])`."""


def nothing(num: int) -> Found:
    """No relation with any of so many others."""
    return Found(np.zeros(num, np.int8), np.zeros(num), np.zeros(num, np.int8))


class Listed:
    """The matcher of a tier that lists all of its pairs at once, each found by the exact measure: for small tiers."""

    min_shared = 1

    def __init__(self, num: int, pairs: Iterable[tuple[int, int, str, float]], methods: Sequence[str]) -> None:
        self.keys = Ragged.empty(num)
        self._found: dict[tuple[int, int], tuple[float, int]] = {}
        near: list[set[int]] = [set() for _ in range(num)]
        for i, j, method, score in pairs:
            best = max(self._found.get((i, j), (-1.0, 0)), (score, methods.index(method)))
            self._found[i, j] = self._found[j, i] = best
            near[i].add(j)
            near[j].add(i)
        self.neighbours = Ragged.of([np.array(sorted(one), np.uint64) for one in near])

    def compare(self, one: int, others: Positions) -> Found:
        """What the list says; 0 for pairs that it does not hold."""
        found = [self._found.get((one, other)) for other in others.tolist()]
        return Found(
            np.array([NONE if pair is None else SAME for pair in found], np.int8),
            np.array([0.0 if pair is None else pair[0] for pair in found], np.float64),
            np.array([0 if pair is None else pair[1] for pair in found], np.int8),
        )


class OfItems:
    """A matcher of units of which some are spans of one item: these are the same only where they are nearly equal. One
    voice in one room, or one scene before one camera, is like itself all along."""

    def __init__(self, matcher: Matcher, items: Positions) -> None:
        """items: for each unit a number that stands for its item."""
        self._matcher, self._items = matcher, items
        self.keys, self.min_shared, self.neighbours = matcher.keys, matcher.min_shared, matcher.neighbours

    def compare(self, one: int, others: Positions) -> Found:
        """As the matcher says, but for weak relations within one item."""
        found = self._matcher.compare(one, others)
        is_weak = (self._items[others] == self._items[one]) & (found.score < _SIBLING_SCORE)
        return found._replace(relation=np.where(is_weak, NONE, found.relation).astype(np.int8))
