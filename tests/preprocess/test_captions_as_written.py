"""Captions and transcripts with times as their producers write them, though no specification has them so."""

from __future__ import annotations

import pytest

from tests.preprocess.test_timed_files import cues, ttml

SAID = [("good morning", 1.0, 2.5), ("and good night", 3.0, 4.0)]
LINES = '<p begin="00:00:01.000" end="00:00:02.500">good morning</p><p begin="3s" end="4s">{}</p>'


def test_blank_lines_before_the_declaration_of_ttml_cost_nothing() -> None:
    assert cues("\n \n" + ttml(LINES.format("and good night"))) == SAID


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Andy&apos;s Caf&eacute;&nbsp;& Bar", "Andy's Café & Bar"),
        (">>Fine, thx<< I said", ">>Fine, thx<< I said"),
        ("2 < 3 &amp; 4 &#62; 3", "2 < 3 & 4 > 3"),
        ("AT&T; &LT; is &lt;", "AT&T; < is <"),
    ],
)
def test_signs_that_nobody_escaped_end_no_ttml(written: str, said: str) -> None:
    assert cues(ttml(LINES.format(written) + '<p begin="5s" end="6s">behind</p>')) == [
        SAID[0],
        (said, 3.0, 4.0),
        ("behind", 5.0, 6.0),
    ]


def test_marked_sections_of_whole_markup_stay_as_they_are() -> None:
    assert cues(ttml(LINES.format("<![CDATA[R&D; a < b]]>")))[1] == ("R&D; a < b", 3.0, 4.0)


@pytest.mark.parametrize(
    "arrow", ["[00:01.000 --> 00:02.500]  ", "[00:00:01.000 --> 00:00:02.500] ", "[1.00s -> 2.50s] ", "[1.0 --> 2.5] "]
)
def test_what_whisper_prints_has_times(arrow: str) -> None:
    text = f"Detected language: English\n{arrow}good morning\n[0:03.0 -> 0:04.0] and good\nnight\n"
    assert cues(text) == SAID


def test_a_text_with_brackets_has_no_times() -> None:
    text = "[1] The first note.\n[2 -> 3] is a step, not a time [00:01 --> 00:02]."
    assert cues(text) == [(text.replace("\n", " "), None, None)]


def test_an_arrow_of_one_dash_is_one() -> None:
    assert cues("00:00:01.000 ->00:00:02.500\ngood morning\n   0:00:03,00 --> 0:00:04,00\nand good night\n") == SAID


def test_a_line_of_substation_that_begins_before_the_film_begins_with_it() -> None:
    text = "[Script Info]\n\n[Events]\nFormat: Start, End, Text\nDialogue: -0:00:54.93,0:00:01.00,An, example\n"
    assert cues(text) == [("An, example", 0.0, 1.0)]


@pytest.mark.parametrize("title", ["WEBVTT - Translation of that film", "WEBVTT\tKind: captions", "WEBVTT"])
def test_notes_of_a_webvtt_with_a_title_are_not_said(title: str) -> None:
    text = (
        f"{title}\n\nNOTE by Kyle\n\n00:01.000 --> 00:02.500\ngood morning\n\nNOTE unsure\n\n00:03.000 --> 00:04.000\n"
    )
    assert cues(text + "and good night\n\nNOTE end") == SAID


@pytest.mark.parametrize("block", ["NOTE hello", "STYLE\n::cue { color: red }", "REGION\nid:r1", "nobody's words"])
def test_what_stands_below_an_empty_cue_is_not_its_words(block: str) -> None:
    assert cues(f"WEBVTT\n\n00:00.000 --> 00:00.900\n\n{block}\n\n00:01.000 --> 00:02.500\ngood morning\n") == SAID[:1]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("<LAUGHING & WHOOPS!>", "<LAUGHING & WHOOPS!>"),
        ("<v.loud Mary Ann>Hi <i.foreign>you</i></v> <font color='red' face=\"a b\">there</font>", "Hi you there"),
        ("<c.yellow.bg_blue>one</c> <lang en-GB>two</lang> <b >three</B> <br/>", "one two three"),
        ("1 <a or b> 2", "1 <a or b> 2"),
    ],
)
@pytest.mark.parametrize("head", ["", "WEBVTT\n\n"])
def test_words_in_angle_brackets_are_no_tags(head: str, written: str, said: str) -> None:
    assert cues(f"{head}00:00:01.000 --> 00:00:02.500\n{written}\n") == [(said, 1.0, 2.5)]


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT - This file has no cues.\n",
        "WEBVTT Kind: captions\nLanguage: en\n\n",
        "WEBVTT - a title\r\n\r\nNOTE a note\r\nof two lines\r\n\r\nSTYLE\r\n::cue { color: red }\r\n",
    ],
)
def test_webvtt_with_a_title_and_no_cue_says_nothing(text: str) -> None:
    """The first is an example of the format's standard; its title was taken for what is said."""
    assert cues(text) == []


@pytest.mark.parametrize("rest", ["\n\nIt has cues with times.", "\nand how to write it"])
def test_words_about_webvtt_are_words(rest: str) -> None:
    assert cues("WEBVTT - a format" + rest) == [("WEBVTT - a format " + rest.strip(), None, None)]
