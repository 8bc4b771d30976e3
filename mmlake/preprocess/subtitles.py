"""Transcripts as they come with media: plain text, SRT or WebVTT."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

_CLOCK = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMING = re.compile(rf"^[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}(?:[ \t].*)?\r?$", re.MULTILINE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,80}>|<\d[\d:.]*>|\{\\[^{}]{0,80}\}")
_SPACES = re.compile(r"\s+")


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
    """Whether the text is SRT or WebVTT: it has a timing line."""
    return "-->" in text and _TIMING.search(text) is not None


def parse_cues(text: str) -> list[Cue]:
    """The cues in order of time, also those of no length or that end before they start; one cue without times where the
    text is plain. Cues without words are left out."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if not is_subtitles(text):
        plain = _SPACES.sub(" ", text).strip()
        return [Cue(plain)] if plain else []
    cues = []
    marks = list(_TIMING.finditer(text))
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        # a blank line ends the cue; what follows is the next cue's name
        body = text[mark.end() : stop].strip("\n").split("\n\n")[0]
        words = _SPACES.sub(" ", html.unescape(_TAG.sub("", body))).strip()
        start_s, end_s = _seconds(mark.groups()[:4]), _seconds(mark.groups()[4:])
        if words:
            cues.append(Cue(words, start_s, end_s))
    return sorted(cues, key=lambda cue: (cue.start_s, cue.end_s, cue.text))


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = parts
    return (
        int(hours or 0) * 3600
        + int(minutes or 0) * 60
        + int(seconds or 0)
        + int((fraction or "0").ljust(3, "0")) / 1000
    )
