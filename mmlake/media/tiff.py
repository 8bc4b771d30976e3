"""One page of a TIFF, or one plane of it, as a TIFF of its own, without decoding: the page's directory and its strips
or tiles are copied as they lie.

So pixels are exact in every depth, colour space and compression. Layout: TIFF 6.0, and BigTIFF with 64-bit offsets.
Reduced copies of a page (SubIFDs) are left out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mmlake.errors import UnreadableItem
from mmlake.media.tiff_pages import MARKS, page_places

# bytes of a value by field type
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_INTEGERS: Final = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_WIDTH, _HEIGHT, _COMPRESSION, _SUB_IFDS = 256, 257, 259, 330
_DATA: Final = {273: 279, 324: 325}  # offsets of strips and of tiles -> their sizes
_SAMPLES, _BITS, _PHOTOMETRIC, _EXTRA, _FORMAT, _PLANAR = 277, 258, 262, 338, 339, 284
# of a page's pixels as they are stored: size, samples, compression and its parameters, strips and tiles
_PIXELS: Final = frozenset(
    (256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 292, 317, 322, 323, 324, 325, 338, 339, 347)
)
_ICC_PROFILE: Final = 34675
_FEW: Final = 64  # values of a field that says what the samples are
_BLACK_IS_ZERO: Final = 1
_DIRECTORIES: Final = (34665, 34853)  # EXIF and GPS
_OLD_JPEG: Final = 6  # its tables lie anywhere in the file, named by no size
_MAX_PAGES: Final = 1 << 16


class NotCopied(Exception):
    """The page is sound as far as can be seen, but lies in the file in a way that only a decoder follows."""


@dataclass(frozen=True, slots=True)
class _Entry:
    tag: int
    kind: int
    count: int
    data: bytes  # the values, in the file's byte order


class Tiff:
    """The pages of a TIFF, or the first ones of them. Raises UnreadableItem 3001 where the bytes are none, 3002 where
    they stop early."""

    def __init__(self, data: bytes, *, most: int = _MAX_PAGES) -> None:
        if data[:4] not in MARKS or len(data) < 8:
            raise UnreadableItem(3001, "the data do not begin as a TIFF does")
        self._data, self._order = data, "<" if data[:2] == b"II" else ">"
        self._big = data[2:4] in (b"+\0", b"\0+")
        self._pages = page_places(data, most=most)

    @property
    def num_pages(self) -> int:
        return len(self._pages)

    def page(self, index: int, *, max_pixels: int) -> bytes:
        """The page as a file. Raises UnreadableItem 3001, 3002 where it is cut, 3004 above the pixels; NotCopied where
        only a decoder can."""
        return self._checked(self._entries(self._pages[index]), max_pixels)

    def pixels(self, index: int, *, max_pixels: int) -> bytes:
        """The page without what says nothing of its pixels as they are stored: without metadata, not turned. Otherwise
        as `page`."""
        return self._checked(self._entries(self._pages[index], only=_PIXELS), max_pixels)

    def _checked(self, entries: list[_Entry], max_pixels: int) -> bytes:
        by_tag = {entry.tag: entry for entry in entries}
        width_px, height_px = (self._integers(by_tag[tag])[0] if tag in by_tag else 0 for tag in (_WIDTH, _HEIGHT))
        if not 0 < width_px * height_px <= max_pixels:
            raise UnreadableItem(
                3004, f"num_pixels={width_px * height_px} ({width_px}x{height_px}) not in [1, {max_pixels}]"
            )
        if _COMPRESSION in by_tag and self._integers(by_tag[_COMPRESSION])[0] == _OLD_JPEG:
            raise NotCopied
        return self._file(entries)

    def stated(self, index: int, tags: frozenset[int]) -> dict[int, tuple[int, ...]]:
        """Those of the fields of these tags that are some whole numbers. Raises UnreadableItem 3001, 3002."""
        entries = self._entries(self._pages[index], only=tags)
        few = [entry for entry in entries if entry.kind in _INTEGERS and 0 < entry.count <= _FEW]
        return {entry.tag: self._integers(entry) for entry in few}

    def profile(self, index: int) -> bytes:
        """The ICC profile of the page; nothing where it has none. Raises UnreadableItem 3001, 3002."""
        entries = self._entries(self._pages[index], only=frozenset((_ICC_PROFILE,)))
        return entries[0].data if entries else b""

    def plane(self, index: int, nth: int, *, max_pixels: int) -> bytes:
        """One sample of each pixel, as a grey picture, of a page that keeps its samples in planes of their own.
        Otherwise as `pixels`."""
        entries = {entry.tag: entry for entry in self._entries(self._pages[index], only=_PIXELS)}
        num_planes = self._integers(entries[_SAMPLES])[0]
        for tag in (tag for pair in _DATA.items() for tag in pair if tag in entries):
            values = self._integers(entries[tag])
            each = len(values) // num_planes
            entries[tag] = self._pointer(tag, list(values[each * nth : each * (nth + 1)]))
        for tag in (_BITS, _FORMAT):
            if tag in entries:
                entries[tag] = self._short(tag, self._integers(entries[tag])[0])
        for tag, value in ((_SAMPLES, 1), (_PLANAR, 1), (_PHOTOMETRIC, _BLACK_IS_ZERO)):
            entries[tag] = self._short(tag, value)
        entries.pop(_EXTRA, None)
        return self._checked(sorted(entries.values(), key=lambda entry: entry.tag), max_pixels)

    def _number(self, at: int, kind: str) -> int:
        size = struct.calcsize(kind)
        if at < 0 or at + size > len(self._data):
            raise UnreadableItem(
                3002, f"the TIFF of size_bytes={len(self._data)} names byte {at}, which it does not have"
            )
        return int(struct.unpack_from(self._order + kind, self._data, at)[0])

    def _entries(self, at: int, *, only: frozenset[int] | None = None) -> list[_Entry]:
        count, first, size = (self._number(at, "Q"), at + 8, 20) if self._big else (self._number(at, "H"), at + 2, 12)
        if first + size * count > len(self._data):
            raise UnreadableItem(
                3002, f"the TIFF of size_bytes={len(self._data)} ends inside a directory of {count} fields"
            )
        entries, num_bytes = list[_Entry](), 0
        for at_field in range(first, first + size * count, size):
            entry = self._entry(at_field, only)
            num_bytes += 0 if entry is None else len(entry.data)
            if num_bytes > len(self._data):  # all of them may name the same bytes
                raise UnreadableItem(3001, f"num_bytes={num_bytes} of fields not in [0, {len(self._data)}]")
            entries += [] if entry is None else [entry]
        return entries

    def _entry(self, at: int, only: frozenset[int] | None) -> _Entry | None:
        tag, kind = self._number(at, "H"), self._number(at + 2, "H")
        if only is not None and tag not in only:
            return None
        count, place, room = (
            (self._number(at + 4, "Q"), at + 12, 8) if self._big else (self._number(at + 4, "I"), at + 8, 4)
        )
        if kind not in _SIZES:
            return None  # of a later version of the format: readers pass over it too
        size = _SIZES[kind] * count
        if size > room:
            place = self._number(place, "Q" if self._big else "I")
        return _Entry(tag, kind, count, self._slice(place, size))

    def _slice(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise UnreadableItem(
                3002,
                f"the TIFF of size_bytes={len(self._data)} ends before byte {at + size}, up to which a page reaches",
            )
        return self._data[at : at + size]

    def _integers(self, entry: _Entry) -> tuple[int, ...]:
        if entry.kind not in _INTEGERS or not entry.count:
            raise UnreadableItem(
                3001,
                f"the field {entry.tag} of the TIFF has the type {entry.kind} and {entry.count} values, expected "
                "whole numbers",
            )
        return struct.unpack(f"{self._order}{entry.count}{_INTEGERS[entry.kind]}", entry.data)

    def _file(self, entries: list[_Entry]) -> bytes:
        out = bytearray(self._data[:8] if self._big else self._data[:4])
        out += struct.pack(self._order + ("Q" if self._big else "I"), 0)
        first = self._directory(out, entries)
        struct.pack_into(self._order + ("Q" if self._big else "I"), out, 8 if self._big else 4, first)
        return bytes(out)

    def _directory(self, out: bytearray, entries: list[_Entry]) -> int:
        """Where the directory lies, once what it names was appended."""
        sizes = {entry.tag: self._integers(entry) for entry in entries if entry.tag in _DATA.values()}
        kept = []
        for entry in entries:
            if entry.tag in _DATA:
                kept.append(self._moved(out, entry, sizes.get(_DATA[entry.tag], ())))
            elif entry.tag in _DIRECTORIES:
                inner = [
                    each for each in self._entries(self._integers(entry)[0]) if each.tag not in (*_DATA, *_DIRECTORIES)
                ]
                kept.append(self._pointer(entry.tag, [self._directory(out, inner)]))
            elif entry.tag != _SUB_IFDS:
                kept.append(entry)
        wide, room = ("Q", 8) if self._big else ("I", 4)
        fields = bytearray()
        for entry in kept:
            value = entry.data if len(entry.data) <= room else struct.pack(self._order + wide, _append(out, entry.data))
            fields += struct.pack(f"{self._order}HH{wide}", entry.tag, entry.kind, entry.count) + value.ljust(
                room, b"\0"
            )
        return _append(out, struct.pack(self._order + ("Q" if self._big else "H"), len(kept)) + fields + bytes(room))

    def _moved(self, out: bytearray, entry: _Entry, sizes: tuple[int, ...]) -> _Entry:
        offsets = self._integers(entry)
        if len(offsets) != len(sizes):
            raise NotCopied  # very old files leave the sizes out
        if sum(sizes) > len(self._data):
            raise UnreadableItem(
                3001,
                f"the strips of a page have num_bytes={sum(sizes)} not in [0, {len(self._data)}], the size of the file",
            )
        return self._pointer(
            entry.tag, [_append(out, self._slice(at, size)) for at, size in zip(offsets, sizes, strict=True)]
        )

    def _pointer(self, tag: int, offsets: list[int]) -> _Entry:
        kind, code = (16, "Q") if self._big else (4, "I")
        return _Entry(tag, kind, len(offsets), struct.pack(f"{self._order}{len(offsets)}{code}", *offsets))

    def _short(self, tag: int, value: int) -> _Entry:
        return _Entry(tag, 3, 1, struct.pack(self._order + "H", value))


def _append(out: bytearray, data: bytes) -> int:
    """Where the data lie once they were appended, on an even byte as the format wants."""
    out += bytes(len(out) % 2)
    at = len(out)
    out += data
    return at
