"""Spoken sentences as samples: eSpeak NG where the package `espeakng-loader` is installed, else a plain formant voice.

Enters: what to say. Leaves: float32 mono at RATE_HZ with a faint room noise, and where each sentence lies. The formant
voice has vowels and rhythm, not intelligible words: the truth file says which of the two spoke.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.errors import MmlakeError
from mmlake.sample.chance import stream
from mmlake.sample.espeak import RATE_HZ as _ESPEAK_HZ

RATE_HZ = 16000
_PAUSE_S, _EDGE_S = 0.35, 0.3
_ROOM = 2.0e-4  # standard deviation: about -74 dBFS, the noise of a quiet studio
_TIMEOUT_S = 120
# Without the breathy variants (f2, f3, f5): their noise differed between processes in 8 ways of 40 runs, the others in
# none.
VOICES = (
    "en-us",
    "en-gb-x-rp",
    "en-us+f1",
    "en-gb-scotland",
    "en-us+m3",
    "en-029",
    "en-us+f4",
    "en-gb-x-gbclan",
    "en-us+m7",
    "en-us+Annie",
)
_FORMANTS_HZ = {
    "a": (800, 1200),
    "e": (500, 1900),
    "i": (300, 2300),
    "o": (500, 900),
    "u": (320, 800),
    "y": (300, 2000),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """Sentences to be spoken by one voice."""

    sentences: tuple[str, ...]
    voice: str
    rate_wpm: int
    pitch: int  # 0..99, 50 is the voice's own

    @property
    def text(self) -> str:
        """The transcript."""
        return " ".join(self.sentences)


@dataclass(frozen=True, slots=True)
class Speech:
    """What was spoken."""

    samples: np.ndarray  # float32 mono at RATE_HZ, peak 0.6
    spans_s: tuple[tuple[float, float], ...]  # one per sentence


def engine() -> str:
    """Which voice this machine has: "espeak-ng" or "formant"."""
    return "espeak-ng" if importlib.util.find_spec("espeakng_loader") else "formant"


def utterance(sentences: tuple[str, ...], number: int) -> Utterance:
    """The sentences with the voice, rate and pitch that are due to this number."""
    return Utterance(
        sentences=sentences,
        voice=VOICES[number % len(VOICES)],
        rate_wpm=145 + 11 * (number % 5),
        pitch=38 + 6 * (number % 6),
    )


def speak(utterances: Sequence[Utterance], seed: int) -> list[Speech]:
    """Each utterance as sound, the same on every run for the same list."""
    spoken = speak_parts(utterances, seed)
    return [_joined(parts, stream(seed, "room", which)) for which, parts in enumerate(spoken)]


def speak_parts(utterances: Sequence[Utterance], seed: int) -> list[list[np.ndarray]]:
    """The sentences of each utterance, every one as a sound without pauses around it, of the voice's own level."""
    wanted = [(which, sentence) for which, said in enumerate(utterances) for sentence in said.sentences]
    if engine() == "espeak-ng":
        parts = _espeak(
            [
                {
                    "text": sentence,
                    "voice": utterances[which].voice,
                    "rate": utterances[which].rate_wpm,
                    "pitch": utterances[which].pitch,
                }
                for which, sentence in wanted
            ]
        )
    else:
        parts = [
            _formants(sentence, utterances[which], stream(seed, "formant", at))
            for at, (which, sentence) in enumerate(wanted)
        ]
    spoken: list[list[np.ndarray]] = [[] for _ in utterances]
    for (which, _), part in zip(wanted, parts, strict=True):
        spoken[which].append(part)
    return spoken


def in_room(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The samples with a peak of 0.6, in the noise of a quiet studio."""
    louder = samples * (0.6 / max(1e-6, float(np.abs(samples).max())))
    return (louder + rng.normal(0, _ROOM, len(samples))).astype(np.float32)


def _joined(parts: list[np.ndarray], rng: np.random.Generator) -> Speech:
    spans, at, placed = [], _EDGE_S, [np.zeros(round(_EDGE_S * RATE_HZ), np.float32)]
    for part in parts:
        spans.append((round(at, 3), round(at + len(part) / RATE_HZ, 3)))
        placed += [part, np.zeros(round(_PAUSE_S * RATE_HZ), np.float32)]
        at += len(part) / RATE_HZ + _PAUSE_S
    return Speech(in_room(np.concatenate(placed), rng), tuple(spans))


def _espeak(requests: list[dict[str, str | int]]) -> list[np.ndarray]:
    import soxr

    program = Path(__file__).with_name("espeak.py")
    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(requests).encode(),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    parts: list[np.ndarray] = []
    data, at = done.stdout, 0
    while at + 4 <= len(data):
        count = int.from_bytes(data[at : at + 4], "little", signed=True)
        if at + 4 + 2 * max(0, count) > len(data):  # it ended within a sentence: one too few, said below
            break
        samples = np.frombuffer(data, "<i2", max(0, count), at + 4).astype(np.float32) / 32768
        at += 4 + 2 * max(0, count)
        loud = np.flatnonzero(np.abs(samples) > 0.003)
        trimmed = samples[loud[0] : loud[-1] + 1] if len(loud) else samples
        parts.append(soxr.resample(trimmed, _ESPEAK_HZ, RATE_HZ).astype(np.float32))
    if done.returncode or len(parts) != len(requests) or any(len(part) < RATE_HZ // 10 for part in parts):
        num_spoken = sum(len(part) > 0 for part in parts)
        raise MmlakeError(
            f"eSpeak NG gave {num_spoken} of {len(requests)} sentences (exit {done.returncode}); reinstall "
            "espeakng-loader, or remove it to use the formant voice"
        )
    return parts


def _formants(sentence: str, said: Utterance, rng: np.random.Generator) -> np.ndarray:
    """One vowel-coloured syllable per vowel and a burst of noise per consonant group."""
    base_hz = 90 + 1.6 * said.pitch
    parts: list[np.ndarray] = []
    for word in sentence.lower().split():
        for letter in word:
            if letter in _FORMANTS_HZ:
                parts.append(
                    _vowel(
                        _FORMANTS_HZ[letter],
                        base_hz * rng.uniform(0.9, 1.15),
                        rng.uniform(0.09, 0.16) * 160 / said.rate_wpm,
                    )
                )
            elif letter.isalpha():
                burst = rng.normal(0, 0.05, int(0.03 * RATE_HZ)) * np.hanning(int(0.03 * RATE_HZ))
                parts.append(burst.astype(np.float32))
        parts.append(np.zeros(int(0.05 * RATE_HZ), np.float32))
    return np.concatenate(parts)


def _vowel(formants_hz: tuple[int, int], pitch_hz: float, duration_s: float) -> np.ndarray:
    time = np.arange(int(duration_s * RATE_HZ)) / RATE_HZ
    sound = np.zeros_like(time)
    for harmonic in range(1, int(4000 / pitch_hz)):
        hertz = harmonic * pitch_hz
        gain = sum(np.exp(-(((hertz - formant) / 140) ** 2)) for formant in formants_hz) + 0.02
        sound += gain * np.sin(2 * np.pi * hertz * time)
    return (0.15 * sound * np.hanning(len(time))).astype(np.float32)
