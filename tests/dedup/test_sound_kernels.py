"""Compiled and plain code lay recordings along each other alike, and see the same strangers."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup.audio import align, fingerprints
from mmlake.dedup.audio import kernels as audio_kernels
from mmlake.dedup.audio import keys as audio_keys
from mmlake.dedup.prints import Ragged
from tests.dedup.numba_there import needs_numba

HOW = ({"block": 32, "drift": 2, "window": 24}, {"block": 64, "drift": 4, "window": 8})


def prints(rng):
    """Words of 30 recordings of any length; half of them are the one before, cut, with some bits changed."""
    rows = []
    for at in range(30):
        words = rng.integers(0, 2**63, int(rng.integers(0, 400)), dtype=np.uint64) << np.uint64(1)
        words[rng.random(len(words)) < 0.1] = 0
        if at % 2 and len(rows[-1]):
            words = rows[-1][int(rng.integers(len(rows[-1]))) // 2 :].copy()
            words ^= np.uint64(1) << rng.integers(0, 64, len(words)).astype(np.uint64)
        rows.append(words)
    return rows


def in_both_ways(monkeypatch, made):
    found = []
    for kernels in (None, audio_kernels.kernels()):
        monkeypatch.setattr(audio_kernels, "compiled", lambda num, found=kernels: found)
        found.append(made())
    return found


@needs_numba
@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_plain_code_find_the_same_common_parts(seed, monkeypatch):
    rows = prints(np.random.default_rng(seed))
    pairs = [sorted((one, other), key=len) for one in rows for other in rows]

    def made():
        return [align.common_part(short, long, **HOW[seed % 2]) for short, long in pairs]

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled
    assert sum(one.evidence > 0 for one in plain) > len(rows)


@needs_numba
@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_plain_code_see_the_same_strangers(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    words = [Ragged.of(prints(rng)) for _ in range(2)]
    # fewer signs of each half, so that strangers share keys
    kinds = [kind._replace(signs=5, brief=200) for kind in fingerprints._KINDS]
    keys = audio_keys.together([audio_keys.keys_of(rows, kind) for rows, kind in zip(words, kinds, strict=True)])
    everybody = np.arange(len(keys))

    def made():
        return [audio_keys.are_strangers(words, kinds, keys, one, everybody).tolist() for one in everybody.tolist()]

    monkeypatch.setattr(audio_keys, "_BY_CHANCE", 400)
    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled
    assert 0 < np.sum(plain) < np.size(plain)


@pytest.mark.parametrize("num", [1, 2, 3, 5, 6, 11, 64, 199])
def test_the_80th_percentile_is_that_of_numpy_to_the_last_bit(num):
    rng = np.random.default_rng(num)
    for _ in range(50):
        values = rng.integers(0, 60, num) / 2
        assert align._usual(values) == np.percentile(values, 80)


@pytest.mark.parametrize("window", [1, 8, 50])
def test_sums_of_windows_are_those_of_a_convolution(window):
    values = np.random.default_rng(window).integers(-9, 60, 30) / 2
    expected = np.convolve(values, np.ones(min(window, 30)), "valid")
    assert align._in_windows(values, window).tolist() == expected.tolist()
