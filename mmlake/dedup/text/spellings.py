"""What a text says, whichever way it is typed: letters, digits and scripts that stand for each other made one.

Enters: a text. Leaves: the same without addresses of links, and its letters in one spelling, for prints alone.
Sources: Pravopis srpskoga jezika (each Cyrillic letter of Serbian has one in Latin), Unicode 14
(Default_Ignorable_Code_Point).
"""

from __future__ import annotations

import re
import unicodedata

# Persian and Urdu are typed with their own yeh, kaf and heh, or on other keyboards with the Arabic ones; many leave out
# the points of a final yeh. Numbers are written with the digits of the script, or with those of ASCII. Most Russian is
# printed without the dots of its yo. What else letters lose, or have written out, is `plain_letters`'
_SPELLINGS = (
    *zip("\u06cc\u0649\u06a9\u06c1", "\u064a\u064a\u0643\u0647", strict=True),
    *zip("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹०१२३४५६७८९", "0123456789" * 3, strict=True),
    ("ё", "е"),
)
# What no reader sees, and some mark their copies with; but for the non-joiner, which divides words of Persian
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200d-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8]|[\U000e0000-\U000e0fff]"
)
# Serbian is written in both scripts. No other language but Macedonian has the letters that say that it is
_SERBIAN = re.compile("[ђјљњћџ]")
_CYRILLIC = "абвгдђежзијклљмнњопрстћуфхцчџш"
_LATIN = "a b v g d đ e ž z i j k l lj m n nj o p r s t ć u f h c č dž š".split()
_IN_LATIN = str.maketrans(dict(zip(_CYRILLIC, _LATIN, strict=True)))
# of Markdown: [words](address "title"), and lines that say what a name stands for. An index into a list that is called
# has no address behind it
_ADDRESS = r"(?=[^()\s]*[./#:])[^()\s]*(?:\([^()\s]*\)[^()\s]*)?"
_TARGET = re.compile(rf"\]\({_ADDRESS}(?:\s+\"[^\"\n]*\")?\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]{1,200}\]: ?\S+$", re.MULTILINE)


def without_targets(text: str) -> str:
    """The text without the addresses of links in Markdown, of which a reader sees none."""
    if "](" in text:
        text = _TARGET.sub("] ", text)
    if "]: " in text:
        text = _DEFINITION.sub("", text)
    return text


def folded_spelling(text: str) -> str:
    """The text after NFKC and case folding, in the letters that others may be typed as."""
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    for written, meant in _SPELLINGS:
        if written in text:
            text = text.replace(written, meant)
    return text.translate(_IN_LATIN) if _SERBIAN.search(text) else text
