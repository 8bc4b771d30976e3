"""Slides share their ground: what was written is gone at a change, and stays where a line is added."""

from __future__ import annotations

import av
import cv2
import numpy as np
import pytest

from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual.planes import small_planes
from mmlake.preprocess.visual.shots import Boundary, ShotFinder

SIZE_HW = (360, 640)
STANDS_S = 6


def slide(seed: int, *, num_lines: int = 5, ground: int = 255) -> np.ndarray:
    """A title and lines of random words on one ground, shape (H, W, 3)."""
    rng = np.random.default_rng(seed)
    picture = np.full((*SIZE_HW, 3), ground, np.uint8)
    ink = (20, 20, 20) if ground > 128 else (230, 230, 230)
    for line in range(num_lines + 1):
        letters = "".join(rng.choice(list("abcdefghiklmnoprstuvw     "), rng.integers(18, 40)))
        y, size = (40, 1.1) if line == 0 else (60 + 50 * line, 0.7)
        cv2.putText(picture, letters, (30, y), cv2.FONT_HERSHEY_SIMPLEX, size, ink, 2, cv2.LINE_AA)
    return picture


def found(pictures: list[np.ndarray], rate_hz: int) -> list[Boundary]:
    settings = PreprocessSettings()
    finder = ShotFinder(settings)
    rng = np.random.default_rng(7)
    for number, picture in enumerate(pictures):
        shown = picture.copy()
        x, y = rng.integers(0, 600), rng.integers(0, 330)
        shown[y : y + 18, x : x + 10] = 128  # a pointer
        frame = av.VideoFrame.from_ndarray(shown, format="rgb24").reformat(format="yuv420p")
        luma_HW, vector = small_planes(frame, settings.analysis_side_px)
        finder.push(number / rate_hz, vector, luma_HW)
    return finder.finish()


@pytest.mark.parametrize("rate_hz", [1, 2, 10])
@pytest.mark.parametrize("ground", [255, 20], ids=["light", "dark"])
def test_a_change_of_slides_on_one_ground_is_a_cut(rate_hz, ground):
    """Less than a third of the picture changes, and none of four changes was found."""
    pictures = [slide(seed, ground=ground) for seed in range(4) for _ in range(STANDS_S * rate_hz)]
    assert [(one.time_s, one.transition) for one in found(pictures, rate_hz)] == [
        (STANDS_S * number, "cut") for number in range(1, 4)
    ]


def test_slides_that_fade_into_each_other_have_a_dissolve_in_its_middle():
    shares = np.concatenate([np.zeros(60), np.arange(1, 8) / 8, np.ones(60)])
    pictures = [(slide(1) * (1 - share) + slide(2) * share).astype(np.uint8) for share in shares]
    (one,) = found(pictures, 10)
    assert (one.transition, one.time_s) == ("dissolve", pytest.approx(6.35, abs=0.25))


@pytest.mark.parametrize("rate_hz", [1, 2, 10])
def test_lines_that_are_added_and_taken_away_are_no_change(rate_hz):
    counts = [1, 2, 3, 4, 5, 4, 3]
    lines = [slide(3, num_lines=5) for _ in counts]
    for picture, count in zip(lines, counts, strict=True):
        picture[85 + 50 * count :] = 255
    assert found([picture for picture in lines for _ in range(STANDS_S * rate_hz)], rate_hz) == []


@pytest.mark.parametrize("rate_hz", [1, 2, 10])
def test_a_page_that_scrolls_is_no_change(rate_hz):
    page = np.concatenate([slide(seed)[85:335] for seed in range(6)])
    pictures = [page[top : top + SIZE_HW[0]] for top in range(0, 700, 90) for _ in range(STANDS_S * rate_hz)]
    assert found(pictures, rate_hz) == []


@pytest.mark.parametrize("rate_hz", [1, 2])
def test_a_camera_that_never_moves_has_one_shot_whatever_the_light(rate_hz):
    """Lamps that go on and off, and the sun of a time lapse."""
    rng = np.random.default_rng(4)
    ground = cv2.GaussianBlur(rng.integers(0, 256, SIZE_HW, np.uint8), (0, 0), 4).astype(np.float32)
    ground = 128 + 6 * (ground - ground.mean())
    lights = np.concatenate([np.ones(8), np.full(8, 0.4), np.ones(8), 0.7 + 0.3 * np.sin(np.arange(40) / 4)])
    pictures = [
        np.clip(ground * light + rng.normal(0, 3, SIZE_HW), 0, 255).astype(np.uint8)[..., None].repeat(3, axis=2)
        for light in lights
    ]
    assert found(pictures, rate_hz) == []
