"""Each audio rule with a case just inside and just outside of its range."""

from __future__ import annotations

import numpy as np
import pytest
from quality_media import audio_track, measures_of, rules_broken, voice

from mmlake.quality.audio import levels, snr_db
from mmlake.quality.silence import silent_fraction
from mmlake.store import BlobStore

SECONDS = 4


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def noise(power: float, count: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, np.sqrt(power), count)


def noisy_voice(ratio_db: float, *, seed: int = 0) -> np.ndarray:
    clean = voice(SECONDS, seed=seed)
    return clean + noise((clean**2).mean() / 10 ** (ratio_db / 10), len(clean), seed=seed)


def test_speech_is_clean(store):
    assert rules_broken(audio_track(store, voice(SECONDS)), store) == []


@pytest.mark.parametrize(("loud_s", "is_broken"), [(0.04, True), (0.2, False)])
def test_a_recording_is_silent_when_nearly_all_of_it_is(store, loud_s, is_broken):
    samples = np.zeros(SECONDS * 16000)
    samples[: round(loud_s * 16000)] = noise(0.01, round(loud_s * 16000))
    assert ("silent" in rules_broken(audio_track(store, samples), store)) == is_broken


@pytest.mark.parametrize(("level_dbfs", "is_broken"), [(-63, True), (-57, False)])
def test_silence_is_below_sixty_decibels(store, level_dbfs, is_broken):
    assert (
        "silent" in rules_broken(audio_track(store, noise(10 ** (level_dbfs / 10), SECONDS * 16000)), store)
    ) == is_broken


@pytest.mark.parametrize("ratio_db", [0, 3, 6, 10])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_signal_to_noise_ratio_is_within_two_decibels(ratio_db, seed):
    assert snr_db(noisy_voice(ratio_db, seed=seed).astype(np.float32)) == pytest.approx(ratio_db, abs=2.0)


@pytest.mark.parametrize(("ratio_db", "is_broken"), [(2, True), (8, False)])
def test_speech_that_drowns_is_noisy(store, ratio_db, is_broken):
    assert ("noisy" in rules_broken(audio_track(store, noisy_voice(ratio_db)), store)) == is_broken


def test_noise_alone_is_noisy(store):
    assert rules_broken(audio_track(store, noise(0.01, SECONDS * 16000)), store) == ["noisy"]


@pytest.mark.parametrize("pitches_hz", [(440,), (220, 277, 330, 440)])
def test_steady_tones_are_no_noise(pitches_hz):
    time = np.arange(SECONDS * 16000) / 16000
    assert snr_db(sum(0.1 * np.sin(2 * np.pi * pitch * time) for pitch in pitches_hz).astype(np.float32)) > 20


def test_gaps_of_silence_do_not_hide_noise():
    samples = noisy_voice(0)
    samples[: len(samples) // 2] = 0
    assert snr_db(samples.astype(np.float32)) < 4


@pytest.mark.parametrize(
    "samples",
    [np.zeros(48000), np.ones(100), np.zeros(0), np.random.default_rng(0).normal(0, 9e-4, 48000)],
    ids=["digital silence", "100 samples", "none", "a converter's noise at -61 dBFS"],
)
def test_silence_and_shreds_have_no_ratio(samples):
    assert snr_db(samples.astype(np.float32)) is None


def test_noise_above_silence_has_one():
    assert snr_db(np.random.default_rng(0).normal(0, 1.2e-3, 48000).astype(np.float32)) < 0


@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100])
def test_a_wave_with_flat_tops_is_clipped_at_any_rate(store, rate_hz):
    time = np.arange(rate_hz) / rate_hz
    assert "clipped" in rules_broken(
        audio_track(store, np.clip(np.sin(2 * np.pi * 220 * time), -0.5, 0.5), rate_hz), store
    )


@pytest.mark.parametrize("kind", ["MP3", "OGG"])
def test_whole_speech_is_not_clipped_after_a_lossy_codec(store, kind):
    assert "clipped" not in rules_broken(audio_track(store, voice(SECONDS), kind=kind), store)


def blocks_of(samples: np.ndarray, size: int) -> list[np.ndarray]:
    return [samples[start : start + size, None].astype(np.float32) for start in range(0, len(samples), size)]


@pytest.mark.parametrize(("run", "fraction"), [(2, 0.0), (3, 0.03), (10, 0.1)])
def test_three_samples_at_the_extreme_are_a_run(run, fraction):
    samples = np.zeros(100)
    samples[40 : 40 + run] = 0.9
    assert levels(iter(blocks_of(samples, 100)))["clipped_fraction"] == pytest.approx(fraction)


def test_a_quiet_run_before_a_louder_peak_is_not_clipped():
    samples = np.concatenate([np.full(10, 0.4), np.zeros(90), np.full(1, 0.9), np.zeros(99)])
    assert levels(iter(blocks_of(samples, 100)))["clipped_fraction"] == 0


def test_levels_are_those_of_the_formula():
    time = np.arange(16000) / 16000
    found = levels(iter(blocks_of(0.5 * np.sin(2 * np.pi * 100 * time), 777)))
    assert found["rms_dbfs"] == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.01)
    assert found["peak_dbfs"] == pytest.approx(20 * np.log10(0.5), abs=0.01)


def test_digital_silence_has_no_level_rather_than_a_made_up_one(store):
    measures = measures_of(audio_track(store, np.zeros(16000)), store)
    assert measures["rms_dbfs"] is None
    assert measures["silent_fraction"] == 1.0


@pytest.mark.parametrize(("duration_s", "is_broken"), [(0.09, True), (0.11, False)])
def test_a_tenth_of_a_second_is_the_shortest_recording(store, duration_s, is_broken):
    assert ("too_short_audio" in rules_broken(audio_track(store, voice(duration_s)), store)) == is_broken


@pytest.mark.parametrize("offset", [0.0, 0.02, -0.9])
@pytest.mark.parametrize(("level", "expected"), [(5e-4, 1.0), (2e-3, 0.0)], ids=["below", "above"])
def test_an_offset_is_no_sound(offset, level, expected):
    """A channel that nothing was plugged into, at the offset of its converter, was no silence."""
    samples = (offset + level * np.random.default_rng(2).standard_normal(16_000)).astype(np.float32)
    assert silent_fraction(samples, 16_000) == pytest.approx(expected, abs=0.01)
