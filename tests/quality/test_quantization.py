"""Flat tops of tones, whose values are few, in every form that samples are kept in."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from mmlake.quality.audio import levels
from mmlake.quality.quantization import quantization_step


def tone(pitch_hz: float, gain: float, *, subtype: str = "PCM_16", rate_hz: int = 8_000) -> np.ndarray:
    """As it comes back from a WAV of that form, cut off at full scale; float32, shape (num_samples,)."""
    time_s = np.arange(rate_hz) / rate_hz
    sink = io.BytesIO()
    wave = np.clip(gain * np.sin(2 * np.pi * pitch_hz * time_s), -1, 1)
    soundfile.write(sink, wave, rate_hz, format="WAV", subtype=subtype)
    sink.seek(0)
    samples: np.ndarray = soundfile.read(sink, dtype="float32")[0]
    return samples


def is_clipped(samples: np.ndarray) -> bool:
    return bool(levels([samples[:, None]])["clipped_fraction"] >= 0.001)  # type: ignore[operator]


@pytest.mark.parametrize("pitch_hz", [50, 100, 200, 250])
@pytest.mark.parametrize("gain", [1.2, 2.0])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_a_tone_that_was_cut_off_is_clipped(pitch_hz: int, gain: float, subtype: str) -> None:
    """The values of a period lie far apart, which was taken for steps of 8 bits: up to two thirds of the samples at
    full scale were no fault."""
    assert is_clipped(tone(pitch_hz, gain, subtype=subtype))


@pytest.mark.parametrize("pitch_hz", [50, 100, 125, 200, 400])
@pytest.mark.parametrize("gain", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_U8", "ALAW", "ULAW"])
def test_a_whole_tone_is_not(pitch_hz: int, gain: float, subtype: str) -> None:
    """Of A-law the steps at the top of a low tone were taken for corners: a sixth of it was clipped."""
    assert not is_clipped(tone(pitch_hz, gain, subtype=subtype))


@pytest.mark.parametrize("num_steps", [100, 127, 511, 2047])
def test_nor_is_one_of_a_converter_that_is_coarser_than_its_file(num_steps: int) -> None:
    coarse = np.round(0.9 * num_steps * np.sin(2 * np.pi * 50 * np.arange(8_000) / 8_000)) / num_steps
    assert not is_clipped((np.round(coarse * 32_767) / 32_768).astype(np.float32))


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.arange(-128, 128) / 128, 1 / 128),
        (np.array([-0.5, 0.5]), 1 / 128),
        (np.sin(np.arange(50) / 8) / 3, 2**-24),
        (np.array([-30_000, -20_222, -6_007, 0, 1_024, 9_216, 20_001, 25_000, 31_111]) / 32_768, 1 / 32_768),
        (np.array([8, 24, 1008, 32_256]) / 32_768, 1_024 / 32_768),  # A-law, in whose last segment steps are largest
        (np.array([0, 8, 132, 32_124]) / 32_768, 1_024 / 32_768),
    ],
    ids="bits switch floats sixteen a-law mu-law".split(),
)
def test_the_step_is_found_in_the_values(samples: np.ndarray, expected: float) -> None:
    assert quantization_step(samples.astype(np.float32)) == pytest.approx(expected, rel=1e-3)
