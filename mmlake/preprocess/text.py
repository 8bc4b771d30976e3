"""Text: bytes in any usual encoding to one normalized spelling; pages of HTML to their main text.

Deliberately not here: judging the text. What was damaged stays visible as U+FFFD.
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata

from mmlake.formats.sniff import TIMED_NAMES
from mmlake.formats.text_encodings import marked_encoding
from mmlake.formats.texts import decode_text
from mmlake.letters import count_words
from mmlake.preprocess.mail import is_mail, mail_text
from mmlake.preprocess.markup import is_html, main_text
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.transcripts.subtitles import begins_as_subtitles, is_subtitles, parse_cues
from mmlake.preprocess.transcripts.timed_files import has_form

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
_TIMED = frozenset((*TIMED_NAMES.values(), "application/x-subrip", "text/vtt"))


def text_track(
    data: bytes,
    content_type: str | None,
    *,
    settings: PreprocessSettings,
    charset: str | None = None,
    is_transcript: bool = False,
) -> dict[str, object]:
    """The text columns of a track: of a page its article, of what has times its words, of mail its subject and body.
    charset: as for `decode`.
    is_transcript: times are sought whatever the type is; elsewhere rows that begin with two numbers may be a table.
    Raises UnreadableItem 1004."""
    mail = mail_text(data) if is_mail(data) else None
    raw = decode(data, settings=settings, charset=charset) if mail is None else mail
    if mail is None and is_html(raw, content_type):
        raw = main_text(raw)
    elif begins_as_subtitles(raw) or (
        (is_transcript or content_type in _TIMED) and (is_subtitles(raw) or has_form(raw))
    ):
        raw = "\n".join(cue.text for cue in parse_cues(raw) if cue.is_shown)
    text = normalize(raw, settings=settings)
    return {"text": text, "num_chars": len(text), "num_words": count_words(text)}


def decode(data: bytes, *, settings: PreprocessSettings, charset: str | None = None) -> str:
    """The characters of the bytes, as whoever brought them in read them (`formats.texts`); what is damaged behind a
    byte order mark is U+FFFD too. charset: that they found, by a header that is not among the bytes. Raises
    UnreadableItem 1004."""
    if (marked := marked_encoding(data)) is not None:
        return data.decode(marked, errors="replace")
    return decode_text(data, declared=charset, min_damaged_fraction=settings.min_damaged_text_fraction)[0]


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
