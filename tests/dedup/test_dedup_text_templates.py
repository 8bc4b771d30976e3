"""Pages of one template are no copies, whatever they share; copies are, whoever else has their wording."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake import dedup
from mmlake.dedup import DedupSettings, matching
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints, verdicts
from mmlake.dedup.text import matcher as text_matcher
from tests.dedup.numba_there import needs_numba
from tests.dedup.text_edits import filled, page, replaced, sentences, words

SETTINGS = DedupSettings()


def table_of(texts):
    made = list(fingerprints.prints(texts))
    return {"shingles": Ragged.of([one.shingles for one in made]), "words": Ragged.of([one.words for one in made])}


def vetoes(texts, left, right):
    veto = dedup.text_veto(table_of(texts), settings=SETTINGS)
    return veto(np.array(left), np.array(right)).tolist()


def paired(texts, pairs):
    matcher = text_matcher.TextMatcher(table_of(texts), SETTINGS)
    return [int(matcher.compare(one, np.array([other])).relation[0]) for one, other in pairs]


@pytest.mark.parametrize("num_slots", [2, 4, 8])
def test_pages_that_fill_the_same_gaps_of_one_template_stay_apart(num_slots):
    rng = np.random.default_rng(num_slots)
    pages = [filled(rng, num_slots=num_slots) for _ in range(30)]
    pairs = [(one, other) for one in range(30) for other in range(one)]
    assert set(paired(pages, pairs)) == {matching.NONE}


@pytest.mark.parametrize("seed", range(2))
def test_stubs_of_one_template_stay_apart(seed):
    """Pages that say little beyond their template are no versions of each other, however little they differ in."""
    rng = np.random.default_rng(seed)
    head = sentences(rng, 70)
    half = len(head) // 2
    pages = [" ".join([*head[:half], page(rng, 8), *head[half:], page(rng, 8)]) for _ in range(20)]
    pages += [page(rng, 300) for _ in range(60)]
    pairs = [(one, other) for one in range(20) for other in range(one)]
    found = text_matcher.TextMatcher(table_of(pages), SETTINGS)
    judged = [found.compare(one, np.array([other])) for one, other in pairs]
    assert all(one.relation[0] == matching.NONE or one.score[0] >= SETTINGS.text_jaccard for one in judged)


def test_without_siblings_two_texts_that_differ_as_such_pages_do_are_versions_of_one():
    """The veto needs many siblings: the same two texts alone are a text and its revision."""
    rng = np.random.default_rng(3)
    one = page(rng, 200)
    assert paired([one, replaced(rng, one, 0.1)], [(0, 1)]) == [matching.SAME]


def test_copies_of_an_article_are_found_among_pages_that_share_its_boilerplate():
    rng = np.random.default_rng(4)
    notice = " ".join(sentences(rng, 60))
    articles = [page(rng, 160) for _ in range(40)]
    copies = [replaced(rng, one, 0.15) for one in articles]
    texts = [f"{notice} {one}" for one in articles + copies]
    assert set(paired(texts, [(at, at + 40) for at in range(40)])) == {matching.SAME}
    assert set(paired(texts, [(at, at + 1) for at in range(39)])) == {matching.NONE}


def test_the_original_is_found_in_a_family_of_copies_each_edited_elsewhere():
    """Wording that thirteen texts share is no template where each of them lacks another part of it."""
    rng = np.random.default_rng(5)
    one = page(rng, 200)
    family = [one, *(replaced(rng, one, share) for share in np.linspace(0.04, 0.15, 12))]
    assert set(paired(family, [(0, at) for at in range(1, 13)])) == {matching.SAME}


def test_semantic_pairs_of_template_siblings_are_kept_apart():
    rng = np.random.default_rng(6)
    pages = [filled(rng, num_slots=6) for _ in range(12)]
    assert all(vetoes(pages, [0, 1, 2], [3, 4, 5]))


def test_shared_wording_as_such_vetoes_nothing():
    """One text retells the other and keeps two thirds of its words; nobody else has them."""
    rng = np.random.default_rng(7)
    texts = [page(rng, 60) for _ in range(40)]
    retold = [replaced(rng, one, 0.3) for one in texts]
    assert not any(vetoes(texts + retold, range(40), range(40, 80)))


def spread(rng, names, num_words):
    """A text of words that no other has, in which the names stand in this order."""
    parts = ["".join(letters) for letters in rng.choice(list("abcdefghijklmnop"), (num_words, 12))]
    places = np.sort(rng.choice(len(parts), len(names), replace=False))
    for at, name in zip(places, names, strict=True):
        parts[at] = name
    return " ".join(parts)


@pytest.mark.parametrize(
    ("retold", "is_apart"),
    [
        (lambda rng, names, text: spread(rng, names, 180), False),
        (lambda rng, names, text: spread(rng, rng.permutation(names), 180), True),
        (lambda rng, names, text: spread(rng, names[:7], 180), False),
        (lambda rng, names, text: " ".join(np.roll(replaced(rng, text, 0.35).split(), 90)), False),
        (lambda rng, names, text: spread(rng, rng.permutation(names), 99), False),
    ],
    ids=["in other words", "of the same names", "of few of them", "passages moved", "short"],
)
def test_long_texts_that_name_the_same_things_in_another_order_are_two_texts(retold, is_apart):
    """Two chapters on one subject have a cosine of .88 and more; a text in other words or another language keeps the
    order of its names."""
    rng = np.random.default_rng(9)
    names = [f"Name{at}x" for at in range(30)]
    text_of_them = spread(rng, names, 180)
    assert vetoes([text_of_them, retold(rng, names, text_of_them)], [0], [1]) == [is_apart]


@pytest.mark.parametrize(
    ("other_name", "times", "is_apart"), [("worker", 4, True), ("worker", 3, False), ("", 4, False)]
)
def test_two_pages_on_two_subjects_need_no_siblings(other_name, times, is_apart):
    rng = np.random.default_rng(10)
    one = " ".join(f"{page(rng, 12)} prefork" for _ in range(times))
    assert vetoes([one, one.replace("prefork", other_name)], [0], [1]) == [is_apart]


def test_units_without_shingles_are_never_kept_apart():
    assert vetoes(["", "..."], [0], [1]) == [False]


@needs_numba
def test_compiled_and_plain_code_see_the_same_templates(monkeypatch):
    rng = np.random.default_rng(8)
    pages = [filled(rng, num_slots=3) for _ in range(12)] + [page(rng, 100) for _ in range(4)]
    pairs = [(one, other) for one in range(16) for other in range(one)]
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        seen.append(paired(pages, pairs))
    assert seen[0] == seen[1]


def counted(both, one, other):
    """Histograms of a pair: of both, of each alone, how many shingles so many texts hold."""
    counts = np.zeros((3, 256), np.int64)
    for row, held in zip(counts, (both, one, other), strict=True):
        for num_texts, num in held.items():
            row[num_texts] = num
    return counts


@pytest.mark.parametrize(
    ("both", "one", "other", "is_one_page"),
    [
        ({2: 36, 40: 60}, {1: 4}, {1: 30, 40: 2}, True),  # nine tenths of what the one has of its own
        ({2: 36, 40: 60}, {1: 5}, {1: 30, 40: 2}, False),
        ({2: 31, 40: 60}, {1: 1}, {1: 1}, False),  # too small a sample
        ({5: 32, 6: 60}, {1: 1, 6: 40}, {1: 1}, True),  # a few copies hold it as well
        ({6: 92}, {1: 1}, {1: 1}, False),
        ({2: 90}, {1: 1}, {1: 1}, False),  # of no site
    ],
)
def test_pages_that_share_what_is_their_own_are_judged_without_their_site(both, one, other, is_one_page):
    found = verdicts.wording_of(counted(both, one, other), 1 / 8)
    assert (found == verdicts.ONE_PAGE) == is_one_page


def test_a_page_of_a_site_with_a_few_words_replaced_is_that_page():
    """Eight words by words of their own, and one by another one in two places; of siblings each has its own words."""
    rng = np.random.default_rng(11)
    frame = " ".join(words(rng, 200))
    # of a long page among short ones more shingles are counted
    sites = [f"{frame} {' '.join(words(rng, num))}" for num in (1_500, *[300] * 23)]
    old, new = sites[0].split(), sites[0].split()
    for number, at in enumerate(range(230, 1_230, 100)):
        old[at], new[at] = ("colour", "shade") if number in (3, 8) else (old[at], f"word{'abcdefghij'[number]}")
    texts = [" ".join(old), " ".join(new), *sites[1:]]
    found = text_matcher.TextMatcher(table_of(texts), SETTINGS).compare(0, np.arange(1, 25))
    assert 0.7 < found.score[0] < 0.95
    assert found.relation[0] == matching.SAME
    assert not found.relation[1:].any()
