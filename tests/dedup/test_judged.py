"""What many units come to at once is what each of them comes to by itself."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup.greedy import EdgeRows
from mmlake.dedup.matching import HOLDS, Found
from mmlake.dedup.stars.judged import Judged

RELATIONS = 5
NUM = 40


def drawn_at_random(seed):
    """Units with 1 to 16 candidates each, with scores of which many are equal, and spans of some."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 17, NUM)
    num = int(sizes.sum())
    spans = np.where(rng.random((num, 1)) < 0.5, np.nan, rng.random((num, 4))).astype(np.float32)
    found = Found(
        rng.integers(0, RELATIONS, num).astype(np.int8), rng.integers(0, 8, num) / 20,
        rng.integers(0, 3, num).astype(np.int8), spans if seed % 2 else None,
    )  # fmt: skip
    others = np.concatenate([np.sort(rng.choice(1_000, size, replace=False)) for size in sizes])
    return Judged(np.repeat(rng.permutation(NUM), sizes), others, found), np.cumsum(sizes)[:-1]


def in_turn(judged, ends):
    """The rows of each unit by what `leaders.Walk` asks of one."""
    takers, rows = [], [EdgeRows() for _ in range(4)]
    for part in np.split(np.arange(len(judged.ones)), ends):
        found, one, others = judged.found.at(part), int(judged.ones[part[0]]), judged.others[part].tolist()
        of_others = found.mirrored()
        if (at := found.best(np.ones(len(part), np.bool_))) >= 0:
            takers.append(int(part[at]))
            rows[0].add(others[at], one, of_others.edge(at))
        if (at := found.closest_miss()) >= 0:
            rows[1].add(others[at], one, of_others.edge(at))
        for at in found.overlapping().tolist():
            rows[2].add(others[at], one, of_others.edge(at))
        for at in np.flatnonzero(found.relation == HOLDS).tolist():
            rows[3].add(one, others[at], found.edge(at))
    return takers, [sorted(map(str, one.edges().each())) for one in rows]


@pytest.mark.parametrize("seed", range(12))
def test_many_units_come_to_what_each_of_them_comes_to(seed):
    judged, ends = drawn_at_random(seed)
    takers, rows = in_turn(judged, ends)
    assert judged.takers().tolist() == takers
    at_once = (judged.follows(), judged.misses(), judged.overlaps(), judged.held())
    assert [sorted(map(str, edges.each())) for edges in at_once] == rows


def test_nobody_comes_to_nothing():
    none = np.empty(0, np.int64)
    nobody = Judged(none, none, Found(none.astype(np.int8), none.astype(np.float64), none.astype(np.int8)))
    assert all(not len(edges.left) for edges in (nobody.follows(), nobody.misses(), nobody.overlaps(), nobody.held()))
