"""Recordings of which one channel is the other turned over, as crossed wires make them: their mean is silence."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake.loader.decode import DECODERS
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings

RATE_HZ = 16_000
TONE = (0.3 * np.sin(np.arange(8 * RATE_HZ) * 0.2)).astype(np.float32)


def tracked(path: Path, channels: np.ndarray, subtype: str = "FLOAT") -> tuple[np.ndarray, np.ndarray]:
    """(the mono track of a recording of these channels, what a batch has of it)."""
    soundfile.write(path, channels, RATE_HZ, subtype=subtype)
    _, flac = audio_track(path, settings=PreprocessSettings())
    return soundfile.read(io.BytesIO(flac), dtype="float32")[0], DECODERS["sound"](path.read_bytes())


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("a.wav", "PCM_16"), ("a.wav", "FLOAT"), ("a.wav", "PCM_U8"), ("a.flac", "PCM_16"), ("a.ogg", "VORBIS")],
)
def test_a_channel_that_is_turned_over_does_not_silence_the_other(tmp_path, name: str, subtype: str) -> None:
    """Such speech was judged silent, and silent in batches."""
    for sound in tracked(tmp_path / name, np.stack([TONE, -0.99 * TONE], axis=1), subtype):
        np.testing.assert_allclose(sound, TONE, atol=0.03)


def test_channels_that_hold_different_sounds_stay_mixed(tmp_path) -> None:
    """One that is silent, and noise that has nothing to do with the other channel's."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(len(TONE), 2)).astype(np.float32) * 1e-3
    for channels in (np.stack([TONE, 0 * TONE], axis=1), noise, np.stack([TONE, -0.5 * TONE], axis=1)):
        for sound in tracked(tmp_path / "a.wav", channels):
            np.testing.assert_allclose(sound, channels.mean(axis=1), atol=2e-5)


def test_one_channel_of_many_stays_a_part_of_the_mix(tmp_path) -> None:
    channels = np.zeros((len(TONE), 24), np.float32)
    channels[:, 7] = TONE
    for sound in tracked(tmp_path / "a.wav", channels):
        np.testing.assert_allclose(sound, TONE / 24, atol=2e-5)


def test_a_loud_channel_stands_for_the_quiet_one_before_it(tmp_path) -> None:
    """Of three channels two cancel each other, and the first is next to silent."""
    for sound in tracked(tmp_path / "a.wav", np.stack([1e-3 * TONE, TONE, -TONE], axis=1)):
        np.testing.assert_allclose(sound, TONE, atol=2e-5)
