"""Scores of speech by the networks of DNSMOS; the real ones are asked where their wheel is installed."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from quality_media import audio_track, rules_broken, sound, video_track, voice

from mmlake.quality import mos as scoring
from mmlake.quality.measurement import Subject
from mmlake.quality.mos import MOS_MEASURES, POOR_SPEECH, mos, mos_measures
from mmlake.sample import voices
from mmlake.speech.mel import mel_energies
from mmlake.store import BlobStore

RATE_HZ = 16_000
ALL = [{"start_s": 0.0, "end_s": 1_000.0}]


@pytest.fixture
def asked(monkeypatch):
    """Networks that answer 1 or the mean of what they are given, and keep it."""
    given_windows = []

    def network(name):
        def run(_, given):
            given_windows.append((name, given["input_1"]))
            return [np.array([[1.0, 1.0, 1.0]])] if name == "sig_bak_ovr.onnx" else [np.array([[9.0]])]

        return SimpleNamespace(run=run)

    monkeypatch.setattr(scoring, "_network", network)
    return given_windows


def test_windows_cover_a_unit_and_those_without_speech_are_not_asked(asked):
    sound = np.random.default_rng(1).normal(0, 0.1, 40 * RATE_HZ).astype(np.float32)
    mos(sound, [{"start_s": 1.0, "end_s": 3.0}, {"start_s": 39.5, "end_s": 40.0}])
    windows = [given[0] for name, given in asked if name == "sig_bak_ovr.onnx"]
    assert len(windows) == 1
    assert np.array_equal(windows[0], sound[:144_160])
    assert [given.shape for name, given in asked if name == "model_v8.onnx"] == [(1, 900, 120)]
    assert mos(sound, [{"start_s": 0.0, "end_s": 0.5}]) == dict.fromkeys(MOS_MEASURES)


def test_a_short_answer_is_repeated_and_scores_stay_on_the_scale(asked):
    word = np.random.default_rng(2).normal(0, 0.1, 2 * RATE_HZ).astype(np.float32)
    scores = mos(word, ALL)
    assert np.array_equal(asked[0][1][0, 32_000:64_000], word)
    assert scores["mos_p808"] == 5.0
    assert scores["mos_voice"] == pytest.approx(-0.08397278 + 1.22083953 + 0.0052439)


def test_many_hours_take_no_more_windows_than_a_quarter_of_an_hour(asked):
    mos(np.zeros(600 * RATE_HZ, np.float32), ALL)
    assert len(asked) == 2 * 16


def test_without_the_wheel_there_are_no_scores(monkeypatch):
    monkeypatch.setattr(scoring, "_folder", lambda: None)
    subject = Subject({"speech": ALL}, sound=SimpleNamespace(samples=lambda: (np.zeros(RATE_HZ), RATE_HZ)))
    assert mos_measures(subject) == dict.fromkeys(MOS_MEASURES)
    assert scoring._revision() == "none"


def test_energies_of_another_window_are_those_of_its_spectrum():
    """By the definition: a periodic Hann window of 321 samples around sample 800, and triangles of equal area."""
    tone = np.sin(2 * np.pi * 1_000 * np.arange(RATE_HZ) / RATE_HZ).astype(np.float32)
    energies = mel_energies(tone, 120, window_samples=321)
    assert energies.shape == (100, 120)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(321) / 321)
    power = np.abs(np.fft.rfft(tone[640:961] * window)) ** 2
    # below 1 kHz Slaney's scale is linear: 200 / 3 Hz each; 8 kHz is 15 + 27 log 8 / log 6.4
    step_hz = 200 / 3 * (15 + 27 * np.log(8) / np.log(6.4)) / 121
    bins_hz = np.arange(161) * RATE_HZ / 321
    triangle = np.maximum(0, 1 - np.abs(bins_hz - 31 * step_hz) / step_hz) / step_hz
    assert energies[5, 30] == pytest.approx(power @ triangle, rel=1e-3)


@pytest.mark.parametrize(("answer", "is_broken"), [(1.9, True), (2.6, False)])
@pytest.mark.parametrize("modality", ["audio", "video"])
def test_speech_that_networks_call_bad_is_flagged_and_a_tune_is_not(
    tmp_path, monkeypatch, modality, answer, is_broken
) -> None:
    """Of their scale: 1.9 is 1.9 on that of opinions, 2.6 is 2.5."""

    def network(name):
        rows = np.full((1, 3), answer) if name == "sig_bak_ovr.onnx" else np.array([[3.0]])
        return SimpleNamespace(run=lambda _, given: [rows])

    monkeypatch.setattr(scoring, "_folder", lambda: tmp_path)
    monkeypatch.setattr(scoring, "_network", network)
    store, said = BlobStore(tmp_path / "store"), [{"start_s": 0.0, "end_s": 8.0}]
    samples = voice(8)
    if modality == "audio":
        row = audio_track(store, samples) | {"speech": said}
    else:
        row = video_track(store, [], audio_digest=store.put(sound(samples, RATE_HZ, "FLAC")), speech=said)
    assert ("poor_speech" in rules_broken(row, store)) == is_broken
    assert POOR_SPEECH.is_exempt({"music_fraction": 0.9, "speech_fraction": 0.01})


@pytest.mark.skipif(importlib.util.find_spec("speechmos") is None, reason="the wheel speechmos is not installed")
def test_noise_lowers_every_score_but_that_of_the_voice():
    sentences = ("She opened every window because the kitchen was full of smoke",)
    (clean,) = (one.samples for one in voices.speak([voices.utterance(sentences, 1)], 1))
    rng = np.random.default_rng(4)
    scores = []
    for ratio_db in (40, 10, 0):
        noise = rng.normal(0, clean.std() * 10 ** (-ratio_db / 20), len(clean))
        scores.append(mos((clean + noise).astype(np.float32), ALL))
    for name in ("mos_p808", "mos_background", "mos_overall"):
        assert scores[0][name] > scores[1][name] > scores[2][name]
