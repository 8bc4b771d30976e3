"""Transcripts as they come with media: plain text, SRT, WebVTT and what `timed_files` reads."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from mmlake.formats.timed_text import OPEN_END_S
from mmlake.preprocess.transcripts.highlights import ShownLine, marked_part, runs
from mmlake.preprocess.transcripts.older_subtitles import words_of_frames
from mmlake.preprocess.transcripts.timed_files import spans_of

# As Teams writes it, too: 0:1:5.2; as translation by machine leaves it: 00: 01: 05, 200; as an editor moves it back:
# -00:00:01,500. Without a fraction, or with one behind a colon, hours are written.
_DIGITS, _COLONS, _POINT = r"\d{1,2}", r"[:：][ \t]?", r"[ \t]?[.,，][ \t]?"
_CLOCK = (
    rf"(-?(?:(?:\d{{1,3}}{_COLONS})?{_DIGITS}{_COLONS}{_DIGITS}{_POINT}\d{{1,9}}"
    rf"|\d{{1,3}}{_COLONS}{_DIGITS}{_COLONS}{_DIGITS}(?::\d{{3}})?))"
)
_BLANK = "[ \t\u00a0\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]"  # also those that copying from a page leaves
# also as hands, word processors and conversions write it: ->, - >, -- >, –>, →, --&gt;
_ARROW = rf"{_BLANK}*(?:[-–—](?:[-–— ] ?)?(?:>|&gt;)|[→⟶]){_BLANK}*"
_ARROW_SIGNS = (">", "&gt;", "→", "⟶")
_TIMING = re.compile(rf"^{_BLANK}*{_CLOCK}{_ARROW}{_CLOCK}({_BLANK}.*)?\r?$", re.MULTILINE)
# the line of times of a cue, whether they can be read or not; a line of words may have an arrow too
_TIMES = re.compile(rf"{_TIMING.pattern}|^([^\n]*?)-->([^\n]*)$", re.MULTILINE)
_START = re.compile(rf"{_BLANK}*{_CLOCK}{_BLANK}*")
_END = re.compile(rf"{_BLANK}*{_CLOCK}({_BLANK}.*)?\r?")
# where a cue stands on the screen, behind its times: what is no such thing is said
_SETTINGS = re.compile(rf"(?:{_BLANK}++(?:[A-Za-z][\w-]*+:\S*+|[-\d.,]++%?))*{_BLANK}*")
_BEGINNING = re.compile(rf"[\s\ufeff]*(?:-?\d{{1,10}}[ \t]*\n[ \t\n]*)?{_TIMING.pattern}", re.MULTILINE)  # of SRT
_NUMBER_ABOVE = re.compile(r"(?:\A|\n)[ \t]*\d{1,6}[ \t]*\n\Z")
_FRACTION = re.compile(r"[.,，]|(?<=[:：]\d\d):(?=\d{3}$)")
_COLON = re.compile(r"[:：]")
_NO_CUES = re.compile(
    r"\ufeff?WEBVTT[ \t]*(?:\r?\n|$)"
)  # the line above cues; of a segment of a stream there may be none
# the same with a title or a field, and the blocks that may stand below it. A text of words may begin so, too
_TITLED = re.compile(r"\ufeff?WEBVTT[ \t]+(?:[-–—]|[A-Za-z-]{1,40}[:=])")
_FIELD = re.compile(r"[A-Za-z-]{1,40}[:=]")
_OTHER_BLOCKS = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_BLANK_LINES = re.compile(r"\r?\n(?:[ \t]*\r?\n)+")
_WEB = re.compile(r"\ufeff?WEBVTT(?=[ \t\n]|$)")  # a title or fields may stand behind
# the name of the next cue, above its times and below a blank line: where a cue has no words it stands in their place; a
# number may stand below the words at once
_NEXT_NAME = re.compile(r"(?:\n\n[^\n]+|\n[ \t]*\d{1,6}[ \t]*)\n\Z")
_NUMBER_APART = re.compile(r"\n\n[ \t]*(\d{1,6})[ \t]*\n[ \t\n]*\n\Z")  # a blank line below it, too
_LAST_NUMBER = re.compile(r"\n\n[ \t]*\d{1,6}\s*\Z")  # of a cue that was cut off
# a voice, class or language with its name, any other tag with attributes or nothing: what somebody set in brackets,
# <LAUGHING & CHEERING>, are words
_TAG = re.compile(
    r"</?(?:v|c|lang)(?:[.\s][^<>]{0,80})?>|</?[a-z][\w:.-]{0,30}(?:\s{1,9}[\w:-]{1,30}\s{0,9}=[^<>]{0,80})?\s{0,9}/?>|<\d[\d:.]*>"
    r"|<[ \t]{0,4}/?[ \t]{0,4}(?:[bius][ \t]{0,4}|font\b[^<>]{0,80})>|\{\\[^{}]{0,80}\}",
    re.IGNORECASE,
)
# how a word is read, above it; it says the word again
_RUBY = re.compile(r"<rt\b[^<>]{0,80}>.{0,200}?(?:</rt>|(?=</ruby>))|<rp>.{0,20}?</rp>", re.IGNORECASE | re.DOTALL)
_SPACES = re.compile(r"\s+")
# who speaks, by pyannote's names for voices, as WhisperX writes it before a line; a name that people wrote may be said
_VOICE = re.compile(r"^[ \t]*\[SPEAKER_\d{2,4}\]:?[ \t]*", re.MULTILINE)
# exposure and place, frame by frame, in the subtitles of DJI's drones
_FLOWN = re.compile(
    r"\[(?:iso|shutter|fnum|latitude|longitude)\b|\b(?:FrameCnt|SrtCnt)\b|\b(?:GPS|HOME) ?\(", re.IGNORECASE
)
# Lines that scroll stand in several cues. Where most of a file's cues are so, what was there before is taken away: a
# cue follows the one before it at once, and holds a line still or adds one below
_AT_ONCE_S, _HOLD_S, _LEAST_ROLLED, _MOSTLY = 0.1, 0.1, 2, 0.5
_MOST_LINES = 4  # that are shown at once


@dataclass(frozen=True, slots=True)
class Cue:
    """One line of subtitles, or one word of a recognizer; times are None where the transcript has none."""

    text: str
    start_s: float | None = None
    end_s: float | None = None
    score: float | None = None  # the recognizer's confidence, 0..1

    @property
    def is_shown(self) -> bool:
        """Whether its times, where it has any, are those of a stretch."""
        return self.start_s is None or self.end_s is None or self.end_s > self.start_s


def is_subtitles(text: str) -> bool:
    """Whether the text is SRT or WebVTT: it has a timing line, or begins as WebVTT."""
    has_arrow = any(sign in text for sign in _ARROW_SIGNS)
    return (has_arrow and _TIMING.search(text) is not None) or _NO_CUES.match(text) is not None or _is_head(text)


def _is_head(text: str) -> bool:
    """Whether the text is WebVTT with a title or fields and without a cue: what stands below is notes, styles and
    regions alone."""
    if _TITLED.match(text) is None:
        return False
    head, *blocks = _BLANK_LINES.split(text.rstrip())
    return all(map(_FIELD.match, head.splitlines()[1:])) and all(map(_OTHER_BLOCKS.match, blocks))


def begins_as_subtitles(text: str) -> bool:
    """Whether the text is SRT or WebVTT from its first line on. What has a timing line further down may be a document
    that shows one, or a schedule."""
    text = text.removeprefix("\ufeff")
    if _WEB.match(text):
        return is_subtitles(text)
    beginning = _BEGINNING.match(text.replace("\r\n", "\n"))
    return beginning is not None and not _said_behind(beginning[3])


def parse_cues(text: str) -> list[Cue]:
    """The cues in order of time, also those of no length or that end before they start; one cue without times where the
    text is plain. A cue whose end cannot be read lasts until the next one; one whose start cannot has no times, and
    stands behind the one above it. Left out are cues without words, lines that scrolled up from the cue before, as in
    captions that YouTube makes, and cues that mark another word of their line. What a drone writes of its flight is no
    words at all."""
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if not is_subtitles(text):
        if (spans := spans_of(text)) is not None:
            said = [span._replace(text=_SPACES.sub(" ", _VOICE.sub("", span.text))) for span in sorted(spans)]
            return [Cue(span.text, span.start_s, span.end_s) for span in said if span.text]
        plain = _SPACES.sub(" ", words_of_frames(text) or _VOICE.sub("", text)).strip()
        return [Cue(plain)] if plain else []
    found: list[_Lines] = []
    untimed: list[tuple[float, Cue]] = []  # each with the start of the cue above it
    is_web = _WEB.match(text) is not None
    marks = _ended(list(_marks(text)))
    for index, mark in enumerate(marks):
        is_last = index + 1 == len(marks)
        behind = text[mark.end :] if is_last else text[mark.end : marks[index + 1].begin]
        apart = None if is_last or is_web else _NUMBER_APART.search(behind)
        if apart is not None and int(apart[1]) in (index + 1, index + 2):  # counted from 0, or from 1
            behind = behind[: apart.start()]
        body = _body((_LAST_NUMBER if is_last else _NEXT_NAME).sub("\n", behind), is_web=is_web)
        shown = _shown(body if is_web else mark.said + body)
        lines = [words for line in shown if (words := _SPACES.sub(" ", line).strip())]
        if lines and mark.start_s is None:
            untimed.append((found[-1].start_s if found else -1.0, Cue(" ".join(lines))))
        elif lines and mark.start_s is not None and mark.end_s is not None:
            found.append(_Lines(mark.start_s, mark.end_s, lines, marked_part(body)))
    found = _without_highlights(sorted(found, key=lambda cue: cue[:3]))
    if sum(_FLOWN.search(" ".join(cue.lines)) is not None for cue in found) > len(found) / 2:
        return []
    timed = [(cue.start_s, Cue(" ".join(cue.lines), cue.start_s, cue.end_s)) for cue in _without_rolled(found)]
    return [cue for _, cue in sorted([*timed, *untimed], key=itemgetter(0))]


def _shown(body: str) -> list[str]:
    """The lines of a cue without tags; SubStation's breaks are some where it was made into SRT."""
    if "<ruby" in body.lower():
        body = _RUBY.sub("", body)
    return html.unescape(_VOICE.sub("", _TAG.sub("", body)).replace("\\N", "\n").replace("\\h", " ")).split("\n")


class _Mark(NamedTuple):
    """A line of times: where it lies in the text, its times as far as they can be read, and what is said behind
    them."""

    begin: int
    end: int
    start_s: float | None
    end_s: float | None
    said: str = ""


def _marks(text: str) -> Iterator[_Mark]:
    """The lines of times in their order. One that cannot be read is one where it has a time all the same, or a number
    of a cue above it."""
    for line in _TIMES.finditer(text):
        if line[1] is not None:
            yield _Mark(
                line.start(), line.end(), _seconds(line[1], line[2]), _seconds(line[2], line[1]), _said_behind(line[3])
            )
            continue
        start, end = _START.fullmatch(line[4]), _END.fullmatch(line[5])
        if start or end or _NUMBER_ABOVE.search(text[max(0, line.start() - 16) : line.start()]):
            yield _Mark(line.start(), line.end(), start and _seconds(start[1]), end and _seconds(end[1]))


def _said_behind(rest: str | None) -> str:
    """What stands behind the times of a cue, where it is more than its place."""
    return "" if rest is None or _SETTINGS.fullmatch(rest) else rest


def _ended(marks: list[_Mark]) -> list[_Mark]:
    """The lines of times, each with an end where it has a start: a cue whose end cannot be read lasts until the next
    one begins, or as long as its recording does."""
    next_s, found = OPEN_END_S, list[_Mark]()
    for mark in reversed(marks):
        found.append(mark if mark.end_s is not None else mark._replace(end_s=next_s))
        next_s = next_s if mark.start_s is None else mark.start_s
    return found[::-1]


def _body(text: str, *, is_web: bool) -> str:
    """The words below a line of times: a blank line ends them in WebVTT, in SRT only the next times, read or not. text:
    from the end of that line to those. A blank line at once ends a cue of WebVTT that says nothing."""
    if is_web:
        return text.removeprefix("\n").partition("\n\n")[0] if not text.startswith("\n\n") else ""
    return text


class _Lines(NamedTuple):
    """A cue as it is shown."""

    start_s: float
    end_s: float
    lines: list[str]
    marked: tuple[int, int] | None = None


def _without_highlights(cues: list[_Lines]) -> list[_Lines]:
    """The cues, one for all those of a line whose words are marked one after the other."""
    shown = [ShownLine(cue.start_s, cue.end_s, " ".join(cue.lines), cue.marked) for cue in cues]
    return [cues[first]._replace(end_s=max(cue.end_s for cue in cues[first:behind])) for first, behind in runs(shown)]


def _without_rolled(cues: list[_Lines]) -> list[_Lines]:
    """The cues without lines that scrolled up from the one before; all of them where lines do not scroll."""
    num_rolled = [0, *(_num_rolled(before, cue) for before, cue in itertools.pairwise(cues))][: len(cues)]
    num_evident = sum(
        bool(num) and (num < len(cue.lines) or cue.end_s - cue.start_s <= _HOLD_S)
        for num, cue in zip(num_rolled, cues, strict=True)
    )
    if num_evident < max(_LEAST_ROLLED, _MOSTLY * (len(cues) - 1)):
        return cues
    kept: list[_Lines] = []
    for num, cue in zip(num_rolled, cues, strict=True):
        if num < len(cue.lines):
            kept.append(cue._replace(lines=cue.lines[num:]))
        else:
            kept[-1] = kept[-1]._replace(end_s=max(kept[-1].end_s, cue.end_s))
    return kept


def _num_rolled(before: _Lines, cue: _Lines) -> int:
    """How many lines at the top of the cue stood at the bottom of the one before it."""
    if cue.start_s > before.end_s + _AT_ONCE_S:
        return 0
    most = min(len(before.lines), len(cue.lines), _MOST_LINES)
    return next((num for num in range(most, 0, -1) if before.lines[-num:] == cue.lines[:num]), 0)


def _seconds(clock: str, other: str = "") -> float:
    """other: the clock that stands with it."""
    if clock.startswith("-"):
        return 0.0  # before the film does
    whole, *fraction = _FRACTION.split(clock.replace(" ", "").replace("\t", ""))
    parts = [int(part) for part in _COLON.split(whole)]
    hours, minutes, seconds = [0] * (3 - len(parts)) + parts
    # next to milliseconds a thousand of them is a second that a writer did not carry, and no tenth in four digits
    is_carried = fraction == ["1000"] and len(_FRACTION.split(other)[-1].strip()) == 3
    share = 1.0 if is_carried else float(f"0.{fraction[0] if fraction else 0}")
    return hours * 3600 + minutes * 60 + seconds + share
