"""Units of the corpus against an eval set: what is found, and what is compared for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mmlake import dedup, schemas
from mmlake.dedup.contamination import hits as contamination_hits
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.errors import SettingsError

(TEXT,) = dedup.tiers_of("text")
SETTINGS = dedup.DedupSettings()
WORDS = [
    f"{begin}{middle}{end}" for begin in "bdfgklmnprst" for middle in ("ar", "el", "in", "ou") for end in "aeimnost"
]


def words(seed: int, num: int) -> list[str]:
    return [str(word) for word in np.random.default_rng(seed).choice(WORDS, num)]


def fingerprints(texts: dict[str, str]) -> pa.Table:
    """FINGERPRINTS of the texts, by made-up digests."""
    made = text_fingerprints.prints(list(texts.values()), words=SETTINGS.text_shingle_words)
    rows = [
        {"digest": digest, "method": method, "hashes": hashes, "status": "ok"}
        for digest, one in zip(texts, made, strict=True)
        for method, hashes in one._asdict().items()
    ]
    return schemas.from_rows(schemas.FINGERPRINTS, rows)


def hits(corpus: dict[str, str], evals: dict[str, str], tier: dedup.Tier = TEXT) -> dict[tuple[str, str], str]:
    """(unit, eval unit) -> relation."""
    found = dedup.near_hits(fingerprints(corpus), fingerprints(evals), (tier,), settings=SETTINGS)
    return {(row["digest"], row["eval_digest"]): row["relation"] for row in found.to_pylist()}


class Counted(TextMatcher):
    """A TextMatcher that writes down what it compares."""

    def __init__(self, prints, settings, *, log: list[tuple[int, list[int]]]) -> None:
        super().__init__(prints, settings)
        self._log = log

    def compare(self, one, others):
        self._log.append((one, others.tolist()))
        return super().compare(one, others)


def counted() -> tuple[dedup.Tier, list[tuple[int, list[int]]]]:
    log: list[tuple[int, list[int]]] = []
    return replace(TEXT, matcher=lambda prints, settings: Counted(prints, settings, log=log)), log


def test_a_unit_that_is_holds_or_lies_in_an_eval_unit_is_found_and_nothing_else():
    question, passage = words(1, 40), words(2, 400)
    edited = passage.copy()
    edited[10::20] = words(3, len(edited[10::20]))
    corpus = {
        "verbatim": " ".join(passage),
        "edited": " ".join(edited),
        "holds": " ".join([*words(4, 300), *question, *words(5, 300)]),
        "inside": " ".join(passage[50:150]),
        "unrelated": " ".join(words(6, 400)),
    }
    found = hits(corpus, {"question": " ".join(question), "passage": " ".join(passage)})
    assert found == {
        ("verbatim", "passage"): "same",
        ("edited", "passage"): "same",
        ("holds", "question"): "holds",
        ("inside", "passage"): "inside",
    }


@pytest.mark.parametrize("num_words", [12, 16, 25, 60])
def test_every_question_that_stands_verbatim_in_a_long_document_is_found(num_words):
    """All shingles of texts are keys here: by the sampled keys of duplicates, half of the shortest ones are missed."""
    questions = {f"q{at}": words(100 + at, num_words) for at in range(40)}
    corpus = {
        f"d{name}": " ".join([*words(at, 900), *question, *words(500 + at, 900)])
        for at, (name, question) in enumerate(questions.items())
    }
    found = hits(corpus, {name: " ".join(question) for name, question in questions.items()})
    assert found == {(f"d{name}", name): "holds" for name in questions}


def test_units_of_the_corpus_are_never_compared_with_each_other_and_the_cost_is_linear():
    evals = {f"e{at}": " ".join(words(at, 60)) for at in range(20)}
    opening = words(999, 20)  # that all pages of a site share, the eval set's too
    evals |= {f"s{at}": " ".join([*opening, *words(50 + at, 60)]) for at in range(100)}
    compared = []
    for num in (200, 400):
        tier, log = counted()
        hits({f"c{at:05d}": " ".join([*opening, *words(2_000 + at, 60)]) for at in range(num)}, evals, tier)
        assert all(one >= len(evals) and max(others, default=0) < len(evals) for one, others in log)
        assert len(log) <= num and all(len(others) <= contamination_hits.MOST_CANDIDATES for _, others in log)
        compared.append(sum(len(others) for _, others in log))
    assert 0 < compared[1] <= 2 * compared[0]


def test_equal_copies_cost_one_comparison_and_each_has_its_row():
    passage = " ".join(words(1, 80))
    tier, log = counted()
    found = hits({f"c{at:04d}": passage for at in range(500)}, {"a": passage, "b": passage}, tier)
    assert found == {(f"c{at:04d}", name): "same" for at in range(500) for name in "ab"}
    assert len(log) == 1


def test_a_key_that_more_eval_units_share_than_a_list_holds_hides_no_equal_unit():
    shared = words(1, 30)
    evals = {f"e{at:03d}": " ".join([*shared, *words(10 + at, 20)]) for at in range(150)}
    last = evals["e149"]
    assert hits({"copy": last}, evals)["copy", "e149"] == "same"


def test_a_digest_may_be_on_both_sides():
    texts = {name: " ".join(words(at, 50)) for at, name in enumerate("abc")}
    assert hits(texts, {"a": texts["a"]}) == {("a", "a"): "same"}


def embeddings(vectors: dict[str, list[float]]) -> pa.Table:
    rows = [
        {"digest": name, "encoder": "e", "revision": "1", "dimension": 2, "vector": vector, "status": "ok"}
        for name, vector in vectors.items()
    ]
    return schemas.from_rows(schemas.EMBEDDINGS, rows)


def semantic(corpus, evals, bounds, **prints) -> dict[tuple[str, str], float]:
    made = {"fingerprints": fingerprints({}), "eval_fingerprints": fingerprints({})} | prints
    found = dedup.semantic_hits(embeddings(corpus), embeddings(evals), bounds, settings=SETTINGS, **made)
    return {(row["digest"], row["eval_digest"]): row["score"] for row in found.to_pylist()}


def test_vectors_within_the_encoders_bound_are_hits():
    corpus = {"near": [0.8, 0.6], "just_below": [0.79, 0.6131], "far": [-1.0, 0.0]}
    assert semantic(corpus, {"q": [1.0, 0.0]}, {"e": 0.8}) == {("near", "q"): 0.8}


def test_a_question_with_the_opposite_in_it_has_leaked_too():
    """As a semantic duplicate it would be none (`dedup.contrasts`): another answer is asked for."""
    asked = fingerprints({"q": "Which country borders the lake on its northern shore?"})
    held = fingerprints({"unit": "Which country borders the lake on its southern shore?"})
    found = semantic({"unit": [1.0, 0.0]}, {"q": [1.0, 0.0]}, {"e": 0.9}, fingerprints=held, eval_fingerprints=asked)
    assert found == {("unit", "q"): 1.0}


def test_of_many_eval_units_within_the_bound_the_nearest_are_named():
    angles = np.linspace(0.01, 0.3, 200)
    evals = {f"q{at:03d}": [float(np.cos(one)), float(np.sin(one))] for at, one in enumerate(angles)}
    found = semantic({"unit": [1.0, 0.0]}, evals, {"e": 0.9})
    assert sorted(name for _, name in found) == [f"q{at:03d}" for at in range(contamination_hits.MOST_CANDIDATES)]


def test_an_encoder_without_a_bound_is_refused():
    with pytest.raises(SettingsError, match="vectors of 'e' have no bound"):
        semantic({"a": [1.0, 0.0]}, {"q": [1.0, 0.0]}, {})


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (
            ("bench",),
            r"holds 'bench'; expected NAME=path/to/folder, NAME=version:ID, NAME=probes:pinned or",
        ),
        (("bench=",), "expected NAME="),
        (("bench=version:",), "expected NAME="),
        ((3,), "holds 3; expected NAME="),
        (("../up=/evals",), r"the name '\.\./up' is no folder name"),
        (("a=/one", "a=/two"), "names 'a' twice"),
    ],
)
def test_a_set_that_cannot_be_understood_is_refused(sets, message):
    with pytest.raises(SettingsError, match=message):
        dedup.DecontaminateSettings(sets=sets)


def test_a_set_is_a_folder_or_a_version():
    settings = dedup.DecontaminateSettings(sets=("a=/evals/x=y", "b=version:curated-v001"), modalities=("text",))
    assert settings.of("text") == (("a", "/evals/x=y", "folder"), ("b", "curated-v001", "version"))
    assert settings.of("image") == ()


def changed(question: list[str], places: tuple[int, ...]) -> list[str]:
    return [f"changed{at}" if at in places else word for at, word in enumerate(question)]


@pytest.mark.parametrize("places", [(0,), (29,), (1, 20), (15,)])
def test_a_short_question_with_words_changed_is_found_by_what_is_left_of_it(places: tuple[int, ...]) -> None:
    """The passages of 13 words and more that are left are half of it; it is too short to be found as a revision."""
    question = words(7, 30)
    document = " ".join([*words(8, 400), *changed(question, places), *words(9, 400)])
    assert hits({"document": document}, {"question": " ".join(question)}) == {("document", "question"): "overlaps"}


@pytest.mark.parametrize(("num_left", "found"), [(12, False), (13, True)])
def test_thirteen_words_in_a_row_are_a_passage_and_twelve_are_none(num_left: int, found: bool) -> None:
    question = words(7, 20)
    document = " ".join([*words(8, 400), *question[:num_left], *words(9, 400)])
    assert (("document", "question") in hits({"document": document}, {"question": " ".join(question)})) == found


@pytest.mark.parametrize(("num_words", "found"), [(26, True), (27, False)])
def test_a_passage_of_less_than_half_of_a_question_is_none(num_words: int, found: bool) -> None:
    question = words(7, num_words)
    document = " ".join([*words(8, 400), *question[:13], *words(9, 400)])
    assert (("document", "question") in hits({"document": document}, {"question": " ".join(question)})) == found


@pytest.mark.parametrize(("num_documents", "found"), [(10, True), (11, False)])
def test_wording_that_more_than_ten_documents_hold_is_no_evidence(num_documents: int, found: bool) -> None:
    """Equal documents are one."""
    question = words(7, 20)
    corpus = {
        f"d{at:02d}": " ".join([*words(50 + at, 90), *question[:15], *words(80 + at, 90)])
        for at in range(num_documents)
    }
    corpus["copy"] = corpus["d00"]
    assert set(hits(corpus, {"question": " ".join(question)})) == (
        {(name, "question") for name in corpus} if found else set()
    )


@pytest.mark.parametrize(("num_questions", "found"), [(4, True), (5, False)])
def test_the_template_of_an_eval_sets_questions_is_no_evidence(num_questions: int, found: bool) -> None:
    template = words(7, 15)
    evals = {f"q{at}": " ".join([*template, *words(20 + at, 5)]) for at in range(num_questions)}
    evals["again"] = evals["q0"]
    document = " ".join([*words(8, 400), *template, *words(9, 400)])
    assert len(hits({"document": document}, evals)) == (num_questions + 1 if found else 0)


def test_passages_do_not_depend_on_the_order_of_documents_or_questions() -> None:
    questions = {f"q{at}": words(100 + at, 16 + at) for at in range(12)}
    corpus = {
        f"d{at}": " ".join([*words(at, 60), *changed(question, (0, 15)), *words(30 + at, 60)])
        for at, question in enumerate(questions.values())
    }
    evals = {name: " ".join(question) for name, question in questions.items()}
    found = hits(corpus, evals)
    assert found and hits(dict(reversed(corpus.items())), dict(reversed(evals.items()))) == found
