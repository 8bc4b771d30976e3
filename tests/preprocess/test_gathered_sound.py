"""Blocks of decoded sound, joined before anything is done for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.errors import UnreadableItem
from mmlake.media.sound_conversion import Block, gathered

SAMPLES = np.arange(1, 4001, dtype=np.float32)[:, None]


def blocks_of(lengths: list[int], gaps: dict[int, int], rates: dict[int, int]) -> list[Block]:
    """The samples in blocks of these lengths. gaps, rates: by the number of the block from which they hold."""
    found, at, shift, rate_hz = list[Block](), 0, 0, 8_000
    for number, length in enumerate(lengths):
        shift, rate_hz = shift + gaps.get(number, 0), rates.get(number, rate_hz)
        found.append((rate_hz, at + shift, SAMPLES[at : at + length]))
        at += length
    return found


@given(
    st.lists(st.integers(1, 300), max_size=12),
    st.dictionaries(st.integers(0, 11), st.integers(1, 50)),
    st.dictionaries(st.integers(0, 11), st.sampled_from([8_000, 16_000])),
    st.integers(1, 700),
)
def test_every_sample_keeps_its_place_and_its_rate(
    lengths: list[int], gaps: dict[int, int], rates: dict[int, int], least: int
) -> None:
    given_blocks = blocks_of(lengths, gaps, rates)
    found = list(gathered(given_blocks, least))
    places = [
        [(rate, position + at, float(value)) for rate, position, block in some for at, value in enumerate(block[:, 0])]
        for some in (given_blocks, found)
    ]
    assert places[0] == places[1]
    for (rate, position, block), (next_rate, next_position, _) in zip(found, found[1:], strict=False):
        is_whole = len(block) >= least
        assert is_whole or rate != next_rate or position + len(block) != next_position, "a short block ends somewhere"


def test_what_was_decoded_before_a_damage_is_given() -> None:
    def broken() -> Iterator[Block]:
        yield from blocks_of([10, 10], {}, {})
        raise UnreadableItem(3001, "damaged")

    found = gathered(broken(), 1_000)
    assert len(next(found)[2]) == 20
    with pytest.raises(UnreadableItem):
        next(found)
