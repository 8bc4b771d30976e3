"""Measures of what a copy of a picture still has of the original."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import pytest

from mmlake.quality.image import decoded
from mmlake.quality.image_fidelity import fidelity, sharp_fraction


def photograph(seed=0, side=400):
    """A picture with detail up to its last pixel, whose spectrum falls as that of photographs does."""
    from PIL import Image

    return Image.fromarray(_photographed(seed, side))


@lru_cache(maxsize=16)
def _photographed(seed, side):
    rng = np.random.default_rng(seed)
    down, across = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    radius = np.maximum(np.hypot(down, across), 1 / side)
    planes = [np.fft.irfft2(np.fft.rfft2(rng.normal(size=(side, side))) / radius, s=(side, side)) for _ in range(3)]
    mixed = np.stack([planes[0] + 0.3 * plane for plane in planes], axis=2)
    return (128 + 20 * mixed / mixed.std()).clip(0, 255).astype(np.uint8)


def measured(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return fidelity(decoded(buffer.getvalue()))


def test_a_picture_enlarged_twofold_has_no_more_detail_and_is_less_sharp():
    one = photograph()
    original, enlarged = measured(one), measured(one.resize((800, 800), 3))
    assert original["sharp_fraction"] >= 1.2 * enlarged["sharp_fraction"]
    assert enlarged["detail_px"] <= 1.7 * original["detail_px"]


def test_a_picture_at_half_its_size_has_half_of_the_detail():
    one = photograph()
    assert measured(one.resize((200, 200), 1))["detail_px"] == pytest.approx(measured(one)["detail_px"] / 2, rel=0.1)


@pytest.mark.parametrize("quality", [10, 30, 60, 75])
def test_the_quality_of_a_jpeg_is_found_in_its_tables_and_again_in_a_png_of_it(quality):
    from PIL import Image

    buffer = io.BytesIO()
    photograph().save(buffer, "JPEG", quality=quality)
    assert fidelity(decoded(buffer.getvalue()))["codec_quality"] == pytest.approx(quality, abs=5)
    if quality >= 30:  # below, too few values are left to show their steps
        assert measured(Image.open(buffer))["codec_quality"] == pytest.approx(quality, abs=12)


def test_a_jpeg_made_of_a_worse_one_is_no_better_than_that():
    from PIL import Image

    buffer = io.BytesIO()
    photograph().save(buffer, "JPEG", quality=40)
    assert measured(Image.open(buffer), "JPEG", quality=92)["codec_quality"] <= 50


@pytest.mark.parametrize(
    ("first", "kind", "options"),
    [(35, "WEBP", {"quality": 80}), (60, "WEBP", {"quality": 90}), (85, "PNG", {}), (90, "PNG", {})],
)
def test_a_jpeg_is_seen_behind_a_second_codec(first, kind, options):
    """By the steps of all values together: none of them shows behind WebP, and steps of 2 show in no one alone."""
    from PIL import Image

    buffer = io.BytesIO()
    photograph().save(buffer, "JPEG", quality=first)
    assert measured(Image.open(buffer), kind, **options)["codec_quality"] == pytest.approx(first, abs=6)
    assert measured(photograph(), kind, **options)["codec_quality"] > options.get("quality", 100) - 6


def test_a_table_or_chart_is_no_coarse_jpeg():
    """All values of a line are equal, so they keep to a step: it was taken for one of quality 9."""
    from PIL import Image, ImageDraw

    for first in (100, 133, 201):
        page = Image.new("RGB", (400, 400), "white")
        for at in range(first, first + 150, 31):
            ImageDraw.Draw(page).line((0, at, 400, at), "gray")
            ImageDraw.Draw(page).line((at, 0, at, 400), "gray")
        assert measured(page)["codec_quality"] == 100


def test_a_picture_without_loss_has_all_of_its_quality():
    assert measured(photograph())["codec_quality"] == 100


def test_noise_colour_and_depth_are_measured():
    from PIL import Image

    one = photograph()
    values = np.asarray(one).astype(float) + np.random.default_rng(1).normal(0, 20, (400, 400, 1))
    noisy = Image.fromarray(values.clip(0, 255).astype(np.uint8))
    assert measured(noisy)["noise_floor"] >= measured(one)["noise_floor"] + 6
    assert (measured(one)["is_coloured"], measured(one.convert("L"))["is_coloured"]) == (1.0, 0.0)
    deep = Image.fromarray((np.arange(10_000, dtype=np.uint16) * 6).reshape(100, 100))
    assert (measured(deep)["bits_per_channel"], measured(one)["bits_per_channel"]) == (16.0, 8.0)


def test_what_a_codec_adds_to_faint_detail_makes_no_picture_sharper_by_a_step():
    rng, side = np.random.default_rng(0), 640
    radius = np.maximum(np.abs(np.fft.fftfreq(side)[:, None]), np.fft.rfftfreq(side)[None])
    waves = np.fft.rfft2(rng.normal(size=(side, side))) / np.maximum(radius, 1 / side)
    found = []
    for faint in (0.04, 0.06):  # of the power that a natural picture has beyond a quarter of the spectrum
        plane = np.fft.irfft2(np.where(radius < 0.125, waves, waves * np.sqrt(faint)), s=(side, side))
        found.append(sharp_fraction((128 + 50 * plane / plane.std()).astype(np.float32)))
    assert found[0] < found[1] < 1.3 * found[0]


@pytest.mark.parametrize("quality", [None, 92])
def test_the_more_a_picture_is_blurred_the_less_sharp_it_is(quality):
    """Of one that was blurred by 7 px and more nothing was left to measure, which counted as all of it."""
    from PIL import ImageFilter

    options = {"kind": "PNG"} if quality is None else {"kind": "JPEG", "quality": quality}
    one = photograph()
    found = [
        measured(one.filter(ImageFilter.GaussianBlur(radius)), **options)["sharp_fraction"]
        for radius in (0, 1, 2, 4, 6, 8, 12, 16)
    ]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.2


def test_a_smooth_sky_makes_what_stands_before_it_no_less_sharp():
    sky = np.repeat(np.linspace(90, 160, 400)[:, None], 400, axis=1).astype(np.float32)
    scene = np.asarray(photograph().convert("L"), np.float32)
    assert sharp_fraction(np.vstack([sky[:200], scene[200:]])) == pytest.approx(sharp_fraction(scene), abs=0.1)
