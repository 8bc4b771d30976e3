"""Drawings that have one shape and two meanings: other colours, another direction. Copies of them are found."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from tests.dedup.test_small_drawings import encoded, pairs


def flag(*colours: str) -> Image.Image:
    """Three bars on a white page."""
    found = Image.new("RGB", (300, 240), "white")
    for at, colour in enumerate(colours):
        ImageDraw.Draw(found).rectangle((20, 20 + 60 * at, 280, 79 + 60 * at), colour)
    return found


def button(colour: str) -> Image.Image:
    found = Image.new("RGB", (200, 200), "white")
    ImageDraw.Draw(found).rounded_rectangle((20, 60, 180, 140), 30, colour, "black", 4)
    return found


def card(suit: str, colour: str) -> Image.Image:
    found = Image.new("RGB", (180, 250), "white")
    draw = ImageDraw.Draw(found)
    draw.rounded_rectangle((5, 5, 175, 245), 12, "#fffbe8", "black", 2)
    for x, y in ((50, 60), (130, 60), (90, 125), (50, 190), (130, 190)):
        points = [(x, y - 20), (x + 15, y), (x, y + 20), (x - 15, y)]
        draw.polygon(points, colour)
    draw.text((15, 12), suit, colour, ImageFont.load_default(24))
    return found


def arrow(side_px: int = 200) -> Image.Image:
    """To the right."""
    found = Image.new("RGB", (200, 200), "white")
    ImageDraw.Draw(found).polygon(
        [(20, 80), (110, 80), (110, 40), (180, 100), (110, 160), (110, 120), (20, 120)], "#104090"
    )
    return found.resize((side_px, side_px), Image.Resampling.LANCZOS)


def numeral(text: str) -> Image.Image:
    found = Image.new("L", (120, 120), 255)
    ImageDraw.Draw(found).text((60, 60), text, 0, ImageFont.load_default(96), anchor="mm")
    return found


OTHERS = {
    "two flags": (flag("black", "red", "yellow"), flag("blue", "black", "white")),
    "two flags of the same tones": (flag("#d02020", "white", "#d02020"), flag("#2058d0", "white", "#2058d0")),
    "two buttons": (button("#20a040"), button("#c02090")),
    "two playing cards": (card("5", "#d00000"), card("5", "black")),
    "a shirt in two colours, as JPEG": (button("#e0c020"), button("#20b0e0")),
    "an arrow and its mirror image": (arrow(), arrow().transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
    "an arrow, turned": (arrow(), arrow().rotate(90)),
    "a small arrow, turned": (arrow(64), arrow(64).rotate(180)),
    "six and nine": (numeral("6"), numeral("9")),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_one_shape_may_be_two_pictures(kind):
    options = {"kind": "JPEG", "quality": 85} if "JPEG" in kind else {}
    one, other = (encoded(picture, **options) for picture in OTHERS[kind])
    assert not pairs({"a": one, "b": other})


def gamma(picture: Image.Image) -> Image.Image:
    return picture.point(lambda level: round(255 * (level / 255) ** 1.6))


EDITS = {
    "JPEG": lambda picture: encoded(picture, "JPEG", quality=30),
    "grey": lambda picture: encoded(picture.convert("L")),
    "less saturated": lambda picture: encoded(ImageEnhance.Color(picture).enhance(0.5)),
    "darker": lambda picture: encoded(gamma(picture)),
    "half the size": lambda picture: encoded(picture.resize([side // 2 for side in picture.size])),
    "a palette": lambda picture: encoded(picture.quantize(16), "GIF"),
    "transparent": lambda picture: encoded(clear(picture)),
}


def clear(picture: Image.Image) -> Image.Image:
    """With no ground where it was white."""
    pixels = np.asarray(picture)
    alpha = np.where((pixels == 255).all(axis=-1), 0, 255).astype(np.uint8)
    return Image.fromarray(np.dstack((pixels, alpha)))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("picture", [flag("black", "red", "yellow"), button("#20a040"), card("5", "#d00000")])
def test_a_copy_of_a_coloured_drawing_is_found(picture, edit):
    assert pairs({"a": encoded(picture), "b": EDITS[edit](picture)})


def test_a_photograph_is_found_mirrored_though_its_sky_is_plain():
    rng = np.random.default_rng(0)
    plane = np.full((300, 400, 3), (235, 240, 250), np.uint8)  # a sky
    land = rng.normal(0, 1, (20, 50, 3)).cumsum(axis=1) * 9 + 110
    plane[150:] = np.asarray(Image.fromarray(land.clip(0, 255).astype(np.uint8)).resize((400, 150), 3))
    photo = Image.fromarray(plane)
    buffer = io.BytesIO()
    photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(buffer, "JPEG", quality=85)
    assert pairs({"a": encoded(photo, "JPEG", quality=92), "b": buffer.getvalue()})
