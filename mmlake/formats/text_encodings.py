"""In which encoding bytes are text, where no one says so: by marks, zeros and escapes, as damaged UTF-8, by a guess.

A guess is chardet's (its models of 100 encodings and 70 languages), of a short text the one of its guesses that has
the fewest words which no orthography has. What it says of bytes that are no text at all has little confidence, or
characters that no text has.
"""

from __future__ import annotations

import codecs
import unicodedata
from functools import cache

from mmlake.formats.windows_punctuation import is_punctuation_of_windows
from mmlake.formats.word_shapes import letter_fraction, odd_fraction

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before that of UTF-16, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MIN_CONFIDENCE = 0.1  # of a guess about bytes of which many are not ASCII; what is no text reaches .08
MIN_DAMAGED_FRACTION = 0.5  # of multi-byte sequences that are valid UTF-8 in a text that is damaged UTF-8
_LEAST_CONFIDENCE = 0.03  # of any guess; right ones on 40 characters have .031 and more
_FEW = 0.25  # of the bytes not being ASCII, up to which most of the text is known anyway
# The same, up to which chardet's models see too little to be confident, and the text is lost for one letter in twenty
_SPARSE, _LEAST_LETTERS = 0.05, 0.5  # of what is not ASCII there, that is part of a word
_MOST_ODD = 0.01  # of the characters that no text has: controls, what no standard assigns
_STRAY = 0.01  # of the bytes, or characters, of a text that fit nothing
_MIN_BYTES = 32  # fewer fit every 8-bit encoding equally well
_MIN_BYTES_OF_FEW = 16  # the same, where few of them are not ASCII: captions with an accent
_SHORT_BYTES = 1_000  # up to which chardet's guesses are compared by their words; of longer texts the first is right
_ODD_COST = 2.0  # of a guess: half of what is not ASCII being odd, it is none
_WIDE = ("utf-16", "utf-32")
_RARE, _MOST = 0.1, 0.7  # of every other byte of ASCII in UTF-16 that are zero
_BLANKS, _LEAST_LOW = bytes(range(0x21)), 0.5  # of every other byte of UTF-16 that is valid UTF-8, as of Cyrillic
_NOT_ASCII = bytes(range(0x80, 0x100))
# Never guessed: mainframes write no files of this kind, and the others are all but unused and taken for what is used.
_UNLIKELY = ("utf-7", "hz", "cp1006", "hp-roman8", "iso8859-16")
_SPACES = frozenset("\t\n\f\r\x1a")  # controls that texts have; the last one ends files of DOS
_ODD = ("Cc", "Cn", "Co")
# Under these names texts have characters of the larger encoding (Encoding Standard, section 4.2), by Python's names
_MEANT = {"iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874", "euc_kr": "cp949",
          "euc_jis_2004": "euc_jp", "shift_jis_2004": "cp932"}  # fmt: skip


def marked_encoding(data: bytes) -> str | None:
    """The encoding whose byte order mark the bytes begin with."""
    return next((encoding for mark, encoding in BOMS if data.startswith(mark)), None)


def wide_encoding(data: bytes, *, is_utf_8: bool = False) -> str | None:
    """utf-16-le or -be, utf-32-le or -be, of a text without a mark: where it is ASCII or Cyrillic, its bytes are valid
    UTF-8. Blanks and line ends have a zero there. is_utf_8: whether they are; then a few zeros alone, as damage and
    programs leave them in a text, are no sign of it."""
    if len(data) < 4 or len(data) % 2 or b"\0" not in data:
        return None
    half = len(data) // 2
    even, odd = data[::2].count(0) / half, data[1::2].count(0) / half
    if min(even, odd) < _RARE < _MOST < max(even, odd):
        return "utf-16-le" if even < odd else "utf-16-be"
    if is_utf_8 and max(half - len(data[at::2].translate(None, _BLANKS)) for at in (0, 1)) < _LEAST_LOW * half:
        return None
    encoding = _guess(data)[0] if len(data) >= _MIN_BYTES else None
    return encoding if encoding and encoding.startswith(_WIDE) and _is_in(data, encoding) else None


def escaped_encoding(data: bytes) -> str | None:
    """The ISO 2022 encoding whose escape sequence stands in the text: its bytes are all ASCII, so it passes for
    UTF-8."""
    if b"\x1b" not in data:  # one scan for one byte, which hardly any text has
        return None
    if b"\x1b$)C" in data[:1024]:
        return "iso2022_kr"
    return "iso2022_jp_2" if b"\x1b$B" in data or b"\x1b$@" in data else None


def damaged_utf_8(data: bytes, *, min_fraction: float = MIN_DAMAGED_FRACTION) -> str | None:
    """The text with U+FFFD where it is damaged, of bytes that are not UTF-8; None where less than this fraction of what
    is not ASCII is valid, which another encoding has by chance."""
    text = data.decode(errors="replace")
    bad = text.count("\ufffd")
    good = len(text) - bad - _num_ascii(data)
    return text if good and good >= min_fraction * (good + bad) and _is_text(text) else None


def damaged_in(data: bytes, encoding: str) -> str | None:
    """The text with U+FFFD where it is damaged, of bytes whose encoding is named, by a mark or by their page; None
    where more than one character in a hundred is (one, of a short text; none, of a few characters)."""
    try:
        text = data.decode(encoding, errors=_IN_PLACE)
    except (ValueError, LookupError):  # of `undefined`, of `idna` and `punycode`, of names with a zero byte
        return None
    most = max(len(text) >= _MIN_BYTES, _STRAY * len(text))
    return text if text.count("\ufffd") <= most and _is_text(text) else None


def decoded_in(data: bytes, encoding: str) -> str | None:
    """The text of bytes that are all of this encoding, characters included that vendors added to it; None where some
    are not."""
    try:
        return data.decode(encoding, errors=_ADDED)
    except (ValueError, LookupError):
        return None


def nearly_ascii(data: bytes) -> str | None:
    """The text with U+FFFD for what is not ASCII, where that is one byte in a hundred at most: so little says nothing
    of an encoding, and is no reason to lose the rest."""
    if len(data) - _num_ascii(data) > _STRAY * len(data):
        return None
    text = data.decode("ascii", errors="replace")
    return text if _is_text(text) else None


def guessed_encoding(data: bytes, *, min_confidence: float = MIN_CONFIDENCE) -> str | None:
    """Python's name of the encoding that bytes which are not UTF-8 are most likely text in; None where they are likely
    no text. min_confidence: chardet's, 0..1."""
    share = 1 - _num_ascii(data) / max(1, len(data))
    if len(data) < (_MIN_BYTES_OF_FEW if share <= _FEW else _MIN_BYTES):
        return None
    if is_punctuation_of_windows(data):
        return "cp1252"
    encoding, confidence = _guess(data)
    if encoding is None:
        return None
    if confidence < (_LEAST_CONFIDENCE if share <= _FEW else min_confidence):
        text = decoded_in(data, encoding) if share <= _SPARSE else None
        if text is None or letter_fraction(text) < _LEAST_LETTERS:
            return None
    return encoding if _is_in(data, encoding) else None


def _num_ascii(data: bytes) -> int:
    return len(data.translate(None, delete=_NOT_ASCII))


def _guess(data: bytes) -> tuple[str | None, float]:
    """(Python's name, chardet's confidence)."""
    import chardet

    found = chardet.detect_all(
        data,
        ignore_threshold=True,
        max_bytes=len(data),  # what is not ASCII may come late, and all of it is a matter of milliseconds
        encoding_era=chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME,
        exclude_encodings=_UNLIKELY,
        compat_names=False,
    )
    guesses = [(_MEANT.get(one["encoding"], one["encoding"]), one["confidence"]) for one in found if one["encoding"]]
    if not guesses:
        return None, 0.0
    return guesses[0] if len(data) > _SHORT_BYTES else _most_orthographic(data, guesses)


def _most_orthographic(data: bytes, guesses: list[tuple[str, float]]) -> tuple[str, float]:
    """The guess whose confidence is highest, less what its odd words cost; the first where none is a text. guesses: the
    most confident one first. A letter that fits no word is evidence which the frequencies of few letters outweigh."""
    best, best_score = guesses[0], 0.0
    for encoding, confidence in guesses:
        if confidence <= best_score:
            break
        text = decoded_in(data, encoding)
        if text is None or not _is_text(text):
            continue
        score = confidence * max(0.0, 1 - _ODD_COST * odd_fraction(text))
        if score > best_score:
            best, best_score = (encoding, confidence), score
    return best


def _is_in(data: bytes, encoding: str) -> bool:
    text = decoded_in(data, encoding)
    return text is not None and _is_text(text)


def _is_text(text: str) -> bool:
    """Whether hardly any of the characters is one that no text has."""
    return sum(text.count(sign) for sign in set(text) if _is_odd(sign)) <= _MOST_ODD * len(text)


@cache
def _is_odd(sign: str) -> bool:
    return sign not in _SPACES and unicodedata.category(sign) in _ODD


def _added(error: UnicodeError) -> tuple[str, int]:
    """The character whose two bytes stand where the error is, by the encoding that has what vendors added: pages have
    such under the standard's name (Encoding Standard, indexes jis0208 and Big5), and Python's codecs do not know them.
    Raises the error where there is none."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    pair, name = error.object[error.start : error.start + 2], error.encoding.replace("-", "_")
    try:
        if name.startswith(("euc_jp", "iso2022_jp")) and (wanted := _shifted(pair)):
            return wanted.decode("cp932"), error.start + len(pair)
        if name == "big5hkscs":
            return pair.decode("cp950"), error.start + len(pair)
    except UnicodeDecodeError:
        pass
    raise error


def _shifted(pair: bytes) -> bytes:
    """Row and cell of JIS X 0208, of which EUC sets the high bits, as Shift JIS writes them; nothing where they are
    none."""
    row, cell = (byte & 0x7F for byte in pair) if len(pair) == 2 else (0, 0)
    if not (0x21 <= row <= 0x7E and 0x21 <= cell <= 0x7E) or pair[0] ^ pair[1] > 0x7F:
        return b""
    first = (row - 0x21 >> 1) + (0x81 if row < 0x5F else 0xC1)
    return bytes((first, cell + (0x7E if row % 2 == 0 else 0x1F if cell < 0x60 else 0x20)))


def _in_place(error: UnicodeError) -> tuple[str, int]:
    """The same, U+FFFD where it is none."""
    try:
        return _added(error)
    except UnicodeDecodeError as damage:
        return "\ufffd", damage.end


_ADDED, _IN_PLACE = "mmlake.added", "mmlake.in-place"
codecs.register_error(_ADDED, _added)
codecs.register_error(_IN_PLACE, _in_place)
