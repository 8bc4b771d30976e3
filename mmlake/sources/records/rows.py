"""From a record to its rows: every text of it, interleaved images at their places, or one row that says why it has
none."""

from __future__ import annotations

from collections.abc import Iterator

from mmlake.errors import Fault
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading, become_text
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.fields import first_field, licence_field
from mmlake.sources.records.lines import Line


def text_alone(reading: Reading) -> tuple[str, ...]:
    """The modalities of a file of records whose rows are all texts."""
    return ("text",)


def rows_of_line(line: Line, reading: Reading, names: SampleNames, *, image_home: str = "text") -> Iterator[RawItem]:
    """The rows of one record of a list. image_home: the modality whose table gets the images that a record lists among
    its texts."""
    if line.fault is None:  # no generator of its own, which every record would pay
        return _rows(line, reading, names, image_home)
    item = _row_of_fault(line.fault, line.name, reading.path, names.of(None, line.number))
    item.size_bytes = line.size_bytes
    return iter((item if line.data is None else with_bytes(item, line.data),))


def _rows(line: Line, reading: Reading, names: SampleNames, image_home: str) -> Iterator[RawItem]:
    fields, label, number = line.fields, line.name, line.number
    settings, path = reading.settings, reading.path
    found = record_fields.text_fields(fields, (), settings=settings)
    may_be_listed = not found or interleaved.is_listed(fields, settings=settings)
    parts = interleaved.parts_of(fields, settings=settings) if may_be_listed else []
    identity = first_field(fields, settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    if not found and not parts:
        fault = Fault(1003, f"none of the fields {sorted(fields)[:12]} is a text field")
        blank = _row_of_fault(fault, label, path, sample_id)
        yield with_bytes(blank, canonical_json(fields).encode() if line.data is None else line.data)
        return
    used, first = record_fields.taken(found), 0
    if parts:
        used |= interleaved.used_lists(fields, settings=settings)
    metadata, licence = record_fields.without(fields, used), licence_field(fields, settings)
    blank = RawItem("text", SourceRef(path, label), sample_id, metadata=metadata, licence=licence)
    if parts:

        def locate(pointer: str) -> SourceRef:
            return SourceRef(path, f"{label}#/{pointer}")

        yield from (item for _, item in interleaved.items_of_parts(parts, blank, locate=locate, image_home=image_home))
        first = parts[-1].position + 1
    for position, field in enumerate(found, first):
        # A text at the beginning is the record's; a locator of another one says where in the record it stands.
        ref = SourceRef(path, f"{label}#{field.pointer}") if position else blank.ref
        item = RawItem("text", ref, sample_id, position, metadata=metadata, own=field.own, licence=licence)
        yield become_text(item, field.text, field.role)


def _row_of_fault(fault: Fault, label: str, path: str, sample_id: str) -> RawItem:
    """The row of a record that says nothing, without bytes."""
    return RawItem(modality="text", role="document", ref=SourceRef(path, label), sample_id=sample_id, fault=fault)


def with_bytes(item: RawItem, data: bytes) -> RawItem:
    """The row with the bytes of its record."""
    return item.replace(
        content=Content.of_bytes(data), content_type="application/json", extension="json", size_bytes=len(data)
    )
