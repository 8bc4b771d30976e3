"""Traces of an enlargement: at the period of the original's pixels or blocks, and none where nothing was enlarged."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from mmlake.quality.resampling import profiles, resampled_at
from tests.quality.test_image_fidelity import measured, photograph

KINDS = [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS]


def luma(picture, **options):
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", **options)
    return np.asarray(Image.open(buffer).convert("L"), np.float32)


def enlarged(one, factor, kind=Image.Resampling.BICUBIC):
    return one.resize([round(side * factor) for side in one.size], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("factor", "cycles"), [(1.25, 0.2), (1.7, 1 - 1 / 1.7), (3.0, 1 / 3)])
def test_the_period_is_that_of_the_originals_pixels(kind, factor, cycles):
    found = resampled_at([profiles(luma(enlarged(photograph(side=600), factor, kind), quality=85))])
    assert found == pytest.approx(cycles, abs=0.002)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("quality", [40, 75, 92])
def test_what_was_not_enlarged_has_none(seed, quality):
    assert resampled_at([profiles(luma(photograph(seed, 500), quality=quality))]) is None


def test_a_smaller_copy_has_none():
    assert measured(photograph(side=600).resize((420, 420), Image.Resampling.LANCZOS))["resampled_at"] is None


@pytest.mark.parametrize("side", [1, 2, 3, 40, 97])
def test_what_is_too_small_or_plain_has_none(side):
    assert resampled_at([profiles(np.zeros((side, side), np.uint8))]) is None
    assert resampled_at([profiles(np.zeros((side, 300), np.uint8))]) is None
    assert resampled_at([]) is None


def test_the_period_of_blocks_is_not_seen():
    blocks = np.kron(np.random.default_rng(0).integers(0, 255, (40, 40)), np.ones((8, 8)))
    noise = np.random.default_rng(1).normal(0, 2, blocks.shape)
    assert resampled_at([profiles(blocks + noise)]) is None
    assert resampled_at([profiles(blocks + noise)], block_px=7) is not None


def test_a_plane_at_half_the_size_says_what_the_file_has():
    plane = luma(enlarged(photograph(side=600), 1.25), quality=90)
    assert resampled_at([profiles(plane)], scale=2.0) == pytest.approx(0.1, abs=0.001)


def test_several_pictures_show_what_one_hides():
    rng = np.random.default_rng(2)
    shown = [enlarged(photograph(seed, side=240), 1.25) for seed in range(8)]
    planes = [np.asarray(one.convert("L"), np.float64) + rng.normal(0, 20, one.size[::-1]) for one in shown]
    alone = [resampled_at([profiles(plane)]) for plane in planes]
    assert None in alone
    assert resampled_at([profiles(plane) for plane in planes]) == pytest.approx(0.2, abs=0.005)
