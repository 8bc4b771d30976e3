"""Silence is measured on the source's own channels, of recordings and films."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from quality_media import measures_of, sound
from test_film_loudness import film_track, store, tone  # noqa: F401
from test_quality_audio import audio_track

from mmlake.quality.silence import Silence

CENTRE = 2  # of 5.1
HALF = 3.0


def channels_of(kind: str) -> tuple[list[np.ndarray], str]:
    """A tone of -50 dBFS and silence of the same length: in the centre of 5.1 alone, or in two channels whose signs
    differ."""
    wave = np.concatenate([tone(-47.0, HALF), np.zeros(round(HALF * 48_000))])
    if kind == "stereo":
        return [wave, -wave], kind
    return [wave if at == CENTRE else np.zeros(len(wave)) for at in range(6)], kind


@pytest.mark.parametrize("kind", ["5.1", "stereo"])
def test_a_film_is_silent_where_no_channel_has_a_sound(store, kind):  # noqa: F811
    """All of it was, by the mean of its channels."""
    assert measures_of(film_track(store, *channels_of(kind)), store)["silent_fraction"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("kind", ["5.1", "stereo"])
def test_a_recording_is_silent_where_no_channel_has_a_sound(store, kind):  # noqa: F811
    waves = np.stack(channels_of(kind)[0], axis=1)
    sink = io.BytesIO()
    soundfile.write(sink, waves, 48_000, format="WAV")
    mono = waves.mean(axis=1)[::3]
    row = audio_track(store, mono) | {
        "digest": store.put(sink.getvalue()),
        "audio_digest": store.put(sound(mono, 16_000, "FLAC")),
        "duration_s": 2 * HALF,
    }
    assert measures_of(row, store)["silent_fraction"] == pytest.approx(0.5, abs=0.01)


def test_what_no_block_holds_is_silent():
    """Lost packets, and the end of a film behind its sound."""
    found = Silence()
    found.add(0.1 * np.random.default_rng(1).standard_normal((48_000, 2)).astype(np.float32), 48_000)
    assert found.fraction(4.0) == pytest.approx(0.75)


@pytest.mark.parametrize("size", [100, 777, 960, 48_000])
def test_blocks_of_any_size_give_the_same(size):
    wave = np.concatenate([tone(-20, 1.013), np.zeros(20_000), tone(-20, 0.4)]).astype(np.float32)[:, None]
    whole, parts = Silence(), Silence()
    whole.add(wave, 48_000)
    for at in range(0, len(wave), size):
        parts.add(wave[at : at + size], 48_000)
    assert parts.loud_s == pytest.approx(whole.loud_s)


def test_less_than_a_frame_has_no_share():
    assert Silence().fraction(0.01) is None
