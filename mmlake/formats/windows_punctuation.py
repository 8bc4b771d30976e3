"""Whether all that is not ASCII in bytes is punctuation as Windows writes it: curly quotes, apostrophes, dashes.

All code pages of Windows for alphabets have these at the same bytes (0x80 to 0x9b), where those of Macintosh and DOS
have letters. An English text often has nothing else that is not ASCII, and frequencies of letters say nothing of it.
"""

from __future__ import annotations

import re

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_OPENING, _CLOSING = b"\x82\x84\x8b\x91\x93", b"\x93\x94\x9b"  # German closes with what English opens with
_APOSTROPHE, _DASHES, _ELLIPSIS, _EURO, _BULLET, _TRADEMARK = 0x92, b"\x96\x97", 0x85, 0x80, 0x95, 0x99
# Quotes where hardly a word begins or ends with the letter that others have there; with 0x84 (DOS: ä) many do
_SURE = b"\x91\x93\x94"
_BEFORE_OPENING = b"([{<\"'-/=>*_\t\n\r "
# behind the apostrophe of English, and the words before it that are no word of Spanish once it is an i with an accent
_SHORTENED = re.compile(rb"(?i:t|re|ve|ll|d|m)(?![A-Za-z])")
_OWNED, _OWNERS = re.compile(rb"[sS](?![A-Za-z])"), re.compile(rb"(?i:[a-z]{3}|\bit|\bhe)\Z")
_ELIDED = re.compile(rb"(?i:\b[cdjlmnst]|qu|aujourd|\bo)\Z")  # in French and Italian; O'Brien
_SURELY_ELIDED = re.compile(rb"(?i:\b(?:[cjn]|qu).[aeiouyh]|\bl.[aeiuyh])", re.DOTALL)


def is_punctuation_of_windows(data: bytes) -> bool:
    """Whether each byte that is not ASCII is such a sign where it belongs, and one of them where no letter would be."""
    is_sure = False
    for found in _NOT_ASCII.finditer(data):
        at = found.start()
        sure = _stands(data, at, data[at])
        if sure is None:
            return False
        is_sure |= sure
    return is_sure


def _stands(data: bytes, at: int, sign: int) -> bool | None:
    """Whether a letter is out of the question there; None where the sign is."""
    before, behind = data[at - 1 : at] if at else b" ", data[at + 1 : at + 2] or b" "
    if sign in _OPENING and (before in _BEFORE_OPENING or not before.isascii()) and not behind.isspace():
        return sign in _SURE
    if sign in _CLOSING and not before.isspace() and not behind.isalnum():
        return sign in _SURE
    if sign == _APOSTROPHE:
        return _is_apostrophe(data, at) if before.isalpha() and behind.isalpha() else False
    if sign in _DASHES:  # 2 ó 3
        return before.isspace() and behind.isspace() and not data[max(0, at - 2) : at].strip().isdigit()
    is_placed = {
        _ELLIPSIS: not behind.isalnum(),
        _EURO: before.isdigit() or behind.isdigit() or before.isspace(),
        _BULLET: before.isspace() and behind.isspace(),
        _TRADEMARK: before.isalnum() and not behind.isalnum(),
    }
    return False if is_placed.get(sign, False) else None


def _is_apostrophe(data: bytes, at: int) -> bool | None:
    """The same of one between two letters."""
    word = data[max(0, at - 8) : at]
    if elided := _ELIDED.search(word):
        begin = max(0, at - 8) + elided.start()
        if _SURELY_ELIDED.match(data, begin):
            return True
    if _SHORTENED.match(data, at + 1) or (_OWNED.match(data, at + 1) and _OWNERS.search(word)):
        return True
    return False if elided else None
