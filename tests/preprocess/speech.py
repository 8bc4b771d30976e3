"""Speech of synthesized voices whose word times are known: every word is spoken for itself, and laid end to end."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from mmlake.sample import voices

# everyday sentences of our own; none is in the sample corpus, whose speech the weights were fitted on
SENTENCES = (
    "The old sailor painted a map of the city",
    "Fresh apples and warm bread stood on the long table",
    "Nobody remembered where the green bicycle had been left",
    "A quiet river runs behind the yellow school building",
    "She opened every window because the kitchen was full of smoke",
    "Ten young dancers practiced in the empty theater all night",
    "My neighbor sells honey and candles at the winter market",
    "The pilot asked for clear weather and a longer runway",
    "We watched the snow melt slowly under the morning sun",
    "His letter arrived two weeks after the festival was over",
    "Please carry these heavy boxes up to the third floor",
    "The children built a small boat out of paper and string",
)


def flac(samples: np.ndarray) -> bytes:
    """The samples as the stage keeps them."""
    sink = io.BytesIO()
    soundfile.write(sink, samples, voices.RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def speech(sentences: tuple[str, ...] = SENTENCES) -> list[voices.Speech]:
    """Each sentence by another voice, at another rate and pitch."""
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    return voices.speak([voices.utterance((said,), number) for number, said in enumerate(sentences)], seed=11)


def with_noise(samples: np.ndarray, snr_db: float, seed: int = 0) -> np.ndarray:
    """The samples with white noise at this distance below them."""
    noise = np.random.default_rng(seed).normal(0, np.sqrt(np.mean(samples**2) / 10 ** (snr_db / 10)), len(samples))
    return (samples + noise).astype(np.float32)


def melody(seed: int, num_notes: int = 16) -> np.ndarray:
    """Five seconds of a harmonic tune without a voice."""
    rng, time = np.random.default_rng(seed), np.arange(5000) / voices.RATE_HZ
    pitches_hz = 165 * 2 ** (rng.integers(0, 24, num_notes) / 12)
    notes = [
        sum(0.2 / part * np.sin(2 * np.pi * part * hertz * time) for part in range(1, 12)) * np.hanning(len(time))
        for hertz in pitches_hz
    ]
    return np.concatenate(notes).astype(np.float32)


def auc(right: list[float], wrong: list[float]) -> float:
    """How often a right one is above a wrong one; ties count half (Mann and Whitney 1947)."""
    left, other = np.array(right)[:, None], np.array(wrong)[None]
    return float((left > other).mean() + 0.5 * (left == other).mean())
