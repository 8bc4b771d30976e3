"""Where two recordings say the same: sequences of words laid along each other, with drift.

Enters: prints of two recordings, uint64 words at a fixed step. The low 32 bits are signs; bit 32 + k says that sign k
is firm: it lies so far from its threshold that noise, a codec or another speed seldom turns it. A word without firm
bits is silent. Leaves: the common part and how alike it is. What that means is the bounds' business
(mmlake.dedup.audio.fingerprints).

Only bits that are firm on both sides count, which is what distinguishes a copy at 1 % other speed or 10 dB noise from
another recording: over all bits both disagree in a third of them.
Legend: N words, B words of a block, D diagonals (place in the longer minus place in the shorter).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio import kernels as audio_kernels

Words = NDArray[np.uint64]
_SIGNS, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_KEPT = 0.3  # correlation below which a word belongs to no common part
_BRUTE = 1 << 19  # products of two lengths: below, each place is tried; above, places where words are equal
_TOGETHER = 16  # words that numpy compares in the time of one where it is given a few: how soon it pays to compile
_MAX_ANCHORS = 3
_VOTED, _MAX_VOTES = 4, 1 << 16  # shifts tried per block; pairs of equal half words of two long recordings
_HOPELESS = 0.25  # correlation of the best block; a copy has more, whatever was done to it
_WORST_SHARE = 0.25  # of what a usual window holds: a window with fewer firm bits says nothing
_SPREAD = 8  # band signs that see a sound before it begins, or after it ended


class Common(NamedTuple):
    """The common part of a shorter and a longer recording."""

    correlation: float  # firm bits that agree less those that do not, over all that are firm: -1..1
    worst: float  # the same, of the window where it is lowest
    num_words: int  # in which both have firm bits
    num_changes: int  # firm signs that change from word to word: none in a steady tone
    covered: tuple[float, float]  # share of the audible words of either
    spans: tuple[int, int, int, int]  # first and end word in the shorter, then in the longer
    opposed: float = (
        0.0  # share of the bits firm in both that differ: noise makes bits weak, another phone opposes them
    )
    opposed_worst: float = 0.0  # the same, of the worst quarter of its windows
    opposed_best: float = 0.0  # of the best quarter
    # words of sound, however faint, by which more precedes and by which more follows the part in one than in the other
    apart: tuple[int, int] = (0, 0)

    @property
    def evidence(self) -> float:
        """Fisher's z of the correlation in standard deviations, as if words were independent; the bounds make good for
        what they are not. What does not change counts for less."""
        return float(
            np.arctanh(min(max(self.correlation, 0.0), 0.99)) * min(self.num_words, 2 * self.num_changes) ** 0.5
        )


NOWHERE = Common(0.0, 0.0, 0, 0, (0.0, 0.0), (0, 0, 0, 0))


def firm_bits(words: Words) -> NDArray[np.int64]:
    """How many bits of each word are firm."""
    num: NDArray[np.int64] = np.bitwise_count(words >> _HALF).astype(np.int64)
    return num


def agreement(ones: Words, others: Words) -> NDArray[np.float64]:
    """The correlation of each row of the ones with the same row of the others, where both are not silent."""
    both = (ones >> _HALF != 0) & (others >> _HALF != 0)
    firm = (ones & others) >> _HALF
    num_different = np.bitwise_count((ones ^ others) & firm).sum(axis=1, dtype=np.int64)
    gain = np.bitwise_count(firm).sum(axis=1, dtype=np.int64) - 2 * num_different
    full = (np.where(both, firm_bits(ones), 0) + np.where(both, firm_bits(others), 0)).sum(axis=1) / 2
    return np.asarray(gain / np.maximum(full, 1))


def common_part(short: Words, long: Words, *, block: int, drift: int, window: int) -> Common:
    """The best common part. block: words compared at one shift; drift: words by which the shift may change from block
    to block; window: words over which `worst` is taken."""
    firm = firm_bits(short)
    if not firm.any() or not (long >> _HALF).any():
        return NOWHERE
    starts = _starts(len(short), block)
    size = min(block, len(short))
    anchors = _anchors(short, long, starts, size)
    found = NOWHERE
    for at, diagonal in anchors:
        paths = _followed(short, long, starts, size, at, diagonal, drift)
        one = _measured(short, long, paths, window)
        if one.evidence > found.evidence:
            found = one
    return found


def _starts(num: int, block: int) -> NDArray[np.int64]:
    """First words of the blocks; the last one ends with the words."""
    if num <= block:
        return np.zeros(1, np.int64)
    return np.append(np.arange(0, num - block, block), num - block)


def _anchors(short: Words, long: Words, starts: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """(block, diagonal) from which the common part is followed: the best ones, on diagonals of their own."""
    padded = np.concatenate((np.zeros(size, np.uint64), long, np.zeros(size, np.uint64)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)  # row k begins at word k - size of the longer
    is_brief = len(short) * len(long) <= _BRUTE
    rows = np.arange(size // 2, len(long) + size - size // 2 + 1)
    voted = None if is_brief else _voted(short, long, starts, size)
    kernels = audio_kernels.compiled(len(short) * len(rows) // _TOGETHER) if voted is None else None
    if kernels is not None:
        all_gains = np.empty((len(starts), len(rows)), np.int64)
        kernels.gains(short, padded, starts, rows, size, all_gains)
    found: list[tuple[int, int, int]] = []
    for at, start in enumerate(starts.tolist()):
        part = short[start : start + size]
        if voted is not None:
            rows = voted[at]
        gains = _gains(part, windows[rows]) if kernels is None else all_gains[at]
        needed = max(1.0, _HOPELESS * float(firm_bits(part).sum()))
        for best in np.argsort(-gains, kind="stable")[:_MAX_ANCHORS].tolist():
            if gains[best] >= needed:
                found.append((-int(gains[best]), at, int(rows[best]) - size - start))
    chosen: list[tuple[int, int]] = []
    for _, at, diagonal in sorted(found):
        if all(abs(diagonal - other) > size // 4 for _, other in chosen):
            chosen.append((at, diagonal))
        if len(chosen) == _MAX_ANCHORS:
            break
    return chosen


def _gains(one: Words, others: Words) -> NDArray[np.int64]:
    """Firm bits that agree less those that do not, of each row of the others."""
    firm = (one & others) >> _HALF
    num_different = np.bitwise_count((one ^ others) & firm).sum(axis=1, dtype=np.int64)
    gains: NDArray[np.int64] = np.bitwise_count(firm).sum(axis=1, dtype=np.int64) - 2 * num_different
    return gains


def _voted(short: Words, long: Words, starts: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """For each block the rows of the windows at which most of its half words meet equal ones."""
    places: list[NDArray[np.int64]] = []
    here: list[NDArray[np.int64]] = []
    for low in (0, 8, 16):
        mask = np.uint64(0xFFFF << low)
        left, right = (np.flatnonzero(words >> _HALF) for words in (short, long))
        i, j = _equal(short[left] & mask, long[right] & mask)
        here.append(left[i])
        places.append(right[j])
    one, other = np.concatenate(here), np.concatenate(places)
    block = np.minimum(np.searchsorted(starts, one, side="right") - 1, len(starts) - 1)
    found = []
    for at, start in enumerate(starts.tolist()):
        shifts = (other - one)[block == at]
        values, counts = np.unique(shifts, return_counts=True)
        best = values[np.argsort(-counts, kind="stable")[:_VOTED]]
        rows = (best[:, None] + np.arange(-1, 2)).ravel() + start + size
        found.append(np.unique(np.clip(rows, 0, len(long) + size)))
    return found


def _equal(left: Words, right: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(i, j) of equal values, those of the rarest ones, as many as are worth a comparison."""
    values, inverse, counts = np.unique(left, return_inverse=True, return_counts=True)
    order = np.argsort(right, kind="stable")
    low = np.searchsorted(right, values, side="left", sorter=order)
    matches = np.searchsorted(right, values, side="right", sorter=order) - low
    cost = counts * matches
    rare = np.argsort(cost, kind="stable")
    keep = np.zeros(len(values), np.bool_)
    keep[rare[np.cumsum(cost[rare]) <= _MAX_VOTES]] = True
    i = np.flatnonzero(keep[inverse])
    num = matches[inverse[i]]
    within = np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)
    return np.repeat(i, num), order[np.repeat(low[inverse[i]], num) + within]


def _followed(
    short: Words, long: Words, starts: NDArray[np.int64], size: int, at: int, diagonal: int, drift: int
) -> NDArray[np.int64]:
    """The place in the longer of each word of the shorter, when the diagonal is followed from the block onwards in both
    directions."""
    diagonals = np.full(len(starts), diagonal, np.int64)
    block = np.minimum(np.arange(len(short)) // size, len(starts) - 1)
    kernels = audio_kernels.compiled(len(short) * (2 * drift + 1))
    if kernels is not None:
        kernels.followed(short, long, starts, size, at, _by_distance(drift), _KEPT, diagonals)
        return np.arange(len(short)) + diagonals[block]
    for steps in (range(at, len(starts)), range(at, -1, -1)):
        current = diagonal
        for step in steps:
            part = short[starts[step] : starts[step] + size]
            tried = current + _by_distance(drift)
            places = starts[step] + tried[:, None] + np.arange(size)
            gains = _gains(part, words_at(long, places))
            best = int(np.argmax(gains))
            if gains[best] >= _KEPT * firm_bits(part).sum():
                current = int(tried[best])
            diagonals[step] = current
    return np.arange(len(short)) + diagonals[block]


@functools.lru_cache
def _by_distance(drift: int) -> NDArray[np.int64]:
    """0, -1, 1, -2, 2, ...: of equal gains the smaller change is taken."""
    steps = np.arange(1, drift + 1)
    return np.concatenate(([0], np.stack((-steps, steps), axis=1).ravel()))


def words_at(words: Words, places: NDArray[np.int64]) -> Words:
    """The words at the places; silent ones outside."""
    inside = (places >= 0) & (places < len(words))
    return np.where(inside, words[np.clip(places, 0, len(words) - 1)], np.uint64(0))


def _measured(short: Words, long: Words, places: NDArray[np.int64], window: int) -> Common:
    """What the best stretch of the path holds."""
    other = words_at(long, places)
    firm = (short & other) >> _HALF
    gain = np.bitwise_count(firm).astype(np.int64) - 2 * np.bitwise_count((short ^ other) & firm).astype(np.int64)
    full = (firm_bits(short) + firm_bits(other)) / 2
    low, high = _heaviest(gain - _KEPT * full)
    if low == high:
        return NOWHERE
    gain, full = gain[low:high], full[low:high]
    begin, end = np.clip((places[low], places[high - 1] + 1), 0, len(long)).tolist()
    sums = [_in_windows(one, window) for one in (gain, full)]
    is_full = sums[1] >= _WORST_SHARE * _usual(sums[1])
    local = sums[0][is_full] / np.maximum(sums[1][is_full], 1)
    lost = np.mean(local < 0.1)  # windows inside of the part where both say something else
    audible_part = [np.cumsum(np.concatenate(([0], words >> _HALF != 0))) for words in (short, long)]
    covered = [
        float((1 - lost) * (total[last] - total[first]) / total[-1])
        for total, (first, last) in zip(audible_part, ((low, high), (begin, end)), strict=True)
    ]
    changes = min(_changes(short[low:high]), _changes(long[begin:end]))
    opposed = _opposed(short[low:high], other[low:high], window)
    margins = _margins(short, low, high), _margins(long, int(begin), int(end))
    return Common(
        float(gain.sum() / max(full.sum(), 1)),
        float(local.min()),
        int(np.count_nonzero(firm[low:high])),
        changes,
        (covered[0], covered[1]),
        (low, high, int(begin), int(end)),
        *opposed,
        (abs(margins[0][0] - margins[1][0]), abs(margins[0][1] - margins[1][1])),
    )


def _opposed(one: Words, other: Words, window: int) -> tuple[float, float, float]:
    """Share of the bits firm in both that differ: of all, and of the worst and the best quarter of the windows that say
    enough."""
    firm = (one & other) >> _HALF
    counts = [np.bitwise_count(bits).astype(np.int64) for bits in ((one ^ other) & firm, firm)]
    different, both = (_in_windows(count, window) for count in counts)
    is_full = both >= _WORST_SHARE * _usual(both)
    local = np.sort(different[is_full] / np.maximum(both[is_full], 1))
    quarter = max(1, len(local) // 4)
    worst, best = local[-quarter:].mean(), local[:quarter].mean()
    return float(counts[0].sum() / max(counts[1].sum(), 1)), float(worst), float(best)


def _in_windows(values: NDArray[np.number], window: int) -> NDArray[np.float64]:
    """The sum of each window, or of all where they are fewer. values: multiples of a half: no sum is rounded."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    width = min(window, len(values))
    return sums[width:] - sums[: len(sums) - width]


def _usual(values: NDArray[np.float64]) -> float:
    """Their 80th percentile to the last bit of `np.percentile`, which takes ten times as long for so few."""
    at = 0.8 * (len(values) - 1)
    low = int(at)
    ordered, part = np.sort(values), at - low
    one, other = float(ordered[low]), float(ordered[min(low + 1, len(values) - 1)])
    return one + (other - one) * part if part < 0.5 else other - (other - one) * (1 - part)


def _margins(words: Words, low: int, high: int) -> tuple[int, int]:
    """How many words of sound, however faint, lie before and behind a part. Digital silence has no signs; next to it
    a sound begins some words early and ends some late."""
    sounding = np.flatnonzero(words & _SIGNS)
    if not len(sounding):
        return 0, 0
    first, last = int(sounding[0]), int(sounding[-1]) + 1
    return (
        max(low - first - _SPREAD * (first > 0), 0),
        max(last - high - _SPREAD * (last < len(words)), 0),
    )


def _heaviest(values: NDArray[np.float64]) -> tuple[int, int]:
    """Where the stretch with the largest sum begins and ends (Kadane)."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    rises = sums - np.minimum.accumulate(sums)
    high = int(np.argmax(rises))
    return int(np.argmin(sums[: high + 1])), high


def num_changes(words: Words) -> int:
    """Signs that change from one word to the next, firm or not."""
    return int(np.bitwise_count((words[1:] ^ words[:-1]) & _SIGNS).sum())


def _changes(words: Words) -> int:
    """Firm signs that change from one word to the next."""
    if len(words) < 2:
        return 0
    return int(np.bitwise_count((words[1:] ^ words[:-1]) & ((words[1:] & words[:-1]) >> _HALF)).sum())
