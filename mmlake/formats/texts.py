"""Bytes to text and text to JSON, strictly: what is uncertain raises UnreadableItem.

UTF-8 first, then byte order marks, then what is declared, then a guess that must be a likely one (`text_encodings`).
JSON has no NaN, no infinity, no lone surrogates, and a fixed depth.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import IO, Any, NoReturn, Protocol

from mmlake.errors import UnreadableItem
from mmlake.formats.charsets import markup_charset
from mmlake.formats.text_encodings import (
    BOMS,
    MIN_CONFIDENCE,
    MIN_DAMAGED_FRACTION,
    damaged_in,
    damaged_utf_8,
    decoded_in,
    escaped_encoding,
    guessed_encoding,
    marked_encoding,
    nearly_ascii,
    wide_encoding,
)
from mmlake.records import canonical_json

_BEFORE_VALUES = (b",", b"[", b"{")
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_LONG_BYTES = 8 << 20  # of a record; shorter ones take less than the bounds in whatever way they are written
# of a string in metadata, from which on it matters how often it is copied; of a field's name, which is compared in
# lower case
_LONG_CHARS = 1 << 20
_ESCAPED_CHARS = 12  # of a character beyond the first 65,536, as JSON escapes it
_VALUE_BYTES = 200  # of a number with its name in an object, or of an object around one; measured
_CONTINUING = bytes(range(0x80, 0xC0))  # the bytes of UTF-8 that begin no character
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")  # a character that makes its whole string take four bytes for each
_BROAD = re.compile(rb"[\xc4-\xef]|\\u")  # one that makes it take two


class Limits(Protocol):
    """Bounds that whoever reads sets, and that hold before anything is expanded or parsed; sizes in bytes.
    `SourceSettings` is one set of them."""

    @property
    def max_shard_bytes(self) -> int:
        """What a compressed file may expand to."""

    @property
    def max_line_bytes(self) -> int:
        """One line or record."""

    @property
    def max_json_values(self) -> int:
        """Values of one JSON record."""

    @property
    def max_json_depth(self) -> int:
        """Levels of nesting of one JSON record."""

    @property
    def max_decoded_bytes(self) -> int:
        """What one record may take in memory."""


def decode_text(
    data: bytes,
    *,
    declared: str | None = None,
    min_confidence: float = MIN_CONFIDENCE,
    min_damaged_fraction: float = MIN_DAMAGED_FRACTION,
) -> tuple[str, str]:
    """(text without byte order mark, name of its encoding). Raises UnreadableItem 1004.

    declared: the encoding that whoever sent the text names; taken where the bytes are not UTF-8 and are of it, but for
    one character in a hundred. Without it, the one that markup names itself. What is damaged is U+FFFD in the text.
    min_confidence: of a guess, 0..1; min_damaged_fraction: of what is not ASCII, that is valid in UTF-8 which is
    damaged.
    """
    if declared is None and data.isascii() and b"\0" not in data and b"\x1b" not in data:  # true of most texts
        return data.decode("ascii"), "utf-8"
    if (marked := marked_encoding(data)) is not None:
        if (said := decoded_in(data, marked)) is not None:
            return said, marked
        if (damaged := damaged_in(data, marked)) is not None:
            return damaged, marked
        if marked == "utf-8-sig":  # the mark was put before a text of another encoding, or much is damaged
            return _foreign(data[len(codecs.BOM_UTF8) :], declared, min_confidence, min_damaged_fraction)
        return _decoded(data, marked), marked
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _foreign(data, declared, min_confidence, min_damaged_fraction)
    is_shifted = declared is not None and declared.startswith("iso2022")
    if declared and is_shifted and (declared_text := decoded_in(data, declared)) is not None:
        return declared_text, declared
    shifted = wide_encoding(data, is_utf_8=True) or escaped_encoding(data)
    return (_decoded(data, shifted), shifted) if shifted else (text, "utf-8")


def _foreign(data: bytes, declared: str | None, min_confidence: float, min_damaged: float) -> tuple[str, str]:
    """(text, encoding) of bytes that are not UTF-8, or are no longer."""
    if (damaged := damaged_utf_8(data, min_fraction=min_damaged)) is not None:
        return damaged, "utf-8"
    declared = declared or markup_charset(data)
    if declared and (text := decoded_in(data, declared) or damaged_in(data, declared)) is not None:
        return text, declared
    encoding = wide_encoding(data) or guessed_encoding(data, min_confidence=min_confidence)
    if encoding is None and (text := nearly_ascii(data)) is not None:
        return text, "utf-8"
    if encoding is None:
        reason = f"num_bytes={len(data)} that are not UTF-8, of which num_nul={data.count(0)}"
        raise UnreadableItem(1004, f"{reason}, and no other encoding is likely enough")
    return _decoded(data, encoding), encoding


def _decoded(data: bytes, encoding: str) -> str:
    if (text := decoded_in(data, encoding) or damaged_in(data, encoding)) is None:
        raise UnreadableItem(1004, f"the text is marked or recognized as {encoding}, and more than a few bytes are not")
    return text


def parse_object(
    data: bytes, *, settings: Limits, named: Callable[[Any], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The JSON object in these bytes. named: makes one of a list, a text or a number. Raises
    UnreadableItem: 1004 not UTF-8, 1008 more values or memory than the settings allow, 1003 everything else."""
    if len(data) > settings.max_json_values:
        _check_values(data, settings)
    if len(data) > _LONG_BYTES:
        _check_memory(data, settings)
    try:
        text = data.removeprefix(BOMS[0][0]).decode()
    except UnicodeDecodeError as error:
        raise UnreadableItem(1004, f"the record is not UTF-8 at byte {error.start}") from error
    try:
        value = _value_of(text)
    except json.JSONDecodeError as error:
        raise UnreadableItem(1003, f"not JSON at character {error.pos} of {len(text)}") from error
    except RecursionError as error:
        raise UnreadableItem(1003, _depth_reason(settings)) from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise UnreadableItem(1003, "a number in the record is too long to convert") from error
    if named is not None and not isinstance(value, dict):
        value = named(value)
    if not isinstance(value, dict):
        raise UnreadableItem(1003, f"the record is a JSON {type(value).__name__}, expected an object")
    if len(data) > _LONG_BYTES and (size := max(map(len, value), default=0)) > _LONG_CHARS:
        raise UnreadableItem(1008, f"name_chars={size} of a field not in [0, {_LONG_CHARS}]")
    if text.count("{") + text.count("[") > settings.max_json_depth:
        _check_depth(value, settings)
    return value


def _value_of(text: str) -> Any:
    """What the decoder makes of the text, without its two scans for white space where a record has none."""
    if text[:1] == "{":
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def _check_values(data: bytes, settings: Limits) -> None:
    """A value is behind a comma or begins a list or an object: where the record has many of these, those inside of
    strings are left out."""
    limit, num_strings = settings.max_json_values, 0
    num_values = sum(map(data.count, _BEFORE_VALUES))
    for found in _STRINGS.finditer(data) if num_values > limit else ():
        num_values -= sum(map(found[0].count, _BEFORE_VALUES))
        num_strings += 1
        if num_values <= limit or num_strings > 2 * limit:
            break
    if num_values > limit or num_strings > 2 * limit:
        raise UnreadableItem(1008, f"num_values>={max(num_values, num_strings // 2)} not in [0, {limit}]")


def _check_memory(data: bytes, settings: Limits) -> None:
    """One emoji makes a text take four bytes per character: as a line, as its values, and as the JSON that they are
    written as again."""
    num_chars = len(data.translate(None, delete=_CONTINUING))
    decoded = num_chars * (4 if _WIDE.search(data) else 2 if _BROAD.search(data) else 1)
    num_escaped = num_chars - len(data.translate(None, delete=bytes(range(0x80, 0x100))))
    written = min(decoded, num_chars + (_ESCAPED_CHARS - 1) * num_escaped)  # as `metadata_text` chooses
    most = len(data) + decoded + max(decoded, 2 * written)
    num_values = sum(map(data.count, _BEFORE_VALUES))
    if num_values and most + _VALUE_BYTES * num_values > settings.max_decoded_bytes:
        num_values -= sum(sum(map(found[0].count, _BEFORE_VALUES)) for found in _STRINGS.finditer(data))
    most += _VALUE_BYTES * num_values
    if most > settings.max_decoded_bytes:
        raise UnreadableItem(1008, f"decoded_bytes={most} not in [0, {settings.max_decoded_bytes}]")


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableItem(1003, f"the record holds {name}, which JSON does not have")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise UnreadableItem(1003, f"the number {text[:40]} is beyond the range of a float")
    return value


# json.loads would make one per record
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _check_depth(value: Any, settings: Limits) -> None:
    level = [value]
    for _ in range(settings.max_json_depth):
        children = chain.from_iterable(node.values() if isinstance(node, dict) else node for node in level)
        if not (level := [child for child in children if isinstance(child, (dict, list))]):
            return
    raise UnreadableItem(1003, _depth_reason(settings))


def _depth_reason(settings: Limits) -> str:
    return f"json_depth>{settings.max_json_depth} not in [1, {settings.max_json_depth}]"


def metadata_text(metadata: dict[str, Any]) -> str | None:
    """The metadata as its one JSON spelling, None where there is none. Lone surrogates, which no table holds, stay
    escaped.

    Escaped is also what is long and would take more memory otherwise: a few wide characters widen every copy of the
    whole.
    """
    if not metadata:
        return None
    if not _is_widened(metadata.values()):
        text = canonical_json(metadata)
        try:
            text.encode()
            return text
        except UnicodeEncodeError:
            pass
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _is_widened(values: Iterable[Any]) -> bool:
    """Whether a long string is among the values, however deep, of which escapes would take less memory. Every row
    with metadata asks: 1 us for nine fields."""
    for value in values:
        kind = type(value)
        if (
            (kind is str and len(value) > _LONG_CHARS and not value.isascii() and _is_shorter_escaped(value))
            or (kind is list and _is_widened(value))
            or (kind is dict and (_is_widened(value.values()) or _is_widened(value)))
        ):
            return True
    return False


def _is_shorter_escaped(text: str) -> bool:
    num_plain = len(text.encode("ascii", "ignore"))
    return num_plain + _ESCAPED_CHARS * (len(text) - num_plain) < sys.getsizeof(text)


def encoded(text: str) -> bytes:
    """The text as UTF-8. Raises UnreadableItem 1003 where it holds half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnreadableItem(1003, f"character {error.start} of the text is half of a surrogate pair") from error


def printable(name: str) -> str:
    """The name as a table can hold it: bytes that are no UTF-8 are written as escapes."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def lines_of(stream: IO[bytes], limit_bytes: int) -> Iterator[bytes | int]:
    """Each line without its end, or the size of one that is over the limit. Iterating raises what reading raises,
    after the whole lines."""
    while line := stream.readline(limit_bytes + 2):
        size, ended = len(line), line.endswith(b"\n")
        line = line.rstrip(b"\r\n")  # under the same name: the line would be held twice while its record is read
        if len(line) <= limit_bytes:
            yield line
            continue
        while not ended and (line := stream.readline(1 << 20)):
            size, ended = size + len(line), line.endswith(b"\n")
        yield size
