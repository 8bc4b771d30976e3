"""The reading grade of a text, by the regression of Kincaid et al. (1975)."""

from __future__ import annotations

import re

from mmlake.plugins import Score, Subject

# fitted by Kincaid et al. to 531 Navy recruits: years of school per word of a sentence and per syllable of a word
WEIGHTS = {"words_per_sentence": 0.39, "syllables_per_word": 11.8, "intercept": -15.59}
_WORD, _VOWELS, _END = re.compile(r"[A-Za-z]+"), re.compile(r"[aeiouy]+", re.IGNORECASE), re.compile(r"[.!?]+")


def load() -> Score:
    """The scorer; a larger model would read its weights here."""
    return _grade


def _grade(subject: Subject) -> float | None:
    """Years of school that the text asks for; None for a text without words."""
    text = subject.track["text"] or ""
    words = _WORD.findall(text)
    if not words:
        return None
    sentences = max(1, len(_END.findall(text)))
    syllables = sum(max(1, len(_VOWELS.findall(word))) for word in words)
    return (
        WEIGHTS["words_per_sentence"] * len(words) / sentences
        + WEIGHTS["syllables_per_word"] * syllables / len(words)
        + WEIGHTS["intercept"]
    )
