"""What a word and the end of a sentence are, in every script.

`\\w` of `re` knows letters and digits, but not the marks that belong to a letter: it breaks Hindi at each vowel, and
pointed Hebrew at each point. Scripts without spaces have signs here, and no words.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

# Thai, Lao, Tibetan, Burmese, Khmer, Kana and Han
UNSPACED: Final = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)
# what ends a sentence: before a space, and without one
# (Sentence_Terminal of Unicode 14, without the sign that Burmese divides clauses by; what Lao and Tibetan add)
SPACED_ENDS: Final = ".!?…।॥؟۔።፧፨။។៕།༎։؝؞܀܁܂߹᙮᠃᠉‼‽⁇⁈⁉᱾᱿꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫᥄᥅᭚᭛᭞᭟᰻᰼᪨᪩᪪᪫⸮"
UNSPACED_ENDS: Final = "。！？｡።፧။។"
# what closes a quotation or a bracket behind such a sign: German ones end as English ones begin
_CLOSERS = "\"'”’“‘»«)\\]」』）"
# one for ASCII, one for marks with a space behind them, one for marks without
_PLAIN_END, _SPACED_END, _END = (
    re.compile(rf"(?<=[{signs}])\s+|(?<=[{signs}][{_CLOSERS}])\s+|\n+{other}")
    for signs, other in ((".!?", ""), (SPACED_ENDS, ""), (SPACED_ENDS, f"|(?<=[{UNSPACED_ENDS}])"))
)
_JOINERS = "\u200c\u200d"  # within words of Persian, Sinhala, Malayalam and others
_POINTS = range(10, 37)  # combining classes of the points of Hebrew, Arabic and Syriac, which most texts do without
_LENGTHENED = "\u0640"
_MOST_UNSPACED = 0.3
_HANGUL = re.compile("[\uac00-\ud7a3]+")
# of the Basic Multilingual Plane, where a class of characters is a table: ranges beyond it are tried one by one, at
# each character of each text. No marks are among ideographs, Hangul and private use.
_PLACES = range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xFB00, 0x10000)


@functools.cache
def marks() -> str:
    """The marks of living scripts and the joiners, as ranges of a character class."""
    found = [at for at in itertools.chain(*_PLACES) if unicodedata.category(chr(at))[0] == "M"]
    return _JOINERS + "".join(f"{chr(low)}-{chr(high)}" for low, high in _ranges(found))


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of successive numbers."""
    for _, run in itertools.groupby(enumerate(numbers), lambda one: one[1] - one[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


def _patterns(letter: str, joints: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Words of the letters with their marks, joined by one of the joints; the first pattern is for texts
    without marks."""
    marked = rf"{letter}+(?:[{marks()}]+{letter}*)*"
    return tuple(re.compile(rf"{run}(?:[{joints}]{run})*") for run in (rf"{letter}+", marked))  # type: ignore[return-value]


@functools.cache
def _letters() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return _patterns(r"[^\W\d_]", "'’-")


@functools.cache
def _letters_and_digits() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return _patterns(r"[^\W_]", "-'’.,:/@&_")


@functools.cache
def _separators() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(r"[\W_]+"), re.compile(rf"(?:[^\w{marks()}]+|_)+")


@functools.cache
def _marked() -> re.Pattern[str]:
    return re.compile(f"[{marks()}]")


def _has_marks(text: str) -> bool:
    return not text.isascii() and _marked().search(text) is not None


def words(text: str) -> list[str]:
    """The runs of letters, with apostrophes and hyphens within them."""
    return _letters()[_has_marks(text)].findall(text)


def count_words(text: str) -> int:
    """How many runs of letters and digits there are, numbers, addresses and names with signs as one; two signs of a
    script without spaces count as one word."""
    pattern = _letters_and_digits()[_has_marks(text)]
    unspaced = 0 if text.isascii() else len(UNSPACED.findall(text))
    if not unspaced:
        return len(pattern.findall(text))
    return len(pattern.findall(UNSPACED.sub(" ", text))) + (unspaced + 1) // 2


def is_unspaced(text: str) -> bool:
    """Whether more than three in ten signs are of a script without spaces."""
    return has_unspaced(text) and len(UNSPACED.findall(text)) > _MOST_UNSPACED * len(text)


def has_unspaced(text: str) -> bool:
    """Whether a sign is of a script without spaces."""
    return not text.isascii() and UNSPACED.search(text) is not None


def without_points(text: str) -> str:
    """The text as most people write it in Hebrew, Arabic and Syriac; vowels of other scripts stay."""
    if text.isascii():
        return text
    dropped = {ord(sign) for sign in set(text) if unicodedata.combining(sign) in _POINTS or sign == _LENGTHENED}
    return text.translate(dict.fromkeys(dropped)) if dropped else text


def sentences(text: str) -> list[str]:
    """The text cut at line ends and behind the signs that end a sentence, with what closes there; parts may be
    empty."""
    if text.isascii():
        return _PLAIN_END.split(text)
    return (_END if any(sign in text for sign in UNSPACED_ENDS) else _SPACED_END).split(text)


def plain(text: str) -> str:
    """The words of the text in one case, between single spaces."""
    return _separators()[_has_marks(text)].sub(" ", text).strip().casefold()


def as_letters(text: str) -> str:
    """The text with a character for each letter: syllables of Hangul are taken apart, vowels that are marks stay,
    accents, points and joiners are left out."""
    if text.isascii():
        return text
    text = _HANGUL.sub(lambda run: unicodedata.normalize("NFD", run[0]), text)
    dropped = {ord(sign) for sign in set(text) if unicodedata.combining(sign) or sign in _JOINERS}
    return text.translate(dict.fromkeys(dropped)) if dropped else text
