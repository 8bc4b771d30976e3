"""Speech whose times are known, in rooms and noise, as files of the stage's own kind."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from mmlake.sample import voices

RATE_HZ = voices.RATE_HZ
SENTENCES = (
    "The ferry leaves the harbour before sunrise.",
    "Two brothers repaired the roof of the old library.",
    "Nobody expected such heavy rain in the middle of July.",
    "She keeps her grandmother's recipes in a wooden box.",
    "A narrow path leads through the forest to the lake.",
    "The orchestra played the final piece twice.",
)


def spoken(*, gap_s: float = 1.0, number: int = 0) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """(samples with a peak of .5, where each sentence lies), with silence of that length before, between and behind."""
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    (parts,) = voices.speak_parts([voices.utterance(SENTENCES, number)], seed=3)
    rest = np.zeros(round(gap_s * RATE_HZ), np.float32)
    placed, spans, at = [rest], [], gap_s
    for part in parts:
        placed += [part * (0.5 / np.abs(part).max()), rest]
        spans.append((at, at + len(part) / RATE_HZ))
        at = spans[-1][1] + gap_s
    return np.concatenate(placed), spans


def with_noise(samples: np.ndarray, level_dbfs: float, seed: int = 0) -> np.ndarray:
    """The samples in white noise of that level."""
    return samples + np.random.default_rng(seed).normal(0, 10 ** (level_dbfs / 20), len(samples)).astype(np.float32)


def in_hall(samples: np.ndarray, *, decay_s: float, direct_db: float, seed: int = 0) -> np.ndarray:
    """The samples as recorded far away in a room whose sound falls by 60 dB in that time (Polack 1988: noise that
    decays), direct sound so far above the rest."""
    time = np.arange(round(1.2 * decay_s * RATE_HZ)) / RATE_HZ
    tail = np.random.default_rng(seed).normal(0, 1, len(time)) * 10 ** (-3 * time / decay_s)
    tail *= np.sqrt(10 ** (-direct_db / 10) / (tail**2).sum())
    tail[0] = 1.0
    size = len(samples) + len(tail)
    echoed = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(tail, size), size)[: len(samples)]
    return (echoed * (0.5 / np.abs(echoed).max())).astype(np.float32)


def flac(samples: np.ndarray, rate_hz: int = RATE_HZ) -> io.BytesIO:
    """The samples as the tracks step keeps them."""
    sink = io.BytesIO()
    soundfile.write(sink, np.clip(samples, -1, 1), rate_hz, format="FLAC", subtype="PCM_16")
    return sink


def agreement(found: list[tuple[float, float]], truth: list[tuple[float, float]], end_s: float) -> float:
    """F1 of the 10 ms in which somebody speaks."""

    def mask(spans: list[tuple[float, float]]) -> np.ndarray:
        time_s = np.arange(0, end_s, 0.01) + 0.005
        return np.any([(start <= time_s) & (time_s < end) for start, end in spans] or [np.zeros(len(time_s))], axis=0)

    left, right = mask(found).astype(bool), mask(truth)
    return float(2 * (left & right).sum() / (left.sum() + right.sum()))
