"""Each image rule with a case just inside and just outside of its range."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw, ImageFilter
from quality_media import image_track, measures_of, picture, rules_broken

from mmlake.quality.focus import blur, focus_blur
from mmlake.store import BlobStore


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_a_sharp_picture_is_clean(store, seed):
    assert rules_broken(image_track(store, picture(seed), "JPEG"), store) == []


def test_a_jpeg_that_stores_rgb_is_measured(store):
    """Requirement: libjpeg makes no YCbCr of RGB; such a picture is as good as any."""
    assert rules_broken(image_track(store, picture(0).convert("RGB"), "JPEG", keep_rgb=True), store) == []


@pytest.mark.parametrize(("side_px", "is_broken"), [(32, False), (31, True)])
def test_thirty_two_pixels_are_the_smallest_side(store, side_px, is_broken):
    assert ("too_small" in rules_broken(image_track(store, picture(size=(64, side_px))), store)) == is_broken


@pytest.mark.parametrize(("step", "is_broken"), [(3, True), (5, False)])
def test_a_picture_of_one_brightness_is_blank(store, step, is_broken):
    pixels = np.full((100, 100), 128, np.uint8)
    pixels[:, 50:] += step  # two halves that differ by s have a standard deviation of s / 2
    assert ("blank" in rules_broken(image_track(store, Image.fromarray(pixels)), store)) == is_broken


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "CMYK", "1", "LA", "I;16", "YCbCr", "F", "LAB"])
def test_every_pixel_mode_is_measured(store, mode):
    source = picture().convert("RGB" if mode in ("I;16", "LAB") else mode)
    if mode == "I;16":
        source = Image.fromarray(np.asarray(picture()).astype(np.uint16) * 200)
    elif mode == "LAB":
        source = ImageCms.profileToProfile(
            source, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
        )
    row = image_track(store, source, "TIFF")
    assert measures_of(row, store)["luma_std"] > 10


def test_a_drawing_on_a_transparent_ground_is_not_blank(store):
    layer = Image.new("RGBA", (200, 200), (255, 255, 255, 0))
    layer.paste((255, 255, 255, 255), (50, 50, 120, 150))
    assert "blank" not in rules_broken(image_track(store, layer), store)


@pytest.mark.parametrize("size", [(500, 375), (1500, 1125), (375, 500)])
def test_defocus_of_four_pixels_in_five_hundred_is_blurred_at_any_resolution(store, size):
    row = image_track(store, picture(1, size=size, blur_px=4 * max(size) / 500), "JPEG")
    assert rules_broken(row, store) == ["blurred"]


@pytest.mark.parametrize("is_in_focus", [True, False])
def test_what_stands_sharp_before_a_soft_ground_is_in_focus(store, is_in_focus):
    shown = picture(3, size=(600, 450), blur_px=8)
    ImageDraw.Draw(shown).regular_polygon((250, 200, 40), 7, fill=0, outline=255, width=8)  # a beetle on a leaf
    shown = shown if is_in_focus else shown.filter(ImageFilter.GaussianBlur(6))
    assert ("blurred" in rules_broken(image_track(store, shown, "JPEG"), store)) != is_in_focus


@pytest.mark.parametrize("gain", [1.0, 0.3, 0.1])
def test_blur_does_not_depend_on_contrast(gain):
    plane = np.asarray(picture(2), np.float32)
    assert blur(plane * gain) == pytest.approx(blur(plane), abs=1e-3)


def test_more_blur_measures_higher():
    values = [blur(np.asarray(picture(3, blur_px=radius), np.float32)) for radius in (0, 1, 2, 4)]
    assert values == sorted(values)


@pytest.mark.parametrize("shape", [(10, 10), (300, 300)])
def test_nothing_to_be_sharp_has_no_blur(shape):
    assert blur(np.full(shape, 90, np.float32)) is None


@pytest.mark.parametrize(("width_px", "is_broken"), [(499, False), (500, True)])
def test_five_to_one_is_an_extreme_aspect(store, width_px, is_broken):
    assert ("extreme_aspect" in rules_broken(image_track(store, picture(size=(width_px, 100))), store)) == is_broken


def test_a_blob_that_no_longer_decodes_is_kept_out(store):
    row = image_track(store, picture()) | {"digest": store.put(b"not a picture")}
    assert rules_broken(row, store) == ["unmeasured"]


@pytest.mark.parametrize("shape", [(1, 1), (17, 500), (18, 18), (143, 147), (150, 163), (37, 512)])
def test_pictures_of_every_size_have_a_blur_or_none(shape):
    value = focus_blur(np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32), parts=8)
    assert (value is None) == (min(shape) < 18)
    assert value is None or 0 < value < 1


def test_of_a_picture_in_pieces_the_sharpest_counts_as_if_it_were_alone():
    plane = np.asarray(picture(1, size=(512, 384), blur_px=6).convert("L"), np.float32)
    sharp = np.asarray(picture(2, size=(512, 384)).convert("L"), np.float32)
    places = [np.s_[top : top + 48, left : left + 64] for top in range(0, 384, 96) for left in range(0, 512, 128)]
    for place in places:
        plane[place] = sharp[place]
    alone = min(blur(sharp[place]) for place in places)
    assert focus_blur(plane, parts=8) == pytest.approx(alone, abs=0.05)
    assert blur(plane) > alone + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_grey_levels_is_that_of_pillow_and_numpy(store, seed) -> None:
    """Dark, light and uniform pictures are found by these, as cleanvision does; a whole picture has no entropy."""
    levels = np.random.default_rng(seed).integers(0, 60 + 40 * seed, (96, 64), dtype=np.uint8)
    found, shown = measures_of(image_track(store, Image.fromarray(levels)), store), Image.fromarray(levels)
    assert found["entropy_bits"] == pytest.approx(shown.entropy(), abs=1e-9)
    assert (found["luma_p5"], found["luma_p99"]) == tuple(np.percentile(levels, (5, 99)))
    for level in (0, 255):
        found = measures_of(image_track(store, Image.new("L", (200, 200), level)), store)
        assert (found["luma_p5"], found["luma_p99"], found["entropy_bits"]) == (level, level, 0)
