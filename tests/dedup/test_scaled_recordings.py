"""Of a recording of 16 bits and a copy that was made quieter or louder and saved in 24 the recording stays: the copy
has more bits and says no more with them."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from benchmarks.dedup_edits.audio import inspected, song
from mmlake.quality.audio_fidelity import Fidelity
from tests.dedup.test_lossy_recordings import survivors

RATE_HZ = 22_050


def depth(samples) -> float | None:
    found = Fidelity()
    found.add(np.asarray(samples, np.float32).reshape(-1, 1), RATE_HZ)
    return found.found(is_lossless=True)["bit_depth"]


def rounded(samples, bits: int):
    return np.rint(samples * 2 ** (bits - 1)) / 2 ** (bits - 1)


@pytest.fixture(scope="module")
def sound():
    return song(np.random.default_rng(5), 8.0, RATE_HZ).astype(np.float64)


@pytest.mark.parametrize("bits", [16, 20, 24])
def test_bits_of_a_converter_are_what_they_are(sound, bits):
    assert depth(rounded(sound, bits)) == bits


@pytest.mark.parametrize("gain", [0.1, 0.25, 0.5, 0.7, 0.9, 1.4])
def test_scaled_recordings_have_no_more_bits_than_they_were_made_of(sound, gain):
    dither = np.random.default_rng(6).triangular(-1, 0, 1, len(sound)) / (1 << 23)
    scaled = gain * rounded(sound, 16)
    assert depth(rounded(scaled, 24)) == depth(rounded(scaled + dither, 24)) == pytest.approx(15.4)


def test_quiet_recordings_of_24_bits_keep_them():
    faint = np.random.default_rng(7).normal(0, 2e-5, 60_000)  # -94 dBFS
    assert depth(rounded(faint, 24)) == 24


@pytest.mark.parametrize("gain", [0.5, 0.9])
def test_the_original_stays_before_a_scaled_copy(sound, tmp_path, gain):
    original, copy = tmp_path / "original.wav", tmp_path / "copy.flac"
    soundfile.write(original, sound, RATE_HZ, subtype="PCM_16")
    soundfile.write(copy, gain * soundfile.read(original)[0], RATE_HZ, subtype="PCM_24")
    assert survivors({"original": inspected(original), "copy": inspected(copy)}, "original", "copy") == {"original"}
