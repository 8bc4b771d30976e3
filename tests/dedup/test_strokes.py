"""Letters, signs and arrows of one tone: each stroke says what it is, so one with an accent is another letter, and one
that is turned another sign; their copies are found."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from mmlake.dedup.image import ink, tints
from tests.dedup.test_small_drawings import encoded, pairs

TINY, SMALL, LARGE = 24, 40, 160


def letter(text: str, side_px: int, tone="black", ground="white") -> Image.Image:
    found = Image.new("RGB", (side_px, side_px), ground)
    font = ImageFont.load_default(int(0.65 * side_px))
    ImageDraw.Draw(found).text((side_px / 2, side_px / 2), text, tone, font, anchor="mm")
    return found


ACCENTS = {
    "": (),
    "grave": ((0.4, 0.05, 0.5, 0.14),),
    "acute": ((0.5, 0.14, 0.6, 0.05),),
    "dots": ((0.38, 0.1, 0.44, 0.1), (0.56, 0.1, 0.62, 0.1)),
}


def accented(picture: Image.Image, accent: str) -> Image.Image:
    large = picture.resize((4 * picture.width,) * 2, Image.Resampling.BICUBIC)
    for line in ACCENTS[accent]:
        places = [large.width * at for at in line]
        ImageDraw.Draw(large).line(places, "black", round(0.06 * large.width))
    return large.resize(picture.size, Image.Resampling.BOX)


def arrow(side_px: int, quarters: int) -> Image.Image:
    large = np.full((160, 160), 255, np.uint8)
    cv2.line(large, (30, 80), (125, 80), 0, 14)
    cv2.fillPoly(large, [np.array([[95, 45], [140, 80], [95, 115]])], 0)
    turned = np.ascontiguousarray(np.rot90(large, quarters))
    return Image.fromarray(cv2.resize(turned, (side_px, side_px), interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize("side_px", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("accents", [("", "grave"), ("", "dots"), ("grave", "acute"), ("acute", "dots")])
@pytest.mark.parametrize("text", "ENeO")
def test_letters_of_other_accents_are_two(text, accents, side_px):
    one, other = (encoded(accented(letter(text, side_px), accent)) for accent in accents)
    assert not pairs({"a": one, "b": other})


@pytest.mark.parametrize("side_px", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("letters", ["bd", "pq", "69", "<>"])
def test_letters_that_are_others_turned_are_two(letters, side_px):
    one, other = (encoded(letter(text, side_px)) for text in letters)
    assert not pairs({"a": one, "b": other})


@pytest.mark.parametrize("side_px", [TINY, SMALL, LARGE])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_arrows_in_other_directions_are_two(side_px, quarters):
    assert not pairs({"a": encoded(arrow(side_px, 0)), "b": encoded(arrow(side_px, quarters))})


def bordered(picture: Image.Image) -> Image.Image:
    found = Image.new("RGB", (picture.width * 5 // 4, picture.height * 5 // 4), "#808080")
    found.paste(picture, (picture.width // 8, picture.height // 8))
    return found


def cropped(picture: Image.Image) -> Image.Image:
    off = round(0.04 * picture.width)
    return picture.crop((off, off, picture.width - off, picture.height - off))


EDITS = {
    "JPEG": lambda picture: encoded(picture, "JPEG", quality=50),
    "twice as large": lambda picture: encoded(picture.resize((2 * picture.width,) * 2, Image.Resampling.BICUBIC)),
    "grey": lambda picture: encoded(picture.convert("L")),
    "border": lambda picture: encoded(bordered(picture)),
    "crop of the ground": lambda picture: encoded(cropped(picture)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_copies_of_letters_are_found(edit):
    found = [bool(pairs({"a": encoded(one), "b": EDITS[edit](one)})) for one in (letter(c, LARGE) for c in "AÑg8É")]
    assert sum(found) >= 4, found


@pytest.mark.parametrize("side_px", [SMALL, LARGE])
@pytest.mark.parametrize("tones", [("#c02020", "#d02080"), ("#108030", "#108080"), ("#d08010", "#904030")])
def test_signs_in_two_colours_are_two(tones, side_px):
    one, other = (encoded(letter("R", side_px, tone, "black")) for tone in tones)
    assert not pairs({"a": one, "b": other})


@pytest.mark.parametrize("enhance", [ImageEnhance.Color, ImageEnhance.Brightness])
def test_a_paler_copy_of_a_sign_is_found(enhance):
    picture = letter("R", LARGE, "#c02020", "black")
    assert pairs({"a": encoded(picture), "b": encoded(enhance(picture).enhance(0.7))})


@pytest.mark.parametrize(
    ("tone", "column", "is_part"), [(128, 22, True), (180, 22, True), (0, 22, False), (128, 45, False)]
)
def test_a_mark_is_no_part_of_the_drawing_in_a_corner_or_stronger_than_its_ink(tone, column, is_part):
    drawn = np.full((64, 64), 255, np.float32)
    drawn[20:50, 20:30] = 128
    marked, places = drawn.copy(), np.zeros((64, 64), np.bool_)
    at = slice(4, 10), slice(column, column + 8)
    marked[at], places[at] = tone, True
    assert ink.is_of_it(places, marked, drawn, np.ones((64, 64), np.bool_)) == is_part


@pytest.mark.parametrize("side_px", [TINY, 33, 64, LARGE])
def test_letters_are_ink_of_one_tone(side_px):
    for picture in (letter("Ñ", side_px), letter("k", side_px, "white", "#2040a0"), arrow(side_px, 1)):
        assert _ink_of(np.asarray(picture.convert("L"))) == 2


def test_photographs_and_many_strokes_are_not():
    y, x = np.mgrid[:200, :200]
    shaded = np.where((x - 100) ** 2 + (y - 100) ** 2 < 70**2, 40 + x / 2 + 20 * np.sin(y / 5), 255).astype(np.uint8)
    assert _ink_of(shaded) == 0
    page = Image.new("L", (300, 200), 255)
    ImageDraw.Draw(page).multiline_text((10, 10), "many words\non several\nlines here", 0, ImageFont.load_default(30))
    assert _ink_of(np.asarray(page)) == 1


def test_a_flat_picture_is_no_ink():
    assert _ink_of(np.full((64, 64), 200, np.uint8)) == 0
    assert _ink_of(np.asarray(Image.open(io.BytesIO(encoded(Image.new("L", (8, 8), 3)))))) == 0


def _ink_of(plane_HW: np.ndarray) -> int:
    return tints.ink_of(plane_HW, tints.counts_of(plane_HW))
