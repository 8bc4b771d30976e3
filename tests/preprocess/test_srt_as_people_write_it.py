"""SRT that hands, converters and players write loosely gives the cues of the strict form."""

from __future__ import annotations

import pytest

from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.preprocess.transcripts.subtitles import is_subtitles, parse_cues

STRICT = (
    "1\n00:00:01,000 --> 00:00:02,500\nThe ferry leaves.\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nNobody waves.\n\n"
    "3\n01:00:05,000 --> 01:00:06,000\nThe pier is empty.\n"
)
CUES = [(1.0, 2.5, "The ferry leaves."), (3.0, 4.0, "Nobody waves."), (3605.0, 3606.0, "The pier is empty.")]


def shown(text: str) -> list[tuple[float | None, float | None, str]]:
    return [(cue.start_s, cue.end_s, cue.text) for cue in parse_cues(text)]


@pytest.mark.parametrize(
    "text",
    [
        STRICT.replace("-->", "- >"),
        STRICT.replace("-->", "-- >"),
        STRICT.replace(" --> ", "-->"),
        STRICT.replace(",500", ":500").replace(",000", ":000"),
        STRICT.replace(",500", "，500").replace(",000", "，000"),
        STRICT.replace("01:00", "01：00"),
        STRICT.replace(".\n\n", ".\n"),
    ],
    ids=["arrow apart", "head apart", "no blanks", "colon", "wide comma", "wide colon", "no blank lines"],
)
def test_times_are_read_however_they_are_written(text: str) -> None:
    """They were words of the transcript, or their numbers were."""
    assert is_subtitles(text)
    assert shown(text) == CUES


def test_times_need_no_milliseconds() -> None:
    text = "1\n00:00:01 --> 00:00:02\nThe ferry leaves.\n\n2\n00:00:03 --> 00:01:04\nNobody waves.\n"
    assert shown(text) == [(1.0, 2.0, "The ferry leaves."), (3.0, 64.0, "Nobody waves.")]


@pytest.mark.parametrize("line", ["10:15 --> 11:20 by train", "1 --> 2", "00:00:01:12 --> 00:00:02:13"])
def test_a_timetable_is_no_subtitles(line: str) -> None:
    """Two numbers are no clock, nor are frames a fraction: they are words of the page, as the rest of it."""
    assert not is_subtitles(f"How to get there:\n{line}\nThen walk.")


def test_a_blank_line_within_a_cue_loses_no_words() -> None:
    """What stood below it was in no transcript."""
    text = STRICT.replace("The ferry leaves.", "The ferry\n\nleaves.").replace("is empty.", "is\n\nempty.")
    assert shown(text) == CUES


def test_a_blank_line_ends_a_cue_of_webvtt() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.500\nThe ferry leaves.\n\nNOTE checked by nobody\n\nstray\n"
    assert shown(text) == CUES[:1]


@pytest.mark.parametrize(
    "end, said", [("\n4\n", []), ("\n4\n00:00:0x,000 --> 00:00:09,000\nIt rains.\n", [(None, None, "It rains.")])]
)
def test_a_cue_whose_times_cannot_be_read_is_no_words_of_the_one_before(end: str, said: list) -> None:
    assert shown(STRICT + end) == CUES + said


def test_a_cue_that_counts_keeps_its_number() -> None:
    text = STRICT.replace("The ferry leaves.", "7")
    assert shown(text) == [(1.0, 2.5, "7"), *CUES[1:]]


def test_a_document_of_loose_subtitles_has_its_words_alone() -> None:
    track = text_track(STRICT.replace("-->", "- >").encode(), "text/plain", settings=PreprocessSettings())
    assert track["text"] == "The ferry leaves.\nNobody waves.\nThe pier is empty."


@pytest.mark.parametrize(
    "text",
    [
        *(STRICT.replace("-->", arrow) for arrow in ("–>", "—>", "→", "--&gt;")),
        STRICT.replace(" --> ", "\u00a0-->\u00a0"),
        STRICT.replace("00:00:01", "\u200e00:00:01"),
        STRICT.replace("00:00:", "00: 00: ").replace(",000", ", 000").replace(" --> ", " -> "),
        STRICT.replace("The ferry", "< i >The ferry</ i >").replace("pier", '<font color= "red" >pier< /font>'),
        STRICT.replace("000\nNobody", "000 Nobody"),
    ],
    ids=[
        "en dash",
        "em dash",
        "one sign",
        "escaped",
        "fixed blanks",
        "direction",
        "translated",
        "tags apart",
        "one line",
    ],
)
def test_what_word_processors_and_translation_make_of_times_is_read(text: str) -> None:
    assert shown(text) == CUES


def test_where_a_cue_stands_on_the_screen_is_not_said() -> None:
    assert shown("1\n00:00:01,000 --> 00:00:02,500  X1:63 X2:223 Y1:43 Y2:58\nHello\n") == [(1.0, 2.5, "Hello")]
    assert shown("WEBVTT\n\n00:01.000 --> 00:02.500 line:85% position:10%,line-left bad\nHello\n") == [
        (1.0, 2.5, "Hello")
    ]


def test_a_line_that_begins_before_the_film_begins_with_it() -> None:
    assert shown("1\n-00:00:01,500 --> 00:00:02,500\nHello\n") == [(0.0, 2.5, "Hello")]


def test_breaks_of_substation_are_breaks() -> None:
    assert shown("1\n00:00:01,000 --> 00:00:02,500\n{\\an8}The ferry\\Nleaves\\hnow\n") == [
        (1.0, 2.5, "The ferry leaves now")
    ]


def test_how_a_word_is_read_is_not_said_again() -> None:
    above = "<ruby>漢<rt>kan</rt>字<rt>ji</ruby>を<ruby>書<rp>(</rp><rt>か</rt><rp>)</rp></ruby>く"
    assert shown(f"WEBVTT\n\n00:01.000 --> 00:02.500\n{above}\n") == [(1.0, 2.5, "漢字を書く")]
    ttml = (
        '<tt xmlns="http://www.w3.org/ns/ttml" xmlns:tts="http://www.w3.org/ns/ttml#styling"><body><div>'
        '<p begin="1s" end="2.5s"><span tts:ruby="container"><span tts:ruby="base">漢字</span>'
        '<span tts:ruby="text">かんじ</span></span>を書く</p></div></body></tt>'
    )
    assert shown(ttml) == [(1.0, 2.5, "漢字を書く")]


@pytest.mark.parametrize(
    "text",
    [
        f"How to write subtitles\n\nEach cue has a number, times and words, such as\n\n{STRICT}\nThat is all.",
        "Minutes of the day\n\n10:00:00 -> 11:00:00 Welcome\n11:00:00 -> 12:00:00 Talks\n\nThen we had lunch.",
        "10:00:00 -> 11:00:00 Welcome\n11:00:00 -> 12:00:00 Talks\n\nThen we had lunch.",
    ],
)
def test_a_document_that_shows_times_keeps_its_words(text: str) -> None:
    """All above its first line of times was lost, and what stood behind times."""
    assert text_track(text.encode(), "text/plain", settings=PreprocessSettings())["text"] == text.strip()


@pytest.mark.parametrize(
    "text", [STRICT, "\ufeff" + STRICT.replace("\n", "\r\n"), "WEBVTT\n\n00:01.000 --> 00:02.500\nThe ferry leaves.\n"]
)
def test_subtitles_are_known_by_their_first_lines_whatever_their_name(text: str) -> None:
    assert text_track(text.encode(), "text/plain", settings=PreprocessSettings())["text"].startswith(
        "The ferry leaves."
    )


def test_subtitles_with_lines_above_them_are_known_by_their_name() -> None:
    text = f"Made by hand\n\n{STRICT}"
    track = text_track(text.encode(), "application/x-subrip", settings=PreprocessSettings())
    assert track["text"] == "\n".join(words for *_, words in CUES)


@pytest.mark.parametrize(
    ("times", "span"),
    [
        ("00:00:01,1000 --> 00:00:03,250", (2.0, 3.25)),  # 1.9996 s in milliseconds, rounded and not carried
        ("00:00:01,900 --> 00:00:59,1000", (1.9, 60.0)),
        ("00:00:01,1000 --> 00:00:03,2500", (1.1, 3.25)),  # four digits of a second each
    ],
)
def test_a_thousand_milliseconds_are_a_second(times: str, span: tuple[float, float]) -> None:
    (cue,) = parse_cues(f"1\n{times}\nGood morning.\n")
    assert (cue.start_s, cue.end_s) == pytest.approx(span)
