"""Review sets: units next to a rule's bound, for a person who says which of them have the fault.

Leaves: a page with players, a CSV with an empty column, and, from the CSV that comes back, how often the rule is right
on either side of its bound. The page mixes the sides and shows no value, so that nobody judges by them.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.dedup.recall.estimates import wilson
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.quality import Rule
from mmlake.report import Example, ReportData, ReportSettings, write_report
from mmlake.store import write_atomically
from mmlake.version_report.examples import EXAMPLE_COLUMNS, Examples

PAGE, VERDICTS = "review.html", "verdicts.csv"
YES, NO = "yes", "no"  # the unit has the fault, or not
_COLUMNS = ("number", "verdict", "digest", "modality", "rule", "measure", "value", "low", "high")
_POOL = 4  # times as many as are drawn, from which they are drawn
_IMAGE_SIDE_PX = 720  # blur is not to be seen in thumbnails
_SETTINGS = ReportSettings(max_bytes=60_000_000, max_audio_bytes=800_000, max_text_chars=4_000)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One unit of a review set."""

    digest: str
    modality: str
    rule: Rule
    value: float
    low: float | None  # the rule's range when the set was drawn
    high: float | None

    @property
    def is_broken(self) -> bool:
        """Whether the unit breaks the rule."""
        return not self.rule.holds(self.value, self.low, self.high)

    @property
    def distance(self) -> float:
        """From the nearest bound, in the measure's unit."""
        return min(abs(self.value - bound) for bound in (self.low, self.high) if bound is not None)


@dataclass(frozen=True, slots=True)
class Share:
    """What people say of the units on one side of the bound."""

    name: str  # precision, of those that break the rule; miss_rate, of those that do not
    num_units: int
    num_judged: int
    num_faulty: int  # of these, those with the fault
    share: float | None  # faulty ones of those judged; None where none was
    low: float  # of the 95 % interval (Wilson 1927)
    high: float


def rules_of(lake: Lake, name: str, *, modality: str | None = None) -> dict[str, Rule]:
    """Modality -> its rule of that name. Raises SettingsError where there is none."""
    rows = lake.parts.modalities if modality is None else {modality: lake.parts.modality(modality)}
    found = {key: rule for key, row in rows.items() for rule in row.rules if rule.name == name}
    if not found:
        known = sorted({rule.name for row in rows.values() for rule in row.rules})
        raise SettingsError(f"no rule of {modality or 'any modality'} is called {name!r}; expected {', '.join(known)}")
    return found


def draw(lake: Lake, rules: dict[str, Rule], *, count: int, seed: int) -> list[Drawn]:
    """At most `count` units that break the rule and as many that keep it, mixed: a draw among those nearest to its
    bounds. Raises SettingsError where no unit has the rule's measure, or the rule has no bound."""
    near: tuple[list[Drawn], list[Drawn]] = ([], [])
    for modality, rule in rules.items():
        for unit in _measured(lake, modality, rule):
            near[unit.is_broken].append(unit)
    if not any(near):
        one = next(iter(rules.values()))
        raise SettingsError(
            f"no unit of {lake.root} has the measure {one.measure!r} of rule {one.name!r} within bounds"
        )
    rng = np.random.default_rng([seed, zlib.crc32(next(iter(rules.values())).name.encode())])
    drawn: list[Drawn] = []
    for side in near:
        nearest = sorted(side, key=lambda unit: (unit.distance, unit.digest))[: _POOL * count]
        drawn += [nearest[at] for at in rng.permutation(len(nearest))[:count]]
    return [drawn[at] for at in rng.permutation(len(drawn))]


def _measured(lake: Lake, modality: str, rule: Rule) -> list[Drawn]:
    """Every unit of the modality that the rule applies to and that has its measure, once."""
    low, high = lake.settings.quality.bounds.get(rule.name, (rule.low, rule.high))
    if low is None and high is None:
        return []
    roles = lake.catalog.read(["digest", "modality", "role"]).to_pylist()
    applies = {row["digest"] for row in roles if row["modality"] == modality and row["role"] in rule.roles}
    rows = lake.tables.concat("measures", modality, columns=["digest", "measure", "value"])
    asked = pa.array([rule.measure, *(name for name, _, _ in rule.exempt)])
    rows = rows.filter(pc.and_(pc.is_in(rows["measure"], value_set=asked), pc.is_valid(rows["value"])))
    measures: dict[str, dict[str, float]] = {}
    for digest, name, value in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        measures.setdefault(digest, {})[name] = value
    return [
        Drawn(digest, modality, rule, values[rule.measure], low, high)
        for digest, values in measures.items()
        if digest in applies and rule.measure in values and not rule.is_exempt(values)
    ]


def write_review(lake: Lake, drawn: Sequence[Drawn], folder: Path) -> tuple[Path, Path]:
    """(the page, the CSV) of the set in the folder. Raises SettingsError where its CSV already has verdicts."""
    page, table = folder / PAGE, folder / VERDICTS
    if table.exists() and any(row["verdict"] for row in _lines(table)):
        raise SettingsError(
            f"{table} has verdicts, which would be lost; read them with --verdicts or name another --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    rule = drawn[0].rule
    data = ReportData(title=f"Review of the rule {rule.name}", subtitle=rule.what, review=_examples(lake, drawn))
    write_report(data, page, settings=_SETTINGS)
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(_COLUMNS)
    for number, unit in enumerate(drawn, 1):
        bounds = ["" if bound is None else repr(float(bound)) for bound in (unit.low, unit.high)]
        measured = [unit.rule.name, unit.rule.measure, repr(unit.value), *bounds]
        writer.writerow([number, "", unit.digest, unit.modality, *measured])
    write_atomically(table, sink.getvalue().encode())
    return page, table


def _examples(lake: Lake, drawn: Sequence[Drawn]) -> list[Example]:
    """The units as a page shows them, with their numbers and nothing that says what a rule found."""
    rows = lake.catalog.rows_of({unit.digest for unit in drawn}, EXAMPLE_COLUMNS)
    by_key = {(digest, row["modality"]): row for digest, row in rows.items()}
    examples, made = Examples.of(lake, image_side_px=_IMAGE_SIDE_PX), []
    for number, unit in enumerate(drawn, 1):
        row = by_key[unit.digest, unit.modality] | {"status": "ok", "reason": None, "tier": None, "is_survivor": False}
        example = examples.example(row)
        example.title = f"{number}: {example.title}"
        made.append(example)
    return made


def shares(table: Path, rules: dict[str, Rule]) -> list[Share]:
    """Precision and miss rate next to the bound, from a CSV whose verdicts were filled in. Raises SettingsError."""
    sides: tuple[list[str], list[str]] = ([], [])
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(_lines(table), 2):
        rule, said, place = rules.get(row["modality"]), row["verdict"].strip().lower(), f"{table}, line {number}"
        if rule is None or row["rule"] != rule.name:
            raise SettingsError(f"{place}: is of rule {row['rule']!r} of {row['modality']!r}; name that rule")
        if said not in (YES, NO, ""):
            raise SettingsError(f"{place}: verdict={row['verdict']!r}; write {YES}, {NO} or nothing")
        if (row["digest"], row["modality"]) in seen:
            raise SettingsError(f"{place}: {row['digest']} stands there twice; keep one line")
        seen.add((row["digest"], row["modality"]))
        try:
            value = float(row["value"])
            low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
        except ValueError as error:
            raise SettingsError(f"{place}: value or bound is no number; draw the set again") from error
        sides[not rule.holds(value, low, high)].append(said)
    return [_share("precision", sides[True]), _share("miss_rate", sides[False])]


def _share(name: str, verdicts: Sequence[str]) -> Share:
    judged, faulty = sum(said != "" for said in verdicts), sum(said == YES for said in verdicts)
    return Share(name, len(verdicts), judged, faulty, faulty / judged if judged else None, *wilson(faulty, judged))


def _lines(table: Path) -> list[dict[str, str]]:
    """The lines of a CSV of verdicts. Raises SettingsError where it is none."""
    try:
        # a spreadsheet may put a byte order mark in front
        reader = csv.DictReader(io.StringIO(table.read_bytes().decode("utf-8-sig"), newline=""), restval="")
        rows, columns = list(reader), reader.fieldnames or ()
    except FileNotFoundError as error:
        raise SettingsError(f"{table} is not there; give the {VERDICTS} that `mmlake review` wrote") from error
    except (IsADirectoryError, UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"{table} is no CSV in UTF-8; give the {VERDICTS} that `mmlake review` wrote") from error
    if missing := [name for name in _COLUMNS if name not in columns]:
        raise SettingsError(f"{table} lacks the columns {missing}; keep those that `mmlake review` wrote")
    return rows
