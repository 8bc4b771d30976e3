"""JSON lines, plain or compressed: one text record per line. A bad line is a row with the line's bytes, never the end
of the shard.

Rows are texts: a record's media, if it names any, lie elsewhere and are metadata here. Only where texts and images take
turns has each image a row of its own, at its place and without bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from mmlake.errors import UnreadableItem
from mmlake.formats import texts
from mmlake.formats.sniff import extension_of
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.records import interleaved
from mmlake.sources.records.lines import json_lines, rows_of_lines, stream_of

EXTENSIONS = ("jsonl", "ndjson", "json", "")  # of names that do not say something else
_CHAT = ".live_chat.json"  # yt-dlp: what was shown next to a stream, an event in each of up to 100,000 lines
_UNREAD_CHAT = (
    "live_chat.json holds the events of the chat of a stream as yt-dlp saves it, which is not read; "
    "yt-dlp leaves it out with --sub-langs all,-live_chat"
)
_HEAD_BYTES = 1 << 20  # of the first record, which says whether there are images among the texts


def claims(head: bytes, name: str) -> bool:
    """Two JSON objects on lines of their own, in a file whose name does not say something else."""
    if extension_of(name) not in EXTENSIONS:
        return False
    first, newline, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not first.startswith(b"{") or not newline or not rest.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def modalities(reading: Reading) -> tuple[str, ...]:
    """Text, and image where the first record lists texts and images."""
    return ("text", "image") if _lists_images(reading) else ("text",)


def _lists_images(reading: Reading) -> bool:
    """Whether the first record does, by its names alone where it is very long."""
    try:
        with stream_of(reading) as stream:
            line = next((line for line in iter(lambda: stream.readline(_HEAD_BYTES), b"") if line.strip()), b"")
        if not any(
            f'"{images}"'.encode() in line and f'"{listed}"'.encode() in line
            for listed, images in interleaved.forms(reading.settings)
        ):
            return False
        if len(line) >= _HEAD_BYTES and not line.endswith(b"\n"):
            return True
        return interleaved.is_listed(texts.parse_object(line, settings=reading.settings), settings=reading.settings)
    except UnreadableItem:
        return False


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the lines in order; blank lines are none. Where the stream breaks, a last row says so."""
    if reading.path.endswith(_CHAT):
        yield reading.fault(1005, _UNREAD_CHAT, modality="text", content=Content(reading.open))
        return
    yield from rows_of_lines(
        json_lines(reading), reading, "lines", image_home="image" if _lists_images(reading) else "text"
    )
    if (entry := reading.landing.stat(reading.path)) is not None and not entry.size_bytes:
        yield reading.empty()
