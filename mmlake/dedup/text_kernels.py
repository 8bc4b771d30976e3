"""The loops of text prints and their comparison, compiled by numba once per machine; None where that does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_WORTHWHILE = 1 << 21  # code points or hashes; below it numpy is done before numba is imported (.3 s, compiling 2 s)


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    words: Callable[..., int]
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

    def made(signature: Any, function: Any) -> Any:
        try:
            return numba.njit(signature, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # no folder to keep compiled code in: HOME and the package are read-only
            return numba.njit(signature, nogil=True)(function)

    u1, u4, u8, i8, b1, none = (
        numba.uint8,
        numba.uint32,
        numba.uint64,
        numba.int64,
        numba.boolean,
        numba.void,
    )
    return Kernels(
        words=made(i8(read(u4), read(u1), u8, i8[::1], u8[::1], b1[::1]), _words),
        shared=made(none(read(u8), read(i8), i8, read(i8), i8[::1]), _shared),
        siblings=made(none(read(u8), read(i8), i8, read(i8), read(u1), i8, u8, i8[:, :, ::1]), _siblings),
    )


def _words(
    points: Any, kinds: Any, base: Any, starts: Any, hashes: Any, has_digit: Any
) -> int:  # pragma: no cover: compiled
    """How many words there are, or -1 where a code point is not classified yet; fills start, polynomial and whether
    it holds a digit of each."""
    num = 0
    is_open = False
    total = np.uint64(0)
    power = np.uint64(1)
    begin = 0
    digit = False
    for at in range(points.shape[0]):
        kind = kinds[points[at]]
        if kind == 255:
            return -1
        if is_open and (kind == 0 or kind & 2):
            hashes[num] = total + np.uint64(at - begin)
            has_digit[num] = digit
            num += 1
            is_open = False
        if kind == 0:
            continue
        if not is_open:
            starts[num] = at
            begin = at
            total = np.uint64(0)
            power = np.uint64(1)
            digit = False
            is_open = True
        total += np.uint64(points[at]) * power
        power *= base
        digit = digit or (kind & 4) != 0
        if kind & 2:
            hashes[num] = total + np.uint64(1)
            has_digit[num] = digit
            num += 1
            is_open = False
    if is_open:
        hashes[num] = total + np.uint64(points.shape[0] - begin)
        has_digit[num] = digit
        num += 1
    return num


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
