"""Words and utterances with times as NIST scores them: CTM and STM (SCTK, "infmts.htm"; RT-09's evaluation plan).

A text comes in, spans leave. Kaldi, ESPnet, NeMo's forced aligner and others write CTM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from mmlake.preprocess.transcripts.labels import is_word
from mmlake.preprocess.transcripts.timed_markup import Span

HEAD_CHARS = 4_096  # by which a form is known
# decimals of seconds, so that no sentence with two numbers passes for a line; the first one may begin at 0. Behind the
# word stand its score, which may be a logarithm (SCTK, "infmts.htm"), its type and who says it (NIST, RT-09)
_TIMES = r"(\d+\.\d+|0)[ \t]+(\d*\.\d+)"
_SCORE = r"(?:[-+]?[\d.]+(?:[eE][-+]?\d+)?|NA|<NA>)"
_TYPE = r"(lex|frag|fp|un-lex|for-lex|non-lex|misc|noise)"
_CTM = re.compile(rf"\S+[ \t]+\S+[ \t]+{_TIMES}[ \t]+(\S+)(?:[ \t]+{_SCORE}(?:[ \t]+{_TYPE}(?:[ \t]+\S+)?)?)?[ \t]*$")
_NOT_SAID, _SPACE = ("non-lex", "misc", "noise"), "<space>"  # as NeMo's aligner writes the spaces of segments
_STM = re.compile(rf"\S+[ \t]+\S+[ \t]+\S+[ \t]+{_TIMES}[ \t]+(?:<[^>\n]*>[ \t]*)?(?!<NA>)(.*)$")


def lines_of(text: str) -> Iterator[str]:
    """The lines without their ends."""
    return (line.rstrip("\r") for line in text.split("\n"))


def first_lines_are(head: str, form: re.Pattern[str]) -> bool:
    """Whether the first lines, but for comments and one that may be cut off, are of the form."""
    lines = [line for line in lines_of(head) if line.strip() and not line.startswith(";;")]
    whole = lines[:-1] if len(head) >= HEAD_CHARS else lines
    return bool(whole) and all(form.match(line) for line in whole[:20])


def ctm(text: str) -> Iterable[Span]:
    """The words, of all channels; what is no word, as a pause or a noise, is left out."""
    rows = (_CTM.match(line) for line in lines_of(text) if not line.startswith(";;"))
    said = (row for row in rows if row and row[4] not in _NOT_SAID and is_word(row[3]))
    return [Span(float(row[1]), float(row[1]) + float(row[2]), row[3].replace(_SPACE, " ")) for row in said]


def stm(text: str) -> Iterable[Span]:
    """The utterances, but for those that are not scored."""
    rows = (_STM.match(line) for line in lines_of(text) if not line.startswith(";;"))
    found = [Span(float(row[1]), float(row[2]), row[3]) for row in rows if row]
    return [span for span in found if "ignore_time_segment" not in span.text.lower()]


FORMS: tuple[tuple[Callable[[str], bool], Callable[[str], Iterable[Span]]], ...] = (
    (lambda head: first_lines_are(head, _CTM), ctm),
    (lambda head: first_lines_are(head, _STM), stm),
)
