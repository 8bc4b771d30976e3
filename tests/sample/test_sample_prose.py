"""The texts: readable, far apart where they should be, close where they should be. Overlap is measured here by a
function of its own."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from mmlake.sample.chance import stream
from mmlake.sample.paraphrases import STATEMENTS
from mmlake.sample.prose import EDITS, document, light_edit, same_opening, subjects
from mmlake.sample.sentences import spoken


def grams(text: str, size: int = 5) -> set[str]:
    words = re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("\n", " ")).split()
    return {" ".join(words[at : at + size]) for at in range(len(words) - size + 1)}


def overlap(left: str, right: str) -> float:
    a, b = grams(left), grams(right)
    return len(a & b) / len(a | b)


@pytest.fixture(scope="module")
def documents():
    return [document(number, stream(7, "document", number)) for number in range(len(subjects()))]


def test_no_two_documents_are_about_the_same_subject(documents):
    assert len({entry.subject for entry in documents}) == len(documents) >= 300


def test_documents_have_forty_to_two_hundred_words(documents):
    lengths = [len(entry.text.split()) for entry in documents]
    assert 40 <= min(lengths) <= max(lengths) <= 200


def test_two_documents_share_under_a_fifth_of_their_five_word_runs(documents):
    sets = [(entry.topic, grams(entry.text)) for entry in documents]
    assert max(len(a & b) / len(a | b) for (one, a), (two, b) in combinations(sets, 2) if one == two) < 0.2


def test_documents_past_the_vocabulary_are_about_two_subjects():
    assert " and " in document(len(subjects()) + 3, stream(7, "more")).subject


def test_documents_read_as_sentences(documents):
    assert all(re.match(r'^["A-Z0-9]', entry.text) and entry.text.endswith(".") for entry in documents)
    assert not any("{" in entry.text or re.search(r"\b[Aa] [aeiou]", entry.text) for entry in documents)


@pytest.mark.parametrize("kind", EDITS)
def test_a_light_edit_changes_a_long_text_and_keeps_its_five_word_runs(kind, documents):
    long = [entry.text for entry in documents if len(entry.text.split()) >= 90]
    edited = [light_edit(text, kind, stream(1, kind, at)) for at, text in enumerate(long)]
    assert all(text != other for text, other in zip(long, edited, strict=True))
    assert min(overlap(text, other) for text, other in zip(long, edited, strict=True)) >= 0.8


def test_a_shared_opening_is_no_duplicate(documents):
    mixed = [same_opening(documents[at], documents[at + 1]) for at in range(40)]
    assert max(overlap(documents[at].text, text) for at, text in enumerate(mixed)) < 0.5


def test_paraphrases_share_almost_no_five_word_runs():
    assert (
        max(overlap(left, right) for statement in STATEMENTS for left, right in combinations(statement.wordings, 2))
        < 1 / 3
    )


def test_no_two_recordings_say_the_same():
    said = [spoken(number, 7) for number in range(150)]
    assert len({text for sentences in said for text in sentences}) >= 2 * 150 - 8
    assert len({" ".join(sentences) for sentences in said}) == 150
