"""The parts of `mmlake bench av`. Add yours here: a module of this package with its two functions, and a row."""

from __future__ import annotations

from mmlake.bench.av import clock, shots
from mmlake.bench.av.rows import Part

_ROWS: tuple[Part, ...] = (clock.PART, shots.PART)
from mmlake.bench.av.damage import DAMAGE
from mmlake.bench.av.rows import Part

_ROWS: tuple[Part, ...] = (DAMAGE,)
PARTS: dict[str, Part] = {part.name: part for part in _ROWS}
