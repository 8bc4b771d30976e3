"""Word and character error rates of transcripts against gold texts, by jiwer.

Compared is what is said: case, punctuation, width and spacing of letters do not count, nor do the points of Hebrew and
Arabic; apostrophes and hyphens within words do, and vowels that are marks.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from mmlake.letters import marks, without_points


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Of all texts together: errors are added up before they are divided, so that long texts count as such."""

    num_texts: int
    num_words: int  # of the gold
    wer: float | None  # (substitutions + deletions + insertions) / words of the gold; None where it has none
    cer: float | None  # the same of characters, spaces included
    substitutions: int
    deletions: int
    insertions: int


def spoken(text: str) -> str:
    """The text as it is compared."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    plain = without_points(plain).replace("\u200d", "").replace("\u200c", " ")
    return " ".join(_unsaid().sub(" ", plain).split())


@functools.cache
def _unsaid() -> re.Pattern[str]:
    """Signs that are neither letters nor their marks; apostrophes and hyphens that stand alone."""
    return re.compile(rf"[^\w\s'{marks()}-]|(?<![\w{marks()}])['-]|['-](?!\w)|_")


def error_rates(gold: Sequence[str], found: Sequence[str]) -> ErrorRates:
    """The rates of texts against their gold, in the same order. A gold text without words counts what was found
    instead as insertions."""
    import jiwer

    pairs = [(spoken(right), spoken(text)) for right, text in zip(gold, found, strict=True)]
    said = [pair for pair in pairs if pair[0]]
    made_up = [text for right, text in pairs if not right]
    if not said:
        return ErrorRates(len(pairs), 0, None, None, 0, 0, sum(len(text.split()) for text in made_up))
    rights, texts = [right for right, _ in said], [text for _, text in said]
    words, characters = jiwer.process_words(rights, texts), jiwer.process_characters(rights, texts)
    num_words = words.hits + words.substitutions + words.deletions
    num_characters = characters.hits + characters.substitutions + characters.deletions
    insertions = words.insertions + sum(len(text.split()) for text in made_up)
    more = characters.insertions + sum(len(text) for text in made_up)
    return ErrorRates(
        len(pairs),
        num_words,
        (words.substitutions + words.deletions + insertions) / num_words,
        (characters.substitutions + characters.deletions + more) / num_characters,
        words.substitutions,
        words.deletions,
        insertions,
    )
