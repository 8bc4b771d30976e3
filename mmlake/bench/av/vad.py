"""Bench part `vad`: where somebody speaks, where long recordings are cut, noise and clipping.

Enters: sentences of synthetic voices at times that are known, in noise, in crowds and in rooms; or a folder of
recordings with the times of their speech. Leaves: figures. Rooms are noise that decays (Polack 1988).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import SettingsError
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings, UnitSettings
from mmlake.preprocess.tiling.places import Spoken
from mmlake.preprocess.tiling.units import LongItem, split_recording
from mmlake.preprocess.transcripts.utterances import of_speech
from mmlake.quality.audio import levels
from mmlake.quality.noise import snr_db
from mmlake.sample import voices
from mmlake.sample.sentences import spoken
from mmlake.sample.sounds import melody
from mmlake.speech.vad import silero

_PART = "vad"
_RATE_HZ = voices.RATE_HZ
_HOP_S = 0.01
_WORD_PAUSE_S = 0.2  # what is shorter belongs to the speech
_TURN_PAUSE_S = 0.5  # in labels of turns, whose authors leave short pauses in
_RATIOS_DB = (0, 5, 10, 20)
_FIRST = 11_000  # numbers of `spoken` that nothing else takes
Spans = list[tuple[float, float]]
Noise = Callable[[int, np.random.Generator], np.ndarray]


@dataclass(frozen=True, slots=True)
class _Recording:
    """Sentences at known times, in silence."""

    samples: np.ndarray  # float32, peak .3
    spans: Spans


def generated(run: Run) -> Iterator[AvRow]:
    """The figures of synthetic voices; with espeakng-loader, since the plain voice has no words."""
    if voices.engine() != "espeak-ng":
        raise SettingsError("the part vad needs a voice with words; pip install espeakng-loader, or give --labelled")
    num = max(2, min(run.limit, 40))
    made = [_recording(at, run.seed, 40.0) for at in range(num)]
    yield from _near(made, run)
    yield from _far(made, run)
    yield from _nothing(run)
    yield from _borders(run, max(2, num // 2))
    yield from _ratios(made[: max(2, num // 2)], run)
    yield from _clipping(run, num)


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """The figures of a folder's recordings."""
    truths, totals = _truths(folder), np.zeros(3)
    for path, spans in truths[: run.limit]:
        _, flac = audio_track(path, settings=PreprocessSettings())
        assert isinstance(flac, bytes)  # there is no folder
        counts = _counts(silero(io.BytesIO(flac)), spans, _end_s(flac), pause_s=_TURN_PAUSE_S)
        totals += counts
        yield AvRow(_PART, path.name, "F1", _f1(counts), "", 1)
        run.advance(1)
    yield AvRow(_PART, "all recordings", "F1", _f1(totals), ">= 0.9", len(truths[: run.limit]))


def _recording(number: int, seed: int, length_s: float) -> _Recording:
    """Sentences of one voice with pauses of 0.25 to 0.9 s, now and then of 1 to 4."""
    rng = np.random.default_rng([seed, number])
    lines = [voices.utterance(spoken(_FIRST + 40 * seed + 8 * number + at, seed)[:2], number) for at in range(8)]
    samples, spans = np.zeros(round(length_s * _RATE_HZ), np.float32), []
    at_s = float(rng.uniform(0.3, 1.5))
    for part in (part for parts in voices.speak_parts(lines, seed) for part in parts):
        start, end_s = round(at_s * _RATE_HZ), at_s + len(part) / _RATE_HZ
        if end_s > length_s - 0.3:
            break
        samples[start : start + len(part)] = part * (0.3 / max(1e-6, float(np.abs(part).max())))
        spans += _voiced(part, at_s)
        at_s = end_s + float(rng.uniform(1.0, 4.0) if rng.random() < 0.2 else rng.uniform(0.25, 0.9))
    return _Recording(samples, spans)


def _voiced(part: np.ndarray, at_s: float) -> Spans:
    """Where the sentence sounds, without its pauses of `_WORD_PAUSE_S` and more."""
    size = round(_HOP_S * _RATE_HZ)
    power = (part[: len(part) // size * size].reshape(-1, size) ** 2).mean(axis=1)
    loud = np.flatnonzero(power > float(np.percentile(power, 95)) * 1e-4)
    breaks = np.flatnonzero(np.diff(loud) > _WORD_PAUSE_S / _HOP_S)
    firsts, lasts = loud[np.concatenate([[0], breaks + 1])], loud[np.concatenate([breaks, [len(loud) - 1]])]
    return [(at_s + first * _HOP_S, at_s + (last + 1) * _HOP_S) for first, last in zip(firsts, lasts, strict=True)]


def _near(made: Sequence[_Recording], run: Run) -> Iterator[AvRow]:
    yield _detected(
        "near, quiet", made, run, lambda one, rng: one.samples + rng.normal(0, 1e-4, len(one.samples)), 0.97
    )
    for name, noise in _NOISES.items():
        for ratio_db in (5, 0):
            case = f"near, {name} at {ratio_db} dB"

            def noisy(one: _Recording, rng: np.random.Generator, n: Noise = noise, r: int = ratio_db) -> np.ndarray:
                return _mixed(one, n, r, rng)

            yield _detected(case, made, run, noisy, None)


def _far(made: Sequence[_Recording], run: Run) -> Iterator[AvRow]:
    for decay_s, direct_db in ((0.5, -3), (0.8, -6), (1.1, -8)):

        def far(one: _Recording, rng: np.random.Generator, d: float = decay_s, b: float = direct_db) -> np.ndarray:
            return _mixed(replace(one, samples=_in_room(one.samples, rng, d, b)), _pink, 25, rng)

        yield _detected(f"far, {decay_s} s to -60 dB", made, run, far, 0.9)


def _detected(
    case: str,
    made: Sequence[_Recording],
    run: Run,
    change: Callable[[_Recording, np.random.Generator], np.ndarray],
    floor: float | None,
) -> AvRow:
    totals = np.zeros(3)
    for at, one in enumerate(made):
        samples = change(one, np.random.default_rng([run.seed, at, 7]))
        totals += _counts(silero(_flac(samples)), one.spans, len(samples) / _RATE_HZ, pause_s=_WORD_PAUSE_S)
        run.advance(1)
    return AvRow(_PART, case, "F1", _f1(totals), "" if floor is None else f">= {floor}", len(made))


def _nothing(run: Run) -> Iterator[AvRow]:
    for name, noise in (*_NOISES.items(), ("silence", lambda count, rng: rng.normal(0, 1e-5, count))):
        sound = noise(60 * _RATE_HZ, np.random.default_rng([run.seed, 9]))
        sound = sound * min(1.0, 0.3 / float(np.abs(sound).max()))
        spoken_s = sum(end_s - start_s for start_s, end_s in silero(_flac(sound)))
        yield AvRow(_PART, f"nobody speaks, {name}", "false share", spoken_s / 60, "<= 0.02", 1)
        run.advance(1)


def _borders(run: Run, num: int) -> Iterator[AvRow]:
    """Recordings of three minutes, cut as they are in a lake where no transcript is known."""
    inside = {"quiet": 0, "pink at 5 dB": 0}
    num_borders = dict.fromkeys(inside, 0)
    for at in range(num):
        parts = [_recording(100 + 10 * at + step, run.seed, 45.0) for step in range(4)]
        samples = np.concatenate([part.samples for part in parts])
        truth = [(a + 45 * step, b + 45 * step) for step, part in enumerate(parts) for a, b in part.spans]
        for name in inside:
            rng = np.random.default_rng([run.seed, at, 11])
            quiet = samples + rng.normal(0, 1e-4, len(samples))
            sound = quiet if name == "quiet" else _mixed(_Recording(samples, truth), _pink, 5, rng)
            borders_s = _cut(sound, run.scratch / "sound.flac")
            num_borders[name] += len(borders_s)
            inside[name] += sum(any(start < border < end for start, end in truth) for border in borders_s)
        run.advance(1)
    for name, count in inside.items():
        share = count / num_borders[name] if num_borders[name] else None
        yield AvRow(_PART, f"borders of units, {name}", "in speech", share, "<= 0.01", num_borders[name])


def _cut(sound: np.ndarray, path: Path) -> list[float]:
    path.write_bytes(_flac(sound).getbuffer())
    duration_us = round(len(sound) / _RATE_HZ * 1e6)
    found = [{"start_s": start_s, "end_s": end_s} for start_s, end_s in silero(path)]
    item = LongItem(
        duration_us=duration_us, sound=path, spoken=Spoken(speech=of_speech(found, duration_us=duration_us))
    )
    return [piece.end / 1e6 for piece in split_recording(item, settings=UnitSettings())[:-1]]


def _ratios(made: Sequence[_Recording], run: Run) -> Iterator[AvRow]:
    for name, noise in (*_NOISES.items(), ("babble of 3", _babble(made, 3)), ("babble of 8", _babble(made, 8))):
        errors = []
        for at, one in enumerate(made):
            for ratio_db in _RATIOS_DB:
                sound = _mixed(one, noise, ratio_db, np.random.default_rng([run.seed, at, 13]))
                speech = [{"start_s": start_s, "end_s": end_s} for start_s, end_s in silero(_flac(sound))]
                found = snr_db(sound.astype(np.float32), speech)
                errors += [] if found is None else [found - ratio_db]
            run.advance(1)
        floor = "" if name.startswith("babble") else "<= 6"
        note = f"median {np.median(errors):+.1f}"
        error = float(np.percentile(np.abs(errors), 90))
        yield AvRow(_PART, f"ratio to noise, {name}", "90 % of errors below, dB", error, floor, len(errors), note)


def _clipping(run: Run, num: int) -> Iterator[AvRow]:
    words = [word for one in range(num) for word in spoken(_FIRST + one, run.seed)[0].split()[:8] if len(word) > 3]
    lines = [voices.utterance((word,), at) for at, word in enumerate(words)]
    parts = [part for parts in voices.speak_parts(lines, run.seed) for part in parts]
    for name, gain, floor in (("clean words", 0.9, "<= 0.001"), ("words with twice the gain", 2.0, "")):
        flagged = sum(_clipped(np.clip(gain * part / np.abs(part).max(), -1, 1)) >= 0.001 for part in parts)
        yield AvRow(_PART, f"clipping, {name}", "flagged", flagged / len(parts), floor, len(parts))


def _clipped(samples: np.ndarray) -> float:
    whole = np.round(samples * 32767) / 32768
    return levels([whole[:, None].astype(np.float32)])["clipped_fraction"] or 0.0


def _mixed(one: _Recording, noise: Noise, ratio_db: float, rng: np.random.Generator) -> np.ndarray:
    """The recording with noise so far below what is within speech."""
    samples = one.samples
    said = np.concatenate([samples[round(a * _RATE_HZ) : round(b * _RATE_HZ)] for a, b in one.spans])
    added = noise(len(samples), rng)
    gain = np.sqrt((said**2).mean() / 10 ** (ratio_db / 10) / (added**2).mean())
    mixed: np.ndarray = samples + gain * added
    return mixed * min(1.0, 0.9 / float(np.abs(mixed).max()))


def _in_room(samples: np.ndarray, rng: np.random.Generator, decay_s: float, direct_db: float) -> np.ndarray:
    """The recording from far away, direct sound so far above the rest."""
    time = np.arange(round(1.2 * decay_s * _RATE_HZ)) / _RATE_HZ
    tail = rng.normal(0, 1, len(time)) * 10 ** (-3 * time / decay_s)
    tail *= np.sqrt(10 ** (-direct_db / 10) / (tail**2).sum())
    tail[0] = 1.0
    size = len(samples) + len(tail)
    echoed = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(tail, size), size)[: len(samples)]
    scaled: np.ndarray = echoed * (0.3 / np.abs(echoed).max())
    return scaled


def _white(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 1, count)


def _pink(count: int, rng: np.random.Generator) -> np.ndarray:
    hertz = np.maximum(np.fft.rfftfreq(count, 1 / _RATE_HZ), 100.0)
    return np.fft.irfft(np.fft.rfft(rng.normal(0, 1, count)) / np.sqrt(hertz), count)


def _hum(count: int, rng: np.random.Generator) -> np.ndarray:
    """Of a fan: 120 Hz, its harmonics, and air."""
    time = np.arange(count) / _RATE_HZ
    tones = sum(np.sin(2 * np.pi * 120 * part * time + rng.uniform(0, 6)) / part for part in range(1, 9))
    return tones + 0.2 * rng.normal(0, 1, count)


def _tune(count: int, rng: np.random.Generator) -> np.ndarray:
    return melody(count / _RATE_HZ, rng)[:count]


_NOISES: dict[str, Noise] = {"white": _white, "pink": _pink, "hum": _hum, "a tune": _tune}


def _babble(made: Sequence[_Recording], num_voices: int) -> Noise:
    def babble(count: int, rng: np.random.Generator) -> np.ndarray:
        crowd = np.zeros(count)
        for at in range(num_voices):
            one = made[at % len(made)]
            said = np.concatenate([one.samples[round(a * _RATE_HZ) : round(b * _RATE_HZ)] for a, b in one.spans])
            crowd += np.roll(np.resize(said, count), int(rng.integers(count))) / said.std()
        return crowd

    return babble


def _counts(found: Spans, truth: Spans, end_s: float, *, pause_s: float) -> np.ndarray:
    """(both, truth, found) hops of speech, where shorter pauses belong to it."""
    left, right = _mask(truth, end_s, pause_s), _mask(found, end_s, pause_s)
    return np.array([(left & right).sum(), left.sum(), right.sum()], np.float64)


def _mask(spans: Iterable[tuple[float, float]], end_s: float, pause_s: float) -> np.ndarray:
    is_speech, before_s = np.zeros(round(end_s / _HOP_S), bool), -np.inf
    for start_s, stop_s in sorted(spans):
        first_s = before_s if start_s - before_s < pause_s else start_s
        is_speech[max(0, round(first_s / _HOP_S)) : max(0, round(stop_s / _HOP_S))] = True
        before_s = max(before_s, stop_s)
    return is_speech


def _f1(counts: np.ndarray) -> float | None:
    both, truth, found = counts
    return float(2 * both / (truth + found)) if truth + found else None


def _flac(samples: np.ndarray) -> io.BytesIO:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, np.clip(samples, -1, 1), _RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink


def _end_s(flac: bytes) -> float:
    import soundfile

    return float(soundfile.info(io.BytesIO(flac)).duration)


def _truths(folder: Path) -> list[tuple[Path, Spans]]:
    """(recording, where somebody speaks), by name. Raises SettingsError where no recording has labels."""
    turns: dict[str, Spans] = {}
    for path in sorted(folder.rglob("*.rttm")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("SPEAKER"):
                _, name, _, start_s, length_s, *_ = line.split()
                turns.setdefault(name, []).append((float(start_s), float(start_s) + float(length_s)))
    found = []
    for path in sorted(one for one in folder.rglob("*") if one.suffix in (".wav", ".flac", ".mp3", ".opus", ".ogg")):
        sidecar = path.with_suffix(".json")
        if sidecar.is_file():
            spans = [(float(start_s), float(end_s)) for start_s, end_s in json.loads(sidecar.read_text())["speech"]]
        elif path.stem in turns or path.stem.rpartition("_")[2] in turns:
            spans = turns.get(path.stem) or turns[path.stem.rpartition("_")[2]]
        else:
            continue
        found.append((path, spans))
    if not found:
        raise SettingsError(f"{folder}: no recording has labels; see the truth of the part vad for their form")
    return found


PART = Part(
    name=_PART,
    what="where somebody speaks, near, far and in noise; borders of units; ratio to noise; clipping",
    generated=generated,
    labelled=labelled,
    truth='NAME.wav (.flac, .mp3, .opus) with NAME.json, {"speech": [[start_s, end_s], ...]}, next to it, or .rttm '
    "files in the folder whose lines name NAME, or what follows its last _; pauses below 0.5 s belong to turns",
)
