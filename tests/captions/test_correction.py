"""Whatever a model answers, a transcript keeps its lines, their order and their times; words change within bounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mmlake.captions import CaptionSettings
from mmlake.captions.correction import Line, by_glossary, corrected, edits, lines_of, questions
from mmlake.errors import UnreadableItem
from tests.thorough import drawn

LINES = [Line("i like cats", 0.5, 2.0), Line("cooper netties is fun", 2.0, 4.25), Line("the end", 4.25, 4.75)]
SETTINGS = CaptionSettings()


def _answer(*changes: object) -> str:
    return json.dumps({"lines": list(changes)})


def _change(number: object, text: object) -> dict[str, object]:
    return {"number": number, "text": text}


def test_a_model_sees_numbers_and_texts_and_no_time() -> None:
    assert questions(LINES, SETTINGS) == ["1: i like cats\n2: cooper netties is fun\n3: the end"]


def test_long_transcripts_are_several_questions_with_numbers_that_go_on() -> None:
    asked = questions([Line(f"line {at}") for at in range(5)], CaptionSettings(lines_per_question=2))
    assert asked == ["1: line 0\n2: line 1", "3: line 2\n4: line 3", "5: line 4"]


def test_an_answer_changes_words_and_nothing_else() -> None:
    found, refusals = corrected(LINES, [_answer(_change(1, "I like cats."), _change(3, "The  end."))], SETTINGS)
    assert refusals == []
    assert [line.final for line in found] == ["I like cats.", "cooper netties is fun", "The end."]
    assert [line.text for line in found] == [line.text for line in LINES]


@pytest.mark.parametrize(
    "text, said",
    [
        ("Completely different sentence about dogs", "edit_fraction="),
        ("", "empty"),
        (None, "none"),
        (7, "none"),
        ("00:01 --> 00:02 cats", "mark of times"),
        ("i like\x00 cats", "none"),
        ("i like cats" * 300, "too long"),
    ],
)
def test_a_text_that_is_another_line_is_refused_and_the_original_stays(text: object, said: str) -> None:
    found, refusals = corrected(LINES, [_answer(_change(1, text), _change(3, "The end."))], SETTINGS)
    assert [line.final for line in found] == ["i like cats", "cooper netties is fun", "The end."]
    assert len(refusals) == 1 and said in refusals[0]


def test_the_bound_of_edits_is_exact() -> None:
    bounds = CaptionSettings(max_edit_fraction=0.5, min_edits=1)
    inside, outside = _answer(_change(1, "abcdefWXYZ12")), _answer(_change(1, "abcdeVWXYZ12"))
    assert edits("abcdefghijkl", "abcdefWXYZ12") == 6
    line = [Line("abcdefghijkl")]
    assert corrected(line, [inside], bounds)[0][0].final == "abcdefWXYZ12"
    assert corrected(line, [outside], bounds)[0][0].final == "abcdefghijkl"


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot help with that.",
        "[]",
        "{}",
        '{"lines": {}}',
        '{"lines": [1]}',
        _answer(_change(0, "x")),
        _answer(_change(4, "x")),
        _answer(_change(True, "x")),
        _answer(_change("1", "x")),
        _answer(_change(1.0, "x")),
        _answer(_change(1, "a"), _change(1, "b")),
        _answer(*(_change(1, "a") for _ in range(4))),
        '{"lines": [], "lines": []}',
        '{"lines": [{"number": NaN, "text": "x"}]}',
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_form_is_refused_as_a_whole(answer: str) -> None:
    with pytest.raises(UnreadableItem) as caught:
        corrected(LINES, [answer], SETTINGS)
    assert caught.value.code == 3802


def test_a_fence_of_markdown_around_the_answer_is_no_fault() -> None:
    answer = f"```json\n{_answer(_change(1, 'I like cats'))}\n```"
    assert corrected(LINES, [answer], SETTINGS)[0][0].final == "I like cats"


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CHANGES = st.fixed_dictionaries(
    {"number": st.integers(-2, 8) | JSONS, "text": st.text(max_size=40) | JSONS},
    optional={"start_s": st.floats(), "end_s": st.floats(), "time": JSONS},
)
ANSWERS = st.one_of(
    st.text(max_size=80),
    JSONS.map(json.dumps),
    st.fixed_dictionaries({"lines": st.lists(CHANGES, max_size=8)}, optional={"times": JSONS}).map(json.dumps),
)
CUES = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), st.floats(0, 1e5), st.floats(0, 1e5)),
    min_size=1,
    max_size=8,
)


@examples(max_examples=drawn(40, 300), deadline=None)
@given(cues=CUES, answers=st.lists(ANSWERS, min_size=8, max_size=8), per_question=st.integers(1, 8))
def test_no_answer_of_any_server_changes_a_time_or_the_number_of_lines(cues, answers, per_question) -> None:
    bounds = CaptionSettings(lines_per_question=per_question, glossary={"a": "b"})
    rows = [{"text": text, "start_s": start_s, "end_s": end_s} for text, start_s, end_s in cues]
    before = by_glossary(lines_of(rows, None, is_recognized=False), bounds.glossary)
    try:
        found, _ = corrected(before, answers[: len(questions(before, bounds))], bounds)
    except UnreadableItem:
        return  # the whole answer is refused, and the transcript is as it was
    assert [(line.text, line.start_s, line.end_s) for line in found] == cues
    for line in found:
        assert line.final.strip() and "\n" not in line.final or line.final == line.text
        fraction = edits(line.text, line.final) / max(len(line.text), len(line.final))
        assert edits(line.text, line.final) <= 4 or fraction <= 0.5 or line.final == line.text.replace("a", "b")


def test_a_glossary_replaces_whole_words_in_any_case_the_longest_first() -> None:
    terms = {"cooper netties": "Kubernetes", "cooper": "Cooper", "cat": "dog"}
    found = by_glossary([*LINES, Line("Cooper  Netties and cooper, a concatenation")], terms)
    assert [line.corrected for line in found] == [
        None,
        "Kubernetes is fun",
        None,
        "Kubernetes and Cooper, a concatenation",
    ]
    assert [(line.start_s, line.end_s) for line in found[:3]] == [(line.start_s, line.end_s) for line in LINES]


def test_what_the_glossary_writes_is_not_replaced_again() -> None:
    assert by_glossary([Line("a b")], {"a": "b", "b": "c"})[0].final == "b c"


def test_words_of_a_recognizer_are_lines_that_keep_the_times_of_their_words() -> None:
    words = [("so", 0.0, 0.2), ("it", 0.3, 0.4), ("ends.", 0.4, 0.9), ("new", 1.0, 1.2), ("pause", 3.0, 3.5)]
    cues = [{"text": text, "start_s": start_s, "end_s": end_s} for text, start_s, end_s in words]
    found = lines_of(cues, "so it ends. new pause", is_recognized=True)
    assert found == [Line("so it ends.", 0.0, 0.9), Line("new", 1.0, 1.2), Line("pause", 3.0, 3.5)]
    assert (
        len(lines_of([{"text": "w", "start_s": at, "end_s": at + 1} for at in range(30)], "", is_recognized=True)) == 3
    )


def test_a_transcript_without_times_is_one_line_without_times() -> None:
    assert lines_of([], "just words", is_recognized=False) == [Line("just words")]
    assert lines_of([], None, is_recognized=False) == []


@pytest.mark.parametrize("end", ["है।", "ہے۔", "كيف؟", "ነው።", "です。", "终｡", "Why?"])
def test_lines_end_where_sentences_of_every_script_do(end: str) -> None:
    """Lines of Hindi, Urdu and Amharic went on into the next sentence."""
    cues = [{"text": text, "start_s": at, "end_s": at + 1.0} for at, text in enumerate(["one", end, "two"])]
    assert [line.text for line in lines_of(cues, None, is_recognized=True)] == [f"one {end}", "two"]
