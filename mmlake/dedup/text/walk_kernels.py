"""The loops of `text.walk`, compiled by numba once per machine. Their rules stand in `text.verdicts`, and what their
parameters hold at the types of `text.walk`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.dedup import greedy, matching
from mmlake.dedup.greedy import AS_ALIKE, MOST_LEADERS
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.loops.machine_code import Loop, loops
from mmlake.dedup.loops.text_kernels import _siblings
from mmlake.dedup.matching import HOLDS, INSIDE, NONE, SAME, SIBLING_SCORE
from mmlake.dedup.text import alignment, pair_kernels, shared_bound, verdicts, walk_arrays
from mmlake.dedup.text.alignment import _aligned, _covered, _runs, _slot
from mmlake.dedup.text.pair_kernels import _judge, _listed, _looked_up, _note, _place_of, _recalled, _row_of
from mmlake.dedup.text.shared_bound import _filters, _most_shared
from mmlake.dedup.text.verdicts import (
    BLOCK_WORDS,
    JACCARD,
    LEAST_SHARED,
    MIN_CONTAINED,
    SURELY_SAME,
    UNDECIDED,
    WORDING,
    Alignment,
    _is_in_numbers,
    _is_named_anew,
    _is_one_page_beyond,
    _is_renamed,
    _is_retitled,
    code_of,
    has_other_subject,
    is_large,
    is_of_one_page,
    is_revision,
    is_scattered,
    most_kept,
    of_sets,
    of_words,
    siblings,
    wording_of,
)
from mmlake.dedup.text.walk_arrays import FILTER_BITS, HELD, LISTS, MARKS, ORDER, SCRATCH, STATE, TEXTS

_ALL = 2.0**64


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    compare: Callable[..., int]
    walk: Callable[..., int]
    looked_up: Callable[..., int]
    judge: Callable[..., int]
    filters: Callable[..., int]


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels, or None without numba."""
    compared = (
        _is_renamed, _is_named_anew, _is_retitled, _is_in_numbers, is_large, is_scattered, has_other_subject,
        is_of_one_page, is_revision, of_sets, of_words, siblings, most_kept, _is_one_page_beyond, wording_of,
        code_of, _covered, _slot, _runs, _aligned, _siblings, _num_words, _unpacked, _place_of, _listed,
        _row_of, _note, _recalled, _mark, _num_shared, _most_shared, _code, _alignment, _alignments, _judged,
        _measured, _compared,
    )  # fmt: skip
    walked = (
        *compared, _compared_units, _leaders_for, _follow, _takes, _take_members, _collapse, _join,
    )  # fmt: skip
    files = [
        verdicts,
        text_kernels,
        alignment,
        shared_bound,
        pair_kernels,
        matching,
        greedy,
        walk_arrays,
    ]
    found = loops(
        "text-walk",
        {
            "compare": Loop(_compare, (TEXTS, "i8*", "i8*", MARKS, "i1*", "f8*", "i1*"), compared),
            "walk": Loop(_walk, (TEXTS, ORDER, LISTS, STATE, SCRATCH, MARKS, HELD, "i8"), walked),
            "looked_up": Loop(_looked_up, ("u8*", "i8*", "i8*", "u1*", "u8", "u8", "i8*", "i8*", "u8*", "u1*")),
            "judge": Loop(
                _judge,
                ("u8*", "u1*", "i8*", "i8*", "u8", "i8*", "i8*", "i1*", "i8**"),
                (siblings, most_kept, _is_one_page_beyond, wording_of, code_of),
            ),
            "filters": Loop(_filters, ("u8*", "i8*", "u8*", "i4*")),
        },
        [__file__, *(str(one.__file__) for one in files)],
    )
    return None if found is None else Kernels(**found)


def _compare(
    texts: Any, left: Any, right: Any, marks: Any, relation: Any, score: Any, method: Any
) -> None:  # pragma: no cover: compiled
    """Fills what the left text of each pair is to the right one."""
    for at in range(right.shape[0]):
        relation[at], score[at], method[at] = _compared(texts, left[at], right[at], marks)


def _compared(texts: Any, one: Any, other: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """(relation of the one to the other, score, method)."""
    starts = texts.starts
    size, other_size = starts[one + 1] - starts[one], starts[other + 1] - starts[other]
    smaller = min(size, other_size)
    if texts.bits.shape[0] > 0 and max(size, other_size) <= FILTER_BITS // 2:
        most = _most_shared(texts, one, other)
        if most < LEAST_SHARED * smaller and most < texts.jaccard * (size + other_size - most):
            return NONE, 0.0, JACCARD
    row = _row_of(one, other, marks)
    if row >= 0:
        return _recalled(texts, one, other, row, marks)
    return _measured(texts, one, other, marks)


def _measured(texts: Any, one: Any, other: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """The same, of two that are not known."""
    size, other_size = texts.starts[one + 1] - texts.starts[one], texts.starts[other + 1] - texts.starts[other]
    shared, smaller = _num_shared(texts, one, other, marks), min(size, other_size)
    score = shared / max(1, size + other_size - shared)
    held = shared / max(1, smaller)
    is_like = shared > 0 and score >= texts.jaccard
    if is_like and score >= SURELY_SAME:
        return SAME, score, JACCARD
    if not is_like and held < LEAST_SHARED:
        return NONE, 0.0, JACCARD
    if not is_like and smaller < MIN_CONTAINED:
        return NONE, score, JACCARD
    code = _code(texts, one, other, marks)
    wording = code & WORDING
    relation, method = SAME, JACCARD
    if not is_like:
        relation, method = _judged(texts, one, other, held, wording, marks)
        score = held if relation in (INSIDE, HOLDS) else score
    else:
        left, right = _alignments(texts, one, other, marks)
        num, other_num = _num_words(texts, one), _num_words(texts, other)
        if not is_of_one_page(left, right, num, other_num, held, smaller, wording):
            relation = NONE
    _note(one, other, code, relation, method, score, marks)
    return relation, score, method


def _compared_units(texts: Any, items: Any, one: Any, other: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """The same, but for weak relations within one item, as `matching.OfItems` says."""
    relation, score, method = _compared(texts, one, other, marks)
    if items.shape[0] > 0 and items[one] == items[other] and score < SIBLING_SCORE:
        relation = NONE
    return relation, score, method


def _judged(texts: Any, one: Any, other: Any, held: Any, wording: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """(relation, method) of two texts whose Jaccard is below the bound."""
    starts = texts.starts
    size, other_size = starts[one + 1] - starts[one], starts[other + 1] - starts[other]
    num, other_num = _num_words(texts, one), _num_words(texts, other)
    relation, method = of_sets(held, size, other_size, num, other_num, wording)
    if relation != UNDECIDED:
        return relation, method
    left, right = _alignments(texts, one, other, marks)
    return of_words(left, right, num, other_num, held, wording, texts.match)


def _code(texts: Any, one: Any, other: Any, marks: Any) -> int:  # pragma: no cover: compiled
    """What two texts share, by who else holds it."""
    marks.other[0], marks.histograms[:] = other, 0
    _siblings(texts.shingles, texts.starts, one, marks.other, texts.table, texts.shift, texts.below, marks.histograms)
    return code_of(marks.histograms[0], texts.below / _ALL)


def _alignments(texts: Any, one: Any, other: Any, marks: Any) -> Any:  # pragma: no cover: compiled
    """What the words of each of two texts say about the other."""
    num, other_num = _unpacked(texts, one, marks.words[0]), _unpacked(texts, other, marks.words[1])
    words, other_words = marks.words[0, :num], marks.words[1, :other_num]
    out, covered, other_covered = marks.alignments, marks.covered[0, :num], marks.covered[1, :other_num]
    _covered(words, other_words, covered, marks.grams)
    _covered(other_words, words, other_covered, marks.grams)
    _aligned(words, other_words, covered, other_covered, BLOCK_WORDS, out, marks.names, marks.counts)
    return _alignment(out[0]), _alignment(out[1])


def _alignment(row: Any) -> Any:  # pragma: no cover: compiled
    return Alignment(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9])


def _mark(texts: Any, one: Any, marks: Any) -> None:  # pragma: no cover: compiled
    """Prepares the text to be compared with others: each of its shingles stands in one of two tables, at a place that
    follows from its bits, or in a short list."""
    first, second, shift = marks.first, marks.second, np.uint64(32)
    if marks.of[0] >= 0:
        mask = np.uint64(marks.of[1] - 1)
        for at in range(texts.starts[marks.of[0]], texts.starts[marks.of[0] + 1]):
            value = texts.shingles[at]
            first[value & mask] = second[(value >> shift) & mask] = np.uint64(0)
    low, high = texts.starts[one], texts.starts[one + 1]
    size, num = 16, 0
    while size < 3 * (high - low):
        size *= 2
    mask = np.uint64(size - 1)
    # an empty place holds what belongs elsewhere; nothing is put into place 0, where 0 belongs
    first[0], second[0] = np.uint64(1), np.uint64(1) << shift
    for at in range(low, high):
        value = texts.shingles[at]
        place, other = value & mask, (value >> shift) & mask
        if place != 0 and first[place] == 0:
            first[place] = value
        elif other != 0 and second[other] == 0:
            second[other] = value
        else:
            marks.rest[num] = value
            num += 1
    marks.of[0], marks.of[1], marks.of[2] = one, size, num


def _num_shared(texts: Any, one: Any, other: Any, marks: Any) -> int:  # pragma: no cover: compiled
    """How many shingles two texts have in common."""
    if marks.of[0] != one:
        _mark(texts, one, marks)
    values = texts.shingles[texts.starts[other] : texts.starts[other + 1]]
    first, second, shift = marks.first, marks.second, np.uint64(32)
    mask, num = np.uint64(marks.of[1] - 1), 0
    for at in range(values.shape[0]):
        value = values[at]
        num += (first[value & mask] == value) | (second[(value >> shift) & mask] == value)
    for at in range(marks.of[2]):
        low, high, value = 0, values.shape[0], marks.rest[at]
        while low < high:
            middle = (low + high) // 2
            if values[middle] < value:
                low = middle + 1
            else:
                high = middle
        num += low < values.shape[0] and values[low] == value
    return num


def _num_words(texts: Any, one: Any) -> Any:  # pragma: no cover: compiled
    """How many words the text has."""
    begin, end = texts.word_starts[one], texts.word_starts[one + 1]
    num = 2 * (end - begin)
    return num - 1 if num > 0 and texts.words[end - 1] & np.uint64(0xFFFFFFFF) == np.uint64(0) else num


def _unpacked(texts: Any, one: Any, words: Any) -> Any:  # pragma: no cover: compiled
    """How many words the text has; fills them as `text.unpacked` gives them."""
    begin, end = texts.word_starts[one], texts.word_starts[one + 1]
    for at in range(end - begin):
        pair = texts.words[begin + at]
        words[2 * at] = np.uint32(pair >> np.uint64(32))
        words[2 * at + 1] = np.uint32(pair & np.uint64(0xFFFFFFFF))
    num = 2 * (end - begin)
    return num - 1 if num > 0 and words[num - 1] == 0 else num


def _leaders_for(one: Any, order: Any, lists: Any, state: Any, scratch: Any) -> int:  # pragma: no cover: compiled
    """How many leaders the text is compared with; fills them in survivor order."""
    num_shared, touched, leaders, most = state.num_shared, scratch.touched, scratch.leaders, scratch.shared
    num_touched, num, least, last = 0, 0, np.int64(0), np.int64(0)
    for at in range(lists.offsets[one], lists.offsets[one + 1]):
        key = lists.ids[at]
        for slot in range(lists.starts[key], lists.starts[key] + lists.counts[key]):
            place = lists.slots[slot]
            if num_shared[place] == 0:
                touched[num_touched] = place
                num_touched += 1
            num_shared[place] += 1
    for at in range(num_touched):
        place = touched[at]
        shared, num_shared[place] = num_shared[place], 0
        if num == MOST_LEADERS and (shared < least or (shared == least and place > last)):
            continue
        # the list stays in order: most keys in common first, then the better placed
        spot = num
        while spot > 0 and (most[spot - 1] < shared or (most[spot - 1] == shared and leaders[spot - 1] > place)):
            spot -= 1
        num = min(num + 1, MOST_LEADERS)
        for later in range(num - 1, spot, -1):
            leaders[later], most[later] = leaders[later - 1], most[later - 1]
        leaders[spot], most[spot] = place, shared
        least, last = most[num - 1], leaders[num - 1]
    for at in range(1, num):
        place, spot = leaders[at], at
        while spot > 0 and leaders[spot - 1] > place:
            leaders[spot] = leaders[spot - 1]
            spot -= 1
        leaders[spot] = place
    for at in range(num):
        leaders[at] = order.order[leaders[at]]
    return num


def _follow(one: Any, leader: Any, relation: Any, score: Any, method: Any, state: Any) -> None:  # pragma: no cover
    """One text follows another; relation: of the one to the leader."""
    state.leader_of[one], state.relation[one], state.score[one], state.method[one] = leader, relation, score, method
    state.followed[state.ends[0]] = one
    state.ends[0] += 1


def _take_members(one: Any, leader: Any, texts: Any, order: Any, state: Any, marks: Any) -> None:  # pragma: no cover
    """The texts with the same prints as the one, which are marked as its followers, follow that leader instead; what
    it does not take is released."""
    group = order.group_of[one]
    if group < 0:
        return
    for at in range(order.group_starts[group] + 1, order.group_starts[group + 1]):
        member = order.grouped[at]
        if state.leader_of[member] == one and not _takes(leader, member, texts, order, state, marks):
            state.leader_of[member] = -1
            state.is_released[member] = True


def _takes(leader: Any, one: Any, texts: Any, order: Any, state: Any, marks: Any) -> bool:  # pragma: no cover: compiled
    """Whether the leader is compared with the one and takes it."""
    relation, score, method = _compared_units(texts, order.items, leader, one, marks)
    if relation in (SAME, HOLDS):
        _follow(one, leader, SAME if relation == SAME else INSIDE, score, method, state)
        return True
    return False


def _collapse(texts: Any, order: Any, state: Any, marks: Any) -> None:  # pragma: no cover: compiled
    """The first of each group of texts with equal prints takes the others, where the exact measure agrees."""
    for group in range(order.group_starts.shape[0] - 1):
        first = order.grouped[order.group_starts[group]]
        for at in range(order.group_starts[group] + 1, order.group_starts[group + 1]):
            if _takes(first, order.grouped[at], texts, order, state, marks):
                state.head_of[order.grouped[at]] = first


def _walk(
    texts: Any, order: Any, lists: Any, state: Any, scratch: Any, marks: Any, held: Any, begin: Any
) -> int:  # pragma: no cover: compiled
    """Leads the texts from that place on; where it stopped because `held` is full, or their number."""
    if begin == 0:
        _collapse(texts, order, state, marks)
    for at in range(begin, order.order.shape[0]):
        one = order.order[at]
        low, high = lists.offsets[one], lists.offsets[one + 1]
        if low == high or state.leader_of[one] >= 0 or state.is_released[one]:
            continue
        if state.ends[1] + MOST_LEADERS > held.left.shape[0]:
            return at
        num = _leaders_for(one, order, lists, state, scratch)
        if num > 0 and _join(one, num, texts, order, state, scratch, marks, held):
            continue
        for spot in range(low, high):
            key = lists.ids[spot]
            if lists.starts[key] + lists.counts[key] < lists.starts[key + 1]:
                lists.slots[lists.starts[key] + lists.counts[key]] = at
                lists.counts[key] += 1
    return int(order.order.shape[0])


def _join(
    one: Any, num: Any, texts: Any, order: Any, state: Any, scratch: Any, marks: Any, held: Any
) -> bool:  # pragma: no cover: compiled
    """Whether the text follows one of its leaders; what else was found is noted."""
    best = -1.0
    for at in range(num):
        leader = scratch.leaders[at]
        relation, score, method = _compared_units(texts, order.items, one, leader, marks)
        scratch.relation[at], scratch.score[at], scratch.method[at] = relation, score, method
        if relation in (SAME, INSIDE):
            best = max(best, score)
        elif relation == HOLDS:
            row = state.ends[1]
            held.left[row], held.right[row], held.score[row], held.method[row] = one, leader, score, method
            state.ends[1] += 1
        elif score > state.missed_score[one]:
            state.missed[one], state.missed_score[one], state.missed_method[one] = leader, score, method
    for at in range(num):
        relation, score = scratch.relation[at], scratch.score[at]
        if relation in (SAME, INSIDE) and score >= best - AS_ALIKE:
            leader = scratch.leaders[at]
            _follow(one, leader, relation, score, scratch.method[at], state)
            _take_members(one, leader, texts, order, state, marks)
            return True
    return False
