"""What a tier says about units: which of them are candidates, and how one compares with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import AS_ALIKE, Edge, Led, Walked
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions, Ragged

NONE, SAME, INSIDE, HOLDS, OVERLAPS, ACROSS = range(6)
# as PAIRS says it, of `right`
RELATIONS = {NONE: "apart", SAME: "same", INSIDE: "inside", OVERLAPS: "overlaps", ACROSS: "across"}
_DETAIL_WEIGHT = 0.3  # frames and tones, which the score is less for, count more
SIBLING_SCORE = 0.85  # of two spans of one item
MOST_OVERLAPS = 4  # of one comparison with several: a jingle that thousands share is shown by a few of them
Question = tuple[int, Positions]  # a unit, and those that it will be compared with
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
    # how much of the finest detail both have, 0..1, or what `closer` says; None where the tier knows nothing finer than
    # the score
    detail: NDArray[np.float64] | None = None

    @property
    def closeness(self) -> NDArray[np.float64]:
        """What the members of a cluster are compared by: a copy that lost something is further from all others."""
        return self.score if self.detail is None else self.score + _DETAIL_WEIGHT * self.detail

    def closer(self, closeness: NDArray[np.float64]) -> Found:
        """The same with this closeness, 0..1."""
        return self._replace(detail=(closeness - self.score) / _DETAIL_WEIGHT)

    def mirrored(self) -> Found:
        """The same, seen from the others."""
        return self.mirrored_at(np.ones(len(self.relation), np.bool_))

    def mirrored_at(self, rows: NDArray[np.bool_]) -> Found:
        """The same, of these rows seen from the others."""
        spans = self.spans_s
        if spans is not None:
            spans = np.where(rows[:, None], spans[:, [2, 3, 0, 1]], spans)
        return self._replace(relation=np.where(rows, _MIRRORED[self.relation], self.relation), spans_s=spans)

    def best(self, allowed: NDArray[np.bool_]) -> int:
        """The row of the one that takes the unit, of those allowed; the others come in survivor order. -1: nobody."""
        takes = allowed & ((self.relation == SAME) | (self.relation == INSIDE))
        if not takes.any():
            return -1
        return int(np.argmax(takes & (self.score >= self.score[takes].max() - AS_ALIKE)))

    def overlapping(self) -> Positions:
        """The rows of what shares a part, as evidence: the most alike, at most `MOST_OVERLAPS`."""
        rows = np.flatnonzero(self.relation == OVERLAPS)
        best: Positions = np.sort(rows[np.argsort(-self.score[rows], kind="stable")[:MOST_OVERLAPS]])
        return best

    def closest_miss(self) -> int:
        """The row of the closest one that the unit has nothing to do with; -1 where none is like it at all."""
        scores = np.where(self.relation == NONE, self.score, 0.0)
        at = int(np.argmax(scores))
        return at if scores[at] > 0 else -1

    def at(self, rows: NDArray[np.bool_] | Positions | slice) -> Found:
        """These rows of it."""
        spans = None if self.spans_s is None else self.spans_s[rows]
        detail = None if self.detail is None else self.detail[rows]
        return Found(self.relation[rows], self.score[rows], self.method[rows], spans, detail)

    def edge(self, at: int) -> Edge:
        """From the one to the other of this row, which lies inside it where the one holds it."""
        relation = int(self.relation[at])
        spans = None if self.spans_s is None else tuple(float(value) for value in self.spans_s[at])
        if spans is not None and any(value != value for value in spans):
            spans = None
        return Edge(INSIDE if relation == HOLDS else relation, float(self.score[at]), int(self.method[at]), spans)


Compare = Callable[[int, Positions], Found]  # a unit against each of the others


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


@runtime_checkable
class Mirrored(Protocol):
    """A matcher of which `compare(b, [a])` mirrors `compare(a, [b])` to the last bit, and several cost less at once."""

    is_mirrored: bool


def is_mirrored(matcher: Matcher) -> bool:
    """Whether it makes no difference which of two units is asked, and several are asked at once."""
    return isinstance(matcher, Mirrored) and matcher.is_mirrored


@runtime_checkable
class Each(Matcher, Protocol):
    """A matcher that can be asked of many pairs at once."""

    def compare_each(self, ones: Positions, others: Positions) -> Found:
        """What `compare(one, [other])` says of each row; the rows of each of the ones stand together."""


@runtime_checkable
class Paired(Protocol):
    """A matcher that compares the units of many pairs at once."""

    def compare_pairs(self, left: Positions, right: Positions) -> Found | None:
        """What `compare(left, [right])` is for each pair, pairs of one left unit together; None where one by one costs
        less."""


@runtime_checkable
class SharedOut(Protocol):
    """A matcher of which a member that is the same as several survivors goes for the one that most are the same as; of
    others it stays with the one that it found first."""

    shares_out: bool


@runtime_checkable
class Searching(Protocol):
    """A matcher whose `neighbours` are those that led when a unit was led: who leads later is searched for."""

    def near(self, one: int, listed: NDArray[np.bool_]) -> Positions:
        """The candidates of the unit among those that are listed."""


def listed_near(matcher: Matcher, one: int, listed: NDArray[np.bool_], *, searches: bool) -> Positions:
    """The candidates of the unit, found by other means than keys, that are listed. searches: others than those that
    were listed before lead by now."""
    if matcher.neighbours is None:
        return np.empty(0, np.int64)
    if searches and isinstance(matcher, Searching):
        return matcher.near(one, listed)
    found: Positions = matcher.neighbours[one].astype(np.int64)
    return found[listed[found]]


# (copies, originals): of each pair whether the one was made of the other by coding it anew. Or, where their files say
# which is lossy, how far a codec moved the one from the other, in dB: at most `UNLOST_DB` where none lies between them,
# whichever was first, and NaN where the one was not coded from the other
UNLOST_DB, DECODERS_DB = 0.033, 0.06  # by rounding alone, and by two decoders of one file
MadeOf = Callable[[Positions, Positions], NDArray[np.bool_] | NDArray[np.float64]]


@runtime_checkable
class Recoded(Protocol):
    """A matcher that knows which unit was made of which by coding it anew."""

    @property
    def made_of(self) -> MadeOf | None:
        """None: it knows it of none."""


def coded_anew(matcher: Matcher) -> MadeOf | None:
    """What says which unit was made of which; None where the matcher does not know it."""
    return matcher.made_of if isinstance(matcher, Recoded) else None


# (ones, others): of each pair how many of the words of either the other one lacks, as a share of them; the larger share
Lacks = Callable[[Positions, Positions], NDArray[np.float64]]


@runtime_checkable
class Worded(Protocol):
    """A matcher of units that have words."""

    @property
    def lacks(self) -> Lacks | None:
        """None: it knows no words."""


def lacking_words(matcher: Matcher) -> Lacks | None:
    """What says how many words of two units only one has; None where the matcher does not know."""
    return matcher.lacks if isinstance(matcher, Worded) else None


def is_shared_out(matcher: Matcher) -> bool:
    """Whether members are shared out among survivors."""
    return isinstance(matcher, SharedOut) and matcher.shares_out


@runtime_checkable
class Prepares(Protocol):
    """A matcher that can be said what it will be asked."""

    at_once: int  # units of which it wants to be said that together; 0: it gains nothing by it

    def prepare(self, questions: Iterable[Question]) -> None:
        """Find out what will be asked, in place of what was said before."""


def block_of(matcher: Matcher) -> int:
    """How many units the matcher wants to know of together; 0 where it gains nothing."""
    return matcher.at_once if isinstance(matcher, Prepares) else 0


def prepare(matcher: Matcher, questions: Iterable[Question]) -> None:
    """Say what will be asked, where the matcher gains by it."""
    if isinstance(matcher, Prepares) and matcher.at_once:
        matcher.prepare(questions)


def prepared(matcher: Matcher, units: Iterable[int], candidates: Callable[[int], Positions]) -> Iterator[int]:
    """The units, of which the matcher is said block by block what they will be compared with."""
    step, rest = block_of(matcher), iter(units)
    if not step:
        yield from rest
        return
    while block := list(islice(rest, step)):
        prepare(matcher, ((one, candidates(one)) for one in block))
        yield from block


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
        self.shares_out, self.at_once, self.made_of = is_shared_out(matcher), block_of(matcher), coded_anew(matcher)
        self.lacks = lacking_words(matcher)

    def prepare(self, questions: Iterable[Question]) -> None:
        """Say it to the matcher."""
        prepare(self._matcher, questions)

    def compare(self, one: int, others: Positions) -> Found:
        """As the matcher says, but for weak relations within one item."""
        return self._weakened(self._matcher.compare(one, others), self._items[others] == self._items[one])

    def compare_pairs(self, left: Positions, right: Positions) -> Found | None:
        """The same of many pairs, where the matcher compares them at once."""
        found = self._matcher.compare_pairs(left, right) if isinstance(self._matcher, Paired) else None
        return found and self._weakened(found, self._items[left] == self._items[right])

    def compare_each(self, ones: Positions, others: Positions) -> Found:
        """The same of a matcher that can be asked of many pairs at once."""
        assert isinstance(self._matcher, Each)
        return self._weakened(self._matcher.compare_each(ones, others), self._items[ones] == self._items[others])

    @staticmethod
    def _weakened(found: Found, are_siblings: NDArray[np.bool_]) -> Found:
        is_weak = are_siblings & (found.score < SIBLING_SCORE)
        return found._replace(relation=np.where(is_weak, NONE, found.relation).astype(np.int8))

    def walked(
        self, order: Positions, *, equal: NDArray[np.uint64], postings: Postings, items: Positions | None = None
    ) -> Led | None:
        """What the matcher finds by itself, if it does."""
        if not isinstance(self._matcher, Walked):
            return None
        return self._matcher.walked(order, equal=equal, postings=postings, items=self._items)
