"""Texts that are made for the patterns which read them: each is read in time in proportion to its length. A landed file
of 300 bytes stopped every scan for good; others cost a worker the 30 minutes that an item may take."""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable

import pytest

from mmlake.download.classification import _metas
from mmlake.formats import sniff
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.markup import is_html, strip_tags
from mmlake.preprocess.text import normalize
from mmlake.preprocess.transcripts.sentence_ends import CLAUSE_END, SENTENCE_END
from mmlake.preprocess.transcripts.sentence_ends import marks as sentence_marks
from mmlake.preprocess.transcripts.subtitles import parse_cues
from mmlake.quality.text import MEASURES
from mmlake.quality.transcript import _spoken

MANY = 100_000
MOST_S = 5.0  # all take less than half a second; what takes the square of MANY takes minutes


def plain(text: str) -> str:
    return normalize(text, settings=PreprocessSettings())


GRID = 'File type = "ooTextFile"\nObject class = "TextGrid"\n0 9 <exists> 1 "IntervalTier" "words" 0 9 {num} {rows}'
# who reads it, and the text
HOSTILE: dict[str, tuple[Callable[[str], object], str]] = {
    "comments before no page": (lambda text: is_html(text, None), "<!---->" * 200 + "x"),
    "comments of an unknown file": (lambda text: sniff.kind_of(text.encode(), ""), "<!---->" * 600 + "x"),
    "types of no picture": (lambda text: sniff.kind_of(text.encode(), ""), "<!doctype svg []>" * 200 + "x"),
    "a type without an end": (lambda text: sniff.kind_of(text.encode(), ""), "<!doctype svg [" + "] " * 2_000 + "x"),
    "blanks before a word": (plain, "a" + " " * MANY + "b"),
    "tabs before a word": (plain, "a" + "\t" * MANY + "b"),
    "fixed blanks before a word": (plain, "a" + "\u00a0" * MANY + "b"),
    "wide blanks before a word": (strip_tags, "a" + "\u2003" * MANY + "b"),
    "accents on a letter": (plain, "a" + "\u0301\u0323" * MANY),
    "marks before a word": (lambda text: list(SENTENCE_END.finditer(text)), "!" * MANY + "x"),
    "marks and quotes before a word": (lambda text: list(SENTENCE_END.finditer(text)), "!" * MANY + "'" * MANY + "x"),
    "initials": (sentence_marks, "A b. " + "a. " * MANY),
    "ellipses": (sentence_marks, "A b" + " ." * MANY),
    "commas before a word": (lambda text: list(CLAUSE_END.finditer(text)), "," * MANY + "'" * MANY + "x"),
    "brackets that nothing closes": (_spoken, "[(" * MANY),
    "titles above no lyrics": (parse_cues, "[ti:x]" * MANY),
    "labels of brackets": (parse_cues, GRID.format(num=1, rows='0 1 "' + "<" * MANY + 'x"')),
    "a label without an end": (parse_cues, GRID.format(num=MANY, rows='0 1 "a" ' * MANY + '0 1 "' + '""' * MANY)),
    "labels over each other": (parse_cues, GRID.format(num=MANY, rows='0 9 "a" ' * MANY)),
    "blanks in a row of words": (parse_cues, "talk A 0.1 0.2 " + " " * MANY + "a b c"),
    "overrides without an end": (parse_cues, "[Script Info]\nDialogue: 0,0:00:01.0,0:00:02.0,a" + "{\\p" * MANY),
    "comments of lines without an end": (parse_cues, "<sami><sync start=0>a" + "<!--" * MANY),
    "words without a blank": (lambda text: [measure(text) for measure in MEASURES.values()], "_" * MANY),
    "one word": (lambda text: [measure(text) for measure in MEASURES.values()], "a" * MANY),
    "names without a value": (lambda text: list(_metas(text.encode())), ("<meta " + "a" * 1_900 + ">") * 500),
    "cues without lines": (parse_cues, "00:00:01,000 --> 00:00:02,000\n" * 20_000),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_read_in_time(name: str) -> None:
    reads, text = HOSTILE[name]
    before = time.process_time()
    reads(text)
    assert time.process_time() - before < MOST_S


@pytest.mark.parametrize("marks", [5, 40, 200])
def test_accents_end_in_the_order_of_unicode(marks: int) -> None:
    rng = random.Random(marks)
    signs = [*map(chr, range(0x300, 0x370)), "\u0344", "\u0f73", "\u3099", "\u2014", "e\u0301", "\U0001d165"]
    for _ in range(100):
        text = "x" + "".join(rng.choices(signs, k=marks))
        assert plain(text) == unicodedata.normalize("NFC", text)


# (what is as fast, what was as right, signs that both are about)
SAME = (
    (r"(?<![ \t\u00a0])[ \t\u00a0]++$", r"[ \t\u00a0]+$", "a \t\n\u00a0"),
    (r"(?<![^\S\n])[^\S\n]*+\n\s*+", r"\s*\n\s*", "a \n\u2003"),
    (SENTENCE_END.pattern, r"[.!?…。！？।؟]+[\"'”’»)\]]*(?=\s|$)|[。！？]", "a.。!') "),
    (CLAUSE_END.pattern, r"[,;:،؛–—]+[\"'”’»)\]]*(?=\s|$)|[、，；：]", "a,、;') "),
)


@pytest.mark.parametrize("number", range(len(SAME)))
def test_the_fast_pattern_finds_what_the_plain_one_does(number: int) -> None:
    fast, slow, signs = SAME[number]
    rng = random.Random(number)
    for _ in range(2_000):
        text = "".join(rng.choices(signs, k=rng.randrange(12)))
        found = [[one.span() for one in re.finditer(each, text, re.MULTILINE)] for each in (fast, slow)]
        assert found[0] == found[1], ascii(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [("[door slams] hello", " hello"), ("(a [b) c", " c"), ("[[a] b]", " b]"), ("a ] [b", "a ]  b"), ("♪ la (la", "")],
)
def test_remarks_are_no_speech(line: str, expected: str) -> None:
    assert _spoken(line) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<!-- a --> <!-- b > -- --><html>", "text/html"),
        ("<?xml version='1.0'?><!-- a --><!DOCTYPE html>", "text/html"),
        ("<!-- a --><!doctype svg [<!ENTITY a ']'>] ><svg>", "image/svg+xml"),
        ("<?xml version='1.0'?>\n<!-- a -->\n<svg xmlns=''>", "image/svg+xml"),
    ],
)
def test_pages_and_drawings_behind_comments_are_known(text: str, kind: str) -> None:
    found = sniff.kind_of(text.encode(), "")
    assert found is not None
    assert kind in str(found)
