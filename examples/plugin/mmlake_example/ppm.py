"""Netpbm's colour format, of which one file may hold several pictures, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mmlake.plugins import Content, RawItem, Reading, SourceRef

_HEADER = re.compile(rb"P6(?:\s+#[^\n]*)*\s+(\d{1,5})\s+(\d{1,5})\s+255\s", re.DOTALL)


def claims(head: bytes, name: str) -> bool:
    """Whether the file begins as a colour picture of eight bits."""
    return _HEADER.match(head) is not None


def modalities(reading: Reading) -> tuple[str, ...]:
    """Pictures only."""
    return ("image",)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row per picture, with the range of the file that it takes; what follows the last whole one is a row too."""
    with reading.open() as file:
        data = file.read(reading.settings.max_item_bytes)
    start = number = 0
    while start < len(data):
        header = _HEADER.match(data, start)
        end = header.end() + 3 * int(header[1]) * int(header[2]) if header else len(data)
        if header is None or end > len(data):
            yield reading.fault(1004, f"num_bytes={len(data) - start} are no whole picture", modality="image")
            return
        yield RawItem(
            modality="image",
            ref=SourceRef(path=reading.path, byte_offset=start, byte_size=end - start),
            sample_id=f"{reading.key}/{number:06d}",
            content_type="image/x-portable-pixmap",
            extension="ppm",
            content=Content.of_bytes(data[start:end]),
            size_bytes=end - start,
        )
        start, number = end, number + 1
