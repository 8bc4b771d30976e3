"""Which of two copies of a text stays, by what is measured of each alone."""

from __future__ import annotations

import json
import unicodedata
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pytest

from mmlake.dedup.stars.standings import standing_of
from mmlake.dedup.text.fingerprints import FIDELITY
from mmlake.letters import count_words
from mmlake.quality.text import MEASURES

GERMAN = (
    'Die Straße führt über den Fluß zur Mühle. "Früher mahlte man dort", sagt der Müller, "Körner für die Städte." '
    "Heute können Schüler im Museum lernen, wie man Säcke füllt und Brötchen bäckt."
)
VIETNAMESE = "Hà Nội là thủ đô của nước Việt Nam. Mỗi năm có hàng triệu du khách đến thăm phố cổ và các đền chùa."


def elected(texts: dict[str, str]) -> str:
    """The name of the text that stays, none being closer than the others."""
    rows = [{name: take(text) for name, take in MEASURES.items()} for text in texts.values()]
    rows = [row | {"num_words": count_words(text)} for row, text in zip(rows, texts.values(), strict=True)]
    columns = {one.name: pa.array([row[one.column] for row in rows], pa.float64()) for one in FIDELITY if one.column}
    nodes = {"digest": list(texts), "priority": [0] * len(texts), "is_clean": [True] * len(texts)}
    at = standing_of(pa.table(nodes | columns), FIDELITY).elect(
        np.arange(len(texts)), lambda ones, _: np.zeros(len(ones))
    )
    return list(texts)[at]


def bare(text: str) -> str:
    plain = text.replace("ß", "ss").replace("đ", "d")
    return "".join(sign for sign in unicodedata.normalize("NFD", plain) if not unicodedata.combining(sign))


def spelled_out(text: str) -> str:
    return text.replace("ß", "ss").replace("ü", "ue").replace("ö", "oe").replace("ä", "ae")


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (GERMAN, bare(GERMAN)),
        (GERMAN, spelled_out(GERMAN)),
        (VIETNAMESE, bare(VIETNAMESE)),
        (GERMAN, json.dumps(GERMAN)[1:-1]),
        (bare(GERMAN), quote_plus(bare(GERMAN), safe=",")),
    ],
    ids="bare spelled vietnamese json address".split(),
)
def test_the_copy_that_lost_nothing_stays(text: str, copy: str) -> None:
    """Of a text and its copy without accents, or in escapes, the smaller digest could decide, or the length."""
    for names in (("a", "b"), ("b", "a")):
        assert elected(dict(sorted(zip(names, (text, copy), strict=True)))) == names[0]


TURKISH = (
    "Kütüphane her sabah açılır ve okurlar kitap ile gazete alır. Öğrenciler arka odada ders çalışır, sessizce okur."
)


def test_a_word_with_more_accents_in_place_of_another_decides_nothing() -> None:
    """Who replaces words changes the share of accents a little; who leaves accents out leaves next to none."""
    copy = TURKISH.replace("gazete", "ölçü").replace("arka", "üç").replace("sessizce ", "")
    assert MEASURES["accented_fraction"](copy) > MEASURES["accented_fraction"](TURKISH) + 0.02
    for names in (("a", "b"), ("b", "a")):
        assert elected(dict(sorted(zip(names, (TURKISH, copy), strict=True)))) == names[0]


def linked(text: str, every: int) -> str:
    """In Markdown, with a link around one of so many words."""
    words = text.split()
    words[::every] = [f"[{word}](https://example.org/wiki/page_{at})" for at, word in enumerate(words[::every])]
    return " ".join(words)


@pytest.mark.parametrize("every", [3, 20])
def test_of_markdown_with_links_and_its_plain_copy_the_plain_one_stays(every: int) -> None:
    """Addresses have words, so that the copy in Markdown was the longer one."""
    text = bare(GERMAN)  # accents would decide before
    for names in (("a", "b"), ("b", "a")):
        assert elected(dict(sorted(zip(names, (text, linked(text, every)), strict=True)))) == names[0]


def test_a_whole_text_with_links_stays_before_a_plain_piece_of_it() -> None:
    text = bare(GERMAN)
    piece = " ".join(text.split()[:8])
    for names in (("a", "b"), ("b", "a")):
        assert elected(dict(sorted(zip(names, (linked(text, 5), piece), strict=True)))) == names[0]


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("plain (in brackets)", 0),
        ("[a](b.c)", 3 / 8),
        ("![a](/b)", 2 / 8),
        ("rows[i](x)", 0),
        ("", None),
    ],
)
def test_addresses_of_links_are_counted(text: str, fraction: float | None) -> None:
    assert MEASURES["link_target_fraction"](text) == fraction


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("plain", 0),
        ("été", 2 / 3),
        ("ｗｉｄｅ", 0),
        ("Łódź", 3 / 4),
        ("שָׁלוֹם", 0),
        ("서울", 0),
        ("हिन्दी", 0),
        ("12", None),
    ],
)
def test_letters_with_an_accent_are_counted(text: str, fraction: float | None) -> None:
    assert MEASURES["accented_fraction"](unicodedata.normalize("NFC", text)) == fraction
