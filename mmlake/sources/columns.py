"""Records in Arrow columns: which column holds media and which a text, and the rows that one record becomes.

The same code serves every columnar format. Media cells are bytes, or the struct {bytes, path} of Hugging Face data sets; a column of
addresses is metadata.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mmlake.errors import UnreadableItem
from mmlake.records import SourceRef, digest_of
from mmlake.sources import fields as record_fields
from mmlake.sources import shard as shards
from mmlake.sources import sniff, texts, timed
from mmlake.sources.rows import Content, Fault, RawItem, first_field, licence_field, media_item, reader_of, text_item
from mmlake.sources.settings import SourceSettings
from mmlake.sources.weights import weight_of

Locate = Callable[[str], SourceRef]  # column of a record, "" for the record itself -> its locator

_INLINE_BYTES = 4096  # bytes of an unmapped binary cell that metadata keep; longer ones are named by digest


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold media and texts."""

    media: dict[str, str]  # column -> modality, in the file's order
    texts: frozenset[str]
    raw_texts: frozenset[str]  # those among them that are binary
    record: str | None = None  # the column that holds further fields of the row
    record_texts: bool = False  # whether texts may be among them

    @property
    def modalities(self) -> tuple[str, ...]:
        return shards.ordered([*self.media.values(), *(["text"] if self.texts or self.record_texts else [])])


def cells_of(batch: pa.RecordBatch, columns: Columns | None = None, *, settings: SourceSettings) -> Iterator[dict[str, Any] | Fault]:
    """The rows as Python values, some at a time. Faults of their own are rows whose cells have none (bytes in a text column, times beyond
    the calendar) and rows whose cells, those of media left out, would take twice the bytes that a line of JSON may have."""
    media = set(columns.media) if columns is not None else set()
    pending = [batch]
    while pending:
        part = pending.pop()
        weights = {name: weight_of(part.column(at)) for at, name in enumerate(part.schema.names)}
        if part.num_rows > 1 and sum(weights.values()) > settings.batch_bytes:
            half = part.num_rows // 2
            pending += [part.slice(half), part.slice(0, half)]
        elif part.num_rows == 1 and (size := sum(weight for name, weight in weights.items() if name not in media)) > settings.max_line_bytes:
            yield Fault(1008, f"row_bytes={size} not in [0, {settings.max_line_bytes}] as values in memory")
        else:
            yield from _values(part)
            del part


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Fault]:
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


def columns_of(schema: pa.Schema, settings: SourceSettings) -> Columns:
    """Which of the columns hold media and texts, by name and type."""
    media: dict[str, str] = {}
    for field in schema:
        for modality, wanted in (("image", settings.image_fields), ("video", settings.video_fields), ("audio", settings.audio_fields)):
            if field.name.lower() in {name.lower() for name in wanted} and _holds_bytes(field.type):
                media[field.name] = modality
    wanted_texts = {name.lower() for name in (*settings.text_fields, *settings.caption_fields, *settings.transcript_fields)}
    found = [field for field in schema if field.name.lower() in wanted_texts and (_is_text(field.type) or _is_binary(field.type) or _is_text_list(field.type))]
    raw = frozenset(field.name for field in found if _is_binary(field.type))
    record = next(
        (field for field in schema if field.name.lower() in settings.record_fields and (pa.types.is_struct(field.type) or _is_text(field.type) or _is_binary(field.type))), None
    )
    if record is None:
        return Columns(media, frozenset(field.name for field in found), raw)
    inner = {child.name.lower() for child in record.type} if pa.types.is_struct(record.type) else None
    return Columns(
        media, frozenset(field.name for field in found), raw, record.name, inner is None or bool(inner & (wanted_texts | {name.lower() for name in settings.timed_fields}))
    )


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


def items_of(fields: dict[str, Any], columns: Columns, *, sample_id: str, locate: Locate, settings: SourceSettings) -> Iterator[RawItem]:
    """The rows of one record: media in the order of the columns, then texts, then what is wrong. A record without any is one row that says so."""
    record, faults = _record(fields, columns, settings)
    blank = RawItem(modality=columns.modalities[0], ref=locate(""), sample_id=sample_id, licence=licence_field({**record, **fields}, settings))
    cells = {name: _bytes_of(fields[name]) for name in columns.media}
    present = {columns.media[name] for name, data in cells.items() if data is not None}
    readable, unreadable = _decoded(fields, columns, settings)
    own = record_fields.text_fields({name: value for name, value in readable.items() if name in columns.texts}, present, settings=settings)
    inner = record_fields.text_fields(record, present, settings=settings)
    found = [*((field, field.pointer[1:]) for field in own), *((field, f"{columns.record}{field.pointer}") for field in inner)]
    metadata = metadata_of(fields, {*cells, *(field.name for field in own), *unreadable, *([columns.record] if columns.record else [])})
    metadata.update({name: {"path": plain_of(fields[name]["path"])} for name in cells if isinstance(fields[name], dict) and fields[name].get("path")})
    metadata = _merged(metadata, columns.record, timed.with_seconds(metadata_of(record, {field.name for field in inner})))
    rows = [_media(blank.but(ref=locate(name), metadata=metadata), columns.media[name], data, fields[name]) for name, data in cells.items() if data is not None]
    for field, column in found:
        rows.append(text_item(blank.but(ref=locate(column), metadata=metadata), field.text, field.role))
    for name, fault in unreadable.items():
        content = Content.of_bytes(fields[name])
        rows.append(blank.but(modality="text", role="document", ref=locate(name), metadata=metadata, content=content, size_bytes=len(fields[name]), fault=fault))
    if not rows and not faults:
        role = "document" if blank.modality == "text" else "media"
        rows.append(blank.but(role=role, metadata=metadata, fault=Fault(1003, f"the cells of {sorted([*cells, *columns.texts])} are all null")))
    rows.extend(item.but(sample_id=sample_id, ref=locate(column), licence=blank.licence, metadata=metadata) for column, item in faults)
    captions = [field.text for field, _ in found if field.role == "caption"] or [field.text for field, _ in found]
    transcripts = [field.text for field, _ in found if field.role == "transcript"] or [field.text for field, _ in found]
    for position, item in enumerate(rows):
        beside = captions if item.modality == "image" else transcripts
        yield item.but(position=position, beside=tuple(reader_of(text) for text in beside) if item.role == "media" and item.fault is None else ())


def _record(fields: Mapping[str, Any], columns: Columns, settings: SourceSettings) -> tuple[dict[str, Any], list[tuple[str, RawItem]]]:
    """(the fields inside the record column, rows that tell what is wrong with it by column)."""
    if columns.record is None:
        return {}, []
    name, cell = columns.record, fields[columns.record]
    home = "text" if columns.record_texts else columns.modalities[0]
    blank = RawItem(modality=home, role="document" if home == "text" else "media", ref=SourceRef(path=""), sample_id="")
    faults = [
        (medium, blank.but(modality=modality, role="media", fault=Fault(1003, f"the cell of {medium} is null")))
        for medium, modality in columns.media.items()
        if _bytes_of(fields[medium]) is None
    ]
    if cell is None:
        return {}, [*faults, (name, blank.but(fault=Fault(1003, f"the cell of {name} is null")))]
    if not isinstance(cell, dict):
        data = cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")
        try:
            cell = texts.parse_object(data, settings=settings)
        except UnreadableItem as error:
            content = Content.of_bytes(data)
            return {}, [*faults, (name, blank.but(content=content, content_type="application/json", extension="json", size_bytes=len(data), fault=Fault.of(error)))]
    column = first_field(cell, settings.timed_fields)
    spoken = timed.transcript_of(cell[column]) if column is not None else None
    if spoken is not None and spoken.broken and columns.record_texts:
        reason = f"num_lines={len(spoken.broken)} of {spoken.num_cues + len(spoken.broken)} in {column} have no usable times, not in [0, 0]: {spoken.reason}"
        lines = text_item(blank, "\n".join(spoken.broken), "transcript")
        faults.append((f"{name}/{column}/lines", lines.but(fault=lines.fault or Fault(1003, reason))))
    return cell, faults


def _merged(metadata: dict[str, Any], name: str | None, record: dict[str, Any]) -> dict[str, Any]:
    """Both as one; where a name stands in both, the record keeps to a field of its own."""
    if name is None or not record:
        return metadata
    return {**metadata, name: record} if metadata.keys() & record.keys() else {**record, **metadata}


def _bytes_of(cell: Any) -> bytes | None:
    return cell.get("bytes") if isinstance(cell, dict) else cell


def _decoded(fields: dict[str, Any], columns: Columns, settings: SourceSettings) -> tuple[dict[str, Any], dict[str, Fault]]:
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
    path = cell.get("path") if isinstance(cell, dict) else None
    name = path if isinstance(path, str) else ""
    item = item.but(modality=modality, content=Content.of_bytes(data), size_bytes=len(data))
    if not data:
        return item.but(fault=Fault(1006, "size_bytes=0 not in [1, inf)"))
    kind = sniff.kind_by_magic(data[: sniff.HEAD_BYTES], sniff.extension_of(name), Content.of_bytes(data).open)
    if kind is None:
        return item
    if kind.modality == modality:
        return media_item(item, kind, Content.of_bytes(data))
    return item.but(content_type=kind.content_type, extension=kind.extension, fault=Fault(1003, f"the cell of a column of {modality} holds {kind.content_type}"))


def metadata_of(fields: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """The other fields of a record that have a value, as JSON has them."""
    return {name: plain_of(value) for name, value in fields.items() if name not in used and value is not None}


def plain_of(value: Any) -> Any:
    """The value as JSON has it: times in ISO 8601, exact decimals as text, short bytes in base64 and long ones by digest."""
    if isinstance(value, dict):
        return {str(key): plain_of(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(child) for child in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()} if len(value) <= _INLINE_BYTES else {"digest": digest_of(value), "size_bytes": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value) if isinstance(value, decimal.Decimal) else repr(value)
