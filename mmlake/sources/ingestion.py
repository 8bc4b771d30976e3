"""From a shard to its `items` table: bytes go into the store, every item becomes one row, good or bad.

The rows of all modalities of a shard are all its items, each once; ordinals count over the whole shard.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.download.results import Downloads
from mmlake.errors import ContractBroken, Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources.companions.placement import Around
from mmlake.sources.companions.siblings import Neighbours
from mmlake.sources.connectors.table import CONTAINER_NAMES, LANCE, LOOSE, SOURCES, format_of, is_container
from mmlake.sources.defaults import Defaults
from mmlake.sources.directory_parts import is_in
from mmlake.sources.first_samples import first_samples, first_stems, is_named
from mmlake.sources.licences import spdx_licence
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.samples.plain import Plain
from mmlake.sources.scanner import reading_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.sources.tables.bookkeeping import without_bookkeeping
from mmlake.store import PACKED_BELOW_BYTES, Blobs
from mmlake.streams import read_up_to

_SMALL_BYTES = PACKED_BELOW_BYTES  # items up to here are hashed in memory, larger ones while they are written
_BATCH_CELLS, _BATCH_CHARS = 1 << 16, 16 << 20  # cells and characters that wait to become columns
_EMPTY = Fault(1006, "size_bytes=0 not in [1, inf)")
DUPLICATE_MARK = '"duplicate_member":true'  # in the metadata of a member whose name the archive had before

_log = logging.getLogger(__name__)


def read(
    shard: Shard,
    *,
    landing: Landing | str | os.PathLike[str],
    settings: SourceSettings,
    downloads: Downloads | None = None,
) -> Iterator[RawItem]:
    """Every item of the shard in its one order. An item's bytes can be read until the next one is taken. downloads:
    as for `ingest`."""
    return cast(Iterator[RawItem], _read(_reading(shard, as_landing(landing), settings, downloads), shard))


def read_samples(shard: Shard, *, landing: Landing, settings: SourceSettings) -> Iterator[RawItem | Plain]:
    """The same, with each sample of the plainest form as one `Plain`."""
    return _read(replace(_reading(shard, landing, settings, None), is_plain_taken=True), shard)


def _reading(shard: Shard, landing: Landing, settings: SourceSettings, downloads: Downloads | None) -> Reading:
    landing = landing.part_of(shard.path)
    if shard.limit is not None:
        landing = landing.sparing()
    if shard.format != LOOSE:
        return replace(reading_of(landing, shard.path, settings=settings), downloads=downloads, limit=shard.limit)
    listed = without_bookkeeping(shard.path, landing.files(shard.path), landing)
    own = [entry for entry in listed if is_in(entry, shard.part)]
    if shard.limit is not None:  # only as many are opened as can hold that many samples; see `limiting`
        own = first_stems([entry for entry in own if not is_named(entry, CONTAINER_NAMES)], shard.limit)
    # Those whose name claims a container are looked at here; the others are told by their bytes when their turn comes.
    neighbours = Neighbours(landing, shard.path, settings)
    entries = [
        entry for entry in own if not is_named(entry, CONTAINER_NAMES) or format_of(landing, entry, neighbours) == LOOSE
    ]
    chosen = {entry.path for entry in own} if len(own) < len(listed) else None
    siblings = [] if chosen is None else [entry for entry in listed if entry.path not in chosen]
    around = Around(landing)
    around.learn(shard.path, listed)
    reading = reading_of(
        landing,
        shard.path,
        settings=settings,
        entries=entries,
        part=shard.part,
        siblings=siblings,
        around=around.of(shard.path),
    )
    return replace(reading, is_container=lambda head, name, open_file: is_container(head, name, open_file, neighbours))


def _read(reading: Reading, shard: Shard) -> Iterator[RawItem | Plain]:
    ordinal = 0
    try:
        # those are verified file by file, as they are read
        if shard.limit is None and shard.format not in (LOOSE, LANCE):
            reading.landing.verify(shard.path)
        for item in first_samples(SOURCES[shard.format].items(reading), shard.limit):
            item.ordinal = ordinal
            ordinal += len(item.rows) if isinstance(item, Plain) else 1
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
    """The shard's rows of one modality, schema ITEMS, sorted by item_id; their bytes are in the store when this
    returns.

    downloads: fetches what lists of URLs name, into the same store; without it such a shard raises SettingsError.

    Raises ContractBroken where the shard now has a modality that it was not registered for: its files changed since the
    scan.
    """
    parts: list[pa.Table] = []
    # of all rows in one list: as many rows that live until then would cost more in garbage collection than their making
    cells: list[Any] = []
    num_chars = 0
    for row in rows_of(
        shard,
        modality,
        landing=as_landing(landing),
        store=store,
        settings=settings,
        advance=advance,
        downloads=downloads,
    ):
        cells += row
        num_chars += len(row.text_content or "")
        if len(cells) >= _BATCH_CELLS or num_chars > _BATCH_CHARS:
            parts.append(_table(cells))
            cells, num_chars = [], 0
    parts.append(_table(cells))
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
    return _table([cell for row in rows for cell in row])


def _table(cells: list[Any]) -> pa.Table:
    width = len(ItemRow._fields)
    return schemas.from_columns(schemas.ITEMS, {name: cells[at::width] for at, name in enumerate(ItemRow._fields)})


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
    reading = _reading(shard, landing, settings, downloads and downloads.for_table(shard.key, modality, rules=settings))
    for item in _read(replace(reading, is_plain_taken=wanted is None), shard):
        for found in [row[1] for row in item.rows] if isinstance(item, Plain) else (item.modality,):
            if found not in shard.modalities:
                raise ContractBroken(
                    f"shard {shard.key} holds an item of {found} but is registered for {list(shard.modalities)}; "
                    "its files changed, scan the landing zone again"
                )
        if isinstance(item, Plain):
            for row in _plain_rows(item, modality, reading, store):
                yield row
                advance(1)
        elif item.modality == modality and (wanted is None or item_id_of(shard.key, item) in wanted):
            yield _row(item, reading, store)
            advance(1)


def item_id_of(key: str, item: RawItem) -> str:
    """The name of the row of an item of the shard with that key, unique in the lake."""
    return f"{key}#{item.ordinal:06d}"


def _plain_rows(sample: Plain, modality: str, reading: Reading, store: Blobs) -> Iterator[ItemRow]:
    """What `_row` makes of each item of that modality."""
    if all(row[1] != modality for row in sample.rows):
        return
    source, licence, settings, metadata = (
        reading.defaults.source,
        _licence(sample.licence, reading.defaults),
        reading.settings,
        sample.metadata,
    )
    said = texts.metadata_text(dict(metadata)) if metadata else None
    beside = sample.beside(modality, settings=settings) if modality != "text" and sample.has_beside else None
    for ordinal, (position, kind, role, content_type, extension, ref, _, text, size, member) in enumerate(
        sample.rows, sample.ordinal
    ):
        if kind != modality:
            continue
        kept = _Kept(None, size)
        if text is not None:
            kept = _Kept(store.put(text.encode(), extension=extension), size, text)
        elif member.content is not None:
            kept = _keep(member.content, size, store, settings, is_text=kind == "text", extension=extension)
        told = (
            said
            if kept.charset is None or "charset" in metadata
            else texts.metadata_text({**metadata, "charset": kept.charset})
        )
        yield ItemRow(
            f"{reading.key}#{ordinal:06d}",
            kept.digest,
            sample.sample_id,
            position,
            kind,
            role,
            content_type,
            kept.text,
            beside if role == "media" else None,
            ref,
            source,
            licence,
            kept.size_bytes,
            told,
            *_status(kept.fault),
        )


def _row(item: RawItem, reading: Reading, store: Blobs) -> ItemRow:
    metadata = {**item.metadata, **item.own} if item.metadata or item.own else {}
    kept, is_text = _Kept(None, item.size_bytes, fault=item.fault), item.modality == "text"
    if item.content is not None:
        kept = _keep(
            item.content,
            item.size_bytes,
            store,
            reading.settings,
            is_text=is_text,
            extension=item.extension,
            charset=item.charset,
            fault=item.fault,
        )
        if kept.charset is not None:
            metadata.setdefault("charset", kept.charset)
    elif item.fault is None and not is_text and not item.size_bytes:
        kept = _Kept(None, 0, fault=_EMPTY)
    return ItemRow(
        item_id_of(reading.key, item),
        kept.digest,
        item.sample_id,
        item.position,
        item.modality,
        item.role,
        item.content_type,
        kept.text,
        _sample_text(item) if item.beside else None,
        item.ref.to_json(),
        reading.defaults.source,
        _licence(item.licence, reading.defaults),
        kept.size_bytes,
        texts.metadata_text(metadata) if metadata else None,
        *_status(kept.fault),
    )


def _status(fault: Fault | None) -> tuple[str, int | None, str | None]:
    return ("ok", None, None) if fault is None else ("unreadable", fault.code, fault.reason)


def _licence(licence: str | None, defaults: Defaults) -> str:
    # A licence that the record names in unknown words is unknown: the directory's would be another one.
    return defaults.licence if licence is None else spdx_licence(licence)


def _sample_text(item: RawItem) -> str | None:
    """All captions of an image that differ, a line each; the first readable transcript of sound and video, times and
    all."""
    found = (text for read_text in item.beside if (text := read_text()) is not None)
    if item.modality == "image":
        return "\n".join(dict.fromkeys(found)) or None
    return next(found, None)


class _Kept(NamedTuple):
    """What became of an item's bytes."""

    digest: str | None
    size_bytes: int
    text: str | None = None
    fault: Fault | None = None
    charset: str | None = None  # of a text that is not UTF-8


def _keep(
    content: Content,
    size_bytes: int,
    store: Blobs,
    settings: SourceSettings,
    *,
    is_text: bool,
    extension: str,
    charset: str | None = None,
    fault: Fault | None = None,
) -> _Kept:
    """The item's bytes in the store, and the text that they are. size_bytes: as the source says. charset: that the
    source names. fault: of an item that is unreadable anyhow."""
    # The one per-item border: whatever is wrong with one item's bytes becomes its row. What the store cannot do
    # (OSError) still raises.
    try:
        if is_text and fault is None:
            return _keep_text(content, size_bytes, store, settings, extension=extension, charset=charset)
        kept = _keep_bytes(content, size_bytes, store, extension=extension, fault=fault)
    except UnreadableItem as error:
        return _Kept(None, size_bytes, fault=Fault.of(error))
    # What expands to nothing has no type that could be told.
    return (
        kept._replace(fault=_EMPTY)
        if not kept.size_bytes and (kept.fault.code == 1005 if kept.fault is not None else not is_text)
        else kept
    )


def _keep_text(
    content: Content, size_bytes: int, store: Blobs, settings: SourceSettings, *, extension: str, charset: str | None
) -> _Kept:
    try:
        data = content.head(settings.max_text_bytes + 1)
    except UnreadableItem:
        return _keep_bytes(content, size_bytes, store, extension=extension)
    if len(data) > settings.max_text_bytes:
        kept = _keep_bytes(content, len(data), store, extension=extension)
        return kept._replace(
            fault=kept.fault or Fault(1008, f"text_bytes={kept.size_bytes} not in [0, {settings.max_text_bytes}]")
        )
    digest = content.stored[0] if content.stored else store.put(data, extension=extension)
    if content.text is not None:
        return _Kept(digest, len(data), content.text)
    try:
        text, encoding = texts.decode_text(data, settings=settings, declared=charset)
    except UnreadableItem as error:
        return _Kept(digest, len(data), fault=Fault.of(error))
    return _Kept(digest, len(data), text, charset=None if encoding in ("utf-8", "utf-8-sig") else encoding)


def _keep_bytes(
    content: Content, size_bytes: int, store: Blobs, *, extension: str, fault: Fault | None = None
) -> _Kept:
    """A stream that does not expand is stored as it is, since it is all there is."""
    if content.stored is not None:
        return _Kept(*content.stored, fault=fault)
    try:
        return _Kept(*_put(content, store, extension, size_bytes), fault=fault)
    except UnreadableItem as error:
        if content.raw is None or error.code == 1008:
            raise
        return _Kept(*_put(Content(content.raw), store, "bin", 0), fault=Fault.of(error))


def _put(content: Content, store: Blobs, extension: str, size_bytes: int) -> tuple[str, int]:
    """(digest, size) of the content in the store. size_bytes: as the source says, which may be wrong; what is large
    is not looked at before it is stored."""
    is_small = size_bytes <= _SMALL_BYTES
    if is_small and content.first is not None and len(data := content.first(_SMALL_BYTES + 1)) <= _SMALL_BYTES:
        return store.put(data, extension=extension), len(data)
    with content.open() as stream:
        data = read_up_to(stream, _SMALL_BYTES + 1) if is_small else b""
        if is_small and len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
        return store.put_stream(stream, extension=extension, head=data)
