"""One drawing in another tone of one hue is another picture; an edit of the whole picture makes a copy."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance

from tests.dedup.test_small_drawings import encoded, pairs

SKINS = {"yellow": "#fbc21b", "light": "#fadcbc", "medium": "#bf8f68", "dark": "#70503c"}


def face(skin: str, side_px: int = 128) -> Image.Image:
    """A face with eyes, a mouth and a blue collar on white."""
    found = Image.new("RGB", (128, 128), "white")
    draw = ImageDraw.Draw(found)
    draw.ellipse((24, 12, 104, 100), SKINS[skin], "#303030", 2)
    for left in (44, 72):
        draw.ellipse((left, 44, left + 10, 58), "#302018")
    draw.arc((46, 56, 82, 86), 20, 160, "#902020", 4)
    draw.rectangle((34, 104, 94, 126), "#3060c0")
    return found.resize((side_px, side_px), Image.Resampling.LANCZOS)


@pytest.mark.parametrize("side_px", [64, 128])
@pytest.mark.parametrize(("one", "other"), [("light", "medium"), ("medium", "dark"), ("yellow", "light")])
def test_two_tones_of_skin_are_two_pictures(one, other, side_px):
    assert not pairs({"a": encoded(face(one, side_px)), "b": encoded(face(other, side_px))})


def gamma(picture: Image.Image, power: float) -> Image.Image:
    return picture.point(lambda level: round(255 * (level / 255) ** power))


def warmer(picture: Image.Image) -> Image.Image:
    return Image.fromarray((np.asarray(picture) * np.array([1.08, 1, 0.85])).clip(0, 255).astype(np.uint8))


def lit(picture: Image.Image) -> Image.Image:
    gain = np.linspace(0.8, 1.2, picture.width)[None, :, None]
    return Image.fromarray((np.asarray(picture) * gain).clip(0, 255).astype(np.uint8))


EDITS = {
    "JPEG of quality 20": lambda picture: encoded(picture, "JPEG", quality=20),
    "half size": lambda picture: encoded(picture.resize((64, 64), Image.Resampling.BOX)),
    "grey": lambda picture: encoded(picture.convert("L")),
    "gamma of 1.8": lambda picture: encoded(gamma(picture, 1.8)),
    "gamma of .6": lambda picture: encoded(gamma(picture, 0.6)),
    "half the saturation": lambda picture: encoded(ImageEnhance.Color(picture).enhance(0.5)),
    "darker by a fifth": lambda picture: encoded(ImageEnhance.Brightness(picture).enhance(0.8)),
    "less contrast": lambda picture: encoded(ImageEnhance.Contrast(picture).enhance(0.7)),
    "warmer": lambda picture: encoded(warmer(picture)),
    "padded": lambda picture: encoded(padded(picture)),
}


def padded(picture: Image.Image) -> Image.Image:
    found = Image.new("RGB", (160, 160), "white")
    found.paste(picture, (16, 16))
    return found


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("skin", SKINS)
def test_an_edit_of_all_of_a_drawing_is_a_copy(skin, edit):
    assert pairs({"a": encoded(face(skin)), "b": EDITS[edit](face(skin))})


def tiles() -> Image.Image:
    """A board of coloured squares that fills its frame."""
    rng = np.random.default_rng(4)
    colours = rng.integers(30, 200, (6, 6, 3)).astype(np.uint8)
    found = Image.fromarray(colours).resize((192, 192), Image.Resampling.NEAREST)
    for at in range(0, 192, 32):
        ImageDraw.Draw(found).ellipse((at + 8, 8, at + 24, 24), "white")
        ImageDraw.Draw(found).line((0, at, 192, 192 - at), "black", 2)
    return found


def test_a_light_from_one_side_is_an_edit_of_what_fills_its_frame():
    assert pairs({"a": encoded(tiles()), "b": encoded(lit(tiles()))})


def document(badge: str) -> Image.Image:
    """A sheet of 48 px with what says its state at its right."""
    found = Image.new("RGB", (48, 48), "white")
    draw = ImageDraw.Draw(found)
    draw.rectangle((0, 2, 30, 45), "#d8d0b8", "#303030")
    for at, width in enumerate((20, 24, 12, 22, 17)):
        draw.line((3, 9 + 7 * at, 3 + width, 9 + 7 * at), "#4060a0", 2)
    draw.ellipse((16, 26, 27, 40), "#c03030", "#702020")
    draw.rectangle((34, 18, 46, 30), "#a0c8e8" if badge == "empty" else "#606060")
    if badge == "locked":
        draw.line((37, 21, 43, 27), "white", 2)
        draw.line((37, 27, 43, 21), "white", 2)
    return found


def test_small_icons_with_two_badges_at_their_side_are_two_pictures():
    assert not pairs({"a": encoded(document("empty")), "b": encoded(document("locked"))})
