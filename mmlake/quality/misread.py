"""Characters that are UTF-8 read in another encoding: "Å¡" for "š", "Ð±ÑŠÐ»" for "бъл", "вЂ™" for "’".

Leaves a pattern of them; nothing is repaired. A letter with an accent before a sign is usual in many languages
("CAFÉ…", "„Spaß“", "NÍŽE", "¡YO SÉ!"), and is a character in UTF-8 as well: so one such sequence alone counts only
where its sign never stands behind a letter, several in a row always do.
"""

from __future__ import annotations

import re
from typing import Final

_LEADS, _FOLLOWING = (range(0xC2, 0xE0), range(0xE0, 0xF0), range(0xF0, 0xF5)), range(0x80, 0xC0)  # bytes of UTF-8
# what stands behind letters: quotes, dashes, marks, footnotes, units, and other letters
_USUAL = "‘’“”›»–—…•·†‡™©®²¹ªº´‰\u00a0ŠŒŽšœžŸµƒ"
_USUAL_AT_ENDS = "«¡¿£°³"  # the same, but never between a letter and a small one
_NO_LETTERS = "×Ø"  # signs of measures, which stand before numbers and fractions
_NOT_BEHIND_A_BREVE = "ˇ˘¤¦§¨¬±˛´µ¶·¸˝Ľľłąż"  # which Romanian words begin and end with, and of other letters have few
_NEVER_BEHIND_A_ROOT = "≤≥"
_LETTERS_OF_MAC = "©®™´¨†°¢£§•¶ªºßÆØæøÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü"  # not π, ±, ∞ and the like: roots have these


def _read_as(encoding: str, numbers: range) -> str:
    """What these bytes are taken for; what the encoding lacks is a control, or what stands in place of controls."""
    return "".join(bytes([number]).decode(encoding, "replace") for number in numbers)


def _any_of(signs: str) -> str:
    return f"[{re.escape(''.join(sorted(set(signs))))}]"


def _pattern() -> str:
    follows = _read_as("cp1252", _FOLLOWING) + "".join(map(chr, range(0x80, 0xA0)))
    one, odd = _any_of(follows), _any_of("".join(set(follows) - set(_USUAL + _USUAL_AT_ENDS + "\ufffd")))
    rare = _any_of("".join(set(follows) - set(_USUAL + "«\ufffd")))  # two signs behind a letter are no end of a word
    two, three, four = (_read_as("latin-1", numbers) for numbers in _LEADS)
    letters = "".join(sign for sign in two if sign not in _NO_LETTERS)
    sequence = f"(?:{_any_of(two)}{one}|{_any_of(three)}{one}{{2}}|{_any_of(four)}{one}{{3}})"
    as_latin = [
        f"{sequence}{{2,}}",
        f"{_any_of(four)}{one}{{3}}",
        f"{_any_of(three)}(?:{rare}{one}|{one}{rare})",
        f"{_any_of(letters)}(?:{odd}|{_any_of(_USUAL_AT_ENDS)}(?=[a-z]))",
        f"(?<=[a-z])[ÃÄÅ]{one}|(?<=[a-z])Ã(?= )",  # no word goes on with a capital
        f"[ÂÃ](?:[\u0080-\u00bf]|(?!’){one}(?=[a-zA-Z]))",
        f"â(?:€{one}?|[„†‡ˆ‰Š‹ŒŽ™š›œžŸ]{one})",
    ]
    cyrillic = _any_of(_read_as("cp1251", _FOLLOWING))
    as_cyrillic = [
        f"(?:[РС]{cyrillic}){{3,}}",
        "вЂ[™њќўљ“”¦–]",
        "п¬[ЂЃ‚ѓ„]",  # fi, fl and the like, of which ¬ alone would be a hyphen that was recognized
        f"(?<=[a-zA-Z])Г{cyrillic}|Г‚",  # of Latin letters; no word has both scripts
    ]
    as_mac = [
        f"(?:[◊ÿŸ–—]{_any_of(_read_as('mac_roman', _FOLLOWING))}){{3,}}",
        f"(?<=[^\\W\\d_])√{_any_of(_LETTERS_OF_MAC + _NEVER_BEHIND_A_ROOT)}",
        f"(?<=[a-zA-Z])ƒ{_any_of(_LETTERS_OF_MAC)}|(?<=[a-zA-Z])≈{_any_of(_LETTERS_OF_MAC)}(?=[a-z])",
        "‚Ä[ôòúùìî¶¢]",
    ]
    console = _read_as("cp437", _FOLLOWING)
    signs = _any_of("".join(sign for sign in console if not "\u2500" <= sign <= "\u259f"))
    east = _any_of(_read_as("cp1250", _FOLLOWING))
    as_others = [
        f"(?:[ĂÄĹ]{east}){{2,}}|(?:[ŘŮ]{east}){{3,}}|(?:[ĐŃ]{east}){{3,}}|(?:[ÎĎ]{east}){{3,}}",
        f"(?<=[a-z])[ĂĹ]{east}",  # no word goes on with a capital
        f"Ĺ(?![ŠŤŽĽ]){east}|Ă[{_NOT_BEHIND_A_BREVE}]",
        f"(?:[╨╤]{_any_of(console)}){{3,}}|(?:[╬╧]{_any_of(console)}){{3,}}",
        f"(?<=[a-zA-Z])[┬├─┼]{signs}",  # of a drawn tree or table, no letter stands before and behind a line
        f"ß[║╗]{_any_of(console)}|ΓÇ{signs}",
    ]
    # so that other scripts try one class instead of each of the ways
    starts, others = _any_of(two + three + four), "[ĂÄĹŘŮĐŃÎĎ╨╤╬╧┬├─┼ßΓ]"
    first, second = (f"(?={begin})(?:{'|'.join(ways)})" for begin, ways in ((starts, as_latin), (others, as_others)))
    return "|".join([first, second, *as_cyrillic, *as_mac, "ï¿½"])


MISREAD: Final = _pattern()
