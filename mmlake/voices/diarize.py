"""Who speaks when, by the voices of windows: clean talk of two is its field, and it says so where it is beyond that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmlake.speech.mel import HOP_SAMPLES, RATE_HZ, mel_energies
from mmlake.voices import ge2e, turns
from mmlake.voices.clustering import cluster
from mmlake.voices.turns import Turn

_CLEAR_MARGIN = 0.15  # similarity to its own voice above that to the next one, which turns of clean talk have
MANY_VOICES = 0.4  # highest confidence where there are more than two voices: a third of the time may be wrong


def diarize(
    samples: np.ndarray, speech: Sequence[tuple[float, float]], *, embed: ge2e.Embed, max_speakers: int
) -> list[Turn]:
    """The turns within the spans of speech, in order. samples: float32 mono 16 kHz. speech: seconds, in order."""
    speech = [(start_s, min(end_s, len(samples) / RATE_HZ)) for start_s, end_s in speech]
    speech = [(start_s, end_s) for start_s, end_s in speech if end_s > start_s]
    if not speech:
        return []
    centres_s, owners = turns.window_centres(speech)
    spoken = np.zeros(len(samples), bool)
    for start_s, end_s in speech:
        spoken[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)] = True
    half = ge2e.WINDOW_FRAMES // 2
    energies = np.pad(mel_energies(ge2e.levelled(samples, spoken)), ((half, half), (0, 0)))
    starts = np.minimum((centres_s * RATE_HZ / HOP_SAMPLES).astype(int), len(energies) - ge2e.WINDOW_FRAMES)
    found = cluster(embed(energies, starts), max_voices=max_speakers)
    confidences = np.clip(found.margins / _CLEAR_MARGIN, 0.0, 1.0)
    if found.labels.max() > 1:
        confidences = np.minimum(confidences, MANY_VOICES)
    return turns.turns_of(speech, centres_s, owners, found.labels, confidences)
