"""Edits that people make of pictures before they send them on: a square out of the middle, a border, one tone."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from mmlake.dedup.criteria import Criterion
from mmlake.dedup.image.places import places
from mmlake.dedup.image.windows import NUM_CLOSE, WINDOWS
from mmlake.media.picture_borders import WHOLE, framed
from mmlake.quality.image import decoded
from mmlake.quality.image_fidelity import fidelity
from tests.dedup.test_dedup_image import matched, matcher_of
from tests.dedup.test_elections import coded, photograph, survivors
from tests.dedup.test_sizes_of_pictures import elected
from tests.made_profiles import ADOBE_RGB, power_curve, rgb_profile


def wide(seed: int, size_px=(600, 340)) -> Image.Image:
    """A picture with detail at all scales and several hues."""
    return photograph(seed, max(size_px)).crop((0, 0, *size_px))


def coloured(seed: int) -> Image.Image:
    """The same with hues that its luma does not say, stored without loss, so that its colours are compared."""
    rng, luma = np.random.default_rng(seed), np.asarray(wide(seed).convert("L"), np.float32)
    hues = Image.fromarray(rng.integers(0, 255, (4, 5, 2), dtype=np.uint8).repeat(2, axis=2)[..., :3])
    blue, red = (np.asarray(hues.getchannel(at).resize(luma.shape[::-1], Image.Resampling.BICUBIC)) for at in (0, 2))
    return Image.merge("YCbCr", [Image.fromarray(one.astype(np.uint8)) for one in (luma, blue, red)]).convert("RGB")


def middle(one: Image.Image, across: float, down: float) -> Image.Image:
    width, height = one.size
    return one.crop(
        (round(width * (0.5 - across / 2)), round(height * (0.5 - down / 2)),
         round(width * (0.5 + across / 2)), round(height * (0.5 + down / 2)))
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("across", "down"), [(0.5625, 1), (0.63, 1), (0.7, 1), (0.76, 1), (1, 0.57), (1, 0.75), (0.75, 0.75), (0.6, 0.6)]
)
def test_the_middle_of_a_picture_is_a_copy_of_it(seed, across, down):
    """A square, 4:5, less of all sides: crops of a tenth of each side at most were found."""
    one = wide(seed)
    assert matched([coded(one, quality=92), coded(middle(one, across, down), quality=80)])


@pytest.mark.parametrize("seed", range(3))
def test_the_middles_of_two_pictures_are_two(seed):
    one, other = wide(seed), wide(seed + 50)
    assert not matched([coded(one, quality=92), coded(middle(other, 0.56, 1), quality=80)])


@pytest.mark.parametrize(("side_px", "is_tried"), [(40, False), (200, True)])
def test_of_tiny_pictures_no_half_is_compared(side_px, is_tried):
    """It has too few pixels to say no: of 60,000 photographs of 32 px more pairs were wrong."""
    one = wide(3).resize((side_px, side_px), Image.Resampling.BOX)
    matcher = matcher_of([coded(picture, "PNG") for picture in (one, middle(one, 0.6, 1))])
    boxes = {place.box for place in places(*(matcher._view(at) for at in (0, 1)))}
    assert bool(boxes & set(WINDOWS[NUM_CLOSE:])) == is_tried


BORDERS = {
    "border": lambda one: ImageOps.expand(one, 30, "white"),
    "letterbox": lambda one: ImageOps.pad(one, (one.width, round(one.height * 1.3)), color="black"),
    "pillarbox": lambda one: ImageOps.pad(one, (round(one.width * 1.4), one.height), color="black"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("border", BORDERS)
def test_of_a_picture_and_its_bordered_copy_the_picture_stays(seed, border):
    """The border made the copy larger: of pairs of a photograph and one with a border the copy stayed in 27 of 28."""
    one = wide(seed)
    family = {"original": coded(one, quality=90), "bordered": coded(BORDERS[border](one), quality=95)}
    assert survivors(family) == ["original"]


@pytest.mark.parametrize("border", BORDERS)
def test_a_border_is_no_part_of_a_picture_and_adds_no_detail(border):
    one = wide(1)
    own, other = (fidelity(decoded(coded(picture, "PNG"))) for picture in (one, BORDERS[border](one)))
    assert own["framed_fraction"] == 0
    share = 1 - np.prod(one.size) / np.prod(BORDERS[border](one).size)
    assert other["framed_fraction"] == pytest.approx(share, abs=0.02)
    assert other["real_px"] == pytest.approx(own["real_px"], rel=0.1)
    assert other["detail_px"] == pytest.approx(own["detail_px"], rel=0.1)


def test_the_ground_of_a_thing_is_no_border():
    """It ends where the thing begins, in no edge along the side."""
    plane = np.full((300, 400), 250, np.uint8)
    down, across = np.mgrid[:300, :400]
    plane[(down - 150) ** 2 + (across - 200) ** 2 < 110**2] = 90
    assert framed(plane) == WHOLE
    plane[60:240, 60:340] = np.asarray(wide(2).convert("L").resize((280, 180)))
    top, bottom, left, right = framed(plane)
    assert (top, bottom, left, right) != WHOLE


def test_what_is_framed_says_nothing_of_copies_of_one_shape():
    """An edge that a picture has of itself is seen in one tone or size and not in another."""
    criteria = (
        Criterion(
            name="framed", column="framed", best="low", tolerance=0.0, margin=0.02, unless=("aspect",), alike=0.01
        ),
        Criterion(name="aspect", column="aspect_ratio", best=""),
        Criterion(name="coding", column="codec_quality", says="compressed less"),
    )
    assert elected(criteria, (0.2, 1.5, 90), (0.0, 1.5, 50)) == 0
    assert elected(criteria, (0.2, 1.3, 90), (0.0, 1.5, 50)) == 1
    assert elected(criteria, (0.2, 1.5, 90), (0.1, 1.5, 70), (0.0, 1.51, 50)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_of_copies_without_their_profile_the_original_stays(seed):
    """They are in one wrong tone, all of them close to each other; the original is close to none."""
    one = wide(seed)
    profile = rgb_profile(ADOBE_RGB, power_curve(2.2))
    copies = {
        "recoded": one,
        "smaller": one.resize((480, 272)),
        "mirrored": ImageOps.mirror(one),
        "cropped": middle(one, 0.9, 0.9),
        "brighter": Image.eval(one, lambda level: min(255, round(1.1 * level))),
    }
    family = {name: coded(copy, quality=90) for name, copy in copies.items()}
    assert survivors(family | {"original": coded(one, quality=90, icc_profile=profile)}) == ["original"]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_in_one_tone_is_a_copy_and_one_in_other_colours_is_none(seed):
    """Sepia had colours that no edit gives: pictures that are no JPEGs were two."""
    one = coloured(seed)
    luma = np.asarray(one.convert("L"), np.float32)[..., None]
    sepia = Image.fromarray((luma * (1.08, 0.9, 0.68) + (12, 6, 0)).clip(0, 255).astype(np.uint8))
    channels = one.convert("YCbCr").split()
    other = Image.merge("YCbCr", (channels[0], *(ImageOps.invert(plane) for plane in channels[1:]))).convert("RGB")
    blobs = [coded(picture, "WEBP", quality=95) for picture in (one, sepia, other)]
    assert set(matched(blobs)) == {(0, 1)}


@pytest.mark.parametrize("seed", [4, 7, 8, 9])
def test_automatic_contrast_of_each_channel_is_an_edit(seed):
    """It gives a red cast other colours, place by place as much as the levels of its channels say."""
    values = np.asarray(coloured(seed), np.float32) * (0.45, 0.6, 0.9) + (120, 40, 5)
    one = Image.fromarray(values.clip(0, 255).astype(np.uint8))
    assert matched([coded(picture, "WEBP", quality=95) for picture in (one, ImageOps.autocontrast(one, cutoff=1))])


@pytest.mark.parametrize("seed", [0, 4, 7, 9])
def test_an_equalized_photograph_is_a_copy(seed):
    """Of a night with a few lamps the tones go three steps up: no cubic follows."""
    values = np.asarray(wide(seed), np.float32)
    low, mid, high = values * 0.1, 110 + (values - 90) * 0.2, 230 + (values - 170) * 0.2
    night = Image.fromarray(np.where(values < 90, low, np.where(values < 170, mid, high)).clip(0, 255).astype(np.uint8))
    assert matched([coded(night, quality=92), coded(ImageOps.equalize(night), quality=90)])


def test_the_picture_of_a_border_alone_is_measured():
    blob = io.BytesIO()
    Image.new("RGB", (80, 60), "white").save(blob, "PNG")
    assert fidelity(decoded(blob.getvalue()))["framed_fraction"] == 0
