"""Copies under another light: a gain that changes slowly over the picture is a filter, one that does in a place is
another thing."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints, matcher, tones
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged

SIDE_PX, NUM = 200, 12


def scene(seed: int) -> Image.Image:
    """A picture with structure at all scales."""
    rng = np.random.default_rng(seed)
    planes = [
        np.asarray(Image.fromarray(rng.integers(0, 255, (size, size, 3), np.uint8)).resize((SIDE_PX,) * 2, 3), float)
        for size in (3, 9, 27)
    ]
    return Image.fromarray((1.4 * np.average(planes, axis=0, weights=(2, 2, 2)) - 50).clip(15, 190).astype(np.uint8))


def under(picture: Image.Image, gain_HW: np.ndarray) -> Image.Image:
    return Image.fromarray((np.asarray(picture) * gain_HW[..., None]).clip(0, 255).astype(np.uint8))


def is_copy(one: Image.Image, other: Image.Image) -> bool:
    prints = []
    for picture in (one, other):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=92)
        prints.append(fingerprints.fingerprint(buffer.getvalue()))
    table = {name: Ragged.of([found[name] for found in prints]) for name in fingerprints.METHODS}
    return matcher.matcher(table, DedupSettings()).compare(0, np.array([1])).relation[0] == SAME


DOWN, ACROSS = np.meshgrid(np.linspace(-1, 1, SIDE_PX), np.linspace(-1, 1, SIDE_PX), indexing="ij")
LIGHTS = {
    "from the right": 1 + 0.25 * ACROSS,
    "from above": 1 - 0.25 * DOWN,
    "dark corners": 1.1 - 0.25 * (ACROSS**2 + DOWN**2),
}


@pytest.mark.parametrize("light", LIGHTS)
def test_a_copy_under_another_light_is_found(light):
    found = [is_copy(scene(seed), under(scene(seed), LIGHTS[light])) for seed in range(NUM)]
    assert np.mean(found) >= 0.75, found


def leaves(seed: int) -> Image.Image:
    """A picture that is fine texture everywhere: a grid of sixteen cells a side shows little but the light on it."""
    noise = np.random.default_rng(seed).integers(0, 255, (48, 48, 3), np.uint8)
    fine = np.asarray(Image.fromarray(noise).resize((SIDE_PX,) * 2, 3), float)
    return Image.fromarray((0.6 * fine + 40).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("light", LIGHTS)
def test_a_copy_of_mere_texture_under_another_light_is_found(light):
    found = [is_copy(leaves(seed), under(leaves(seed), LIGHTS[light])) for seed in range(NUM)]
    assert np.mean(found) >= 0.75, found
    assert not any(is_copy(leaves(seed), under(leaves(seed + NUM), LIGHTS[light])) for seed in range(NUM))


@pytest.mark.parametrize("light", LIGHTS)
def test_another_thing_under_another_light_is_none(light):
    for seed in range(NUM):
        changed = scene(seed)
        is_dark = np.asarray(changed.convert("L"))[90:125, 60:95].mean() < 128
        ImageDraw.Draw(changed).ellipse((60, 90, 95, 125), fill=(230, 230, 220) if is_dark else (20, 20, 40))
        assert not is_copy(scene(seed), under(changed, LIGHTS[light])), seed


def test_the_gain_of_a_filter_is_taken_back():
    plane = np.asarray(scene(1).convert("L").resize((SIDE, SIDE)), np.float32)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    filtered = (plane * (0.9 + 0.3 * x - 0.2 * y * y) + 7).astype(np.float32)
    seen = np.ones((SIDE, SIDE), np.bool_)
    assert np.abs(tones.lit(plane, filtered, seen) - filtered).max() < 1
    assert np.abs(plane - filtered).max() > 30
