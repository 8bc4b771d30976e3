"""Where the pages of a TIFF lie (TIFF 6.0, and BigTIFF with 64-bit offsets): each directory names the one behind it.

Pillow searches all pages that it knows for each new one: of a file of 22 MB with 200,000 of them it counted for more
than a minute, and of five times as many it would have for hours.
"""

from __future__ import annotations

import struct
from typing import Final

from mmlake.errors import UnreadableItem

MARKS: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def page_places(data: bytes, *, most: int | None = None) -> list[int]:
    """The byte of each page's directory, up to the end of the chain or to one that was there before. most: of so many
    pages. Raises UnreadableItem 3001 where the bytes are no TIFF, 3002 where the chain leads out of them."""
    if data[:4] not in MARKS:
        raise UnreadableItem(3001, "the data do not begin as a TIFF does")
    order, is_big = "<" if data[:2] == b"II" else ">", data[2:4] in (b"+\0", b"\0+")
    count, place, entry_bytes = ("Q", "Q", 20) if is_big else ("H", "I", 12)
    count_form, place_form, count_bytes = struct.Struct(order + count), struct.Struct(order + place), 8 if is_big else 2
    places: dict[int, None] = {}
    at = 8 if is_big else 4
    try:
        (found,) = place_form.unpack_from(data, at)
        while found and found not in places and (most is None or len(places) < most):
            places[at := found] = None
            at += count_bytes + entry_bytes * count_form.unpack_from(data, at)[0]
            (found,) = place_form.unpack_from(data, at)
    except (struct.error, OverflowError):
        raise UnreadableItem(
            3002, f"the TIFF of size_bytes={len(data)} names byte {at}, which it does not have"
        ) from None
    return list(places)
