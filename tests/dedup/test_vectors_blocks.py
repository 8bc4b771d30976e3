"""What a block of vectors decides: who leads, and whom each of the others follows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.dedup.vectors.matcher import _greedy


def one_by_one(units: list[int], pairs: set[tuple[int, int]]) -> tuple[set[tuple[int, int]], list[int]]:
    """In survivor order, as it is meant."""
    follows: set[int] = set()
    kept: set[tuple[int, int]] = set()
    for unit in units:
        leaders = {other for one, other in pairs if one == unit and other not in follows}
        if leaders:
            follows.add(unit)
            kept |= {(unit, other) for other in leaders}
    return kept, [unit for unit in units if unit not in follows]


@st.composite
def blocks(draw) -> tuple[list[int], set[tuple[int, int]]]:
    """Units in survivor order, and pairs of each with earlier ones of the block and with some that lead already."""
    numbers = draw(st.permutations(range(14)))
    units, leaders = list(numbers[:9]), list(numbers[9:])
    drawn = draw(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 13)), max_size=40))
    earlier = {(units[at], units[other]) for at, other in drawn if other < at}
    return units, earlier | {(units[at], leaders[other - 9]) for at, other in drawn if other >= 9}


@given(blocks())
def test_rounds_decide_what_the_units_decide_one_by_one(block: tuple[list[int], set[tuple[int, int]]]) -> None:
    units, pairs = block
    array = np.array(sorted(pairs, key=lambda pair: hash((7, pair))), np.int64).reshape(-1, 2)
    one, other, leads = _greedy(np.array(units), array[:, 0], array[:, 1])
    kept, leading = one_by_one(units, pairs)
    assert (set(zip(one.tolist(), other.tolist(), strict=True)), leads.tolist()) == (kept, leading)


@pytest.mark.parametrize("num", [1, 2, 1_000])
def test_a_chain_is_decided_link_by_link(num: int) -> None:
    """Every second one leads: it is near the one before it alone."""
    units = np.arange(num)
    one, _, leads = _greedy(units, units[1:], units[:-1])
    assert leads.tolist() == list(range(0, num, 2)) and one.tolist() == list(range(1, num, 2))
