"""Elections where it is known who was made of whom by coding it anew, and some units are spans of one item."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.matching import SAME, Found, OfItems
from mmlake.dedup.stars.elections import Closeness, Clusters
from mmlake.dedup.stars.survivors import Standing

CRITERIA = (
    Criterion(name="recoded", column="", best="", recoded="recoded", says="the original"),
    Criterion(name="width", column="width_px", says="wider"),
    CLOSENESS,
)


class Copies:
    """Films that are all the same, each made of the one behind it; a matcher that is asked of one at a time."""

    min_shared, neighbours = 1, ()

    def __init__(self, num: int) -> None:
        self.keys = [np.zeros(1, np.uint64)] * num

    def compare(self, one: int, others: np.ndarray) -> Found:
        num = len(others)
        return Found(np.full(num, SAME, np.int8), np.ones(num), np.zeros(num, np.int8))

    def made_of(self, copies: np.ndarray, originals: np.ndarray) -> np.ndarray:
        return originals == copies + 1


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_clusters_of_every_size_elect_where_some_units_are_spans_of_one_item(size: int) -> None:
    """A corpus with a film of several units and three copies of another one stopped at a ValueError."""
    matcher = OfItems(Copies(size), np.arange(size))
    standing = Standing(
        np.arange(size), np.zeros(size, np.int64), np.ones(size, np.bool_), CRITERIA, np.ones((size, 3))
    )
    clusters = Clusters.of(np.array([0]), np.array([-1, *[0] * (size - 1)]))
    winners = clusters.winners(standing, Closeness(matcher), {})
    assert winners.tolist() == [size - 1 if size < 3 else -1]  # of more, who was made of whom is asked in turn
    assert standing.elect(np.arange(size), Closeness(matcher), made_of=matcher.made_of) == size - 1
