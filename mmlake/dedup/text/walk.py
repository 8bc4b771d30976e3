"""The first walk over texts, compiled: which of them follows which, as `leaders.Walk` finds it with any matcher.

Candidates, the exact measures and the choice of a leader are one loop, so that a text costs what its comparisons cost
and not a hundred calls of numpy. No rule is made here: they stand in `greedy`, `text.verdicts` and `text.templates`,
and the outcome is theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake import engine
from mmlake.dedup.greedy import MOST_LEADERS, Edges, Led
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.loops.machine_code import Given
from mmlake.dedup.matching import INSIDE, NONE, Found
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Positions, Ragged
from mmlake.dedup.text import walk_kernels
from mmlake.dedup.text.pairs import KnownPairs
from mmlake.dedup.text.templates import Commonness
from mmlake.dedup.text.walk_arrays import (
    FILTER_NUMBERS,
    MARKS,
    TEXTS,
    Held,
    Lists,
    Marks,
    Order,
    Scratch,
    State,
    Texts,
)
from mmlake.dedup.text.walk_kernels import Kernels
from mmlake.engine import current

_FIRST_ROOM = 1 << 10  # for pairs of a text and a leader that lies inside it
_BLOCK = 1 << 20  # texts, or places of leaders that are made positions, at once


def compiled(work: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return walk_kernels.kernels() if text_kernels.is_worthwhile(work) else None


def texts_of(shingles: Ragged, words: Ragged, commonness: Commonness, jaccard: float, match: float) -> Given:
    """What the kernels read of texts; the bounds are those of `DedupSettings`."""
    fixed = np.ascontiguousarray
    texts = Texts(
        fixed(shingles.values), fixed(shingles.offsets), fixed(words.values), fixed(words.offsets), commonness.table,
        commonness.shift, commonness.below, float(jaccard), float(match), np.empty(0, np.uint64), np.empty(0, np.int32),
    )  # fmt: skip
    return Given.of(TEXTS, texts)


def marks_for(texts: Given, pairs: KnownPairs) -> Given:
    """Room for the shingles and words of any one of the texts."""
    most = int(np.diff(texts.value.starts).max(initial=0))
    most_words = 2 * int(np.diff(texts.value.word_starts).max(initial=0))
    size, num_names = 1 << max(4, (3 * most).bit_length()), 1 << max(4, (4 * most_words).bit_length())
    marks = Marks(
        of=np.array([-1, 0, 0]),
        first=np.zeros(size, np.uint64),
        second=np.zeros(size, np.uint64),
        rest=np.empty(most, np.uint64),
        other=np.empty(1, np.int64),
        histograms=np.empty((1, 3, 256), np.int64),
        **pairs.rows._asdict(),
        ends=pairs.ends,
        slots=pairs.slots,
        is_beyond=pairs.is_beyond,
        words=np.empty((2, most_words), np.uint32),
        covered=np.empty((2, most_words), np.bool_),
        alignments=np.empty((2, 10), np.int64),
        grams=np.empty(num_names, np.uint64),
        names=np.empty(num_names, np.uint32),
        counts=np.empty((10, num_names), np.int64),
    )
    return Given.of(MARKS, marks)


def compared(kernels: Kernels, texts: Given, marks: Given, left: Positions, right: Positions) -> Found:
    """The texts of each pair; pairs with the same left one should stand together."""
    found = Found(np.empty(len(right), np.int8), np.empty(len(right)), np.empty(len(right), np.int8))
    sides = np.ascontiguousarray(left, np.int64), np.ascontiguousarray(right, np.int64)
    kernels.compare(texts, *sides, marks, found.relation, found.score, found.method)
    return found


def _with_filters(kernels: Kernels, texts: Given) -> Given:
    """With bits for each text, which say of most pairs that they share too little."""
    num = len(texts.value.starts) - 1
    bits, spare = current().zeros(FILTER_NUMBERS * num, np.uint64), np.zeros(num, np.int32)
    kernels.filters(texts.value.shingles, texts.value.starts, bits, spare)
    return Given.of(TEXTS, texts.value._replace(bits=bits, spare=spare))


def walked(
    kernels: Kernels,
    texts: Given,
    marks: Given,
    postings: Postings,
    order: Positions,
    equal: NDArray[np.uint64],
    items: Positions | None,
) -> Led:
    """What `leaders.Walk` finds of these texts. postings: of their keys, nobody listed; the leaders are, afterwards."""
    texts = _with_filters(kernels, texts)
    lists = Lists(postings._ids, postings._offsets, postings._starts, postings._slots, postings._counts)
    given, state, held = _ordered(order, equal, items), _state(len(order)), _room(_FIRST_ROOM)
    scratch = Scratch(
        touched=engine.current().zeros(len(order), np.int64),
        leaders=np.empty(MOST_LEADERS, np.int64),
        shared=np.empty(MOST_LEADERS, np.int64),
        relation=np.empty(MOST_LEADERS, np.int64),
        score=np.empty(MOST_LEADERS),
        method=np.empty(MOST_LEADERS, np.int64),
    )
    at = kernels.walk(texts, given, lists, state, scratch, marks, held, 0)
    while at < len(order):
        held = Held(*(np.concatenate(pair) for pair in zip(held, _room(len(held.left)), strict=True)))
        at = kernels.walk(texts, given, lists, state, scratch, marks, held, at)
    for low in range(0, len(lists.slots), _BLOCK):
        listed = lists.slots[low : low + _BLOCK]
        listed[:] = given.order[listed]
    return _led(state, held)


def _led(state: State, held: Held) -> Led:
    num_followed, num_held = state.ends.tolist()
    followed = state.followed[:num_followed]
    last = engine.current().full(len(state.leader_of), -1, np.int64)
    last[followed] = np.arange(num_followed)
    follows = followed[(last[followed] == np.arange(num_followed)) & (state.leader_of[followed] >= 0)]
    missed = np.flatnonzero(state.missed >= 0)
    none = np.empty(0, np.int64)
    return Led(
        follows=Edges(
            state.leader_of[follows], follows, state.relation[follows], state.score[follows], state.method[follows]
        ),
        held=Edges(
            held.left[:num_held],
            held.right[:num_held],
            np.full(num_held, INSIDE, np.int8),
            held.score[:num_held],
            held.method[:num_held],
        ),
        overlaps=Edges(none, none, none.astype(np.int8), none.astype(np.float64), none.astype(np.int8)),
        misses=Edges(
            state.missed[missed],
            missed,
            np.full(len(missed), NONE, np.int8),
            state.missed_score[missed],
            state.missed_method[missed],
        ),
        released=np.flatnonzero(state.is_released),
        head_of=state.head_of,
    )


def _ordered(order: Positions, equal: NDArray[np.uint64], items: Positions | None) -> Order:
    """The order, and the groups of texts with equal prints."""
    num = len(order)
    place, group_of = engine.current().zeros(num, np.int64), engine.current().full(num, -1, np.int64)
    place[order] = np.arange(num)
    rows = _with_equals(equal)
    rows = rows[np.lexsort((place[rows], equal[rows, 1], equal[rows, 0]))]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (equal[rows[1:]] != equal[rows[:-1]]).any(axis=1)
    starts = np.append(np.flatnonzero(is_first), len(rows))
    group_of[rows[is_first]] = np.arange(len(starts) - 1)
    items = np.empty(0, np.int64) if items is None else np.asarray(items, np.int64)
    arrays = map(np.ascontiguousarray, (np.asarray(order, np.int64), place, items, group_of, starts, rows))
    return Order(*arrays)


def _with_equals(equal: NDArray[np.uint64]) -> Positions:
    """The texts of which another one may have the prints: few, as a rule."""
    halves = np.sort(equal[:, 0])
    again = halves[1:][halves[1:] == halves[:-1]]
    found = [np.empty(0, np.int64)]
    for low in range(0, len(equal) if len(again) else 0, _BLOCK):
        block = equal[low : low + _BLOCK]
        at = np.minimum(np.searchsorted(again, block[:, 0]), len(again) - 1)
        found.append(low + np.flatnonzero((again[at] == block[:, 0]) & block.any(axis=1)))
    return np.concatenate(found)


def _state(num: int) -> State:
    zeros, full = engine.current().zeros, engine.current().full
    return State(
        leader_of=full(num, -1, np.int64),
        head_of=full(num, -1, np.int64),
        relation=zeros(num, np.int8),
        score=zeros(num, np.float64),
        method=zeros(num, np.int8),
        followed=zeros(2 * num, np.int64),
        is_released=zeros(num, np.bool_),
        missed=full(num, -1, np.int64),
        missed_score=zeros(num, np.float64),
        missed_method=zeros(num, np.int8),
        num_shared=zeros(num, np.int32),
        ends=np.zeros(2, np.int64),
    )


def _room(num: int) -> Held:
    return Held(np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num), np.empty(num, np.int8))
