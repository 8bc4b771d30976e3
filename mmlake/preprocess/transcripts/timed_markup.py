"""Markup with times (TTML, ELAN) as producers write it: blank lines before its declaration, HTML's names for letters,
and signs of less or and that nobody escaped. What is damaged otherwise is read as far as it goes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar
from xml.parsers import expat

# an ampersand that begins no reference of XML, and a sign of less that begins no tag
_STRAY = re.compile(r"&(?!#\d{1,7};|#x[0-9a-fA-F]{1,6};|(?:amp|lt|gt|quot|apos);)([A-Za-z]\w{1,30};)?|<(?![\w/!?:])")
_ESCAPED = {"&": "&amp;", "<": "&lt;"}


class Span(NamedTuple):
    """What is said from one time to another, in seconds."""

    start_s: float
    end_s: float
    text: str


class Reader(Protocol):
    """What is called while markup is gone through."""

    def start(self, name: str, given: dict[str, str]) -> None: ...
    def said(self, words: str) -> None: ...
    def end(self, name: str) -> None: ...


_R = TypeVar("_R", bound=Reader)


def parsed(make: Callable[[], _R], text: str) -> _R:
    """A reader that has read the markup as far as it is whole; signs that break it are escaped first, where some do."""
    text = text.lstrip("\ufeff \t\r\n")  # expat takes a declaration at the first byte alone
    reader, is_whole = _parsed(make(), text)
    if not is_whole and (repaired := _STRAY.sub(_escaped, text)) != text:
        reader, _ = _parsed(make(), repaired)
    return reader


def _escaped(stray: re.Match[str]) -> str:
    letter = html.unescape(stray[0])
    return _ESCAPED.get(letter, letter) if letter != stray[0] else _ESCAPED[stray[0][0]] + stray[0][1:]


def _parsed(reader: _R, text: str) -> tuple[_R, bool]:
    parser = expat.ParserCreate("utf-8")  # whatever the text says: it is decoded already
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = reader.said, _refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except (expat.ExpatError, ValueError, ArithmeticError):
        return reader, False
    return reader, True


def _refuse(*_: Any) -> None:
    raise ValueError("a document type could define entities")
