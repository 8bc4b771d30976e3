"""The edges at which a join ends: stars, and what is kept as evidence next to them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edge, Edges, Outcome
from mmlake.dedup.matching import INSIDE, SAME
from mmlake.dedup.prints import Positions

_MOST_MISSES = 32  # closest pairs that are not the same, kept for people to judge the bound by
_ALIVE = -1


class SpanRows:
    """Start and end in left, start and end in right, of each edge; None where whole meets whole. 16 bytes each."""

    def __init__(self) -> None:
        self._spans_s = array("f")

    def extend(self, spans_s: NDArray[np.float32] | None, num: int) -> None:
        """Those of so many more edges."""
        rows = np.full((num, 4), np.nan, np.float32) if spans_s is None else spans_s.astype(np.float32)
        self._spans_s.frombytes(rows.tobytes())

    def array(self) -> NDArray[np.float32]:
        """All of them, of shape (edges, 4); NaN where whole meets whole."""
        return np.array(self._spans_s, np.float32).reshape(-1, 4)

    def __len__(self) -> int:
        return len(self._spans_s) // 4

    def __getitem__(self, at: int) -> tuple[float, ...] | None:
        row = tuple(self._spans_s[4 * at : 4 * at + 4])
        return None if row[0] != row[0] else row

    def __iter__(self) -> Iterator[tuple[float, ...] | None]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpanRows) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Stars:
    """Edges from a unit that stays to one that goes, or that it shares a part with: columns of one length, in 42 bytes
    an edge."""

    left: array[int] = field(default_factory=lambda: array("q"))
    right: array[int] = field(default_factory=lambda: array("q"))
    # SAME, INSIDE (right lies inside left), OVERLAPS, or NONE: the closest of what was compared and is not the same
    relation: array[int] = field(default_factory=lambda: array("b"))
    score: array[float] = field(default_factory=lambda: array("d"))
    method: array[int] = field(default_factory=lambda: array("b"))
    spans_s: SpanRows = field(default_factory=SpanRows)

    def add(self, left: int, right: int, edge: Edge, relation: int) -> None:
        """One more edge."""
        self.left.append(left)
        self.right.append(right)
        self.relation.append(relation)
        self.score.append(edge.score)
        self.method.append(edge.method)
        self.spans_s.extend(None if edge.spans_s is None else np.array([edge.spans_s], np.float32), 1)

    def add_all(self, edges: Edges) -> None:
        """More edges, in their order."""
        for column, values, dtype in (
            (self.left, edges.left, np.int64), (self.right, edges.right, np.int64),
            (self.relation, edges.relation, np.int8), (self.score, edges.score, np.float64),
            (self.method, edges.method, np.int8),
        ):  # fmt: skip
            column.frombytes(values.astype(dtype).tobytes())
        self.spans_s.extend(edges.spans_s, len(edges.left))


def stars_of(found: Outcome, place: Positions) -> Stars:
    """All edges: what goes, in survivor order, then what overlaps and stays, then the closest of what is not the same.

    place: of each unit in survivor order.
    """
    leader_of = np.full(len(place), _ALIVE, np.int64)
    leader_of[found.follows.right] = found.follows.left
    edges = Stars()
    follows = found.follows.take(np.argsort(place[found.follows.right]))
    edges.add_all(follows._replace(relation=np.where(follows.relation == INSIDE, INSIDE, SAME)))
    left, right = found.overlaps.left, found.overlaps.right
    is_apart = (leader_of[left] != right) & (leader_of[right] != left)
    rows = np.lexsort((place[right], place[left]))
    edges.add_all(found.overlaps.take(rows[is_apart[rows]]))
    closest = _closest(found.misses, place)
    edges.add_all(closest.take(leader_of[closest.right] != closest.left))
    return edges


def _closest(misses: Edges, place: Positions) -> Edges:
    """The closest pairs that are not the same, each once: a unit that is led anew may meet a leader again."""
    left, right = place[misses.left], place[misses.right]
    order = np.lexsort((right, left, -misses.score))
    is_new = np.r_[True, (np.diff(left[order]) != 0) | (np.diff(right[order]) != 0)][: len(order)]
    return misses.take(order[is_new][:_MOST_MISSES])
