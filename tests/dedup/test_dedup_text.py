"""Near duplicates of texts: exact measures behind sampled shingles, in every script."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmlake import dedup
from mmlake.dedup import DedupSettings, matching
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text import matcher as text_matcher
from tests.dedup.numba_there import needs_numba

WORDS = [f"w{at}" for at in range(4_000)]


def essay(rng, num_words=200):
    return " ".join(rng.choice(WORDS, num_words))


def table_of(texts, words=5):
    made = list(fingerprints.prints(texts, words=words))
    return {"shingles": Ragged.of([one.shingles for one in made]), "words": Ragged.of([one.words for one in made])}


def matcher_of(texts, **changed):
    given = DedupSettings(**changed)
    return text_matcher.TextMatcher(table_of(texts, given.text_shingle_words), given)


def found(texts, **changed):
    """(stays, goes) -> score, as the leaders find them."""
    matcher = matcher_of(texts, **changed)
    digests = [f"{at:04d}" for at in range(len(texts))]
    edges = stars(matcher, by_digest(digests), equal=digests_of(table_of(texts)))
    return {
        tuple(sorted((left, right))): score
        for left, right, score, relation in zip(edges.left, edges.right, edges.score, edges.relation, strict=True)
        if relation in (matching.SAME, matching.INSIDE)
    }


def verdict(one, other, **changed):
    """(relation of the first to the second, method, score)."""
    seen = matcher_of([one, other], **changed).compare(0, np.array([1]))
    return int(seen.relation[0]), text_matcher.METHODS[seen.method[0]], float(seen.score[0])


def plain_jaccard(left, right, words=5):
    one, other = (
        {tuple(part.split()[at : at + words]) for at in range(len(part.split()) - words + 1)} for part in (left, right)
    )
    return len(one & other) / len(one | other)


def test_the_recall_of_candidates_is_known_at_every_jaccard():
    assert dedup.key_recall(0.7) > 1 - 1e-12
    assert dedup.key_recall(0.2) == pytest.approx(1 - 0.8**32)


def test_texts_that_share_a_fifth_of_their_shingles_have_a_key_in_common():
    rng = np.random.default_rng(9)
    for _ in range(50):
        one = essay(rng).split()
        keys = table_of([" ".join(one), " ".join([*one[:66], *rng.choice(WORDS, 134)])])
        keys = text_matcher.sampled(keys["shingles"])
        assert set(keys[0].tolist()) & set(keys[1].tolist())


def test_the_score_is_the_jaccard_of_word_5_grams():
    rng = np.random.default_rng(1)
    one = essay(rng)
    other = one.replace(one.split()[50], "elsewhere")
    assert found([one, other])[0, 1] == pytest.approx(plain_jaccard(one, other))


def test_a_pair_just_inside_the_bound_counts_and_just_outside_does_not():
    """Both end with a passage of their own, so that only the bound decides."""
    words, rest = WORDS[:104], WORDS[200:304]
    inside, outside = (" ".join([*words[:shared], *rest[shared:]]) for shared in (87, 86))
    assert found([" ".join(words), inside]) == {(0, 1): pytest.approx(83 / 117)}
    assert found([" ".join(words), outside]) == {}


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


def test_apostrophes_straight_curly_or_lost_do_not_matter():
    assert found(["I don't think it's theirs", "i don\u2019t think it\u2019s theirs", "I dont think its theirs"]) == {
        (0, 1): 1.0,
        (0, 2): 1.0,
    }


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
    sets = [len(one.shingles) for one in fingerprints.prints(["a b c", "d e f g h i", ""])]
    assert sets == [1, 2, 0]


def test_lone_surrogates_and_nulls_are_harmless():
    assert len(list(fingerprints.prints(["\ud800 broken", "a\0b"]))) == 2


def test_many_copies_are_tied_to_the_first():
    assert found(["the same five words here"] * 50) == {(0, at): 1.0 for at in range(1, 50)}


def test_a_bucket_of_template_spam_within_the_bound_ends_in_one_cluster():
    body = " ".join(WORDS[:100])
    pairs = found([f"{body} {name}" for name in WORDS[200:240]])
    assert pairs.keys() == {(0, at) for at in range(1, 40)}


def test_the_words_come_back_in_their_order_with_what_holds_a_digit():
    (one,) = fingerprints.prints(["a b2 a c"])
    words = fingerprints.unpacked(one.words)
    assert [words[0] == words[2], len(set(words.tolist()))] == [True, 3]
    assert (words & 1).tolist() == [0, 1, 0, 0]
    assert [fingerprints.num_packed(made.words) for made in fingerprints.prints(["", "a", "a b", "a b c"])] == [
        0,
        1,
        2,
        3,
    ]


TEXTS = st.lists(
    st.text(
        alphabet=st.sampled_from(
            [
                *"abcXYZ019 \n.,'’-_",
                "é",
                "ß",
                "日",
                "本",
                "ก",
                "\u0301",
                "א",
                "\u05b8",
                "ل",
                "\u064b",
                "\u0640",
                "\ud800",
                "😀",
                "\0",
            ]
        ),
        max_size=40,
    ),
    max_size=6,
)


@needs_numba
@settings(max_examples=60, deadline=None)
@given(texts=TEXTS)
@example(texts=["Over and over and OVER. " * 300, "don't dont DON\u2019T " * 9, "a" * 900, "2024" * 20])
def test_compiled_and_plain_code_make_the_same_prints(texts):
    made = []
    for work in (-(10**12), 10**12):
        text_kernels._work[0] = work
        made.append([(one.shingles.tolist(), one.words.tolist()) for one in fingerprints.prints(texts)])
    assert made[0] == made[1]


@needs_numba
def test_compiled_and_plain_code_make_the_same_digests(monkeypatch):
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 2**63, int(size), dtype=np.uint64) for size in [*rng.integers(0, 90, 60), 0, 5_000, 0]]
    prints = {"one": Ragged.of(rows), "other": Ragged.of(rows[::-1]), "silent": Ragged.empty(len(rows))}
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        seen.append(digests_of(prints).tolist())
    assert seen[0] == seen[1]


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS)
def test_prints_do_not_depend_on_what_else_is_in_the_batch(texts):
    together = [(one.shingles.tolist(), one.words.tolist()) for one in fingerprints.prints(texts)]
    alone = [(one.shingles.tolist(), one.words.tolist()) for part in texts for one in fingerprints.prints([part])]
    assert together == alone


@needs_numba
def test_compiled_and_plain_code_compare_alike(monkeypatch):
    """Edits of every kind and strength, among pages of a template."""
    rng = np.random.default_rng(5)
    base = essay(rng, 120).split()
    texts = [" ".join(base), "", "a b c"]
    for share in (0.02, 0.1, 0.2, 0.4):
        words = np.array(base)
        words[rng.random(120) < share] = rng.choice(WORDS, 120)[rng.random(120) < share][0]
        texts.append(" ".join(words))
    texts += [" ".join([*base[:60], *rng.choice(WORDS, 30), *base[60:]]) for _ in range(9)]
    texts += [" ".join(base[40:]), " ".join(base[60:] + base[:60]), " ".join(base[:100]) + " 1 2 3 4 5 6 7 8 9 10"]
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        matcher = matcher_of(texts)
        compared = [matcher.compare(one, np.arange(len(texts))) for one in range(len(texts))]
        seen.append([[part.tolist() for part in one[:3]] for one in compared])
    assert seen[0] == seen[1]


def test_a_comparison_mirrors_the_one_from_the_other_side():
    rng = np.random.default_rng(6)
    base = essay(rng, 150).split()
    texts = [" ".join(base[low:high]) for low, high in ((0, 150), (0, 100), (0, 40), (30, 150), (100, 150))]
    matcher = matcher_of([*texts, essay(rng)])
    for one in range(len(texts)):
        for other in range(len(texts)):
            left, right = matcher.compare(one, np.array([other])), matcher.compare(other, np.array([one]))
            assert [part.tolist() for part in left.mirrored()[:3]] == [part.tolist() for part in right[:3]]


def test_a_text_inside_a_much_longer_one_may_go_and_the_longer_one_may_not():
    rng = np.random.default_rng(7)
    long = essay(rng, 300)
    part = " ".join(long.split()[50:130])
    assert verdict(part, long)[:2] == (matching.INSIDE, "containment-5gram")
    assert verdict(long, part)[:2] == (matching.HOLDS, "containment-5gram")


def test_a_fragment_of_ten_words_is_not_inside_anything():
    rng = np.random.default_rng(8)
    long = essay(rng, 300)
    assert verdict(" ".join(long.split()[50:60]), long)[0] == matching.NONE
    assert verdict(" ".join(long.split()[50:62]), long)[0] == matching.INSIDE


@pytest.mark.parametrize(
    ("pointed", "plain"),
    [
        ("בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ", "בראשית ברא אלהים את השמים ואת הארץ"),
        ("الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ مَلِكِ يَوْمِ الدِّينِ", "الحمد لله رب العالمين ملك يوم الدين"),
        ("الحمــد لله رب العالميــن ملك يوم الديــن", "الحمد لله رب العالمين ملك يوم الدين"),
    ],
)
def test_points_and_lengthened_letters_make_no_other_text(pointed, plain):
    assert verdict(pointed, plain)[0] == matching.SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("کتاب‌های یک شهر کوچک در سال ۱۳۹۸", "كتاب‌هاي يك شهر كوچك در سال 1398"),  # keyboards of Persian and of Arabic
        ("یہ کہانی ایک لڑکی کی ہے", "يه كهاني ايك لڑكي كي هے"),
        ("مشى إلى المقهى في ليلة ٢٤", "مشي إلي المقهي في ليلة 24"),
        ("गाँव में १२५ घर और ३ कुएँ हैं", "गाँव में 125 घर और 3 कुएँ हैं"),
    ],
    ids="persian urdu egyptian hindi".split(),
)
def test_letters_and_digits_of_another_keyboard_make_no_other_text(one, other):
    """The same Persian page from two keyboards shared no word of five."""
    assert verdict(one, other)[::2] == (matching.SAME, 1)


def test_alef_with_hamza_and_vowels_of_hindi_are_letters():
    assert verdict("سأل رجل عن أمل كبير في آخر اليوم", "سال رجل عن امل كبير في اخر اليوم")[2] < 1
    assert verdict("काम मई में शुरू होगा और चलेगा", "कम मई मे शुर हगा और चलगा")[0] == matching.NONE
