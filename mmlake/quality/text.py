"""Text: measures; `text_rules` judges by them.

Sources: Gopher (Rae et al. 2021, appendix A1.1) for word lengths, alphabetic words and what `text_repetition` has; C4
(Raffel et al. 2020, section 2.2) for placeholder and notice phrases; both as FineWeb (Penedo et al. 2024) uses them,
with the share of a text in place of "contains".
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import zlib
from collections.abc import Callable
from typing import Final

from mmlake.letters import as_letters, count_words, has_unspaced, is_unspaced, sentences, words
from mmlake.line_counters import counted_line_fraction
from mmlake.quality import text_repetition
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.misread import MISREAD

_TOKEN = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
# marks of lists, headings and quotations, and lines of one sign: fences of listings, rules, underlines of headings
_LAYOUT = re.compile(r"(?m)^[ \t]*(?:(?:[•‣⁃∙◦●○▪■□*+–—-]|\(?\d{1,3}[.)]|#+|>+)(?=[ \t]+\S)|([^\w\s])\1{2,}[ \t]*$)")
# the longest words that people write have some 45 letters; a line of base64 has 60 to 76
_ADDRESS_MARKS, _LONG_TOKEN_CHARS = ("://", "www."), 60
_NO_WORD = re.compile(rf"[<(\[]?(?:https?://|www\.)\S+$|[A-Za-z0-9+/=_-]{{{_LONG_TOKEN_CHARS},}}$")
_TABLE_LINE = re.compile(r"[|:=+-]*\|[|:=+-]*")  # what separates the cells and the head of a table in Markdown
_CELL_MARKS = {mark: re.compile(f"{mark}(?! )") for mark in ",;"}
_MIN_SEPARATORS = 2  # in a line of separated values: of three cells
# UTF-8 that was read in another encoding, replacement characters, controls
_GARBLED = re.compile(f"{MISREAD}|[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
# tags, entities, BBCode, and the escapes of addresses, JSON and mail (quoted-printable) that an extraction left behind;
# quotes and dashes of plain-text conventions are none, nor are addresses of the web in angle brackets (RFC 3986)
_MARKUP = re.compile(
    r"<(?!\w+://)/?[a-z][^<>]{0,400}>|<!--.{0,400}?-->|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,6});"
    r"|\[/?(?:b|i|u|url|img|quote|code)(?:=[^\]]{0,200})?\]"
    r"|%[0-9a-f]{2}|\\(?:u[0-9a-f]{4}|\")|(?:=[c-f][0-9a-f](?:=[89ab][0-9a-f])+)+",
    re.IGNORECASE,
)
# manual pages as they are stored: a request begins a line, an escape stands within one (groff(7), mdoc(7))
_MANUAL = re.compile(r"^\.[ \t]*(?:TH|SH|Dd|Sh|so)\b", re.MULTILINE)
_MANUAL_LINE = re.compile(
    r"^(?:[.'][ \t]*(?:\\\"|[A-Za-z]{1,3}\b)|[^\n\\]*\\(?:[-&%e|^'`~ :c/,*]|f[A-Z1-4(\[]|s[-+]?\d|[(\[]\w))[^\n]*$",
    re.MULTILINE,
)
_LINK_TARGET = re.compile(r"\]\(([^()\s]*[./#:][^()\s]*)")  # of Markdown; an index into a list has no such signs
_MARK = re.compile(r"[.,;:!?…。、，；：！？।॥؟،؛۔።፣፤၊။។]")
_OWN_LETTERS, _ACCENTS = frozenset("ßẞøØłŁđĐæÆœŒıþÞðÐ"), range(200, 241)  # combining classes of marks around a letter
_LONG_RUN_WORDS = 40  # without a mark; sentences of prose seldom have that many between two commas
# hash signs, but for those of a number and of a reference to a character, and ellipses; Gopher's
_SYMBOL = re.compile(r"(?<!&)#(?!\d)|…+|\.{3,}")
_RULER = re.compile(r"(?m)^[ \t]*([^\w\s])\1{2,}[ \t]*$")
_HEADING = re.compile(r"^#{1,6}(?=[ \t]+\S)", re.MULTILINE)
_PHRASES = re.compile(
    r"(?:use|uses|using|accept|accepting|store|stores|allow|reject|manage|essential|necessary|third[- "
    r"]party|tracking|website) (?:all |of |the |our |optional "
    r"|strictly )*cookies|cookies? (?:policy|settings|preferences|notice|consent)"
    r"|(?:enable|activate|turn on|requires?|without) javascript|javascript (?:is|must be|has been|to be)? "
    r"?(?:disabled|enabled|required|not enabled|turned off)"
    r"|terms (?:of (?:use|service|sale)|and conditions|& conditions)|privacy "
    r"(?:policy|notice|settings|statement)|all rights reserved"
    r"|subscribe to (?:our|the|this) (?:newsletter|mailing list|channel)|sign up (?:for|to) "
    r"(?:our|the|receive|get) |(?:log|sign) in to (?:continue|comment|view"
    r"|your)|already have an account|forgot (?:your )?password"
    r"|page (?:not found|cannot be found|you (?:requested|are looking for))|404 (?:error|not found)|403 "
    r"forbidden|access (?:denied|to this (?:page|resource))"
    r"|your browser (?:is|does|sent|version)|(?:un|not )supported browser"
    r"|checking your browser|verify (?:that )?you are (?:a )?human|complete the captcha|skip to (?:main "
    r")?content|share (?:this )?on (?:facebook|twitter|x|linkedin"
    r"|whatsapp)|follow us on|click here to|add to (?:cart|basket)|powered by wordpress"
    r"|by (?:using|continuing to (?:use|browse)) (?:this|our|the) (?:site|website)|you agree to "
    r"(?:our|the)|leave a (?:comment|reply)|(?:ad ?block(?:er)?"
    r"|advertis\w+) (?:is|has been) (?:detected|enabled)"
    r"|(?:website|webseite|seite) verwendet cookies|cookies (?:zu|akzeptieren|ablehnen)|alle rechte "
    r"vorbehalten|datenschutz(?:erklärung|hinweis)|allgemeine geschäftsbedingungen"
    r"|utilis\w+ des cookies|tous droits réservés|politique de confidentialité|utiliza\w* cookies|todos los "
    r"derechos reservados|política de privacidad"
    r"|lorem ipsum|dolor sit amet",
    re.IGNORECASE,
)
# A part of each phrase in small letters. What a text has of these is known soon, and without one it has no phrase.
_HINTS = (
    "cookie", "javascript", "terms ", "privacy ", "all rights reserved", "subscribe to ", "sign up ", " in to ",
    "already have an account", "forgot ", "page not found", "page cannot be found", "page you ", "404 ",
    "403 forbidden", "access denied", "access to this ", "your browser", "supported browser", "verify ",
    "complete the captcha",
    "skip to ", "share on ", "share this on ", "follow us on", "click here to", "add to ", "powered by wordpress",
    "by using ", "by continuing to ", "you agree to ", "leave a ", "ad block", "adblock", "advertis", "alle rechte ",
    "datenschutz", "allgemeine gesch", "tous droits ", "politique de ", "todos los ", "tica de privacidad",
    "lorem ipsum", "dolor sit amet",
)  # fmt: skip
_ODD_CASES = re.compile("[\u0130\u0131\u017f]")  # letters that a pattern without case takes for i or s
_LOREM = frozenset(
    (
        "lorem ipsum dolor sit amet consectetur consectetuer adipiscing elit sed do eiusmod tempor incididunt "
        "ut labore et dolore magna aliqua enim ad minim veniam quis "
        "nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis aute irure in "
        "reprehenderit voluptate velit esse cillum eu fugiat nulla pariatur "
        "excepteur sint occaecat cupidatat non proident sunt culpa qui officia deserunt mollit anim id est laborum "
    ).split()
)
_LOREM_SHARE = 0.8


def text_measures(subject: Subject) -> Measures:
    """The measures of one text; everything stands in the track."""
    text: str = subject.track["text"] or ""
    return {
        "num_words": float(subject.track["num_words"] or 0),
        **{name: take(text) for name, take in MEASURES.items()},
    }


def _mean_word_length_chars(text: str) -> float | None:
    """In letters; None of scripts that write no spaces."""
    if is_unspaced(text):
        return None
    found = words(as_letters(text))
    return sum(map(len, found)) / len(found) if found else None


def _word_with_letter_fraction(text: str) -> float | None:
    """Of tables, words of their cells alone count: pages are extracted with their tables as Markdown. Marks of layout
    do not count; addresses and encoded bytes are no words, whatever letters they have. A phrase of a script without
    spaces is as many words as `count_words` finds in it, or few numbers would outnumber it. Each cell of comma
    separated values is words of its own: a row of numbers that ends in a name was one word with letters."""
    text = _with_cells_apart(text)
    tokens = _TOKEN.findall(_LAYOUT.sub("", text))
    if "|" in text:
        tokens = [token for token in tokens if not _TABLE_LINE.fullmatch(token)]
    are_words = [_LETTER.search(token) is not None for token in tokens]
    if any(mark in text for mark in _ADDRESS_MARKS) or max(map(len, tokens), default=0) >= _LONG_TOKEN_CHARS:
        are_words = [is_word and not _NO_WORD.match(token) for is_word, token in zip(are_words, tokens, strict=True)]
    if not has_unspaced(text):
        return sum(are_words) / len(tokens) if tokens else None
    sizes = [_num_words(token) for token in tokens]
    return sum(itertools.compress(sizes, are_words)) / sum(sizes) if tokens else None


def _with_cells_apart(text: str) -> str:
    """The text with spaces between the cells of its comma and semicolon separated values: lines with the same number of
    separators, two or more that no space follows, as the line before or behind. In prose a space follows them, and
    numbers such as 1,000 are not as many in one line as in the next."""
    for mark, separator in _CELL_MARKS.items():
        if separator.search(text) is None:
            continue
        lines = text.split("\n")
        counts = [len(separator.findall(line)) for line in lines]
        for at, (before, num, behind) in enumerate(zip([0, *counts], counts, [*counts[1:], 0], strict=False)):
            if num >= _MIN_SEPARATORS and num in (before, behind):
                lines[at] = lines[at].replace(mark, " ")
        text = "\n".join(lines)
    return text


def _symbol_word_ratio(text: str) -> float | None:
    """Hash signs and ellipses, of any length, per word; what marks a heading of Markdown or a number is none, nor are
    rulers, lines of one sign."""
    text = _RULER.sub("", text)
    sizes = [_num_words(token) for token in _TOKEN.findall(text)]
    return len(_SYMBOL.findall(_HEADING.sub("", text))) / sum(sizes) if sizes else None


def _num_words(token: str) -> int:
    """Of what stands between spaces: one, or more of a script that writes none."""
    return max(1, count_words(token)) if has_unspaced(token) else 1


def _boilerplate_fraction(text: str) -> float | None:
    """Share of words in sentences that hold a notice phrase or are mostly filler Latin."""
    total = notice = 0
    small = text.lower()
    hints = [hint for hint in _HINTS if hint in small]
    is_odd = _ODD_CASES.search(text) is not None
    for sentence in sentences(text):
        found = words(sentence)
        size = count_words(sentence) if has_unspaced(sentence) else len(found)
        total += size
        num_filler = sum(map(_LOREM.__contains__, map(str.lower, found)))
        is_filler = len(found) >= 4 and num_filler >= _LOREM_SHARE * len(found)
        if is_filler or ((is_odd or _holds_one(hints, sentence)) and _PHRASES.search(sentence)):
            notice += size
    return notice / total if total else None


def _holds_one(hints: list[str], sentence: str) -> bool:
    small = sentence.lower() if hints else ""
    return any(hint in small for hint in hints)


def _garbled_fraction(text: str) -> float | None:
    return sum(map(len, _GARBLED.findall(text))) / len(text) if text else None


def _compressed_fraction(text: str) -> float | None:
    data = text.encode("utf-8", "replace")
    return len(zlib.compress(data, 6)) / len(data) if len(data) >= 64 else None


def _markup_fraction(text: str) -> float | None:
    """Share of the characters; of a manual page in troff, those of all lines with a request or an escape."""
    size = sum(map(len, _MARKUP.findall(text)))
    if _MANUAL.search(text):
        size = max(size, sum(map(len, _MANUAL_LINE.findall(text))))
    return size / len(text) if text else None


def _link_target_fraction(text: str) -> float | None:
    """Share of the characters in addresses of links in Markdown, of which a reader sees none. Apart from markup: they
    are a tenth of many a good page, and a third of some."""
    return sum(map(len, _LINK_TARGET.findall(text))) / len(text) if text else None


def _one_case_fraction(text: str) -> float | None:
    """Share of the sentences of three words or more that hold letters of one case only, by their length. None of texts
    in a script without case, whatever names of products stand in them."""
    total = of_one = 0
    for sentence in sentences(text) if _is_cased(text) else ():
        lower, upper = sentence.lower(), sentence.upper()
        if lower != upper and len(_TOKEN.findall(sentence)) >= 3:
            total += len(sentence)
            of_one += len(sentence) if sentence in (lower, upper) else 0
    return of_one / total if total else None


def _accented_fraction(text: str) -> float | None:
    """Share of the letters that have an accent, or are Latin ones that ASCII lacks: what a copy in plain letters has
    lost. Points of Hebrew and Arabic are none, nor are the wide letters of East Asian fonts."""
    if text.isascii():
        return 0.0 if _LETTER.search(text) else None
    num_letters = sum(map(str.isalpha, text))
    accented = [sign for sign in set(text) if sign.isalpha() and _is_accented(sign)]
    return sum(map(text.count, accented)) / num_letters if num_letters else None


def _is_accented(letter: str) -> bool:
    parts = unicodedata.normalize("NFD", letter)
    return letter in _OWN_LETTERS or (len(parts) > 1 and unicodedata.combining(parts[1]) in _ACCENTS)


def _is_cased(text: str) -> bool:
    """Whether half of the letters and more have two cases."""
    if text.isascii():
        return True
    return 2 * sum(map(str.islower, text)) + 2 * sum(map(str.isupper, text)) >= sum(map(str.isalpha, text))


def _unpunctuated_fraction(text: str) -> float | None:
    """Share of the words that stand in a run of many words without a mark between them."""
    runs = [len(_TOKEN.findall(part)) for part in _MARK.split(text)]
    return sum(num for num in runs if num > _LONG_RUN_WORDS) / sum(runs) if sum(runs) else None


# those of the text alone; each can be had without the others
MEASURES: Final[dict[str, Callable[[str], float | None]]] = {
    "mean_word_length_chars": _mean_word_length_chars,
    "word_with_letter_fraction": _word_with_letter_fraction,
    "symbol_word_ratio": _symbol_word_ratio,
    "repeated_line_fraction": text_repetition.repeated_line_fraction,
    "repeated_ngram_fraction": text_repetition.repeated_ngram_fraction,
    "top_phrase_fraction": text_repetition.top_phrase_fraction,
    "boilerplate_fraction": _boilerplate_fraction,
    "garbled_fraction": _garbled_fraction,
    "compressed_fraction": _compressed_fraction,
    # they say which of several copies is the truer one; but for the first of no rule
    "markup_fraction": _markup_fraction,
    "link_target_fraction": _link_target_fraction,
    "one_case_fraction": _one_case_fraction,
    "unpunctuated_fraction": _unpunctuated_fraction,
    "accented_fraction": _accented_fraction,
    "counted_line_fraction": counted_line_fraction,
    "bulleted_line_fraction": text_repetition.bulleted_line_fraction,
    "elided_line_fraction": text_repetition.elided_line_fraction,
    # of no rule
    "ended_line_fraction": text_repetition.ended_line_fraction,
    "short_line_fraction": text_repetition.short_line_fraction,
}
TEXT_MEASUREMENTS = (
    Measurement(
        name="text",
        modalities=("text",),
        measures=("num_words", *MEASURES),
        columns=("text", "num_words"),
        take=text_measures,
        revision="17",
    ),
)
