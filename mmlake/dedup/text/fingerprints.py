"""Prints of texts: the words in their order, and the set of their shingles (runs of five words).

Enters: normalized text. Leaves: hashes, equal on every machine, whether numba or numpy made them. A word is a run of
letters, digits and marks as `text.spellings` reads them, apostrophes and points left out, of letters without their
accents (`text.plain_letters`); in scripts written without spaces each character is a word, and traditional Chinese ones
are read as simplified (`text.han_variants`). Comparison is `text.matcher`'s.
Source: Broder 1997 (resemblance of shingle sets).
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.criteria import CLOSENESS, Criterion, length_of
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.prints import Ragged, Rows
from mmlake.dedup.splitmix import mix64
from mmlake.dedup.text.plain_letters import plain, without_second_letters
from mmlake.dedup.text.spellings import as_seen, folded_spelling

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

# kinds of code points; DIGIT is a bit added to PART or SINGLE, SKIPPED ones are as if they were not there
SEPARATOR, PART, SINGLE, DIGIT, SKIPPED, UNKNOWN = 0, 1, 2, 4, 8, 255
# bits added to PART for compiled loops, which leave out the second letters of ae, oe, ue and aa by them
_VOWELS = {"a": 16 | 64, "o": 16, "u": 16, "e": 32}
_BASE = 0x9E3779B97F4A7C15 | 1  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 1 << 64)
_CHARS_PER_WORD = 5  # about
_BATCH_CHARS = 1 << 15  # code points hashed together: their arrays fit the second-level cache
_COMPILED_CHARS = 1 << 17  # the same for compiled loops, which read each of them once
# Thai and Lao, Myanmar, Khmer, Kana, Han: each character is a word
_SPACELESS = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
# Hebrew, Arabic and Syriac are read with points or without, and their lines are filled with lengthened letters. Alef
# with madda or hamza is another letter. Accents that are no part of a letter show where words of Russian are stressed
_POINTED = (
    (0x0300, 0x036F),
    (0x0591, 0x05C7),
    (0x0610, 0x061A),
    (0x0640, 0x0652),
    (0x0656, 0x0670),
    (0x06D6, 0x06ED),
    (0x0730, 0x074A),
)
_POINTS = ("Mn", "Lm")

# How much of a number words bring that a copy has and its original lacks, by their share. Of sentences of fifty words,
# where one in five words has a capital, or a mark behind it; of letters, of which a quarter has an accent in Vietnamese
_OF_SENTENCES, _OF_LETTERS = 10.0, 0.25
# case and marks play no part in prints, so that only a measure distinguishes a copy that lost them from its original.
# What most copies agree on comes before length: an advertisement put into an article makes it longer, not truer
FIDELITY = (
    Criterion(
        name="garbled",
        column="garbled_fraction",
        best="low",
        tolerance=0,
        margin=0.001,
        says="fewer garbled characters",
    ),
    # numbers of lines and times are words, which made the copy that has them the longer one. Before shares of the
    # characters, which they make smaller
    Criterion(
        name="counted", column="counted_line_fraction", best="low", tolerance=0, margin=0.4, says="no numbered lines"
    ),
    Criterion(
        name="markup", column="markup_fraction", best="low", tolerance=0, margin=0.005, says="less markup left behind"
    ),
    Criterion(
        name="case",
        column="one_case_fraction",
        best="low",
        tolerance=0,
        margin=0.3,
        of_words=_OF_SENTENCES,
        says="upper and lower case kept",
    ),
    Criterion(
        name="marks",
        column="unpunctuated_fraction",
        best="low",
        tolerance=0,
        margin=0.3,
        of_words=_OF_SENTENCES,
        says="punctuation kept",
    ),
    # copies in plain letters ("Strasse", "phap") are many, and the text in its own ones is the truer. A word in place
    # of another moves the share of accents as well, but does not halve it
    Criterion(
        name="accents",
        column="accented_fraction",
        tolerance=0.5,
        margin=0.01,
        of_words=_OF_LETTERS,
        says="accents kept",
    ),
    Criterion(name="uncut", column="num_words", table="tracks", tolerance=0.5, says="not cut to less than half"),
    # words of addresses made the copy in Markdown the longer one
    Criterion(
        name="links", column="link_target_fraction", best="low", tolerance=0, margin=0.005, says="fewer link addresses"
    ),
    CLOSENESS,
    length_of("num_words", unit=" in words"),
)


class TextPrint(NamedTuple):
    """What is kept of one text; both empty where it has no word."""

    shingles: U64  # sorted, distinct
    words: U64  # two words of 32 bits in each number, the earlier one in the upper half; `unpacked` gives them back


def prints(texts: Iterable[str], *, words: int = 5) -> Iterator[TextPrint]:
    """The prints of each text, in order. words: per shingle; a shorter text is one shingle."""
    for found in _batches(texts, words):
        sets, words_of = (Ragged(side.values.copy(), side.offsets) for side in found)
        for at in range(len(sets)):
            yield TextPrint(sets[at], words_of[at])


def print_table(texts: Sequence[str], *, words: int = 5) -> dict[str, Ragged]:
    """The same as columns: a row of `shingles` and one of `words` for each text."""
    num_words = sum(map(len, texts)) // _CHARS_PER_WORD
    columns = Rows(num_words), Rows(num_words // 2 + len(texts))
    for batch in _batches(texts, words):
        for column, rows in zip(columns, batch, strict=True):
            column.add(rows)
    return {name: column.ragged() for name, column in zip(TextPrint._fields, columns, strict=True)}


def _batches(texts: Iterable[str], words: int) -> Iterator[tuple[Ragged, Ragged]]:
    """(shingles, words) of some texts at a time, which hold until the next ones are asked for."""
    batch: list[str] = []
    size, most, space = 0, 0, _Space()
    for text in texts:
        # of plain letters the case is folded where they are hashed
        read = as_seen(text)
        folded = read if read.isascii() else folded_spelling(read)
        if not batch:
            most = _COMPILED_CHARS if text_kernels.is_worthwhile(0) else _BATCH_CHARS
        batch.append(folded)
        size += len(folded)
        if size >= most:
            yield _batch_prints(batch, words, space)
            batch, size = [], 0
    if batch:
        yield _batch_prints(batch, words, space)


class _Space:
    """Where compiled loops write, batch after batch: memory that is new each time the system clears each time."""

    def __init__(self) -> None:
        self._most, self._longest = -1, -1

    def of(self, begins: I64) -> tuple[U64, U64, text_kernels.Room]:
        """(for shingles, for words, for one text) of texts that begin there; what it held is gone."""
        if begins[-1] > self._most:
            self._most = int(begins[-1])
            self._sets, self._packed = np.empty(self._most, np.uint64), np.empty(self._most, np.uint64)
        if (longest := int(np.diff(begins).max(initial=0))) > self._longest:
            self._longest, self._room = longest, text_kernels.Room.of(longest)
        return self._sets, self._packed, self._room


def unpacked(words: U64) -> NDArray[np.uint32]:
    """The words in their order, 32 bits each; the lowest bit says whether the word holds a digit. No word is 0."""
    halves = np.empty(2 * len(words), np.uint32)
    halves[::2] = words >> np.uint64(32)
    halves[1::2] = words & np.uint64(0xFFFFFFFF)
    return halves[: num_packed(words)]


def num_packed(words: U64) -> int:
    """How many words these are."""
    return 2 * len(words) - (len(words) > 0 and int(words[-1] & np.uint64(0xFFFFFFFF)) == 0)


def _batch_prints(texts: list[str], words: int, space: _Space) -> tuple[Ragged, Ragged]:
    """(shingles, words) of each text."""
    kernels = text_kernels.compiled(sum(map(len, texts)))
    if kernels is None:
        texts = [text.lower().replace("'", "") if text.isascii() else _without_skipped(text) for text in texts]
    whole = "\n".join(texts)
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1, out=begins[1:])
    if kernels is not None and whole.isascii():
        return _compiled_prints(kernels, np.frombuffer(whole.encode("ascii"), np.uint8), begins, words, space)
    points = plain(np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype=np.uint32))
    if kernels is not None:
        return _compiled_prints(kernels, points, begins, words, space)
    points, begins = without_second_letters(points, begins)
    starts, hashes, has_digit = _plain_words(points)
    first = np.searchsorted(starts, begins)  # document d holds the words first[d] .. first[d+1]
    sets, lows = _shingle_sets(hashes, first, words)
    packed, firsts = _packed(hashes, has_digit, first)
    return Ragged(sets, lows), Ragged(packed, firsts)


def _without_skipped(text: str) -> str:
    return _skipped().sub("", text)


@functools.lru_cache(maxsize=1)
def _skipped() -> re.Pattern[str]:
    places = map(ord, "'\u2019"), *(range(low, high + 1) for low, high in _POINTED)
    return re.compile(f"[{''.join(chr(at) for at in itertools.chain(*places) if _kind(at) == SKIPPED)}]+")


def _compiled_prints(
    kernels: text_kernels.Kernels,
    points: NDArray[np.uint8] | NDArray[np.uint32],
    begins: I64,
    words: int,
    space: _Space,
) -> tuple[Ragged, Ragged]:
    """As `_batch_prints`, of code points."""
    sets, packed, room = space.of(begins)
    lows, firsts = np.empty(len(begins), np.int64), np.empty(len(begins), np.int64)
    given = points, begins, _kinds(), _BASE, _factors(words), sets, lows, packed, firsts, room
    fill = kernels.ascii_prints if points.itemsize == 1 else kernels.prints
    if not fill(*given):  # a code point that no text held before
        _kinds_of(points)
        fill(*given)
    return Ragged(sets[: lows[-1]], lows), Ragged(packed[: firsts[-1]], firsts)


def _plain_words(points: NDArray[np.uint32]) -> tuple[I64, U64, NDArray[np.bool_]]:
    kinds = _kinds_of(points)
    word, single = kinds > 0, (kinds & SINGLE) > 0
    begins = word.copy()
    begins[1:] &= ~word[:-1] | single[1:] | single[:-1]
    ends = word.copy()
    ends[:-1] &= ~word[1:] | single[1:] | single[:-1]
    starts, after = np.flatnonzero(begins), np.flatnonzero(ends) + 1
    terms = points * _powers(_BASE, len(points))
    sums = np.zeros(len(points) + 1, np.uint64)
    np.cumsum(terms, out=sums[1:])
    hashes = (sums[after] - sums[starts]) * _powers(_INVERSE, len(points))[starts]
    digits = np.zeros(len(starts), np.bool_)
    with_digit = np.flatnonzero(kinds & DIGIT)
    digits[np.searchsorted(starts, with_digit, side="right") - 1] = True
    return starts, mix64(hashes + (after - starts).astype(np.uint64)), digits


def _shingle_sets(hashes: U64, first: I64, words: int) -> tuple[U64, I64]:
    """(sorted distinct shingles of all documents, where those of each begin)."""
    joined = _joined(hashes, words)
    sizes = np.diff(first)
    is_taken = np.zeros(len(hashes) + 1, np.bool_)  # which positions hold a shingle of the document that they lie in
    ends = np.where(sizes >= words, first[1:] - words + 1, first[:-1] + (sizes > 0))
    np.add.at(steps := np.zeros(len(hashes) + 1, np.int8), first[:-1][sizes > 0], 1)
    np.add.at(steps, ends[sizes > 0], -1)
    np.cumsum(steps, out=steps)
    is_taken[:] = steps > 0
    for at in np.flatnonzero((sizes > 0) & (sizes < words)):
        low, high = int(first[at]), int(first[at + 1])
        joined[low] = _joined(hashes[low:high], high - low)[0]
    for low, high in zip(first[:-1].tolist(), ends.tolist(), strict=True):
        joined[low:high].sort()
    is_new = np.ones(len(hashes) + 1, np.bool_)
    np.not_equal(joined[1:], joined[:-1], out=is_new[1 : len(hashes)])
    is_new[first] = True
    is_taken &= is_new
    return joined[is_taken[:-1]], np.r_[0, np.cumsum(is_taken)][first]


def _joined(hashes: U64, words: int) -> U64:
    """A hash for each position: of the window of that many words which begins there; their order counts. The last
    positions, where no window fits, hold nothing of use."""
    factors = _factors(words)
    total = hashes * factors[0]
    for offset in range(1, min(words, len(hashes))):
        total[:-offset] += hashes[offset:] * factors[offset]
    return mix64(total + np.uint64(words))


def _factors(words: int) -> U64:
    """What the hash of each word in a shingle is multiplied with."""
    return mix64(np.arange(1, words + 1, dtype=np.uint64)) | np.uint64(1)


def _packed(hashes: U64, has_digit: NDArray[np.bool_], first: I64) -> tuple[U64, I64]:
    """(the words of all documents, two in each number, where those of each begin)."""
    short = ((hashes >> np.uint64(32)) & np.uint64(0xFFFFFFFE)) | has_digit
    short += np.uint64(2) * (short < 2)  # no word is 0
    sizes = np.diff(first)
    firsts = np.r_[0, np.cumsum((sizes + 1) // 2)]
    halves = np.zeros(2 * firsts[-1], np.uint64)
    halves[np.arange(len(short)) + np.repeat(2 * firsts[:-1] - first[:-1], sizes)] = short
    return (halves[::2] << np.uint64(32)) | halves[1::2], firsts


def _powers(base: int, num: int) -> U64:
    """base**0, base**1, ..., modulo 2**64."""
    return _many_powers(base, max(_BATCH_CHARS, 1 << (num - 1).bit_length()))[:num]


@functools.lru_cache(maxsize=4)
def _many_powers(base: int, num: int) -> U64:
    powers = np.full(num, base, dtype=np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _kinds_of(points: NDArray[np.uint8] | NDArray[np.uint32]) -> NDArray[np.uint8]:
    """What each code point is: a separator, part of a word, or a word by itself, with DIGIT where it is one and bits
    for vowels."""
    table = _kinds()
    kinds = table[points]
    if kinds.max(initial=0) == UNKNOWN:
        for block in np.unique(points[kinds == UNKNOWN] >> 8).tolist():
            table[block << 8 : (block + 1) << 8] = [_kind(point) for point in range(block << 8, (block + 1) << 8)]
        kinds = table[points]
    return kinds


def _kind(point: int) -> int:
    character = chr(point)
    category = unicodedata.category(character)
    if character in "'\u2019" or (category in _POINTS and any(low <= point <= high for low, high in _POINTED)):
        return SKIPPED
    if not character.isalnum() and category[0] != "M":
        return SEPARATOR
    is_single = any(low <= point <= high for low, high in _SPACELESS)
    return (SINGLE if is_single else PART) | (DIGIT if character.isdigit() else 0) | _VOWELS.get(character.lower(), 0)


@functools.lru_cache(maxsize=1)
def _kinds() -> NDArray[np.uint8]:
    """The kinds of all code points; each block of 256 is classified when a text first holds one of it."""
    return np.full(0x110000, UNKNOWN, np.uint8)
