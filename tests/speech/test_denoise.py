"""Denoisers: what they gain on noisy speech, and that clean speech is left as it is."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from mmlake.errors import MissingExtra, ModelMissing, SettingsError, UnreadableItem
from mmlake.speech import denoise
from mmlake.speech.denoise import denoiser_of, signal_to_noise_db

RATE_HZ = 16_000
SPEECH = [(1.0, 3.0), (4.0, 6.0)]


def voiced(seed=0):
    """Eight seconds in which somebody hums twice: harmonics that move, as those of speech do."""
    rng, time_s = np.random.default_rng(seed), np.arange(8 * RATE_HZ) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(120 + 20 * np.sin(2 * np.pi * 1.3 * time_s)) / RATE_HZ
    sound = sum(np.sin(n * phase) / n for n in range(1, 16)) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time_s))
    gate = np.zeros_like(time_s)
    for start_s, end_s in SPEECH:
        gate[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)] = 1.0
    return (0.1 * sound * gate + 1e-4 * rng.standard_normal(len(time_s))).astype(np.float32)


def with_noise(clean, ratio_db, seed=1):
    noise = np.random.default_rng(seed).standard_normal(len(clean)).astype(np.float32)
    spoken = np.concatenate([clean[round(a * RATE_HZ) : round(b * RATE_HZ)] for a, b in SPEECH])
    return clean + noise * np.sqrt(np.mean(spoken**2) / 10 ** (ratio_db / 10)).astype(np.float32)


def ratio(clean, found):
    return 10 * np.log10(np.sum(clean**2) / np.sum((found - clean) ** 2))


@pytest.mark.parametrize("ratio_db", [0.0, 5.0, 10.0, 20.0])
def test_the_ratio_of_speech_to_noise_is_known_within_a_decibel(ratio_db):
    assert signal_to_noise_db(with_noise(voiced(), ratio_db), SPEECH) == pytest.approx(ratio_db, abs=1.0)


@pytest.mark.parametrize("speech", [None, [], [(0.0, 8.0)]])
def test_a_ratio_that_cannot_be_known_changes_nothing(speech):
    noisy = with_noise(voiced(), 0.0)
    assert signal_to_noise_db(noisy, speech) is None
    assert denoiser_of("spectral", below_db=10.0)(noisy, speech) is noisy


def test_the_spectral_row_gains_at_least_five_decibels_on_noisy_speech():
    clean = voiced()
    noisy = with_noise(clean, 0.0)
    found = denoiser_of("spectral", below_db=10.0)(noisy, SPEECH)
    assert found.dtype == np.float32 and found.shape == clean.shape
    assert ratio(clean, found) - ratio(clean, noisy) >= 5.0


@pytest.mark.parametrize("name", ["none", "spectral"])
def test_clean_speech_is_the_very_same_array(name):
    clean = with_noise(voiced(), 20.0)
    assert denoiser_of(name, below_db=10.0)(clean, SPEECH) is clean


def test_unknown_rows_and_missing_weights_are_named(tmp_path):
    with pytest.raises(SettingsError, match="demucs.*none.*spectral"):
        denoiser_of("rnnoise", below_db=10.0)
    noisy = with_noise(voiced(), 0.0)
    with pytest.raises(ModelMissing, match="denoiser_model"):
        denoiser_of("demucs", below_db=10.0, model=str(tmp_path))(noisy, SPEECH)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(MissingExtra, match="mmlake environments add demucs"):
        denoiser_of("demucs", below_db=10.0, model=str(tmp_path), environments=str(tmp_path))(noisy, SPEECH)


def flac_of(path, samples):
    soundfile.write(path, samples, RATE_HZ, format="FLAC", subtype="PCM_16")
    return path


@pytest.mark.parametrize("block_s", [600, 4])
def test_a_file_is_denoised_in_place_and_keeps_its_length(tmp_path, monkeypatch, block_s):
    """Whole, and in blocks, of which each has its own noise."""
    monkeypatch.setattr(denoise, "_BLOCK_S", block_s)
    clean = voiced()
    path = flac_of(tmp_path / "sound.part", with_noise(clean, 0.0))
    before, _ = soundfile.read(path, dtype="float32")
    assert denoise.denoise_file(path, denoise=denoiser_of("spectral", below_db=10.0), find_speech=lambda _: SPEECH)
    found, rate_hz = soundfile.read(path, dtype="float32")
    assert (rate_hz, len(found), soundfile.info(path).subtype) == (RATE_HZ, len(clean), "PCM_16")
    assert ratio(clean, found) - ratio(clean, before) >= 5.0
    assert [one.name for one in tmp_path.iterdir()] == ["sound.part"]


def gives_up(samples, speech):
    raise UnreadableItem(3401, "no answer")


@pytest.mark.parametrize(
    ("ratio_db", "row"),
    [(20.0, denoiser_of("spectral", below_db=10.0)), (0.0, gives_up)],
    ids=["clean", "the denoiser gives up"],
)
def test_a_file_that_is_clean_or_cannot_be_denoised_keeps_its_bytes(tmp_path, ratio_db, row):
    path = flac_of(tmp_path / "sound.part", with_noise(voiced(), ratio_db))
    before = path.read_bytes()
    assert not denoise.denoise_file(path, denoise=row, find_speech=lambda _: SPEECH)
    assert path.read_bytes() == before
