"""Where a long item is cut: the cheapest borders among all places, by dynamic programming. Pure: no media, no tables.

Enters: an item's length, its gaps, and places with what a border would cost there. Leaves: spans and gaps that tile it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mmlake.preprocess.settings import UnitSettings

# N places, C cells' cheapest places
SILENCE, STATIC, NO_PICTURE, TOO_SHORT = "silence", "static", "no_picture", "too_short"
INSIDE_WORD = 1000.0  # cost of a border in a word: more than any two spans that are too short
_SHORT = 50.0  # of a span below the shortest: more than any other place costs
_LONG = 10_000.0  # of one above the longest, where there is no place in between, as in a film of one frame
_LENGTH = 1.0  # of a span as far from the target as the nearer bound, growing with the square
_CELL_US = 500_000  # one place of each is enough: borders are 10 s apart


@dataclass(frozen=True, slots=True)
class Piece:
    """A span or a gap of an item, on its axis."""

    start: int
    end: int
    gap: str | None = None
    start_frame: int | None = None
    end_frame: int | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """Where a border may be, in order of time."""

    time_us_N: np.ndarray  # int64, increasing
    cost_N: np.ndarray  # float64

    def cheapest(self, start_us: int, end_us: int) -> Places:
        """The cheapest place of each half second strictly between these times."""
        first, last = np.searchsorted(self.time_us_N, [start_us + 1, end_us])
        time_us_N, cost_N = self.time_us_N[first:last], self.cost_N[first:last]
        if not len(time_us_N):
            return Places(time_us_N, cost_N)
        cell_N = (time_us_N - start_us) // _CELL_US
        order = np.lexsort((cost_N, cell_N))  # stable: of equal ones the earliest
        chosen = order[np.concatenate([[True], np.diff(cell_N[order]) > 0])]
        return Places(time_us_N[chosen], cost_N[chosen])


def split(
    duration_us: int, *, gaps: Sequence[tuple[int, int, str]], places: Places, settings: UnitSettings
) -> list[Piece]:
    """Spans and gaps from 0 to duration_us; one span where nothing but gaps would be left.

    gaps: (start, end, why) in order, not overlapping; they may touch.
    """
    pieces: list[Piece] = []
    for start, end, gap in _tiled(duration_us, gaps):
        if gap is not None:
            pieces.append(Piece(start, end, gap))
        elif end - start < settings.min_kept_s * 1e6 and gaps:
            pieces.append(Piece(start, end, TOO_SHORT))
        else:
            borders = [start, *_borders(start, end, places, settings), end]
            pieces += [Piece(left, right) for left, right in zip(borders, borders[1:], strict=False)]
    return pieces if any(piece.gap is None for piece in pieces) else [Piece(0, duration_us)]


def _tiled(duration_us: int, gaps: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str | None]]:
    """The gaps, and what lies between them."""
    at = 0
    for start, end, gap in gaps:
        if start > at:
            yield at, start, None
        if end > max(start, at):
            yield max(start, at), end, gap
            at = end
    if at < duration_us:
        yield at, duration_us, None


def _borders(start_us: int, end_us: int, places: Places, settings: UnitSettings) -> list[int]:
    """The borders inside of a stretch without gaps."""
    longest_us = round(settings.max_span_s * 1e6)
    if end_us - start_us <= longest_us:
        return []
    held = places.cheapest(start_us, end_us)
    time_us_C = np.concatenate([[start_us], held.time_us_N, [end_us]])
    cost_C = np.concatenate([[0.0], held.cost_N, [0.0]])
    total_C, before_C = np.zeros(len(time_us_C)), np.zeros(len(time_us_C), np.int64)
    firsts = np.minimum(np.searchsorted(time_us_C, time_us_C - longest_us), np.arange(len(time_us_C)) - 1).tolist()
    lengths = _LengthCosts(settings)
    for at in range(1, len(time_us_C)):
        first = firsts[at]
        sums = total_C[first:at] + lengths.of(time_us_C[at] - time_us_C[first:at])
        best = int(sums.argmin())
        total_C[at], before_C[at] = sums[best] + cost_C[at], first + best
    borders = []
    at = int(before_C[-1])
    while at > 0:
        borders.append(int(time_us_C[at]))
        at = int(before_C[at])
    return borders[::-1]


class _LengthCosts:
    """What spans cost by their lengths, looked up by the millisecond."""

    def __init__(self, settings: UnitSettings) -> None:
        low_s, high_s, target_s = settings.min_span_s, settings.max_span_s, settings.target_span_s
        length_s = np.arange(round(high_s * 1000) + 1) / 1000
        room_s = np.where(length_s < target_s, target_s - low_s, high_s - target_s)
        cost = _LENGTH * ((length_s - target_s) / np.maximum(room_s, 1.0)) ** 2
        short = length_s < low_s
        cost[short] += _SHORT * (2 - length_s[short] / low_s)
        self._cost = np.append(cost, _LONG)

    def of(self, length_us: np.ndarray) -> np.ndarray:
        """The costs of spans of these lengths."""
        cost: np.ndarray = self._cost[np.minimum(length_us // 1000, len(self._cost) - 1)]
        return cost
