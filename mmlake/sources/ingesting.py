"""From a shard to its `items` table: bytes go into the store, every item becomes one row, good or bad.

The rows of all modalities of a shard are all its items, each once; ordinals count over the whole shard.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mmlake import schemas
from mmlake.errors import ContractBroken, UnreadableItem
from mmlake.landing import Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.records import SourceRef
from mmlake.sources import texts
from mmlake.sources.connectors import LOOSE, SOURCES, format_of
from mmlake.sources.defaults import Defaults
from mmlake.sources.licences import spdx_licence
from mmlake.sources.rows import Content, Fault, Opener, RawItem, Reading
from mmlake.sources.scanning import reading_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard
from mmlake.store import BlobStore

_SMALL_BYTES = 1 << 20  # items up to here are hashed before a file is made, so that known bytes cost no write
_BATCH_ROWS = 1024


def read(shard: Shard, *, landing: Landing | str | os.PathLike[str], settings: SourceSettings) -> Iterator[RawItem]:
    """Every item of the shard in its one order. An item's bytes can be read until the next one is taken."""
    return _read(_reading(shard, as_landing(landing), settings), shard.format)


def _reading(shard: Shard, landing: Landing, settings: SourceSettings) -> Reading:
    if shard.format != LOOSE:
        return reading_of(landing, shard.path, settings=settings)
    entries = [entry for entry in landing.files(shard.path) if format_of(landing, entry) == LOOSE]
    return reading_of(landing, shard.path, settings=settings, entries=entries)


def _read(reading: Reading, name: str) -> Iterator[RawItem]:
    ordinal = 0
    try:
        for ordinal, item in enumerate(SOURCES[name].items(reading), 1):
            yield replace(item, ordinal=ordinal - 1)
    except UnreadableItem as error:
        # Connectors tell of every part that they cannot read; what arrives here is a file that does not open at all.
        yield replace(reading.fault(error.code, error.reason, modality=reading.hint or "text"), ordinal=ordinal)


def ingest(shard: Shard, modality: str, *, landing: Landing | str | os.PathLike[str], store: BlobStore, settings: SourceSettings, advance: Advance = silent) -> pa.Table:
    """The shard's rows of one modality, schema ITEMS, sorted by item_id; their bytes are in the store when this returns.

    Raises ContractBroken where the shard now has a modality that it was not registered for: its files changed since the scan.
    """
    reading = _reading(shard, as_landing(landing), settings)
    parts, rows = [], []
    for item in _read(reading, shard.format):
        if item.modality not in shard.modalities:
            raise ContractBroken(
                f"shard {shard.key} holds an item of {item.modality} but is registered for {list(shard.modalities)}; its files changed, scan the landing zone again"
            )
        if item.modality != modality:
            continue
        rows.append(_row(item, reading, store))
        advance(1)
        if len(rows) == _BATCH_ROWS:
            parts.append(schemas.from_rows(schemas.ITEMS, rows))
            rows = []
    parts.append(schemas.from_rows(schemas.ITEMS, rows))
    return schemas.conform(schemas.ITEMS, pa.concat_tables(parts))


def _row(item: RawItem, reading: Reading, store: BlobStore) -> dict[str, Any]:
    metadata = dict(item.metadata)
    digest, size, text, fault = None, item.size_bytes, None, item.fault
    # The one per-item border: whatever is wrong with one item's bytes becomes its row. What the store cannot do (OSError) still raises.
    try:
        if item.content is not None and fault is None and item.modality == "text":
            digest, size, text, fault = _keep_text(item, item.content, metadata, reading.settings, store)
        elif item.content is not None:
            digest, size, fault = _keep(item, item.content, store)
    except UnreadableItem as error:
        digest, fault = None, Fault.of(error)
    if fault is None and item.modality != "text" and not size:
        fault = Fault(1006, "size_bytes=0 not in [1, inf)")
    return {
        "item_id": f"{reading.key}#{item.ordinal:06d}",
        "digest": digest,
        "sample_id": item.sample_id,
        "position": item.position,
        "modality": item.modality,
        "role": item.role,
        "content_type": item.content_type,
        "text_content": text,
        "sample_text": _sample_text(item),
        "source_ref": item.ref.to_json(),
        "source": reading.defaults.source,
        "licence": _licence(item, reading.defaults),
        "size_bytes": size,
        "metadata_json": texts.metadata_text(metadata),
        "status": "ok" if fault is None else "unreadable",
        "error_code": fault.code if fault else None,
        "materialize_error": fault.reason if fault else None,
    }


def _licence(item: RawItem, defaults: Defaults) -> str:
    # A licence that the record names in unknown words is unknown: the directory's would be another one.
    return defaults.licence if item.licence is None else spdx_licence(item.licence)


def _sample_text(item: RawItem) -> str | None:
    """All captions of an image, a line each; the first readable transcript of sound and video, times and all."""
    found = (text for read_text in item.beside if (text := read_text()) is not None)
    if item.modality == "image":
        return "\n".join(found) or None
    return next(found, None)


def _keep_text(item: RawItem, content: Content, metadata: dict[str, Any], settings: SourceSettings, store: BlobStore) -> tuple[str | None, int, str | None, Fault | None]:
    try:
        with content.open() as stream:
            data = stream.read(settings.max_text_bytes + 1)
    except UnreadableItem:
        digest, size, fault = _keep(item, content, store)
        return digest, size, None, fault
    if len(data) > settings.max_text_bytes:
        digest, size, fault = _keep(item, content, store)
        return digest, size, None, fault or Fault(1008, f"text_bytes={size} not in [0, {settings.max_text_bytes}]")
    digest = store.put(data, extension=item.extension)
    try:
        text, encoding = texts.decode_text(data, settings=settings)
    except UnreadableItem as error:
        return digest, len(data), None, Fault.of(error)
    if encoding not in ("utf-8", "utf-8-sig"):
        metadata.setdefault("charset", encoding)
    return digest, len(data), text, None


def _keep(item: RawItem, content: Content, store: BlobStore) -> tuple[str | None, int, Fault | None]:
    """(digest, size, fault) once the bytes are stored. A stream that does not expand is stored as it is, since it is all there is."""
    try:
        return (*_put(content.open, store, item.extension), item.fault)
    except UnreadableItem as error:
        if content.raw is None or error.code == 1008:
            raise
        return (*_put(content.raw, store, "bin"), Fault.of(error))


def _put(open_stream: Opener, store: BlobStore, extension: str) -> tuple[str, int]:
    with open_stream() as stream:
        data = stream.read(_SMALL_BYTES + 1)
        if len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
    with open_stream() as stream:
        return store.put_stream(stream, extension=extension)


def fetch(ref: SourceRef, *, landing: Landing | str | os.PathLike[str], settings: SourceSettings | None = None) -> bytes:
    """The bytes of the item that the locator names, read again from the landing zone; those whose digest the item's row holds.

    settings: those of the ingest, where field names were changed. Raises UnreadableItem where the file or the member is gone.
    """
    landing = as_landing(landing)
    if ref.byte_offset is not None and ref.byte_size is not None:
        with landing.open(ref.path) as file:
            file.seek(ref.byte_offset)
            data = file.read(ref.byte_size)
        if len(data) != ref.byte_size:
            raise UnreadableItem(1002, f"bytes {ref.byte_offset} to {ref.byte_offset + ref.byte_size} are wanted, {len(data)} are there")
        return data
    landing.open(ref.path).close()  # says what is wrong with a path that is gone or unsafe
    entry = landing.stat(ref.path)
    assert entry is not None
    reading = reading_of(landing, ref.path, settings=settings or SourceSettings(), entries=[entry])
    wanted = replace(ref, frame_index=None)  # a frame is picked from the item's bytes, not from the source
    for item in SOURCES[format_of(landing, entry)].items(reading):
        if replace(item.ref, frame_index=None) == wanted and item.content is not None:
            return _bytes(item.content)
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _bytes(content: Content) -> bytes:
    try:
        with content.open() as stream:
            return stream.read()
    except UnreadableItem as error:
        if content.raw is None or error.code == 1008:
            raise
        with content.raw() as stream:
            return stream.read()
