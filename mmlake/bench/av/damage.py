"""Part `damage` of `mmlake bench av`: which rules find which damage of moving pictures, and what they take from clean
films."""

from __future__ import annotations

import csv
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from mmlake.bench.av.clean_films import CLEAN, FILMED, clean_film
from mmlake.bench.av.damaged_films import DAMAGES, film_of
from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.preprocess import tracks, unit_tracks, units
from mmlake.quality import judge, measure
from mmlake.schemas import ITEMS
from mmlake.store import BlobStore

_NAME = "damage"
_RECALL, _FALSE = ">= 0.95", "<= 0.005"
_LOST = ("damaged", "half_frame", "spoiled_colour", "overcompressed", "media_truncated", "undecodable")
# the rules that say what was done; a film that cannot be decoded is caught by its row
FOUND_BY: dict[str, tuple[str, ...]] = {
    "black": ("black",),
    "frozen": ("frozen", "static"),
    "strobe": ("strobe", "flicker"),
    "flicker": ("flicker", "strobe"),
    "mosaic": ("mosaic", "overcompressed"),
    "lost packets": _LOST,
    "recorded loss": _LOST,
    "compression": ("overcompressed", "coarse_quantizer", "mosaic"),
    "blur": ("blurred_video",),
    "motion blur": ("smeared",),
    "shake": ("shaken", "motion_overload"),
    "motion overload": ("motion_overload", "shaken"),
    "bars": ("black_bars",),
    "pixel aspect": ("wrong_pixel_aspect",),
    "repeated frames": ("repeated_frames",),
    "dropped frames": ("dropped_frames",),
    "noise": ("noisy_video",),
    "green": ("spoiled_colour",),
    "half frame": ("half_frame",),
    "combing": ("combed",),
    "broken frames": ("damaged",),
}
# a concealed block is often a piece of the picture before; of frames between two that differ by much nobody can say;
# flakes and glints are spots of their own in every moment that a smear is the mean of
_NOT_PROMISED = ("recorded loss", "broken frames", "motion blur")
_LABELS, _CLEAN = "damages.csv", ""
_FILM_SUFFIXES = frozenset({".mp4", ".mkv", ".mov", ".webm", ".avi", ".ts", ".m4v", ".mpg"})


@dataclass(slots=True)
class _Tally:
    """What the rules said of the films of one case."""

    num: int = 0
    num_caught: int = 0
    num_quarantined: int = 0
    num_flagged: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)

    def add(self, status: str, rules: Iterable[str], wanted: Iterable[str]) -> None:
        """Count one film."""
        found = set(rules)
        self.num += 1
        self.num_caught += bool(found & set(wanted))
        self.num_quarantined += status in ("quarantined", "unreadable")
        self.num_flagged += status == "flagged"
        self.by_rule.update(found)


class FilmJudge:
    """Verdicts on films, through the steps that a lake runs."""

    def __init__(self, scratch: Path) -> None:
        self._store = BlobStore(scratch / "blobs")

    def verdict(self, path: Path) -> tuple[str, list[str]]:
        """(status, names of the broken rules)."""
        modality = MODALITIES["video"]
        with path.open("rb") as file:
            digest, size = self._store.put_stream(file, extension=path.suffix[1:])
        item = {"item_id": digest, "digest": digest, "modality": "video", "role": "media", "size_bytes": size}
        items = pa.Table.from_pylist([item | {"status": "ok"}], schema=ITEMS.arrow)  # all else is null
        decoded = tracks(items, "video", decoder=modality.decoder, store=self._store)
        whole = unit_tracks(decoded, units(decoded, splitter=None, store=self._store))
        measures = measure(whole, modality.measurements, store=self._store)
        found = judge(whole, measures, modality.rules).to_pylist()[0]
        return str(found["status"]), [finding["rule"] for finding in found["findings"]]


def generated(run: Run) -> Iterator[AvRow]:
    """Clean films of each kind, half as many as `limit`; of each damage `limit` films."""
    judged, clean = FilmJudge(run.scratch), {kind: _Tally() for kind in CLEAN}
    bases: list[Path] = []
    for at, kind in enumerate(CLEAN):
        for number in range(max(1, run.limit // 2)):
            path = run.scratch / f"{kind} {number}.mp4"
            clean_film(kind, 100_000 * run.seed + 1_000 * at + number, path)
            clean[kind].add(*judged.verdict(path), ())
            run.advance(1)
            if kind in FILMED:
                bases.append(path)
            else:
                path.unlink()
    yield from _of_clean(clean)
    yield from _of_damaged(_damaged(bases, judged, run))


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """Films of a folder: those that are labelled damaged, those that are not, and those damaged here."""
    labels = _labels(folder)
    judged = FilmJudge(run.scratch)
    clean, known = {"clean": _Tally()}, {name: _Tally() for name in sorted(set(labels.values()) - {_CLEAN})}
    bases = []
    for path, label in sorted(labels.items()):
        verdict = judged.verdict(path)
        if label == _CLEAN:
            clean["clean"].add(*verdict, ())
            bases.append(path)
        else:
            known[label].add(*verdict, FOUND_BY[label])
        run.advance(1)
    yield from _of_clean(clean)
    yield from _of_damaged(known, note="as labelled")
    if bases:
        yield from _of_damaged(_damaged(bases, judged, run), note="damaged here")


def _labels(folder: Path) -> Mapping[Path, str]:
    """The films and what is wrong with each; without a table of labels all are clean."""
    table = folder / _LABELS
    if not table.is_file():
        return {path: _CLEAN for path in folder.rglob("*") if path.suffix.lower() in _FILM_SUFFIXES}
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    labels = {folder / row["file"]: (row.get("damage") or _CLEAN).strip() for row in rows if row.get("file")}
    for path, label in labels.items():
        if label not in FOUND_BY and label != _CLEAN:
            raise SettingsError(
                f"{table}: damage {label!r} of {path.name} is none of {', '.join(FOUND_BY)}; correct it"
            )
    return labels


def _damaged(bases: list[Path], judged: FilmJudge, run: Run) -> dict[str, _Tally]:
    """Each damage done to `limit` films, taken in turn."""
    found = {name: _Tally() for name in DAMAGES}
    for at, (name, tally) in enumerate(found.items()):
        for number in range(run.limit):
            base = bases[(at + number) % len(bases)]
            out = run.scratch / "damaged.mkv"
            rng = np.random.default_rng(zlib.crc32(f"{run.seed} {name} {number}".encode()))
            try:
                DAMAGES[name](film_of(base), out, rng)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                continue  # the program refuses this film, or takes minutes for it: it is no case
            tally.add(*judged.verdict(out), FOUND_BY[name])
            out.unlink()
            run.advance(1)
    return found


def _of_clean(tallies: Mapping[str, _Tally]) -> Iterator[AvRow]:
    """What was taken from clean films, of all together and of each kind."""
    num = sum(tally.num for tally in tallies.values())
    num_quarantined = sum(tally.num_quarantined for tally in tallies.values())
    num_flagged = sum(tally.num_flagged for tally in tallies.values())
    yield AvRow(_NAME, "clean films", "quarantined", num_quarantined / num if num else None, _FALSE, num)
    yield AvRow(_NAME, "clean films", "flagged", num_flagged / num if num else None, "", num)
    for kind, tally in tallies.items():
        for rule, count in sorted(tally.by_rule.items()):
            yield AvRow(_NAME, f"clean: {kind}", f"rule {rule}", count / tally.num, "", tally.num)


def _of_damaged(tallies: Mapping[str, _Tally], *, note: str = "") -> Iterator[AvRow]:
    """How many films of each damage its rules find, and the share of each rule that breaks."""
    for name, tally in tallies.items():
        floor = "" if name in _NOT_PROMISED else _RECALL
        caught = tally.num_caught / tally.num if tally.num else None
        by = note or f"by {', '.join(FOUND_BY[name])}"
        yield AvRow(_NAME, name, "recall", caught, floor, tally.num, by)
        for rule, count in tally.by_rule.most_common():
            yield AvRow(_NAME, name, f"rule {rule}", count / tally.num, "", tally.num)


PART = Part(
    name=_NAME,
    what="damages of moving pictures: which rules find them, and what they take from clean films",
    generated=generated,
    labelled=labelled,
    truth=f"{_LABELS} with the columns file and damage (empty: clean); without it all films are clean. Clean ones are "
    "damaged here as well",
)
