"""Near duplicates of recordings: signs of band-energy differences over time and frequency, aligned, confirmed by the
long-term spectrum.

Enters: mono 16 kHz samples. Leaves: fingerprints "band-signs" (32 bits per audible frame of 16 ms, with its time; bit
63 says audible) and "spectrum" and pairs. Source: Haitsma and Kalker 2002, with a longer time difference so that clips
of a quarter second carry enough bits.
Chromaprint needs about 3 s of sound, half of real speech clips are shorter, so one method serves all lengths. Speed and
pitch changes are not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from mmlake.dedup import perceptual
from mmlake.dedup.joins import equal_key_pairs
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import UnreadableItem
from mmlake.progress import Advance, silent
from mmlake.spans import Sound, Span

METHOD = "band-signs"
RATE_HZ = 16_000
_WINDOW, _HOP, _LAG = 2_048, 256, 4  # samples, samples, frames: 128 ms windows every 16 ms, compared with 64 ms before
_BANDS_HZ = np.geomspace(250.0, 3_500.0, 34)  # 33 bands that telephone speech has too
_SPECTRUM_HZ = np.geomspace(80.0, 3_800.0, 49)  # 48 bands
_AUDIBLE = 1e-3  # of the loudest frame's energy: -30 dB; below it noise decides the signs
_SILENT_ENERGY = 1e-4  # band energy per frame; 16-bit rounding noise of a silent file stays below it
_SPECTRUM_DB = 20.0  # what lies further below the strongest band is noise or codec
_DEAD_ZONE = 0.01  # of a log energy; a steady tone has no changes, and rounding errors are none
_AUDIBLE_BIT = np.uint64(1 << 63)
_LOW32 = np.uint64(0xFFFFFFFF)
_BLOCK_FRAMES = 4_096
_MAX_RUN = 512  # frames with one 16-bit half in common; more common ones (silence, hum) say nothing
_MIN_VOTES = 2


def fingerprint(data: bytes) -> dict[str, np.ndarray]:
    """Method -> hashes of an audio blob (any file that libsndfile reads). Raises UnreadableItem."""
    return _of_sound(Sound(data))


def span_fingerprints(path: Path, spans: Sequence[Span]) -> Iterable[dict[str, np.ndarray]]:
    """The fingerprint of each span of the sound, in order; of a file whose samples are found without decoding it, as
    FLAC. Raises UnreadableItem."""
    return map(_of_sound, map(partial(Sound, path), spans))


def _of_sound(sound: Sound) -> dict[str, np.ndarray]:
    samples, rate_hz = sound.samples()
    if rate_hz != RATE_HZ:
        raise UnreadableItem(3001, f"sample_rate_hz={rate_hz} not in [{RATE_HZ}, {RATE_HZ}]")
    return fingerprint_samples(samples)


def fingerprint_samples(samples: np.ndarray) -> dict[str, np.ndarray]:
    """Method -> hashes of mono samples at 16 kHz; empty where nothing is audible."""
    energies, spectrum = _energies(samples)
    total = energies.sum(axis=1)
    if not len(total) or total.max() < _SILENT_ENERGY:
        return {METHOD: np.empty(0, np.uint64), "spectrum": np.empty(0, np.uint64), "times_s": np.empty(0, np.float32)}
    audible = total > total.max() * _AUDIBLE
    levels = np.log(energies + 1e-9 * energies.max())
    tilt = levels[:, :-1] - levels[:, 1:]
    change = tilt[_LAG:] - tilt[:-_LAG]
    words = (
        np.ascontiguousarray(np.packbits(change > _DEAD_ZONE, axis=1, bitorder="little"))
        .view("<u4")[:, 0]
        .astype(np.uint64)
    )
    words |= np.where(audible[_LAG:] & audible[:-_LAG], _AUDIBLE_BIT, np.uint64(0))
    mean = spectrum[audible].mean(axis=0)
    shape = np.clip(10 * np.log10(mean / mean.max() + 1e-12), -_SPECTRUM_DB, 0) + _SPECTRUM_DB
    times = (np.arange(len(words)) * _HOP / RATE_HZ).astype(np.float32)
    return {METHOD: words, "spectrum": perceptual.pack_bytes((shape * 255 / _SPECTRUM_DB).round()), "times_s": times}


def _energies(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(33 band energies, 48 band energies) per frame, in blocks; frame k is centred on sample k * hop."""
    padded = np.pad(np.nan_to_num(samples.astype(np.float32)), _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    window = np.hanning(_WINDOW).astype(np.float32)
    narrow, wide = [], []
    for at in range(0, len(frames), _BLOCK_FRAMES):
        power = np.abs(np.fft.rfft(frames[at : at + _BLOCK_FRAMES] * window)) ** 2
        sums = np.concatenate([np.zeros((len(power), 1)), np.cumsum(power, axis=1, dtype=np.float64)], axis=1)
        narrow.append(_bands(sums, _BANDS_HZ))
        wide.append(_bands(sums, _SPECTRUM_HZ))
    return np.concatenate(narrow), np.concatenate(wide)


def _bands(sums: np.ndarray, edges_hz: np.ndarray) -> np.ndarray:
    """Energies between the edges, from prefix sums over the bins, edges interpolated."""
    position = edges_hz * _WINDOW / RATE_HZ
    low = np.floor(position).astype(int)
    part = position - low
    energies: np.ndarray = np.maximum(np.diff(sums[:, low] * (1 - part) + sums[:, low + 1] * part, axis=1), 0.0)
    return energies


def pairs(
    prints: list[dict[str, np.ndarray]], *, settings: DedupSettings, advance: Advance = silent
) -> list[tuple[int, int, str, float]]:
    """(i, j, method, score) of the recordings that align; score is the share of equal bits over audible aligned
    frames."""
    found = []
    for i, j, shifts in _candidates(prints):
        left, right = (perceptual.unpack_bytes(prints[at]["spectrum"]) for at in (i, j))
        if float(perceptual.correlations(left, right)) < settings.audio_spectrum_correlation:
            continue
        score = max(
            similarity(prints[i][METHOD], prints[j][METHOD], shift=shift + fine, settings=settings)
            for shift in shifts
            for fine in (-1, 0, 1)
        )
        if score >= settings.audio_match:
            found.append((i, j, METHOD, score))
    advance(len(prints))
    return found


def similarity(left: np.ndarray, right: np.ndarray, *, shift: int, settings: DedupSettings) -> float:
    """Share of equal bits where frame k of left meets frame k - shift of right; 0.0 where too little of either is
    audible there."""
    a, b = max(0, shift), max(0, -shift)
    num = min(len(left) - a, len(right) - b)
    counts = sorted(int(np.count_nonzero(words & _AUDIBLE_BIT)) for words in (left, right))
    if num <= 0 or counts[0] < settings.min_length_fraction * counts[1]:
        return 0.0
    here, there = left[a : a + num], right[b : b + num]
    audible = (here & there & _AUDIBLE_BIT) != 0
    if np.count_nonzero(audible) < max(1.0, settings.min_coverage_fraction * counts[0]):
        return 0.0
    different = np.bitwise_count((here[audible] ^ there[audible]) & _LOW32)
    return round(1 - float(different.mean()) / 32, 6)


def _candidates(prints: list[dict[str, np.ndarray]]) -> list[tuple[int, int, list[int]]]:
    """(i, j, shifts) of recordings in which half-frames meet at one shift, by votes. Two halves of 16 bits: one
    whole frame seldom survives a codec."""
    lengths = [len(one.get(METHOD, ())) for one in prints]
    if not sum(lengths):
        return []
    words = np.concatenate([one[METHOD] for one, length in zip(prints, lengths, strict=True) if length])
    owner = np.repeat(np.arange(len(prints)), lengths)
    frame = np.concatenate([np.arange(length) for length in lengths])
    audible = (words & _AUDIBLE_BIT) != 0
    words, owner, frame = words[audible], owner[audible], frame[audible]
    span = 2 * max(lengths)
    votes: list[np.ndarray] = []
    for low in (np.uint64(0), np.uint64(16)):
        for i, j in equal_key_pairs((words >> low) & np.uint64(0xFFFF), max_run=_MAX_RUN):
            apart = owner[i] != owner[j]
            i, j = i[apart], j[apart]
            votes.append((owner[i] * len(prints) + owner[j]) * span + (frame[i] - frame[j] + span // 2))
    return _elected(np.concatenate(votes), span, len(prints)) if votes else []


def _elected(votes: np.ndarray, span: int, num: int) -> list[tuple[int, int, list[int]]]:
    values, counts = np.unique(votes, return_counts=True)
    enough = counts >= _MIN_VOTES
    values, counts = values[enough], counts[enough]
    codes, shifts = values // span, values % span - span // 2
    order = np.lexsort((shifts, -counts, codes))
    chosen: dict[int, list[int]] = {}
    for code, shift in zip(codes[order].tolist(), shifts[order].tolist(), strict=True):
        if len(kept := chosen.setdefault(code, [])) < 3:
            kept.append(shift)
    return [(code // num, code % num, kept) for code, kept in sorted(chosen.items())]
