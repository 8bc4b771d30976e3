"""Films in which nothing moves: title cards and slides differ in what is written there, not in where."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mmlake.dedup import DedupSettings
from mmlake.dedup.matching import INSIDE, NONE, SAME
from mmlake.dedup.prints import Ragged
from mmlake.dedup.video import fingerprints
from mmlake.dedup.video.matcher import METHODS, FilmMatcher
from tests.quality.test_quality_video_fidelity import film

SETTINGS = DedupSettings()
TITLES = ("THE HARBOUR", "A LATE TRAIN", "SALT ROADS", "WINTER BEES", "LOW WATER")
WIDTH_PX, HEIGHT_PX = 320, 180


def card(title: str, ground: int) -> np.ndarray:
    """A title in the middle of a frame of one tone, uint8 of shape (H, W, 3)."""
    frame = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), (ground,) * 3)
    ink = (255 - ground,) * 3
    ImageDraw.Draw(frame).text((WIDTH_PX / 2, HEIGHT_PX / 2), title, ink, font=ImageFont.load_default(24), anchor="mm")
    return np.asarray(frame)


@pytest.mark.parametrize("ground", [0, 255], ids=["white on black", "black on white"])
def test_title_cards_are_no_copies_of_one_another_and_a_coarse_copy_is_one(tmp_path, ground):
    """The hash of the frame was the same for all of them: every card of a film was the first one once more."""
    frames = [[card(title, ground)] * 48 for title in TITLES]
    paths = [film(tmp_path / f"{at}.mp4", one, crf=20) for at, one in enumerate(frames)]
    paths.append(film(tmp_path / "coarse.mp4", frames[0], crf=32))
    prints = [fingerprints.fingerprint(path, settings=SETTINGS) for path in paths]
    films = FilmMatcher({name: Ragged.of([each[name] for each in prints]) for name in METHODS}, SETTINGS)
    found = [films.compare(at, np.arange(at + 1, len(paths))).relation.tolist() for at in range(len(paths))]
    assert found[0] == [NONE] * (len(TITLES) - 1) + [SAME]
    assert {relation for row in found[1:] for relation in row} <= {NONE}


def test_a_card_is_no_part_of_a_longer_film_that_shows_another_one(tmp_path):
    """Of a long film few moments are kept, and the stretch that is like a short one may have none of them."""
    rng = np.random.default_rng(3)
    scenes = [rng.integers(0, 256, (HEIGHT_PX // 20, WIDTH_PX // 20, 3), np.uint8).repeat(20, 0).repeat(20, 1)]
    long = [scenes[0]] * 24 + [card(TITLES[0], 0)] * 300 + [scenes[0]] * 24
    cards = [[card(title, 0)] * 10 for title in TITLES]
    paths = [film(tmp_path / f"{at}.mp4", one, crf=20) for at, one in enumerate([long, *cards])]
    prints = [fingerprints.fingerprint(path, settings=SETTINGS) for path in paths]
    films = FilmMatcher({name: Ragged.of([each[name] for each in prints]) for name in METHODS}, SETTINGS)
    assert films.compare(0, np.arange(1, len(paths))).mirrored().relation.tolist() == [INSIDE] + [NONE] * 4
