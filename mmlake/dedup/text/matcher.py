"""Which texts are the same: the matcher of the text tier.

Enters: prints of texts. Leaves: keys for candidates, and for a pair its relation. Three measures decide, one after
the other: Jaccard of the shingle sets; the share of the smaller set that the larger one holds; and the words, where
shingles alone say too little: of two versions with every seventh word replaced they share 45 % only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Led
from mmlake.dedup.loops import key_kernels, text_kernels
from mmlake.dedup.matching import HOLDS, INSIDE, NONE, SAME, Found
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import PrintTable, Ragged, blocks_of
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.text import walk
from mmlake.dedup.text.fingerprints import num_packed, unpacked
from mmlake.dedup.text.pairs import KnownPairs, Pairs, wordings
from mmlake.dedup.text.templates import Commonness, any_of
from mmlake.dedup.text.verdicts import (
    BLOCK_WORDS,
    LEAST_SHARED,
    MIN_CONTAINED,
    SURELY_SAME,
    TITLE_WORDS,
    UNDECIDED,
    Alignment,
    is_of_one_page,
    of_sets,
    of_words,
)
from mmlake.engine import cumulated, current

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

METHODS = ("jaccard-5gram", "containment-5gram", "revision")

_KEY_SHARE = 16  # one in so many shingles of a long text is a key
_MIN_KEYS = 32  # of each text: its smallest shingles, so that equal stretches have equal keys
_SLOTS_PER_KEY = 64  # of a filter before keys are sought
_BLOCK = 1 << 20  # shingles at once
_WALK_WORK = 100  # for one text, in the unit of `text_kernels`


class TextMatcher:
    """Texts by their shingles and words."""

    min_shared = 1
    neighbours = None

    def __init__(
        self,
        prints: PrintTable,
        settings: DedupSettings,
        *,
        commonness: Commonness | None = None,
        known: Pairs | None = None,
    ) -> None:
        """prints: rows of "shingles" and "words". commonness: of a corpus that these texts are a part of. known: pairs
        of them that are not compared again."""
        self._shingles, self._words, self._settings = prints["shingles"], prints["words"], settings
        self._sizes = current().laid(self._shingles.lengths)
        self._commonness = Commonness(self._shingles) if commonness is None else commonness.of(self._shingles)
        self.keys = sampled(self._shingles)
        bounds = settings.text_jaccard, settings.text_revision_match
        self._texts = walk.texts_of(self._shingles, self._words, self._commonness, *bounds)
        self.pairs = KnownPairs(len(self._sizes), known)
        self._marks = walk.marks_for(self._texts, self.pairs)

    def compare(self, one: int, others: I64) -> Found:
        """Jaccard where it is the measure; for a text inside another the share of its shingles that the other has. The
        score is 0 where less than a fifth of the smaller set is shared: nothing is alike."""
        others = np.asarray(others, np.int64)
        kernels = walk.compiled(int(self._sizes[others].sum()))
        if kernels is not None:
            found = walk.compared(kernels, self._texts, self._marks, np.full(len(others), one), others)
        else:
            found = self._compared(one, others)
        return self._close(found, np.full(len(others), one), others)

    def _compared(self, one: int, others: I64) -> Found:
        """The same without compiled code, and without what closeness adds."""
        shared = shared_counts(self._shingles.values, self._shingles.offsets, one, others)
        smaller = np.minimum(self._sizes[one], self._sizes[others])
        score = shared / np.maximum(1, self._sizes[one] + self._sizes[others] - shared)
        held = shared / np.maximum(1, smaller)
        relation = np.where((score >= self._settings.text_jaccard) & (shared > 0), SAME, NONE).astype(np.int8)
        score = np.where((relation == NONE) & (held < LEAST_SHARED), 0.0, score)
        method = np.zeros(len(others), np.int8)
        is_unclear = (relation == NONE) & (held >= LEAST_SHARED) & (smaller >= MIN_CONTAINED)
        unclear = np.flatnonzero(is_unclear | ((relation == SAME) & (score < SURELY_SAME)))
        if not len(unclear):
            return Found(relation, score, method)
        codes = self._commonness.codes(one, others[unclear])
        for at, wording in zip(unclear.tolist(), wordings(codes).tolist(), strict=True):
            if relation[at] == SAME:
                relation[at] = self._is_of_one_page(one, int(others[at]), float(held[at]), wording)
                continue
            relation[at], method[at] = self._judged(one, int(others[at]), float(held[at]), wording=wording)
            if relation[at] in (INSIDE, HOLDS):
                score[at] = held[at]
        found = Found(relation, score, method)
        self.pairs.add(one, others[unclear], codes, found.at(unclear))
        return found

    def compare_pairs(self, left: I64, right: I64) -> Found | None:
        """The texts of each pair, by compiled code; None where that does not pay."""
        kernels = walk.compiled(int(self._sizes[right].sum()))
        if kernels is None:
            return None
        return self._close(walk.compared(kernels, self._texts, self._marks, left, right), left, right)

    def _close(self, found: Found, left: I64, right: I64) -> Found:
        """The same, where closeness is the Jaccard, also of a text inside another one: by containment what holds the
        most, an original with an advertisement in it, would be the closest to all that was cut out of either."""
        small, large = (side(self._sizes[left], self._sizes[right]) for side in (np.minimum, np.maximum))
        is_held = (found.relation == INSIDE) | (found.relation == HOLDS)
        held = np.where(is_held, found.score, 0.0) * small
        return found.closer(np.where(held > 0, held / np.maximum(1, small + large - held), found.score))

    def lacks(self, ones: I64, others: I64) -> NDArray[np.float64]:
        """Of each pair how many of the words of either the other one lacks, as a share of them; the larger one."""
        pairs = zip(ones.tolist(), others.tolist(), strict=True)
        return np.array([lacking(self._words[one], self._words[other]) for one, other in pairs], np.float64)

    def walked(self, order: I64, *, equal: U64, postings: Postings, items: I64 | None = None) -> Led | None:
        """What `leaders.Walk` would find, by compiled code; None where that does not pay."""
        kernels = walk.compiled(_WALK_WORK * len(order))
        if kernels is None:
            return None
        return walk.walked(kernels, self._texts, self._marks, postings, order, equal, items)

    def _is_of_one_page(self, one: int, other: int, held: float, wording: int) -> int:
        """SAME, for two texts whose Jaccard is above the bound; NONE where they are two pages of one schema."""
        words, size = (self._words[one], self._words[other]), int(min(self._sizes[one], self._sizes[other]))
        num_words = num_packed(words[0]), num_packed(words[1])
        return SAME if is_of_one_page(*alignments(*words), *num_words, held, size, wording) else NONE

    def _judged(self, one: int, other: int, held: float, *, wording: int) -> tuple[int, int]:
        """(relation, method) of two texts whose Jaccard is below the bound."""
        words = self._words[one], self._words[other]
        num_words = num_packed(words[0]), num_packed(words[1])
        decided = of_sets(held, int(self._sizes[one]), int(self._sizes[other]), *num_words, wording)
        if decided[0] != UNDECIDED:
            return decided
        return of_words(*alignments(*words), *num_words, held, wording, self._settings.text_revision_match)


def sampled(shingles: Ragged) -> Ragged:
    """The keys of each sorted set: its values below a bound that is the same for all, and at least the smallest ones.
    So equal passages of two texts have keys in common."""
    lengths = np.zeros(len(shingles), np.int64)
    kernels = key_kernels.compiled(len(shingles.values))
    if kernels is not None:
        kernels.low(shingles.values, shingles.offsets, np.uint64(2**64 // _KEY_SHARE), lengths)
    else:
        _count_low(shingles, lengths)
    np.minimum(shingles.lengths, np.maximum(lengths, _MIN_KEYS), out=lengths)
    offsets = cumulated(lengths, current())
    values = current().zeros(int(offsets[-1]), np.uint64)
    for low, high in blocks_of(offsets[1:], _BLOCK):
        begin, end = int(offsets[low]), int(offsets[high])
        shift = np.repeat(shingles.offsets[low:high] - offsets[low:high], lengths[low:high])
        values[begin:end] = shingles.values[np.arange(begin, end) + shift]
    return Ragged(values, offsets)


def _count_low(shingles: Ragged, out: I64) -> None:
    """Fill in how many values of each row may be keys because they are small."""
    for low, high in blocks_of(shingles.offsets[1:], _BLOCK):
        offsets = shingles.offsets[low : high + 1]
        held = np.flatnonzero(np.diff(offsets))
        if len(held):
            is_low = shingles.values[offsets[0] : offsets[-1]] < np.uint64(2**64 // _KEY_SHARE)
            out[low + held] = np.add.reduceat(is_low, offsets[held] - offsets[0], dtype=np.int64)


def mark_holders(shingles: Ragged, keys: U64, out: NDArray[np.bool_]) -> None:
    """Mark the texts that have one of these keys, which are sorted and distinct, among theirs."""
    kernels = key_kernels.compiled(len(shingles.values))
    if kernels is None:
        mine = sampled(shingles)
        out |= any_of(np.isin(mine.values, keys), mine.offsets)
        return
    bits = max(10, (_SLOTS_PER_KEY * len(keys)).bit_length())
    is_slot, shift = np.zeros(1 << bits, np.bool_), np.uint64(64 - bits)
    is_slot[(keys * np.uint64(0x9E3779B97F4A7C15)) >> shift] = True
    bound = np.uint64(2**64 // _KEY_SHARE)
    kernels.hits(shingles.values, shingles.offsets, bound, _MIN_KEYS, keys, np.packbits(is_slot), shift, out)


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


def lacking(left: U64, right: U64) -> float:
    """Of the words of either text how many the other one lacks, each as often as it stands there, as a share of them;
    the larger one of both. left, right: words as prints hold them."""
    words, counts = np.unique(unpacked(left), return_counts=True)
    others, num = np.unique(unpacked(right), return_counts=True)
    _, here, there = np.intersect1d(words, others, assume_unique=True, return_indices=True)
    held = int(np.minimum(counts[here], num[there]).sum())
    return 1 - held / max(1, int(counts.sum()), int(num.sum()))


def alignments(left: U64, right: U64) -> tuple[Alignment, Alignment]:
    """What the words of each of two texts say about the other. left, right: words as prints hold them."""
    one, other = unpacked(left), unpacked(right)
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
    own, short = 0, np.zeros(len(words), np.bool_)
    run = np.cumsum(edges[:-1] == 1)
    for begin, end in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
        num = int(is_own[begin:end].sum())
        own += num if end - begin >= BLOCK_WORDS and 2 * num >= end - begin else 0
        short[begin:end] = end - begin < BLOCK_WORDS
    replaced, thorough = _replaced(words, others, np.flatnonzero(short), run)
    return Alignment(
        covered=int(is_covered.sum()),
        matched=int(np.minimum(left_counts[here], right_counts[there]).sum()),
        absent=len(absent),
        distinct=len(counts),
        repeated=int(counts[counts >= 3].sum()),
        numbers=int((absent & np.uint32(1)).sum()),
        own=own,
        replaced=replaced,
        thorough=thorough,
        titular=_titular(words, others, is_covered),
    )


def _titular(words: NDArray[np.uint32], others: NDArray[np.uint32], is_covered: NDArray[np.bool_]) -> int:
    """As `Alignment` has it."""
    title = words[:TITLE_WORDS][~is_covered[:TITLE_WORDS]]
    here = np.array([np.count_nonzero(words == word) for word in title], np.int64)
    there = np.array([np.count_nonzero(others == word) for word in title], np.int64)
    return int(((here >= 2) & (3 * there <= here)).sum())


def _replaced(words: NDArray[np.uint32], others: NDArray[np.uint32], short: I64, run: I64) -> tuple[int, int]:
    """As `Alignment` has them. short: places in runs of uncovered words that are no passage; run: of each place."""
    names, place, here = np.unique(words, return_inverse=True, return_counts=True)
    known, counts = np.unique(others, return_counts=True)
    there = np.zeros(len(names), np.int64)
    _, left, right = np.intersect1d(names, known, assume_unique=True, return_indices=True)
    there[left] = counts[right]
    in_short = np.bincount(place[short], minlength=len(names))
    num_runs = np.bincount(np.unique(np.stack((place[short], run[short])), axis=1)[0], minlength=len(names))
    more = np.minimum(in_short, np.maximum(0, here - there))
    return int(more.sum()), int(more[(num_runs >= 2) & (3 * there <= here)].sum())
