"""Words to the phones that an English speaker would say: the dictionary, and letter-to-sound rules where it is silent.

The rules are rough on purpose: an unknown name needs a length and a rough outline, so that its neighbours keep their
place; it is never taken for known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Longest first at each place; "^" and "$" are the edges of the word. After Elovitz et al. 1976 (NRL report 7948), cut
# down to what matters for the outline.
_LETTERS = {
    "tion": "SH AH N",
    "sion": "ZH AH N",
    "ture": "CH ER",
    "ough": "AO",
    "augh": "AO",
    "eigh": "EY",
    "^kn": "N",
    "^wr": "R",
    "^ps": "S",
    "igh": "AY",
    "tch": "CH",
    "dge": "JH",
    "sch": "SH",
    "ch": "CH",
    "ck": "K",
    "gh": "G",
    "ph": "F",
    "sh": "SH",
    "th": "TH",
    "wh": "W",
    "qu": "K W",
    "ng$": "NG",
    "nk": "NG K",
    "ai": "EY",
    "ay": "EY",
    "au": "AO",
    "aw": "AO",
    "ar": "AA R",
    "ea": "IY",
    "ee": "IY",
    "ei": "IY",
    "ey$": "IY",
    "er": "ER",
    "eu": "UW",
    "ew": "UW",
    "ie": "IY",
    "ir": "ER",
    "oa": "OW",
    "oi": "OY",
    "oy": "OY",
    "oo": "UW",
    "or": "AO R",
    "ou": "AW",
    "ow": "OW",
    "ur": "ER",
    "ue$": "UW",
    "es$": "Z",
    "e$": "",
    "y$": "IY",
    "^y": "Y",
    "ce": "S EH",
    "ci": "S IH",
    "cy": "S IY",
    "ge": "JH EH",
    "a": "AE",
    "b": "B",
    "c": "K",
    "d": "D",
    "e": "EH",
    "f": "F",
    "g": "G",
    "h": "HH",
    "i": "IH",
    "j": "JH",
    "k": "K",
    "l": "L",
    "m": "M",
    "n": "N",
    "o": "AA",
    "p": "P",
    "q": "K",
    "r": "R",
    "s": "S",
    "t": "T",
    "u": "AH",
    "v": "V",
    "w": "W",
    "x": "K S",
    "y": "IH",
    "z": "Z",
}
_LONGEST = max(map(len, _LETTERS))
_SUFFIXES = {"'s": "Z", "s": "Z", "ed": "D", "ing": "IH NG", "er": "ER", "ly": "L IY", "ness": "N AH S"}
_MIN_PART = 3  # letters of a part that a compound may have: shorter ones are found by chance
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_MAX_NUMBER = 999_999  # digits are read one by one from here

Lookup = Callable[[str], str | None]  # a lower-case word to its phones in the dictionary


@dataclass(frozen=True, slots=True)
class Spoken:
    """One word of a transcript as it should sound."""

    word: str  # as the transcript writes it
    phones: tuple[str, ...]
    is_known: bool  # whether the dictionary has it, or the words of its number


def tokens(text: str) -> list[str]:
    """The words of the text, without punctuation."""
    return _TOKEN.findall(text)


def pronounce(text: str, lookup: Lookup) -> list[Spoken]:
    """The words of the text with their phones; those that no rule of English can say have none."""
    return [_spoken(token, lookup) for token in tokens(text)]


def _spoken(token: str, lookup: Lookup) -> Spoken:
    word = token.lower().replace("’", "'")
    if (found := lookup(word) if word.isascii() else None) is not None:
        return Spoken(token, tuple(found.split()), True)
    if word.isascii() and word.isdecimal():
        phones = [phone for part in in_words(word) for phone in (lookup(part) or "").split()]
        return Spoken(token, tuple(phones), bool(phones))
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    return Spoken(token, tuple((_from_parts(plain, lookup) or by_letters(plain)).split()), False)


def _from_parts(word: str, lookup: Lookup) -> str | None:
    """The phones of a known stem with a suffix, or of two known words in one."""
    if not word.isascii():
        return None
    for suffix, sound in _SUFFIXES.items():
        stem = word.removesuffix(suffix)
        if stem != word and len(stem) >= _MIN_PART:
            for whole in (stem, f"{stem}e"):
                if (phones := lookup(whole)) is not None:
                    return f"{phones} {sound}"
    for at in range(len(word) - _MIN_PART, _MIN_PART - 1, -1):
        if (left := lookup(word[:at])) is not None and (right := lookup(word[at:])) is not None:
            return f"{left} {right}"
    return None


def by_letters(word: str) -> str:
    """The phones of a lower-case word by its letters; empty where no letter is Latin."""
    marked, at, phones = f"^{word}$", 1, []
    while at < len(marked) - 1:
        if marked[at] == marked[at - 1]:  # a double letter sounds once, and "ee" was read whole
            at += 1
            continue
        for size in range(_LONGEST, 0, -1):
            for start in (at - 1, at) if at == 1 else (at,):
                sound = _LETTERS.get(marked[start : start + size])
                if sound is not None:
                    phones.append(sound)
                    at = min(start + size, len(marked) - 1)
                    break
            else:
                continue
            break
        else:
            at += 1
    return " ".join(" ".join(phones).split())


def in_words(digits: str) -> list[str]:
    """The number as it is read: 1984 as a year, 120 as a cardinal, long ones and those that begin with 0 digit by
    digit."""
    number = int(digits)
    if number > _MAX_NUMBER or (len(digits) > 1 and digits[0] == "0"):
        return [_ONES[int(digit)] for digit in digits]
    if 1100 <= number <= 2099 and not 2000 <= number <= 2009 and number % 100:
        return [*_below_thousand(number // 100), *(["oh"] if number % 100 < 10 else []), *_below_thousand(number % 100)]
    thousands, rest = divmod(number, 1000)
    words = [*_below_thousand(thousands), "thousand"] if thousands else []
    return words + (_below_thousand(rest) if rest or not thousands else [])


def _below_thousand(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [_ONES[hundreds], "hundred"] if hundreds else []
    if rest < 20:
        return words + ([_ONES[rest]] if rest or not hundreds else [])
    return [*words, _TENS[rest // 10 - 2], *([_ONES[rest % 10]] if rest % 10 else [])]
