"""Ogg pages (RFC 3533): those whose checksum does not hold, and a last one whose packet goes on behind it, which
decoders leave out and say nothing of; and the streams that follow each other in one file."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_CAPTURE, _HEAD_BYTES = b"OggS\0", 27
_BEGINS = 2  # flag of the first page of a stream
_GOES_ON = 255  # length of a page's last segment: its packet ends on a later page
_SEARCH_BYTES = 1 << 16
_MAX_LINKS = 4_096  # each is opened by a decoder; 24 hours of songs are 480
_MAX_FALSE = 10_000  # places where a page seems to begin and none does: each may cost the checksum of 65 kB
# zlib's CRC-32 is that of Ogg with the bits of every byte, and of the result, in reverse
_REVERSED = bytes(int(f"{code:08b}"[::-1], 2) for code in range(256))


@dataclass(frozen=True, slots=True)
class BadPage:
    """One page that is not as it was written or not there, or bytes between two pages."""

    at_byte: int
    granule: int  # of the last good page before it: what the codec counts time in; 0 where there is none
    is_missing: bool = False  # the file ends here, and the last packet does not


def bad_pages(file: IO[bytes]) -> Iterator[BadPage]:
    """The damaged places of an Ogg file, in order; what lies between two whole pages is one place."""
    at = granule = num_false = 0
    is_lost = goes_on = False
    while num_false < _MAX_FALSE and (head := _at(file, at, _HEAD_BYTES)):
        page = _page(file, head)
        if page is not None:
            at, is_lost = at + len(page), False
            position = int.from_bytes(page[6:14], "little", signed=True)
            granule = position if position > 0 else granule  # -1: no packet ends on the page
            goes_on = page[_HEAD_BYTES : _HEAD_BYTES + page[26]].endswith(bytes([_GOES_ON]))
            continue
        if not is_lost:
            yield BadPage(at, granule)
        is_lost, num_false = True, num_false + 1
        at = _next_capture(file, at + 1)
    if goes_on and not is_lost:
        yield BadPage(at, granule, is_missing=True)


@dataclass(frozen=True, slots=True)
class Link:
    """The bytes of a chain in which streams begin and end together."""

    at_byte: int
    size_bytes: int


def links(file: IO[bytes]) -> list[Link]:
    """The links of a chain in order, which tile the file (RFC 3533, section 4): a stream begins behind the pages of
    another one, as in recordings of radio, where each song does. One of a file of one stream, none of another format.
    The last of very many holds all others."""
    if not _at(file, 0, _HEAD_BYTES).startswith(_CAPTURE):
        return []
    at = before = num_false = 0
    starts, has_begun, end = [0], False, file.seek(0, 2)
    while at < end and len(starts) < _MAX_LINKS and num_false < _MAX_FALSE:
        head = _at(file, at, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES or not head.startswith(_CAPTURE):  # the page before is damaged, or was none
            before = at = _next_capture(file, before + 1)
            num_false += 1
            continue
        before = at
        size_bytes = _HEAD_BYTES + head[26] + sum(file.read(head[26]))
        if not head[5] & _BEGINS:
            has_begun = True
        elif has_begun and _begins(file, at):
            starts.append(at)
            has_begun = False
        at += size_bytes
    return [Link(start, behind - start) for start, behind in itertools.pairwise([*starts, end])]


def is_of_one_page(file: IO[bytes]) -> bool:
    """Whether all that the first streams of an Ogg file hold, their headers aside, ends on one page."""
    at = num_pages = 0
    while num_pages < 2 and (head := _at(file, at, _HEAD_BYTES)).startswith(_CAPTURE) and len(head) == _HEAD_BYTES:
        num_pages += int.from_bytes(head[6:14], "little", signed=True) > 0
        at += _HEAD_BYTES + head[26] + sum(file.read(head[26]))
    return num_pages == 1


def is_chained(file: IO[bytes]) -> bool:
    """Whether a stream begins behind the pages of another one."""
    return len(links(file)) > 1


def _begins(file: IO[bytes], at: int) -> bool:
    """Whether a page that says so begins a stream: it is whole, or the first one by its number, too."""
    head = _at(file, at, _HEAD_BYTES)
    return head[18:22] == bytes(4) or _page(file, head) is not None


def _at(file: IO[bytes], at: int, num_bytes: int) -> bytes:
    file.seek(at)
    return file.read(num_bytes)


def _page(file: IO[bytes], head: bytes) -> bytes | None:
    """The page, whose header was just read; None where it is none, or its checksum does not hold."""
    if len(head) < _HEAD_BYTES or not head.startswith(_CAPTURE):
        return None
    lengths = file.read(head[26])
    page = head + lengths + file.read(sum(lengths))
    if len(page) != _HEAD_BYTES + head[26] + sum(lengths):
        return None
    return page if _checksum(page[:22] + bytes(4) + page[26:]) == int.from_bytes(page[22:26], "little") else None


def _checksum(page: bytes) -> int:
    """CRC-32 with the polynomial 0x04C11DB7, from 0, nothing reversed."""
    found = zlib.crc32(page.translate(_REVERSED), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    return int.from_bytes(found.to_bytes(4, "little").translate(_REVERSED), "big")


def _next_capture(file: IO[bytes], at: int) -> int:
    """Where the next page may begin; the end of the file where none does."""
    while part := _at(file, at, _SEARCH_BYTES):
        if (found := part.find(_CAPTURE)) >= 0:
            return at + found
        at += max(1, len(part) - len(_CAPTURE) + 1)
    return at
