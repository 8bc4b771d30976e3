"""From a shard to its `items` table: bytes go into the store, every item becomes one row, good or bad.

The rows of all modalities of a shard are all its items, each once; ordinals count over the whole shard.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.errors import ContractBroken, UnreadableItem
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources import texts
from mmlake.sources.around import Around
from mmlake.sources.beginning import first_samples, first_stems, is_named
from mmlake.sources.connectors import CONTAINER_NAMES, LANCE, LOOSE, SOURCES, format_of, is_container
from mmlake.sources.defaults import Defaults
from mmlake.sources.licences import spdx_licence
from mmlake.sources.parts import is_in
from mmlake.sources.rows import Content, Fault, RawItem, Reading, read_up_to
from mmlake.sources.scanning import reading_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.sources.web.answers import Downloads
from mmlake.store import PACKED_BELOW_BYTES, Blobs

_SMALL_BYTES = PACKED_BELOW_BYTES  # items up to here are hashed in memory, larger ones while they are written
_BATCH_ROWS, _BATCH_CHARS = 4096, 16 << 20  # rows and characters that wait to become columns
DUPLICATE_MARK = '"duplicate_member":true'  # in the metadata of a member whose name the archive had before

_log = logging.getLogger(__name__)


def read(shard: Shard, *, landing: Landing | str | os.PathLike[str], settings: SourceSettings, downloads: Downloads | None = None) -> Iterator[RawItem]:
    """Every item of the shard in its one order. An item's bytes can be read until the next one is taken. downloads: as for `ingest`."""
    return _read(_reading(shard, as_landing(landing), settings, downloads), shard)


def _reading(shard: Shard, landing: Landing, settings: SourceSettings, downloads: Downloads | None) -> Reading:
    landing = landing.part_of(shard.path)
    if shard.limit is not None:
        landing = landing.sparing()
    if shard.format != LOOSE:
        return replace(reading_of(landing, shard.path, settings=settings), downloads=downloads, limit=shard.limit)
    listed = landing.files(shard.path)
    own = [entry for entry in listed if is_in(entry, shard.part)]
    if shard.limit is not None:  # only as many are opened as can hold that many samples; see `limiting`
        own = first_stems([entry for entry in own if not is_named(entry, CONTAINER_NAMES)], shard.limit)
    # Those whose name claims a container are looked at here; the others are told by their bytes when their turn comes.
    entries = [entry for entry in own if not is_named(entry, CONTAINER_NAMES) or format_of(landing, entry) == LOOSE]
    chosen = {entry.path for entry in own}
    siblings = [entry for entry in listed if entry.path not in chosen]
    around = Around(landing)
    around.learn(shard.path, listed)
    reading = reading_of(landing, shard.path, settings=settings, entries=entries, part=shard.part, siblings=siblings, around=around.of(shard.path))
    return replace(reading, is_container=is_container)


def _read(reading: Reading, shard: Shard) -> Iterator[RawItem]:
    ordinal = 0
    try:
        if shard.limit is None and shard.format not in (LOOSE, LANCE):  # those are verified file by file, as they are read
            reading.landing.verify(shard.path)
        for item in first_samples(SOURCES[shard.format].items(reading), shard.limit):
            item.ordinal = ordinal
            ordinal += 1
            yield item
    except UnreadableItem as error:
        # Connectors tell of every part that they cannot read; what arrives here is a file that does not open at all.
        home = reading.hint if reading.hint in shard.modalities else shard.modalities[0]
        yield reading.fault(error.code, error.reason, modality=home).but(ordinal=ordinal)


def ingest(
    shard: Shard,
    modality: str,
    *,
    landing: Landing | str | os.PathLike[str],
    store: Blobs,
    settings: SourceSettings,
    advance: Advance = silent,
    downloads: Downloads | None = None,
) -> pa.Table:
    """The shard's rows of one modality, schema ITEMS, sorted by item_id; their bytes are in the store when this returns.

    downloads: fetches what lists of URLs name, into the same store; without it such a shard raises SettingsError.

    Raises ContractBroken where the shard now has a modality that it was not registered for: its files changed since the scan.
    """
    parts: list[pa.Table] = []
    rows: list[ItemRow] = []
    num_chars = 0
    for row in rows_of(shard, modality, landing=as_landing(landing), store=store, settings=settings, advance=advance, downloads=downloads):
        rows.append(row)
        num_chars += len(row.text_content or "")
        if len(rows) == _BATCH_ROWS or num_chars > _BATCH_CHARS:
            parts.append(table_of(rows))
            rows, num_chars = [], 0
    parts.append(table_of(rows))
    items = schemas.conform(schemas.ITEMS, pa.concat_tables(parts))
    if num_repeated := pc.sum(pc.match_substring(items.column("metadata_json"), DUPLICATE_MARK)).as_py():
        _log.warning("%s: num_duplicate_members=%d (1009): each is a row of its own", shard.key, num_repeated)
    return items


class ItemRow(NamedTuple):
    """One row of ITEMS; the columns that are not here are null."""

    item_id: str
    digest: str | None
    sample_id: str
    position: int
    modality: str
    role: str
    content_type: str | None
    text_content: str | None
    sample_text: str | None
    source_ref: str
    source: str
    licence: str
    size_bytes: int
    metadata_json: str | None
    status: str
    error_code: int | None
    materialize_error: str | None


def table_of(rows: list[ItemRow]) -> pa.Table:
    """The rows as columns of ITEMS, in their order."""
    columns = zip(*rows, strict=True) if rows else [()] * len(ItemRow._fields)
    return schemas.from_columns(schemas.ITEMS, dict(zip(ItemRow._fields, columns, strict=True)))


def rows_of(
    shard: Shard,
    modality: str,
    *,
    landing: Landing,
    store: Blobs,
    settings: SourceSettings,
    wanted: Collection[str] | None = None,
    advance: Advance = silent,
    downloads: Downloads | None = None,
) -> Iterator[ItemRow]:
    """The rows of `ingest`, one by one. wanted: only those with these item ids; the bytes of others are not read."""
    reading = _reading(shard, landing, settings, downloads and downloads.telling(shard.key, modality, rules=settings))
    for item in _read(reading, shard):
        if item.modality not in shard.modalities:
            raise ContractBroken(
                f"shard {shard.key} holds an item of {item.modality} but is registered for {list(shard.modalities)}; its files changed, scan the landing zone again"
            )
        if item.modality == modality and (wanted is None or item_id_of(shard.key, item) in wanted):
            yield _row(item, reading, store)
            advance(1)


def item_id_of(key: str, item: RawItem) -> str:
    """The name of the row of an item of the shard with that key, unique in the lake."""
    return f"{key}#{item.ordinal:06d}"


def _row(item: RawItem, reading: Reading, store: Blobs) -> ItemRow:
    metadata = {**item.metadata, **item.own} if item.metadata or item.own else {}
    digest, size, text, fault, content = None, item.size_bytes, None, item.fault, item.content
    # The one per-item border: whatever is wrong with one item's bytes becomes its row. What the store cannot do (OSError) still raises.
    try:
        if content is not None and fault is None and item.modality == "text":
            digest, size, text, fault = _keep_text(item, content, metadata, reading.settings, store)
        elif content is not None:
            digest, size, fault = _keep(item, content, store)
    except UnreadableItem as error:
        digest, fault = None, Fault.of(error)
    if fault is None and item.modality != "text" and not size:
        fault = Fault(1006, "size_bytes=0 not in [1, inf)")
    return ItemRow(
        item_id_of(reading.key, item),
        digest,
        item.sample_id,
        item.position,
        item.modality,
        item.role,
        item.content_type,
        text,
        _sample_text(item) if item.beside else None,
        item.ref.to_json(),
        reading.defaults.source,
        _licence(item, reading.defaults),
        size,
        texts.metadata_text(metadata) if metadata else None,
        "ok" if fault is None else "unreadable",
        None if fault is None else fault.code,
        None if fault is None else fault.reason,
    )


def _licence(item: RawItem, defaults: Defaults) -> str:
    # A licence that the record names in unknown words is unknown: the directory's would be another one.
    return defaults.licence if item.licence is None else spdx_licence(item.licence)


def _sample_text(item: RawItem) -> str | None:
    """All captions of an image, a line each; the first readable transcript of sound and video, times and all."""
    found = (text for read_text in item.beside if (text := read_text()) is not None)
    if item.modality == "image":
        return "\n".join(found) or None
    return next(found, None)


def _keep_text(item: RawItem, content: Content, metadata: dict[str, Any], settings: SourceSettings, store: Blobs) -> tuple[str | None, int, str | None, Fault | None]:
    try:
        data = content.head(settings.max_text_bytes + 1)
    except UnreadableItem:
        digest, size, fault = _keep(item, content, store)
        return digest, size, None, fault
    if len(data) > settings.max_text_bytes:
        digest, size, fault = _keep(item, content, store)
        return digest, size, None, fault or Fault(1008, f"text_bytes={size} not in [0, {settings.max_text_bytes}]")
    digest = content.stored[0] if content.stored else store.put(data, extension=item.extension)
    if content.text is not None:
        return digest, len(data), content.text, None
    try:
        text, encoding = texts.decode_text(data, settings=settings, declared=item.charset)
    except UnreadableItem as error:
        return digest, len(data), None, Fault.of(error)
    if encoding not in ("utf-8", "utf-8-sig"):
        metadata.setdefault("charset", encoding)
    return digest, len(data), text, None


def _keep(item: RawItem, content: Content, store: Blobs) -> tuple[str | None, int, Fault | None]:
    """(digest, size, fault) once the bytes are stored. A stream that does not expand is stored as it is, since it is all there is."""
    if content.stored is not None:
        return (*content.stored, item.fault)
    try:
        return (*_put(content, store, item.extension), item.fault)
    except UnreadableItem as error:
        if content.raw is None or error.code == 1008:
            raise
        return (*_put(Content(content.raw), store, "bin"), Fault.of(error))


def _put(content: Content, store: Blobs, extension: str) -> tuple[str, int]:
    if content.first is not None and len(data := content.first(_SMALL_BYTES + 1)) <= _SMALL_BYTES:
        return store.put(data, extension=extension), len(data)
    with content.open() as stream:
        data = read_up_to(stream, _SMALL_BYTES + 1)
        if len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
        return store.put_stream(stream, extension=extension, head=data)
