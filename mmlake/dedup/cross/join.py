"""The near join across two tables: which units meet which held ones, by a tier's own matcher.

Enters: the prints of held units (an eval set, parts of films), then those of units of the corpus, in one table. Leaves:
for each group of equal units the groups of equal held ones that it meets, with what the exact measure says. Candidates
are held units alone: distinct prints cost at most `MOST_CANDIDATES` comparisons each, and equal ones cost it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edge
from mmlake.dedup.matching import HOLDS, INSIDE, NONE, OVERLAPS, SAME, Found, Matcher
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions, PrintTable, Ragged, digests_of, joined
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.tiers import Tier
from mmlake.progress import Advance, silent

MOST_CANDIDATES = 64  # held units that one unit of the corpus is compared with, in each tier
MET = {SAME: "same", INSIDE: "inside", HOLDS: "holds", OVERLAPS: "overlaps"}  # of the unit to the held unit


class Meeting(NamedTuple):
    """Units of the corpus with equal prints, and all held units with the equal prints that they meet."""

    units: Positions  # from 0, the first behind the held ones
    held: Positions
    edge: Edge
    num_left: int  # on the first of the units' meetings: held candidates that were not compared, as enough were found


def near_meetings(
    tier: Tier,
    held: PrintTable,
    units: PrintTable,
    settings: DedupSettings,
    *,
    enough: int | None = None,
    advance: Advance = silent,
) -> Iterator[Meeting]:
    """What the tier finds of the units among the held ones. Where many share a key, the first of the held ones are
    candidates.

    enough: of these that say all that the unit does; the others are counted and not compared. None compares all.
    """
    table = {method: joined([held[method], units[method]]) for method in units}
    num_held = len(next(iter(held.values())))
    groups = [(rows[rows < num_held], rows[rows >= num_held]) for rows in _groups(digests_of(table))]
    members = {int(own[0]): own for own, _ in groups if len(own)}
    matcher = tier.made_matcher(table, settings)
    search = _Search(matcher, table[tier.contained_by] if tier.contained_by else matcher.keys, sorted(members))
    for own, asking in groups:
        if not len(asking):
            continue
        others = search.candidates(int(asking[0]), equal=own[:1])
        met: list[tuple[int, Edge]] = []
        num_compared = num_alike = 0
        while num_compared < len(others) and (enough is None or num_alike < enough):
            some = others[num_compared : None if enough is None else num_compared + enough]
            compared = matcher.compare(int(asking[0]), some)
            met += [(int(some[at]), _edge(compared, at)) for at in np.flatnonzero(compared.relation != NONE).tolist()]
            num_alike += int(np.isin(compared.relation, (SAME, INSIDE)).sum())
            num_compared += len(some)
        num_left = sum(len(members[other]) for other in others[num_compared:].tolist())
        for at, (other, edge) in enumerate(met):
            yield Meeting(asking - num_held, members[other], edge, num_left if at == 0 else 0)
        advance(len(asking))


def _edge(found: Found, at: int) -> Edge:
    spans = None if found.spans_s is None else tuple(float(value) for value in found.spans_s[at])
    if spans is not None and any(value != value for value in spans):
        spans = None
    return Edge(int(found.relation[at]), float(found.score[at]), int(found.method[at]), spans)


class _Search:
    """The held units that a unit of the corpus is compared with."""

    def __init__(self, matcher: Matcher, keys: Ragged, held: Sequence[int]) -> None:
        self._neighbours, self._min_shared = matcher.neighbours, matcher.min_shared
        self._lengths, self._postings, self._held = keys.lengths, Postings(keys), frozenset(held)
        for one in held:
            self._postings.add(one)

    def candidates(self, one: int, *, equal: Positions) -> Positions:
        """At most `MOST_CANDIDATES` held units that share keys with the unit: the one with equal prints first, then
        those that hold, or lie in, most of it."""
        found, shared = self._postings.sharing(one)
        usable = shared >= self._min_shared
        found, shared = found[usable], shared[usable]
        smaller = np.maximum(1, np.minimum(self._lengths[one], self._lengths[found]))
        best = [*equal.tolist(), *self._near(one), *found[np.lexsort((found, -shared / smaller))].tolist()]
        return np.array(list(dict.fromkeys(best))[:MOST_CANDIDATES], np.int64)

    def _near(self, one: int) -> list[int]:
        if self._neighbours is None:
            return []
        return [at for at in self._neighbours[one].astype(np.int64).tolist() if at in self._held]


def _groups(equal: NDArray[np.uint64]) -> list[Positions]:
    """Positions with equal prints together, in order of the first of them; what says nothing is in none."""
    says = np.flatnonzero(equal.any(axis=1))
    if not len(says):
        return []
    rows = says[np.lexsort((says, equal[says, 1], equal[says, 0]))]
    begins = np.flatnonzero((equal[rows[1:]] != equal[rows[:-1]]).any(axis=1)) + 1
    return sorted(np.split(rows, begins), key=lambda group: int(group[0]))
