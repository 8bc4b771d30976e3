"""How much of a text has words that no orthography has, as one that was decoded in a wrong encoding does."""

from __future__ import annotations

import unicodedata
from functools import cache

# Marks that stand between two letters of one word: apostrophes, Catalan's dot, hyphens, dashes, dots that were left out
_WITHIN = frozenset("‘’ʼ´′·‐‑–—…\u00ad\u00a0")
# Scripts of which a word has one; Latin stands next to letters of East Asia and Thailand without a space
_APART = frozenset(("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC"))


def odd_fraction(text: str) -> float:
    """Of the characters that are not ASCII, those next to a letter that no word has next to them, 0..1.

    Those are letters of two scripts out of five, a capital behind a small letter, and signs between two letters. Pairs
    that are both ASCII do not count, or names of programs would.
    """
    num_odd = sum(map(_is_odd_pair, text, text[1:])) + sum(map(_is_sign_within, text, text[1:], text[2:]))
    return min(1.0, num_odd / max(1, sum(not sign.isascii() for sign in text)))


def letter_fraction(text: str) -> float:
    """Of the characters that are not ASCII, those that are letters next to a letter, less the odd ones; at most 1."""
    padded = f" {text} "
    signs = [
        sign.isalpha() and (before.isalpha() or behind.isalpha())
        for before, sign, behind in zip(padded, text, padded[2:], strict=False)
        if not sign.isascii()
    ]
    return sum(signs) / max(1, len(signs)) - odd_fraction(text)


def _is_odd_pair(first: str, second: str) -> bool:
    if (first.isascii() and second.isascii()) or not (first.isalpha() and second.isalpha()):
        return False
    scripts = {_script(first), _script(second)}
    return (len(scripts) == 2 and scripts <= _APART) or (first.islower() and second.isupper())


def _is_sign_within(before: str, sign: str, behind: str) -> bool:
    if sign.isascii() or sign.isalnum() or sign in _WITHIN or not (before.isalpha() and behind.isalpha()):
        return False
    return unicodedata.category(sign)[0] != "M"


@cache
def _script(letter: str) -> str:
    """The first word of its name in Unicode, which for letters is that of the script."""
    return unicodedata.name(letter, "").partition(" ")[0]
