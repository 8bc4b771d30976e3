"""Pictures of 32 px, as of data sets for classifiers: what was edited as a whole is a copy, what differs in one place,
or is shown from elsewhere, is not."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints, matcher
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged

SIDE_PX, NUM = 32, 24


def scene(seed: int) -> Image.Image:
    """A picture with structure at all scales."""
    rng = np.random.default_rng(seed)
    planes = [
        np.asarray(
            Image.fromarray(rng.integers(0, 255, (size, size, 3), dtype=np.uint8)).resize((SIDE_PX, SIDE_PX), 3), float
        )
        for size in (3, 7, 15)
    ]
    return Image.fromarray(np.average(planes, axis=0, weights=(3, 2, 1)).clip(0, 255).astype(np.uint8))


def coded(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


@lru_cache(maxsize=64)
def fingerprint_of(blob: bytes) -> dict[str, np.ndarray]:
    return fingerprints.fingerprint(blob)


def is_copy(one: bytes, other: bytes) -> bool:
    prints = [fingerprint_of(blob) for blob in (one, other)]
    table = {name: Ragged.of([found[name] for found in prints]) for name in fingerprints.METHODS}
    return matcher.matcher(table, DedupSettings()).compare(0, np.array([1])).relation[0] == SAME


def cropped(picture: Image.Image) -> Image.Image:
    return picture.crop((2, 1, 31, 30)).resize(picture.size, Image.Resampling.BICUBIC)


@pytest.mark.parametrize(
    ("edit", "least"),
    [
        (lambda one: coded(one, "JPEG", quality=20), 0.9),
        (lambda one: coded(one.filter(ImageFilter.UnsharpMask(1, 120, 0))), 0.8),
        (lambda one: coded(one.filter(ImageFilter.GaussianBlur(0.7))), 0.9),
        (lambda one: coded(one.resize((16, 16), Image.Resampling.BOX)), 0.7),
        (lambda one: coded(cropped(one)), 0.9),
    ],
    ids=["JPEG q20", "sharpened", "blurred", "half size", "cropped"],
)
def test_what_was_edited_as_a_whole_is_a_copy(edit, least):
    scenes = [scene(seed) for seed in range(NUM)]
    assert np.mean([is_copy(coded(one), edit(one)) for one in scenes]) >= least


def test_what_differs_in_one_place_is_another_picture():
    for seed in range(NUM):
        changed = scene(seed)
        is_dark = np.asarray(changed.convert("L"))[18:24, 18:24].mean() < 128
        ImageDraw.Draw(changed).ellipse((18, 18, 23, 23), fill=(240, 240, 220) if is_dark else (10, 10, 40))
        assert not is_copy(coded(scene(seed)), coded(changed)), seed


def test_scenes_of_their_own_are_apart():
    blobs = [coded(scene(seed)) for seed in range(NUM)]
    assert not any(is_copy(blobs[one], blobs[other]) for other in range(NUM) for one in range(other))


def plane(seed: int) -> bytes:
    """The silhouette of a plane before the sky, from anywhere."""
    rng = np.random.default_rng(seed)
    turned, span, sweep = np.deg2rad(rng.uniform(0, 360)), rng.uniform(0.5, 1), rng.uniform(0.1, 0.6)
    side = [(0.0, -1.0), (0.12, -0.6), (span, sweep), (span, sweep + 0.2), (0.12, 0.2), (0.35, 0.9), (0.0, 0.75)]
    outline = np.array(side + [(-x, y) for x, y in side[-2:0:-1]])
    turn = np.array([[np.cos(turned), np.sin(turned)], [-np.sin(turned), np.cos(turned)]])
    points = outline @ turn * rng.uniform(80, 110) + 128 + rng.normal(0, 8, 2)
    sky = np.linspace(*rng.uniform(120, 230, 2), 256)[:, None].repeat(256, 1)
    large = Image.fromarray(sky.astype(np.uint8)).convert("RGB")
    ImageDraw.Draw(large).polygon([tuple(point) for point in points], fill=tuple(rng.integers(20, 70, 3).tolist()))
    return coded(large.resize((SIDE_PX, SIDE_PX), Image.Resampling.BOX))


def test_silhouettes_are_not_bent_until_they_fit():
    planes = [plane(seed) for seed in range(12, 40)]
    found = sum(is_copy(planes[one], planes[other]) for other in range(28) for one in range(other))
    assert found <= 4  # of 378; a plane may come again
