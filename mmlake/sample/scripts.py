"""Scripts of long items: spoken sentences placed in time, and the pauses between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from mmlake.sample import voices
from mmlake.sample.sentences import spoken
from mmlake.sample.truth import Sentence
from mmlake.sample.voices import RATE_HZ

MIN_PAUSE_S = 0.2  # what is shorter belongs to the speech


@dataclass(kw_only=True)
class Script:
    """What is said when, while it is being written. The sentences come in their order, each as soon as it fits."""

    lines: deque[tuple[str, np.ndarray]]  # (sentence, its sound without pauses around it)
    placed: list[tuple[Sentence, np.ndarray]] = field(default_factory=list)

    @classmethod
    def of_voice(cls, number: int, *, first: int, num_lines: int, seed: int) -> Script:
        """A script for the voice of that number, with sentences that no other number says.

        first: which of the generated sentences come first; more than those of `generate` for short items.
        """
        said = [voices.utterance(spoken(at, seed)[:2], number) for at in range(first, first + (num_lines + 1) // 2)]
        parts = voices.speak_parts(said, seed)
        lines = (
            (text, part)
            for words, sounds in zip(said, parts, strict=True)
            for text, part in zip(words.sentences, sounds, strict=True)
        )
        return cls(lines=deque(lines))

    def say(self, at_s: float) -> float:
        """Place the next sentence there; when it ends."""
        text, sound = self.lines.popleft()
        end_s = at_s + len(sound) / RATE_HZ
        self.placed.append((Sentence(text=text, start_s=round(at_s, 3), end_s=round(end_s, 3)), sound))
        return end_s

    def fill(self, start_s: float, end_s: float, *, pauses_s: tuple[float, ...]) -> float:
        """Place sentences one after another, with these pauses in turn, as long as they end in time; when the last of
        them ends."""
        at_s, last_s, number = start_s, start_s, 0
        while self.lines and at_s + len(self.lines[0][1]) / RATE_HZ <= end_s:
            last_s = self.say(at_s)
            at_s = last_s + pauses_s[number % len(pauses_s)]
            number += 1
        return last_s

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """In order of time."""
        return tuple(sentence for sentence, _ in self.placed)

    def sound(self, duration_s: float) -> np.ndarray:
        """The speech alone: digital silence between the sentences."""
        samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
        for sentence, part in self.placed:
            at = round(sentence.start_s * RATE_HZ)
            samples[at : at + len(part)] = part[: len(samples) - at]
        return samples

    def pauses_s(self, duration_s: float) -> tuple[tuple[float, float], ...]:
        """Where there is no speech for MIN_PAUSE_S or more, the beginning and the end included."""
        borders = [0.0, *(time for one in self.sentences for time in (one.start_s, one.end_s)), round(duration_s, 3)]
        return tuple(
            (start, end) for start, end in zip(borders[::2], borders[1::2], strict=True) if end - start >= MIN_PAUSE_S
        )
