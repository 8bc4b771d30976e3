"""Recall and cost of a part of the keys, against counting pair by pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmlake.dedup.prints import Ragged
from mmlake.dedup.recall.estimates import OF
from mmlake.dedup.recall.key_curve import SHARES, key_curve
from mmlake.dedup.splitmix import mix64

KEYS = [key << 40 for key in range(40)]  # whose first bits say nothing
ROWS = st.lists(st.sets(st.sampled_from(KEYS), max_size=12), min_size=1, max_size=9)


def ragged(rows: list[set[int]]) -> Ragged:
    return Ragged.of([np.array(sorted(row), np.uint64) for row in rows])


def shared(left: set[int], right: set[int], share: int) -> int:
    drawn = mix64(np.array(sorted(left & right), np.uint64))
    return int((drawn <= np.uint64(share * 2**64 // OF - 1)).sum())


@given(ROWS, st.integers(1, 2), st.data())
def test_the_curve_is_what_counting_pair_by_pair_gives(
    rows: list[set[int]], min_shared: int, data: st.DataObject
) -> None:
    places = st.integers(0, len(rows) - 1)
    units = data.draw(st.lists(places, min_size=1, unique=True))
    others = data.draw(st.lists(places, unique=True))
    keepers = [data.draw(st.integers(-1, len(rows) - 1)) for _ in units]
    found = key_curve(
        ragged([rows[one] for one in units]),
        ragged([rows[max(0, one)] for one in keepers]),
        np.array(keepers) >= 0,
        ragged([rows[one] for one in others]),
        np.isin(units, others),
        min_shared=min_shared,
    )
    assert found == {
        share: (
            sum(
                keeper >= 0 and shared(rows[one], rows[keeper], share) >= min_shared
                for one, keeper in zip(units, keepers, strict=True)
            ),
            sum(
                one != other and shared(rows[one], rows[other], share) >= min_shared
                for one in units
                for other in others
            ),
        )
        for share in SHARES
    }
