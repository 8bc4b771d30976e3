"""Where sentences and clauses end in what is said, by its punctuation.

Enters: a transcript, or the text of a line of subtitles and what the next one begins with. Leaves: places and what ends
there. A period ends no sentence behind an initial, an abbreviation or the number of a list, and no sign does where the
text goes on in lower case, as in "Yahoo! in" and '"Great." she said'. Where both readings are possible none ends: a cut
has other places, and one within a sentence is the worse mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mmlake.letters import SPACED_ENDS, UNSPACED_ENDS

CLAUSE, SENTENCE = 1, 2  # what a word or a line ends; 0: neither

# of all languages what directly follows a sign closes: German quotations end as English ones begin
_CLOSERS = "\"'”’“‘«»‹›)\\]」』）］】》"
# Greek asks with a semicolon, and Armenian ends with a colon where its own sign is not at hand
_OWN_ENDS = "(?<=[\u0370-\u03ff\u1f00-\u1fff])[;\u037e]|(?<=[\u0531-\u0587]):"
_UNSPACED = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # kana and Chinese characters
# between them signs of narrow scripts end a sentence too, and the wide point does but for numbers and lists
_BETWEEN = f"(?<=[{_UNSPACED}」』）])(?:．(?![0-9０-９])|[!?]++(?=[{_UNSPACED}「『]))"
# a run of marks as a whole: 100,000 before a word were tried from each of them
SENTENCE_END: Final = re.compile(
    rf"(?:(?<![{SPACED_ENDS}{UNSPACED_ENDS}])[{SPACED_ENDS}{UNSPACED_ENDS}]++|{_OWN_ENDS})[{_CLOSERS}]*+(?=\s|$)"
    rf"|[{UNSPACED_ENDS}]|{_BETWEEN}"
)
# behind a word alone: 1,000 and 12:30 are one
CLAUSE_END: Final = re.compile(r"(?<![,;:،؛–—፣፤፥၊])[,;:،؛–—፣፤፥၊]++[\"'”’»)\]]*+(?=\s|$)|[、，；：]")
_NEXT = re.compile(r"[\W_]{0,20}+(\w+)")  # bounded: of 100,000 signs each would be read from each of them
_LAST = re.compile(r"(\w+)°?$")
_BEFORE = 40  # characters that hold an abbreviation and the word before it
_LETTER = re.compile(r"[^\W\d_]")
_INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")  # U.S, a.m, z.B, LL.AA
_LIST_NUMBER = re.compile(r"\d{1,3}")
_PRONOUNS = frozenset("I Я я".split())  # words of one letter that end many sentences
_MIN_CAPITALS = 0.25  # of the words that begin sentences or follow abbreviations, in a text that has capitals at all
# Before a name or a noun with a capital: titles as books of style list them, and German ones before nouns.
_TITLES = frozenset(
    "mr mrs ms mx messrs dr prof st mt gen sen rep gov capt cpt lt col sgt maj cmdr adm rev hon supt"  # English
    " hr hrn frl dipl med kath evang bzw ca evtl ggf sog vgl inkl"  # German
    " mm mme mlle mgr"  # French
    " sr sra srta sres dra lic ing arq gral ud uds avda exmo exma"  # Spanish and Portuguese
    " sig dott avv geom rag egr spett"  # Italian
    " dhr mevr drs"  # Dutch
    " inż św płk mudr judr tzv např napr"  # Polish, Czech and Slovak
    " проф акад тов ул пгт гг св".split()  # Russian
)
# before a number alone: "No. 5", but "No. She left."
_BEFORE_NUMBERS = frozenset("no nos nr núm num pp vol vols fig figs art sec ch str kap bd abs кв ул стр рис".split())
# of German: what no number at the end of a sentence follows, so that one with a period is an ordinal
_BEFORE_ORDINALS = frozenset("am im zum zur vom beim ins der die das dem den des".split())
_STARTERS = frozenset(
    "the this that these those he she it they we you i what how when where who why which there here but and so if then"
    " my your his her our their its no yes is are was were do did does can could will would let".split()
)


def marks(text: str) -> list[tuple[int, int, int]]:
    """(start, end, CLAUSE or SENTENCE) of each run of signs that ends either, in order."""
    found = list(SENTENCE_END.finditer(text))
    has_capitals = _has_capitals(text, (_next(text, mark.end()) for mark in found))
    kinds = []
    end = 0  # of the last sentence
    for mark in found:
        begins, before = mark.start() - end <= _BEFORE, text[max(end, mark.start() - _BEFORE) : mark.start()]
        kind = _ended(before, mark[0], _next(text, mark.end()), has_capitals, begins=begins)
        kinds.append((mark.start(), mark.end(), kind))
        if kind == SENTENCE or (begins and not before.strip()):
            end = mark.end()
    kinds += [(mark.start(), mark.end(), CLAUSE) for mark in CLAUSE_END.finditer(text)]
    return sorted(kinds)


def of_lines(lines: Iterable[str]) -> list[int]:
    """What each line of subtitles ends: CLAUSE, SENTENCE or 0."""
    texts = [line.strip() for line in lines]
    nexts = [_next(text, 0) for text in [*texts, ""][1:]]
    found = [_at_end(text[-_BEFORE:]) for text in texts]
    after = (following for mark, following in zip(found, nexts, strict=True) if mark is not None)
    has_capitals = _has_capitals(texts[0] if texts else "", after)
    kinds = []
    for text, mark, following in zip(texts, found, nexts, strict=True):
        if mark is None:
            kinds.append(kind_of_end(text))
        else:
            before = mark.string[: mark.start()]
            kinds.append(_ended(before, mark[0], following, has_capitals, begins=len(text) <= _BEFORE))
    return kinds


def kind_of_end(text: str) -> int:
    """What a text that ends so ends, where nothing is known of what follows."""
    tail = text.rstrip()[-_BEFORE:]
    if _at_end(tail) is not None:
        return SENTENCE
    return CLAUSE if any(mark.end() == len(tail) for mark in CLAUSE_END.finditer(tail)) else 0


def _at_end(text: str) -> re.Match[str] | None:
    """The end of a sentence that is the end of the text."""
    return next((mark for mark in SENTENCE_END.finditer(text) if mark.end() == len(text)), None)


def _ended(before: str, sign: str, following: str, has_capitals: bool, *, begins: bool) -> int:
    """What ends at the sign. before: what stands before it since the last end, or the last characters of that, where
    `begins` is False."""
    if not following:
        return SENTENCE
    if before.endswith("[") or before.rfind("《") > before.rfind("》"):
        return 0  # an omission, and the title of a book or film
    if has_capitals and following[0].islower():
        return 0 if sign == "." else CLAUSE
    if sign not in (".", ".)") or (last := _LAST.search(before)) is None:
        return SENTENCE
    word = last[1]
    whole = before[before.rfind(" ") + 1 :].lstrip("\"'“„«(¿¡[").removesuffix("°")
    if _LIST_NUMBER.fullmatch(word):
        words = before[: last.start()].split()
        is_ordinal = bool(words) and words[-1].casefold() in _BEFORE_ORDINALS and len(word) <= 2
        return 0 if is_ordinal or (begins and not _LETTER.search(before)) else SENTENCE
    if sign != ".":
        return SENTENCE
    is_letter = len(whole) == 1 and whole.upper() != whole.lower() and whole not in _PRONOUNS
    is_short = is_letter or _INITIALS.fullmatch(whole) is not None
    if is_short or word.casefold() in _TITLES:
        return SENTENCE if following.casefold() in _STARTERS else 0
    is_before_number = following[0].isdigit() and word.casefold() in _BEFORE_NUMBERS
    return 0 if is_before_number else SENTENCE


def _next(text: str, at: int) -> str:
    """The word behind that place; "" for none."""
    found = _NEXT.match(text, at)
    return "" if found is None else found[1]


def _has_capitals(text: str, following: Iterable[str]) -> bool:
    """Whether sentences begin with capitals: recognizers write some texts without."""
    cased = [word[0].isupper() for word in (_next(text, 0), *following) if word and word[0].lower() != word[0].upper()]
    return sum(cased) > _MIN_CAPITALS * len(cased)
