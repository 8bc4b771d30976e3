"""The encoding that a web page declares: in the Content-Type header, else in its first bytes (WHATWG Encoding
Standard); of XML in its declaration. And UTF-16 with its mark, what spreadsheets save as "Unicode text", as UTF-8."""

from __future__ import annotations

import codecs
import io
import re
from typing import IO, Any

from mmlake.streams import Converted

_META_BYTES = 1024  # how far the HTML standard scans for a meta tag
_PARAMETER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)
_TAG = re.compile(rb"""<meta\b[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.+-]{1,40})""", re.IGNORECASE)
_DECLARATION = re.compile(rb"""<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']([A-Za-z0-9_:.-]{1,40})["']""")
# Labels under which the web means a larger encoding than the name says (Encoding Standard, section 4.2), by Python's
# name.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
          "euc_kr": "cp949", "big5": "big5hkscs", "utf-16": "utf-16-le"}  # fmt: skip
_OLDER = {"shift_jis_2004": "cp932", "euc_jis_2004": "euc_jp"}  # of the names that chardet has for labels
# labels of the same standard that neither Python nor chardet knows
_WIDE = {
    **dict.fromkeys(("ucs-2", "unicode", "csunicode", "iso-10646-ucs-2", "unicodefeff"), "utf-16-le"),
    "unicodefffe": "utf-16-be",
}
_WEB = frozenset(
    "utf-8 utf-16-le utf-16-be cp866 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 "
    "iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16 koi8-r koi8-u "
    "mac-roman cp874 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 mac-cyrillic gb18030 "
    "big5hkscs euc_jp iso2022_jp cp932 cp949".split()
)


def declared_charset(content_type: str | None, head: bytes) -> str | None:
    """Python's name of the encoding that the header declares, else a meta tag in the first bytes; None where neither
    names one of the web's."""
    named = _PARAMETER.search(content_type or "")
    if named and (charset := web_charset(named[1])):
        return charset
    return _named_in(_TAG, head)


def markup_charset(head: bytes) -> str | None:
    """Python's name of the encoding that a page or an XML file names in its first bytes; None where there is no
    such, or these are no markup."""
    head = head[:_META_BYTES].lstrip()
    return (_named_in(_DECLARATION, head) or _named_in(_TAG, head)) if head.startswith(b"<") else None


def _named_in(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    found = pattern.search(head[:_META_BYTES])
    charset = web_charset(found[1].decode("ascii")) if found else None
    # a tag that could be read as ASCII is not in UTF-16
    return "utf-8" if charset and charset.startswith("utf-16") else charset


def web_charset(label: str) -> str | None:
    """Python's name of the encoding that the web means by this label; None where it means none."""
    from chardet.registry import lookup_encoding

    label = label.strip().lower()
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):  # unknown; a zero in the name
        name = _WIDE.get(label) or lookup_encoding(label) or ""
        name = _OLDER.get(name, name)
    name = _MEANT.get(name, name)
    return name if name in _WEB else None


UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_READ_BYTES = 1 << 16
_BROKEN = b"\xff"  # what an odd byte at the end becomes: no UTF-8, as it was no UTF-16


def decoded_head(head: bytes) -> str:
    """The first bytes of a text, as far as they go."""
    if head.startswith(UTF_16):
        return codecs.getincrementaldecoder("utf-16")("replace").decode(head)
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def as_utf_8(stream: IO[bytes]) -> IO[bytes]:
    """The stream itself, or what it says in UTF-8 where it begins with the mark of UTF-16. For reading in order,
    once."""
    mark = stream.read(len(UTF_16[0]))
    whole = io.BufferedReader(_Ahead(mark, stream), _READ_BYTES)
    return io.BufferedReader(_Recoded(whole), _READ_BYTES) if mark in UTF_16 else whole


class _Ahead(Converted):
    """A stream of which the first bytes were read."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first, self._source = first, stream
        self._read = getattr(stream, "read1", stream.read)  # a cut stream gives what it has before it raises

    def next_bytes(self, size: int) -> bytes:
        data: bytes = self._first[:size] or self._read(size)
        self._first = self._first[len(data) :]
        return data


class _Recoded(Converted):
    """UTF-16 as UTF-8."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._source, self._read = stream, stream.read1
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._held, self._has_ended = b"", False

    def next_bytes(self, size: int) -> bytes:
        while not self._held and not self._has_ended:
            data = self._read(_READ_BYTES)
            self._has_ended = not data
            try:
                self._held = self._decoder.decode(data, final=self._has_ended).encode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                self._held = _BROKEN
        data, self._held = self._held[:size], self._held[size:]
        return data
