"""From one record in Arrow columns to its rows, the same for every columnar format. What each column is stands in
`columns.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff, texts, timed_text
from mmlake.records import SourceRef
from mmlake.sources import raw_items
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import EMPTY, Content, RawItem, Reading, become_text, role_of
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.cells import Cells, metadata_of, plain_of
from mmlake.sources.records.columns import Columns
from mmlake.sources.records.fields import TextField, first_field, paired_role
from mmlake.sources.records.lines import with_bytes
from mmlake.sources.settings import SourceSettings

Locate = Callable[[str], SourceRef]  # column of a record, "" for the record itself -> its locator


def record_items(
    fields: Cells, number: int, reading: Reading, columns: Columns, names: SampleNames, *, version: str = ""
) -> Iterator[RawItem]:
    """The items of the row with this number. Rows are counted from 1, like lines of JSONL. version: before the number
    in locators."""
    member = f"{version}row:{number}"
    if isinstance(fields, Fault):
        yield reading.fault(fields.code, fields.reason, modality=columns.modalities[0], member=member)
        return

    def locate(column: str) -> SourceRef:
        return SourceRef(path=reading.path, member=f"{member}/{column}" if column else member)

    identity = first_field(fields, reading.settings.id_fields)
    sample_id = names.of(fields[identity] if identity else None, number)
    yield from items_of(fields, columns, sample_id=sample_id, locate=locate, settings=reading.settings)


def items_of(
    fields: dict[str, Any], columns: Columns, *, sample_id: str, locate: Locate, settings: SourceSettings
) -> Iterator[RawItem]:
    """The rows of one record: media in the order of the columns, then texts, then what is wrong. A record without any
    is one row that says so.

    Where a list of texts stands next to a list of images, both are interleaved: their rows stand at their places in
    the lists, before all others.
    """
    record, faults = _record(fields, columns, settings)
    media = list(_media_of(fields, columns))
    present = {medium.modality for medium in media}
    readable, unreadable = _decoded(fields, columns, settings)
    readable = {name: value for name, value in readable.items() if name in columns.texts}
    own = record_fields.text_fields(readable, present, settings=settings)
    inner = record_fields.text_fields(record, present, settings=settings)
    parts, listed = _parts(fields, columns, settings)
    metadata = _metadata(fields, columns, media, {*record_fields.taken(own), *unreadable, *listed})
    inner_metadata = timed_text.with_seconds(metadata_of(record, record_fields.taken(inner)))
    blank = RawItem(columns.modalities[0], locate(""), sample_id)
    blank.metadata = _merged(metadata, columns.record, inner_metadata)
    blank.licence = record_fields.licence_field({**record, **fields}, settings)
    placed_at = {part.pointer for part in parts}
    inside = {medium.pointer: medium for medium in media if medium.pointer in placed_at and medium.data is not None}
    rows = [_media(blank.replace(ref=locate(one.pointer)), one) for one in media if one.pointer not in placed_at]
    found = [*((one, one.pointer[1:]) for one in own), *((one, f"{columns.record}{one.pointer}") for one in inner)]
    rows += [become_text(blank.replace(ref=locate(at), own=field.own), field.text, field.role) for field, at in found]
    for name, fault in unreadable.items():
        content, size_bytes = Content.of_bytes(fields[name]), len(fields[name])
        item = blank.replace(modality="text", role="document", ref=locate(name), fault=fault)
        rows.append(item.replace(content=content, size_bytes=size_bytes))
    rows += _unexpected(fields, columns, blank, locate)
    placed = [
        _media(item.replace(fault=None), inside[part.pointer]) if part.pointer in inside else item
        for part, item in interleaved.items_of_parts(parts, blank, locate=locate)
    ]
    if not rows and not placed and not faults:
        rows.append(blank.replace(role=role_of(blank.modality), fault=_all_null(fields, columns)))
    rows += [
        item.replace(sample_id=sample_id, ref=locate(column), licence=blank.licence, metadata=blank.metadata)
        for column, item in faults
    ]
    yield from _in_order(placed, rows, [*own, *inner])


def _has_list(fields: Mapping[str, Any], name: str | None) -> bool:
    return name is not None and isinstance(fields[name], list)


def _all_null(fields: Mapping[str, Any], columns: Columns) -> Fault:
    listed = columns.listed_texts
    names = {*columns.media, *columns.texts, *([listed] if listed and isinstance(fields[listed], list) else [])}
    return Fault(1003, f"the cells of {sorted(names)} are all null")


def _parts(
    fields: Mapping[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[list[interleaved.Part], set[str]]:
    """(the texts and images of an interleaved record, the columns that they are the whole of). Images whose bytes
    are there say nothing else."""
    if not _has_list(fields, columns.listed_texts) and not _has_list(fields, columns.listed_images):
        return [], set()
    said = {name: plain_of(value) for name, value in fields.items() if name not in columns.media}
    if columns.listed_texts is not None and said[columns.listed_texts] is None:
        said[columns.listed_texts] = []
    if isinstance(cell := fields.get(settings.images_field), list) and settings.images_field in columns.lists:
        said[settings.images_field] = [
            {} if _bytes_of(one) is not None else {"path": path} if (path := _path_of(one)) else None for one in cell
        ]
    listed = interleaved.used_lists(said, settings=settings)
    return interleaved.parts_of(said, settings=settings), listed - columns.media.keys()


def _in_order(placed: list[RawItem], rows: list[RawItem], found: list[TextField]) -> Iterator[RawItem]:
    """Those that have a place, then the others behind them, media with the texts of their record."""
    for position, item in enumerate(rows, placed[-1].position + 1 if placed else 0):
        item.position = position
    return with_words([*placed, *rows], [(field.role, field.text) for field in found])


def with_words(rows: Sequence[RawItem], words: Sequence[tuple[str, str]]) -> Iterator[RawItem]:
    """The rows of one record, media with the texts that came with them: images with captions, others with transcripts,
    where there are such. words: role and text of each."""
    with_image = any(item.modality == "image" for item in rows)
    for item in rows:
        wanted = "caption" if item.modality == "image" else "transcript"
        chosen = [text for role, text in words if role == wanted] or [text for _, text in words]
        readers = tuple(map(raw_items.reader_of, chosen)) if item.role == "media" and item.fault is None else ()
        role = paired_role(item.modality == "image", with_image, (role for role, _ in words)) if readers else None
        yield item.replace(paired_texts=readers, paired_role=role)


class _Medium(NamedTuple):
    """One medium in a cell."""

    column: str
    at: int | None  # in the cell's list; None where the cell is the medium
    modality: str
    data: bytes | memoryview | None  # None where a path alone names it
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
            _Medium(name, at, modality, _bytes_of(element), _path_of(element))
            for at, element in elements
            if _bytes_of(element) is not None or _path_of(element)
        ]
        if name not in columns.guessed or any(_is_media(_kind_of(one)) for one in found):
            yield from found


def _kind_of(medium: _Medium) -> sniff.Kind | None:
    """What its first bytes say; of one without bytes, its name."""
    return sniff.kind_of(b"", medium.path or "") if medium.data is None else sniff.kind_by_magic(_head_of(medium.data))


def _head_of(data: bytes | memoryview) -> bytes:
    return bytes(data[: sniff.HEAD_BYTES])


def _is_media(kind: sniff.Kind | None) -> bool:
    return kind is not None and kind.modality not in (None, "text")


def _unexpected(fields: Mapping[str, Any], columns: Columns, blank: RawItem, locate: Locate) -> Iterator[RawItem]:
    """Media in cells of which nothing says that they hold some: metadata would keep no more than their digest."""
    for pointer, data in (one for name in columns.other_bytes for one in _leaves(fields[name], name)):
        content = Content.of_bytes(data)
        kind = sniff.kind_by_magic(_head_of(data), stream=content.open)
        if kind is None or not _is_media(kind):
            continue
        item = blank.replace(ref=locate(pointer), size_bytes=len(data), content=content)
        item.content_type, item.extension = kind.content_type, kind.extension
        if kind.modality in columns.modalities:
            item.modality = kind.modality
        else:
            reason = f"the cell of {pointer} holds {kind.content_type}, which nothing says of its column; name it in "
            item.role, item.fault = role_of(item.modality), Fault(1005, f"{reason}sources.{kind.modality}_fields")
        yield item


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, bytes]]:
    """Every piece of bytes in a value, with its place."""
    if isinstance(value, bytes):
        yield pointer, value
    elif isinstance(value, (dict, list, tuple)):
        for name, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(child, f"{pointer}/{name}")


def _record(
    fields: Mapping[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[dict[str, Any], list[tuple[str, RawItem]]]:
    """(the fields inside the record column, rows that say what is wrong with it by column)."""
    if columns.record is None:
        return {}, []
    name, cell = columns.record, fields[columns.record]
    home = "text" if columns.record_texts else columns.modalities[0]
    blank = RawItem(modality=home, role=role_of(home), ref=SourceRef(path=""), sample_id="")
    faults = [
        (medium, blank.replace(modality=modality, role="media", fault=Fault(1003, f"the cell of {medium} is null")))
        for medium, modality in columns.media.items()
        if _bytes_of(fields[medium]) is None and not _path_of(fields[medium])
    ]
    if cell is None:
        return {}, [*faults, (name, blank.replace(fault=Fault(1003, f"the cell of {name} is null")))]
    if not isinstance(cell, dict):
        data = cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogatepass")
        try:
            cell = texts.parse_object(data, settings=settings)
        except UnreadableItem as error:
            return {}, [*faults, (name, with_bytes(blank.replace(fault=Fault.of(error)), data))]
    column = first_field(cell, settings.timed_fields)
    spoken = timed_text.transcript_of(cell[column]) if column is not None else None
    if spoken is not None and spoken.broken and columns.record_texts:
        reason = (
            f"num_lines={len(spoken.broken)} of {spoken.num_cues + len(spoken.broken)} in {column} have no usable "
            f"times, not in [0, 0]: {spoken.reason}"
        )
        lines = become_text(blank.replace(), "\n".join(spoken.broken), "transcript")
        faults.append((f"{name}/{column}/lines", lines.replace(fault=lines.fault or Fault(1003, reason))))
    return cell, faults


def _metadata(fields: Mapping[str, Any], columns: Columns, media: list[_Medium], used: set[str]) -> dict[str, Any]:
    """The fields that no row is the whole of, and what stands next to the bytes of media. A guessed column whose cell
    holds no medium is metadata."""
    taken = {name for name in columns.media if name not in columns.guessed or fields[name] is None}
    taken |= {medium.column for medium in media}
    metadata = metadata_of(fields, {*taken, *used, columns.record})
    for name in columns.media:
        if name in taken and (rest := _without_bytes(fields[name])) is not None:
            metadata[name] = rest
    return metadata


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


def _without_bytes(cell: Any) -> Any:
    """What the metadata keep of a cell of media: the path and whatever else stands next to the bytes; None where
    nothing does."""
    if isinstance(cell, list):
        found = [_without_bytes(element) for element in cell]
        return found if any(one is not None for one in found) else None
    if not isinstance(cell, dict):
        return None
    return {
        name: plain_of(value) for name, value in cell.items() if name != "bytes" and value not in (None, "")
    } or None


def _decoded(
    fields: dict[str, Any], columns: Columns, settings: SourceSettings
) -> tuple[dict[str, Any], dict[str, Fault]]:
    """(the row with its binary texts decoded, why those that are no text are not)."""
    readable, broken = dict(fields), {}
    for name in columns.raw_texts:
        if isinstance(fields[name], bytes):
            try:
                readable[name] = texts.decode_text(fields[name], min_confidence=settings.min_charset_confidence)[0]
            except UnreadableItem as error:
                broken[name] = Fault.of(error)
                del readable[name]
    return readable, broken


def _media(item: RawItem, medium: _Medium) -> RawItem:
    data, modality = medium.data, medium.modality
    if data is None:
        reason = (
            f"the cell of {medium.column} names {texts.printable(medium.path or '')[:200]} and has none of its bytes"
        )
        return item.replace(modality=modality, role=role_of(modality), fault=Fault(1011, reason))
    content = Content.of_bytes(data)
    item = item.replace(modality=modality, content=content, size_bytes=len(data))
    if not data:
        item.fault = EMPTY
    elif (kind := sniff.kind_by_magic(_head_of(data), sniff.extension_of(medium.path or ""), content.open)) is not None:
        item.content_type, item.extension = kind.content_type, kind.extension
        if kind.modality != modality:
            item.fault = Fault(1003, f"the cell of a column of {modality} holds {kind.content_type}")
    return item
