"""Shards as interleaved rows: what a source holds, sample by sample, in batches of a bounded size.

Enters: shards of a landing zone, of every connector. Leaves: `RowBatch`es with one row per text and medium in its
order, and a row at position -1 with the fields of the whole sample. No sample is in two batches. Memory holds one batch
and one sample.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from mmlake import sources
from mmlake.errors import Fault, UnreadableItem
from mmlake.landing import Landing, as_landing
from mmlake.preprocess import PreprocessSettings
from mmlake.records import SourceRef
from mmlake.rows.batch import Conflict, RowBatch
from mmlake.rows.identity import stem_of
from mmlake.rows.image_frames import Frames
from mmlake.rows.passthrough import Fields, Passthrough, json_text
from mmlake.rows.schema import METADATA, METADATA_POSITION, SCHEMA
from mmlake.sources.licences import spdx_licence
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.records.interleaved import as_list

# of texts, media that were read, and metadata: twice that in memory while a batch is made; larger ones are slower,
# since memory is fresh
MAX_BATCH_BYTES = 64 << 20
_ROW_BYTES = 256  # what a row takes besides its texts and bytes
_FILLED = {  # the columns that are made here, and where their cell stands in a row; no source fills the others
    name: at
    for at, name in enumerate(
        (
            "sample_id",
            "position",
            "modality",
            "content_type",
            "text_content",
            "binary_content",
            "source_ref",
            "materialize_error",
        )
        + ("item_id", "role", "source", "licence", "size_bytes", "metadata_json", "status", "error_code")
    )
}
_ALSO_COLUMNS = ("licence", "sample_id")  # fields of records that may say what a reserved column says
_NOTES = ("duplicate_member", "charset")  # what the sources note of a row: metadata, never columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """What the caller asked for."""

    settings: sources.SourceSettings
    decoding: PreprocessSettings
    per_row: tuple[str, ...]  # the fields that are spread over rows
    with_bytes: bool
    strict_lists: bool


def read_rows(
    shards: sources.Shard | Sequence[sources.Shard],
    *,
    landing: Landing | str | os.PathLike[str],
    settings: sources.SourceSettings | None = None,
    fields: Fields = None,
    per_image_fields: Sequence[str] = (),
    per_text_fields: Sequence[str] = (),
    materialize: Literal["never", "read"] = "never",
    max_batch_bytes: int | None = MAX_BATCH_BYTES,
    decoding: PreprocessSettings | None = None,
    not_a_list: Literal["raise", "report"] = "raise",
) -> Iterator[RowBatch]:
    """The rows of the shards, at least one batch; that of shards without rows is empty and has the columns that were
    asked for.

    fields: those of the records that become columns, or the columns by field; None: all. per_image_fields,
    per_text_fields: lists whose values go to the rows of the images or texts. materialize: "read" fills the bytes of
    media, "never" leaves them to `materialize`.
    max_batch_bytes: None for one batch. not_a_list: "report" keeps such a field on the metadata row and gives the
    sample a row that says so. Raises ValueError for a field with a reserved name, TypeError for a list field that is no
    list.
    """
    given = settings or sources.SourceSettings()
    given = replace(
        given,
        per_image_fields=tuple(per_image_fields) or given.per_image_fields,
        per_text_fields=tuple(per_text_fields) or given.per_text_fields,
    )
    per_row = (*given.per_image_fields, *given.per_text_fields)
    options = _Options(
        settings=given,
        decoding=decoding or PreprocessSettings(),
        per_row=per_row,
        with_bytes=materialize == "read",
        strict_lists=not_a_list == "raise",
    )
    chosen = [shards] if isinstance(shards, sources.Shard) else list(shards)
    if max_batch_bytes is not None and max_batch_bytes <= 0:
        raise ValueError(f"max_batch_bytes={max_batch_bytes} must be above 0, or None for one batch")
    passthrough = Passthrough(fields, always=per_row)  # before the first batch is taken: a wrong name raises at once
    return _batches(chosen, as_landing(landing), options, passthrough, max_batch_bytes)


def _batches(
    shards: list[sources.Shard], landing: Landing, options: _Options, passthrough: Passthrough, max_bytes: int | None
) -> Iterator[RowBatch]:
    base = shards[0].key if len(shards) == 1 else "rows"
    pending, num_splits = _Pending(passthrough), 0
    seen: set[str] = set()
    parsed = ParsedFiles()  # shards that one file describes share what is parsed of it
    for shard in shards:
        for sample in _samples(shard, landing, options, seen, parsed):
            if pending.num_rows and max_bytes is not None and pending.num_bytes + sample.num_bytes > max_bytes:
                num_splits += 1
                yield pending.take(f"{base}::split_{num_splits:04d}")
            pending.add(sample)
    for name in (name for name in options.per_row if name not in seen):
        _log.warning("the field %r, which was to be spread over rows, is in no sample", name)
    if pending.num_rows or not num_splits:
        yield pending.take(f"{base}::split_{num_splits + 1:04d}" if num_splits else base)


class _Pending:
    """The rows of the batch that is being made."""

    def __init__(self, passthrough: Passthrough) -> None:
        self._passthrough = passthrough
        self._clear()

    def _clear(self) -> None:
        # One flat list: a hundred thousand rows that live until the batch is made cost more in garbage collection than
        # all the rest.
        self._cells: list[Any] = []
        self.num_rows = self.num_bytes = 0
        self._paths: dict[str, None] = {}
        self._conflicts: list[Conflict] = []

    def add(self, sample: _Sample) -> None:
        for row, fields in sample.fields:
            self._passthrough.add(fields, sample.sample_id, row=self.num_rows + row)
        self._cells += sample.cells
        self._paths |= sample.paths
        self._conflicts += sample.conflicts
        self.num_rows += len(sample.cells) // len(_FILLED)
        self.num_bytes += sample.num_bytes

    def take(self, name: str) -> RowBatch:
        columns, conflicts = self._passthrough.take(self.num_rows)
        arrays = []
        for field in SCHEMA:
            at = _FILLED.get(field.name)
            arrays.append(
                pa.nulls(self.num_rows, field.type)
                if at is None
                else pa.array(self._cells[at :: len(_FILLED)], field.type)
            )
        fields = [pa.field(column, values.type) for column, values in columns.items()]
        table = pa.Table.from_arrays(
            [*arrays, *columns.values()], schema=pa.schema([*SCHEMA, *fields], metadata=SCHEMA.metadata)
        )
        batch = RowBatch(table, tuple(self._paths), name, (*self._conflicts, *conflicts))
        self._clear()
        return batch


class _Origin:
    """What the samples of one directory of a shard have in common."""

    def __init__(self, key: str, options: _Options, seen: set[str]) -> None:
        """key: of the shard. seen: the fields for rows that samples had."""
        self.key, self.options, self.seen, self.settings = key, options, seen, options.settings
        self.home = self.source = self.licence = ""
        self._locator = "", ""  # of the file that was asked for last

    def begin(self, reading: sources.Reading) -> None:
        """The next samples come from there."""
        self.home, self.source, self.licence = reading.key, reading.defaults.source, reading.defaults.licence

    def locator_of(self, path: str) -> str:
        """The locator of a whole file."""
        if path != self._locator[0]:
            self._locator = path, SourceRef(path).to_json()
        return self._locator[1]


def _samples(
    shard: sources.Shard, landing: Landing, options: _Options, seen: set[str], parsed: ParsedFiles
) -> Iterator[_Sample]:
    origin, sample = _Origin(shard.key, options, seen), None
    for item in sources.read(shard, landing=landing, settings=options.settings, parsed=parsed, begin=origin.begin):
        if sample is None or sample.sample_id != item.sample_id:
            if sample is not None:
                yield sample
            sample = _Sample(item, origin)
        sample.add(item)
    if sample is not None:
        yield sample


class _Sample:
    """The rows of one sample, the row of its fields first where it has any. Bytes are read as its items come, since
    they can be read at no later time."""

    __slots__ = ("_frames", "_metadata", "_origin", "cells", "conflicts", "fields", "num_bytes", "paths", "sample_id")

    def __init__(self, first: sources.RawItem, origin: _Origin) -> None:
        """first: the sample's first item, which has the metadata of the whole sample."""
        self.sample_id, metadata = first.sample_id, first.metadata
        self.cells: list[Any] = []  # those of `_FILLED`, row by row
        self.fields: list[tuple[int, Mapping[str, Any]]] = []  # passthrough, of the rows that have any
        self.conflicts: list[Conflict] = []
        self.paths: dict[str, None] = {}
        self.num_bytes = 0  # what the rows take in memory, roughly
        self._metadata, self._origin = metadata, origin
        self._frames: tuple[SourceRef, bytes, Frames] | None = None
        if metadata:
            self._check_lists()
            self._add_fields(first.licence, first.ref.path)

    def _check_lists(self) -> None:
        options = self._origin.options
        for name in options.per_row:
            value = self._metadata.get(name)
            if value is not None:
                self._origin.seen.add(name)
            if value is not None and as_list(value) is None:
                reason = f"the field {name!r} is of type {type(value).__name__}, expected a list with one value per row"
                if options.strict_lists:
                    raise TypeError(
                        f'sample {self.sample_id}: {reason}; correct the record, or read with not_a_list="report"'
                    )
                self.conflicts.append(Conflict(name, self.sample_id, reason))

    def _add_fields(self, licence: str | None, path: str) -> None:
        """The row of what the record says of the whole sample."""
        metadata, source = self._metadata, self._origin.source
        said, ref = json_text(metadata), self._origin.locator_of(path)
        self.cells += (self.sample_id, METADATA_POSITION, METADATA, "application/json", None, None, ref, None)
        licence_id = self._origin.licence if licence is None else spdx_licence(licence)
        self.cells += (None, None, source, licence_id, None, said, "ok", None)
        if "licence" in metadata or "sample_id" in metadata:
            metadata = {
                name: value
                for name, value in metadata.items()
                if name not in _ALSO_COLUMNS or not self._is_column(name, value, licence)
            }
        self.fields.append((0, metadata))
        self.num_bytes += _ROW_BYTES + len(said) + len(ref)

    def _is_column(self, name: str, value: Any, licence: str | None) -> bool:
        """Whether a reserved column says the same as this field of the record, as in every tar that this library
        wrote."""
        if name == "licence":
            return licence is not None and spdx_licence(value) == spdx_licence(licence)
        return (
            name == "sample_id"
            and isinstance(value, str)
            and self.sample_id in (value, f"{self._origin.home}/{stem_of(value)}")
        )

    def add(self, item: sources.RawItem) -> None:
        """One more row."""
        origin, modality, content = self._origin, item.modality, item.content
        data = reason = said = code = None
        own = item.own if item.metadata is self._metadata else self._beyond_first(item)
        if own:
            self._note(item)
        if item.fault is None and content is not None:
            try:
                if modality == "text":
                    item.read_text(origin.settings)
                elif origin.options.with_bytes:
                    data, reason = self._read(item, content)
            except UnreadableItem as error:
                item.fault = Fault.of(error)
        status, text, ref = "ok", item.text, item.ref.to_json()
        if item.fault is not None:
            status, code, reason = "unreadable", item.fault.code, item.fault.reason
        elif item.charset is not None and text is not None:
            own = {**own, "charset": item.charset}
        num_bytes = _ROW_BYTES + len(ref)
        if text is not None:
            num_bytes += len(text)
        if data is not None:
            num_bytes += len(data)
        if own:
            said = json_text(own)
            num_bytes += len(said)
            row = len(self.cells) // len(_FILLED)
            self.fields.append((row, {name: value for name, value in own.items() if name not in _NOTES}))
        self.num_bytes += num_bytes
        self.paths[item.ref.path] = None
        self.cells += (
            self.sample_id, item.position, modality, item.content_type, text, data, ref, reason,
            f"{origin.key}#{item.ordinal:06d}", item.role, origin.source,
            origin.licence if item.licence is None else spdx_licence(item.licence),
            item.size_bytes, said, status, code,
        )  # fmt: skip

    def _read(self, item: sources.RawItem, content: sources.Content) -> tuple[bytes, str | None]:
        """(the bytes of a medium, or of the frame that its locator picks; why they are those of the whole picture
        although it picks one). Raises UnreadableItem."""
        place = _without_frame(item.ref)
        opened = self._frames if self._frames is not None and self._frames[0] == place else None
        max_bytes = self._origin.settings.max_item_bytes
        data = opened[1] if opened is not None else content.whole(max_bytes, item.size_bytes)
        item.size_bytes = len(data)
        if not data:
            raise UnreadableItem(1006, "size_bytes=0 not in [1, inf)")
        if item.ref.frame_index is None:
            return data, None
        if opened is None:
            self._frames = opened = (place, data, Frames(data, settings=self._origin.options.decoding))
        try:
            return opened[2].pick(item.ref.frame_index), None
        except UnreadableItem as error:
            return data, error.reason

    def _beyond_first(self, item: sources.RawItem) -> dict[str, Any]:
        """What the item says more than the row of the sample's fields, or otherwise: it keeps that to itself."""
        first = self._metadata
        return {
            name: value for name, value in item.metadata.items() if name not in first or first[name] != value
        } | dict(item.own)

    def _note(self, item: sources.RawItem) -> None:
        self._origin.seen.update(name for name, value in item.own.items() if value is not None)
        if item.own.get("duplicate_member"):
            self.conflicts.append(
                Conflict(
                    "duplicate_member",
                    self.sample_id,
                    f"1009: the archive has the member {item.ref.member} more than once",
                )
            )


def _without_frame(ref: SourceRef) -> SourceRef:
    return ref if ref.frame_index is None else ref._replace(frame_index=None)
