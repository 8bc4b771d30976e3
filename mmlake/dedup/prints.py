"""Prints of many units in columns: what a join sees of fingerprints, without an object per unit."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.loops import text_kernels
from mmlake.dedup.splitmix import mix64
from mmlake.engine import cumulated, current

if TYPE_CHECKING:
    import pyarrow as pa

Positions = NDArray[np.int64]
_BLOCK_VALUES = 1 << 18  # of prints, whose digests are made, or which are taken, at once
_ROWS = 4_096  # put together at once
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_DIGEST_WORK = 16  # values for one unit of the work that pays for compiled code


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of uint64 of any length, in one array; 64-bit offsets, so that they hold more than 2**31 values."""

    values: NDArray[np.uint64]
    offsets: Positions  # of shape (rows + 1,): row k is values[offsets[k] : offsets[k + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, at: int) -> NDArray[np.uint64]:
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    @property
    def lengths(self) -> Positions:
        """How many values each row has."""
        return np.diff(self.offsets)

    def take(self, rows: Positions) -> Ragged:
        """These rows, in this order."""
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        offsets = cumulated(lengths, current())
        values = current().zeros(int(offsets[-1]), self.values.dtype)
        begins -= offsets[:-1]
        for low, high in blocks_of(offsets[1:], _BLOCK_VALUES):
            first, end = int(offsets[low]), int(offsets[high])
            values[first:end] = self.values[np.arange(first, end) + np.repeat(begins[low:high], lengths[low:high])]
        return Ragged(values, offsets)

    @classmethod
    def of(cls, rows: Iterable[NDArray[np.uint64]]) -> Ragged:
        """The rows, one after the other."""
        values, lengths, some = current().column(np.uint64), array("q"), [np.empty(0, np.uint64)]
        for row in rows:
            lengths.append(len(row))
            some.append(row)
            if len(some) > _ROWS:
                values.append(np.concatenate(some))
                some = some[:1]
        values.append(np.concatenate(some))
        return cls(values.array(), cumulated(np.array(lengths, np.int64), current()))

    @classmethod
    def empty(cls, num: int) -> Ragged:
        """So many rows without a value."""
        return cls(np.empty(0, np.uint64), np.zeros(num + 1, np.int64))


def rows_in(ordered: NDArray[np.uint64], values: NDArray[np.uint64]) -> Positions:
    """Where each of the values first stands among those that are sorted; -1: nowhere."""
    if not len(ordered):
        return np.full(len(values), -1, np.int64)
    at = np.searchsorted(ordered, values)
    at[at == len(ordered)] = 0
    return np.where(ordered[at] == values, at, -1)


def behind_each_other(rows: Sequence[Ragged]) -> Ragged:
    """The rows of all of them."""
    ends = np.cumsum(np.concatenate([one.lengths for one in rows]))
    return Ragged(np.concatenate([one.values for one in rows]), np.concatenate(([0], ends)).astype(np.int64))


class Rows:
    """A Ragged that grows."""

    def __init__(self, expected: int) -> None:
        """expected: about so many values; what is not used of the room takes no memory."""
        self._values = np.empty(expected, np.uint64)
        self._lengths: list[Positions] = [np.empty(0, np.int64)]
        self._size = 0

    def add(self, rows: Ragged) -> None:
        """More rows behind those that are there."""
        end = self._size + len(rows.values)
        if end > len(self._values):
            held = self._values[: self._size]
            self._values = np.empty(2 * end, np.uint64)
            self._values[: self._size] = held
        self._values[self._size : end] = rows.values
        self._lengths.append(rows.lengths)
        self._size = end

    def ragged(self) -> Ragged:
        """All rows so far."""
        offsets = np.concatenate(([0], np.cumsum(np.concatenate(self._lengths)))).astype(np.int64)
        return Ragged(self._values[: self._size], offsets)


def joined(parts: Sequence[Ragged]) -> Ragged:
    """The rows of all parts, one part after the other."""
    ends = np.cumsum([0, *(len(part.values) for part in parts)])
    offsets = [part.offsets[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
    values = current().zeros(int(ends[-1]), np.uint64)
    for part, end in zip(parts, ends[:-1].tolist(), strict=True):
        values[end : end + len(part.values)] = part.values
    return Ragged(values, np.concatenate([np.zeros(1, np.int64), *offsets]))


def blocks_of(ends: Positions, most: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of runs of rows that hold about `most` values, a row at least. ends: of each row."""
    low = 0
    while low < len(ends):
        begin = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, begin + most, "right")))
        yield low, high
        low = high


DERIVED = "derived"  # in a PrintTable, next to its methods: what `Tier.derived` makes of them
KEYS = "keys"  # the same, of `Tier.keyed`
PrintTable = Mapping[str, Ragged]  # method -> one row per unit, all in one order


def of_lists(column: pa.ChunkedArray) -> Ragged:
    """A list<uint64> column of however many chunks; no chunk is put together with another before its offsets are 64
    bits wide."""
    values, lengths = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        values.append(chunk.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]])
        lengths.append(np.diff(offsets))
    return Ragged(np.concatenate(values), np.concatenate(([0], np.cumsum(np.concatenate(lengths)))).astype(np.int64))


def digests_of(prints: PrintTable) -> NDArray[np.uint64]:
    """128 bits of shape (units, 2) that units with equal prints have in common, whatever their number; zeros where a
    unit says nothing."""
    num = len(next(iter(prints.values())))
    sums = current().zeros(2 * num, np.uint64).reshape(num, 2)
    for salt, method in enumerate(sorted(prints), 1):
        rows = prints[method]
        seeds = np.array([2 * salt, 2 * salt + 1], np.uint64)
        kernels = text_kernels.compiled(len(rows.values) // _DIGEST_WORK)
        if kernels is not None:
            places = _places(int(rows.lengths.max(initial=0)), mix64(seeds))
            kernels.digests(rows.values, rows.offsets, places, sums)
            continue
        for low, high in blocks_of(rows.offsets[1:], _BLOCK_VALUES):  # the prints of a corpus are large
            _add_digests(sums[low:high], rows, low, high, mix64(seeds))
    return sums


def _places(num: int, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What a value is mixed with at each place of its row, for both halves of a digest."""
    spread = np.arange(1, num + 1, dtype=np.uint64) * _SPREAD
    return np.stack([mix64(spread + seed) for seed in seeds], axis=1)


def _add_digests(sums: NDArray[np.uint64], rows: Ragged, low: int, high: int, seeds: NDArray[np.uint64]) -> None:
    offsets = rows.offsets[low : high + 1]
    values, offsets = rows.values[offsets[0] : offsets[-1]], offsets - offsets[0]
    lengths = np.diff(offsets)
    held = np.flatnonzero(lengths)
    if not len(held):
        return
    places = (np.arange(1, len(values) + 1) - np.repeat(offsets[:-1], lengths)).astype(np.uint64)
    places *= _SPREAD
    for side, seed in enumerate(seeds):
        sums[held, side] += np.add.reduceat(mix64(values ^ mix64(places + seed)), offsets[:-1][held])
