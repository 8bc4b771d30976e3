"""`mmlake bench av`: how well the tracks of films and recordings are made, against known truth."""

from __future__ import annotations

from mmlake.bench.av.parts import PARTS
from mmlake.bench.av.results import measured, written
from mmlake.bench.av.rows import AvRow, Part, Run

__all__ = ["PARTS", "AvRow", "Part", "Run", "measured", "written"]
