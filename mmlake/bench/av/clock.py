"""Part `clock` of `mmlake bench av`: sound against picture, and words against sound, as the steps of a run find it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.bench.av.clock_films import JUMP, LIGHT, NOTHING, clicks, event_film, event_times
from mmlake.bench.av.clock_words import drifts, mismatches
from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import SettingsError
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.quality.measurement import Subject
from mmlake.quality.sync import OFFSET, sync_measures
from mmlake.spans import Sound

_NAME = "clock"
_DURATION_S = 20.0
_RATES_HZ = (12.5, 24.0, 25.0, 29.97, 50.0)
_OFFSETS_S = (-0.5, -0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3, 0.5)
_LABELS = "offsets.csv"


def generated(run: Run) -> Iterator[AvRow]:
    """Offsets that were planted, and films that show none."""
    rng = np.random.default_rng(run.seed)
    for kind in (LIGHT, JUMP):
        offsets_s = rng.choice(_OFFSETS_S, run.limit)
        found = [_planted(run.scratch, kind, float(offset_s), rng) for offset_s in offsets_s]
        run.advance(run.limit)
        yield from _errors(f"offset, {kind}", found)
    false = [_unrelated(run.scratch, kind, rng) for kind in (JUMP, NOTHING) for _ in range(-(-run.limit // 2))]
    run.advance(run.limit)
    num = sum(offset_s is not None for offset_s in false)
    yield AvRow(_NAME, "sound of something else", "offsets made up", float(num), "<= 0", len(false))
    yield from drifts(run, _NAME)
    yield from mismatches(run, _NAME)


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """The films of a folder that has their offsets in a table."""
    try:
        with (folder / _LABELS).open(newline="", encoding="utf-8") as lines:
            rows = [(row["file"], float(row["offset_s"])) for row in csv.DictReader(lines)]
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise SettingsError(f"{folder / _LABELS} is no table with the columns file and offset_s; write it") from error
    found = []
    for name, offset_s in rows[: run.limit]:
        found.append(_Found(offset_s, _measured(folder / name)))
        run.advance(1)
    yield from _errors("offset, labelled", found)


@dataclass(frozen=True, slots=True)
class _Found:
    planted_s: float
    measured_s: float | None


def _errors(case: str, found: Iterable[_Found]) -> Iterator[AvRow]:
    pairs = [(one.planted_s, one.measured_s) for one in found]
    errors_ms = [1000 * abs(measured_s - planted_s) for planted_s, measured_s in pairs if measured_s is not None]
    num, decided = len(pairs), len(errors_ms)
    yield AvRow(_NAME, case, "decided fraction", decided / num if num else None, "", num)
    yield AvRow(_NAME, case, "median error in ms", float(np.median(errors_ms)) if errors_ms else None, "", decided)
    yield AvRow(_NAME, case, "largest error in ms", max(errors_ms, default=None), "<= 10", decided)


def _planted(folder: Path, kind: str, offset_s: float, rng: np.random.Generator) -> _Found:
    times_s, events_s = _frame_times(rng), event_times(_DURATION_S, rng)
    sound = clicks(events_s + offset_s, _DURATION_S, rng)
    film = event_film(folder / "film.mp4", events_s, sound, kind=kind, times_s=times_s, rng=rng)
    return _Found(offset_s, _measured(film))


def _unrelated(folder: Path, kind: str, rng: np.random.Generator) -> float | None:
    sound = clicks(event_times(_DURATION_S, rng), _DURATION_S, rng)
    times_s, events_s = _frame_times(rng), event_times(_DURATION_S, rng)
    return _measured(event_film(folder / "film.mp4", events_s, sound, kind=kind, times_s=times_s, rng=rng))


def _frame_times(rng: np.random.Generator) -> np.ndarray:
    """Of an even or an uneven clock."""
    rate_hz = float(rng.choice(_RATES_HZ))
    times_s = np.arange(int(_DURATION_S * rate_hz)) / rate_hz
    uneven = np.sort(times_s + rng.uniform(-0.3, 0.3, len(times_s)) / rate_hz)
    return times_s if rng.random() < 0.5 else uneven - uneven[0]


def _measured(film: Path) -> float | None:
    found = video_track(film, settings=PreprocessSettings())
    return sync_measures(Subject(found.columns, sound=Sound(found.flac) if isinstance(found.flac, bytes) else None))[
        OFFSET
    ]


PART = Part(
    name=_NAME,
    what="how far sound, picture and words are apart, and whether they belong together",
    generated=generated,
    labelled=labelled,
    truth=f"{_LABELS} with the columns file and offset_s: how many seconds later the sound comes",
)
