"""Mail (RFC 5322) and saved pages (MHTML) to their words: subject and body, with transfer encodings, character sets and
multipart bodies undone (RFC 2045 to 2047); an archive of mails (mbox, RFC 4155) to those of each.

Addresses, routes and attachments are no part of the text.
"""

from __future__ import annotations

import email
import email.errors
import email.header
import re
from collections.abc import Iterator
from email.message import Message

from mmlake.errors import UnreadableItem
from mmlake.formats.texts import decode_text
from mmlake.preprocess.markup import main_text

_HEADER_BYTES = 1 << 16  # in which the header of a mail ends
_FROM_LINE = re.compile(rb"From [^\n]{0,300}\b\d\d:\d\d(?::\d\d)?\b[^\n]{0,60}\b(?:19|20)\d\d\b[^\n]{0,30}\r?\n")
_NEXT = re.compile(rb"(?<=\n)\r?\n(?=" + _FROM_LINE.pattern + rb"[!-9;-~]+:)")
_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*:")
# what programs write that carry mails, and nobody who quotes one in a text writes all of
_CARRIED = frozenset((b"message-id", b"mime-version", b"received", b"return-path", b"delivered-to"))
_WRITTEN = frozenset((b"from", b"date", b"subject", b"to"))
_MAX_SUBJECT_CHARS = 10_000  # the decoder takes the square of their encoded words
# what opens parts within a part: the parser goes as deep as they lie in each other
_OPENS, _MAX_PARTS = re.compile(rb"(?i)boundary[ \t]*=|\bmessage/"), 100


def is_mail(data: bytes) -> bool:
    """Whether the bytes are a mail, or mails: fields up to the first blank line, one of them of those that carry
    mails and one of those that people write."""
    start = _FROM_LINE.match(data)
    head = re.split(rb"\r?\n\r?\n", data[start.end() if start else 0 :][:_HEADER_BYTES], maxsplit=1)[0]
    if not _FIELD.match(head):
        return False
    lines = [line for line in head.split(b"\n") if line.strip() and line[:1] not in b" \t"]
    names = {found[1].lower() if (found := _FIELD.match(line)) else b"" for line in lines}
    return b"" not in names and bool(names & _CARRIED) and bool(names & _WRITTEN)


def mail_text(data: bytes) -> str | None:
    """The words of the mails, in order; None where so many parts lie in each other that nobody wrote them."""
    mails = _NEXT.split(data) if _FROM_LINE.match(data) else [data]
    if any(len(_OPENS.findall(one)) > _MAX_PARTS for one in mails):
        return None
    return "\n\n".join(filter(None, map(_words, mails)))


def _words(data: bytes) -> str:
    start = _FROM_LINE.match(data)
    mail = email.message_from_bytes(data[start.end() if start else 0 :])
    return "\n\n".join(one.strip() for one in (_subject(mail), *_bodies(mail)) if one.strip())


def _subject(mail: Message) -> str:
    given = str(mail.get("subject", ""))[:_MAX_SUBJECT_CHARS]
    try:
        parts = email.header.decode_header(given)
    except (email.errors.HeaderParseError, ValueError):
        return given
    text = "".join(one if isinstance(one, str) else _decoded(one, charset) for one, charset in parts)
    return " ".join(text.split())


def _bodies(part: Message) -> Iterator[str]:
    """The texts of a part; of those that say the same in several ways, the plain one."""
    if part.is_multipart():
        inner = [one for one in part.get_payload() if isinstance(one, Message)]
        if part.get_content_subtype() == "alternative":
            said = ["\n\n".join(_bodies(one)) for one in sorted(inner, key=_is_page)]
            yield next((one for one in said if one.strip()), "")
        else:
            for one in inner:
                yield from _bodies(one)
    elif part.get_content_maintype() == "text" and part.get_content_disposition() != "attachment":
        payload = part.get_payload(decode=True)
        text = _decoded(payload if isinstance(payload, bytes) else b"", part.get_content_charset())
        yield main_text(text) if _is_page(part) and text.strip() else text


def _is_page(part: Message) -> bool:
    return part.get_content_type() in ("text/html", "multipart/related")


def _decoded(data: bytes, charset: str | None) -> str:
    """The characters, by the house's own reading where the bytes are not of the character set that the mail names."""
    try:
        return decode_text(data, declared=charset)[0]
    except UnreadableItem:
        return data.decode("utf-8", errors="replace")
