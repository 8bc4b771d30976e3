"""The parts of `mmlake bench av`. Add yours here: a module of this package with its two functions, and a row."""

from __future__ import annotations

from mmlake.bench.av import clean, clock, damage, shots, vad, voices, words
from mmlake.bench.av.rows import Part

_ROWS: tuple[Part, ...] = (shots.PART, damage.PART, clean.PART, vad.PART, voices.PART, clock.PART, words.PART)
PARTS: dict[str, Part] = {part.name: part for part in _ROWS}
