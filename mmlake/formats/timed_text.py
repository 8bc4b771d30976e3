"""Times as corpora write them, and transcripts whose lines have them: a list of {start, end, text} becomes WebVTT,
which later stages read."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_CLOCK = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,3}):([0-9]{1,2})(?:[.,]([0-9]{1,9}))?")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_SPACES = re.compile(r"\s+")
_MAX_S = 1_000_000.0  # eleven days; nothing that is played lasts longer
_STARTS, _ENDS, _WORDS = ("start", "start_time", "start_s", "begin"), ("end", "end_time", "end_s"), ("text", "sentence")
_LENGTHS = ("duration",)  # in place of an end: Lhotse, YouTube's transcripts
_KNOWN = {*_STARTS, *_ENDS, *_WORDS, *_LENGTHS}
# of a line that lasts as long as its recording does, which is not known here: WebVTT has no other word for it
OPEN_END_S = 3_599_999.999
_NOTE = "NOTE without usable times: "


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript with times. Lines without usable ones stand in its text as notes, which no reader of WebVTT shows
    or times."""

    text: str
    num_cues: int
    broken: tuple[str, ...]  # the words of lines whose times cannot be used
    reason: str  # what is wrong with the first of them
    says_more: bool  # whether a line has more than its words and times


def seconds_of(value: object) -> float | None:
    """Seconds of "00:01:02.345", "01:02", "62.345" or a number; None for what is no time."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    elif not isinstance(value, str):
        return None
    elif match := _CLOCK.fullmatch(value.strip()):
        hours, minutes, seconds = int(match[1] or 0), int(match[2]), int(match[3])
        if seconds > 59 or (match[1] is not None and minutes > 59):
            return None
        found = hours * 3600 + minutes * 60 + seconds + float(f"0.{match[4] or 0}")
    elif _SECONDS.fullmatch(value.strip()):
        found = float(value)
    else:
        return None
    return found if math.isfinite(found) and 0 <= found <= _MAX_S else None


def transcript_of(lines: object) -> Transcript | None:
    """The list of {start, end, text} as WebVTT; None for what is no such list. Lines without words are left out. One
    without an end lasts as long as it says, or until the next one begins; the last one, and one whose end is null,
    until the recording ends (`OPEN_END_S`)."""
    if not isinstance(lines, list) or not any(
        isinstance(line, Mapping) and _first(line, _WORDS) is not None for line in lines
    ):
        return None
    cues, broken, reason = [], [], ""
    for number, line in enumerate(lines):
        fields = line if isinstance(line, Mapping) else {"text": line}
        words = _SPACES.sub(" ", str(_first(fields, _WORDS) or "")).strip()
        if not words:
            continue
        start, end = _first(fields, _STARTS), _first(fields, _ENDS)
        start_s = seconds_of(start)
        end_s = seconds_of(end) if end is not None else _end_of(fields, start_s, lines[number + 1 : number + 2])
        if start_s is None or end_s is None or end_s <= start_s:
            broken.append(words)
            reason = reason or f"line {number} is from {str(start)[:40]!r} to {str(end)[:40]!r}"
            cues.append(_NOTE + words.replace("-->", "→"))
        else:
            cues.append(f"{_clock(start_s)} --> {_clock(end_s)}\n{html.escape(words, quote=False)}")
    if not cues:
        return None
    says_more = any(isinstance(line, Mapping) and not line.keys() <= _KNOWN for line in lines)
    text = "WEBVTT\n\n" + "\n\n".join(cues) + "\n"
    return Transcript(text, len(cues) - len(broken), tuple(broken), reason, says_more)


def _end_of(fields: Mapping[str, Any], start_s: float | None, behind: list[Any]) -> float | None:
    """The end in seconds of a line that states none; `OPEN_END_S` where it is that of the recording."""
    if start_s is None:
        return None
    if (length := _first(fields, _LENGTHS)) is not None:
        return None if (length_s := seconds_of(length)) is None else start_s + length_s
    if behind and not any(name in fields for name in _ENDS):
        following = behind[0] if isinstance(behind[0], Mapping) else {}
        return seconds_of(_first(following, _STARTS))
    return OPEN_END_S


def with_seconds(value: Any) -> Any:
    """The value with `start_s` and `end_s` in every object that has `start_timestamp` and `end_timestamp`, as far as
    those are times."""
    if isinstance(value, list):
        return [with_seconds(child) for child in value]
    if not isinstance(value, Mapping):
        return value
    return {name: with_seconds(child) for name, child in value.items()} | dict(_seconds(value))


def _seconds(fields: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, added in (("start_timestamp", "start_s"), ("end_timestamp", "end_s")):
        found = seconds_of(fields.get(name))
        if found is not None and added not in fields:
            yield added, found


def _first(line: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((line[name] for name in names if line.get(name) is not None), None)


def _clock(time_s: float) -> str:
    milliseconds = round(time_s * 1000)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"
