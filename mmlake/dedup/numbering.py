"""Keys that several units have, numbered: what an inverted index is made of, whatever the number of keys.

Enters: the keys of each unit. Leaves: those that stand there more than once, sorted, and for each unit their numbers.
Many keys are cut into ranges of values that each fit into memory, and each range is numbered by itself, so a key that
one unit alone has is dropped where it is met. All arrays lie in files where they are large. Few new units are numbered
after those of an earlier index (`renumbered`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.loops import key_kernels
from mmlake.dedup.prints import Positions, Ragged, behind_each_other, blocks_of, rows_in
from mmlake.engine import Column, Scratch, cumulated

_BLOCK = 1 << 20  # keys at once
_SAMPLES = 64  # keys for each range that is cut
_MOST_RANGES = 1 << 16  # their numbers are sorted as 16 bits
_FEW = 1 / 8  # of the units: so many may be new, and of the keys so many without two holders, in an index that goes on
_MOST_TIMES = 8  # what an array may have in memory: keys beyond it are numbered in ranges
_SLOTS_EACH = 64  # of a filter: one in so many other keys passes it
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Numbered(NamedTuple):
    """Keys that more than one unit has."""

    shared: NDArray[np.uint64]  # the keys, sorted
    ids: NDArray[np.int32]  # for each unit the places of its keys in `shared`, one unit after the other
    offsets: Positions  # where those of each unit begin
    holders: Positions  # how many units have each key


class Index(NamedTuple):
    """What of an index the next one goes on from; see `Numbered`."""

    shared: NDArray[np.uint64]
    ids: NDArray[np.int32]
    offsets: Positions


def renumbered(keys: Ragged, before: Index, at: Positions, scratch: Scratch) -> Numbered:
    """What `numbered` finds, at the cost of one pass over the keys. `shared` may have keys that one unit alone has now,
    or nobody, and a unit's numbers stand in any order.

    at: of each unit its row in the index before, with the same keys; -1: it had other keys, or was not there.
    """
    new = np.flatnonzero(at < 0)
    if len(new) > _FEW * len(keys) or keys.values.nbytes > _MOST_TIMES * scratch.most_bytes:
        return numbered(keys, scratch)
    added = keys.take(new)
    sought = np.unique(added.values)
    row, met = _held(keys, sought[rows_in(before.shared, sought) < 0])
    values, counts = np.unique(met, return_counts=True)
    more = values[counts > 1]
    places = np.searchsorted(before.shared, more)
    shared, ids = np.insert(before.shared, places, more), before.ids
    if len(more):
        ids = ids + np.cumsum(np.bincount(places, minlength=len(before.shared) + 1), dtype=np.int32)[ids]
    number = rows_in(shared, met)
    is_gained = (number >= 0) & (at[row] >= 0)
    old = _of_numbers(ids, before.offsets)
    gainers, more_of = _with_more(old, at, row[is_gained], number[is_gained])
    place = at.copy()
    place[new] = len(old) + np.arange(len(new))
    place[gainers] = len(old) + len(new) + np.arange(len(gainers))
    found = behind_each_other([old, _of_shared(added, shared), more_of]).take(place)
    holders = np.bincount(found.values, minlength=len(shared))
    if np.count_nonzero(holders < 2) > _FEW * len(shared):
        return numbered(keys, scratch)
    ids = cast("NDArray[np.int32]", found.values)
    return Numbered(shared, ids, found.offsets, holders)


def _held(keys: Ragged, sought: NDArray[np.uint64]) -> tuple[Positions, NDArray[np.uint64]]:
    """(unit, key) wherever a unit has one of the sought, sorted keys."""
    bits = max(8, int(_SLOTS_EACH * len(sought)).bit_length())
    marks = np.zeros(1 << bits, np.bool_)
    marks[(sought * _SPREAD) >> np.uint64(64 - bits)] = True
    parts = [np.empty(0, np.int64)]
    for low in range(0, len(keys.values) if len(sought) else 0, _BLOCK):
        block = keys.values[low : low + _BLOCK]
        hit = np.flatnonzero(marks[(block * _SPREAD) >> np.uint64(64 - bits)])
        parts.append(hit[rows_in(sought, block[hit]) >= 0] + low)
    at = np.concatenate(parts)
    return np.searchsorted(keys.offsets, at, "right") - 1, keys.values[at]


def _of_shared(keys: Ragged, shared: NDArray[np.uint64]) -> Ragged:
    """For each row the numbers of those of its keys that are shared."""
    number = rows_in(shared, keys.values)
    ends = np.concatenate(([0], np.cumsum(number >= 0)))[keys.offsets]
    return _of_numbers(number[number >= 0].astype(np.int32), ends.astype(np.int64))


def _with_more(ids: Ragged, at: Positions, row: Positions, number: Positions) -> tuple[Positions, Ragged]:
    """(the units that gain a number, their rows with it)."""
    gainers = np.unique(row)
    old = ids.take(at[gainers])
    owner = np.concatenate((np.repeat(np.arange(len(gainers)), old.lengths), np.searchsorted(gainers, row)))
    values = np.concatenate((cast("NDArray[np.int32]", old.values), number.astype(np.int32)))
    ends = np.cumsum(np.bincount(owner, minlength=len(gainers)))
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    return gainers, _of_numbers(values[np.argsort(owner, kind="stable")], offsets)


def _of_numbers(ids: NDArray[np.int32], offsets: Positions) -> Ragged:
    """Rows of half the size."""
    return Ragged(cast("NDArray[np.uint64]", ids), offsets)


def numbered(keys: Ragged, scratch: Scratch) -> Numbered:
    """The keys that more than one unit has."""
    num_ranges = min(int(np.ceil(keys.values.nbytes / (2 * scratch.most_bytes + 1))), _MOST_RANGES)
    bounds = _bounds(keys.values, num_ranges)
    if not len(bounds):
        shared, ids, lengths = _numbered(keys.values, keys.offsets)
        return Numbered(shared, ids, cumulated(lengths, scratch), np.bincount(ids, minlength=len(shared)))
    all_shared, holders = scratch.column(np.uint64), scratch.column(np.int64)
    total = scratch.zeros(len(keys), np.int64)
    ranges, num_shared = [], 0
    for values, counts in _cut(keys, bounds, scratch):
        shared, ids, lengths = _numbered(values.array(), np.concatenate(([0], np.cumsum(counts.array()))))
        all_shared.append(shared)
        holders.append(np.bincount(ids, minlength=len(shared)))
        total += lengths
        row, sizes = (scratch.column(np.int32, one_of=2 * len(bounds) + 2) for _ in range(2))
        row.append(ids + num_shared)
        sizes.append(lengths)
        ranges.append(Ragged32(row.array(), sizes.array()))
        num_shared += len(shared)
    offsets = cumulated(total, scratch)
    return Numbered(all_shared.array(), _side_by_side(ranges, offsets, scratch), offsets, holders.array())


class Ragged32(NamedTuple):
    """Rows of a range of keys, one after the other."""

    values: NDArray[np.int32]
    lengths: NDArray[np.int32]


def _bounds(values: NDArray[np.uint64], num_ranges: int) -> NDArray[np.uint64]:
    """Values that cut all of them into about so many ranges of about one size."""
    if num_ranges < 2:
        return np.empty(0, np.uint64)
    sample = np.sort(values[:: max(1, len(values) // (_SAMPLES * num_ranges))])
    return np.unique(sample[:: max(1, len(sample) // num_ranges)][1:num_ranges])


def _cut(keys: Ragged, bounds: NDArray[np.uint64], scratch: Scratch) -> list[tuple[Column, ...]]:
    """(the keys of a range, unit after unit; how many of them each unit has), of each range."""
    num = len(bounds) + 1
    kinds = np.uint64, np.int32
    found = [tuple(scratch.column(kind, one_of=2 * num) for kind in kinds) for _ in range(num)]
    for low, high in blocks_of(keys.offsets[1:], _BLOCK):
        offsets = keys.offsets[low : high + 1]
        values = keys.values[offsets[0] : offsets[-1]]
        of_range = np.searchsorted(bounds, values, "right").astype(np.uint16)
        values = values[np.argsort(of_range, kind="stable")]
        ends = np.cumsum(np.bincount(of_range, minlength=num))
        cells = np.repeat(np.arange(high - low), np.diff(offsets)) * num + of_range
        counts = np.bincount(cells, minlength=num * (high - low)).reshape(-1, num)
        for at, (column, lengths) in enumerate(found):
            column.append(values[ends[at - 1] if at else 0 : ends[at]])
            lengths.append(counts[:, at])
    return found


def _side_by_side(ranges: list[Ragged32], offsets: Positions, scratch: Scratch) -> NDArray[np.int32]:
    """The rows of all ranges, unit after unit, those of one unit in the order of the ranges."""
    ids = scratch.zeros(int(offsets[-1]), np.int32)
    begins = [0] * len(ranges)
    for low, high in blocks_of(offsets[1:], _BLOCK):
        at = offsets[low:high].copy()
        for number, part in enumerate(ranges):
            lengths = part.lengths[low:high].astype(np.int64)
            ends = np.cumsum(lengths)
            row = part.values[begins[number] : begins[number] + ends[-1]]
            ids[np.arange(len(row)) + np.repeat(at - ends + lengths, lengths)] = row
            at += lengths
            begins[number] += len(row)
    return ids


def _numbered(
    values: NDArray[np.uint64], offsets: Positions
) -> tuple[NDArray[np.uint64], NDArray[np.int32], Positions]:
    """(values that stand there more than once, sorted; for each row the numbers of those that it has, one row after the
    other; how many each row has)."""
    kernels = key_kernels.compiled(len(values))
    if kernels is not None:
        return key_kernels.numbered(kernels, values, offsets)
    ordered = np.sort(values)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    shared = again[np.r_[True, again[1:] != again[:-1]]] if len(again) else again
    del ordered, again
    parts = [np.empty(0, np.int32)]
    is_shared = np.zeros(len(values), np.bool_)
    for low in range(0, len(values) if len(shared) else 0, _BLOCK):
        block = values[low : low + _BLOCK]
        at = np.searchsorted(shared, block)
        at[at == len(shared)] = 0
        hit = shared[at] == block
        is_shared[low : low + _BLOCK] = hit
        parts.append(at[hit].astype(np.int32))
    sums = np.concatenate(([0], np.cumsum(is_shared, dtype=np.int64)))
    return shared, np.concatenate(parts), sums[offsets[1:]] - sums[offsets[:-1]]
