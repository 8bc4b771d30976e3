"""The loops over keys and shingles of a whole corpus, compiled by numba once per machine; None where that does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.loops import text_kernels
from mmlake.dedup.loops.machine_code import Loop, loops

_PARTS = 64  # of a table of counts, a quarter of a megabyte each at 100,000 texts
_MOST_TOGETHER = 1 << 16  # slots of one part that are counted together
_WORK = 16  # values for one unit of the work that pays for compiled code


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    repeated: Callable[..., int]
    numbers: Callable[..., int]
    counted: Callable[..., int]
    low: Callable[..., int]
    tied: Callable[..., int]
    hits: Callable[..., int]
    marked: Callable[..., int]
    near: Callable[..., int]
    leading: Callable[..., int]
    listed: Callable[..., int]


def compiled(num_values: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return kernels() if text_kernels.is_worthwhile(num_values // _WORK) else None


def numbered(
    kernels: Kernels, values: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], np.ndarray, NDArray[np.int64]]:
    """(values that stand in the rows more than once, sorted; their numbers in row after row; how many each row has)."""
    bits = max(8, int(4 * len(values)).bit_length())
    is_repeated = np.zeros(len(values), np.bool_)
    kernels.repeated(values, np.zeros(1 << bits, np.uint8), np.uint64(64 - bits), is_repeated)
    candidates = np.sort(values[is_repeated])  # some of them alone: the filter errs to that side
    again = candidates[1:][candidates[1:] == candidates[:-1]]
    shared = again[np.r_[True, again[1:] != again[:-1]]] if len(again) else again
    bits = max(8, int(2 * len(shared)).bit_length())
    ids, lengths = np.empty(len(candidates), np.int32), np.zeros(len(offsets) - 1, np.int64)
    slots = np.zeros(1 << bits, np.int32)
    num = kernels.numbers(values, offsets, is_repeated, shared, slots, np.uint64(64 - bits), ids, lengths)
    return shared, ids[:num].copy(), lengths


def counted(
    kernels: Kernels, values: NDArray[np.uint64], offsets: NDArray[np.int64], below: int, table: NDArray[np.uint8]
) -> None:
    """Count the values of sorted rows up to a bound in a table, which has a power of two of slots."""
    room = np.empty((_PARTS, min(_MOST_TOGETHER, 16 + len(values) // _PARTS)), np.uint32)
    shift = np.uint64(65 - len(table).bit_length())
    kernels.counted(values, offsets, np.uint64(below), shift, table, room, np.zeros(_PARTS, np.int64))


def tied(numbers: NDArray[np.int32], offsets: NDArray[np.int64], num_keys: int) -> NDArray[np.int64]:
    """For each unit the first one of those that it is tied to by keys, directly or through others.

    numbers: of the keys of all units, one unit's after the other; offsets: where each unit's begin.
    """
    found = compiled(len(numbers))
    first_of, holder = np.arange(len(offsets) - 1), np.full(num_keys, -1, np.int64)
    (_tied if found is None else found.tied)(numbers, offsets, holder, first_of)
    return first_of


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels, or None without numba."""
    found = loops(
        "keys",
        {
            "repeated": Loop(_repeated, ("u8*", "u1*", "u8", "b1*")),
            "numbers": Loop(_numbers, ("u8*", "i8*", "b1*", "u8*", "i4*", "u8", "i4*", "i8*")),
            "counted": Loop(_counted, ("u8*", "i8*", "u8", "u8", "u1*", "u4**", "i8*"), (_emptied,)),
            "low": Loop(_low, ("u8*", "i8*", "u8", "i8*")),
            "hits": Loop(_hits, ("u8*", "i8*", "u8", "i8", "u8*", "u1*", "u8", "b1*")),
            "marked": Loop(_marked, ("u8*", "i8*", "i8*", "u8", "u8", "u1*", "b1*", "b1*")),
            "near": Loop(_near, ("u8*", "u8", "u8", "u1*", "u8*", "u4*", "u4*", "u8*", *["i8"] * 3, *["i8*"] * 5)),
            "tied": Loop(_tied, ("i4*", "i8*", "i8*", "i8*")),
            "listed": Loop(_listed, ("i4*", "i8*", "i8*", "i8*", "i4*", "i8*")),
            "leading": Loop(_leading, ("i4*", *["i8*"] * 6, "b1*", "i8", "i4*", "i8*", "i8**", "i8**"), (_met,)),
        },
        [__file__],
    )
    return None if found is None else Kernels(**found)


def _repeated(values: Any, counts: Any, shift: Any, out: Any) -> None:  # pragma: no cover: compiled
    """Marks the values that may stand there more than once. counts: zeros."""
    spread = np.uint64(0x9E3779B97F4A7C15)
    for at in range(values.shape[0]):
        slot = (values[at] * spread) >> shift
        counts[slot] = min(counts[slot] + 1, 2)
    for at in range(values.shape[0]):
        out[at] = counts[(values[at] * spread) >> shift] > 1


def _numbers(
    values: Any, offsets: Any, is_candidate: Any, shared: Any, slots: Any, shift: Any, ids: Any, lengths: Any
) -> int:  # pragma: no cover: compiled
    """Fills the places in `shared` of what each row has of it, and how many these are; returns their number. slots:
    zeros, at least twice as many as there are shared values."""
    spread, one = np.uint64(0x9E3779B97F4A7C15), np.uint64(1)
    mask = np.uint64(slots.shape[0] - 1)
    for at in range(shared.shape[0]):
        slot = (shared[at] * spread) >> shift
        while slots[slot] != 0:
            slot = (slot + one) & mask
        slots[slot] = at + 1
    num = 0
    for row in range(lengths.shape[0]):
        begin = num
        for at in range(offsets[row], offsets[row + 1]):
            if not is_candidate[at]:
                continue
            slot = (values[at] * spread) >> shift
            while slots[slot] != 0 and shared[slots[slot] - 1] != values[at]:
                slot = (slot + one) & mask
            if slots[slot] != 0:
                ids[num] = slots[slot] - 1
                num += 1
        lengths[row] = num - begin
    return num


def _counted(
    values: Any, offsets: Any, below: Any, shift: Any, table: Any, room: Any, sizes: Any
) -> None:  # pragma: no cover: compiled
    """Counts, in a table of one byte per slot, the values of sorted rows up to a bound. room: for each of as many parts
    of the table, a power of two, slots that are counted together, so that they are near each other; sizes: zeros."""
    bits = np.uint64(0)
    while room.shape[0] << bits < table.shape[0]:
        bits += np.uint64(1)
    for row in range(offsets.shape[0] - 1):
        for at in range(offsets[row], offsets[row + 1]):
            if values[at] > below:
                break
            slot = (values[at] * np.uint64(0x9E3779B97F4A7C15)) >> shift
            part = slot >> bits
            room[part, sizes[part]] = np.uint32(slot - (part << bits))
            sizes[part] += 1
            if sizes[part] == room.shape[1]:
                _emptied(part, table, bits, room, sizes)
    for part in range(room.shape[0]):
        _emptied(np.uint64(part), table, bits, room, sizes)


def _emptied(part: Any, table: Any, bits: Any, room: Any, sizes: Any) -> None:  # pragma: no cover: compiled
    """Counts the slots of one part."""
    begin = part << bits
    for at in range(sizes[part]):
        slot = begin + np.uint64(room[part, at])
        table[slot] = min(table[slot] + 1, 255)
    sizes[part] = 0


def _low(values: Any, offsets: Any, bound: Any, lengths: Any) -> None:  # pragma: no cover: compiled
    """Fills how many values of each sorted row are smaller than a bound."""
    for row in range(lengths.shape[0]):
        low, high = offsets[row], offsets[row + 1]
        while low < high:
            middle = (low + high) // 2
            if values[middle] < bound:
                low = middle + 1
            else:
                high = middle
        lengths[row] = low - offsets[row]


def _tied(numbers: Any, offsets: Any, holder: Any, first_of: Any) -> None:
    """Fills the first unit of each one's part. holder: -1 for each key; first_of: each unit itself."""
    for row in range(len(first_of)):
        for at in range(offsets[row], offsets[row + 1]):
            key = numbers[at]
            if holder[key] < 0:
                holder[key] = row
                continue
            one, other = holder[key], row
            while first_of[one] != one:
                first_of[one] = first_of[first_of[one]]
                one = first_of[one]
            while first_of[other] != other:
                first_of[other] = first_of[first_of[other]]
                other = first_of[other]
            first_of[max(one, other)] = min(one, other)
    for row in range(len(first_of)):
        first_of[row] = first_of[first_of[row]]


def _hits(
    values: Any, offsets: Any, bound: Any, least: Any, sought: Any, marks: Any, shift: Any, out: Any
) -> None:  # pragma: no cover: compiled
    """Marks the sorted rows that hold one of the sought values, sorted, among their first `least` or below the bound.
    marks: bits of the slots of these."""
    for row in range(out.shape[0]):
        end, surely, is_hit = offsets[row + 1], offsets[row] + least, False
        for at in range(offsets[row], end):
            value = values[at]
            if at >= surely and value >= bound:
                break
            slot = (value * np.uint64(0x9E3779B97F4A7C15)) >> shift
            if (marks[slot >> np.uint64(3)] >> (np.uint64(7) - (slot & np.uint64(7)))) & np.uint64(1) == 0:
                continue
            low, high = 0, sought.shape[0]
            while low < high:
                middle = (low + high) // 2
                if sought[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            if low < sought.shape[0] and sought[low] == value:
                is_hit = True
                break
        if is_hit:
            out[row] = True


def _marked(
    values: Any, offsets: Any, rows: Any, below: Any, shift: Any, bits: Any, blocks: Any, out: Any
) -> None:  # pragma: no cover: compiled
    """Marks which of these sorted rows have a value up to a bound of which the slot is among the bits. blocks: whether
    any of 256 bits is set, so that most are not read."""
    for at in range(rows.shape[0]):
        is_in = False
        for place in range(offsets[rows[at]], offsets[rows[at] + 1]):
            value = values[place]
            if value > below:
                break
            slot = (value * np.uint64(0x9E3779B97F4A7C15)) >> shift
            if not blocks[slot >> np.uint64(8)]:
                continue
            if (bits[slot >> np.uint64(3)] >> (np.uint64(7) - (slot & np.uint64(7)))) & np.uint64(1) != 0:
                is_in = True
                break
        out[at] = is_in


def _near(
    asking: Any, mask: Any, shift: Any, is_held: Any, laid: Any, order: Any, ends: Any, masks: Any, radius: Any,
    most: Any, most_compared: Any, rows: Any, begins: Any, stops: Any, left: Any, right: Any,
) -> int:  # pragma: no cover: compiled  # fmt: skip
    """Fills (row of asking, row of targets) of what lies within the radius, of each asking one the first `most` in its
    group, but for those that agree on one of the masks; how many.

    mask, shift: of the group, which is what is left of a product. is_held: of each group a bit for each eighth of it
    that holds a target; most hold none. laid, order: the targets by group, and their rows; ends: where each group
    begins there, and the end of the last one. rows, begins, stops: room for some asking ones, which go through each
    table together: a loop that only reads waits for many places of memory at once, one that compares for each."""
    num, last = 0, laid.shape[0] - 1
    for low in range(0, asking.shape[0], rows.shape[0]):
        num_held: Any = 0
        for row in range(low, min(low + rows.shape[0], asking.shape[0])):
            spread = (asking[row] & mask) * np.uint64(0x9E3779B97F4A7C15)
            finer = (spread >> (shift - np.uint64(3))) & np.uint64(7)
            rows[num_held] = row
            begins[num_held] = np.int64(spread >> shift)
            num_held += np.int64((is_held[spread >> shift] >> finer) & np.uint64(1))
        for at in range(num_held):
            group = begins[at]
            begins[at], stops[at] = ends[group], ends[group + 1]
        first = np.uint64(0)
        for at in range(num_held):
            first ^= laid[min(begins[at], last)]
        right[num] = np.int64(first >> np.uint64(1))  # overwritten: without a use nothing would be read
        for at in range(num_held):
            found, row = 0, rows[at]
            for place in range(begins[at], min(stops[at], begins[at] + most_compared)):
                differing = asking[row] ^ laid[place]
                x = differing - ((differing >> np.uint64(1)) & np.uint64(0x5555555555555555))
                x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
                x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
                if np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56)) > radius:
                    continue
                found += 1
                is_first = True
                for other in range(masks.shape[0]):
                    if differing & masks[other] == 0:
                        is_first = False
                        break
                if is_first:
                    left[num], right[num] = row, order[place]
                    num += 1
                if found == most:
                    break
    return num


def _listed(
    numbers: Any, offsets: Any, units: Any, starts: Any, counts: Any, out: Any
) -> None:  # pragma: no cover: compiled
    """Writes the units, in their order, into the lists of their keys, where there is room. starts: of each list, and
    the end of the last one. counts: how many each has; more afterwards."""
    for at in range(units.shape[0]):
        for one in range(offsets[units[at]], offsets[units[at] + 1]):
            key = numbers[one]
            place = starts[key] + counts[key]
            if place < starts[key + 1]:
                out[place] = units[at]
                counts[key] += 1


def _leading(
    numbers: Any, offsets: Any, places: Any, places_begin: Any, held: Any, listed_begin: Any, listed: Any, leads: Any,
    min_shared: Any, counts: Any, met: Any, out: Any, shared: Any,
) -> None:  # pragma: no cover: compiled  # fmt: skip
    """Fills, for each unit, the places of those leaders before it that share most of its keys, and how many they share:
    most first, then the better placed. out: -1, of shape (units, as many as are wanted).

    numbers: of the keys of each unit. held: places of the holders of key k from places_begin[k] on; of a key with too
    many of them, the places in `listed` from listed_begin[k] on, which is -1 for others. leads: of each place. counts:
    zeros; met: room."""
    for unit in range(places.shape[0]):
        num = 0
        for at in range(offsets[unit], offsets[unit + 1]):
            key = numbers[at]
            if listed_begin[key] < 0:
                num = _met(held, places_begin[key], places_begin[key + 1], places[unit], leads, counts, met, num)
            else:
                low = listed_begin[key]
                num = _met(listed, low + 1, low + 1 + listed[low], places[unit], leads, counts, met, num)
        for at in range(num):
            place, count, last = met[at], counts[met[at]], out.shape[1] - 1
            counts[met[at]] = 0
            if count < min_shared:
                continue
            if out[unit, last] >= 0 and not (
                count > shared[unit, last] or (count == shared[unit, last] and place < out[unit, last])
            ):
                continue
            while last > 0 and (
                out[unit, last - 1] < 0
                or count > shared[unit, last - 1]
                or (count == shared[unit, last - 1] and place < out[unit, last - 1])
            ):
                out[unit, last], shared[unit, last] = out[unit, last - 1], shared[unit, last - 1]
                last -= 1
            out[unit, last], shared[unit, last] = place, count


def _met(
    places: Any, low: Any, high: Any, before: Any, leads: Any, counts: Any, met: Any, num: Any
) -> Any:  # pragma: no cover: compiled
    """Counts the leaders before a place among sorted ones; how many different ones are met by now."""
    for at in range(low, high):
        place = places[at]
        if place >= before:
            break
        if leads[place]:
            if counts[place] == 0:
                met[num] = place
                num += 1
            counts[place] += 1
    return num
