"""Records in Arrow columns: which column holds media and which a text, and the rows that one record becomes.

The same code serves every columnar format. What each column is stands in `columnroles.py`.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff, texts, timed_text
from mmlake.formats.columnar.weights import weight_of
from mmlake.records import SourceRef, digest_of
from mmlake.sources.raw_items import Content, RawItem, first_field, licence_field, media_item, reader_of, text_item
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.fields import TextField
from mmlake.sources.settings import SourceSettings
from mmlake.sources.tables.columnroles import Columns

Locate = Callable[[str], SourceRef]  # column of a record, "" for the record itself -> its locator

_VIEWED_BYTES = 4 << 20  # a row of more stays in the arrays that it was decoded to
_INLINE_BYTES = 4096  # bytes of an unmapped binary cell that metadata keep; longer ones are named by digest


def cells_of(
    batch: pa.RecordBatch,
    columns: Columns | None = None,
    *,
    settings: SourceSettings,
    meter: Callable[[int], None] | None = None,
) -> Iterator[dict[str, Any] | Fault]:
    """The rows as Python values, some at a time. Faults of their own are rows whose cells have none (bytes in a text
    column, times beyond the calendar) and rows whose cells, those of media left out, would take twice the bytes that a
    line of JSON may have.

    meter: told before some rows are made how many bytes they will take; what it raises ends the iteration."""
    media = set(columns.media) if columns is not None else set()
    pending = [batch]
    while pending:
        part = pending.pop()
        weights = {name: weight_of(part.column(at)) for at, name in enumerate(part.schema.names)}
        if part.num_rows > 1 and sum(weights.values()) > settings.batch_bytes:
            half = part.num_rows // 2
            pending += [part.slice(half), part.slice(0, half)]
        elif (
            part.num_rows == 1
            and (size := sum(weight for name, weight in weights.items() if name not in media)) > settings.max_line_bytes
        ):
            yield Fault(1008, f"row_bytes={size} not in [0, {settings.max_line_bytes}] as values in memory")
        else:
            if meter is not None:
                meter(sum(weights.values()))
            yield from _values(part, media)
            del part


def _values(batch: pa.RecordBatch, media: Collection[str]) -> Iterator[dict[str, Any] | Fault]:
    try:
        if batch.num_rows == 1 and batch.nbytes > _VIEWED_BYTES:
            yield {
                name: (_viewed(column) if name in media else column.to_pylist())[0]
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
            return
        yield from batch.to_pylist()
        return
    except (ValueError, OverflowError, pa.ArrowException):
        pass  # one bad cell fails the whole batch: find it
    for at in range(batch.num_rows):
        try:
            yield batch.slice(at, 1).to_pylist()[0]
        except (ValueError, OverflowError, pa.ArrowException):
            yield Fault(1003, "a cell of the row has no value of its column's type")


def _viewed(array: pa.Array) -> list[Any]:
    """The values of an array of media, bytes as views of it: a film is not to be in memory once more, and a scalar
    of pyarrow is a copy."""
    kind, is_valid = array.type, array.is_valid().to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        _, ends, data = array.buffers()
        stops = (
            memoryview(ends)
            .cast("B")
            .cast("i" if pa.types.is_binary(kind) else "q")[array.offset : array.offset + len(array) + 1]
        )
        view = memoryview(data or b"").cast("B")
        return [view[stops[at] : stops[at + 1]] if valid else None for at, valid in enumerate(is_valid)]
    if pa.types.is_struct(kind) and len({field.name for field in kind}) == kind.num_fields:
        fields = {field.name: _viewed(array.field(at)) for at, field in enumerate(kind)}
        return [
            {name: values[at] for name, values in fields.items()} if valid else None
            for at, valid in enumerate(is_valid)
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = iter(_viewed(array.flatten()))
        return [
            None if length is None else list(islice(values, length)) for length in array.value_lengths().to_pylist()
        ]
    return list(array.to_pylist())


def items_of(
    fields: dict[str, Any], columns: Columns, *, sample_id: str, locate: Locate, settings: SourceSettings
) -> Iterator[RawItem]:
    """The rows of one record: media in the order of the columns, then texts, then what is wrong. A record without any
    is one row that says so.

    Where a list of texts stands beside a list of images, both are interleaved: their rows stand at their places in the
    lists, before all others.
    """
    record, faults = _record(fields, columns, settings)
    blank = RawItem(
        modality=columns.modalities[0],
        ref=locate(""),
        sample_id=sample_id,
        licence=licence_field({**record, **fields}, settings),
    )
    media = list(_media_of(fields, columns))
    present = {medium.modality for medium in media}
    readable, unreadable = _decoded(fields, columns, settings)
    own = record_fields.text_fields(
        {name: value for name, value in readable.items() if name in columns.texts}, present, settings=settings
    )
    inner = record_fields.text_fields(record, present, settings=settings)
    found = [
        *((field, field.pointer[1:]) for field in own),
        *((field, f"{columns.record}{field.pointer}") for field in inner),
    ]
    listed = (
        columns.listed_texts
        if columns.listed_texts is not None and isinstance(fields[columns.listed_texts], list)
        else None
    )
    # A guessed column whose cell holds no medium is metadata.
    taken = {name for name in columns.media if name not in columns.guessed or fields[name] is None} | {
        medium.column for medium in media
    }
    is_named = columns.listed_images is not None and isinstance(fields[columns.listed_images], list)
    parts, told = _parts(fields, columns, settings) if listed is not None or is_named else ([], set())
    metadata = metadata_of(
        fields,
        {
            *taken,
            *record_fields.taken(own),
            *unreadable,
            *told,
            *(name for name in (columns.record,) if name is not None),
        },
    )
    metadata.update(
        {name: rest for name in columns.media if name in taken and (rest := _beside_bytes(fields[name])) is not None}
    )
    blank.metadata = _merged(
        metadata, columns.record, timed_text.with_seconds(metadata_of(record, record_fields.taken(inner)))
    )
    inside = [
        medium
        for medium in media
        if listed is not None and medium.at is not None and medium.column == settings.images_field
    ]
    rows = [_media(blank.replace(ref=locate(medium.pointer)), medium) for medium in media if medium not in inside]
    rows.extend(
        text_item(blank.replace(ref=locate(column), own=field.own), field.text, field.role) for field, column in found
    )
    for name, fault in unreadable.items():
        content = Content.of_bytes(fields[name])
        rows.append(
            blank.replace(
                modality="text",
                role="document",
                ref=locate(name),
                content=content,
                size_bytes=len(fields[name]),
                fault=fault,
            )
        )
    rows.extend(_unexpected(fields, columns, blank, locate))
    held = {medium.pointer: medium for medium in inside}
    placed = [
        _media(item.replace(fault=None), held[part.pointer]) if part.pointer in held else item
        for part, item in interleaved.items_of_parts(parts, blank, locate=locate)
    ]
    if not rows and not placed and not faults:
        role = "document" if blank.modality == "text" else "media"
        rows.append(
            blank.replace(
                role=role,
                fault=Fault(
                    1003,
                    f"the cells of {sorted({*columns.media, *columns.texts, *([listed] if listed else [])})} "
                    "are all null",
                ),
            )
        )
    rows.extend(
        item.replace(sample_id=sample_id, ref=locate(column), licence=blank.licence, metadata=blank.metadata)
        for column, item in faults
    )
    yield from _in_order(placed, rows, [field for field, _ in found])


def _parts(
    fields: Mapping[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[list[interleaved.Part], set[str]]:
    """(the texts and images of an interleaved record, the columns that they are the whole of). Images whose bytes
    are there say nothing else."""
    said = {name: plain_of(value) for name, value in fields.items() if name not in columns.media}
    if columns.listed_texts is not None and said[columns.listed_texts] is None:
        said[columns.listed_texts] = []
    if isinstance(cell := fields.get(settings.images_field), list) and settings.images_field in columns.lists:
        said[settings.images_field] = [
            {} if _bytes_of(one) is not None else {"path": path} if (path := _path_of(one)) else None for one in cell
        ]
    return interleaved.parts_of(said, settings=settings), interleaved.used_lists(
        said, settings=settings
    ) - columns.media.keys()


def _in_order(placed: list[RawItem], rows: list[RawItem], found: list[TextField]) -> Iterator[RawItem]:
    """Those that have a place, then the others behind them, media with the texts that came beside them."""
    captions = [field.text for field in found if field.role == "caption"] or [field.text for field in found]
    transcripts = [field.text for field in found if field.role == "transcript"] or [field.text for field in found]
    behind = placed[-1].position + 1 if placed else 0
    for position, item in [*((item.position, item) for item in placed), *enumerate(rows, behind)]:
        beside = captions if item.modality == "image" else transcripts
        is_paired = item.role == "media" and item.fault is None
        readers = tuple(reader_of(text) for text in beside) if is_paired else ()
        yield item.replace(position=position, paired_texts=readers)


class _Medium(NamedTuple):
    """One medium in a cell."""

    column: str
    at: int | None  # in the cell's list; None where the cell is the medium
    modality: str
    data: bytes | memoryview
    path: str | None

    @property
    def pointer(self) -> str:
        """Where it stands in the record."""
        return self.column if self.at is None else f"{self.column}/{self.at}"


def _media_of(fields: Mapping[str, Any], columns: Columns) -> Iterator[_Medium]:
    """The media in the cells of the columns that hold some."""
    for name, modality in columns.media.items():
        cell = fields[name]
        elements = list(enumerate(cell or ())) if name in columns.lists else [(None, cell)]
        found = [
            _Medium(name, at, modality, data, _path_of(element))
            for at, element in elements
            if (data := _bytes_of(element)) is not None
        ]
        if name not in columns.guessed or any(_is_media(medium.data) for medium in found):
            yield from found


def _is_media(data: bytes | memoryview) -> bool:
    kind = sniff.kind_by_magic(bytes(data[: sniff.HEAD_BYTES]))
    return kind is not None and kind.modality not in (None, "text")


def _unexpected(fields: Mapping[str, Any], columns: Columns, blank: RawItem, locate: Locate) -> Iterator[RawItem]:
    """Media in cells of which nothing says that they hold some: metadata would keep no more than their digest."""
    for name in columns.other_bytes:
        for pointer, data in _leaves(fields[name], name):
            kind = sniff.kind_by_magic(data[: sniff.HEAD_BYTES], stream=Content.of_bytes(data).open)
            if kind is None or kind.modality in (None, "text"):
                continue
            content = Content.of_bytes(data)
            item = blank.replace(
                ref=locate(pointer),
                content=content,
                content_type=kind.content_type,
                extension=kind.extension,
                size_bytes=len(data),
            )
            if kind.modality in columns.modalities:
                yield media_item(item, kind, content)
            else:
                reason = (
                    f"the cell of {pointer} holds {kind.content_type}, which nothing says of its column; name it in "
                    f"sources.{kind.modality}_fields"
                )
                yield item.replace(role="document" if blank.modality == "text" else "media", fault=Fault(1005, reason))


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, bytes]]:
    """Every piece of bytes in a value, with its place."""
    if isinstance(value, bytes):
        yield pointer, value
    elif isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, f"{pointer}/{name}")
    elif isinstance(value, (list, tuple)):
        for at, child in enumerate(value):
            yield from _leaves(child, f"{pointer}/{at}")


def _record(
    fields: Mapping[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[dict[str, Any], list[tuple[str, RawItem]]]:
    """(the fields inside the record column, rows that tell what is wrong with it by column)."""
    if columns.record is None:
        return {}, []
    name, cell = columns.record, fields[columns.record]
    home = "text" if columns.record_texts else columns.modalities[0]
    blank = RawItem(modality=home, role="document" if home == "text" else "media", ref=SourceRef(path=""), sample_id="")
    faults = [
        (medium, blank.replace(modality=modality, role="media", fault=Fault(1003, f"the cell of {medium} is null")))
        for medium, modality in columns.media.items()
        if _bytes_of(fields[medium]) is None
    ]
    if cell is None:
        return {}, [*faults, (name, blank.replace(fault=Fault(1003, f"the cell of {name} is null")))]
    if not isinstance(cell, dict):
        data = cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")
        try:
            cell = texts.parse_object(data, settings=settings)
        except UnreadableItem as error:
            content = Content.of_bytes(data)
            return {}, [
                *faults,
                (
                    name,
                    blank.replace(
                        content=content,
                        content_type="application/json",
                        extension="json",
                        size_bytes=len(data),
                        fault=Fault.of(error),
                    ),
                ),
            ]
    column = first_field(cell, settings.timed_fields)
    spoken = timed_text.transcript_of(cell[column]) if column is not None else None
    if spoken is not None and spoken.broken and columns.record_texts:
        reason = (
            f"num_lines={len(spoken.broken)} of {spoken.num_cues + len(spoken.broken)} in {column} have no usable "
            f"times, not in [0, 0]: {spoken.reason}"
        )
        lines = text_item(blank, "\n".join(spoken.broken), "transcript")
        faults.append((f"{name}/{column}/lines", lines.replace(fault=lines.fault or Fault(1003, reason))))
    return cell, faults


def _merged(metadata: dict[str, Any], name: str | None, record: dict[str, Any]) -> dict[str, Any]:
    """Both as one; where a name stands in both, the record keeps to a field of its own."""
    if name is None or not record:
        return metadata
    return {**metadata, name: record} if metadata.keys() & record.keys() else {**record, **metadata}


def _bytes_of(cell: Any) -> bytes | memoryview | None:
    return cell.get("bytes") if isinstance(cell, dict) else cell


def _path_of(cell: Any) -> str | None:
    path = cell.get("path") if isinstance(cell, dict) else None
    return path if isinstance(path, str) and path else None


def _beside_bytes(cell: Any) -> Any:
    """What the metadata keep of a cell of media: the path and whatever else stands beside the bytes; None where
    nothing does."""
    if isinstance(cell, list):
        found = [_beside_bytes(element) for element in cell]
        return found if any(one is not None for one in found) else None
    return (
        {name: plain_of(value) for name, value in cell.items() if name != "bytes" and value not in (None, "")} or None
        if isinstance(cell, dict)
        else None
    )


def _decoded(
    fields: dict[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[dict[str, Any], dict[str, Fault]]:
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


def _media(item: RawItem, medium: _Medium) -> RawItem:
    data, modality, content = medium.data, medium.modality, Content.of_bytes(medium.data)
    item = item.replace(modality=modality, content=content, size_bytes=len(data))
    if not data:
        return item.replace(fault=Fault(1006, "size_bytes=0 not in [1, inf)"))
    kind = sniff.kind_by_magic(bytes(data[: sniff.HEAD_BYTES]), sniff.extension_of(medium.path or ""), content.open)
    if kind is None:
        return item
    if kind.modality == modality:
        return media_item(item, kind, content)
    return item.replace(
        content_type=kind.content_type,
        extension=kind.extension,
        fault=Fault(1003, f"the cell of a column of {modality} holds {kind.content_type}"),
    )


def metadata_of(fields: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """The other fields of a record that have a value, as JSON has them."""
    return {name: plain_of(value) for name, value in fields.items() if name not in used and value is not None}


def plain_of(value: Any) -> Any:
    """The value as JSON has it: times in ISO 8601, exact decimals as text, short bytes in base64 and long ones by
    digest."""
    if isinstance(value, dict):
        return {str(key): plain_of(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(child) for child in value]
    if isinstance(value, (bytes, memoryview)):
        return (
            {"base64": base64.b64encode(value).decode()}
            if len(value) <= _INLINE_BYTES
            else {"digest": digest_of(value), "size_bytes": len(value)}
        )
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    return (
        value
        if isinstance(value, (str, int, float, bool)) or value is None
        else str(value)
        if isinstance(value, decimal.Decimal)
        else repr(value)
    )
