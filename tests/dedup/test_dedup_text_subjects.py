"""Two pages of one schema are not one text, however many of their words agree; a page that was edited is."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, matching, text, text_filter, text_kernels
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text_matching import TextMatcher
from mmlake.dedup.text_walk_arrays import FILTER_NUMBERS, Texts
from tests.dedup.text_edits import page, words
from tests.thorough import drawn

WAYS = [-(10**12), 10**12]  # by numpy alone, by compiled code


def matcher_of(texts):
    made = list(text.prints(texts))
    return TextMatcher(
        {name: Ragged.of([getattr(one, name) for one in made]) for name in ("shingles", "words")}, DedupSettings()
    )


def named(name, kind):
    """A page on a command: its name stands in each of the sentences."""
    rng = np.random.default_rng(7)
    parts = page(rng, 220).split(". ")
    return ". ".join(f"{part} the {name} {kind} {' '.join(words(rng, 5))}" for part in parts)


def edited(one, num):
    """The text with so many words replaced, each by a word of its own."""
    parts = one.split()
    for number, at in enumerate(np.random.default_rng(3).permutation(len(parts))[:num].tolist()):
        parts[at] = "word" + "abcdefgh"[number // 8] + "ijklmnop"[number % 8]
    return " ".join(parts)


@pytest.mark.parametrize("work", WAYS)
def test_a_name_in_place_of_another_throughout_is_another_page(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    one, other = named("commit", "transaction"), named("rollback", "savepoint")
    found = matcher_of([one, other]).compare(0, np.array([1]))
    assert 0.2 < found.score[0] < 0.7, "Jaccard alone does not decide"
    assert found.relation[0] == matching.NONE


@pytest.mark.parametrize("work", WAYS)
def test_as_many_words_replaced_here_and_there_are_an_edit(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    one = named("commit", "transaction")
    found = matcher_of([one, edited(one, 30)]).compare(0, np.array([1]))
    assert 0.2 < found.score[0] < 0.7, "Jaccard alone does not decide"
    assert found.relation[0] == matching.SAME


@pytest.mark.parametrize("work", WAYS)
def test_what_shares_less_than_a_fifth_is_not_alike_at_all(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(5)
    one, other = page(rng, 150).split(), page(rng, 150).split()
    few, more = " ".join(one[:20] + other[20:]), " ".join(one[:50] + other[50:])
    found = matcher_of([" ".join(one), few, more]).compare(0, np.array([1, 2]))
    assert found.score[0] == 0.0
    assert found.score[1] > 0.1


def test_the_filter_never_says_less_than_texts_share():
    """Against numpy's intersections, from no shared shingle to all, of small sets and of crowded ones."""
    rng = np.random.default_rng(9)
    for _ in range(drawn(30, 300)):
        pool = np.unique(rng.integers(0, 2**64, int(rng.integers(2, 1_200)), dtype=np.uint64))
        rows = Ragged.of([pool[rng.random(len(pool)) < share] for share in rng.random(2)])
        bits, spare = np.zeros(2 * FILTER_NUMBERS, np.uint64), np.zeros(2, np.int32)
        text_filter._filters(rows.values, rows.offsets, bits, spare)
        texts = Texts(*[None] * 9, bits, spare)
        with np.errstate(over="ignore"):
            most = text_filter._most_shared(texts, 0, 1)
        assert most >= len(np.intersect1d(rows[0], rows[1]))
        assert most <= min(map(len, (rows[0], rows[1]))) + min(spare)
