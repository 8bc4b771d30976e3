"""Text: bytes in any usual encoding to one normalized spelling; pages of HTML to their main text.

Deliberately not here: judging the text. What was damaged stays visible as U+FFFD.
"""

from __future__ import annotations

import codecs
import html
import itertools
import re
import unicodedata

from mmlake.errors import UnreadableItem
from mmlake.preprocess.markup import is_html, main_text
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.subtitles import is_subtitles, parse_cues

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NEWLINES = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# where very many accents may stand on one letter: no letters, digits, blanks or signs of ASCII
_MARKS = re.compile("[^\\w\\s\x00-\u02ff]{31,}")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f]")
# soft hyphen, zero-width space, word joiner, stray byte order mark
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
# never &lt; and &gt;: they may be meant
_ENTITY = re.compile(r"&(?:amp|quot|apos|nbsp|#0?39|#x27|#160|hellip|ndash|mdash|lsquo|rsquo|ldquo|rdquo);")
# from where blanks begin: begun at each of 100,000 before a word, it took minutes
_TRAILING_SPACE = re.compile(r"(?<![ \t\u00a0])[ \t\u00a0]++$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_WORD = re.compile(r"[^\W_]+(?:[-'’.,:/@&_][^\W_]+)*")
# scripts that write no spaces
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)
_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_-]{2,40})""", re.IGNORECASE
)
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def text_track(data: bytes, content_type: str | None, *, settings: PreprocessSettings) -> dict[str, object]:
    """The text columns of a track. Raises UnreadableItem 1004."""
    raw = decode(data, settings=settings)
    if is_html(raw, content_type):
        raw = main_text(raw)
    elif is_subtitles(raw):
        raw = "\n".join(cue.text for cue in parse_cues(raw) if cue.is_shown)
    text = normalize(raw, settings=settings)
    return {"text": text, "num_chars": len(text), "num_words": count_words(text)}


def decode(data: bytes, *, settings: PreprocessSettings) -> str:
    """The characters of the bytes: byte order mark, UTF-8, damaged UTF-8 (U+FFFD), then what charset-normalizer is
    sure of. Raises UnreadableItem 1004."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if _is_wide(data):
        return data.decode("utf-16-le" if data[1::2].count(0) > data[0::2].count(0) else "utf-16-be", errors="replace")
    if (escaped := _escaped(data)) is not None:
        return escaped
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    good = len(_MULTIBYTE.findall(data))
    replaced = data.decode("utf-8", errors="replace")
    bad = replaced.count("\ufffd")
    if good / (good + bad) >= settings.min_damaged_text_fraction:
        return replaced
    if (decoded := _declared(data)) is not None:
        return decoded
    if data.count(0) or (decoded := _by_charset(data)) is None:
        raise UnreadableItem(
            1004,
            f"invalid_utf8={bad} of {good + bad} multi-byte sequences, num_nul={data.count(0)}, and no other "
            "encoding is certain",
        )
    return decoded


def normalize(text: str, *, settings: PreprocessSettings) -> str:
    """The text in NFC with one newline kind, without invisible characters, HTML entities or space at line ends.

    Control characters become U+FFFD where they are more than noise, so that nothing admitted hides them and the
    measures still count them.
    """
    text = _NEWLINES.sub("\n", text)
    text = unicodedata.normalize("NFC", text if text.isascii() else _MARKS.sub(_in_order, text))
    text = _INVISIBLE.sub("", text)
    num_controls = len(_CONTROL.findall(text))
    text = _CONTROL.sub("\ufffd" if num_controls > settings.control_noise_fraction * len(text) else "", text)
    text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip()


def _in_order(found: re.Match[str]) -> str:
    """The same characters, accents of one letter in the order that NFC gives them: Python's own takes the square of
    their number for it, minutes for 100,000."""
    parts = []
    for are_marks, group in itertools.groupby(found[0], lambda sign: unicodedata.combining(sign) > 0):
        marks = "".join(group)
        if are_marks:  # one by one: several at once would be put in order already
            marks = "".join(sorted("".join(map(_decomposed, marks)), key=unicodedata.combining))
        parts.append(marks)
    return "".join(parts)


def _decomposed(mark: str) -> str:
    return unicodedata.normalize("NFD", mark)


def count_words(text: str) -> int:
    """Runs of letters and digits; two characters of a script without spaces count as one word."""
    unspaced = len(_UNSPACED.findall(text))
    if not unspaced:
        return len(_WORD.findall(text))
    return len(_WORD.findall(_UNSPACED.sub(" ", text))) + (unspaced + 1) // 2


def _is_wide(data: bytes) -> bool:
    """Whether every second byte is mostly zero and the other one never: UTF-16 of a European text without its mark."""
    head = data[:4096]
    if len(head) < 8 or len(data) % 2:
        return False
    even, odd = head[0::2].count(0) / (len(head) / 2), head[1::2].count(0) / (len(head) / 2)
    return max(even, odd) > 0.7 and min(even, odd) < 0.02


def _escaped(data: bytes) -> str | None:
    """The characters of an ISO 2022 text, which switches alphabets by escapes: they are valid UTF-8 but mean nothing
    there."""
    if b"\x1b$" not in data:
        return None
    found = (_strictly(data, encoding) for encoding in ("iso2022_jp", "iso2022_kr"))
    return next((text for text in found if text is not None), None)


def _declared(data: bytes) -> str | None:
    """The characters by the encoding that a page names in its head, where every byte fits it."""
    match = _DECLARED.search(data[:2048])
    return None if match is None else _strictly(data, match[1].decode("ascii"))


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError, ValueError):
        return None


def _by_charset(data: bytes) -> str | None:
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    return None if best is None else str(best)
