"""Which units of the corpus hold passages of short eval texts whose other words they have changed.

Enters: the words of both in their order, as prints hold them. Leaves: units, the eval texts that they hold passages of,
and how much of each. A text of at least `LEAST_REVISED_WORDS` words is not asked for: its edited copies are found as
revisions (`dedup.text.verdicts`), which needs that many words.
Source: Brown et al. 2020, appendix C (13 words in a row; those that more than ten documents hold are no evidence).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, PrintTable, Ragged, digests_of
from mmlake.dedup.splitmix import mix64
from mmlake.dedup.text.fingerprints import unpacked
from mmlake.dedup.text.verdicts import LEAST_REVISED_WORDS, MIN_SIBLINGS

PHRASE_WORDS = 13
METHOD = f"phrase-{PHRASE_WORDS}gram"
_MOST_UNITS = 10  # distinct ones that hold a phrase
# of the words of an eval text that lie in such phrases: a name of an institution, or an idiom, is no question
_LEAST_FRACTION = 0.5

U64 = NDArray[np.uint64]


class Passage(NamedTuple):
    """Units with equal prints, and eval units with equal prints that they hold passages of."""

    units: Positions
    held: Positions
    fraction: float  # of the words of the eval text


class _Phrases(NamedTuple):
    """Every phrase of the short eval texts: arrays of one length, sorted by `value`."""

    value: U64
    text: Positions  # from 0, in order of distinct eval texts
    place: Positions  # of its first word


def passages(evals: PrintTable, units: PrintTable, column: str) -> Iterator[Passage]:
    """For each distinct text of the units the short eval texts of which it holds half in phrases; those that it holds
    most of first. A phrase counts for nothing where more than ten distinct units hold it, or five eval texts: it is
    common wording, or the template of a question.

    column: of both tables, the rows with the words.
    """
    held, asked = _members(evals), _members(units)
    sizes, phrases = _phrases_of(evals[column], [own[0] for own in held])
    values, first = np.unique(phrases.value, return_index=True)
    last = np.r_[first[1:], len(phrases.value)]
    counts = np.zeros(len(values), np.int64)
    found: list[tuple[int, Positions]] = []
    for at, own in enumerate(asked if len(values) else ()):
        grams = np.unique(_grams(units[column][own[0]]))
        places = np.searchsorted(values, grams).clip(max=len(values) - 1)
        places = places[values[places] == grams]
        # one more than are allowed: what is common is not kept, however many units hold it
        if len(places := places[counts[places] <= _MOST_UNITS]):
            counts[places] += 1
            found.append((at, places))
    for at, places in found:
        shared = [np.arange(first[one], last[one]) for one in places[counts[places] <= _MOST_UNITS].tolist()]
        for text, fraction in _held_fractions(phrases, sizes, shared):
            yield Passage(asked[at], held[text], fraction)


def _members(prints: PrintTable) -> list[Positions]:
    """Rows with equal prints together, in order of the first of them; those without any are in none."""
    digests = digests_of(prints)
    rows = np.flatnonzero(digests.any(axis=1))
    _, group = np.unique(digests[rows], axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    parts = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1) if len(rows) else []
    return sorted(parts, key=lambda own: int(own[0]))


def _phrases_of(words: Ragged, rows: list[int]) -> tuple[dict[int, int], _Phrases]:
    """(words of each short text, its phrases) without those that too many of the texts hold."""
    sizes: dict[int, int] = {}
    parts = [(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    for text, row in enumerate(rows):
        grams = _grams(words[row])
        if 0 < len(grams) <= LEAST_REVISED_WORDS - PHRASE_WORDS:
            sizes[text] = len(grams) + PHRASE_WORDS - 1
            parts.append((grams, np.full(len(grams), text), np.arange(len(grams))))
    value, text_of, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    pairs = np.unique(np.stack((value, text_of.astype(np.uint64))), axis=1)  # a text may say a phrase twice
    names, num_texts = np.unique(pairs[0], return_counts=True)
    is_own = np.isin(value, names[num_texts <= MIN_SIBLINGS])
    order = np.flatnonzero(is_own)[np.argsort(value[is_own], kind="stable")]
    return sizes, _Phrases(value[order], text_of[order], place[order])


def _grams(row: U64) -> U64:
    """A hash for each run of `PHRASE_WORDS` words, in order."""
    words = unpacked(row).astype(np.uint64)
    num = len(words) - PHRASE_WORDS + 1
    if num < 1:
        return np.empty(0, np.uint64)
    total = np.zeros(num, np.uint64)
    for offset, factor in enumerate(mix64(np.arange(1, PHRASE_WORDS + 1, dtype=np.uint64)) | np.uint64(1)):
        total += words[offset : offset + num] * factor
    return mix64(total)


def _held_fractions(phrases: _Phrases, sizes: dict[int, int], shared: list[Positions]) -> list[tuple[int, float]]:
    """(text, fraction of its words that lie in the shared phrases) where it is enough, the largest first."""
    if not shared:
        return []
    rows = np.concatenate(shared)
    found = []
    for text in np.unique(phrases.text[rows]).tolist():
        is_held = np.zeros(sizes[text], np.bool_)
        for place in phrases.place[rows[phrases.text[rows] == text]].tolist():
            is_held[place : place + PHRASE_WORDS] = True
        if (fraction := float(is_held.mean())) >= _LEAST_FRACTION:
            found.append((text, fraction))
    return sorted(found, key=lambda one: (-one[1], one[0]))
