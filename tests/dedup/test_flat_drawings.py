"""Shapes and letters on a flat ground: what surrounds them is their ground and no border, so a shape that is cut at its
sides is not like any other plane of one level."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.dedup.test_small_drawings import encoded, pairs


def drawn(size: tuple[int, int], ground: str, shape) -> Image.Image:
    picture = Image.new("RGB", size, ground)
    shape(ImageDraw.Draw(picture))
    return picture


SMALL, GREEN = (100, 100), "#c0ffc0"
PAIRS = {
    "a rounded square and a square": (
        drawn((200, 200), "black", lambda draw: draw.rounded_rectangle((10, 20, 190, 180), 30, "red", "green", 5)),
        drawn(SMALL, "black", lambda draw: draw.rectangle((25, 25, 75, 75), "red")),
    ),
    "an outline and a half-open field": (
        drawn(SMALL, "black", lambda draw: draw.rectangle((25, 25, 75, 75), outline="#606060")),
        drawn((200, 110), "white", lambda draw: draw.rectangle((8, 0, 192, 105), "black", "#a0a0a0")),
    ),
    "a square and a disc": (
        drawn((400, 400), "black", lambda draw: draw.rectangle((52, 52, 347, 347), "#701414")),
        drawn(SMALL, "black", lambda draw: draw.ellipse((25, 25, 75, 75), "green", "blue", 5)),
    ),
    "a diamond and an octagon": (
        drawn(SMALL, GREEN, lambda draw: draw.polygon([(50, 26), (75, 50), (50, 74), (26, 50)], "red")),
        drawn(SMALL, GREEN, lambda draw: draw.regular_polygon((50, 50, 25), 8, fill="red")),
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_shapes_are_two_pictures(kind):
    one, other = PAIRS[kind]
    assert not pairs({"a": encoded(one), "b": encoded(other)})


def page() -> Image.Image:
    """A chart with words."""
    found = Image.new("RGB", (480, 360), "white")
    draw, font = ImageDraw.Draw(found), ImageFont.load_default(16)
    draw.rectangle((40, 30, 440, 300), outline="black", width=2)
    heights = [250, 210, 225, 160, 170, 110, 90, 120, 70]
    draw.line([(50 + 45 * at, height) for at, height in enumerate(heights)], fill="#c03030", width=3)
    for at, word in enumerate(("rainfall", "in a year", "of nine", "stations")):
        draw.text((60 + 90 * at, 310), word, "black", font)
    return found


def marked(picture: Image.Image) -> bytes:
    ImageDraw.Draw(picture).rectangle((380, 300, 450, 335), "#c02020")
    return encoded(picture, "JPEG", quality=92)


def captioned(picture: Image.Image) -> bytes:
    canvas = Image.new("RGB", (480, 410), "white")
    canvas.paste(picture)
    ImageDraw.Draw(canvas).text((20, 370), "What the picture shows", "black", ImageFont.load_default(24))
    return encoded(canvas, "JPEG", quality=92)


@pytest.mark.parametrize(
    "edit", [marked, captioned, lambda picture: encoded(picture, "JPEG", quality=10)], ids=["logo", "caption", "q10"]
)
def test_a_copy_of_a_chart_is_found(edit):
    assert pairs({"a": encoded(page()), "b": edit(page())})
