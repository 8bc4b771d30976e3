"""What the pages of a Parquet column hold exactly: the longest byte string, and the most values that one row has.

Page headers alone leave open whether a page of 100 MB is one value or a million; here pages are expanded, one at a
time, and walked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa

from mmlake.errors import UnreadableItem
from mmlake.sources.tables.pages import Page, Weight

_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """What a column's levels may be, and what its pages are compressed with."""

    max_repetition: int
    max_definition: int
    codec: str | None  # as pyarrow calls it; None: not at all
    is_bytes: bool  # whether values are byte strings of any length


def looked_into(file: IO[bytes], weight: Weight, shape: Shape) -> tuple[Weight, int]:
    """(the weight with what the pages were found to hold, the most values that one row has). Raises UnreadableItem
    1001 where a page does not expand or parse."""
    pages, most, open_row = [], 0, 0
    for page in weight.pages:
        if page.num_values <= 1 and not shape.max_repetition:
            pages.append(page)  # its header tells as much
            continue
        levels, body = _expanded(file, page, shape)
        if shape.max_repetition:
            longest, open_row = _longest_row(levels, page, shape.max_repetition.bit_length(), open_row)
            most = max(most, longest, open_row)
        pages.append(
            replace(page, value_bytes=_longest_value(body, page)) if shape.is_bytes and page.is_plain else page
        )
    return replace(weight, pages=tuple(pages)), most if shape.max_repetition else 1


def _expanded(file: IO[bytes], page: Page, shape: Shape) -> tuple[memoryview, memoryview]:
    """(repetition levels, values) of the page."""
    file.seek(page.body_at)
    data = memoryview(file.read(page.stored_bytes))
    before = sum(page.levels_bytes or ())
    rest = data[before:]
    if shape.codec is not None and page.is_compressed and len(rest):
        try:
            rest = memoryview(pa.Codec(shape.codec).decompress(rest, decompressed_size=page.expanded_bytes - before))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(page) from error
    if page.levels_bytes is not None:
        return data[: page.levels_bytes[0]], rest
    levels = memoryview(b"")
    for at, maximum in enumerate((shape.max_repetition, shape.max_definition)):
        if maximum:
            size = int.from_bytes(rest[:_LENGTH_BYTES], "little")
            if size + _LENGTH_BYTES > len(rest):
                raise _unreadable(page)
            levels = rest[_LENGTH_BYTES : _LENGTH_BYTES + size] if at == 0 else levels
            rest = rest[_LENGTH_BYTES + size :]
    return levels, rest


def _unreadable(page: Page) -> UnreadableItem:
    return UnreadableItem(1001, f"the page at byte {page.body_at} of the file does not expand or parse")


def _longest_value(body: memoryview, page: Page) -> int:
    """The length of the longest of the byte strings, each behind its length (parquet-format, PLAIN)."""
    at = longest = 0
    while at + _LENGTH_BYTES <= len(body):
        size = int.from_bytes(body[at : at + _LENGTH_BYTES], "little")
        at += _LENGTH_BYTES + size
        longest = max(longest, size)
    if at != len(body):
        raise _unreadable(page)
    return longest + _LENGTH_BYTES


def _longest_row(levels: memoryview, page: Page, width: int, open_row: int) -> tuple[int, int]:
    """(values of the longest row that ends in the page, values so far of the row that does not). A level of 0 begins
    a row (RLE and bit-packed runs)."""
    import numpy as np

    at = longest = seen = 0
    while seen < page.num_values:
        head, shift = 0, 0
        while True:
            if at >= len(levels) or shift > 35:
                raise _unreadable(page)
            byte = levels[at]
            head, at, shift = head | (byte & 127) << shift, at + 1, shift + 7
            if byte < 128:
                break
        if head & 1:
            count = min((head >> 1) * 8, page.num_values - seen)
            size = (head >> 1) * width
            bits = np.unpackbits(np.frombuffer(levels[at : at + size], np.uint8), bitorder="little")
            bits = bits[: len(bits) // width * width].reshape(-1, width)[:count]
            starts = np.flatnonzero(~bits.any(axis=1))
            at += size
            if len(starts):
                longest = max(longest, open_row + int(starts[0]), int(np.diff(starts).max(initial=0)))
                open_row = len(bits) - int(starts[-1])
            else:
                open_row += len(bits)
        else:
            count, level = min(head >> 1, page.num_values - seen), levels[at : at + 1]
            at += 1
            if level == b"\0":
                longest, open_row = max(longest, open_row, 1), 1
            else:
                open_row += count
        if not count:
            raise _unreadable(page)
        seen += count
    return longest, open_row
