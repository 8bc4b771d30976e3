"""Texts of which nearly all is in the encoding that they name, and UTF-8 with zeros in it."""

from __future__ import annotations

import pytest

from mmlake.errors import UnreadableItem
from mmlake.formats.charsets import web_charset
from mmlake.formats.texts import decode_text

JAPANESE = "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u306f\u9577\u3044\u3002" * 20
# row 13 of JIS X 0208 has what NEC added to it: a one in a circle, and the sign of a company
CIRCLED, COMPANY = (b"\xad\xa1", "\u2460"), (b"\xad\xea", "\u3231")
PAGE = '<html><head><meta charset="{}"></head><body><p>{}</p></body></html>'


def page(charset: str, codec: str, words: str = JAPANESE, mark: str = "@") -> bytes:
    return PAGE.format(charset, words + mark + words).encode(codec)


@pytest.mark.parametrize(("written", "read"), [CIRCLED, COMPANY])
def test_a_page_in_euc_has_what_vendors_added(written: bytes, read: str) -> None:
    """One of these signs, which Python's codec does not know, made the whole page Latin letters."""
    data = page("euc-jp", "euc_jp").replace(b"@", written)
    assert decode_text(data) == (PAGE.format("euc-jp", JAPANESE + read + JAPANESE), "euc_jp")


def test_escaped_japanese_has_what_vendors_added() -> None:
    """It was unreadable (1004). Between escapes a character is the two bytes of EUC without their high bits."""
    data = page("iso-2022-jp", "iso2022_jp").replace(b"@", b"\x1b$B\x2d\x21\x1b(B")
    text, encoding = decode_text(data)
    assert text == PAGE.format("iso-2022-jp", JAPANESE + CIRCLED[1] + JAPANESE) and encoding.startswith("iso2022_jp")


def test_a_page_in_big5_has_what_vendors_added() -> None:
    """A3 E1 is the sign of the euro in Microsoft's code page alone."""
    words = "\u9019\u662f\u4e00\u500b\u4e2d\u6587\u7db2\u9801" * 20
    data = page("big5", "big5", words, "!").replace(b"!", b"\xa3\xe1")
    assert decode_text(data) == (PAGE.format("big5", f"{words}\u20ac{words}"), "big5hkscs")


def test_one_stray_byte_leaves_a_page_in_the_encoding_that_it_names() -> None:
    data = page("euc-jp", "euc_jp").replace(b"@", b"\xff")
    assert decode_text(data) == (PAGE.format("euc-jp", f"{JAPANESE}\ufffd{JAPANESE}"), "euc_jp")


def test_a_page_that_names_another_encoding_is_not_in_it() -> None:
    """Of Shift JIS most characters are damage in EUC."""
    text, encoding = decode_text(page("euc-jp", "cp932", mark=""))
    assert JAPANESE in text and encoding != "euc_jp"


@pytest.mark.parametrize(
    ("label", "codec"),
    [("x-sjis", "cp932"), ("X-EUC-JP", "euc_jp"), ("cn-big5", "big5hkscs"), ("windows-874", "cp874"), ("x-none", None)],
)
def test_labels_that_python_has_no_name_for_are_those_of_the_web(label: str, codec: str | None) -> None:
    assert web_charset(label) == codec


def test_a_few_zeros_do_not_make_a_text_wide() -> None:
    """Five zeros in a WebVTT file of a browser's tests made Chinese of it."""
    cue = "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nthe first\0 words, {}\n\n".format
    data = "".join(cue(number) for number in range(6)).encode() + "\ufffd\u2026  ".encode()
    data += b" " * (len(data) % 2)
    assert decode_text(data) == (data.decode(), "utf-8")


@pytest.mark.parametrize(
    "words",
    ["\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440 ", "\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 "],
)
def test_wide_texts_that_are_valid_utf_8_stay_wide(words: str) -> None:
    assert decode_text((words * 10).encode("utf-16-le")) == (words * 10, "utf-16-le")


def test_bytes_of_no_encoding_are_refused() -> None:
    with pytest.raises(UnreadableItem, match="1004"):
        decode_text(b"\x1b$B" + b"\x7f\x7f" * 40 + b"\x1b(B")


@pytest.mark.parametrize(
    ("label", "codec"),
    [("iso88592", "iso8859-2"), ("x-cp1255", "cp1255"), ("csISOLatin9", "iso8859-15"), ("koi8", "koi8-r"),
     ("unicode-1-1-utf-8", "utf-8"), ("ks_c_5601-1987", "cp949"), ("KSC_5601", "cp949"), ("gb_2312", "gb18030"),
     ("iso88591", "cp1252"), ("mac", "mac-roman"), ("unicode", "utf-16-le"), ("utf-16", "utf-16-le"),
     ("iso-8859-6-i", "iso8859-6"), ("koi8-ru", "koi8-u"), (" iso-8859-1 ", "cp1252"), ("csGBK", "gb18030"),
     ("csKOI8U", "koi8-u"), ("unicodeFFFE", "utf-16-be")],
)  # fmt: skip
def test_labels_of_the_web_are_those_of_the_encoding_standard(label: str, codec: str) -> None:
    """Section 4.2; of its 228 labels Python has no name for 44."""
    assert web_charset(label) == codec
