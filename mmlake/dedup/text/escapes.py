"""A text without the escapes of what carried it: `\\u00e9` of JSON, `=C3=A9` of mail, `%C3%A9` of addresses.

Enters: a text. Leaves: the same in characters, for prints alone. A few escapes are the subject of a text or stand in an
address; a text is unescaped where it has several characters beyond ASCII written so.
Sources: RFC 8259 section 7 (JSON), RFC 2045 section 6.7 (quoted-printable), RFC 3986 section 2.1 (percent-encoding).
"""

from __future__ import annotations

import itertools
import re
from urllib.parse import unquote_to_bytes

_LEAST = 3  # escaped characters beyond ASCII
_JSON = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_JSON_BEYOND = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
_JSON_BLANK = re.compile(r"\\[nrt](?![a-z]:)|\\(?=[\"/])")  # but for paths of Windows
_QUOTED_BEYOND = re.compile(r"=[C-F][0-9A-F]=[89AB][0-9A-F]")  # in capitals, as the RFC asks for
_QUOTED = re.compile(r"(?:=[0-9A-F]{2})+")
# one sign or two are found many times as fast as a pattern
_QUOTED_BEGINS, _PERCENT_BEGINS = ("=C", "=D", "=E", "=F"), ("%C", "%D", "%E", "%F", "%c", "%d", "%e", "%f")
_SOFT_BREAK = re.compile(r"=[ \t]*\n")
_PERCENT_BEYOND = re.compile(r"%[C-Fc-f][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def unescaped(text: str) -> str:
    """The text in characters; itself where it has few escapes or none."""
    if "\\" in text and "\\u" in text and _has_several(_JSON_BEYOND, text):
        text = _JSON_BLANK.sub(" ", _JSON.sub(_of_json, text))
    is_percent = "%" in text and any(begin in text for begin in _PERCENT_BEGINS) and _has_several(_PERCENT_BEYOND, text)
    if is_percent or ("%20" in text and text.count("%20") > text.count(" ")):
        text = _PERCENT.sub(_of_bytes, text)
    if "=" in text and any(begin in text for begin in _QUOTED_BEGINS) and _has_several(_QUOTED_BEYOND, text):
        text = _QUOTED.sub(_of_bytes, _SOFT_BREAK.sub("", text))
    return text


def _has_several(pattern: re.Pattern[str], text: str) -> bool:
    return sum(1 for _ in itertools.islice(pattern.finditer(text), _LEAST)) == _LEAST


def _of_json(found: re.Match[str]) -> str:
    """The characters of a run of escapes; of half of a pair of surrogates U+FFFD."""
    return bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be", "replace")


def _of_bytes(found: re.Match[str]) -> str:
    """The characters of a run of escaped bytes; the run itself where they are no UTF-8."""
    try:
        return unquote_to_bytes(found[0].replace("=", "%")).decode("utf-8")
    except UnicodeDecodeError:
        return found[0]
