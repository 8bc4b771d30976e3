"""Lines that are shown anew for each of their words, with that word marked: each is said once.

Enters: lines of subtitles in order of time, and which part of each is marked. Leaves: the lines as they are said. So
write Whisper (`--highlight_words`), WhisperX and stable-ts, and editors of captions for short films: a line of ten
words stands in ten cues and more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mmlake.preprocess.transcripts.timed_markup import Span

_AT_ONCE_S = 0.1  # between two cues of one line: clocks of subtitles round to hundredths
_LEAST_MOVES = 2  # of a mark in a file: one alone may be a line that is said twice, and stressed otherwise
# what sets letters apart: tags, but for voices and languages, which last until the end of the cue, and SubStation's
# overrides, but for those of a place, which hold for the whole line
_MARK = re.compile(
    r"<(/?)[ \t]*(b|i|u|font|c)\b[^<>]{0,80}>|(\{\\(?!an?\d|pos|move|fad|q\d)[^{}]{0,80}\})", re.IGNORECASE
)
_OTHER = re.compile(r"<[^<>]{0,80}>|\{[^{}]{0,80}\}|\s+|\\[Nnh]")


class ShownLine(NamedTuple):
    """A line as it is shown."""

    start_s: float
    end_s: float
    words: str
    marked: tuple[int, int] | None = None  # see `marked_part`

    def is_repeated_by(self, later: ShownLine) -> bool:
        """Whether the same words follow at once."""
        return later.words == self.words and later.start_s <= self.end_s + _AT_ONCE_S


def marked_part(body: str) -> tuple[int, int] | None:
    """Where the shortest part lies that tags or SubStation's overrides set apart from other letters, as (start, end) in
    characters without spaces; None where nothing is, or all of it. body: a cue as it is written."""
    parts: list[tuple[int, int]] = []
    opened: list[int] = []
    override: int | None = None
    at = end = 0
    for mark in _MARK.finditer(body):
        at += len(_OTHER.sub("", body[end : mark.start()]))
        end = mark.end()
        if mark[3]:
            parts += [] if override is None else [(override, at)]
            override = at if override is None else None  # every second one takes back the one before it
        elif not mark[1]:
            opened.append(at)
        elif opened:
            parts.append((opened.pop(), at))
    length = at + len(_OTHER.sub("", body[end:]))
    parts += [(start, length) for start in (*opened, *([] if override is None else [override]))]
    return min(
        (part for part in parts if 0 < part[1] - part[0] < length), key=lambda one: (one[1] - one[0], one), default=None
    )


def runs(shown: Sequence[ShownLine]) -> list[tuple[int, int]]:
    """(first, behind the last) of the cues of each line, in order: one cue each, but where a mark moves through the
    words of a line. shown: in order of time."""
    found: list[tuple[int, int]] = []
    num_moves = num_moved = first = 0
    while first < len(shown):
        last, moves = _run(shown, first)
        if not moves:
            last = first + 1
        found.append((first, last))
        num_moves, num_moved = num_moves + moves, num_moved + bool(moves)
        first = last
    is_evident = num_moves >= _LEAST_MOVES or len(found) == num_moved
    return found if is_evident else [(at, at + 1) for at in range(len(shown))]


def said_of(shown: Sequence[ShownLine]) -> list[Span]:
    """Each line once, in order of time."""
    shown = sorted(shown, key=lambda line: line[:3])
    return [
        Span(shown[first].start_s, max(line.end_s for line in shown[first:behind]), shown[first].words)
        for first, behind in runs(shown)
    ]


def _run(shown: Sequence[ShownLine], first: int) -> tuple[int, int]:
    """(behind the last cue of the line that begins there, how often its mark moves on)."""
    mark, moves, at = shown[first].marked, 0, first + 1
    while at < len(shown) and shown[at - 1].is_repeated_by(shown[at]):
        before, now = shown[at - 1].marked, shown[at].marked
        if (before is None and now is None) or (mark is not None and now is not None and now[0] < mark[1]):
            break  # it is said again
        moves += mark is not None and now is not None
        mark = now or mark
        at += 1
    return at, moves
