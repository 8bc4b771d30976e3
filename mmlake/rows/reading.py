"""Shards as interleaved rows: what a source holds, sample by sample, in batches of a bounded size.

Enters: shards of a landing zone, of every connector. Leaves: `RowBatch`es with one row per text and medium in its order, and a row at
position -1 with the fields of the whole sample. No sample is in two batches. Memory holds one batch and one sample.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.landing import Landing, as_landing
from mmlake.preprocess import PreprocessSettings
from mmlake.records import SourceRef
from mmlake.rows.batch import Conflict, RowBatch
from mmlake.rows.frames import Frames
from mmlake.rows.identity import stem_of
from mmlake.rows.passthrough import Fields, Passthrough, json_text
from mmlake.rows.schema import METADATA, METADATA_POSITION, SCHEMA
from mmlake.sources import texts
from mmlake.sources.defaults import Defaults, defaults_of
from mmlake.sources.licences import spdx_licence

MAX_BATCH_BYTES = 64 << 20  # of texts, media that were read, and metadata: twice that in memory while a batch is made; larger ones are slower, since memory is fresh
_ROW_BYTES = 256  # what a row takes beside its texts and bytes
_RESERVED_TYPES = tuple((field.name, field.type) for field in SCHEMA)
_NOTES = ("duplicate_member", "charset")  # what the sources note of a row: metadata, never columns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wish:
    """How the rows are wanted."""

    settings: sources.SourceSettings
    decoding: PreprocessSettings
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
    """The rows of the shards, at least one batch; that of shards without rows is empty and has the columns that were asked for.

    fields: those of the records that become columns, or the columns by field; None: all. per_image_fields, per_text_fields: lists whose
    values go to the rows of the images or texts. materialize: "read" fills the bytes of media, "never" leaves them to `materialize`.
    max_batch_bytes: None for one batch. not_a_list: "report" keeps such a field on the metadata row and gives the sample a row that
    says so. Raises ValueError for a field with a reserved name, TypeError for a list field that is no list.
    """
    given = settings or sources.SourceSettings()
    given = replace(given, per_image_fields=tuple(per_image_fields) or given.per_image_fields, per_text_fields=tuple(per_text_fields) or given.per_text_fields)
    per_row = (*given.per_image_fields, *given.per_text_fields)
    wish = _Wish(settings=given, decoding=decoding or PreprocessSettings(), with_bytes=materialize == "read", strict_lists=not_a_list == "raise")
    chosen = [shards] if isinstance(shards, sources.Shard) else list(shards)
    if max_batch_bytes is not None and max_batch_bytes <= 0:
        raise ValueError(f"max_batch_bytes={max_batch_bytes} must be above 0, or None for one batch")
    passthrough = Passthrough(fields, always=per_row)  # before the first batch is taken: a wrong name is told at once
    return _batches(chosen, as_landing(landing), wish, passthrough, max_batch_bytes)


def _batches(shards: list[sources.Shard], landing: Landing, wish: _Wish, passthrough: Passthrough, max_bytes: int | None) -> Iterator[RowBatch]:
    base = shards[0].key if len(shards) == 1 else "rows"
    pending, num_splits = _Pending(passthrough), 0
    seen: set[str] = set()
    for shard in shards:
        for sample in _samples(shard, landing, wish, seen):
            if pending.num_rows and max_bytes is not None and pending.num_bytes + sample.num_bytes > max_bytes:
                num_splits += 1
                yield pending.take(f"{base}::split_{num_splits:04d}")
            pending.add(sample)
    for name in (name for name in (*wish.settings.per_image_fields, *wish.settings.per_text_fields) if name not in seen):
        _log.warning("the field %r, which was to be spread over rows, is in no sample", name)
    if pending.num_rows or not num_splits:
        yield pending.take(f"{base}::split_{num_splits + 1:04d}" if num_splits else base)


@dataclass(slots=True)
class _Sample:
    """The rows of one sample."""

    rows: list[dict[str, Any]]
    fields: list[dict[str, Any]]  # passthrough, row by row
    conflicts: list[Conflict]
    num_bytes: int  # what the rows take in memory, roughly


class _Pending:
    """The rows of the batch that is being made."""

    def __init__(self, passthrough: Passthrough) -> None:
        self._passthrough = passthrough
        self._clear()

    def _clear(self) -> None:
        # Columns and not rows: a hundred thousand dicts that live until the batch is made cost more in garbage collection than all the rest.
        self._columns: list[tuple[str, list[Any]]] = [(name, []) for name, _ in _RESERVED_TYPES]
        self.num_rows = self.num_bytes = 0
        self._files: dict[str, None] = {}
        self._conflicts: list[Conflict] = []

    def add(self, sample: _Sample) -> None:
        for row, fields in zip(sample.rows, sample.fields, strict=True):
            self._files[row["path"]] = None
            for name, values in self._columns:
                values.append(row.get(name))
            self._passthrough.add(fields, row["sample_id"])
        self._conflicts += sample.conflicts
        self.num_rows += len(sample.rows)
        self.num_bytes += sample.num_bytes

    def take(self, name: str) -> RowBatch:
        columns, conflicts = self._passthrough.take()
        table = pa.Table.from_arrays([pa.array(values, kind) for (_, values), (_, kind) in zip(self._columns, _RESERVED_TYPES, strict=True)], schema=SCHEMA)
        for column, values in columns.items():
            table = table.append_column(column, values)
        batch = RowBatch(table, tuple(self._files), name, (*self._conflicts, *conflicts))
        self._clear()
        return batch


def _samples(shard: sources.Shard, landing: Landing, wish: _Wish, seen: set[str]) -> Iterator[_Sample]:
    directory = shard.path if shard.format == sources.LOOSE else shard.path.rpartition("/")[0] or "."
    defaults = defaults_of(landing, directory)
    maker: _SampleMaker | None = None
    for item in sources.read(shard, landing=landing, settings=wish.settings):
        if maker is None or maker.sample_id != item.sample_id:
            if maker is not None:
                yield maker.made()
            maker = _SampleMaker(item, shard, defaults, wish, seen)
        maker.add(item)
    if maker is not None:
        yield maker.made()


class _SampleMaker:
    """One sample in the making. Bytes are read as its items come, since they can be read at no later time."""

    def __init__(self, first: sources.RawItem, shard: sources.Shard, defaults: Defaults, wish: _Wish, seen: set[str]) -> None:
        self.sample_id = first.sample_id
        self._metadata, self._shard, self._defaults, self._wish, self._seen = dict(first.metadata), shard, defaults, wish, seen
        self._first = first
        self._rows: list[dict[str, Any]] = []
        self._fields: list[dict[str, Any]] = []
        self._conflicts: list[Conflict] = []
        self._frames: tuple[SourceRef, bytes, Frames] | None = None
        self._check_lists()

    def _check_lists(self) -> None:
        for name in (*self._wish.settings.per_image_fields, *self._wish.settings.per_text_fields):
            value = self._metadata.get(name)
            if value is not None:
                self._seen.add(name)
            if value is not None and not isinstance(value, list):
                reason = f"the field {name!r} is of type {type(value).__name__}, expected a list with one value per row"
                if self._wish.strict_lists:
                    raise TypeError(f'sample {self.sample_id}: {reason}; correct the record, or read with not_a_list="report"')
                self._conflicts.append(Conflict(name, self.sample_id, reason))

    def add(self, item: sources.RawItem) -> None:
        """One more row."""
        # What the whole sample says stands on its metadata row; an item that says more, or otherwise, keeps that to itself.
        own = dict(item.own)
        if item.metadata is not self._first.metadata:
            own = {name: value for name, value in item.metadata.items() if name not in self._metadata or self._metadata[name] != value} | own
        self._seen.update(name for name in item.own if item.own[name] is not None)
        row = self._blank(item, own)
        if item.own.get("duplicate_member"):
            self._conflicts.append(Conflict("duplicate_member", self.sample_id, f"1009: the archive has the member {item.ref.member} more than once"))
        if item.fault is None and item.content is not None:
            try:
                self._read(item, row, own)
            except UnreadableItem as error:
                row.update(status="unreadable", error_code=error.code, materialize_error=error.reason)
        row["metadata_json"] = texts.metadata_text(own)
        self._rows.append(row)
        self._fields.append({name: value for name, value in own.items() if name not in _NOTES} if own else own)

    def _blank(self, item: sources.RawItem, own: dict[str, Any]) -> dict[str, Any]:
        licence = self._defaults.licence if item.licence is None else spdx_licence(item.licence)
        row = {
            "path": item.ref.path,
            "item_id": f"{self._shard.key}#{item.ordinal:06d}",
            "sample_id": self.sample_id,
            "position": item.position,
            "modality": item.modality,
            "role": item.role,
            "content_type": item.content_type,
            "text_content": None,
            "binary_content": None,
            "source_ref": item.ref.to_json(),
            "source": self._defaults.source,
            "licence": licence,
            "size_bytes": item.size_bytes,
            "status": "ok",
        }
        if item.fault is not None:
            row |= {"status": "unreadable", "error_code": item.fault.code, "materialize_error": item.fault.reason}
        return row

    def _read(self, item: sources.RawItem, row: dict[str, Any], own: dict[str, Any]) -> None:
        assert item.content is not None
        limit = self._wish.settings.max_text_bytes if item.modality == "text" else self._wish.settings.max_item_bytes
        if item.modality != "text" and not self._wish.with_bytes:
            return
        place = item.ref if item.ref.frame_index is None else replace(item.ref, frame_index=None)
        if self._frames is not None and self._frames[0] == place:
            data = self._frames[1]
        else:
            data = item.content.head(limit + 1)
        if len(data) > limit:
            raise UnreadableItem(1008, f"size_bytes={max(item.size_bytes, len(data))} not in [0, {limit}]")
        row["size_bytes"] = len(data)
        if item.modality == "text":
            row["text_content"], charset = texts.decode_text(data, settings=self._wish.settings)
            if charset not in ("utf-8", "utf-8-sig"):
                own["charset"] = charset
        elif not data:
            raise UnreadableItem(1006, "size_bytes=0 not in [1, inf)")
        else:
            self._keep(item, place, data, row)

    def _keep(self, item: sources.RawItem, place: SourceRef, data: bytes, row: dict[str, Any]) -> None:
        """The bytes, or those of the frame that the locator picks; those of the whole picture where it has no such frame."""
        row["binary_content"] = data
        if item.ref.frame_index is None:
            return
        if self._frames is None or self._frames[0] != place:
            self._frames = (place, data, Frames(data, settings=self._wish.decoding))
        try:
            row["binary_content"] = self._frames[2].pick(item.ref.frame_index)
        except UnreadableItem as error:
            row["materialize_error"] = error.reason

    def _is_told(self, name: str, value: Any) -> bool:
        """Whether a reserved column says the same as this field of the record, as in every tar that this library wrote."""
        if name == "licence":
            return self._first.licence is not None and spdx_licence(value) == spdx_licence(self._first.licence)
        return name == "sample_id" and isinstance(value, str) and self.sample_id in (value, f"{self._shard.key}/{stem_of(value)}")

    def made(self) -> _Sample:
        """The sample, the row of its fields first where it has any."""
        if self._metadata:
            first = self._blank(self._first, {})
            first |= {"position": METADATA_POSITION, "modality": METADATA, "role": None, "content_type": "application/json", "status": "ok", "item_id": None}
            first |= {"error_code": None, "materialize_error": None, "metadata_json": json_text(self._metadata), "size_bytes": None}
            first["source_ref"] = SourceRef(path=self._first.ref.path).to_json()
            self._rows.insert(0, first)
            self._fields.insert(0, {name: value for name, value in self._metadata.items() if not self._is_told(name, value)})
        num_bytes = sum(
            _ROW_BYTES + len(row["text_content"] or "") + len(row["binary_content"] or "") + len(row["metadata_json"] or "") + len(row["source_ref"]) for row in self._rows
        )
        return _Sample(self._rows, self._fields, self._conflicts, num_bytes)
