"""The loops that find pairs of texts which are known, note those which are not, and judge kept ones by the counts as
they are. They are compiled with those of the walk (`text.walk_kernels`); `text.pairs` says what the rows hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmlake.dedup.matching import HOLDS, INSIDE
from mmlake.dedup.text.verdicts import CONTAINED, code_of

_ALL = 2.0**64


def _place_of(low: Any, high: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """Where a pair is listed, or would be where that place is free; the smaller position first."""
    mask = np.uint64(marks.slots.shape[0] - 1)
    code = (np.uint64(low) << np.uint64(32)) | np.uint64(high)
    slot = ((code * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while marks.slots[slot] != 0:
        row = marks.slots[slot] - 1
        if marks.left[row] == low and marks.right[row] == high:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


def _listed(marks: Any) -> None:  # pragma: no cover: compiled
    """Lists the rows that are not yet, as far as half of the slots are free."""
    while marks.ends[1] < min(marks.ends[0], marks.slots.shape[0] // 2):
        row = marks.ends[1]
        marks.ends[1] += 1
        marks.slots[_place_of(marks.left[row], marks.right[row], marks)] = marks.ends[1]


def _row_of(one: Any, other: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """The row of a pair that is known; -1 where it is not."""
    _listed(marks)
    return np.int64(marks.slots[_place_of(min(one, other), max(one, other), marks)]) - 1


def _note(
    one: Any, other: Any, code: Any, relation: Any, method: Any, score: Any, marks: Any
) -> None:  # pragma: no cover: compiled
    """As `text_pairs.KnownPairs.add`."""
    row = marks.ends[0]
    if row == marks.left.shape[0]:
        marks.is_beyond[one] = marks.is_beyond[other] = True
        return
    if one > other and relation in (INSIDE, HOLDS):
        relation = INSIDE if relation == HOLDS else HOLDS
    marks.left[row], marks.right[row] = min(one, other), max(one, other)
    marks.code[row], marks.relation[row], marks.method[row], marks.score[row] = code, relation, method, score
    marks.ends[0] += 1


def _recalled(texts: Any, one: Any, other: Any, row: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """What the one is to the other, of a pair that is known."""
    relation: Any = np.int64(marks.relation[row])
    method = np.int64(marks.method[row])
    if relation in (INSIDE, HOLDS):
        if method == CONTAINED:  # as `of_sets` says it, of two of one size as well
            size, other_size = texts.starts[one + 1] - texts.starts[one], texts.starts[other + 1] - texts.starts[other]
            relation = INSIDE if size < other_size else HOLDS
        elif one > other:
            relation = INSIDE if relation == HOLDS else HOLDS
    return relation, marks.score[row], method


def _looked_up(
    values: Any,
    starts: Any,
    texts: Any,
    table: Any,
    shift: Any,
    below: Any,
    begins: Any,
    ends: Any,
    sampled: Any,
    counts: Any,
) -> None:  # pragma: no cover: compiled
    """Fills the shingles of these texts up to a bound, how many texts hold each, and where those of each text end.
    begins: where they begin."""
    for at in range(texts.shape[0]):
        spot = begins[at]
        for place in range(starts[texts[at]], starts[texts[at] + 1]):
            value = values[place]
            if value > below:
                break
            sampled[spot], counts[spot] = value, table[(value * np.uint64(0x9E3779B97F4A7C15)) >> shift]
            spot += 1
        ends[at] = spot


def _judge(
    sampled: Any, counts: Any, begins: Any, ends: Any, below: Any, left: Any, right: Any, out: Any, room: Any
) -> None:  # pragma: no cover: compiled
    """Fills the code of each pair. sampled to ends: of `_looked_up`. room: zeros, a row for what both have and one for
    what each has alone, by how many texts hold it."""
    fraction, width = below / _ALL, 1
    for pair in range(left.shape[0]):
        room[:, :width] = 0
        i, stop, j, end = begins[left[pair]], ends[left[pair]], begins[right[pair]], ends[right[pair]]
        width = 1
        while i < stop and j < end:  # without a branch, which no processor foresees
            one, other = sampled[i], sampled[j]
            is_left, is_right = one < other, one > other
            num = counts[j] if is_right else counts[i]
            room[np.int64(is_left) + 2 * np.int64(is_right), num] += 1
            width = max(width, num + 1)
            i += one <= other
            j += one >= other
        for at in range(i, stop):
            room[1, counts[at]] += 1
            width = max(width, counts[at] + 1)
        for at in range(j, end):
            room[2, counts[at]] += 1
            width = max(width, counts[at] + 1)
        out[pair] = code_of(room[:, :width], fraction)
