"""Charts that differ in a mark, a line or a label are two; an edited chart is one."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints
from mmlake.dedup.image import matcher as image_matcher
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged

_SIZE_PX = (800, 600)


def chart(*, marks: int = 3, mean: bool = False, label: str = "1") -> Image.Image:
    """Boxes with whiskers, of which the second may have a line more, and points above them."""
    found = Image.new("RGB", _SIZE_PX, "white")
    draw, font = ImageDraw.Draw(found), ImageFont.load_default(16)
    draw.rectangle((100, 60, 720, 540), outline="black", width=2)
    for at in range(4):
        left, top = 150 + 140 * at, 240 + 20 * (at % 3)
        draw.rectangle((left, top, left + 80, top + 120), outline="#1f77b4", width=2)
        draw.line((left, top + 60, left + 80, top + 60), "#d62728", 2)
        draw.line((left + 40, top - 60, left + 40, top), "black", 1)
        draw.line((left + 40, top + 120, left + 40, top + 170), "black", 1)
        draw.text((left + 30, 550), f"{at}" if at != 1 else label, "black", font=font)
        if mean and at == 1:
            draw.line((left, top + 30, left + 80, top + 30), "#2ca02c", 2)
        for mark in range(marks if at == 2 else 3):
            draw.ellipse((left + 36, 90 + 28 * mark, left + 44, 98 + 28 * mark), outline="black", width=2)
    return found


def coded(picture: Image.Image, kind: str = "PNG", **options: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def are_one(*pictures: bytes) -> bool:
    prints = [fingerprints.fingerprint(data) for data in pictures]
    table = {name: Ragged.of([one[name] for one in prints]) for name in fingerprints.METHODS}
    matcher = image_matcher.matcher(table, DedupSettings())
    relations = {int(matcher.compare(at, np.array([1 - at])).relation[0]) for at in (0, 1)}
    assert len(relations) == 1  # whichever comes first
    return relations == {SAME}


@pytest.mark.parametrize("other", [{"marks": 2}, {"mean": True}, {"label": "pressure"}])
def test_charts_that_differ_in_a_mark_a_line_or_a_label_are_two(other: dict[str, object]) -> None:
    assert not are_one(coded(chart()), coded(chart(**other)))  # type: ignore[arg-type]


def _marked(one: Image.Image) -> Image.Image:
    found = one.copy()
    ImageDraw.Draw(found).rectangle((690, 555, 780, 590), "#c02020")
    return found


@pytest.mark.parametrize(
    "copy",
    [
        coded(chart(), "JPEG", quality=10),
        coded(chart().resize((400, 300), Image.Resampling.BOX)),
        coded(chart().resize((1600, 1200), Image.Resampling.BICUBIC)),
        coded(chart().filter(ImageFilter.GaussianBlur(2)), "JPEG", quality=90),
        coded(chart().convert("L")),
        coded(ImageOps.expand(chart(), 50, "white")),
        coded(chart().crop((40, 30, 760, 600))),
        coded(chart().point(lambda level: round(255 * (level / 255) ** 0.6))),
        coded(ImageEnhance.Contrast(chart()).enhance(1.5)),
        coded(_marked(chart()), "JPEG", quality=90),
    ],
    ids=["jpeg", "half", "double", "blur", "grey", "padded", "crop", "gamma", "contrast", "logo"],
)
def test_an_edited_chart_is_one_with_its_original(copy: bytes) -> None:
    assert are_one(coded(chart()), copy)


def test_only_drawings_of_some_size_have_a_close_view() -> None:
    noise = np.random.default_rng(3).normal(128, 40, (200, 300, 3)).clip(0, 255).astype(np.uint8)
    assert len(fingerprints.fingerprint(coded(chart()))["close"]) == fingerprints.CLOSE_SIDE**2 // 8
    assert not len(fingerprints.fingerprint(coded(Image.fromarray(noise)))["close"])
    assert not len(fingerprints.fingerprint(coded(chart().resize((80, 60))))["close"])
