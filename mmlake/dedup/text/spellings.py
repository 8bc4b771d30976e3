"""What a text says, whichever way it is typed: letters, digits and scripts that stand for each other made one.

Enters: a text. Leaves: the same as a reader sees it, without tags and addresses of links and with the characters that
references name, and its letters in one spelling, for prints alone.
Sources: Pravopis srpskoga jezika (each Cyrillic letter of Serbian has one in Latin), Unicode 14
(Default_Ignorable_Code_Point), HTML Living Standard 4 (elements that stand within a line, and others).
"""

from __future__ import annotations

import html
import re
import unicodedata
from html.entities import html5

from mmlake.dedup.text.escapes import unescaped
from mmlake.dedup.text.repairs import repaired
from mmlake.line_counters import without_counters

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
# of HTML: what stands within a line divides no word, what is a line or a cell of its own does. Elements by name, since
# programs have other things between such signs
_INSIDE = "a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u|var"
_BLOCKS = "blockquote|br|center|dd|div|dl|dt|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"
# case is folded behind the first sign alone, which is sought three times as fast so
_TAG = re.compile(rf"</?(?i:(?:{_INSIDE})|({_BLOCKS}))(?:\s[^<>]{{0,1000}})?/?>")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")


def as_seen(text: str) -> str:
    """The text as a reader sees it: without what counts its lines, tags of HTML and addresses of Markdown, with each
    character reference and escape as its character, and what was read in a wrong encoding in the right one. A text
    without an end tag is no HTML, and names tags."""
    text = repaired(unescaped(without_counters(text)))
    if "<" in text and "</" in text:  # one sign is found forty times as fast as two
        text = _TAG.sub(lambda found: " " if found[1] else "", text)
    if "&" in text:
        text = _REFERENCE.sub(_character, text)
    return without_targets(text)


def _character(reference: re.Match[str]) -> str:
    """What the reference is to; itself where its name is none."""
    written = reference[0]
    return html.unescape(written) if written[1] == "#" or written[1:] in html5 else written


def without_targets(text: str) -> str:
    """The text without the addresses of links in Markdown, of which a reader sees none."""
    if "]" in text:
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
