"""Labelled families of edits: every edit is found, nothing else is, and the original survives."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pyarrow as pa
import pytest

from mmlake.dedup import DedupSettings, criteria_of, matching
from mmlake.dedup.criteria import CLOSENESS
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import standing_of
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text import matcher as text_matcher
from mmlake.letters import count_words
from mmlake.quality.text import MEASURES
from tests.dedup.text_edits import page, replaced, sentences, words

SETTINGS = DedupSettings()


def table_of(texts):
    made = list(fingerprints.prints(texts))
    return {"shingles": Ragged.of([one.shingles for one in made]), "words": Ragged.of([one.words for one in made])}


def inserted(rng, one):
    parts = one.split(". ")
    parts.insert(int(rng.integers(1, len(parts))), " ".join(sentences(rng, 40)))
    return ". ".join(parts)


def reordered(rng, one):
    parts = one.split(". ")
    passages = [parts[at : at + 3] for at in range(0, len(parts), 3)]
    return ". ".join(part for at in rng.permutation(len(passages)) for part in passages[at])


def truncated(rng, one):
    parts = one.split()
    return " ".join(parts[: int(0.6 * len(parts))])


def misread(rng, one):
    confused = {"l": "1", "o": "0", "e": "c", "i": "l"}
    return "".join(confused[sign] if sign in confused and rng.random() < 0.03 else sign for sign in one)


def unmarked(rng, one):
    return "".join(sign for sign in one if sign.isalnum() or sign.isspace())


def wrapped(rng, one):
    return f"<p>{one.replace('. ', '.</p> <p>')}&nbsp;</p>"


def garbled(rng, one):
    return one.replace(". ", "â€™. ")


EDITS = {
    **{
        f"{share:.0%} replaced": lambda rng, one, share=share: replaced(rng, one, share) for share in (0.05, 0.08, 0.12)
    },
    "15% replaced": lambda rng, one: replaced(rng, one, 0.15),
    "paragraph inserted": inserted,
    "passages reordered": reordered,
    "cut to 60%": truncated,
    "misread": misread,
    "upper case": lambda rng, one: one.upper(),
    "lower case": lambda rng, one: one.lower(),
    "marks lost": unmarked,
    "markup left": wrapped,
    "garbled": garbled,
    "notice around": lambda rng, one: f"{' '.join(sentences(rng, 25))} {one} {' '.join(sentences(rng, 25))}",
}


@pytest.mark.parametrize("edit", EDITS)
def test_every_copy_is_found_and_no_other_text_is(edit):
    """Recall 1 and precision 1 on 40 texts of 120 to 240 words, each edited in this way."""
    rng = np.random.default_rng(1)
    texts = [page(rng, int(rng.integers(120, 240))) for _ in range(40)]
    copies = [EDITS[edit](rng, one) for one in texts]
    matcher = text_matcher.TextMatcher(table_of(texts + copies), SETTINGS)
    for at in range(40):
        relation = matcher.compare(at, np.arange(40, 80)).relation
        assert np.flatnonzero(relation != matching.NONE).tolist() == [at]
        assert relation[at] == matching.SAME
        assert set(matcher.keys[at].tolist()) & set(matcher.keys[at + 40].tolist())


def test_the_original_of_a_family_survives_and_takes_all_of_its_edits():
    """Twenty families of an original and fourteen edits, in an order of digests that says nothing."""
    rng = np.random.default_rng(2)
    texts, family = [], []
    for at in range(20):
        original = page(rng, 220)
        texts += [original, *(edit(rng, original) for edit in EDITS.values())]
        family += [at] * (1 + len(EDITS))
    assert survivors_of(texts, family) == list(range(0, len(texts), 1 + len(EDITS)))


def survivors_of(texts, family):
    """Positions of the texts that stay; none goes for one of another family."""
    criteria = criteria_of("text")
    nodes = {
        "digest": [hashlib.sha256(one.encode()).hexdigest() for one in texts],
        "priority": [0] * len(texts),
        "is_clean": [True] * len(texts),
    }
    for one in criteria:
        if one is not CLOSENESS:
            measure = MEASURES.get(one.column, lambda text: float(count_words(text)))
            nodes[one.name] = pa.array([measure(text) for text in texts], pa.float64())
    prints = table_of(texts)
    matcher = text_matcher.TextMatcher(prints, SETTINGS)
    found = stars(matcher, standing_of(pa.table(nodes), criteria), equal=digests_of(prints))
    edges = list(zip(found.left, found.right, found.relation, strict=True))
    goes = {right: left for left, right, relation in edges if relation in (matching.SAME, matching.INSIDE)}
    assert all(family[left] == family[right] for right, left in goes.items())
    return [at for at in range(len(texts)) if at not in goes]


def unspaced(rng, num_words):
    """Sentences of a script without spaces or case, with names of programs in them."""
    signs, out = [chr(0x3041 + at) for at in range(60)] + [chr(0x4E00 + 37 * at) for at in range(400)], []
    while num_words > 0:
        size = int(rng.integers(8, 20))
        parts = ["".join(rng.choice(signs, int(rng.integers(1, 4)))) for _ in range(size)]
        if rng.random() < 0.4:
            parts.insert(size // 2, " apt-get update ")
        out.append("".join(parts) + "。 ")
        num_words -= size
    return out


def changed(rng, sentences_, fraction):
    """The sentences with that share of their characters replaced, each by chance."""
    return "".join(chr(0x4E00 + int(rng.integers(9_000))) if rng.random() < fraction else sign for sign in sentences_)


def test_the_original_survives_in_scripts_without_spaces_and_without_case():
    """Names of programs were taken for sentences in lower case, so that whatever had fewer of them stayed: the original
    in 25 of 40 families."""
    rng = np.random.default_rng(4)
    texts, family = [], []
    for at in range(12):
        parts = unspaced(rng, 160)
        one, size = "".join(parts), len(parts)
        texts += [one, *(changed(rng, one, share) for share in (0.02, 0.04, 0.08))]
        texts += [one[: int(0.6 * len(one))], "".join(parts[size // 2 :] + parts[: size // 2])]
        texts.append("".join(parts[: size // 2] + unspaced(rng, 30) + parts[size // 2 :]))
        family += [at] * 7
    assert survivors_of(texts, family) == list(range(0, len(texts), 7))


def test_an_advertisement_does_not_make_a_copy_the_closest_to_what_was_cut_out():
    """What was cut out lies inside the copy with more in it, by containment, and is the original by Jaccard: asked so,
    the longest copy was the closest of all."""
    rng = np.random.default_rng(5)
    texts, family = [], []
    for at in range(20):
        one = page(rng, 120)
        texts += [one, *(replaced(rng, one, share) for share in (0.05, 0.08, 0.12, 0.15, 0.2))]
        texts += [truncated(rng, one), inserted(rng, one), reordered(rng, one)]
        family += [at] * 9
    assert survivors_of(texts, family) == list(range(0, len(texts), 9))


def in_another_language(rng, one, share):
    """With that share of its words replaced by words in which one letter in seven has an accent."""
    return " ".join(f"{words(rng, 1)[0]:k<6}\u00e4" if rng.random() < share else word for word in one.split(" "))


def test_words_of_another_language_make_no_copy_the_truer_one():
    """A text without accents, in copies of which words were replaced by words that have some: these had the only
    accents, one of them stayed, and the copies that were unlike that one were lost with it."""
    rng = np.random.default_rng(6)
    texts, family = [], []
    for at in range(12):
        one = page(rng, 300)
        texts += [one, *(in_another_language(rng, one, share) for share in (0.05, 0.08, 0.12, 0.15))]
        texts += [truncated(rng, one), f"{one} {in_another_language(rng, ' '.join(sentences(rng, 50)), 0.7)}"]
        family += [at] * 7
    assert set(range(0, len(texts), 7)) <= set(survivors_of(texts, family))


def with_marks(rng, one, share):
    """With that share of its words replaced, by a word with a comma in one of five."""

    def another(word):
        return words(rng, 1)[0] + ("," if rng.random() < 0.2 else "") if rng.random() < share else word[0]

    return re.sub(r"\w+", another, one)


def test_a_mark_in_a_word_makes_no_copy_of_long_sentences_the_truer_one():
    """One in five words that were put in had a comma, and the sentences that they stand in then have punctuation."""
    rng = np.random.default_rng(7)
    texts, family = [], []
    for at in range(12):
        one = "\n".join(re.sub(r"[^\w ]", "", " ".join(sentences(rng, 50))) for _ in range(8))
        texts += [one, *(with_marks(rng, one, share) for share in (0.05, 0.08, 0.12, 0.15))]
        family += [at] * 5
    assert survivors_of(texts, family) == list(range(0, len(texts), 5))


def test_accents_decide_against_many_copies_of_an_edited_text_without_them():
    """What was typed in plain letters, of a text in which a few words had been edited, is many and alike; the few words
    explain no accents."""
    rng = np.random.default_rng(8)
    texts, family = [], []
    for at in range(8):
        one = page(rng, 200).replace("a", "\u00e4").replace("o", "\u00f6")
        plain = replaced(rng, one, 0.02).replace("\u00e4", "a").replace("\u00f6", "o")
        texts += [one, plain, plain.lower(), f"{plain} End.", plain.replace(". ", " - ")]
        family += [at] * 5
    assert survivors_of(texts, family) == list(range(0, len(texts), 5))


def test_the_reason_names_no_accents_that_words_explain():
    """What a few words bring did not decide, and is no reason."""
    nodes = {"digest": ["a", "b"], "priority": [0, 0], "is_clean": [True, True]}
    nodes |= {one.name: pa.array([0.0, 0.0]) for one in criteria_of("text") if one is not CLOSENESS}
    standing = standing_of(pa.table(nodes | {"accents": pa.array([0.02, 0.0])}), criteria_of("text"))
    assert standing.reason(0, 1, score=1.0) == "accents kept: accented_fraction=0.02 against 0"
    assert standing.reason(0, 1, score=0.2) == ""


@pytest.mark.parametrize("num_copies", [4, 5, 6, 7])
def test_a_few_copies_of_a_short_text_are_no_pages_of_a_site(num_copies):
    """Five to eight copies share wording with four others, and few of them the same: what one lacks the others have."""
    rng = np.random.default_rng(9)
    texts = [page(rng, 160) for _ in range(30)]
    copies = [replaced(rng, one, 0.1) for one in texts for _ in range(num_copies)]
    matcher = text_matcher.TextMatcher(table_of(texts + copies), SETTINGS)
    found = [matcher.compare(at // num_copies, np.array([30 + at])).relation[0] for at in range(len(copies))]
    assert np.mean(found) > 0.95
