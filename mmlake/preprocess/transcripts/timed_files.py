"""Texts with times in the forms that recognizers, aligners and people who annotate write, next to SRT and WebVTT.

TextGrid (Praat, the Montreal Forced Aligner), ELAN (.eaf), the tables of Whisper and Audacity (start, end, text), CTM
and STM (NIST), SubStation (.ass, .ssa), TTML, LRC, SBV, what Whisper prints, the lines of TIMIT, and what players read
before SubRip (`older_subtitles`). A form is known by how its text begins, so that no name is needed; what breaks off is
read as far as it goes, and a line whose times are none is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mmlake.preprocess.transcripts import nist_files, older_subtitles
from mmlake.preprocess.transcripts.highlights import ShownLine, marked_part, said_of
from mmlake.preprocess.transcripts.labels import is_word
from mmlake.preprocess.transcripts.nist_files import HEAD_CHARS, first_lines_are, lines_of
from mmlake.preprocess.transcripts.timed_markup import Span, parsed

_TOKEN = re.compile(r'"((?:[^"]|"")*)"|(?<!\S)([+-]?\d[\d.]*(?:[eE][+-]?\d+)?)(?!\S)')
_PHONES = re.compile(
    r"(?:^|[^a-z])(?:phon\w*|phn|ph|segments?|syll\w*|syl|mau|kan|kas|pos|tag|pitch|tones?|breaks?|ipa)$"
)
_SPOKEN = re.compile(
    r"(?:^|[^a-z])(?:utter\w*|utt|sentences?|phrases?|transcri\w*|ortho\w*|text|speech|captions?|trs)$"
)
_WORDS = re.compile(r"(?:^|[^a-z])(?:words?|wrd|ort|ort-mau)$")
_LAYERED = 0.5  # share of a tier that lies over another one: both say the same
_ROW = re.compile(r"(\d+(?:\.\d+)?)\t(\d+(?:\.\d+)?)(?:\t(.*))?$")
_SAMPLES = re.compile(r"0 (\d{4,7}) (\S[^\n]*)")  # of TIMIT, 16,000 a second
_RANGE = re.compile(r"\\\t[-\d.]+\t[-\d.]+$")  # of frequencies, below a row of Audacity's
_SUNG = re.compile(r"\[(\d{1,3}):(\d{2}(?:[.:]\d{1,3})?)\]")
_TITLE = re.compile(r"\[[a-z]+:[^\]]*\]")  # and other lines above them
_SBV = re.compile(r"(\d{1,3}):(\d{1,2}):(\d{1,2}\.\d{1,3}),(\d{1,3}):(\d{1,2}):(\d{1,2}\.\d{1,3})$")
# as Whisper and its followers print what they recognize; the clock has hours, minutes or seconds alone
_SPOKEN_CLOCK = r"(?:(\d{1,3}):)?(?:(\d{1,2}):)?(\d{1,6}[.,]\d{1,9})s?"
_PRINTED = re.compile(rf"\[[ \t]*{_SPOKEN_CLOCK}[ \t]*--?>[ \t]*{_SPOKEN_CLOCK}[ \t]*\][ \t]*(.*)$")
_ABOVE_PRINTED = 5  # lines, as of the language that was found
_WORD_TIMES = re.compile(r"<\d{1,3}:\d{2}(?:[.:]\d{1,3})?>")
# moved back by an editor, a line may begin before the film does: its time has a sign
_SUB_STATION = re.compile(r"(-?)(\d{1,3}):(\d{1,2}):(\d{1,2}(?:[.:]\d{1,3})?)")
_OVERRIDES, _DRAWN, _BREAKS = re.compile(r"\{[^{}]*\}"), re.compile(r"\{[^{}]*\\p[1-9]"), re.compile(r"\\[Nnh]")
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d\d)(?:\.(\d{1,9})|:(\d{1,3})(?:\.\d+)?)?")
_OFFSET = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(h|m|s|ms|f|t)?")  # without a metric, as Apple's lyrics: seconds
_ABOVE_WORDS = ("text", "textContainer", "delimiter")  # `tts:ruby` of TTML 2
_LAST_SUNG_S = 5.0  # what a last line of lyrics is given, which has no end


def spans_of(text: str) -> list[Span] | None:
    """What the text says and when, in its own order; None where it is of none of the forms. text: decoded."""
    if (read := _form_of(text)) is None:
        return None
    return [span._replace(text=words) for span in read(text) if (words := span.text.strip())]


def has_form(text: str) -> bool:
    """Whether the text begins as one of the forms does."""
    return _form_of(text) is not None


def _form_of(text: str) -> Callable[[str], Iterable[Span]] | None:
    head = text[:HEAD_CHARS].lstrip("\ufeff \t\r\n")
    return next((read for begins, read in _FORMS if begins(head)), None)


class _Tier(NamedTuple):
    """A layer of an annotation."""

    name: str
    spans: list[Span]


def _grid(text: str) -> Iterable[Span]:
    """Both forms of a TextGrid are the same strings and numbers in the same order (Praat's manual, "TextGrid file
    formats")."""
    tokens: Iterator[str] = (match[1] if match[1] is not None else match[2] for match in _TOKEN.finditer(text))
    tiers: list[_Tier] = []
    try:
        for _ in range(4):  # two strings of the file, its times
            next(tokens)
        for _ in range(int(next(tokens))):
            is_of_spans, name = next(tokens) == "IntervalTier", next(tokens)
            next(tokens), next(tokens)
            tiers.append(tier := _Tier(name, []))
            for _ in range(int(next(tokens))):
                start_s = float(next(tokens))
                end_s, words = (float(next(tokens)), next(tokens)) if is_of_spans else (start_s, next(tokens))
                if is_of_spans:
                    tier.spans.append(Span(start_s, end_s, words.replace('""', '"')))
    except (StopIteration, ValueError):
        pass  # it breaks off, or is none from here on
    return _spoken(tiers)


def _elan(text: str) -> Iterable[Span]:
    """Annotations that have times of their own, of tiers that depend on no other (EAF 3.0)."""
    return _spoken(parsed(_Elan, text).tiers)


class _Elan:
    """Collects the tiers of an annotation document."""

    def __init__(self) -> None:
        self.tiers: list[_Tier] = []
        self._times_s: dict[str, float] = {}
        self._tier: _Tier | None = None
        self._place: tuple[float, float] | None = None
        self._words: list[str] = []

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "TIME_SLOT" and "TIME_VALUE" in given:
            self._times_s[given.get("TIME_SLOT_ID", "")] = int(given["TIME_VALUE"]) / 1000
        elif name == "TIER":
            self._tier = None if "PARENT_REF" in given else _Tier(given.get("TIER_ID", ""), [])
            self.tiers += [self._tier] if self._tier is not None else []
        elif name == "ALIGNABLE_ANNOTATION":
            places = [self._times_s.get(given.get(f"TIME_SLOT_REF{at}", "")) for at in (1, 2)]
            self._place = None if None in places else (places[0], places[1])  # type: ignore[assignment]
        elif name == "ANNOTATION_VALUE":
            self._words = []

    def said(self, words: str) -> None:
        self._words.append(words)

    def end(self, name: str) -> None:
        if name == "ANNOTATION_VALUE" and self._tier is not None and self._place is not None:
            self._tier.spans.append(Span(*self._place, "".join(self._words)))
            self._place = None


def _spoken(tiers: Iterable[_Tier]) -> list[Span]:
    """The words that are spoken: of tiers of utterances, else of words, else of all but phones. Where a tier lies over
    another one, as glosses do, the one with more letters counts; of several speakers all do."""
    named = [(tier.name.strip().lower(), tier) for tier in tiers]
    tiers = [
        _Tier(name, [span for span in tier.spans if is_word(span.text)])
        for name, tier in named
        if _WORDS.search(name) or not _PHONES.search(name)
    ]
    of_class = (
        [tier for tier in tiers if form.search(tier.name) and tier.spans] for form in (_SPOKEN, _WORDS, re.compile(""))
    )
    found: list[Span] = []
    for tier in sorted(
        next((some for some in of_class if some), []), key=lambda tier: -sum(len(span.text) for span in tier.spans)
    ):
        if not found or _overlap(tier.spans, found) < _LAYERED:
            found = sorted([*found, *tier.spans])
    return found


def _overlap(some: list[Span], others: list[Span]) -> float:
    """The share of the time of some spans in which one of the others lies."""
    some, covered = sorted(some), _covered(others)
    at, shared_s = 0, 0.0
    for start_s, end_s in covered:
        while at < len(some) and some[at].end_s <= start_s:
            at += 1
        while at < len(some) and some[at].start_s < end_s:
            shared_s += max(0.0, min(some[at].end_s, end_s) - max(some[at].start_s, start_s))
            if some[at].end_s > end_s:
                break  # goes on below the next one
            at += 1
    return shared_s / max(1e-9, sum(span.end_s - span.start_s for span in some))


def _covered(spans: list[Span]) -> list[tuple[float, float]]:
    """Where one of the spans lies: in order, apart from each other."""
    found: list[tuple[float, float]] = []
    for start_s, end_s, _ in sorted(spans):
        if found and start_s <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end_s)
        else:
            found.append((start_s, end_s))
    return found


def _table(text: str) -> Iterable[Span]:
    """Rows of start, end and text: Whisper's in milliseconds below their names, Audacity's in seconds."""
    lines = lines_of(text)
    scale = 1.0
    if text.lstrip().startswith("start\t"):
        next(lines)
        scale = 1e-3
    rows = (_ROW.match(line) for line in lines)
    return [Span(float(row[1]) * scale, float(row[2]) * scale, row[3] or "") for row in rows if row]


def _timit(text: str) -> Iterable[Span]:
    found = _SAMPLES.fullmatch(text.strip())
    return [] if found is None else [Span(0.0, int(found[1]) / 16_000, found[2])]


def _begins_as_table(head: str) -> bool:
    if head.startswith("start\tend\ttext"):
        return True
    rows = "\n".join(line for line in lines_of(head) if not _RANGE.match(line))
    return head[:1].isdigit() and first_lines_are(rows, _ROW)


def _lyrics(text: str) -> Iterable[Span]:
    """A line is sung until the next one begins; one with several times is sung as often."""
    found: list[tuple[float, str]] = []
    for line in lines_of(text):
        times, words = [], line.strip()
        while (mark := _SUNG.match(words)) is not None:
            times.append(int(mark[1]) * 60 + float(mark[2].replace(":", ".")))
            words = words[mark.end() :].lstrip()
        found += [(time_s, _WORD_TIMES.sub("", words)) for time_s in times]
    found.sort(key=lambda one: one[0])
    ends = [time_s for time_s, _ in found[1:]] + [found[-1][0] + _LAST_SUNG_S] if found else []
    return [Span(time_s, end_s, words) for (time_s, words), end_s in zip(found, ends, strict=True)]


def _begins_as_lyrics(head: str) -> bool:
    lines = (line.strip() for line in lines_of(head))
    first = next((line for line in lines if line and not _TITLE.fullmatch(line)), "")
    return head[:1] == "[" and _SUNG.match(first) is not None


def _youtube(text: str) -> Iterable[Span]:
    found: list[Span] = []
    for line in lines_of(text):
        if (mark := _SBV.match(line.strip())) is not None:
            hours, minutes, seconds, *later = mark.groups()
            times = [int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in ((hours, minutes, seconds), later)]
            found.append(Span(times[0], times[1], ""))
        elif found:
            words = line.replace("[br]", " ")  # YouTube's break within a line
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {words}".strip())
    return found


def _printed(text: str) -> Iterable[Span]:
    """Lines of a recognizer's output; one without times goes on with the words of the line above."""
    found: list[Span] = []
    for line in lines_of(text):
        if (mark := _PRINTED.match(line.strip())) is not None:
            found.append(Span(_seconds(mark.groups()[:3]), _seconds(mark.groups()[3:6]), mark[7]))
        elif found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line}".strip())
    return found


def _seconds(clock: tuple[str | None, ...]) -> float:
    """clock: hours or minutes, minutes, seconds, as `_SPOKEN_CLOCK` finds them."""
    above = [int(part) for part in clock[:2] if part is not None]
    return sum(part * 60.0 ** (len(above) - at) for at, part in enumerate(above)) + float(
        (clock[2] or "0").replace(",", ".")
    )


def _begins_as_printed(head: str) -> bool:
    lines = [line for line in lines_of(head) if line.strip()][:_ABOVE_PRINTED]
    return any(_PRINTED.match(line.strip()) for line in lines)


def _dialogue(text: str) -> Iterable[Span]:
    """Lines of SubStation, by the names in the last line of formats before them; drawings are no words."""
    names = ["layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect", "text"]
    shown: list[ShownLine] = []
    for line in lines_of(text):
        kind, colon, rest = line.partition(":")
        if kind.strip().lower() == "format" and "text" in rest.lower():
            names = [name.strip().lower() for name in rest.split(",")]
        elif colon and kind.strip().lower() == "dialogue":
            fields = dict(zip(names, rest.split(",", len(names) - 1), strict=False))
            times = [_SUB_STATION.fullmatch(fields.get(name, "").strip()) for name in ("start", "end")]
            if times[0] and times[1] and not _DRAWN.search(words := fields.get("text", "")):
                start_s, end_s = (
                    0.0 if one[1] else int(one[2]) * 3600 + int(one[3]) * 60 + float(one[4].replace(":", "."))
                    for one in times
                    if one
                )
                shown.append(ShownLine(start_s, end_s, plain_dialogue(words), marked_part(words)))
    return said_of(shown)


def plain_dialogue(words: str) -> str:
    """A line of SubStation without what it says of fonts, colours and places."""
    return _BREAKS.sub(" ", _OVERRIDES.sub("", words))


def _ttml(text: str) -> Iterable[Span]:
    """Paragraphs, or spans within one that has no times (W3C, TTML 1: times by the clock, with frames, ticks or a
    metric; those of `body` and `div` move what is in them)."""
    return parsed(_Ttml, text).spans


class _Ttml:
    """Collects what is shown."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._frames, self._ticks = 30.0, 0.0  # a second
        self._is_absolute = False  # Apple's lyrics: times within a `div` are those of the song
        self._open: list[tuple[float, float | None]] = []  # start and end of the elements around
        self._words: list[str] = []
        self._timed = -1  # depth of the paragraph or span that is being read
        self._unsaid = -1  # and of what is shown above a word to say how it is read

    def start(self, name: str, given: dict[str, str]) -> None:
        name, given = name.rpartition(":")[2], {key.rpartition(":")[2]: value for key, value in given.items()}
        if name == "tt":
            above, below = (float(one) for one in given.get("frameRateMultiplier", "1 1").replace(":", " ").split())
            self._frames = float(given.get("frameRate", 30)) * above / (below or 1.0)
            self._ticks = float(given.get("tickRate", 0)) or self._frames
            self._is_absolute = "timing" in given  # itunes:timing="Word", "Line"
        around = self._open[-1] if self._open else (0.0, None)
        begin_s, end_s, length_s = (self._seconds(given.get(key, "")) for key in ("begin", "end", "dur"))
        from_s = 0.0 if self._is_absolute else around[0]
        start_s = around[0] if begin_s is None else from_s + begin_s
        stop_s = from_s + end_s if end_s is not None else start_s + length_s if length_s is not None else around[1]
        has_times = begin_s is not None and name in ("p", "span")
        if has_times and self._timed < 0:
            self._timed, self._words = len(self._open), []
        if self._unsaid < 0 and given.get("ruby") in _ABOVE_WORDS:
            self._unsaid = len(self._open)
        self._open.append((start_s, stop_s))
        self._words += [" "] if name == "br" else []

    def said(self, words: str) -> None:
        self._words += [words] if self._timed >= 0 > self._unsaid else []

    def end(self, name: str) -> None:
        start_s, stop_s = self._open.pop()
        self._unsaid = -1 if self._unsaid == len(self._open) else self._unsaid
        if self._timed == len(self._open):
            self._timed = -1
            if stop_s is not None:
                self.spans.append(Span(start_s, stop_s, "".join(self._words)))

    def _seconds(self, time: str) -> float | None:
        if (clock := _CLOCK.fullmatch(time.strip())) is not None:
            whole_s = int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + int(clock[3])
            return whole_s + (float(f"0.{clock[4]}") if clock[4] else float(clock[5] or 0) / self._frames)
        if (offset := _OFFSET.fullmatch(time.strip())) is None:
            return None
        scales = {"h": 3600.0, "m": 60.0, "s": 1.0, None: 1.0, "ms": 1e-3, "f": 1 / self._frames, "t": 1 / self._ticks}
        return float(offset[1]) * scales[offset[2]]


def _begins_markup(head: str, *names: str) -> bool:
    return head[:1] == "<" and re.search(rf"<(?:\w+:)?(?:{'|'.join(names)})[\s>]", head, re.IGNORECASE) is not None


_FORMS: tuple[tuple[Callable[[str], bool], Callable[[str], Iterable[Span]]], ...] = (
    (lambda head: head.startswith('File type = "ooTextFile"') and '"TextGrid"' in head[:200], _grid),
    (lambda head: head[:200].startswith('"ooTextFile"') and '"TextGrid"' in head[:200], _grid),
    (lambda head: _begins_markup(head, "ANNOTATION_DOCUMENT"), _elan),
    (lambda head: _begins_markup(head, "tt"), _ttml),
    (lambda head: head[:20].lower().startswith("[script info]"), _dialogue),
    (lambda head: _SAMPLES.fullmatch(head.strip()) is not None, _timit),
    (_begins_as_printed, _printed),
    (_begins_as_lyrics, _lyrics),
    (_begins_as_table, _table),
    (lambda head: head[:1].isdigit() and _SBV.match(head.partition("\n")[0].strip()) is not None, _youtube),
    *nist_files.FORMS,
    *older_subtitles.FORMS,
)
