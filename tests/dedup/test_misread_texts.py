"""A text read in a wrong encoding, or with the escapes of a format in it, is the text, and goes for the good one."""

from __future__ import annotations

import json
import quopri
import urllib.parse

import pytest

from benchmarks.dedup_edits.text import survivors
from mmlake.dedup.text.escapes import unescaped
from mmlake.dedup.text.repairs import repaired
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.quality.text import MEASURES
from mmlake.store import BlobStore
from tests.dedup.test_spellings_of_texts import CHINESE, GREEK, HUNGARIAN, POLISH, ROMANIAN, RUSSIAN, SWEDISH, TURKISH

FRENCH = (
    "Les élèves répètent à l’école ce qu’ils ont déjà étudié la veille, où l’hôtesse était très fatiguée. Même le "
    "garçon naïf préfère les pâtes à la crème brûlée, et sa sœur aînée boit son café près de la fenêtre."
)
ENCODINGS = ["cp1252", "cp1250", "mac_roman", "cp437"]
CLEAN = [FRENCH, POLISH[0], HUNGARIAN[0], RUSSIAN[0], GREEK[0], CHINESE[0], SWEDISH[0], ROMANIAN[0], TURKISH[0]]


def misread(text, encoding):
    """UTF-8 taken for that encoding, after preprocessing."""
    read = "".join(bytes([one]).decode(encoding, "ignore") or chr(one) for one in text.encode())
    return str(text_track(read.encode(), "text/plain", settings=PreprocessSettings())["text"])


def survivors_of(texts):
    return survivors(texts, BlobStore("/nonexistent"))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", [FRENCH, POLISH[0]], ids=["French", "Polish"])
def test_a_text_that_was_misread_is_the_text_and_goes_for_it(text, encoding):
    once = misread(text, encoding)
    assert once != text
    assert survivors_of([once, text]) == [1, 1]


def test_greek_of_a_console_goes_for_greek():
    """The measure of garbled characters knows it, whichever of the two is longer."""
    assert survivors_of([misread(GREEK[0], "cp437"), GREEK[0]]) == [1, 1]
    assert MEASURES["garbled_fraction"](misread(GREEK[0], "cp437")) > 0.5
    assert MEASURES["garbled_fraction"]("╔═══╦═══╗\n║ a ║ b ║\n╠═══╬═══╣\n║ 1 ║ 2 ║\n╚═══╩═══╝") == 0


def test_a_text_that_was_misread_twice_is_the_text():
    assert survivors_of([misread(misread(FRENCH, "cp1252"), "cp1252"), FRENCH]) == [1, 1]


@pytest.mark.parametrize("text", CLEAN)
def test_what_was_read_rightly_stays_as_it_is(text):
    """Several times, since a few sequences alone say nothing."""
    assert repaired(20 * text) == 20 * text
    assert unescaped(20 * text) == 20 * text


@pytest.mark.parametrize(
    "text",
    [
        "Das macht „Spaß“, sagt sie. „Und Fuß“, sagt er. „Ein Gruß“ steht auf dem Schloß. Ärger über Öl gibt es nicht.",
        "CAFÉ™, MENÚ™, DÉJÀ™ et l’été à la plage où tout était fermé après la fête de l’école",
        "Â Ã Ä Å are four letters with an accent; they stand alone here, and so does É.",
    ],
)
def test_letters_before_signs_are_no_bytes(text):
    assert repaired(text) == text


def test_two_sequences_are_no_misread_text():
    """Three are asked for: what is about such signs shows one or two."""
    assert repaired("Who sees Ã© or Ã¨ in place of an accent has read UTF-8 as Latin-1.").count("Ã") == 2
    assert repaired("un Ã©tÃ© trÃ¨s long") == "un été très long"


def test_a_lost_second_byte_is_the_letter_that_is_most_often_meant():
    """Of each í the second one is a soft hyphen, which preprocessing leaves out, of each č a control."""
    czech = "Příští týden začíná škola a děti se těší, že uvidí své přátele. Učitelé už čekají ve třídách."
    once = misread(czech, "cp1252")
    assert "Ã" in once and "í" in repaired(once) and "č" in repaired(once)
    assert survivors_of([once, czech]) == [1, 1]


ESCAPED = {
    "JSON": lambda text: json.dumps(text)[1:-1],
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "percent-encoded": urllib.parse.quote,
}


@pytest.mark.parametrize("escape", ESCAPED)
@pytest.mark.parametrize("text", [FRENCH, POLISH[0], RUSSIAN[0]], ids=["French", "Polish", "Russian"])
def test_an_escaped_text_is_the_text_and_goes_for_it(text, escape):
    escaped = ESCAPED[escape](text)
    assert unescaped(escaped) == text
    assert survivors_of([escaped, text]) == [1, 1]
    assert MEASURES["markup_fraction"](escaped) > 0.005


@pytest.mark.parametrize(
    "text",
    [
        r"Write \u00e9 or \u00e8 in JSON, and C:\users\name in a path of Windows.",
        "The address https://example.org/caf%C3%A9 has %C3%A9, and printf takes %02d of 100%25.",
        "Mail writes =C3=A9 for one letter, and a=B1 is an assignment.",
        "x = 5\ny =\n7",
        r"\ud83d\ud83d is half of two pairs",
    ],
)
def test_a_few_escapes_are_what_a_text_is_about(text):
    assert unescaped(text) == text


def test_bytes_that_are_no_utf8_stay():
    assert unescaped("%C3%A9 %C3%A8 %C3%A0 but %FF%FE") == "é è à but %FF%FE"
    assert unescaped("\\ud83d\\ude00 \\u00e9 \\u00e8") == "😀 é è"
