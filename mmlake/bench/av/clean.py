"""Part `clean` of `mmlake bench av`: what the rules of films take from films in which nothing is wrong."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmlake.bench.av.clean_scenes import SCENES_CLEAN, small_film
from mmlake.bench.av.damage import FilmJudge
from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES

_NAME = "clean"
_FALSE = "<= 0.005"
_PHOTOGRAPHS = frozenset({".jpg", ".jpeg", ".png", ".webp"})
_MIN_SIDE_PX = 200  # of a photograph that is large enough to move over


@dataclass(slots=True)
class _Kind:
    """What the rules said of the films of one kind."""

    num: int = 0
    num_quarantined: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)


def generated(run: Run) -> Iterator[AvRow]:
    """`limit` small films of each kind, each with a size, rate, container, codec and sound of its own."""
    judged, kinds = FilmJudge(run.scratch), {kind: _Kind() for kind in SCENES_CLEAN}
    for kind, tally in kinds.items():
        for number in range(run.limit):
            seed = zlib.crc32(f"{run.seed} {kind} {number}".encode())
            _add(tally, judged, small_film(kind, seed, run.scratch))
            run.advance(1)
    yield from _rows(kinds)


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """One film of each photograph of the folder: a camera pans over it, is held above it or comes nearer."""
    judged, tally = FilmJudge(run.scratch), _Kind()
    for number, path in enumerate(sorted(one for one in folder.rglob("*") if one.suffix.lower() in _PHOTOGRAPHS)):
        if (picture := _photograph(path)) is not None:
            film = small_film(
                "photograph", zlib.crc32(f"{run.seed} {number}".encode()), run.scratch, photograph=picture
            )
            _add(tally, judged, film)
            run.advance(1)
    if not tally.num:
        raise SettingsError(f"{folder} holds no photograph of {_MIN_SIDE_PX} px and more; name a folder with some")
    yield from _rows({"photographs": tally})


def _photograph(path: Path) -> np.ndarray | None:
    """RGB pixels; None where it does not decode, or is too small to move over."""
    import cv2

    pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if pixels is None or min(pixels.shape[:2]) < _MIN_SIDE_PX:
        return None
    return np.ascontiguousarray(pixels[..., ::-1])


def _add(tally: _Kind, judged: FilmJudge, film: Path) -> None:
    status, rules = judged.verdict(film)
    film.unlink()
    tally.num += 1
    tally.num_quarantined += status in ("quarantined", "unreadable")
    tally.by_rule.update(rules)


def _rows(kinds: dict[str, _Kind]) -> Iterator[AvRow]:
    """What is wanted of all films together; then each rule that fires, and where; of the others how sure it is that
    they hardly do."""
    num = sum(tally.num for tally in kinds.values())
    num_quarantined = sum(tally.num_quarantined for tally in kinds.values())
    yield AvRow(_NAME, "clean films", "quarantined", num_quarantined / num, _FALSE, num)
    yield AvRow(_NAME, "clean films", "quarantined at most (95 %)", most(num_quarantined, num), _FALSE, num)
    severities = {rule.name: rule.severity for rule in MODALITIES["video"].rules}
    total = sum((tally.by_rule for tally in kinds.values()), Counter())
    for rule in sorted(total, key=lambda name: (severities.get(name, "P1"), name)):
        where = ", ".join(f"{kind} {tally.by_rule[rule]}" for kind, tally in kinds.items() if tally.by_rule[rule])
        severity = severities.get(rule, "unreadable")
        yield AvRow(_NAME, f"{severity} {rule}", "fires", total[rule] / num, "", num, where)
        yield AvRow(_NAME, f"{severity} {rule}", "fires at most (95 %)", most(total[rule], num), "", num)
    silent = [name for name in severities if name not in total]
    yield AvRow(_NAME, "each other rule", "fires at most (95 %)", most(0, num), "", num, ", ".join(silent))


def most(num_hits: int, num: int) -> float:
    """The upper end of the one-sided 95 % interval of a share (Clopper and Pearson 1934): 0.005 for none of 598."""
    from scipy.stats import beta

    return 1.0 if num_hits >= num else float(beta.ppf(0.95, num_hits + 1, num - num_hits))


PART = Part(
    name=_NAME,
    what="what the rules of films take from films in which nothing is wrong; --limit 21 makes 600",
    generated=generated,
    labelled=labelled,
    truth="photographs of any names: each becomes a film in which nothing is wrong",
)
