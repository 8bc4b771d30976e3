"""Conversations of voices that speak in turn, with who speaks when."""

from __future__ import annotations

import numpy as np

from mmlake.sample import voices

SENTENCES = (
    "Fresh apples and warm bread stood on the long table",
    "Nobody remembered where the green bicycle had been left",
    "The train to the coast leaves at seven in the morning",
    "She wrote three letters and posted none of them",
)


def conversation(names: tuple[str, ...], *, num_turns: int, seed: int) -> tuple[np.ndarray, list[tuple]]:
    """(samples, turns as (start_s, end_s, voice)): the voices in turn, half a second apart."""
    rng = np.random.default_rng(seed)
    parts, turns, at = [], [], 0
    for number in range(num_turns):
        name = names[number % len(names)]
        said = SENTENCES[int(rng.integers(len(SENTENCES)))]
        utterance = voices.Utterance(sentences=(said,), voice=name, rate_wpm=160, pitch=50)
        (speech,) = voices.speak([utterance], seed=seed + number)
        samples = np.asarray(speech.samples, np.float32)
        loud = np.flatnonzero(np.abs(samples) > 0.01)
        samples = samples[loud[0] : loud[-1]]
        turns.append((at / voices.RATE_HZ, (at + len(samples)) / voices.RATE_HZ, name))
        gap = np.zeros(voices.RATE_HZ // 2, np.float32)
        parts += [samples, gap]
        at += len(samples) + len(gap)
    sound = np.concatenate(parts)
    return sound + 1e-4 * rng.standard_normal(len(sound)).astype(np.float32), turns
