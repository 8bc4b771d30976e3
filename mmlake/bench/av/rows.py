"""What a part of `mmlake bench av` is given, and the figures that it gives."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mmlake.progress import Advance, silent

_COMPARED = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class AvRow:
    """One figure."""

    part: str  # as in PARTS
    case: str  # what was tried: a kind of cut, a damage, a level of noise
    measure: str  # F1, recall, median error in ms ...
    value: float | None  # None where nothing of the kind was met
    floor: str  # what is wanted, such as ">= 0.99"; empty where nothing is promised
    num: int  # cases behind the figure
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the figure is what is wanted; None where nothing is, or nothing was met. Raises ValueError for a
        floor of another form."""
        if not self.floor:
            return None
        sign, bound = self.floor.split()
        if sign not in _COMPARED:
            raise ValueError(f"floor={self.floor!r} of {self.part}: {self.case} begins with neither >= nor <=")
        return None if self.value is None else _COMPARED[sign](self.value, float(bound))


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How much a part shall try."""

    seed: int
    limit: int  # cases of each kind; parts whose cases are long may take fewer, and say so in `num`
    scratch: Path  # an empty folder for media that is removed afterwards
    advance: Advance = silent  # called with the number of cases done


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One row of PARTS."""

    name: str
    what: str
    generated: Callable[[Run], Iterable[AvRow]]  # on media made with the seed, whose truth is known
    labelled: Callable[[Path, Run], Iterable[AvRow]] | None  # on a user's folder; None where nobody labels such a thing
    truth: str  # how the truth stands next to the media of such a folder
