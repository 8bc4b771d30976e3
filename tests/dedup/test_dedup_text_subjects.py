"""Two pages of one schema are not one text, however many of their words agree; a page that was edited is."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, matching
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints, shared_bound
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.dedup.text.walk_arrays import FILTER_NUMBERS, Texts
from tests.dedup.text_edits import page, words
from tests.thorough import drawn

WAYS = [-(10**12), 10**12]  # by numpy alone, by compiled code


def matcher_of(texts):
    made = list(fingerprints.prints(texts))
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
        shared_bound._filters(rows.values, rows.offsets, bits, spare)
        texts = Texts(*[None] * 9, bits, spare)
        with np.errstate(over="ignore"):
            most = shared_bound._most_shared(texts, 0, 1)
        assert most >= len(np.intersect1d(rows[0], rows[1]))
        assert most <= min(map(len, (rows[0], rows[1]))) + min(spare)


def manual(pages, rng):
    """The pages of one manual: a frame around each, and pages of other subjects in the same frame."""
    head, tail = (" ".join(words(rng, 40)) for _ in range(2))
    others = [" ".join(words(rng, 90)) for _ in range(24)]
    return [f"{head} {one} {tail}" for one in [*pages, *others]]


def clauses(rng, one, num, size):
    """The text with so many clauses, each of words that stand in it elsewhere, in place of its own."""
    parts = one.split()
    for at in np.linspace(12, len(parts) - 2 * size, num).astype(int):
        begin = int(rng.integers(0, len(parts) - size))
        parts[at : at + size] = parts[begin : begin + size]
    return " ".join(parts)


@pytest.mark.parametrize("work", WAYS)
def test_seven_copies_of_one_text_are_no_site(work, monkeypatch):
    """Each lacks other words; what the rest of them share is held by seven texts, as few as a small site has."""
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(17)
    parts = page(rng, 240).split()
    left_out = [" ".join(np.array(parts)[rng.random(len(parts)) > 0.08]) for _ in range(7)]
    found = matcher_of(left_out).compare(0, np.arange(1, 7))
    assert found.score.min() < 0.7, "Jaccard alone does not decide"
    assert set(found.relation) == {matching.SAME}


@pytest.mark.parametrize("work", WAYS)
def test_pages_of_one_manual_that_differ_in_clauses_are_two_pages(work, monkeypatch):
    """Few words were replaced, and far more shingles are gone than that explains."""
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(11)
    one = page(rng, 240)
    other = clauses(rng, one, 6, 8)
    alone = matcher_of([one, other]).compare(0, np.array([1]))
    assert 0.2 < alone.score[0] < 0.7
    assert alone.relation[0] == matching.SAME, "nobody else shares the frame"
    assert matcher_of(manual([one, other], rng)).compare(0, np.array([1])).relation[0] == matching.NONE


@pytest.mark.parametrize("work", WAYS)
def test_a_page_of_a_manual_with_words_replaced_here_and_there_is_the_same(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(12)
    one = page(rng, 240)
    found = matcher_of(manual([one, edited(one, 30)], rng)).compare(0, np.array([1]))
    assert found.score[0] < 0.7
    assert found.relation[0] == matching.SAME


@pytest.mark.parametrize("work", WAYS)
def test_notes_that_differ_in_the_numbers_of_two_releases_are_two(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(13)
    parts = [" ".join(words(rng, 45)) for _ in range(8)]
    one, other = (" ".join(f"{part} version {number}" for part in parts) for number in ("1814", "1925"))
    found = matcher_of([one, other]).compare(0, np.array([1]))
    assert found.score[0] >= 0.7, "Jaccard alone says the same"
    assert found.relation[0] == matching.NONE


@pytest.mark.parametrize("work", WAYS)
def test_what_is_a_sites_frame_but_for_a_few_words_lies_inside_nothing(work, monkeypatch):
    """97 % of a short page lie in a long one, since nearly all of it is the frame of both."""
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(14)
    frame = page(rng, 1_500)
    pages = [f"{frame} {' '.join(words(rng, 35))}" for _ in range(12)]
    whole = f"{frame} {page(rng, 1_000)}"
    short = [page(rng, 60) for _ in range(120)]  # so that enough shingles of a page are counted
    found = matcher_of([whole, *pages, *short]).compare(0, np.array([1]))
    assert found.relation[0] == matching.NONE
    alone = matcher_of([whole, pages[0]]).compare(0, np.array([1]))
    assert alone.relation[0] in (matching.SAME, matching.HOLDS), "two texts are no template"


@pytest.mark.parametrize("work", WAYS)
def test_titles_that_name_two_things_set_pages_of_a_manual_apart(work, monkeypatch):
    """The name stands in the title and once more; the rest differs in too little to say anything."""
    monkeypatch.setattr(text_kernels, "_work", [work])
    rng = np.random.default_rng(15)
    body = page(rng, 300).split(". ")
    one, other = (f"{name} {body[0]}. The {name} {'. '.join(body[1:])}" for name in ("Acquire", "Release"))
    assert matcher_of([one, other]).compare(0, np.array([1])).relation[0] == matching.SAME
    assert matcher_of(manual([one, other], rng)).compare(0, np.array([1])).relation[0] == matching.NONE


def titled(name):
    """A page with the name in its title and in three of its sentences."""
    parts = page(np.random.default_rng(11), 260).split(". ")
    for at in (3, 7, 11):
        parts[at] = f"{parts[at]} {name}"
    return f"{name} reference. " + ". ".join(parts)


@pytest.mark.parametrize("work", WAYS)
def test_a_function_in_place_of_another_in_title_and_text_is_another_page(work, monkeypatch):
    """The Jaccard of two such pages is high where their text is long; what differs is the name alone."""
    monkeypatch.setattr(text_kernels, "_work", [work])
    found = matcher_of([titled("certificate"), titled("privatekey")]).compare(0, np.array([1]))
    assert 0.7 < found.score[0] < 0.95, "Jaccard alone would decide"
    assert found.relation[0] == matching.NONE


@pytest.mark.parametrize("work", WAYS)
def test_a_number_of_a_release_in_place_of_another_is_the_same_page(work, monkeypatch):
    monkeypatch.setattr(text_kernels, "_work", [work])
    found = matcher_of([titled("release311"), titled("release312")]).compare(0, np.array([1]))
    assert 0.7 < found.score[0] < 0.95
    assert found.relation[0] == matching.SAME
