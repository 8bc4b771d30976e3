"""What a text says again, and how its lines end: measures of lines and phrases.

Sources: Gopher (Rae et al. 2021, appendix A1.1) for repeated lines, n-grams, the most frequent n-gram, bullets and
ellipses; FineWeb (Penedo et al. 2024, section 3.6) for the ends and the lengths of lines.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from mmlake.letters import SPACED_ENDS, UNSPACED_ENDS, is_unspaced, plain, sentences

_NGRAM, _UNSPACED_NGRAM = 10, 20  # two signs of a script without spaces are one word
_MIN_SEGMENTS = 4  # one repeated line of three is a refrain, not a defect; two of two are the text said twice
_PHRASE_WORDS, _MIN_TIMES = 3, 3  # a phrase that is said twice is no habit
# only where a word begins: tried from each letter of a long word on, it takes the square of its length
_ADDRESS = re.compile(r"(?<!\w)\w+://\S+|\bwww\.\S+")
_SHORT_LINE_CHARS = 30  # FineWeb's; what a menu has in a line
# marks of lists, without the dashes that begin what somebody says
_BULLET = re.compile(r"[•‣⁃∙◦●○▪■□*+-][ \t]+\S")
_ELISION = re.compile(r"(?:…|\.{3,})[\"'”’“‘»«)\]」』]*$")
# marks that end a sentence, and the quotes and brackets that may close behind them
_ENDS = re.compile(rf"[:;：；؛{SPACED_ENDS}{UNSPACED_ENDS}][\"'”’“‘»«)\]」』]*[ \t]*$")


def repeated_line_fraction(text: str) -> float | None:
    """The larger of the shares of lines, and of their characters, that stood in the text before; None of fewer than
    four, unless all of two or three are the same."""
    segments = _segments(text)
    distinct = set(segments)
    if len(segments) < (_MIN_SEGMENTS if len(distinct) > 1 else 2):
        return None
    return 1 - min(len(distinct) / len(segments), sum(map(len, distinct)) / sum(map(len, segments)))


def _segments(text: str) -> list[str]:
    """The lines with words, without case and signs; sentences where the text has too few lines."""
    lines = [line for part in text.split("\n") if (line := plain(part))]
    if len(lines) >= _MIN_SEGMENTS or (len(lines) > 1 and len(set(lines)) == 1):
        return lines
    return [sentence for part in sentences(text) if (sentence := plain(part))]


def repeated_ngram_fraction(text: str) -> float | None:
    """Share of words that lie in a run of ten words that stood in the text before; of signs in a run of twenty, in
    scripts that write no spaces."""
    found, size = plain(text).split(), _NGRAM
    if is_unspaced(text):
        found, size = list("".join(found)), _UNSPACED_NGRAM
    if len(found) < 2 * size:
        return None
    seen: set[str] = set()
    covered, end = 0, 0
    for start in range(len(found) - size + 1):
        key = " ".join(found[start : start + size])
        if key in seen:
            covered += start + size - max(start, end)
            end = start + size
        seen.add(key)
    return covered / len(found)


def top_phrase_fraction(text: str) -> float | None:
    """Share of the letters and digits that lie in the most frequent phrase of three words, where it is said three times
    and more, else 0; addresses are no words. None of scripts that write no spaces, and below three words."""
    found = plain(_ADDRESS.sub(" ", text)).split() if not is_unspaced(text) else []
    if len(found) < _PHRASE_WORDS:
        return None
    numbers: dict[str, int] = {}
    words_N = np.fromiter((numbers.setdefault(word, len(numbers)) for word in found), np.int64, len(found))
    _, pairs_N = np.unique(words_N[:-2] * len(numbers) + words_N[1:-1], return_inverse=True)
    _, first_P, phrase_N, num_P = np.unique(
        pairs_N * len(numbers) + words_N[2:], return_index=True, return_inverse=True, return_counts=True
    )
    sizes = np.fromiter(map(len, numbers), np.int64, len(numbers))
    sizes_P = sizes[words_N[first_P]] + sizes[words_N[first_P + 1]] + sizes[words_N[first_P + 2]]
    often = np.flatnonzero(num_P >= _MIN_TIMES)
    most = 0
    for phrase in often[np.argsort(-(num_P * sizes_P)[often], kind="stable")]:
        times, start = int(num_P[phrase]), first_P[phrase]
        if times * sizes_P[phrase] <= most:
            break
        if words_N[start] == words_N[start + 2]:  # it may begin within itself, as in "ha ha ha ha"
            times = _apart(np.flatnonzero(phrase_N == phrase))
        most = max(most, int(times * sizes_P[phrase]) if times >= _MIN_TIMES else 0)
    return most / sum(map(len, found))


def _apart(starts: NDArray[np.int64]) -> int:
    """How many of the phrases that begin there do not lie over each other."""
    num, end = 0, 0
    for start in starts.tolist():
        if start >= end:
            num, end = num + 1, start + _PHRASE_WORDS
    return num


def ended_line_fraction(text: str) -> float | None:
    """Share of the lines with words that end with the mark of a sentence: of prose most, of a menu none."""
    lines = _lines(text)
    return sum(_ENDS.search(line) is not None for line in lines) / len(lines) if lines else None


def short_line_fraction(text: str) -> float | None:
    """Share of the lines with words that have at most 30 characters."""
    lines = _lines(text)
    return sum(len(line) <= _SHORT_LINE_CHARS for line in lines) / len(lines) if lines else None


def bulleted_line_fraction(text: str) -> float | None:
    """Share of the lines with words that begin with the mark of a list; None of fewer than four lines."""
    lines = _lines(text)
    return sum(map(bool, map(_BULLET.match, lines))) / len(lines) if len(lines) >= _MIN_SEGMENTS else None


def elided_line_fraction(text: str) -> float | None:
    """Share of the lines with words that end in an ellipsis; None of fewer than four lines."""
    lines = _lines(text)
    return sum(map(bool, map(_ELISION.search, lines))) / len(lines) if len(lines) >= _MIN_SEGMENTS else None


def _lines(text: str) -> list[str]:
    return [bare for line in text.split("\n") if (bare := line.strip()) and any(map(str.isalnum, bare))]
