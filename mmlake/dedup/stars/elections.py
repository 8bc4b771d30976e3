"""Whom clusters elect, many of them at once, and what those who are elected are to the other members.

Enters: who follows whom. Leaves: a winner for each cluster; -1 where its members have to be asked in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edges
from mmlake.dedup.matching import HOLDS, INSIDE, SAME, Found, Matcher, Paired, coded_anew, lacking_words
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.survivors import Mask, Standing

_CHUNK = 64  # units compared with one other at once
Members = tuple[int, ...]  # of a cluster, sorted


class Clusters(NamedTuple):
    """Leaders and all that follow them."""

    leaders: Positions
    members: Positions  # one cluster after the other, the leaders among them, those of each sorted
    offsets: Positions  # where those of each begin

    @classmethod
    def of(cls, leaders: Positions, leader_of: Positions) -> Clusters:
        """Those of these leaders. leader_of: of each unit; -1 for nobody."""
        at = np.full(len(leader_of), -1, np.int64)
        at[leaders] = np.arange(len(leaders))
        goes = np.flatnonzero(leader_of >= 0)
        goes = goes[at[leader_of[goes]] >= 0]
        units = np.concatenate((leaders, goes))
        cluster = np.concatenate((np.arange(len(leaders)), at[leader_of[goes]]))
        order = np.lexsort((units, cluster))
        return cls(leaders, units[order], np.searchsorted(cluster[order], np.arange(len(leaders) + 1)))

    def each(self) -> list[Members]:
        """The members of each."""
        members, ends = self.members.tolist(), self.offsets.tolist()
        return [tuple(members[low:high]) for low, high in zip(ends[:-1], ends[1:], strict=True)]

    def winners(self, standing: Standing, closeness: Closeness, known: Mapping[Members, int]) -> Positions:
        """Whom each elects. known: by some."""
        winners = np.full(len(self.leaders), -1, np.int64)
        if known:
            winners[:] = [known.get(one, -1) for one in self.each()]
        sizes = np.diff(self.offsets)
        for size in np.unique(sizes[winners < 0]):
            if size > 2 and closeness.paired is None:
                break
            rows = np.flatnonzero((winners < 0) & (sizes == size))
            members = self.members[self.offsets[rows][:, None] + np.arange(size)]
            winners[rows] = standing.elect_alike(members, closeness, made_of=closeness.made_of, lacks=closeness.lacks)
        return winners

    def taken(self, winners: Positions, matcher: Paired | None) -> Taken | None:
        """What those who are elected in place of their leaders are to the others; None where that is asked in turn."""
        crowned = np.flatnonzero((winners >= 0) & (winners != self.leaders))
        if not len(crowned) or matcher is None:
            return None
        sizes = np.diff(self.offsets)[crowned]
        begins = np.concatenate(([0], np.cumsum(sizes)))
        right = self.members[np.arange(begins[-1]) + np.repeat(self.offsets[:-1][crowned] - begins[:-1], sizes)]
        left = np.repeat(winners[crowned], sizes)
        is_other = left != right
        left, right = left[is_other], right[is_other]
        found = matcher.compare_pairs(left, right)
        return None if found is None else Taken(crowned, begins - np.arange(len(begins)), left, right, found)


class Taken(NamedTuple):
    """What survivors are to the other members of their clusters."""

    clusters: Positions  # which of them
    begins: Positions  # where the rows of each begin
    left: Positions  # the survivor
    right: Positions  # sorted, of each
    found: Found

    def apart(self, standing: Standing, num_tied: Positions) -> tuple[Mask, Edges]:
        """(which of them have clusters that nobody outside has a key in common with, and that all members stay in; what
        ties these to their survivors). num_tied: how many units keys tie together with each."""
        found, begins = self.found, self.begins[:-1]
        agreed = ((found.relation == SAME) | (found.relation == HOLDS)) & standing.allows(self.left, self.right)
        sizes = np.diff(self.begins)
        is_apart = (num_tied[self.left[begins]] == sizes + 1) & np.logical_and.reduceat(agreed, begins)
        rows = np.repeat(is_apart, sizes)
        edges = found.at(rows)
        relation = np.where(edges.relation == HOLDS, INSIDE, edges.relation).astype(np.int8)
        sides = self.left[rows], self.right[rows]
        return is_apart, Edges(*sides, relation, edges.score, edges.method, edges.spans_s)

    def rest(self, is_done: Mask) -> dict[int, Found]:
        """Of each cluster that is not done what was found."""
        rows = zip(self.clusters, self.begins[:-1], self.begins[1:], is_done, strict=True)
        return {int(cluster): self.found.at(slice(low, high)) for cluster, low, high, done in rows if not done}


class Closeness:
    """How close units are to others, as `survivors.Closeness` has it; of many at once where the matcher can."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self.paired = matcher if isinstance(matcher, Paired) else None  # to find that out takes 20 us
        self.made_of, self.lacks = coded_anew(matcher), lacking_words(matcher)

    def __call__(self, ones: Positions, others: Positions) -> NDArray[np.float64]:
        """Of each its mean score with a row of others."""
        if self.paired is not None:
            found = self.paired.compare_pairs(np.repeat(ones, others.shape[1]), others.reshape(-1))
            if found is not None:
                means: NDArray[np.float64] = found.closeness.reshape(others.shape).mean(axis=1)
                return means
        return np.array([self._of_one(one, row) for one, row in zip(ones.tolist(), others, strict=True)])

    def elected(self, standing: Standing, members: Positions, *, rest: Positions | None = None) -> int:
        """The member that stays; rest: see `Standing.elect`."""
        return standing.elect(members, self, rest=rest, made_of=self.made_of, lacks=self.lacks)

    def _of_one(self, one: int, others: Positions) -> float:
        scores = [
            self._matcher.compare(one, others[low : low + _CHUNK]).closeness for low in range(0, len(others), _CHUNK)
        ]
        return float(np.concatenate(scores).mean()) if scores else 0.0
