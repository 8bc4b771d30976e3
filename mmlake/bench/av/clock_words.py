"""Words against sound for part `clock`: transcripts that drift, and subtitles and sound of another film."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmlake.bench.av.rows import AvRow, Run
from mmlake.preprocess import AlignSettings
from mmlake.preprocess.transcripts.align import Aligner
from mmlake.preprocess.transcripts.drift import drift_of
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.quality.measurement import Subject
from mmlake.quality.transcript import (
    FOREIGN_WORDS,
    TRANSCRIPT_MATCH,
    UNSPOKEN,
    UNSPOKEN_CUES,
    WORDS_AGREEMENT,
    WRONG_TRANSCRIPT,
    subtitle_measures,
)
from mmlake.sample import voices
from mmlake.speech.vad import silero

_HOUR_HALF_S = 1800.0
_DRIFTS: dict[str, Callable[[float], float]] = {
    "linear to 8.4 s": lambda time_s: 8.4 * time_s / _HOUR_HALF_S,
    "a step of 2 s": lambda time_s: 2.0 if time_s > _HOUR_HALF_S / 2 else 0.0,
    "1.2 s early": lambda time_s: -1.2,
}
_NUM_SENTENCES = 8
# everyday sentences of our own, whose words the dictionary has
_SUBJECTS = "The old sailor|A young teacher|My neighbor|The pilot|Nobody here|Every doctor|Her brother|The children"
_DEEDS = (
    "painted a map of the harbor|left the green bicycle in the rain|opened the kitchen window|sold honey and candles|"
    "asked for clear weather|carried heavy boxes upstairs|built a boat of paper|watched the snow melt slowly|"
    "found a silver button|followed the river to the bridge|read the letter twice|repaired the broken engine"
)
Spans = list[tuple[float, float]]


def drifts(run: Run, part: str) -> Iterator[AvRow]:
    """Half an hour of phrases whose subtitles drift, and some that do not, as `limit` recordings each."""
    for case, late_s in _DRIFTS.items():
        errors_s: list[float] = []
        num_missed = 0
        for number in range(run.limit):
            rng = np.random.default_rng([run.seed, number])
            spans = _phrases(rng)
            found = drift_of(_cues(spans, late_s, rng), _detected(spans, rng), _HOUR_HALF_S)
            if found is None:
                num_missed += 1
                continue
            truth_s = [late_s(time_s - by_s) for time_s, by_s in zip(found.times_s, found.late_s, strict=True)]
            errors_s += np.abs(found.late_s - np.array(truth_s)).tolist()
        run.advance(run.limit)
        name = f"transcript drift, {case}"
        median, high = np.percentile(errors_s, (50, 95)).tolist() if errors_s else (None, None)
        yield AvRow(part, name, "median error in s", median, "<= 0.1", len(errors_s), "windows of 30 s")
        yield AvRow(part, name, "95th percentile in s", high, "<= 0.25", len(errors_s), "windows of 30 s")
        yield AvRow(part, name, "recordings missed", float(num_missed), "<= 0", run.limit)
    for case in ("in time", "of something else"):
        false = 0
        for number in range(run.limit):
            rng = np.random.default_rng([run.seed, number, 1])
            spans, others = _phrases(rng), _phrases(rng)
            cues = _cues(spans if case == "in time" else others, lambda _: 0.0, rng)
            false += drift_of(cues, _detected(spans, rng), _HOUR_HALF_S) is not None
        run.advance(run.limit)
        yield AvRow(part, f"transcripts {case}", "drifts made up", float(false), "<= 0", run.limit)


def _phrases(rng: np.random.Generator) -> Spans:
    """0.6 to 5 s each with pauses between them, over half an hour."""
    at_s, spans = 1.0, []
    while at_s < _HOUR_HALF_S - 8:
        length_s = rng.uniform(0.6, 5.0)
        spans.append((at_s, at_s + length_s))
        at_s += length_s + rng.uniform(0.2, 1.0) + (rng.random() < 0.15) * rng.uniform(1, 5)
    return spans


def _cues(spans: Spans, late_s: Callable[[float], float], rng: np.random.Generator) -> list[Cue]:
    """Subtitles of nearly all of them, so much later, their ends roughly right."""
    kept = [span for span in spans if rng.random() < 0.95]
    starts = [start_s + rng.uniform(-0.15, 0.1) for start_s, _ in kept]
    return [
        Cue("words", max(0.0, begin_s + late_s(start_s)), end_s + rng.uniform(-0.1, 0.2) + late_s(start_s))
        for (start_s, end_s), begin_s in zip(kept, starts, strict=True)
    ]


def _detected(spans: Spans, rng: np.random.Generator) -> Spans:
    """What a detector finds of them: edges jitter, some short ones are missed."""
    return [
        (start_s + rng.uniform(-0.05, 0.05), end_s + rng.uniform(-0.05, 0.1))
        for start_s, end_s in spans
        if end_s - start_s > 1 or rng.random() < 0.8
    ]


@dataclass(frozen=True, slots=True)
class _Said:
    """Half a minute and more of speech with its subtitles."""

    samples: NDArray[np.float32]
    cues: tuple[Cue, ...]


def mismatches(run: Run, part: str) -> Iterator[AvRow]:
    """Films whose subtitles are their own, and those of the film behind them: foreign subtitles over their sound, which
    is as well a swapped sound under their subtitles. Silero and the aligner measure, the rules judge."""
    if voices.engine() != "espeak-ng":
        yield AvRow(part, "foreign subtitles", "caught", None, "", 0, "espeakng-loader is not installed")
        return
    films = [_said(number, np.random.default_rng([run.seed, number, 2])) for number in range(run.limit)]
    aligner = Aligner(AlignSettings())
    found: dict[str, list[dict[str, float | None]]] = {"right": [], "foreign": [], "music": []}
    for number, film in enumerate(films):
        for case, cues in (("right", film.cues), ("foreign", films[number - 1].cues)):
            found[case].append(_measured(aligner, film.samples, cues))
        tune = _tune(len(film.samples), np.random.default_rng([run.seed, number, 3]))
        found["music"].append(_measured(aligner, tune, film.cues))
        run.advance(1)
    flags = (UNSPOKEN_CUES, WRONG_TRANSCRIPT, FOREIGN_WORDS)
    for case, name in (("right", "subtitles of the film"), ("foreign", "subtitles of another film"),
                       ("music", "sound swapped for music")):  # fmt: skip
        rows = found[case]
        for rule in flags:
            values = [row[rule.measure] for row in rows]
            share = sum(value is not None and not rule.holds(value, rule.low, rule.high) for value in values)
            yield AvRow(part, name, f"{rule.severity} {rule.name}", share / len(rows), _floor(case, rule.name),
                        len(rows))  # fmt: skip
        caught = sum(any((value := row[rule.measure]) is not None and not rule.holds(value, rule.low, rule.high)
                         for rule in flags) for row in rows)  # fmt: skip
        yield AvRow(part, name, "any of them", caught / len(rows), "<= 0.05" if case == "right" else ">= 0.95",
                    len(rows))  # fmt: skip
        known = [value for row in rows if (value := row[WORDS_AGREEMENT]) is not None]
        yield AvRow(part, name, "agreement, median", float(np.median(known)) if known else None, "", len(known))
        extreme = (min(known) if case == "right" else max(known)) if known else None
        yield AvRow(part, name, f"agreement, {'least' if case == 'right' else 'most'}", extreme, "", len(known))


def _floor(case: str, rule: str) -> str:
    return "<= 0" if rule == FOREIGN_WORDS.name and case != "foreign" else ""


def _said(number: int, rng: np.random.Generator) -> _Said:
    """Sentences with pauses of 0.8 to 4 s, each a line of subtitles."""
    subjects, deeds = _SUBJECTS.split("|"), _DEEDS.split("|")
    lines = [f"{rng.choice(subjects)} {rng.choice(deeds)}" for _ in range(_NUM_SENTENCES)]
    (spoken,) = voices.speak_parts([voices.utterance(tuple(lines), number)], seed=number)
    parts, cues, at = [np.zeros(round(rng.uniform(0.5, 3) * voices.RATE_HZ), np.float32)], [], 0
    at = len(parts[0])
    for line, sound in zip(lines, spoken, strict=True):
        begun_s, ended_s = at / voices.RATE_HZ, (at + len(sound)) / voices.RATE_HZ
        cues.append(Cue(line, begun_s + rng.uniform(-0.15, 0.1), ended_s + rng.uniform(0.0, 0.5)))
        pause = np.zeros(round(rng.uniform(0.8, 4) * voices.RATE_HZ), np.float32)
        parts += [sound.astype(np.float32), pause]
        at += len(sound) + len(pause)
    return _Said(voices.in_room(np.concatenate(parts), rng).astype(np.float32), tuple(cues))


def _tune(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """A melody of plucked notes."""
    clock = np.arange(count) / voices.RATE_HZ
    at = np.floor(clock / 0.4).astype(int)
    pitch = 220 * 2 ** (rng.integers(0, 15, at.max() + 1)[at] / 12)
    wave = np.sin(2 * np.pi * pitch * clock) + 0.5 * np.sin(4 * np.pi * pitch * clock)
    tune: NDArray[np.float32] = (0.2 * wave * np.exp(-3 * (clock % 0.4))).astype(np.float32)
    return tune


def _measured(aligner: Aligner, samples: NDArray[np.float32], cues: Sequence[Cue]) -> dict[str, float | None]:
    """The measures that the rules judge."""
    import soundfile

    soundfile.write(sink := io.BytesIO(), samples, voices.RATE_HZ, format="FLAC", subtype="PCM_16")
    match = aligner.align(sink.getvalue(), list(cues)).confidence
    duration_s = len(samples) / voices.RATE_HZ
    lines = [
        {"text": cue.text, "start_s": max(0.0, cue.start_s), "end_s": min(duration_s, cue.end_s)}
        for cue in cues
        if cue.start_s is not None and cue.end_s is not None
    ]
    track = {
        "speech": [{"start_s": start_s, "end_s": end_s} for start_s, end_s in silero(sink)],
        "transcript_source": "source",
        "cues": lines,
        "duration_s": duration_s,
        TRANSCRIPT_MATCH: match,
    }
    found = subtitle_measures(Subject(track))
    return {UNSPOKEN: found[UNSPOKEN], WORDS_AGREEMENT: found[WORDS_AGREEMENT], TRANSCRIPT_MATCH: match}
