"""Part `shots` of the benchmark: films repeat with their seed, scores are what they are by hand, labels are checked."""

from __future__ import annotations

import json

import av
import numpy as np
import pytest

from mmlake.bench.av.rows import Run
from mmlake.bench.av.shot_films import Style, film
from mmlake.bench.av.shots import generated, labelled, matched
from mmlake.errors import SettingsError
from mmlake.preprocess.visual import shot_detectors
from tests.thorough import drawn

SHORT = Style(num_shots=3, shot_s=(1.6, 1.8), kinds=("cut",), shake=(0.002,), flash_fraction=0)


def test_a_film_and_its_truth_repeat_with_the_seed(tmp_path):
    """The pictures repeat; the encoder's bytes need not."""
    one, same, other = (
        film(tmp_path / f"{at}.mp4", SHORT, np.random.default_rng(seed)) for at, seed in enumerate((1, 1, 2))
    )
    assert one == same != other
    assert np.abs(_pictures(tmp_path / "0.mp4") - _pictures(tmp_path / "1.mp4")).mean() < 3


def _pictures(path):
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="gray").astype(int) for frame in container.decode(video=0)])


@pytest.mark.parametrize(
    ("wanted", "given", "expected"),
    [
        ([1.0, 2.0], [1.2, 2.3], 1),
        ([1.0, 1.1], [1.05], 1),
        ([1.0], [0.8, 1.2], 1),
        ([], [1.0], 0),
        ([3.0, 1.0], [1, 3], 2),
    ],
)
def test_times_pair_up_once_and_within_the_tolerance(wanted, given, expected):
    assert matched(wanted, given, 0.25) == expected


def test_labelled_films_give_figures_for_each_detector(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shot_detectors, "SHOT_DETECTORS", {name: shot_detectors.SHOT_DETECTORS[name] for name in ("twin",)}
    )
    truth = film(tmp_path / "film.mp4", SHORT, np.random.default_rng(3))
    rows = [{"kind": one.kind, "time_s": one.time_s} for one in truth]
    (tmp_path / "film.shots.json").write_text(json.dumps(rows))
    found = {
        (row.case, row.measure): (row.value, row.num)
        for row in labelled(tmp_path, Run(seed=0, limit=1, scratch=tmp_path))
    }
    assert found["twin: labelled, cut", "F1"] == (1.0, 2)
    assert ("twin: labelled, fade", "F1") not in found


@pytest.mark.parametrize("text", ["{", "[1]", '[{"kind": "cut"}]', '[{"kind": "wipe", "time_s": 1}]'])
def test_broken_truth_is_refused_by_name(tmp_path, text):
    (tmp_path / "film.mp4").write_bytes(b"")
    (tmp_path / "film.shots.json").write_text(text)
    with pytest.raises(SettingsError, match="film.shots.json"):
        list(labelled(tmp_path, Run(seed=0, limit=1, scratch=tmp_path)))


def test_a_folder_without_truth_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"no \*\.shots\.json"):
        list(labelled(tmp_path, Run(seed=0, limit=1, scratch=tmp_path)))


@pytest.mark.slow
def test_the_floors_hold_on_films_that_nothing_was_tuned_on(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shot_detectors, "SHOT_DETECTORS", {name: shot_detectors.SHOT_DETECTORS[name] for name in ("twin",)}
    )
    rows = list(generated(Run(seed=501, limit=drawn(1, 3), scratch=tmp_path)))
    assert [(row.case, row.measure, row.value) for row in rows if row.is_met is False] == []
