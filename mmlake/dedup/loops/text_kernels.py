"""The loops of text prints and their comparison, compiled by numba once per machine; None where that does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.dedup.loops.machine_code import Loop, are_kept, loops

_WORTHWHILE = 1 << 21  # code points or hashes; below it numpy is done before anything is compiled
_WORTHWHILE_KEPT = 1 << 18  # the same, where the loops are on disk: .05 s


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    prints: Callable[..., int]
    ascii_prints: Callable[..., int]  # of texts in one byte for each code point
    digests: Callable[..., int]
    shared: Callable[..., int]
    siblings: Callable[..., int]


class Room(NamedTuple):
    """For one text at a time, while prints are made."""

    hashes: Any
    joined: Any
    counts: Any
    has_digit: Any
    sums: Any
    places: Any

    @classmethod
    def of(cls, most: int) -> Room:
        """For texts of up to so many code points."""
        numbers = (np.empty(most + 2, np.uint64) for _ in range(4))
        hashes, joined, sums, places = numbers
        return cls(hashes, joined, np.empty(2 * most + 3, np.int32), np.empty(most, np.bool_), sums, places)


ROOM = (Room, "u8* u8* i4* b1* u8* u8*")


_work = [0]  # units of work asked for so far in this process


def compiled(work: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return kernels() if is_worthwhile(work) else None


def is_worthwhile(work: int) -> bool:
    """Whether this process has had enough work for compiled code, with this much more."""
    _work[0] += work
    return _work[0] >= _WORTHWHILE or (_work[0] >= _WORTHWHILE_KEPT and are_kept(("text", "keys", "text-walk")))


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels, or None without numba."""
    inner = (_mixed, _short, _is_second, _spaced_words, _words, _sort, _distinct)
    rest = ("i8*", "u1*", "u8", "u8*", "u8*", "i8*", "u8*", "i8*", ROOM)
    found = loops(
        "text",
        {
            "prints": Loop(_prints, ("u4*", *rest), inner),
            "ascii_prints": Loop(_prints, ("u1*", *rest), inner),
            "digests": Loop(_digests, ("u8*", "i8*", "u8**", "u8**"), (_mixed,)),
            "shared": Loop(_shared, ("u8*", "i8*", "i8", "i8*", "i8*")),
            "siblings": Loop(_siblings, ("u8*", "i8*", "i8", "i8*", "u1*", "u8", "u8", "i8***")),
        },
        [__file__],
    )
    return None if found is None else Kernels(**found)


def _prints(
    points: Any,
    begins: Any,
    kinds: Any,
    base: Any,
    factors: Any,
    shingles: Any,
    shingle_starts: Any,
    packed: Any,
    packed_starts: Any,
    room: Any,
) -> bool:  # pragma: no cover: compiled
    """Fills the prints of texts, of which text k is points[begins[k] : begins[k + 1]]; False where a code point is not
    classified yet. factors: for each place in a shingle."""
    hashes, joined, counts, has_digit = room.hashes, room.joined, room.counts, room.has_digit
    sums, places = room.sums, room.places
    num_shingles, num_packed = 0, 0
    for at in range(begins.shape[0] - 1):
        text = points[begins[at] : begins[at + 1]]
        num = _spaced_words(text, kinds, base, sums, places, hashes, has_digit)
        if num < 0:
            num = _words(text, kinds, base, hashes, has_digit)
        if num < 0:
            return False
        shingle_starts[at], packed_starts[at] = num_shingles, num_packed
        width = min(num, factors.shape[0])
        for place in range(num - width + 1 if num else 0):
            total = np.uint64(width)
            for offset in range(width):
                total += hashes[place + offset] * factors[offset]
            joined[place] = _mixed(total)
        num_shingles += _distinct(joined, num - width + 1 if num else 0, counts, shingles[num_shingles:])
        for place in range(0, num, 2):
            pair = _short(hashes[place], has_digit[place]) << np.uint64(32)
            if place + 1 < num:
                pair |= _short(hashes[place + 1], has_digit[place + 1])
            packed[num_packed] = pair
            num_packed += 1
    shingle_starts[-1], packed_starts[-1] = num_shingles, num_packed
    return True


def _mixed(value: Any) -> Any:  # pragma: no cover: compiled
    """As `splitmix.mix64`."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _short(value: Any, has_digit: Any) -> Any:  # pragma: no cover: compiled
    """The 32 bits that are kept of a word."""
    short = (value >> np.uint64(32)) & np.uint64(0xFFFFFFFE)
    if has_digit:
        short |= np.uint64(1)
    return short + np.uint64(2) if short < np.uint64(2) else short


def _is_second(kind: Any, before: Any) -> Any:  # pragma: no cover: compiled
    """As `text.plain_letters.without_second_letters`: ae, oe, ue, aa. Kinds of a code point and of the last one that
    was kept; 16 is a, o or u, 32 is e, 64 is a."""
    return ((before & np.uint64(16)) & (kind >> np.uint64(1))) | (before & kind & np.uint64(64))


def _spaced_words(
    points: Any, kinds: Any, base: Any, sums: Any, places: Any, hashes: Any, has_digit: Any
) -> Any:  # pragma: no cover: compiled
    """As `_words`, in half the time: without a branch at the ends of words, which no processor foresees. -1 where a
    character is a word by itself, or is not classified yet."""
    one = np.uint64(1)
    total, power, place, num = np.uint64(0), one, np.uint64(0), np.uint64(0)
    was_word, seen, before = np.uint64(0), np.uint64(0), np.uint64(0)
    for at in range(points.shape[0]):
        point = np.uint64(points[at])
        kind = np.uint64(kinds[point])
        if kind == np.uint64(8):
            continue
        seen |= kind
        if _is_second(kind, before) != np.uint64(0):
            continue
        before = kind
        is_word = kind & one
        is_edge = is_word ^ was_word
        sums[num], places[num] = total, place  # overwritten unless a word begins or ends here
        num += is_edge
        if point - np.uint64(65) < np.uint64(26):
            point += np.uint64(32)
        power = power * base if is_edge == 0 else one
        total += point * power
        place += one + ((kind & np.uint64(4)) << np.uint64(38))  # digits are counted in the upper half
        was_word = is_word
    if seen & np.uint64(2):
        return -1
    sums[num], places[num] = total, place
    num = (num + was_word) >> one
    for at in range(num):
        size = places[2 * at + 1] - places[2 * at]
        hashes[at] = _mixed(sums[2 * at + 1] - sums[2 * at] + (size & np.uint64(0xFFFFFFFF)))
        has_digit[at] = (size >> np.uint64(32)) != np.uint64(0)
    return np.int64(num)


def _words(points: Any, kinds: Any, base: Any, hashes: Any, has_digit: Any) -> int:  # pragma: no cover: compiled
    """How many words the text has, or -1 where a code point is not classified yet; fills the hash of each and whether
    it holds a digit."""
    num, at, end = 0, 0, points.shape[0]
    while at < end:
        kind = kinds[points[at]]
        if kind == 255:
            return -1
        if kind & 3 == 0:
            at += 1
            continue
        total, power, size, digit = np.uint64(0), np.uint64(1), np.uint64(0), kind & 4
        if kind & 2:  # a word by itself
            total, size = np.uint64(points[at]), np.uint64(1)
            at += 1
        else:
            while kind & 3 == 1:
                point = np.uint64(points[at])
                if point - np.uint64(65) < np.uint64(26):
                    point += np.uint64(32)
                total += point * power
                power *= base
                size += np.uint64(1)
                digit |= kind & 4
                at += 1
                before = np.uint64(kind)
                while at < end:
                    later = np.uint64(kinds[points[at]])
                    if later != np.uint64(8) and (later == np.uint64(255) or _is_second(later, before) == np.uint64(0)):
                        break
                    at += 1
                if at == end:
                    break
                kind = kinds[points[at]]
        hashes[num], has_digit[num] = _mixed(total + size), digit != 0
        num += 1
    return num


def _sort(values: Any, num: Any) -> None:  # pragma: no cover: compiled
    """Sorts the first values (heapsort)."""
    size = np.int64(num)
    for begin in range(size // 2 - 1, -size, -1):
        end = size if begin >= 0 else size + begin
        at = begin
        if begin < 0:
            values[0], values[end] = values[end], values[0]
            at = 0
        while 2 * at + 1 < end:
            child = 2 * at + 1
            if child + 1 < end and values[child + 1] > values[child]:
                child += 1
            if values[child] <= values[at]:
                break
            values[at], values[child] = values[child], values[at]
            at = child


def _distinct(values: Any, num: Any, counts: Any, out: Any) -> int:  # pragma: no cover: compiled
    """Fills the distinct values, sorted; how many. They are hashes, so a bucket for each of their upper bits holds one
    or two. counts: room for 2 * num + 3."""
    bits = 1
    while (1 << bits) < num:
        bits += 1
    shift, most = np.uint64(64 - bits), 0
    counts[: (1 << bits) + 1] = 0
    for at in range(num):
        counts[(values[at] >> shift) + np.uint64(1)] += 1
    for at in range(1, (1 << bits) + 1):
        most = max(most, counts[at])
        counts[at] += counts[at - 1]
    for at in range(num):
        bucket = values[at] >> shift
        out[counts[bucket]] = values[at]
        counts[bucket] += 1
    if most > 16:  # the same shingle over and over
        _sort(out, num)
    size = 0
    for at in range(num):
        value, place = out[at], size
        while place > 0 and out[place - 1] > value:
            place -= 1
        if place > 0 and out[place - 1] == value:
            continue
        for later in range(size, place, -1):
            out[later] = out[later - 1]
        out[place] = value
        size += 1
    return size


def _digests(values: Any, offsets: Any, places: Any, sums: Any) -> None:  # pragma: no cover: compiled
    """Adds to the digest of each row; places: what a value is mixed with there, of shape (longest row, 2)."""
    for row in range(offsets.shape[0] - 1):
        one, other = np.uint64(0), np.uint64(0)
        for at in range(offsets[row], offsets[row + 1]):
            one += _mixed(values[at] ^ places[at - offsets[row], 0])
            other += _mixed(values[at] ^ places[at - offsets[row], 1])
        sums[row, 0] += one
        sums[row, 1] += other


def _shared(values: Any, offsets: Any, one: Any, others: Any, counts: Any) -> None:  # pragma: no cover: compiled
    """Fills the number of values that row `one` and each other row have in common; rows are sorted and distinct."""
    for k in range(others.shape[0]):
        i, stop = offsets[one], offsets[one + 1]
        j, end = offsets[others[k]], offsets[others[k] + 1]
        num = 0
        while i < stop and j < end:
            left, right = values[i], values[j]
            num += left == right
            i += left <= right
            j += right <= left
        counts[k] = num


def _siblings(
    values: Any, offsets: Any, one: Any, others: Any, table: Any, shift: Any, below: Any, counts: Any
) -> None:  # pragma: no cover: compiled
    """Fills, for each other row, three histograms of how many texts hold a sampled shingle: those that both rows have,
    those of row `one` alone, those of the other alone. counts: zeros of shape (others, 3, 256)."""
    for k in range(others.shape[0]):
        i, stop = offsets[one], offsets[one + 1]
        j, end = offsets[others[k]], offsets[others[k] + 1]
        while i < stop or j < end:
            if j == end or (i < stop and values[i] < values[j]):
                value, row = values[i], 1
                i += 1
            elif i == stop or values[j] < values[i]:
                value, row = values[j], 2
                j += 1
            else:
                value, row = values[i], 0
                i += 1
                j += 1
            if value > below:
                break
            counts[k, row, table[(value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift)]] += 1
