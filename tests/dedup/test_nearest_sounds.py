"""Recordings nearest to some of them, by a pass over all: compiled and by numpy the same, and right."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup.audio import kernels
from mmlake.dedup.prints import Ragged
from mmlake.dedup.recall import nearest

STRETCH = 16


def prints(rng: np.random.Generator, *, bits: int, num: int = 60) -> Ragged:
    """Rows of 0 to 60 words; every fifth is the one before from its third word on, with some bits changed."""
    rows: list[np.ndarray] = []
    for at in range(num):
        words = rng.integers(0, 2**bits, int(rng.integers(0, 60)), dtype=np.uint64, endpoint=False)
        if at % 5 == 4:
            flips = np.uint64(1) << rng.integers(0, bits, len(rows[-1])).astype(np.uint64)
            words = np.concatenate((rng.integers(0, 2**bits, 3, dtype=np.uint64), rows[-1] ^ flips))
        rows.append(words)
    return Ragged.of(rows)


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch) -> str:
    if request.param == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(kernels, "compiled", lambda num: kernels.kernels())
    else:
        monkeypatch.setattr(kernels, "compiled", lambda num: None)
    return request.param


@pytest.mark.parametrize("bits", [32, 64])
def test_the_fewest_bits_are_those_of_the_best_place(way, bits: int) -> None:
    rng = np.random.default_rng(bits)
    words = prints(rng, bits=bits)
    rows = np.flatnonzero(words.lengths >= STRETCH)[::-1].copy()  # in any order
    mine = np.stack([words[int(row)][-STRETCH:] for row in rows[:9]])
    expected = [
        [
            min(
                sum((int(a) ^ int(b)).bit_count() for a, b in zip(one, words[row][at : at + STRETCH], strict=True))
                for at in range(len(words[row]) - STRETCH + 1)
            )
            for one in mine
        ]
        for row in rows.tolist()
    ]
    assert nearest._fewest_apart(mine, words, rows).tolist() == expected


def test_words_of_64_bits_that_begin_with_small_ones_are_compared_whole(way) -> None:
    low, high = np.arange(40, dtype=np.uint64), np.arange(40, dtype=np.uint64) << np.uint64(33)
    words = Ragged.of([low, high])
    found = nearest._fewest_apart(np.stack([low[:STRETCH], high[:STRETCH]]), words, np.arange(2))
    assert found[0, 0] == found[1, 1] == 0 < min(found[0, 1], found[1, 0])


def test_a_copy_is_found_and_what_is_too_short_is_near_nothing(way) -> None:
    rng = np.random.default_rng(3)
    words = Ragged.of([rng.integers(0, 2**32, num, dtype=np.uint64) for num in (50, 15, 0, 40, 16)])
    copied = Ragged.of([*(words[at] for at in range(5)), words[0][5:] ^ np.uint64(1)])
    both = {"chromaprint": copied, "band-signs": Ragged.empty(6)}
    scores = nearest.sounds(both, np.array([0, 1, 3]))(np.arange(6))
    assert scores.shape == (6, 3)
    assert scores[5, 0] == pytest.approx(1 - 1 / 32)
    assert scores[0, 0] == scores[3, 2] == 1.0
    assert np.isneginf(scores[:, 1]).all()
    assert np.isneginf(scores[[1, 2, 4]]).all()
