"""Which texts are the same: the matcher of the text tier.

Enters: prints of texts. Leaves: keys for candidates, and for a pair its relation. Three measures decide, one after
the other: Jaccard of the shingle sets; the share of the smaller set that the larger one holds; and the words, where
shingles alone say too little: of two versions with every seventh word replaced they share 45 % only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import text_kernels
from mmlake.dedup.matching import HOLDS, INSIDE, NONE, SAME, Found
from mmlake.dedup.prints import PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.text import num_packed, unpacked
from mmlake.dedup.text_templates import Commonness

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

JACCARD, CONTAINED, REVISION = range(3)
METHODS = ("jaccard-5gram", "containment-5gram", "revision")

_KEY_SHARE = 16  # one in so many shingles of a long text is a key
_MIN_KEYS = 32  # of each text: its smallest shingles, so that equal stretches have equal keys
_BLOCK_WORDS = 12  # a run this long without a shared 3-gram is a passage, not an edit
_LEAST_SHARED = 0.2  # of the smaller set's shingles; below it no word is compared. Every seventh word replaced: .26-.6
_VERBATIM = 0.97  # of the smaller set in the larger one
_MIN_CONTAINED = 8  # shingles of a text that may lie inside another
_MIN_REVISION_WORDS = 48
_LIKE_LENGTH = 0.8  # shorter to longer, of two versions of which neither was cut
_CUT_MATCH = 0.9
_SAME_LENGTH = 0.5  # shorter to longer, from which either of two texts may go
_INSIDE_SHARED = 0.5
_INSIDE_COVERED = 0.85
_OWN_FRACTION = 0.1  # of both texts in passages that the other lacks
_FEW_EDITS = 0.04  # of the words; fewer say nothing about what kind of edits they are
_NUMBER_FRACTION = 0.35  # of the words that the other lacks; edits leave at most .15
_REPEATED_FRACTION = 0.3
_REPETITION = 1.35  # times that a word which the other lacks stands in its text; edits on both sides 1.1 at most


class Alignment(NamedTuple):
    """What the words of one text say about another one."""

    covered: int  # words in a 3-gram that the other holds, anywhere
    matched: int  # other words that the other text also has uncovered, each once
    absent: int  # words that the other never has
    distinct: int  # of the absent ones
    repeated: int  # absent ones that stand in the text three times or more
    numbers: int  # absent ones with a digit
    own: int  # words in passages of its own


class TextMatcher:
    """Texts by their shingles and words."""

    min_shared = 1
    neighbours = None

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        """prints: rows of "shingles" and "words"."""
        self._shingles, self._words, self._settings = prints["shingles"], prints["words"], settings
        self._sizes = self._shingles.lengths
        self._commonness = Commonness(self._shingles)
        self.keys = sampled(self._shingles)

    def compare(self, one: int, others: I64) -> Found:
        """Jaccard where it is the measure; for a text inside another the share of its shingles that the other has."""
        others = np.asarray(others, np.int64)
        shared = shared_counts(self._shingles.values, self._shingles.offsets, one, others)
        smaller = np.minimum(self._sizes[one], self._sizes[others])
        score = shared / np.maximum(1, self._sizes[one] + self._sizes[others] - shared)
        held = shared / np.maximum(1, smaller)
        relation = np.where((score >= self._settings.text_jaccard) & (shared > 0), SAME, NONE).astype(np.int8)
        method = np.zeros(len(others), np.int8)
        unclear = np.flatnonzero((relation == NONE) & (held >= _LEAST_SHARED) & (smaller >= _MIN_CONTAINED))
        if not len(unclear):
            return Found(relation, score, method)
        are_templates = self._commonness.are_templates(one, others[unclear])
        for at, is_template in zip(unclear.tolist(), are_templates.tolist(), strict=True):
            if is_template and held[at] < _VERBATIM:
                continue
            relation[at], method[at] = self._judged(one, int(others[at]), float(held[at]), is_template=is_template)
            if relation[at] in (INSIDE, HOLDS):
                score[at] = held[at]
        return Found(relation, score, method)

    def _judged(self, one: int, other: int, held: float, *, is_template: bool) -> tuple[int, int]:
        """(relation, method) of two texts whose Jaccard is below the bound."""
        sizes = self._sizes[one], self._sizes[other]
        if held >= _VERBATIM:
            is_like = min(sizes) >= _SAME_LENGTH * max(sizes) and not is_template
            return (SAME if is_like else INSIDE if sizes[0] < sizes[1] else HOLDS), CONTAINED
        words = self._words[one], self._words[other]
        num_words = num_packed(words[0]), num_packed(words[1])
        if min(num_words) < _MIN_REVISION_WORDS:
            return NONE, JACCARD
        is_like = min(num_words) >= _SAME_LENGTH * max(num_words)
        if not is_like and held < _INSIDE_SHARED:
            return NONE, JACCARD
        aligned = alignments(*words)
        if not is_revision(*aligned, num_words, settings=self._settings):
            return NONE, JACCARD
        if is_like:
            return SAME, REVISION
        short = aligned[0] if num_words[0] < num_words[1] else aligned[1]
        if short.covered < _INSIDE_COVERED * min(num_words):
            return NONE, JACCARD
        return (INSIDE if num_words[0] < num_words[1] else HOLDS), REVISION


def sampled(shingles: Ragged) -> Ragged:
    """The keys of each sorted set: its values below a bound that is the same for all, and at least the smallest ones.
    So equal passages of two texts have keys in common."""
    num_low = np.zeros(len(shingles), np.int64)
    if len(held := np.flatnonzero(shingles.lengths)):
        is_low = shingles.values < np.uint64(2**64 // _KEY_SHARE)
        num_low[held] = np.add.reduceat(is_low, shingles.offsets[:-1][held], dtype=np.int64)
    lengths = np.minimum(shingles.lengths, np.maximum(num_low, _MIN_KEYS))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.arange(offsets[-1]) + np.repeat(shingles.offsets[:-1] - offsets[:-1], lengths)
    return Ragged(shingles.values[places], offsets)


def key_recall(jaccard: float) -> float:
    """The probability, at least, that two texts this much alike have a key in common and so are compared.

    Of the smallest shingles of both texts together each is shared with probability `jaccard`, and a shared one is a key
    of both (Bar-Yossef et al. 2002, k minimum values).
    """
    return 1.0 - (1.0 - jaccard) ** _MIN_KEYS


def shared_counts(values: U64, offsets: I64, one: int, others: I64) -> I64:
    """How many values row `one` has in common with each of the others. Rows are sorted and distinct."""
    counts = np.zeros(len(others), np.int64)
    sizes = offsets[others + 1] - offsets[others]
    kernels = text_kernels.compiled(int(sizes.sum()))
    if kernels is not None:
        kernels.shared(values, offsets, one, others, counts)
        return counts
    row = values[offsets[one] : offsets[one + 1]]
    if not len(row):
        return counts
    for at, other in enumerate(others.tolist()):
        candidate = values[offsets[other] : offsets[other + 1]]
        places = np.minimum(np.searchsorted(row, candidate), len(row) - 1)
        counts[at] = np.count_nonzero(row[places] == candidate)
    return counts


def alignments(left: U64, right: U64) -> tuple[Alignment, Alignment]:
    """What the words of each of two texts say about the other. left, right: words as prints hold them."""
    one, other = unpacked(left), unpacked(right)
    kernels = text_kernels.compiled(len(one) + len(other))
    if kernels is not None:
        out = np.zeros((2, 7), np.int64)
        is_covered, also = np.zeros(len(one), np.bool_), np.zeros(len(other), np.bool_)
        kernels.covered(one, other, is_covered)
        kernels.covered(other, one, also)
        kernels.aligned(one, other, is_covered, also, _BLOCK_WORDS, out)
        return Alignment(*out[0].tolist()), Alignment(*out[1].tolist())
    is_covered, also = _covered(one, other), _covered(other, one)
    return _aligned(one, is_covered, other, also), _aligned(other, also, one, is_covered)


def _covered(words: NDArray[np.uint32], others: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which words lie in a 3-gram of the other text."""
    out = np.zeros(len(words), np.bool_)
    hits = np.flatnonzero(np.isin(_grams(words), _grams(others)))
    for offset in range(3):
        out[hits + offset] = True
    return out


def _grams(words: NDArray[np.uint32]) -> U64:
    wide = words.astype(np.uint64)
    grams: U64 = (
        wide[:-2] * np.uint64(0x9E3779B97F4A7C15)
        + wide[1:-1] * np.uint64(0xBF58476D1CE4E5B9)
        + wide[2:] * np.uint64(0x94D049BB133111EB)
    )
    grams ^= grams >> np.uint64(29)
    grams |= np.uint64(1)
    return grams


def _aligned(
    words: NDArray[np.uint32], is_covered: NDArray[np.bool_], others: NDArray[np.uint32], also: NDArray[np.bool_]
) -> Alignment:
    left, left_counts = np.unique(words[~is_covered], return_counts=True)
    right, right_counts = np.unique(others[~also], return_counts=True)
    _, here, there = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    absent = words[~np.isin(words, others)]
    _, counts = np.unique(absent, return_counts=True)
    is_own = ~is_covered & ~np.isin(words, right)
    edges = np.diff(np.r_[0, (~is_covered).astype(np.int8), 0])
    own = 0
    for begin, end in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
        num = int(is_own[begin:end].sum())
        own += num if end - begin >= _BLOCK_WORDS and 2 * num >= end - begin else 0
    return Alignment(
        covered=int(is_covered.sum()),
        matched=int(np.minimum(left_counts[here], right_counts[there]).sum()),
        absent=len(absent),
        distinct=len(counts),
        repeated=int(counts[counts >= 3].sum()),
        numbers=int((absent & np.uint32(1)).sum()),
        own=own,
    )


def is_revision(one: Alignment, other: Alignment, num_words: tuple[int, int], *, settings: DedupSettings) -> bool:
    """Whether the shorter text is the longer one with words edited: most of its words have their counterpart, and what
    differs is neither a passage of each, nor numbers, nor one subject in place of another."""
    bound = settings.text_revision_match
    if min(num_words) < _LIKE_LENGTH * max(num_words):  # something was cut off or put in, and little else happened
        bound = max(bound, _CUT_MATCH)
    short, long = (one, other) if num_words[0] <= num_words[1] else (other, one)
    cut = long.own if bound > settings.text_revision_match else 0
    if short.covered + short.matched < bound * min(num_words):
        return False
    if long.covered + long.matched + cut < bound * max(num_words):
        return False
    sides = list(zip((one, other), num_words, strict=True))
    if min(side.own / num for side, num in sides) > _OWN_FRACTION:
        return False
    if min(side.absent / num for side, num in sides) < _FEW_EDITS:
        return True
    numbers = min(side.numbers / side.absent for side, _ in sides)
    repeated = min(side.repeated / side.absent for side, _ in sides)
    repetition = min(side.absent / side.distinct for side, _ in sides)
    is_subject = repeated >= _REPEATED_FRACTION and repetition >= _REPETITION
    return numbers < _NUMBER_FRACTION and not is_subject
