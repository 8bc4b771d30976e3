"""Part `shots` of `mmlake bench av`: how well each detector finds cuts, fades and dissolves, and how often it finds
some where a hand shakes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.bench.av.shot_films import KINDS, SHAKEN, Style, Transition, film
from mmlake.errors import MissingExtra, SettingsError

TRUTH = (
    "film.mp4 (any extension) next to film.shots.json: "
    '[{"kind": "cut" | "fade" | "dissolve", "time_s": 12.34}, ...], the time of the first frame of the new shot, '
    "and of the middle of what is gradual"
)
_SUFFIX = ".shots.json"
_TOLERANCE_S = {
    "cut": 0.06,
    "fade": 0.25,
    "dissolve": 0.25,
}  # a cut within a frame of 25 per second, as scorers have it
_FLOORS = {"cut": ">= 0.99", "fade": ">= 0.9", "dissolve": ">= 0.9"}
_SLOW = {"transnetv2": 1}  # films at most of each style, of detectors that take a second for 20 frames


def generated(run: Run) -> Iterator[AvRow]:
    """Figures of films made with the seed: edited ones, and single shots from a shaking hand."""
    edited: list[tuple[Path, list[Transition]]] = []
    shaken: list[tuple[Path, list[Transition]]] = []
    for number in range(run.limit):
        for name, style, films in (("edited", Style(), edited), ("shaken", SHAKEN, shaken)):
            path = run.scratch / f"{name}-{number}.mp4"
            rng = np.random.default_rng([run.seed, number, name == "shaken"])
            films.append((path, film(path, style, rng)))
            run.advance(1)
    yield from _figures(edited, "edited", run)
    yield from _figures(shaken, "shaken", run)


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """Figures of a user's films. Raises SettingsError where none has its truth next to it, or the truth is broken."""
    films = []
    for truth in sorted(folder.rglob(f"*{_SUFFIX}"))[: run.limit]:
        name = truth.name.removesuffix(_SUFFIX)
        media = sorted(path for path in truth.parent.glob(f"{name}.*") if path != truth)
        if not media:
            raise SettingsError(f"{truth} has no film {name}.* next to it; put one there")
        films.append((media[0], _read(truth)))
    if not films:
        raise SettingsError(f"{folder} has no *{_SUFFIX}; expected {TRUTH}")
    yield from _figures(films, "labelled", run)


def _read(path: Path) -> list[Transition]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = [Transition(str(row["kind"]), float(row["time_s"])) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"{path} is not {TRUTH}; correct it") from error
    if strange := sorted({one.kind for one in found} - set(KINDS)):
        raise SettingsError(f"{path} has the kind {strange[0]!r}, which is none of {', '.join(KINDS)}; correct it")
    return found


def _figures(films: list[tuple[Path, list[Transition]]], case: str, run: Run) -> Iterator[AvRow]:
    """The rows of every detector that is installed."""
    from mmlake.preprocess.visual.shot_detectors import SHOT_DETECTORS

    for name in SHOT_DETECTORS:
        taken = films[: _SLOW.get(name, len(films))]
        try:
            found = [_detected(path, name) for path, _ in taken]
        except MissingExtra as error:
            yield AvRow("shots", f"{name}: {case}", "F1", None, "", 0, str(error))
            continue
        run.advance(len(taken))
        is_own = name == "twin"
        truths = [truth for _, truth in taken]
        for kind in (*KINDS, "any"):
            yield from _scores([one for one, _ in found], truths, f"{name}: {case}", kind, is_own=is_own)
        if case == "shaken":
            minutes = sum(length_s for _, length_s in found) / 60
            num_false = sum(len(one) for one, _ in found)
            floor = "<= 1" if is_own else ""
            yield AvRow("shots", f"{name}: {case}", "false per 10 min", 10 * num_false / minutes, floor, len(found))


def _detected(path: Path, name: str) -> tuple[list[Transition], float]:
    """(boundaries, seconds) of a film, from the track that is made of it."""
    from mmlake.preprocess.settings import PreprocessSettings
    from mmlake.preprocess.video import video_track

    columns = video_track(path, settings=PreprocessSettings(shot_detector=name)).columns
    shots: Iterable[dict[str, float | str]] = columns["shots"]  # type: ignore[assignment]
    found = [Transition(str(shot["transition"]), float(shot["start_s"])) for shot in shots]
    return found[1:], float(columns["duration_s"])  # type: ignore[arg-type]


def _scores(
    found: list[list[Transition]], truths: list[list[Transition]], case: str, kind: str, *, is_own: bool
) -> Iterator[AvRow]:
    """F1, precision and recall of one kind over all films; of any kind, with the wider tolerance."""
    num_hits, num_found, num_true = 0, 0, 0
    for one, truth in zip(found, truths, strict=True):
        wanted = [entry.time_s for entry in truth if kind in (entry.kind, "any")]
        given = [entry.time_s for entry in one if kind in (entry.kind, "any")]
        num_hits += matched(wanted, given, _TOLERANCE_S.get(kind, 0.25))
        num_found, num_true = num_found + len(given), num_true + len(wanted)
    if not num_true:
        return
    floor = _FLOORS.get(kind, "") if is_own else ""
    yield AvRow("shots", f"{case}, {kind}", "F1", 2 * num_hits / (num_found + num_true), floor, num_true)
    precision = num_hits / num_found if num_found else None
    yield AvRow("shots", f"{case}, {kind}", "precision", precision, "", num_found)
    yield AvRow("shots", f"{case}, {kind}", "recall", num_hits / num_true, "", num_true)


def matched(wanted: list[float], given: list[float], tolerance_s: float) -> int:
    """How many times of both lists pair up, each once, at most so far apart."""
    count, at = 0, 0
    given = sorted(given)
    for time_s in sorted(wanted):
        while at < len(given) and given[at] < time_s - tolerance_s:
            at += 1
        if at < len(given) and given[at] <= time_s + tolerance_s:
            count, at = count + 1, at + 1
    return count


PART = Part(
    name="shots",
    what="cuts, fades and dissolves, by every detector that is installed",
    generated=generated,
    labelled=labelled,
    truth=TRUTH,
)
