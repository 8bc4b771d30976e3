"""JSON lines, plain or compressed: one text record per line. A bad line is a row with the line's bytes, never the end of the shard.

All rows are texts: a record's media, if it names any, lie elsewhere and are metadata here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef, digest_of
from mmlake.sources import fields as record_fields
from mmlake.sources import texts
from mmlake.sources.compression import MARK_BYTES, compression_of, expanded
from mmlake.sources.rows import Content, Fault, RawItem, Reading, first_field, licence_field, text_item

_ID_CHARS = 200  # longer ids are named by their digest


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the lines in order; blank lines are none. Where the stream breaks, a last row says so."""
    names = SampleNames(reading.key)
    number = 0
    try:
        with stream_of(reading) as stream:
            for number, line in enumerate(lines_of(stream, reading.settings.max_line_bytes), 1):
                yield from _rows(line, number, reading, names)
    except UnreadableItem as error:
        yield reading.fault(1001 if error.code == 1003 else error.code, f"{error.reason}; {number} lines were read", modality="text")
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
    """Each line without its end, or the size of one that is over the limit. Iterating raises what reading raises, after the whole lines."""
    while line := stream.readline(limit_bytes + 2):
        size, ended = len(line), line.endswith(b"\n")
        line = line.rstrip(b"\r\n")  # under the same name: the line would be held twice while its record is read
        if len(line) <= limit_bytes:
            yield line
            continue
        while not ended and (line := stream.readline(1 << 20)):
            size, ended = size + len(line), line.endswith(b"\n")
        yield size


def _rows(line: bytes | int, number: int, reading: Reading, names: SampleNames) -> Iterator[RawItem]:
    ref = SourceRef(path=reading.path, member=f"line:{number}")
    if isinstance(line, int):
        reason = f"line_bytes={line} not in [0, {reading.settings.max_line_bytes}]"
        yield RawItem(modality="text", role="document", ref=ref, sample_id=names.of(None, number), fault=Fault(1008, reason), size_bytes=line)
        return
    if not line.strip():
        return
    blank = RawItem(
        modality="text", role="document", ref=ref, sample_id="", content=Content.of_bytes(line), content_type="application/json", extension="json", size_bytes=len(line)
    )
    try:
        fields = texts.parse_object(line, settings=reading.settings)
    except UnreadableItem as error:
        yield _renamed(blank, names.of(None, number), Fault.of(error))
        return
    found = record_fields.text_fields(fields, (), settings=reading.settings)
    identity = first_field(fields, reading.settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    if not found:
        yield _renamed(blank, sample_id, Fault(1003, f"none of the fields {sorted(fields)[:12]} is a text field"))
        return
    metadata = record_fields.without(fields, {field.name for field in found})
    for position, field in enumerate(found):
        # The first text is the line's; a locator of another one says where in the record it stands.
        member = f"line:{number}#{field.pointer}" if position else f"line:{number}"
        own = SourceRef(path=reading.path, member=member)
        item = RawItem(modality="text", ref=own, sample_id=sample_id, position=position, metadata=metadata, licence=licence_field(fields, reading.settings))
        yield text_item(item, field.text, field.role)


def _renamed(item: RawItem, sample_id: str, fault: Fault) -> RawItem:
    return item.but(sample_id=sample_id, fault=fault)


class SampleNames:
    """Sample ids of records, unique in their shard: the record's own id, with the record's number behind it where it was seen before."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._seen: set[bytes] = set()

    def of(self, identity: object, number: int) -> str:
        """The id of the record with this number, counted from 1."""
        name = str(identity) if isinstance(identity, (str, int)) and not isinstance(identity, bool) and str(identity) else f"line:{number}"
        name = name.encode("utf-8", "backslashreplace").decode()
        if len(name) > _ID_CHARS:
            name = digest_of(name.encode())
        if not self._add(name):
            name = f"{name}~{number}"
            self._add(name)
        return f"{self._key}/{name}"

    def _add(self, name: str) -> bool:
        mark = bytes.fromhex(digest_of(name.encode())[:24])  # 12 bytes of the digest: a set of ten million ids stays under a gigabyte
        known = mark in self._seen
        self._seen.add(mark)
        return not known
