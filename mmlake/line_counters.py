"""What counts the lines of a text from outside of it: numbers of lines, and times of a transcript.

Enters: a text. Leaves: where these stand, or the text without them. Numbers of items ("1." or "(1)") are none: they are
written by who wrote the text.
"""

from __future__ import annotations

import re
from typing import Final

_LEAST_LINES: Final = 8  # fewer lines that go up are a table, or chance
# a transcript as pages show it has the time of a line on a line of its own, so that they are half of the lines
_LEAST_FRACTION: Final = 0.45
_LEAST_RISING: Final = 0.9  # of the steps from one to the next; a line of the text itself may begin with a number
_PLACE_CHARS: Final = 300  # some lines
_DIGIT = re.compile(r"\n[ \t]*+[\[(]?[0-9]")
_COUNTER = re.compile(
    r"^[ \t]*+(?:[\[(]?(?:(\d{1,2}):)?(\d{1,3}):([0-5]\d)(?:[.,]\d{1,3})?[\])]?|(\d{1,6})[:|]?)(?=[ \t\n]|\Z)[ \t]*+",
    re.MULTILINE,
)


def counters(text: str) -> list[tuple[int, int]]:
    """The spans of the counters, in order; none where there are fewer than 8, where under .45 of the lines have one, or
    where they do not go up: numbers by one, or again from 1 as on each page, times by any step."""
    if not _may_be_counted(text):
        return []
    found = list(_COUNTER.finditer(text))
    num_lines = sum(1 for line in text.split("\n") if line and not line.isspace())
    if len(found) < max(_LEAST_LINES, _LEAST_FRACTION * num_lines):
        return []
    values = [_value(one) for one in found]
    steps = list(zip(values[:-1], values[1:], strict=True))
    rising = sum(
        one[0] == other[0] and (one[1] <= other[1] if one[0] else other[1] in (one[1] + 1, 1)) for one, other in steps
    )
    return [one.span() for one in found] if rising >= _LEAST_RISING * len(steps) else []


def without_counters(text: str) -> str:
    """The text without its counters; itself where it has none."""
    spans = counters(text)
    if not spans:
        return text
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(text)]
    return "".join(text[low:high] for low, high in zip(ends, begins, strict=True))


def counted_line_fraction(text: str) -> float | None:
    """How many of the lines that say something have a counter, 0 to 1; None without a line."""
    num_lines = sum(1 for line in text.split("\n") if line and not line.isspace())
    return min(1.0, len(counters(text)) / num_lines) if num_lines else None


def _may_be_counted(text: str) -> bool:
    """Whether in both of two places a line begins with a digit: most texts cost one short search. Where no line ends in
    such a place lines are long, and counters too few to make it another text."""
    third = len(text) // 3
    return (
        _DIGIT.search(text, third, third + _PLACE_CHARS) is not None
        and _DIGIT.search(text, 2 * third, 2 * third + _PLACE_CHARS) is not None
    )


def _value(found: re.Match[str]) -> tuple[bool, int]:
    """(whether it is a time, seconds or the number)."""
    hours, minutes, seconds, number = found.groups()
    if number is not None:
        return False, int(number)
    return True, 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
