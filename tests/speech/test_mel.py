"""Mel spectra are those that models were trained on."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from mmlake.loader import AUTO
from mmlake.loader.decode import decoded, decoders
from mmlake.speech.mel import log_mel, mel_energies

# librosa 0.11.0: melspectrogram(y, sr=16000, n_fft=400, hop_length=160, n_mels=40), frame -> bands 0, 3, ... 39
LIBROSA = {
    0: (0.560613, 1.69129, 0.0131216, 0.00326706, 0.00135071, 0.000453832, 0.000242261, 0.00016535, 0.000120445,
        0.000106883, 0.000342245, 0.000136885, 0.000129318, 9.9772e-05),
    12: (0.000566569, 0.000833656, 0.000829566, 0.00595345, 8.63996, 0.000191881, 0.00014499, 6.02446e-05, 0.000188706,
         0.000220441, 0.000335097, 0.000362424, 0.000251371, 0.000419116),
}  # fmt: skip


def sweep(num_samples: int) -> np.ndarray:
    rng, time_s = np.random.default_rng(7), np.arange(num_samples) / 16000
    tone = 0.3 * np.sin(2 * np.pi * (200 * time_s + 3000 * time_s * time_s))
    return (tone + 0.01 * rng.standard_normal(num_samples)).astype(np.float32)


def test_mel_energies_are_those_of_librosa() -> None:
    found = mel_energies(sweep(4000))
    assert found.shape == (26, 40)
    for frame, expected in LIBROSA.items():
        np.testing.assert_allclose(found[frame, ::3], expected, rtol=2e-3)


@pytest.mark.parametrize("num_bands", [80, 128])
def test_the_log_mel_spectrogram_is_the_one_that_whisper_is_given(num_bands: int) -> None:
    from transformers import WhisperFeatureExtractor

    # half of the window of 30 s is silence, and its blocks of frames have a border within it
    samples = np.concatenate([sweep(240_000), np.zeros(240_000, np.float32)])
    expected = WhisperFeatureExtractor(feature_size=num_bands)(samples, sampling_rate=16000, return_tensors="np")
    np.testing.assert_allclose(log_mel(samples, num_bands), expected.input_features[0], atol=1e-4)


def test_a_trainer_may_have_sounds_as_log_mel() -> None:
    soundfile.write(sink := io.BytesIO(), sweep(16_000), 16_000, format="FLAC")
    choice = decoders(AUTO | {"flac": "log_mel"})
    found = decoded("sound.flac", sink.getvalue(), choice)
    assert (found.dtype, found.shape) == (np.float32, (80, 100))
    assert decoded("flac", sink.getvalue(), decoders({"flac": "log_mel_128"})).shape == (128, 100)
    assert decoded("txt", b"words", choice) == "words"


@pytest.mark.parametrize("num_samples", [0, 159, 200, 201])
def test_sounds_shorter_than_a_window_have_the_frames_that_they_have(num_samples: int) -> None:
    assert log_mel(sweep(num_samples)).shape == (80, num_samples // 160 if num_samples > 200 else 0)
