"""How long the last picture of a film is shown, where frames are of unequal lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from films import film, flashes

from mmlake.preprocess.settings import KEYFRAMES, PreprocessSettings
from mmlake.preprocess.video import video_track

TIMES_MS = [0, 40, 80, 500, 540, 1500, 1540, 9000, 9010, 9020]


@pytest.mark.parametrize("decode", ["all", KEYFRAMES])
@pytest.mark.parametrize("ending", ["mp4", "mov", "mkv"])
def test_a_film_of_unequal_frames_ends_with_its_last_one(tmp_path: Path, ending: str, decode: str) -> None:
    """MP4 has the times between decodings of frames, which are out of order: a pause before the end was shown twice,
    and the film was half as long again."""
    path = film(tmp_path / f"pauses.{ending}", TIMES_MS, flashes(len(TIMES_MS)))
    columns = video_track(path, settings=replace(PreprocessSettings(), decode=decode)).columns
    assert columns["duration_s"] == pytest.approx(9.06, abs=0.5)
    assert columns["shots"][-1]["end_s"] == columns["duration_s"]


def test_a_long_last_frame_is_as_long_as_it_is(tmp_path: Path) -> None:
    path = film(tmp_path / "slides.mp4", [0, 2_000, 4_000, 6_000], flashes(4), options={"bf": "0"})
    assert video_track(path, settings=PreprocessSettings()).columns["duration_s"] >= 6.04
