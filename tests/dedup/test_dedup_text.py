"""Near duplicates of texts: exact Jaccard behind MinHash, in every script."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, banding, text
from mmlake.errors import SettingsError

WORDS = [f"w{at}" for at in range(4_000)]


def essay(rng, num_words=200):
    return " ".join(rng.choice(WORDS, num_words))


def found(texts, **settings):
    settings = DedupSettings(**settings)
    sets = list(text.shingles(texts, words=settings.text_shingle_words))
    rows = text.signatures(sets, num_perm=settings.text_num_perm, seed=settings.seed)
    return {(i, j): score for i, j, _, score in text.pairs(sets, rows, settings=settings)}


def plain_jaccard(left, right, words=5):
    one, other = (
        {tuple(part.split()[at : at + words]) for at in range(len(part.split()) - words + 1)} for part in (left, right)
    )
    return len(one & other) / len(one | other)


def test_banding_follows_the_s_curve():
    cut = banding(0.7, 128)
    assert (cut.bands, cut.rows) == (25, 5)
    assert cut.recall_at_bound == pytest.approx(1 - (1 - 0.7**5) ** 25)


def test_a_higher_bound_allows_longer_bands():
    assert banding(0.9, 128).rows > banding(0.5, 128).rows


@pytest.mark.parametrize(("bound", "num_perm"), [(0.0, 128), (1.5, 128), (0.7, 0)])
def test_an_impossible_banding_is_refused(bound, num_perm):
    with pytest.raises(SettingsError):
        banding(bound, num_perm)


def test_the_score_is_the_jaccard_of_word_5_grams():
    rng = np.random.default_rng(1)
    one = essay(rng)
    other = one.replace(one.split()[50], "elsewhere")
    assert found([one, other])[0, 1] == pytest.approx(plain_jaccard(one, other))


def test_a_pair_just_inside_the_bound_counts_and_just_outside_does_not():
    words = WORDS[:104]
    one = " ".join(words)
    inside, outside = " ".join(words[:86]), " ".join(words[:70])  # 82 and 66 of 100 shingles
    assert found([one, inside], text_jaccard=0.82) == {(0, 1): 0.82}
    assert found([one, outside], text_jaccard=0.67) == {}


def test_planted_edits_are_found_and_nothing_else():
    """Labelled pairs: 60 texts with one copy each in which 3 of 200 words changed; precision 1, recall 1."""
    rng = np.random.default_rng(2)
    originals = [essay(rng) for _ in range(60)]
    copies = []
    for one in originals:
        words = one.split()
        for at in (20, 90, 150):
            words[at] = "changed"
        copies.append(" ".join(words))
    assert set(found(originals + copies)) == {(at, at + 60) for at in range(60)}


def test_case_punctuation_and_unicode_form_do_not_matter():
    assert found(
        ["Der Stra\u00dfe nach, caf\u00e9 und Haus am Fluss!", "der STRASSE nach cafe\u0301 und haus am fluss"]
    ) == {(0, 1): 1.0}


def test_texts_without_spaces_are_shingled_by_character():
    one = "今天天气很好我们一起去公园散步然后回家吃饭休息看书"
    assert (0, 1) in found([one, one[:-1]])
    assert found([one, "完全不同的一段文字它和上面没有任何关系只是为了测试"]) == {}


def test_a_text_shorter_than_a_shingle_is_compared_whole():
    assert found(["Hello", "hello!", "goodbye", "hello there"]) == {(0, 1): 1.0}


def test_texts_without_words_never_pair():
    assert found(["", "...", "\n\n", "?!"]) == {}


def test_word_order_counts():
    assert found(["one two three four five", "five four three two one"]) == {}


def test_a_document_does_not_flow_into_the_next():
    sets = list(text.shingles(["a b c", "d e f g h i", ""]))
    assert [len(one) for one in sets] == [1, 2, 0]


def test_lone_surrogates_and_nulls_are_harmless():
    assert len(list(text.shingles(["\ud800 broken", "a\0b"]))) == 2


def test_many_copies_are_tied_to_the_first():
    assert found(["the same five words here"] * 50) == {(0, at): 1.0 for at in range(1, 50)}


def test_a_bucket_of_template_spam_ends_in_one_cluster(monkeypatch):
    monkeypatch.setattr(text, "_MAX_BUCKET", 8)
    body = " ".join(WORDS[:100])
    pairs = found([f"{body} {name}" for name in WORDS[200:240]])
    reached = {0}
    for i, j in sorted(pairs):
        if i in reached or j in reached:
            reached |= {i, j}
    assert reached == set(range(40))


def test_the_compiled_kernel_makes_the_same_signatures(monkeypatch):
    pytest.importorskip("numba")
    sets = [np.unique(np.random.default_rng(at).integers(0, 2**63, 50, dtype=np.uint64)) for at in range(5)] + [
        np.empty(0, np.uint64)
    ]
    plain = text.signatures(sets, num_perm=32, seed=3)
    monkeypatch.setattr(text, "_COMPILE_FROM", 1)
    assert (text.signatures(sets, num_perm=32, seed=3) == plain).all()


def test_signatures_estimate_jaccard_without_bias():
    rng = np.random.default_rng(4)
    shared, own = rng.integers(0, 2**63, 700, dtype=np.uint64), rng.integers(0, 2**63, 300, dtype=np.uint64)
    rows = text.signatures([np.unique(np.r_[shared, own]), np.unique(shared)], num_perm=2_048, seed=5)
    assert (rows[0] == rows[1]).mean() == pytest.approx(0.7, abs=0.04)  # four standard errors
