"""Parquet files, one batch of rows at a time, page checksums verified. Which column is what is told by name and type.

A row group that cannot be read is one row that says so, and the next group is read. Media cells are bytes, or the struct
{bytes, path} of Hugging Face data sets; a column of addresses is metadata.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef, digest_of
from mmlake.sources import fields as record_fields
from mmlake.sources import shard as shards
from mmlake.sources import sniff, texts
from mmlake.sources.jsonl import SampleNames
from mmlake.sources.rows import Content, Fault, RawItem, Reading, first_field, licence_field, media_item, reader_of, text_item
from mmlake.sources.settings import SourceSettings

_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)  # pyarrow's ways to say that a file is damaged
_INLINE_BYTES = 4096  # bytes of an unmapped binary cell that metadata keep; longer ones are named by digest


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns hold media and texts."""

    media: dict[str, str]  # column -> modality, in the file's order
    texts: frozenset[str]
    raw_texts: frozenset[str]  # those among them that are binary

    @property
    def modalities(self) -> tuple[str, ...]:
        return shards.ordered([*self.media.values(), *(["text"] if self.texts else [])])


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the file does not open."""
    try:
        with reading.open() as file:
            return _columns(pq.ParquetFile(file).schema_arrow, reading.settings).modalities or (reading.hint or "text",)
    except (UnreadableItem, *_BROKEN):
        return (reading.hint or "text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the file in order; within a row media in the order of the columns, then texts."""
    home = reading.hint or "text"
    with reading.open() as stream:
        if not stream.read(1):
            yield reading.fault(1006, "size_bytes=0 not in [1, inf)", modality=home, content=Content(reading.open))
            return
        stream.seek(0)
        try:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            columns = _columns(file.schema_arrow, reading.settings)
        except _BROKEN:
            yield reading.fault(1001, "the footer of the Parquet file cannot be read", modality=home)
            return
        if not columns.modalities:
            yield reading.fault(1003, f"none of the columns {file.schema_arrow.names[:12]} holds a text, image, video or audio", modality=home)
            return
        names, first = SampleNames(reading.key), 0
        for group in range(file.num_row_groups):
            num_rows = file.metadata.row_group(group).num_rows
            yield from _group(file, group, first, reading, columns, names)
            first += num_rows


def _group(file: pq.ParquetFile, group: int, first: int, reading: Reading, columns: _Columns, names: SampleNames) -> Iterator[RawItem]:
    about = file.metadata.row_group(group)
    batch_rows = max(1, min(1024, reading.settings.batch_bytes * about.num_rows // max(1, about.total_byte_size)))
    number, broken = first, None
    try:
        for batch in file.iter_batches(batch_size=batch_rows, row_groups=[group]):
            for fields in _cells(batch):
                number += 1
                if isinstance(fields, Fault):
                    yield reading.fault(fields.code, fields.reason, modality=columns.modalities[0], member=f"row:{number}")
                else:
                    yield from _row(fields, number, reading, columns, names)
    except _BROKEN:
        broken = f"row group {group} of {file.num_row_groups}: rows {number + 1} to {first + about.num_rows} cannot be read, or fail their checksum"
    if broken is None and number != first + about.num_rows:
        broken = f"row group {group} of {file.num_row_groups} has {number - first} rows, its footer says {about.num_rows}"
    if broken is not None:
        yield reading.fault(1001, broken, modality=columns.modalities[0], member=f"group:{group}")


def _cells(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Fault]:
    """The rows as Python values; a row whose cells have none (bytes in a text column, times beyond the calendar) is a fault of its own."""
    try:
        yield from batch.to_pylist()
        return
    except (ValueError, OverflowError, pa.ArrowException):
        pass  # one bad cell fails the whole batch: find it
    for at in range(batch.num_rows):
        try:
            yield batch.slice(at, 1).to_pylist()[0]
        except (ValueError, OverflowError, pa.ArrowException):
            yield Fault(1003, "a cell of the row has no value of its column's type")


def _columns(schema: pa.Schema, settings: SourceSettings) -> _Columns:
    media: dict[str, str] = {}
    for field in schema:
        for modality, wanted in (("image", settings.image_fields), ("video", settings.video_fields), ("audio", settings.audio_fields)):
            if field.name.lower() in {name.lower() for name in wanted} and _holds_bytes(field.type):
                media[field.name] = modality
    wanted_texts = {name.lower() for name in (*settings.text_fields, *settings.caption_fields, *settings.transcript_fields)}
    found = [field for field in schema if field.name.lower() in wanted_texts and (_is_text(field.type) or _is_binary(field.type) or _is_text_list(field.type))]
    return _Columns(media, frozenset(field.name for field in found), frozenset(field.name for field in found if _is_binary(field.type)))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_text_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind))


def _holds_bytes(kind: pa.DataType) -> bool:
    return _is_binary(kind) or (pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 and _is_binary(kind.field("bytes").type))


def _row(fields: dict[str, Any], number: int, reading: Reading, columns: _Columns, names: SampleNames) -> Iterator[RawItem]:
    settings = reading.settings
    identity = first_field(fields, settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    blank = RawItem(modality=columns.modalities[0], ref=_ref(reading, number, ""), sample_id=sample_id, licence=licence_field(fields, settings))
    cells = {name: _bytes_of(fields[name]) for name in columns.media}
    present = {columns.media[name] for name, data in cells.items() if data is not None}
    readable, unreadable = _decoded(fields, columns, settings)
    found = record_fields.text_fields({name: value for name, value in readable.items() if name in columns.texts}, present, settings=settings)
    metadata = _metadata(fields, {*cells, *(field.name for field in found), *unreadable})
    metadata.update({name: {"path": fields[name]["path"]} for name in cells if isinstance(fields[name], dict) and fields[name].get("path")})
    rows = [_media(replace(blank, ref=_ref(reading, number, name), metadata=metadata), columns.media[name], data, fields[name]) for name, data in cells.items() if data is not None]
    for field in found:
        item = replace(blank, ref=_ref(reading, number, field.pointer[1:]), metadata=metadata)
        rows.append(text_item(item, field.text, field.role))
    for name, fault in unreadable.items():
        content = Content.of_bytes(fields[name])
        rows.append(
            replace(blank, modality="text", role="document", ref=_ref(reading, number, name), metadata=metadata, content=content, size_bytes=len(fields[name]), fault=fault)
        )
    if not rows:
        role = "document" if blank.modality == "text" else "media"
        rows.append(replace(blank, role=role, metadata=metadata, fault=Fault(1003, f"the cells of {sorted([*cells, *columns.texts])} are all null")))
    captions = [field.text for field in found if field.role == "caption"] or [field.text for field in found]
    transcripts = [field.text for field in found if field.role == "transcript"] or [field.text for field in found]
    for position, item in enumerate(rows):
        beside = captions if item.modality == "image" else transcripts
        yield replace(item, position=position, beside=tuple(reader_of(text) for text in beside) if item.role == "media" and item.fault is None else ())


def _ref(reading: Reading, number: int, column: str) -> SourceRef:
    """Rows are counted from 1, like lines of JSONL."""
    return SourceRef(path=reading.path, member=f"row:{number}/{column}" if column else f"row:{number}")


def _bytes_of(cell: Any) -> bytes | None:
    return cell.get("bytes") if isinstance(cell, dict) else cell


def _decoded(fields: dict[str, Any], columns: _Columns, settings: SourceSettings) -> tuple[dict[str, Any], dict[str, Fault]]:
    """(the row with its binary texts decoded, why those that are no text are not)."""
    readable, broken = dict(fields), {}
    for name in columns.raw_texts:
        if isinstance(fields[name], bytes):
            try:
                readable[name] = texts.decode_text(fields[name], settings=settings)[0]
            except UnreadableItem as error:
                broken[name] = Fault.of(error)
                del readable[name]
    return readable, broken


def _media(item: RawItem, modality: str, data: bytes, cell: Any) -> RawItem:
    name = str(cell.get("path") or "") if isinstance(cell, dict) else ""
    item = replace(item, modality=modality, content=Content.of_bytes(data), size_bytes=len(data))
    if not data:
        return replace(item, fault=Fault(1006, "size_bytes=0 not in [1, inf)"))
    kind = sniff.kind_by_magic(data[: sniff.HEAD_BYTES], sniff.extension_of(name), Content.of_bytes(data).open)
    if kind is None:
        return item
    if kind.modality == modality:
        return media_item(item, kind, Content.of_bytes(data))
    return replace(item, content_type=kind.content_type, extension=kind.extension, fault=Fault(1003, f"the cell of a column of {modality} holds {kind.content_type}"))


def _metadata(fields: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in fields.items() if name not in used and value is not None}


def _plain(value: Any) -> Any:
    """The value as JSON has it: times in ISO 8601, exact decimals as text, short bytes in base64 and long ones by digest."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()} if len(value) <= _INLINE_BYTES else {"digest": digest_of(value), "size_bytes": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value) if isinstance(value, decimal.Decimal) else repr(value)
