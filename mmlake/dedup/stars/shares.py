"""Which survivor a member goes for that is the same as several.

Two copies of one original may be no copies of each other: one is marked, the other cropped. Each then leads a star, and
what is a copy of both went for the better placed one, so that a family was two stars. The survivor that most units are
the same as is the one that the others were made from, or next to it: it takes them all. The choice of each member
depends on what was found alone, never on an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edge
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions


def have_a_choice(postings: Postings, leads: NDArray[np.bool_], *, is_all: bool) -> NDArray[np.bool_]:
    """Which units keys tie to two survivors and more, directly or through others; all where that is not found out fast.

    leads: who survives. is_all: whether all candidates have keys in common.
    """
    if not is_all or not postings.is_tied_fast:
        return np.ones(len(leads), np.bool_)
    part_of = postings.part_of
    have: NDArray[np.bool_] = np.bincount(part_of[leads], minlength=len(part_of))[part_of] > 1
    return have


class Shares:
    """What members are the same as, besides the survivors that they follow."""

    def __init__(self, followers: Mapping[int, Sequence[int]], place: Positions) -> None:
        """followers: of each survivor. place: of each unit in survivor order."""
        self._place = place
        self._reach = {leader: len(members) for leader, members in followers.items()}
        self._options: dict[int, list[tuple[int, Edge]]] = {}

    def add(self, one: int, leader: int, edge: Edge, *, num: int) -> None:
        """The member is the same as this survivor too. num: of those with its prints, itself among them."""
        self._reach[leader] = self._reach.get(leader, 0) + num
        self._options.setdefault(one, []).append((leader, edge))

    def moves(self, edges: Mapping[int, Edge], leader_of: Positions) -> Iterator[tuple[int, int, Edge]]:
        """(member, the survivor that it goes for instead, what was found between them), in survivor order."""
        chosen = []
        for one, options in self._options.items():
            here = int(leader_of[one])
            leader, edge = max([(here, edges[one]), *options], key=lambda option: self._rank(option[0]))
            if leader != here:
                chosen.append((one, leader, edge))
        yield from sorted(chosen, key=lambda move: int(self._place[move[0]]))

    def _rank(self, leader: int) -> tuple[int, int]:
        return self._reach.get(leader, 0), -int(self._place[leader])
