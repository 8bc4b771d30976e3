"""What a Parquet column chunk would decode to, told by its page headers alone: nothing is expanded.

The footer's sizes cannot be used for it: dictionary and run-length encodings make gigabytes of a few hundred bytes, and
a hostile footer says what it likes. Page headers are Thrift structs in the compact protocol (parquet-format,
`PageHeader`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.sources.tables.compact import Malformed, read_struct

_HEADER_BYTES = 1 << 13  # a page header with its statistics is below a kilobyte
_MAX_HEADER_BYTES = 1 << 22  # statistics may hold two long values
_MAX_PAGES = 1 << 18  # of a column chunk: of 30 bytes each they would take a minute to walk; a chunk of 2 GB has 2,000
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_ENCODED = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_PLAIN = 0
_PREFIXED = 7  # DELTA_BYTE_ARRAY: a value is the beginning of the one before it and some bytes more
_LEVEL_BYTES = 8  # what a value takes in memory where it is null or a number


@dataclass(frozen=True, slots=True)
class Page:
    """One data page."""

    num_values: int
    value_bytes: int  # no value of it is larger
    all_bytes: int  # nor are all of them together
    body_at: int  # where it lies in the file, behind its header
    stored_bytes: int
    expanded_bytes: int
    is_plain: bool  # whether its values stand in it one behind another
    # of repetition and definition levels, which version 2 keeps uncompressed before the values
    levels_bytes: tuple[int, int] | None = None
    is_compressed: bool = True

    def most_bytes(self, num_values: int) -> int:
        """What so many of its values can take in memory at most."""
        return min(self.all_bytes, num_values * self.value_bytes) + min(num_values, self.num_values) * _LEVEL_BYTES


@dataclass(frozen=True, slots=True)
class Weight:
    """What one column chunk takes in memory."""

    decoded_bytes: int  # all of it, where the values of a dictionary occur equally often
    page_bytes: int  # its largest page, expanded
    stored_bytes: int  # its largest page as it lies in the file
    value_bytes: int  # no value that a dictionary repeats is larger
    num_values: int
    pages: tuple[Page, ...]

    @property
    def all_bytes(self) -> int:
        """No more than this is all of it, whatever its pages say."""
        return sum(page.most_bytes(page.num_values) for page in self.pages)

    def most_bytes(self, num_values: int) -> int:
        """What so many values in a row can take in memory at most, wherever they begin."""
        ends = [0, *accumulate(page.num_values for page in self.pages)]
        costs = [0, *accumulate(page.most_bytes(num_values) for page in self.pages)]
        most = 0
        for at in range(len(self.pages)):
            # the last value of this page, the next pages whole, and the one in which the values end
            last = bisect_left(ends, ends[at + 1] + num_values - 1, lo=at + 1)
            most = max(most, costs[min(last, len(self.pages))] - costs[at])
        return most


def weigh(file: IO[bytes], start: int, size_bytes: int, *, width_bytes: int | None = None) -> Weight:
    """The weight of the column chunk that lies there. width_bytes: of its values, None where they are byte strings of
    any length.

    Raises UnreadableItem: 1001 where its page headers do not parse, 1008 where there are too many.
    """
    at, end = start, start + size_bytes
    decoded = largest = largest_stored = dictionary = total = 0
    average = 1.0
    pages: list[Page] = []
    while at < end:
        header, length = _header(file, at, end)
        kind, expanded, stored = (header.get(field) for field in (1, 2, 3))
        if (
            not isinstance(kind, int)
            or not isinstance(expanded, int)
            or not isinstance(stored, int)
            or expanded < 0
            or stored < 0
            or at + length + stored > end
        ):
            raise _unreadable(at)
        largest, largest_stored = max(largest, expanded), max(largest_stored, stored)
        about = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, -1))
        num_values = about.get(1, 0) if isinstance(about, dict) else 0
        if not isinstance(num_values, int) or num_values < 0:
            raise _unreadable(at)
        if kind == _DICTIONARY:
            dictionary, average = max(dictionary, expanded), expanded / max(1, num_values)
        elif kind in (_DATA, _DATA_V2):
            encoding = about.get(2 if kind == _DATA else 4) if isinstance(about, dict) else None
            decoded += (
                num_values * (_LEVEL_BYTES + int(average))
                if encoding in _ENCODED
                else max(expanded, num_values * _LEVEL_BYTES)
            )
            value_bytes = width_bytes or (dictionary if encoding in _ENCODED else expanded)
            everything = num_values * value_bytes if width_bytes or encoding in (*_ENCODED, _PREFIXED) else expanded
            levels = _levels(about, expanded, at) if kind == _DATA_V2 else None
            compressed = kind == _DATA or (isinstance(about, dict) and about.get(7) is not False)
            pages.append(
                Page(
                    num_values,
                    value_bytes,
                    everything,
                    at + length,
                    stored,
                    expanded,
                    encoding == _PLAIN,
                    levels,
                    compressed,
                )
            )
            total += num_values
        if len(pages) > _MAX_PAGES:
            raise UnreadableItem(1008, f"num_pages>={len(pages)} not in [0, {_MAX_PAGES}]")
        at += length + stored
    return Weight(
        decoded + dictionary, largest, largest_stored, min(dictionary, width_bytes or dictionary), total, tuple(pages)
    )


def _levels(about: Any, expanded: int, at: int) -> tuple[int, int]:
    repetition, definition = (about.get(field) if isinstance(about, dict) else None for field in (6, 5))
    if (
        not isinstance(repetition, int)
        or not isinstance(definition, int)
        or repetition < 0
        or definition < 0
        or repetition + definition > expanded
    ):
        raise _unreadable(at)
    return repetition, definition


def _unreadable(at: int) -> UnreadableItem:
    return UnreadableItem(1001, f"the page header at byte {at} of the file does not parse")


def _header(file: IO[bytes], at: int, end: int) -> tuple[dict[int, Any], int]:
    """(field number -> value, bytes of the header)."""
    size = _HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(min(size, end - at))
        try:
            return read_struct(data, 0)
        except Malformed as error:
            raise _unreadable(at) from error
        except IndexError as error:
            if len(data) < size or size >= _MAX_HEADER_BYTES:
                raise _unreadable(at) from error
            size *= 8
