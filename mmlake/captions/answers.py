"""What models write, as far as it is the JSON that was asked for."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from mmlake.endpoint import MALFORMED
from mmlake.errors import UnreadableItem

_FENCED = re.compile(r"\A\s*```[a-zA-Z]*\n(.*)\n?```\s*\Z", re.DOTALL)
_UNPRINTED = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]|[\ud800-\udfff]"
)
_SPACES = re.compile(r"\s+")


def parse_answer(answer: str) -> dict[str, Any]:
    """The object that the answer is, with or without a fence of Markdown around it. Raises UnreadableItem."""
    fenced = _FENCED.match(answer)
    try:
        found = json.loads(fenced[1] if fenced else answer, object_pairs_hook=_without_repeats, parse_constant=_refused)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise malformed("the answer is no JSON object")
    return found


def malformed(reason: str) -> UnreadableItem:
    """The error for an answer of another form than was asked for."""
    return UnreadableItem(MALFORMED, reason)


def plain(text: object, *, max_chars: int) -> str | None:
    """The text in one line, spaces joined; None where it is no text, empty, too long, or holds characters that no line
    of a transcript has."""
    if not isinstance(text, str) or len(text) > max_chars or _UNPRINTED.search(text):
        return None
    return _SPACES.sub(" ", text).strip() or None


def number(value: object) -> float | None:
    """The finite number; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
