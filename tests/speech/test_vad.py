"""The voice detector: where it finds speech, at which levels, and what it takes for none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from voices_in_rooms import RATE_HZ, agreement, flac, in_hall, spoken, with_noise

from mmlake.errors import MissingExtra, SettingsError, UnreadableItem
from mmlake.preprocess import PreprocessSettings
from mmlake.sample.sounds import melody
from mmlake.speech import vad


def test_speech_is_found_to_a_few_hundredths_of_a_second():
    samples, spans = spoken()
    found = vad.silero(flac(samples))
    assert agreement(found, spans, len(samples) / RATE_HZ) >= 0.97
    starts, ends = np.array([start for start, _ in found]), np.array([end for _, end in found])
    for start_s, end_s in spans:
        assert np.abs(starts - start_s).min() < 0.12 and np.abs(ends - end_s).min() < 0.12


@pytest.mark.parametrize("gain_db", [-50, -20, 6])
def test_the_level_of_a_recording_does_not_count(gain_db):
    samples, spans = spoken()
    louder = samples * np.float32(10 ** (gain_db / 20))
    assert agreement(vad.silero(flac(louder)), spans, len(samples) / RATE_HZ) >= 0.96


def test_speech_as_loud_as_noise_is_found():
    samples, spans = spoken(number=3)
    noisy = with_noise(samples, 10 * np.log10((samples**2).mean()))
    assert agreement(vad.silero(flac(noisy)), spans, len(samples) / RATE_HZ) >= 0.93


def test_a_quiet_voice_far_behind_a_loud_one_is_found() -> None:
    """At one gain, that of the loud voice, a third of what the other says is missed."""
    near, near_spans = spoken(number=1)
    far, far_spans = spoken(number=2)
    end_s = len(near) / RATE_HZ
    away = in_hall(far, decay_s=0.7, direct_db=-4) * np.float32(10 ** (-34 / 20))
    both = with_noise(np.concatenate([near, away]), -75)
    spans = [*near_spans, *((start_s + end_s, stop_s + end_s) for start_s, stop_s in far_spans)]
    assert agreement(vad.silero(flac(both)), spans, len(both) / RATE_HZ) >= 0.95


def test_steady_noise_is_never_brought_to_the_level_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, _ = spoken(number=1)
    used, original = [], vad._probabilities

    def watched(sound: object, gains_db: list[float], offset: np.float32) -> np.ndarray:
        used.append(len(gains_db))
        return original(sound, gains_db, offset)

    monkeypatch.setattr(vad, "_probabilities", watched)
    for level_dbfs in (-70, -45, -20):
        vad.silero(flac(with_noise(samples, level_dbfs)))
    assert used == [3, 2, 1]


@pytest.mark.parametrize("kind", ["white", "tune", "tone", "silence", "clicks"])
def test_what_nobody_says_is_no_speech(kind):
    rng, count = np.random.default_rng(4), 20 * RATE_HZ
    samples = {
        "white": lambda: rng.normal(0, 0.1, count),
        "tune": lambda: melody(20.0, rng),
        "tone": lambda: 0.3 * np.sin(2 * np.pi * 300 * np.arange(count) / RATE_HZ),
        "silence": lambda: np.zeros(count),
        "clicks": lambda: (np.arange(count) % 4000 == 0) * 0.9,
    }[kind]()
    assert sum(end - start for start, end in vad.silero(flac(samples))) < 0.02 * 20


@pytest.mark.parametrize("count", [1, 511, 512, 513])
def test_shreds_of_sound_hold_no_speech(count):
    assert vad.silero(flac(np.full(count, 0.1))) == []


def test_the_spans_do_not_depend_on_the_blocks_that_are_read(monkeypatch):
    samples, _ = spoken()
    whole = vad.silero(flac(samples))
    monkeypatch.setattr(vad, "_BLOCK_FRAMES", 7)
    assert vad.silero(flac(samples)) == whole


def test_the_probabilities_are_those_of_the_package_frame_by_frame():
    """As `silero_vad.onnx` gives them in the loop of the package's own OnnxWrapper."""
    import onnxruntime

    samples, _ = spoken(gap_s=0.4)
    samples = samples[: 20 * 512]
    folder = Path(importlib.util.find_spec("silero_vad").origin).parent / "data"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    network = onnxruntime.InferenceSession(str(folder / "silero_vad.onnx"), options)
    state, context, expected = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    for frame in np.round(samples * 32768).clip(-32768, 32767).astype(np.float32).reshape(-1, 1, 512) / 32768:
        taken = np.concatenate([context, frame], axis=1)
        (probability,), state = network.run(None, {"input": taken, "state": state, "sr": np.array(16_000)})
        context, expected = frame[:, -64:], [*expected, float(probability[0])]
    np.testing.assert_allclose(vad._probabilities(flac(samples), [0.0], np.float32(0)), expected, atol=1e-4)


def test_an_hour_is_read_a_block_at_a_time(tmp_path, monkeypatch):
    taken = []

    class Watched(soundfile.SoundFile):
        def read(self, frames: int = -1, *args: object, **options: object) -> np.ndarray:
            taken.append(frames)
            return super().read(frames, *args, **options)

    soundfile.write(tmp_path / "a.flac", np.zeros(60 * RATE_HZ), RATE_HZ)
    monkeypatch.setattr(soundfile, "SoundFile", Watched)
    assert vad.silero(tmp_path / "a.flac") == []
    assert taken and 0 < max(taken) <= 256 * 512


def test_sound_of_another_rate_is_refused():
    with pytest.raises(UnreadableItem, match="sample_rate_hz=8000"):
        vad.silero(flac(np.zeros(800), rate_hz=8000))


def test_a_missing_wheel_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    vad._network.cache_clear()
    with pytest.raises(MissingExtra, match="pip install 'silero-vad"):
        vad.silero(flac(np.zeros(1600)))


def test_an_unknown_detector_is_refused():
    with pytest.raises(SettingsError, match="voice_detector='loud' is not one of"):
        PreprocessSettings(voice_detector="loud")


def test_the_detector_loads_no_torch():
    code = (
        "import io, sys, numpy, soundfile\n"
        "from mmlake.speech import vad\n"
        "sink = io.BytesIO()\n"
        "soundfile.write(sink, numpy.zeros(16000), 16000, format='FLAC')\n"
        "vad.silero(sink)\n"
        "assert not {'torch', 'silero_vad'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("offset", [0.05, -0.3])
@pytest.mark.parametrize("gain", [1.0, 0.02])
def test_a_voice_on_an_offset_is_found_as_without(offset: float, gain: float) -> None:
    """The gain for a quiet voice raised the offset of its converter to full scale: nobody spoke."""
    samples, spans = spoken(number=3, gap_s=0.6)
    assert agreement(vad.silero(flac(0.6 * gain * samples + offset)), spans, len(samples) / RATE_HZ) >= 0.93
