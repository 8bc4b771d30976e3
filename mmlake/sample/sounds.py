"""Melodies, disguises of recordings, and audio files. Samples are float32 mono in -1..1 at voices.RATE_HZ."""

from __future__ import annotations

import io

import numpy as np

from mmlake.sample.chance import pick
from mmlake.sample.voices import RATE_HZ

_SCALES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10), (0, 3, 5, 6, 7, 10), (0, 2, 4, 7, 9), (0, 1, 4, 5, 7, 8, 11))


def melody(duration_s: float, rng: np.random.Generator) -> np.ndarray:
    """A tune of plucked notes and chords with rests, in a scale, tempo and timbre of its own."""
    samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
    scale, root, beat_s = pick(rng, _SCALES), int(rng.integers(45, 66)), rng.uniform(0.16, 0.42)
    partials = rng.uniform(0.05, 1, 7) / np.arange(1, 8)
    decay = rng.uniform(3, 8)
    at = 0.05
    while at < duration_s - 0.3:
        length = beat_s * pick(rng, (1, 1, 2, 3))
        degree = int(rng.integers(0, 2 * len(scale)))
        chord = (0, 2, 4) if rng.random() < 0.3 else (0,)
        if rng.random() > 0.15:
            for step in chord:
                octave, tone = divmod(degree + step, len(scale))
                _pluck(samples, at, 440 * 2 ** ((root + 12 * octave + scale[tone] - 69) / 12), partials, decay)
        at += length
    samples *= 0.6 / max(1e-6, float(np.abs(samples).max()))
    return (samples + rng.normal(0, 2.0e-4, len(samples))).astype(np.float32)


def _pluck(samples: np.ndarray, at_s: float, pitch_hz: float, partials: np.ndarray, decay: float) -> None:
    start = round(at_s * RATE_HZ)
    time = np.arange(min(len(samples) - start, RATE_HZ)) / RATE_HZ
    note = np.zeros(len(time))
    for number, gain in enumerate(partials, 1):
        if number * pitch_hz < RATE_HZ / 2.2:
            note += gain * np.sin(2 * np.pi * number * pitch_hz * time) * np.exp(-decay * (1 + 0.25 * number) * time)
    samples[start : start + len(note)] += (note * np.minimum(1, time * 200)).astype(np.float32)


def encoded(samples: np.ndarray, extension: str) -> bytes:
    """The samples as a 16-bit wav or flac, or an mp3 file."""
    import soundfile

    buffer = io.BytesIO()
    kind = {"wav": ("WAV", "PCM_16"), "flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III")}[extension]
    soundfile.write(buffer, np.clip(samples, -1, 32767 / 32768), RATE_HZ, format=kind[0], subtype=kind[1])
    return buffer.getvalue()


DISGUISES = ("transcode", "gain", "noise", "trim")


def disguised(samples: np.ndarray, kind: str, rng: np.random.Generator) -> tuple[bytes, str]:
    """(file, extension) of the same recording, changed the way that copies are."""
    if kind == "transcode":
        return encoded(samples, "mp3"), "mp3"
    if kind == "gain":
        return encoded(samples * np.float32(0.5), "flac"), "flac"
    if kind == "noise":
        level = 0.01 * float(np.sqrt(np.mean(samples**2)))  # 40 dB under the recording
        return encoded(samples + rng.normal(0, level, len(samples)).astype(np.float32), "wav"), "wav"
    return encoded(samples[round(0.25 * RATE_HZ) : -round(0.15 * RATE_HZ)], "flac"), "flac"


def silence(duration_s: float, rng: np.random.Generator) -> np.ndarray:
    """A channel that nobody spoke into: noise of the converter at about -86 dBFS."""
    return rng.normal(0, 5.0e-5, round(duration_s * RATE_HZ)).astype(np.float32)


def overdriven(samples: np.ndarray) -> np.ndarray:
    """The recording with a gain far too high: its tops are cut flat."""
    clipped: np.ndarray = np.clip(samples * 12, -1, 1)
    return clipped


def drowned(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The recording 6 dB under a steady hiss."""
    level = 2.0 * float(np.sqrt(np.mean(samples**2)))
    mixed: np.ndarray = samples + rng.normal(0, level, len(samples)).astype(np.float32)
    scaled: np.ndarray = (mixed * (0.8 / np.abs(mixed).max())).astype(np.float32)
    return scaled
