"""Subtitles of players before SubRip: SAMI, MicroDVD, MPL2 and TMPlayer.

A text comes in, spans leave. MicroDVD counts frames: where its first line does not say how many a second has, its words
have no times, since one that was guessed would drift by minutes.
"""

from __future__ import annotations

import bisect
import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from mmlake.preprocess.transcripts.timed_markup import Span

# "SAMI 1.0" (Microsoft, 2001): what is said from `Start` on, in milliseconds, until the next one
_SYNC = re.compile(r"<sync\b[^<>]{0,200}?\bstart\s{0,9}=\s{0,9}[\"']?\s{0,9}(-?\d{1,10})[^<>]{0,200}>", re.IGNORECASE)
_PARAGRAPH = re.compile(r"<p\b([^<>]{0,400})>", re.IGNORECASE)
_TRACK = re.compile(r"\b(?:class|lang)\s{0,9}=\s{0,9}[\"']?([\w-]{1,80})", re.IGNORECASE)
_WHO = re.compile(r"\bid\s{0,9}=\s{0,9}[\"']?source\b", re.IGNORECASE)  # who speaks, or the title of what is shown
_BREAK = re.compile(r"<br\b[^<>]{0,80}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]{0,400}>|<!--.{0,400}?-->", re.IGNORECASE | re.DOTALL)
_END = re.compile(r"</body\b|</sami\b", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_FRAMES = re.compile(r"[ \t]*\{[ \t]*(\d{1,9})[ \t]*\}[ \t]*\{[ \t]*(\d{0,9})[ \t]*\}(.*)$")
_FORMATTING = re.compile(r"\{[a-zA-Z]:[^{}]{0,80}\}|</?[bius]>", re.IGNORECASE)
_RATE = re.compile(r"\d{1,4}(?:[.,]\d{1,6})?")
_TENTHS = re.compile(r"[ \t]*\[[ \t]*(\d{1,9})[ \t]*\][ \t]*\[[ \t]*(\d{0,9})[ \t]*\](.*)$")
_CLOCK = re.compile(r"[ \t]*(\d{1,2}):([0-5]\d):([0-5]\d)(?:,\d)?[:=](?!\d\d[:;, ])(.*)$")
_LEANING = re.compile(r"(?:\A|(?<=\|))[ \t]*/")  # a line that begins with a stroke is set in italics
_SHOWN_S = 5.0  # what a line is given that ends nowhere, or long after it was read
_HEAD_CHARS, _FIRST_LINES = 4_096, 20
_MOSTLY = 0.5  # of the first lines: one may go on below its time
_LEAST_CLOCKS = 2


def sami(text: str) -> Iterable[Span]:
    """What is said: of several languages the one with the most lines, the first of equals."""
    syncs = list(_SYNC.finditer(text))
    shown: list[tuple[float, dict[str, str]]] = []
    for at, sync in enumerate(syncs):
        body = text[sync.end() : syncs[at + 1].start() if at + 1 < len(syncs) else len(text)]
        shown.append((max(0, int(sync[1])) / 1000, _by_track(_END.split(body, maxsplit=1)[0])))
    lines = Counter(track for _, said in shown for track, words in said.items() if words)
    if not lines:
        return []
    most = max(lines, key=lambda track: lines[track])
    mine = [(start_s, said[most]) for start_s, said in shown if most in said]
    return _until_next(mine)


def _by_track(body: str) -> dict[str, str]:
    """Words by the class of their paragraph, or by its language; a paragraph without words ends what was shown."""
    found: dict[str, list[str]] = {}
    above, *parts = _PARAGRAPH.split(body)
    for given, words in [("", above), *zip(parts[::2], parts[1::2], strict=True)]:
        track = (mark := _TRACK.search(given)) and mark[1].lower()
        plain = _SPACES.sub(" ", html.unescape(_TAG.sub("", _BREAK.sub(" ", words)))).strip()
        if (given or plain) and not _WHO.search(given):
            found.setdefault(track or "", []).append(plain)
    return {track: " ".join(filter(None, words)) for track, words in found.items()}


def _until_next(lines: list[tuple[float, str]]) -> Iterator[Span]:
    """The lines in order, each until the next one begins."""
    lines = sorted(lines, key=lambda line: line[0])
    for at, (start_s, words) in enumerate(lines):
        if words:
            yield Span(start_s, lines[at + 1][0] if at + 1 < len(lines) else start_s + _SHOWN_S, words)


def microdvd(text: str) -> Iterable[Span]:
    """Lines of a file that says its frames per second."""
    _, *rows = _rows(text, _FRAMES)
    rate_hz = _rate_hz(text) or 1.0
    return _ended([(int(row[1]) / rate_hz, int(row[2]) / rate_hz if row[2] else None, _plain(row[3])) for row in rows])


def words_of_frames(text: str) -> str | None:
    """The words of a MicroDVD file without its rate, a line each; None of any other text."""
    if not _begin(text, _FRAMES):
        return None
    return "\n".join(filter(None, (_plain(row[3]) for row in _rows(text, _FRAMES))))


def mpl2(text: str) -> Iterable[Span]:
    """Lines whose times are tenths of seconds."""
    rows = _rows(text, _TENTHS)
    return _ended([(int(row[1]) / 10, int(row[2]) / 10 if row[2] else None, _plain(row[3])) for row in rows])


def tmplayer(text: str) -> Iterable[Span]:
    """Lines with the second at which they begin alone."""
    rows = _rows(text, _CLOCK)
    return _ended([(int(row[1]) * 3600 + int(row[2]) * 60 + int(row[3]), None, _plain(row[4])) for row in rows])


def _ended(lines: list[tuple[float, float | None, str]]) -> list[Span]:
    """The lines, those without an end until the next one begins, but no longer than it takes to read one."""
    starts = sorted(start_s for start_s, _, _ in lines)
    found = []
    for start_s, end_s, words in lines:
        if end_s is None:
            at = bisect.bisect_right(starts, start_s)
            end_s = min([start_s + _SHOWN_S, *starts[at : at + 1]])
        found.append(Span(start_s, end_s, words))
    return found


def _plain(words: str) -> str:
    return _SPACES.sub(" ", _LEANING.sub("", _FORMATTING.sub("", words)).replace("|", " ")).strip()


def _rate_hz(text: str) -> float | None:
    """Frames per second, as the first line has them in place of words."""
    first = next((row for row in _rows(text[:_HEAD_CHARS], _FRAMES)), None)
    if first is None or first[1] not in ("0", "1") or first[2] not in ("0", "1"):
        return None
    rate = first[3].strip()
    return float(rate.replace(",", ".")) or None if _RATE.fullmatch(rate) else None


def _rows(text: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    return (row for line in text.lstrip("\ufeff").split("\n") if (row := form.match(line.rstrip("\r"))))


def _begin(head: str, form: re.Pattern[str]) -> bool:
    """Whether the first lines are of the form, most of them; one alone may be anything."""
    lines = [line for line in head.lstrip("\ufeff")[:_HEAD_CHARS].split("\n") if line.strip()][:_FIRST_LINES]
    whole = lines if len(lines) < 2 or len(head) < _HEAD_CHARS else lines[:-1]
    matched = [form.match(line.rstrip("\r")) is not None for line in whole]
    return bool(matched) and matched[0] and sum(matched) >= _MOSTLY * len(matched)


def _begins_as_clocks(head: str) -> bool:
    """Whether lines of words have a second each, in order: two and more, since a schedule may have one."""
    starts = [span.start_s for span in tmplayer(head)]
    return len(starts) >= _LEAST_CLOCKS and starts == sorted(starts) and _begin(head, _CLOCK)


FORMS: tuple[tuple[Callable[[str], bool], Callable[[str], Iterable[Span]]], ...] = (
    (lambda head: head[:1] == "<" and re.search(r"<sami[\s>]", head[:_HEAD_CHARS], re.IGNORECASE) is not None, sami),
    (lambda head: _begin(head, _FRAMES) and _rate_hz(head) is not None, microdvd),
    (lambda head: _begin(head, _TENTHS), mpl2),
    (_begins_as_clocks, tmplayer),
)
