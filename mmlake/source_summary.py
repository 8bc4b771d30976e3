"""How much of each source a version can use, and why not more: what is counted, and its lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmlake.records import ADMITTED

_MOST_SOURCES = 20  # that a terminal shows; a crawl, or a folder of packages, has hundreds


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSummary:
    """How much of one source a version can use, and why not more."""

    source: str
    num_units: int  # that were judged, counted by occurrence
    num_usable: int  # ok or flagged
    usable_fraction: float  # of the units
    weighted_fraction: float  # likewise, each with the weight that it has for a loader
    causes: dict[str, int]  # gravest rule -> units that no version takes
    lowered: dict[str, int]  # gravest rule -> units with a smaller weight


@dataclass(kw_only=True, slots=True)
class OfSource:
    """What the units of one source are."""

    by_status: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    lowered: Counter[str] = field(default_factory=Counter)
    weight: float = 0.0

    def add(self, verdict: dict[str, Any]) -> None:
        self.by_status[verdict["status"]] += 1
        self.weight += verdict["weight"] or 0.0
        if verdict["rule"]:
            (self.lowered if verdict["status"] in ADMITTED else self.causes)[verdict["rule"]] += 1

    def update(self, other: OfSource) -> None:
        """Count all that the other one has."""
        self.by_status.update(other.by_status)
        self.causes.update(other.causes)
        self.lowered.update(other.lowered)
        self.weight += other.weight

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> OfSource:
        """The one with these fields, as JSON has them. Raises KeyError, TypeError where they are others."""
        counters = {name: Counter(fields[name]) for name in ("by_status", "causes", "lowered")}
        return cls(**counters, weight=fields["weight"])

    def fields(self) -> dict[str, Any]:
        """What `parse` reads, as JSON has it."""
        return {name: getattr(self, name) for name in ("by_status", "causes", "lowered", "weight")}

    def summary(self, source: str) -> SourceSummary:
        num, usable = self.by_status.total(), sum(self.by_status[status] for status in ADMITTED)
        return SourceSummary(
            source=source,
            num_units=num,
            num_usable=usable,
            usable_fraction=round(usable / num, 6),
            weighted_fraction=round(self.weight / num, 6),
            causes=dict(self.causes.most_common()),
            lowered=dict(self.lowered.most_common()),
        )


def usable_lines(sources: Sequence[tuple[str, SourceSummary]]) -> list[list[Any]]:
    """A line for each source and modality; of many those with the most units, and one for all others."""
    sizes = sorted((one.num_units for _, one in sources), reverse=True)
    least = 0 if len(sources) <= _MOST_SOURCES else sizes[_MOST_SOURCES - 1]
    shown = [(modality, one) for modality, one in sources if one.num_units >= least][:_MOST_SOURCES]
    lines = [_usable_line(modality, one) for modality, one in shown]
    others = [one for modality, one in sources if (modality, one) not in shown]
    if others:
        num = sum(one.num_units for one in others)
        fractions = (
            sum(one.num_units * fraction for one, fraction in zip(others, of, strict=True)) / num
            for of in zip(*((one.usable_fraction, one.weighted_fraction) for one in others), strict=True)
        )
        lines.append([f"{len(others)} others", "", num, *(f"{one:.1%}" for one in fractions), "all: --json", ""])
    return lines


def _usable_line(modality: str, one: SourceSummary) -> list[Any]:
    causes = [", ".join(f"{rule} {num}" for rule, num in rules.items()) for rules in (one.causes, one.lowered)]
    return [one.source, modality, one.num_units, f"{one.usable_fraction:.1%}", f"{one.weighted_fraction:.1%}", *causes]
