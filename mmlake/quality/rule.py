"""One rule: a measure, the range in which it is fine, and what it means to be outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmlake.records import ROLES, signed

NUM_FAILURES = "num_failures"  # the measure that every item has: 0, or 1 where its measures cannot be taken
UNMEASURED = 4001


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A row of a rule table: the value of `measure` must lie in [low, high)."""

    name: str  # also the error's name in the catalogue
    error_code: int  # 4xxx
    severity: str  # P0, P1 or P2
    measure: str  # a name that the modality's measures give
    unit: str = ""  # as the reason shows it; empty for plain numbers
    low: float | None = None  # None: no lower bound
    high: float | None = None  # None: no upper bound
    places: tuple[str, ...] = ()  # measures that say where in the item the fault begins, as the reason shows it
    roles: tuple[str, ...] = ROLES  # the roles that it applies to
    # (measure, low, high) of others: where all of these lie in their ranges, the measure says nothing of a fault
    exempt: tuple[tuple[str, float | None, float | None], ...] = ()
    what: str  # what happened, seen from the row
    fix: str  # what to do about it
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in rule

    @property
    def has_bound(self) -> bool:
        """Whether there is one to judge by units next to it."""
        return self.low is not None or self.high is not None

    def holds(self, value: float, low: float | None, high: float | None) -> bool:
        """Whether the value lies in [low, high)."""
        return (low is None or value >= low) and (high is None or value < high)

    def is_exempt(self, values: Mapping[str, float | None]) -> bool:
        """Whether an item with these measures is one that the rule does not judge; a null measure exempts nothing."""
        found = [((value := values.get(name)) is not None and self.holds(value, low, high))
                 for name, low, high in self.exempt]  # fmt: skip
        return bool(found) and all(found)

    def reason(self, value: float, low: float | None, high: float | None) -> str:
        """The finding in words: measure, value, unit, range, and the plugin that the rule is from."""
        unit = f" {self.unit}" if self.unit else ""
        left = "(-inf" if low is None else f"[{low:g}"
        right = "inf)" if high is None else f"{high:g})"
        return signed(f"{self.measure}={value:.6g}{unit} not in {left}, {right}", self.plugin)


def unmeasured(modality: str) -> Rule:
    """The rule that keeps an item out of versions when its measures could not be taken: never a number in place of a
    failure."""
    return Rule(
        name="unmeasured",
        error_code=UNMEASURED,
        severity="P1",
        measure=NUM_FAILURES,
        high=1,
        what=f"The measures of this {modality} item could not be taken although it decoded.",
        fix="Try again with `mmlake retry`; search the log of the measures step for the item's digest, and report it "
        "with the item.",
    )
