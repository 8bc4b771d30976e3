"""Prints of samples that are no numbers: files of floats can hold anything."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup.audio.fingerprints import fingerprint_samples
from mmlake.dedup.audio.samples import finite


def noise(seconds: float) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 0.1, round(seconds * 16_000)).astype(np.float32)


def test_numbers_are_left_as_they_are():
    samples = noise(0.1)
    assert finite(samples) is samples
    assert finite(samples.astype(np.float64)).dtype == np.float32


@pytest.mark.parametrize(("odd", "instead"), [(np.nan, 0.0), (np.inf, np.finfo(np.float32).max)])
def test_what_is_no_number_is_replaced(odd, instead):
    samples = noise(0.1)
    samples[5] = odd
    found = finite(samples)
    assert found[5] == np.float32(instead)
    assert np.array_equal(np.delete(found, 5), np.delete(samples, 5))


def test_infinities_that_cancel_are_found():
    assert np.isfinite(finite(np.array([np.inf, -np.inf, 0.5], np.float32))).all()


@pytest.mark.parametrize("seconds", [1.0, 6.0])
def test_one_odd_sample_leaves_the_prints_of_the_rest(seconds):
    clean, odd = noise(seconds), noise(seconds)
    clean[8_000], odd[8_000] = 0.0, np.nan
    for name, words in fingerprint_samples(clean).items():
        assert np.array_equal(words, fingerprint_samples(odd)[name]), name
