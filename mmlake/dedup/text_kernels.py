"""The loops of text prints and their comparison, compiled by numba once per machine; None where that does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.compiling import linked, made

_WORTHWHILE = 1 << 21  # code points or hashes; below it numpy is done before numba is imported (.3 s, compiling 2 s)


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    prints: Callable[..., bool]
    digests: Callable[..., None]
    shared: Callable[..., None]
    siblings: Callable[..., None]


_work = [0]  # units of work asked for so far in this process


def compiled(work: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return _kernels() if is_worthwhile(work) else None


def is_worthwhile(work: int) -> bool:
    """Whether this process has had enough work for compiled code, with this much more."""
    _work[0] += work
    return _work[0] >= _WORTHWHILE


@functools.lru_cache(maxsize=1)
def _kernels() -> Kernels | None:
    try:
        import numba
    except ImportError:
        return None

    def read(kind: Any) -> Any:
        return numba.types.Array(kind, 1, "C", readonly=True)

    inner: dict[str, Any] = {}
    for function in (_mixed, _short, _spaced_words, _words, _distinct):
        inner[function.__name__] = numba.njit(linked(function, inner), nogil=True)
    u1, u4, u8, i8, b1, none = numba.uint8, numba.uint32, numba.uint64, numba.int64, numba.boolean, numba.void
    entry = functools.partial(made, numba)
    read2 = numba.types.Array(u8, 2, "C", readonly=True)
    return Kernels(
        prints=entry(
            b1(read(u4), read(i8), read(u1), u8, read(u8), u8[::1], i8[::1], u8[::1], i8[::1]),
            linked(_prints, inner),
        ),
        digests=entry(none(read(u8), read(i8), read2, u8[:, ::1]), linked(_digests, inner)),
        shared=entry(none(read(u8), read(i8), i8, read(i8), i8[::1]), _shared),
        siblings=entry(none(read(u8), read(i8), i8, read(i8), read(u1), i8, u8, i8[:, :, ::1]), _siblings),
    )


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
) -> bool:  # pragma: no cover: compiled
    """Fills the prints of texts, of which text k is points[begins[k] : begins[k + 1]]; False where a code point is not
    classified yet. factors: for each place in a shingle."""
    most = 0
    for at in range(begins.shape[0] - 1):
        most = max(most, begins[at + 1] - begins[at])
    hashes, joined, counts = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty(2 * most + 3, np.int32)
    has_digit, sums, places = np.empty(most, np.bool_), np.empty(most + 2, np.uint64), np.empty(most + 2, np.uint64)
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
    """As `joins.mix64`."""
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


def _spaced_words(
    points: Any, kinds: Any, base: Any, sums: Any, places: Any, hashes: Any, has_digit: Any
) -> int:  # pragma: no cover: compiled
    """As `_words`, in half the time: without a branch at the ends of words, which no processor foresees. -1 where a
    character is a word by itself, or is not classified yet."""
    one = np.uint64(1)
    total, power, place, num = np.uint64(0), one, np.uint64(0), np.uint64(0)
    was_word, seen = np.uint64(0), np.uint64(0)
    for at in range(points.shape[0]):
        point = np.uint64(points[at])
        kind = np.uint64(kinds[point])
        if kind == np.uint64(8):
            continue
        seen |= kind
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
    return int(num)


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
                while at < end and kinds[points[at]] == 8:
                    at += 1
                if at == end:
                    break
                kind = kinds[points[at]]
        hashes[num], has_digit[num] = _mixed(total + size), digit != 0
        num += 1
    return num


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
        out[:num].sort()
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


def _covered(words: Any, others: Any, out: Any) -> None:  # pragma: no cover: compiled
    """Marks which words lie in a 3-gram that the others hold, anywhere. out: zeros."""
    size = 16
    while size < 2 * others.shape[0]:
        size *= 2
    mask = np.uint64(size - 1)
    grams = np.zeros(size, np.uint64)
    for passing in range(2):
        text = others if passing == 0 else words
        for at in range(text.shape[0] - 2):
            gram = (
                np.uint64(text[at]) * np.uint64(0x9E3779B97F4A7C15)
                + np.uint64(text[at + 1]) * np.uint64(0xBF58476D1CE4E5B9)
                + np.uint64(text[at + 2]) * np.uint64(0x94D049BB133111EB)
            )
            gram ^= gram >> np.uint64(29)
            gram |= np.uint64(1)
            slot = (gram >> np.uint64(20)) & mask
            while grams[slot] != 0 and grams[slot] != gram:
                slot = (slot + np.uint64(1)) & mask
            if passing == 0:
                grams[slot] = gram
            elif grams[slot] == gram:
                out[at : at + 3] = True


def _aligned(
    left: Any, right: Any, left_covered: Any, right_covered: Any, block: Any, out: Any
) -> None:  # pragma: no cover: compiled
    """Fills for each of the two texts what `text_verdicts.Alignment` names, in that order. out: zeros, (2, 7)."""
    size = 16
    while size < 2 * (left.shape[0] + right.shape[0]):
        size *= 2
    mask = np.uint64(size - 1)
    names = np.zeros(size, np.uint32)
    counts = np.zeros((4, size), np.int64)  # of each word: in the left text, in the right one, uncovered in each
    for side in range(2):
        text, covered = (left, left_covered) if side == 0 else (right, right_covered)
        for at in range(text.shape[0]):
            slot = (np.uint64(text[at]) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) & mask
            while names[slot] != 0 and names[slot] != text[at]:
                slot = (slot + np.uint64(1)) & mask
            names[slot] = text[at]
            counts[side, slot] += 1
            counts[2 + side, slot] += not covered[at]
    for place in np.flatnonzero(names):
        for side in range(2):
            num = counts[side, place]
            out[side, 1] += min(counts[2, place], counts[3, place])
            if num > 0 and counts[1 - side, place] == 0:
                out[side, 2] += num
                out[side, 3] += 1
                out[side, 4] += num if num >= 3 else 0
                out[side, 5] += num if names[place] & np.uint32(1) else 0
    for side in range(2):
        text, covered = (left, left_covered) if side == 0 else (right, right_covered)
        begin, own = 0, 0
        for at in range(text.shape[0] + 1):
            if at < text.shape[0] and not covered[at]:
                slot = (np.uint64(text[at]) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) & mask
                while names[slot] != text[at]:
                    slot = (slot + np.uint64(1)) & mask
                own += counts[3 - side, slot] == 0
            else:
                if at - begin >= block and 2 * own >= at - begin:
                    out[side, 6] += own
                begin, own = at + 1, 0
                out[side, 0] += at < text.shape[0]
