"""Pauses by the recording's own levels: synthesized bursts of noise and tones with known pauses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from soundfile import LibsndfileError

from mmlake.errors import UnreadableItem
from mmlake.preprocess.settings import UnitSettings
from mmlake.preprocess.tiling.silences import levels_of, read_levels

RATE_HZ = 16_000


def bursts(
    *spans_s: tuple[float, float], until_s: float, level_db: float = -15.0, noise_db: float = -75.0
) -> np.ndarray:
    """Noise with the rhythm of syllables in these spans, over the noise of a room."""
    rng = np.random.default_rng(1)
    samples = rng.normal(0, 10 ** (noise_db / 20), round(until_s * RATE_HZ))
    for start_s, end_s in spans_s:
        first, last = round(start_s * RATE_HZ), round(end_s * RATE_HZ)
        swing = 0.7 + 0.3 * np.sin(2 * np.pi * 4 * np.arange(last - first) / RATE_HZ)
        samples[first:last] += swing * rng.normal(0, 10 ** (level_db / 20), last - first)
    return samples.astype(np.float32)


def runs_s(tmp_path: Path, samples: np.ndarray, *, end_s: float | None = None) -> np.ndarray:
    """The silences that are found, in seconds."""
    path = tmp_path / "sound.flac"
    soundfile.write(path, np.clip(samples, -1, 1), RATE_HZ, format="FLAC", subtype="PCM_16")
    end_us = round((len(samples) / RATE_HZ if end_s is None else end_s) * 1e6)
    return read_levels(path, end_us, settings=UnitSettings()).runs_us() / 1e6


@pytest.mark.parametrize("level_db", [-10.0, -40.0])
@pytest.mark.parametrize("contrast_db", [15.0, 60.0])
def test_pauses_are_found_whatever_the_levels_are(tmp_path, level_db, contrast_db):
    sound = bursts((0, 4), (4.5, 9), (11, 15), until_s=15, level_db=level_db, noise_db=level_db - contrast_db)
    np.testing.assert_allclose(runs_s(tmp_path, sound), [(4, 4.5), (9, 11)], atol=0.021)


def test_a_pause_between_two_zeros_of_a_waveform_is_none(tmp_path):
    hum = 0.3 * np.sin(2 * np.pi * 60 * np.arange(10 * RATE_HZ) / RATE_HZ)
    assert not len(runs_s(tmp_path, hum.astype(np.float32)))


@pytest.mark.parametrize("level_db", [-10.0, -45.0])
def test_steady_noise_has_no_pauses(tmp_path, level_db):
    assert not len(runs_s(tmp_path, bursts(until_s=30, noise_db=level_db)))


def test_digital_silence_and_the_last_bit_are_silent_all_along(tmp_path):
    for samples in (np.zeros(RATE_HZ, np.float32), bursts(until_s=1, noise_db=-88)):
        np.testing.assert_allclose(runs_s(tmp_path, samples), [(0, 1)])


def test_one_word_in_ten_minutes_of_room_noise_is_found(tmp_path):
    found = runs_s(tmp_path, bursts((300, 300.5), until_s=600, level_db=-20, noise_db=-60))
    np.testing.assert_allclose(found, [(0, 300), (300.5, 600)], atol=0.021)


def test_a_constant_offset_is_no_sound(tmp_path):
    sound = bursts((0, 4), (6, 10), until_s=10) + 0.1
    np.testing.assert_allclose(runs_s(tmp_path, sound), [(4, 6)], atol=0.021)


def test_sound_that_is_shorter_than_its_film_ends_in_silence(tmp_path):
    np.testing.assert_allclose(
        runs_s(tmp_path, bursts((0, 4), (6, 10), until_s=10), end_s=25), [(4, 6), (10, 25)], atol=0.021
    )
    np.testing.assert_allclose(runs_s(tmp_path, bursts((0, 4), until_s=10), end_s=25), [(4, 25)], atol=0.021)


def test_sound_that_is_longer_than_its_film_is_cut_off(tmp_path):
    np.testing.assert_allclose(runs_s(tmp_path, bursts((0, 4), (6, 10), until_s=10), end_s=5), [(4, 5)], atol=0.021)


def test_no_sound_at_all_is_silence():
    assert levels_of(np.zeros(0), 3_000_000, settings=UnitSettings()).runs_us().tolist() == [[0, 3_000_000]]


def test_sound_of_another_rate_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.zeros(800), 8000)
    with pytest.raises(UnreadableItem, match="sample_rate_hz=8000"):
        read_levels(tmp_path / "a.flac", 100_000, settings=UnitSettings())


def test_bytes_that_are_no_sound_raise_what_the_border_takes(tmp_path):
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(500))
    with pytest.raises(LibsndfileError):
        read_levels(tmp_path / "a.flac", 100_000, settings=UnitSettings())
