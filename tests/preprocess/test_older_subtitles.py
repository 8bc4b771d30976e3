"""What players read before SubRip: SAMI, MicroDVD, MPL2 and TMPlayer, and SubRip whose numbers stand apart."""

from __future__ import annotations

import random

import pytest

from mmlake.formats import sniff
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.preprocess.transcripts.subtitles import parse_cues

SAMI = """<SAMI><Head><Title>Harbour</Title><STYLE TYPE="text/css"><!--
.ENUSCC {Name: "English Captions"; lang: en-US-CC;}
.FRCC {Name: "French"; lang: fr-FR;} --></Style></Head>
<Body>
 <SYNC Start=0><P Class=ENUSCC ID=Source>Harbour master
 <SYNC Start=10><P Class=ENUSCC>The ferry
   leaves<br/>at <B>nine</B> &amp; ten.
 <SYNC Start="8800"><P Class="ENUSCC">&nbsp;</P></SYNC>
 <sync start='19500'><P Class=ENUSCC>&gt;&gt; Be there.<P Class=FRCC>Soyez là.
</Body></SAMI>
"""
FORMS = {
    "SAMI": (SAMI, [("The ferry leaves at nine & ten.", 0.01, 8.8), (">> Be there.", 19.5, 24.5)]),
    "MicroDVD": (
        "{1}{1}23.976\n{24}{72}{Y:i}The ferry|leaves {f:Arial}now.\n { 120 }{ 240 }  /Be there.  \n",
        [("The ferry leaves now.", 1.001, 3.003), ("Be there.", 5.005, 10.01)],
    ),
    "MicroDVD without an end": ("{1}{1}10\n{20}{}One.\n{50}{}Two.\n", [("One.", 2.0, 5.0), ("Two.", 5.0, 10.0)]),
    "MPL2": (
        "[123][456] Line 1\n[321][456] / Line 2| Line 3/4\n(1)(2)no line\nno line\n\n[789][1234] /Line 5",
        [("Line 1", 12.3, 45.6), ("Line 2 Line 3/4", 32.1, 45.6), ("Line 5", 78.9, 123.4)],
    ),
    "TMPlayer": (
        "00:00:12:The <u>ferry</u>|leaves.\n00:00:14:\n00:01:00:Be there.\n",
        [("The ferry leaves.", 12.0, 14.0), ("Be there.", 60.0, 65.0)],
    ),
    "SBV, short clocks": ("0:1:2.500,0:1:03.800\nOne\ntwo\n", [("One two", 62.5, 63.8)]),
    "SBV, hundred hours": ("100:00:00.000,100:00:05.000\nOne\n", [("One", 360_000.0, 360_005.0)]),
}


def cues(text: str) -> list[tuple[str, float | None, float | None]]:
    return [
        (cue.text, *(None if one is None else round(one, 3) for one in (cue.start_s, cue.end_s)))
        for cue in parse_cues(text)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_have_their_times(form: str, end: str) -> None:
    text, said = FORMS[form]
    assert cues("\ufeff" + text.replace("\n", end)) == said


def test_frames_of_an_unknown_rate_have_words_and_no_times() -> None:
    """At 23.976 and 25 frames a second the end of a film is four minutes apart."""
    text = "{24}{72}{Y:i}The ferry|leaves.\n{120}{240}Be there.\n"
    assert cues(text) == [("The ferry leaves. Be there.", None, None)]
    assert cues("{1}{1}0\n{24}{72}One.\n") == [("0 One.", None, None)]


@pytest.mark.parametrize(
    "text",
    [
        "[12] The first note.\n[13] The second one.",
        "{a}{b} of a template",
        "10:00:00: the ceremony begins.",
        "10:00:00: the ceremony begins\n9:00:00: doors open",
        "<p>SAMI is a language.</p>",
    ],
)
def test_other_texts_with_brackets_and_clocks_stay_as_they_are(text: str) -> None:
    assert cues(text) == [(" ".join(text.split()), None, None)]


def test_a_document_is_none_of_them_unless_its_name_says_so() -> None:
    text = "[10][20] Line 1\n[30][40] Line 2"
    settings = PreprocessSettings()
    assert text_track(text.encode(), "text/plain", settings=settings)["text"] == text
    assert text_track(SAMI.encode(), "application/x-sami", settings=settings)["num_words"] == 8


@pytest.mark.parametrize("seed", range(20))
def test_damage_raises_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for text, _ in FORMS.values():
        low, high = sorted(rng.choices(range(len(text) + 1), k=2))
        parse_cues(text[:low] + text[low:high] * rng.randint(0, 3) + rng.choice("<>{}[]\x00:") + text[high:])


def test_a_number_apart_from_its_times_is_no_word() -> None:
    """A blank line below the number, as some editors leave one; what is said may be a number as well."""
    text = "1\n00:00:00,500 --> 00:00:07,000\nHow many?\n\n7\n\n2\n\n00:00:07,000 --> 00:00:11,000\nSeven.\n\n42\n"
    assert [words for words, _, _ in cues(text)] == ["How many? 7", "Seven."]
    plain = "00:00:00,500 --> 00:00:07,000\nHow many?\n\n42\n\n00:00:07,000 --> 00:00:11,000\nMore.\n"
    assert [words for words, _, _ in cues(plain)] == ["How many? 42", "More."]


def test_subtitles_by_name_are_of_their_kind_and_pictures_of_them_are_not() -> None:
    """`.sub` is MicroDVD where it is text; VobSub's holds pictures in a program stream."""
    assert sniff.kind_of(b"<SAMI>\n", "a.smi").content_type == "application/x-sami"
    assert sniff.kind_of(b"{1}{1}25\n", "a.sub").content_type == "text/x-microdvd"
    assert sniff.kind_of(b"\x00\x00\x01\xba\x44" + bytes(40), "a.sub").content_type == "video/mpeg"
