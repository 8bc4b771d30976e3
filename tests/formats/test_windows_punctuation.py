"""Texts of which curly quotes, apostrophes and dashes are all that is not ASCII, and those with letters there."""

from __future__ import annotations

import pytest

from mmlake.formats.text_encodings import guessed_encoding
from mmlake.formats.windows_punctuation import is_punctuation_of_windows

SIGNS = [
    "I don’t think that we’ll see it again, do you",
    "“Hello,” she said – and left the room.",
    "“It’s late,” she said. “We don’t have time – not today.” " * 30,
    "today’s research … is good",
    "He said ‘no’ to the ’90s",
    "Er sagte „nein“ und ging.",
    "L’eau de la ville n’est pas d’une bonne qualite.",
    "the plan — if there is one — for 20 € or less™",
]
LETTERS = [
    "El día que podía ir así a la montaña, allí comió piña",
    "Así podía ir aquí, sí, y allí",
    "El país es grande y el día es largo",
    "Mi tía y mi tío en un día",
    "2 ó 3 días",
    "Der König und die Königin hören Öl",
    "Das ist ähnlich wie das andere dort",
    "Æbler og pærer på bordet",
    "Është një ditë e mirë për të dalë",
    "Přišel k nám a řekl, že zítra nepřijde",
]


@pytest.mark.parametrize("text", SIGNS)
def test_signs_where_they_belong_are_those_of_windows(text: str) -> None:
    """Long and short texts in English were read as Macintosh's Central European: donít, ďItís late,î."""
    data = text.encode("cp1252")
    assert is_punctuation_of_windows(data) and guessed_encoding(data) == "cp1252"


@pytest.mark.parametrize("encoding", ["mac-roman", "mac-latin2", "cp437", "cp850", "cp852", "cp1252", "cp1250"])
@pytest.mark.parametrize("text", LETTERS)
def test_letters_of_other_encodings_are_none(text: str, encoding: str) -> None:
    assert not is_punctuation_of_windows(text.encode(encoding, errors="ignore"))


@pytest.mark.parametrize("data", [b"", b"plain words", b"\x93", b"\x92", b"word\x97word and more"])
def test_what_is_no_evidence_is_none(data: bytes) -> None:
    assert not is_punctuation_of_windows(data)
