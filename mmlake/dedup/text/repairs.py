"""A text whose UTF-8 was read in another encoding, as it was before: "Ã©" is "é", "Ĺ‚" is "ł".

Enters: a text. Leaves: the repaired one, for prints alone; what is surely not garbled is returned as it is. The lake
keeps the text as it came, and its measure `garbled_fraction` (`mmlake.quality.misread`).
Source: RFC 3629 (which bytes are UTF-8); the tables of the encodings as Python has them.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

# What UTF-8 is taken for: of the West, of Central Europe, of Macs, of Cyrillic, of consoles. Behind each what a first
# byte is most often, of which the second one was lost: the encoding has no sign for it, or preprocessing took it for a
# control or for a soft hyphen (U+00AD), as of each "í". Of two letters with one first byte the small and frequent one;
# of Russian, where half of the letters are lost so, nothing is known
_ENCODINGS = {
    "cp1252": {"Ã": "í", "Ä": "č", "â€": "”", "Â": "\u00ad"},
    "latin-1": {"Ã": "í", "â": "’", "Â": "\u00ad"},
    "cp1250": {"Ă": "í", "Ä": "ă", "Ĺ": "ň", "â€": "’", "Â": "\u00ad"},
    "mac_roman": {},
    "cp1251": {},
    "cp437": {},
    "cp850": {},
}
_MOST_TIMES = 3  # that a text was read in a wrong encoding, one after the other
_LEAST_SEQUENCES = 3
# Of the characters beyond ASCII, those that are characters of UTF-8 again. In a text that was read rightly one with an
# accent is followed by one of the second kind by chance alone, as the last letter of a quotation ("Spaß“"); of a
# misread one some were lost, which the encoding has no sign for
_LEAST_FRACTION = 0.8
_BEGIN_CHARS, _LEAST_WHOLE_FRACTION = 2_000, 0.4  # read first; of the same in characters that lost nothing
_BEYOND, _BEHIND_EACH_OTHER = re.compile("[^\x00-\x7f]"), re.compile("[^\x00-\x7f]{2,}")
# bytes of UTF-8: those that begin a character of two, three or four, and those that go on
_LEADS, _FOLLOWING = (range(0xC2, 0xE0), range(0xE0, 0xF0), range(0xF0, 0xF5)), range(0x80, 0xC0)


_LOST = "\ufffd"  # what preprocessing puts in place of controls, which half of the second bytes are in Latin-1


class _Misreading(NamedTuple):
    whole: re.Pattern[str]  # one character of UTF-8, as it was misread
    any: re.Pattern[str]  # the same, or what is left of one
    numbers: dict[int, int]  # code point -> byte
    lone: dict[str, str]  # what is left of a character -> what it is most often


def repaired(text: str) -> str:
    """The text in the characters that its bytes meant; itself where it is not surely garbled."""
    for _ in range(_MOST_TIMES):
        first = None if text.isascii() else _BEYOND.search(text)
        if first is None:
            break
        # of texts in other scripts no more is read; who begins a garbled one with a long passage in order is rare
        begin = text[first.start() : first.start() + _BEGIN_CHARS]
        if _num_beyond_ascii(begin) < 2 * _LEAST_SEQUENCES:
            if _num_beyond_ascii(text) < 2 * _LEAST_SEQUENCES:
                break
            begin = text
        one = _misreading_of(begin) if _may_be_garbled(begin) else None
        if one is None:
            break
        num_whole, num_beyond = _num_in(one.whole, text), _num_beyond_ascii(text)
        is_garbled = _num_in(one.any, text) >= _LEAST_FRACTION * num_beyond
        if num_whole < max(2 * _LEAST_SEQUENCES, _LEAST_WHOLE_FRACTION * num_beyond) or not is_garbled:
            break
        before, text = text, one.any.sub(functools.partial(_meant, one), text)
        if text == before:
            break
    return text


def _may_be_garbled(text: str) -> bool:
    """Whether most characters beyond ASCII stand behind each other, as those of a misread sequence do, and those of
    Latin letters do not."""
    num = _num_in(_BEHIND_EACH_OTHER, text)
    return num >= 2 * _LEAST_SEQUENCES and num >= _LEAST_FRACTION * _num_beyond_ascii(text)


def _misreading_of(begin: str) -> _Misreading | None:
    """The encoding that explains most of how a text begins; None where none explains enough."""
    least = _LEAST_WHOLE_FRACTION * _num_beyond_ascii(begin)
    signs = {ord(sign) for sign in set(begin) if sign > "\x7f"}
    found = []
    for one in _misreadings():
        if len(signs & one.numbers.keys()) < _LEAST_WHOLE_FRACTION * len(signs):  # it has too few of them
            continue
        num_whole = _num_in(one.whole, begin)
        if num_whole >= least:
            found.append((num_whole, _num_in(one.any, begin), one))
    return max(found, key=lambda way: way[:2])[2] if found else None


def _num_beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _num_in(pattern: re.Pattern[str], text: str) -> int:
    """How many characters of the text lie in what the pattern finds."""
    return len("".join(pattern.findall(text)))


def _meant(one: _Misreading, found: re.Match[str]) -> str:
    """The character that these bytes are; themselves where they are none (surrogates, spellings that are too long)."""
    rest = found[0].rstrip(_LOST)
    if rest in one.lone:
        is_control = one.lone[rest] == "\u00ad" and rest != found[0]  # misread twice, and lost once
        return _LOST if is_control else one.lone[rest]
    try:
        return bytes(one.numbers[ord(sign)] for sign in found[0]).decode("utf-8")
    except (UnicodeDecodeError, KeyError):
        return found[0]


@functools.cache
def _misreadings() -> tuple[_Misreading, ...]:
    found = []
    for encoding, lone in _ENCODINGS.items():
        # a byte that the encoding has no sign for is passed on as the control of its number
        signs = {number: bytes([number]).decode(encoding, "ignore") or chr(number) for number in range(0x80, 0x100)}
        numbers = {ord(sign): number for number, sign in signs.items()}
        whole, firsts = _pattern(signs), "".join(signs[number] for number in _LEADS[0])
        rests = "|".join(f"{rest}{_LOST}*" for rest in lone) or "(?!)"
        damaged = re.compile(f"{whole}|{rests}|[{re.escape(firsts)}]{_LOST}")
        found.append(_Misreading(re.compile(whole), damaged, numbers, lone))
    return tuple(found)


def _pattern(signs: dict[int, str]) -> str:
    def any_of(numbers: range) -> str:
        return f"[{re.escape(''.join(signs[number] for number in numbers))}]"

    follows = any_of(_FOLLOWING)
    # no groups, so that `findall` gives whole sequences
    return "|".join(f"{any_of(leads)}{follows}{{{size}}}" for size, leads in enumerate(_LEADS, 1))
