"""What is measured of whole grey levels is equal, digit by digit, to the plainer formula or to the same as floats."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.quality.grey_levels import GreyLevels
from mmlake.quality.image_fidelity import Decoded, fidelity, noise_floor
from mmlake.quality.resampling import profiles

SHAPES = [(1, 1), (2, 3), (3, 2), (16, 16), (97, 131), (130, 96), (513, 700), (1_025, 40)]


def _picture(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Levels with structure and noise."""
    rng = np.random.default_rng(seed)
    down, across = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    waves = 128 + 90 * np.sin(down / 7) * np.cos(across / 11)
    return np.clip(waves + rng.normal(0, 9, shape), 0, 255)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["parts", "whole", "flat", "beyond", "halves"])
def test_percentiles_are_those_of_all_levels(shape: tuple[int, int], kind: str) -> None:
    plane = _picture(shape, 1).astype(np.float32)
    plane = {
        "parts": plane,
        "whole": np.rint(plane),
        "flat": np.full_like(plane, 77.25),
        "beyond": 3 * plane - 200,
        "halves": np.rint(2 * plane) / 2,
    }[kind]
    percents = (0, 1, 5, 50, 99, 100)
    assert GreyLevels(plane).percentiles(percents) == np.percentile(plane, percents).tolist()


def test_levels_are_counted_to_the_nearest_whole_one() -> None:
    plane = (2 * _picture((97, 131), 2) - 100).astype(np.float32)
    expected = np.bincount(np.rint(plane).astype(np.int64).clip(0, 255).ravel(), minlength=256)
    np.testing.assert_array_equal(GreyLevels(plane).counts, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_second_differences_of_bytes_are_those_of_whole_numbers(shape: tuple[int, int]) -> None:
    plane = np.rint(_picture(shape, 3)).astype(np.uint8)
    for own, expected in zip(profiles(plane), profiles(plane.astype(np.int16)), strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_of_bytes_is_that_of_floats(shape: tuple[int, int]) -> None:
    plane = np.rint(_picture(shape, 4)).astype(np.uint8)
    assert noise_floor(plane) == noise_floor(plane.astype(np.float32))
    extreme = np.where(np.indices(shape).sum(axis=0) % 2, 255, 0).astype(np.uint8)  # the largest sums
    assert noise_floor(extreme) == noise_floor(extreme.astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES[3:])
@pytest.mark.parametrize("table", [None, tuple(range(3, 67))])
def test_the_fidelity_of_bytes_is_that_of_floats(shape: tuple[int, int], table: tuple[int, ...] | None) -> None:
    plane = np.rint(_picture(shape, 5)).astype(np.uint8)
    found = [
        fidelity(Decoded(one, max(shape), chroma=3.0, mode="L", table=table, stated_quality=None))
        for one in (plane, plane.astype(np.float32))
    ]
    assert found[0] == found[1]
