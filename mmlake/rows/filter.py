"""One filter: a measure, the range in which a row or sample is fine, and how the measure is taken."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A row of FILTERS: the value of `measure` must lie in [low, high], both ends included."""

    name: str
    what: str  # what is kept out, for people
    # shape: the row itself; text: the text of a row; sample: all rows of a sample; picture: the bytes of an image;
    # pair: an image and its sample's texts
    kind: str
    measure: str  # as the reason shows it
    unit: str = ""  # as the reason shows it; empty for plain numbers
    low: float | None = None  # None: no lower bound
    high: float | None = None  # None: no upper bound
    modalities: tuple[str, ...] = ()  # the rows that are measured; empty: all
    take: Callable[..., Any] | None = None  # the measure itself; its arguments go with the kind
    needs: tuple[str, ...] = ()  # libraries that the measure imports

    def holds(self, value: float | None) -> bool:
        """Whether the value lies in the range; a measure that makes no sense on a row (None) breaks no filter."""
        return value is None or ((self.low is None or value >= self.low) and (self.high is None or value <= self.high))

    def reason(self, value: float) -> str:
        """The finding in words: measure, value, unit, range."""
        unit = f" {self.unit}" if self.unit else ""
        left = "(-inf" if self.low is None else f"[{self.low:g}"
        right = "inf)" if self.high is None else f"{self.high:g}]"
        return f"{self.measure}={value:.6g}{unit} not in {left}, {right}"

    def bounded(self, low: float | None, high: float | None) -> Filter:
        """The filter with another range. Raises SettingsError for one that nothing fulfils."""
        if any(bound is not None and math.isnan(bound) for bound in (low, high)) or (
            low is not None and high is not None and low > high
        ):
            raise SettingsError(
                f"filter {self.name}={low}:{high} is no range low:high with low at most high; correct it"
            )
        return dataclasses.replace(self, low=low, high=high)


def parse_filter(text: str, filters: dict[str, Filter]) -> Filter:
    """The filter that `name`, `name=low:high`, `name=low:` or `name=:high` means. Raises SettingsError."""
    name, equals, bounds = text.partition("=")
    if name not in filters:
        raise SettingsError(f"filter {name!r} does not exist; choose among {sorted(filters)}")
    if not equals:
        return filters[name]
    low, colon, high = bounds.partition(":")
    try:
        if not colon or filters[name].kind == "shape":
            raise ValueError
        return filters[name].bounded(float(low) if low.strip() else None, float(high) if high.strip() else None)
    except ValueError as error:
        form = (
            "takes no range; write its name alone"
            if filters[name].kind == "shape"
            else f"is not {name}=low:high, {name}=low: or {name}=:high with numbers"
        )
        raise SettingsError(f"filter {text!r} {form}") from error
