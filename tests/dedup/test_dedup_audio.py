"""Near duplicates of recordings, on generated material with labelled distortions."""

from __future__ import annotations

import io

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, audio
from mmlake.dedup.matching import OVERLAPS
from mmlake.dedup.prints import Ragged
from mmlake.errors import UnreadableItem

SETTINGS = DedupSettings()
RATE = 16_000


def voice(seed, seconds=1.2):
    """Sound with changing pitch and formants, as speech has."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    knots = np.linspace(0, seconds, 4 + int(8 * seconds))  # eight syllables a second
    pitch = np.interp(time, knots, rng.uniform(90, 260, len(knots)))
    out = np.zeros_like(time)
    for k in range(1, 14):
        out += (
            np.interp(time, knots, rng.uniform(0, 1, len(knots)) ** 3)
            * np.sin(2 * np.pi * k * np.cumsum(pitch) / RATE)
            / k**0.5
        )
    return (0.2 * out / np.abs(out).max()).astype(np.float32)


def matcher(sounds):
    prints = [audio.fingerprint_samples(one) for one in sounds]
    return audio.matcher({name: Ragged.of([one[name] for one in prints]) for name in audio.METHODS}, SETTINGS)


def relations(sounds):
    """(i, j) -> how i relates to j, of all pairs that relate at all."""
    found, num = matcher(sounds), len(sounds)
    rows = {i: found.compare(i, np.arange(num)).relation for i in range(num)}
    return {(i, j): int(rows[i][j]) for i in range(num) for j in range(i + 1, num) if rows[i][j]}


def audio_pairs(sounds):
    """Pairs of which one may go."""
    return {pair for pair, relation in relations(sounds).items() if relation != OVERLAPS}


@pytest.mark.parametrize("seconds", [0.4, 1.2, 5.0])
def test_gain_noise_trim_and_padding_are_found_and_other_recordings_are_not(seconds):
    """Labelled pairs: 8 recordings x 4 distortions at three lengths; precision and recall against the original 1."""
    rng = np.random.default_rng(0)
    originals = [voice(seed, seconds) for seed in range(8)]
    sounds, labels = list(originals), list(range(8))
    for label, one in enumerate(originals):
        noise = rng.normal(0, np.sqrt((one**2).mean()) / 10, len(one)).astype(np.float32)
        sounds += [0.3 * one, one + noise, one[len(one) // 10 :], np.concatenate([np.zeros(3_000, np.float32), one])]
        labels += [label] * 4
    pairs = audio_pairs(sounds)
    assert all(labels[i] == labels[j] for i, j in pairs)
    assert all((label, at) in pairs for at, label in enumerate(labels) if at >= 8)


def test_silence_and_nothing_never_pair():
    quiet = np.zeros(RATE, np.float32)
    assert audio_pairs([quiet, quiet + np.float32(1e-6), np.empty(0, np.float32), voice(1)]) == set()


def test_steady_tones_of_different_pitch_do_not_pair():
    time = np.arange(RATE) / RATE
    tones = [0.5 * np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (440, 466.2, 880)]
    assert audio_pairs(tones) == set()


def test_an_excerpt_of_less_than_half_is_a_part_and_no_duplicate():
    long = voice(3, 6.0)
    assert audio_pairs([long, long[: 2 * RATE]]) == set()


def test_a_recording_at_another_rate_is_refused():
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(100), 8_000, format="WAV")
    with pytest.raises(UnreadableItem, match="sample_rate_hz=8000"):
        audio.fingerprint(buffer.getvalue())
