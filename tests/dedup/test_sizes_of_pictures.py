"""One picture in many sizes, as pages link them for screens of any width: the largest stays, unless it was enlarged."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from mmlake.dedup.criteria import Criterion
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.video import fingerprints as video_fingerprints
from tests.dedup.test_elections import coded, photograph, reopened, survivors

SIZES_PX = (400, 300, 200, 120, 80)


def in_sizes(one: Image.Image, sizes_px, kind: str = "JPEG") -> dict[str, bytes]:
    return {str(side): coded(one.resize((side, side), Image.Resampling.LANCZOS), kind, quality=85) for side in sizes_px}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes_px", [SIZES_PX, SIZES_PX[:3], SIZES_PX[::2], SIZES_PX[:2]])
def test_the_largest_of_many_sizes_stays(seed, sizes_px):
    one = photograph(seed)
    kind = "WEBP" if seed % 2 else "JPEG"
    assert survivors(in_sizes(one, sizes_px, kind)) == ["400"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes_px", [(300,), (400,), (500,), (400, 100, 66)])
def test_an_enlarged_copy_does_not(seed, sizes_px):
    one = photograph(seed).resize((200, 200), Image.Resampling.BOX)
    family = {f"a copy of {side}": data for side, data in in_sizes(one, sizes_px).items()}
    assert survivors(family | {"original": coded(one, quality=92)}) == ["original"]


@pytest.mark.parametrize("factor", [1.25, 1.3, 1.5, 1.7, 2.4])
@pytest.mark.parametrize("others_px", [(), (300, 200)])
def test_of_a_soft_picture_and_its_enlargement_the_picture_stays(factor, others_px):
    """What is not sharp at its own size is no less so at another: traces of the interpolation are left."""
    one = reopened(coded(photograph(5, 600).filter(ImageFilter.GaussianBlur(0.8)), quality=88))
    side = round(600 * factor)
    family = in_sizes(one, others_px) | {"original": coded(one, quality=88)}
    larger = coded(one.resize((side, side), Image.Resampling.BICUBIC), quality=90)
    assert survivors(family | {"a larger copy": larger}) == ["original"]


def elected(criteria, *rows) -> int:
    num = len(rows)
    standing = Standing(
        np.arange(num), np.zeros(num, np.int64), np.ones(num, np.bool_), criteria, np.array(rows, np.float64)
    )
    return standing.elect(np.arange(num), lambda ones, others: np.zeros(len(ones)))


def test_more_of_one_number_counts_where_there_is_more_of_the_other():
    criteria = (
        Criterion(name="real", column="real_px", also="side", tolerance=0.3, says="more"),
        Criterion(name="side", column="min_side_px", best="low", says="not enlarged"),
    )
    assert elected(criteria, (100, 100), (200, 200)) == 1  # more pixels, and more in them
    assert elected(criteria, (100, 100), (110, 200)) == 0  # enlarged
    assert elected(criteria, (100, 100), (200, 100)) == 0  # noise
    assert elected(criteria, (np.nan, 100), (200, np.nan)) == 0
    assert elected(criteria, (100, 100), (np.nan, 90), (200, 200)) == 1


def test_a_size_is_usual_where_most_have_it():
    size = Criterion(name="size", column="width_px", best="usual", tolerance=0.2, share=0.5, says="usual size")
    longer = Criterion(name="longer", column="width_px", says="longer")
    assert elected((size, longer), *zip((100, 200, 400, 800), (100, 200, 400, 800), strict=True)) == 3
    assert elected((size, longer), *zip((100, 100, 100, 800), (100, 100, 100, 800), strict=True)) == 0


def test_criteria_name_each_other():
    for criteria in (image_fingerprints.FIDELITY, video_fingerprints.FIDELITY):
        named = {name for one in criteria for name in (one.also, *one.unless, *one.frame)}
        assert named <= {"", *(one.name for one in criteria)}
