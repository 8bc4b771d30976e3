"""JSON lines, plain or compressed: one text record per line. A bad line is a row with the line's bytes, never the end
of the shard.

Rows are texts: a record's media, if it names any, lie elsewhere and are metadata here. Only where texts and images take
turns has each image a row of its own, at its place and without bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.formats.compression import MARK_BYTES, compression_of, expanded
from mmlake.formats.sniff import extension_of
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading, become_text, first_field, licence_field
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved

EXTENSIONS = ("jsonl", "ndjson", "json", "")  # of names that do not say something else
_LOOK_BYTES = 1 << 20  # of the first record, which tells whether there are images among the texts


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
    """Whether the first record does, as far as its names tell where it is very long."""
    try:
        with stream_of(reading) as stream:
            line = next((line for line in iter(lambda: stream.readline(_LOOK_BYTES), b"") if line.strip()), b"")
        if not any(
            f'"{images}"'.encode() in line and f'"{listed}"'.encode() in line
            for listed, images in interleaved.forms(reading.settings)
        ):
            return False
        if len(line) >= _LOOK_BYTES and not line.endswith(b"\n"):
            return True
        return interleaved.is_listed(texts.parse_object(line, settings=reading.settings), settings=reading.settings)
    except UnreadableItem:
        return False


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the lines in order; blank lines are none. Where the stream breaks, a last row says so."""
    names = SampleNames(reading.key)
    number, image_home = 0, "image" if _lists_images(reading) else "text"
    try:
        with stream_of(reading) as stream:
            for number, line in enumerate(lines_of(stream, reading.settings.max_line_bytes), 1):
                if isinstance(line, int) or line.strip():
                    yield from rows_of_json(line, f"line:{number}", number, reading, names, image_home=image_home)
    except UnreadableItem as error:
        yield reading.fault(
            1001 if error.code == 1003 else error.code, f"{error.reason}; {number} lines were read", modality="text"
        )
    if not number and (entry := reading.landing.stat(reading.path)) is not None and not entry.size_bytes:
        yield reading.fault(1006, "size_bytes=0 not in [1, inf)", modality="text", content=Content(reading.open))


def stream_of(reading: Reading) -> IO[bytes]:
    """The shard's file, expanded where it is compressed, for reading in order."""
    file = reading.open()
    head = file.read(MARK_BYTES)
    file.seek(0)
    compression = compression_of(head)
    return expanded(file, compression, limit_bytes=reading.settings.max_shard_bytes) if compression else file


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


def rows_of_json(
    data: bytes | int, label: str, number: int, reading: Reading, names: SampleNames, *, image_home: str = "text"
) -> Iterator[RawItem]:
    """The rows of one record: its texts, or one that says why it has none. data: its JSON, or its size where that is
    over the limit. label: its place in the shard.

    image_home: the modality whose table gets the images that a record lists among its texts.
    """
    if isinstance(data, int):
        yield row_of_fault(
            Fault(1008, f"line_bytes={data} not in [0, {reading.settings.max_line_bytes}]"),
            label,
            number,
            reading,
            names,
        ).replace(size_bytes=data)
        return
    try:
        fields = texts.parse_object(data, settings=reading.settings)
    except UnreadableItem as error:
        yield with_bytes(row_of_fault(Fault.of(error), label, number, reading, names), data)
        return
    yield from rows_of_fields(fields, label, number, reading, names, data=data, image_home=image_home)


def rows_of_fields(
    fields: dict[str, Any],
    label: str,
    number: int,
    reading: Reading,
    names: SampleNames,
    *,
    data: bytes | None = None,
    image_home: str = "text",
) -> Iterator[RawItem]:
    """The rows of one record that was read already. data: its bytes; None: its JSON. image_home: as for
    `rows_of_json`."""
    settings = reading.settings
    found = record_fields.text_fields(fields, (), settings=settings)
    parts = (
        interleaved.parts_of(fields, settings=settings)
        if not found or interleaved.is_listed(fields, settings=settings)
        else []
    )
    identity = first_field(fields, reading.settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    if not found and not parts:
        fault = Fault(1003, f"none of the fields {sorted(fields)[:12]} is a text field")
        blank = RawItem(
            modality="text",
            role="document",
            ref=SourceRef(path=reading.path, member=label),
            sample_id=sample_id,
            fault=fault,
        )
        yield with_bytes(blank, canonical_json(fields).encode() if data is None else data)
        return
    used, first = record_fields.taken(found), 0
    if parts:
        used |= interleaved.used_lists(fields, settings=settings)
    metadata, licence, path = record_fields.without(fields, used), licence_field(fields, settings), reading.path
    if parts:
        blank = RawItem(
            modality="text", ref=SourceRef(path, label), sample_id=sample_id, metadata=metadata, licence=licence
        )
        for _, item in interleaved.items_of_parts(
            parts, blank, locate=lambda pointer: SourceRef(path, f"{label}#/{pointer}"), image_home=image_home
        ):
            yield item
        first = parts[-1].position + 1
    for position, field in enumerate(found, first):
        # A text at the beginning is the record's; a locator of another one says where in the record it stands.
        ref = SourceRef(path, f"{label}#{field.pointer}" if position else label)
        item = RawItem(
            modality="text",
            ref=ref,
            sample_id=sample_id,
            position=position,
            metadata=metadata,
            own=field.own,
            licence=licence,
        )
        yield become_text(item, field.text, field.role)


def row_of_fault(fault: Fault, label: str, number: int, reading: Reading, names: SampleNames) -> RawItem:
    """The row of a record that says nothing, without bytes."""
    return RawItem(
        modality="text",
        role="document",
        ref=SourceRef(path=reading.path, member=label),
        sample_id=names.of(None, number),
        fault=fault,
    )


def with_bytes(item: RawItem, data: bytes) -> RawItem:
    """The row with the bytes of its record."""
    return item.replace(
        content=Content.of_bytes(data), content_type="application/json", extension="json", size_bytes=len(data)
    )
