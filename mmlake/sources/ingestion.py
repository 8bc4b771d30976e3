"""From a shard to its `items` table: bytes go into the store, every item becomes one row, good or bad.

The rows of all modalities of a shard are all its items, each once; ordinals count over the whole shard.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.download.results import Downloads
from mmlake.errors import ContractBroken, Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.landing import Entry, Landing, as_landing
from mmlake.progress import Advance, silent
from mmlake.sources.companions import packed_media
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.connectors import inner_tables
from mmlake.sources.connectors.table import LANCE, LOOSE, SOURCES, Connectors
from mmlake.sources.directory_listing import Listed, listed_of
from mmlake.sources.directory_parts import first_samples, loose_files_ahead
from mmlake.sources.licences import spdx_licence
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.raw_items import EMPTY, NOTHING, BlobOf, Content, RawItem, Reading, TextReader, item_id_of
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import (
    Defaults,
    Shard,
    defaults_of,
    each_directory,
    hinted_modality,
    partition_fields,
    shard_key,
)
from mmlake.sources.stored_files import StoredFiles
from mmlake.store import PACKED_BELOW_BYTES, Blobs
from mmlake.streams import read_up_to

_SMALL_BYTES = PACKED_BELOW_BYTES  # items up to here are hashed in memory, larger ones while they are written
_BATCH_CELLS, _BATCH_CHARS = 1 << 16, 16 << 20  # cells and characters that wait to become columns
DUPLICATE_MARK = '"duplicate_member":true'  # in the metadata of a member whose name the archive had before

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the shards of one landing zone."""

    landing: Landing
    settings: SourceSettings
    parsed: ParsedFiles  # of the owner of this and other readers
    connectors: Connectors

    def siblings(self, directory: str) -> Siblings:
        """The names next to a file of the directory, which its format depends on."""
        return Siblings(self.landing.part_of(directory), directory, self.settings, self.parsed)

    def format_of(self, entry: Entry, siblings: Siblings | None = None) -> str:
        """The name of the connector that reads the file. siblings: those of its directory, where they are at hand."""
        siblings = siblings or self.siblings(entry.path.rpartition("/")[0] or ".")
        return self.connectors.format_of(self.landing.part_of(entry.path), entry, siblings)

    def reading(
        self,
        path: str,
        *,
        entries: Sequence[Entry] | None = None,
        part: str = "",
        around: Sequence[Entry] = (),
        limit: int | None = None,
    ) -> Reading:
        """What a connector needs to read the container or the loose files at the path."""
        landing = self.landing.part_of(path)
        is_directory = entries is not None and [entry.path for entry in entries] != [path]
        return Reading(
            landing=landing if limit is None else landing.sparing(),
            key=shard_key(path, part),
            path=path,
            settings=self.settings,
            defaults=defaults_of(landing, path if is_directory else path.rpartition("/")[0] or "."),
            hint=hinted_modality(path),
            entries=tuple(entries or ()),
            around=tuple(around),
            limit=limit,
            parsed=self.parsed,
            inner_table=inner_tables.table_of,
        )

    def items(
        self,
        shard: Shard,
        *,
        downloads: Downloads | None = None,
        blob_of: BlobOf | None = None,
        begin: Callable[[Reading], None] = lambda reading: None,
    ) -> Iterator[RawItem]:
        """Every item of the shard in its one order. begin: is given what the next items are read by, per directory."""
        around = Placement(self.landing.part_of(shard.path), self.parsed) if shard.directories else None
        ordinals = count()
        is_whole = shard.format == LOOSE and shard.limit is None
        listed = self._listed(shard) if is_whole and shard.part and not shard.directories else None
        known = None if listed is None else listed.loose
        ahead = loose_files_ahead(shard, self.landing, self.connectors.endings, blob_of, known) if is_whole else None
        with ahead or nullcontext(self.landing) as landing:
            for one in each_directory(shard):
                reader = replace(self, landing=landing)
                reading = replace(reader.reading_of(one, downloads, around, listed), blob_of=blob_of)
                begin(reading)
                # in no variable of its own: whoever gives up reading ends what reads
                for item in self._stated(one, self._items(one, reading)):
                    item.ordinal = next(ordinals)
                    yield item

    def _stated(self, shard: Shard, items: Iterator[RawItem]) -> Iterator[RawItem]:
        """The items, with what the partition that they lie in says of them; what they say themselves goes before."""
        stated = partition_fields(shard.path if shard.format == LOOSE else shard.path.rpartition("/")[0])
        if not stated:
            yield from items
            return
        own = merged = NOTHING
        for item in items:
            if item.metadata is not own or merged is NOTHING:  # what a sample's rows have in common stays one
                own, merged = item.metadata, {**stated, **item.metadata}
            item.metadata = merged
            yield item

    def reading_of(
        self,
        shard: Shard,
        downloads: Downloads | None = None,
        around: Placement | None = None,
        listed: Listed | None = None,
    ) -> Reading:
        """What a connector needs to read the shard, which gathers none. around, listed: what was listed already."""
        if shard.format != LOOSE:
            paths = shard.described_by
            described_by = packed_media.entries(self.landing.part_of(shard.path), paths) if paths else ()
            return replace(self.reading(shard.path, limit=shard.limit, around=described_by), downloads=downloads)
        listing, loose = listed or self._listed(shard, around)
        reading = self.reading(shard.path, entries=loose, part=shard.part, limit=shard.limit, around=listing.companions)
        # the limit is in the files that were chosen
        return replace(reading, limit=None, is_container=partial(self.connectors.is_container, siblings=listing.names))

    def _listed(self, shard: Shard, around: Placement | None = None) -> Listed:
        return listed_of(shard, self.landing, self.settings, self.parsed, self.connectors, around)

    def _items(self, shard: Shard, reading: Reading) -> Iterator[RawItem]:
        try:
            # those are verified file by file, as they are read
            if shard.limit is None and shard.format not in (LOOSE, LANCE):
                reading.landing.verify(shard.path)
            items = self.connectors[shard.format].items
            yield from items(reading) if shard.limit is None else first_samples(items(reading), shard.limit)
        except UnreadableItem as error:
            # connectors report every part that they cannot read; this is a file that does not open at all
            home = reading.hint if reading.hint in shard.modalities else shard.modalities[0]
            yield reading.fault(error.code, error.reason, modality=home)


def reader_of(
    landing: Landing | str | os.PathLike[str],
    settings: SourceSettings | None,
    parsed: ParsedFiles | None,
    connectors: Connectors,
) -> Reader:
    """A reader of the landing zone; what it parses goes with it where nobody owns that."""
    opened = landing if isinstance(landing, Landing) else as_landing(landing)
    return Reader(opened, settings or SourceSettings(), parsed or ParsedFiles(), connectors)


def read(
    shard: Shard,
    *,
    landing: Landing | str | os.PathLike[str],
    settings: SourceSettings,
    downloads: Downloads | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
    begin: Callable[[Reading], None] = lambda reading: None,
) -> Iterator[RawItem]:
    """Every item of the shard in its one order. An item's bytes can be read until the next one is taken. downloads,
    parsed: as for `ingest`. begin: is given what the next items have in common, once for each directory."""
    return reader_of(landing, settings, parsed, connectors).items(shard, downloads=downloads, begin=begin)


def ingested(
    shard: Shard,
    modality: str,
    *,
    landing: Landing | str | os.PathLike[str],
    store: Blobs,
    settings: SourceSettings,
    wanted: Collection[str] | None = None,
    advance: Advance = silent,
    downloads: Downloads | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
    files: StoredFiles | None = None,
) -> Iterator[pa.Table]:
    """The shard's rows of one modality, schema ITEMS, some at a time once their bytes are in the store; at least one
    table, which may have none. `ingest` gives them as one table, sorted by item_id.

    wanted: item ids; the bytes of other items are not read. None: all.
    downloads: fetches what lists of URLs name, into the same store; without it such a shard raises SettingsError.
    parsed: keeps what is parsed of files that describe several shards; None: it goes with this one.
    files: loose files that are as they were are not read, and what those of now became is noted there.

    Raises ContractBroken where it has a modality that it was not registered for: its files changed since the scan.
    """
    reader = reader_of(landing, settings, parsed, connectors)
    downloads = downloads and downloads.for_table(shard.key, modality, rules=settings)
    rows, blob_of = _Rows(shard.key), None if files is None else files.blob_of
    for item in reader.items(shard, downloads=downloads, blob_of=blob_of, begin=rows.begin):
        if item.modality not in shard.modalities:
            raise ContractBroken(
                f"shard {shard.key} holds an item of {item.modality} but is registered for {list(shard.modalities)}; "
                "its files changed, scan the landing zone again"
            )
        if item.modality == modality and (wanted is None or item_id_of(shard.key, item.ordinal) in wanted):
            _store(item, store, settings)
            rows.add(item)
            if files is not None:
                files.note(item, rows.entries)
            advance(1)
            if rows.is_full:
                yield rows.taken()
    yield rows.taken()
    if rows.num_repeated and wanted is None:
        _log.warning("%s: num_duplicate_members=%d (1009): each is a row of its own", shard.key, rows.num_repeated)


ingest = schemas.whole(schemas.ITEMS, ingested)


class _Rows:
    """Stored items as rows of ITEMS; the columns that are not here are null."""

    _COLUMNS = (
        "item_id", "digest", "sample_id", "position", "modality", "role", "content_type", "text_content",
        "sample_text", "sample_text_role", "source_ref", "source", "licence", "size_bytes", "metadata_json", "status",
        "error_code", "materialize_error",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        """key: of the shard."""
        self._key, self.num_repeated = key, 0
        self._defaults: Defaults
        self.entries: Mapping[str, Entry]  # the loose files of the directory that rows come from, by path
        self._cells: list[Any] = []  # in one list: so many rows would cost more in garbage collection than to make
        self._num_chars = 0
        # what the rows of one sample have in common is made once
        self._metadata: Mapping[str, Any] = NOTHING
        self._metadata_text: str | None = None
        self._paired_of: tuple[tuple[TextReader, ...], str] = ((), "")
        self._paired: str | None = None

    def begin(self, reading: Reading) -> None:
        """Rows come from there now."""
        self._defaults, self.entries = reading.defaults, {entry.path: entry for entry in reading.entries}

    def add(self, item: RawItem) -> None:
        """One more row."""
        fault, words = item.fault, self._paired_text(item) if item.paired_texts else None
        self._cells += (
            item_id_of(self._key, item.ordinal), item.digest, item.sample_id, item.position, item.modality, item.role,
            item.content_type, item.text, words, None if words is None else item.paired_role, item.ref.to_json(),
            self._defaults.source, self._licence(item.licence), item.size_bytes, self._said(item),
            *(("ok", None, None) if fault is None else ("unreadable", fault.code, fault.reason)),
        )  # fmt: skip
        self._num_chars += len(item.text or "")

    @property
    def is_full(self) -> bool:
        """Whether as much waits to become columns as may."""
        return len(self._cells) >= _BATCH_CELLS or self._num_chars > _BATCH_CHARS

    def taken(self) -> pa.Table:
        """The rows since the last time."""
        columns = {name: self._cells[at :: len(self._COLUMNS)] for at, name in enumerate(self._COLUMNS)}
        table = schemas.from_columns(schemas.ITEMS, columns)
        self.num_repeated += pc.sum(pc.match_substring(table.column("metadata_json"), DUPLICATE_MARK)).as_py() or 0
        self._cells, self._num_chars = [], 0
        return table

    def _licence(self, licence: str | None) -> str:
        # A licence that the record names in unknown words is unknown: the directory's would be another one.
        return self._defaults.licence if licence is None else spdx_licence(licence)

    def _said(self, item: RawItem) -> str | None:
        """The item's metadata as JSON."""
        if item.own or item.charset is not None:
            metadata = {**item.metadata, **item.own}
            if item.text is not None and item.charset is not None:
                metadata.setdefault("charset", item.charset)
            return texts.metadata_text(metadata) if metadata else None
        if item.metadata is not self._metadata:
            self._metadata = item.metadata
            self._metadata_text = texts.metadata_text(dict(item.metadata)) if item.metadata else None
        return self._metadata_text

    def _paired_text(self, item: RawItem) -> str | None:
        """All captions of an image that differ, a line each; the first readable transcript of sound and video, times
        and all."""
        if (item.paired_texts, item.modality) != self._paired_of:
            self._paired_of = item.paired_texts, item.modality
            found = (text for read_text in item.paired_texts if (text := read_text()) is not None)
            is_image = item.modality == "image"
            self._paired = ("\n".join(dict.fromkeys(found)) or None) if is_image else next(found, None)
        return self._paired


def _store(item: RawItem, store: Blobs, settings: SourceSettings) -> None:
    """Put the item's bytes into the store, and note the text that they are. The one per-item border: whatever is wrong
    with one item's bytes becomes its row. What the store cannot do (OSError) still raises."""
    content, is_text = item.content, item.modality == "text"
    if content is None:
        if item.fault is None and not is_text and not item.size_bytes:
            item.fault = EMPTY
        return
    try:
        if is_text and item.fault is None:
            _store_text(item, content, store, settings)
            return
        _store_bytes(item, content, store)
    except UnreadableItem as error:
        item.fault = Fault.of(error)
        return
    # What expands to nothing has no type that could be recognized.
    if not item.size_bytes and (item.fault.code == 1005 if item.fault is not None else not is_text):
        item.fault = EMPTY


def _store_text(item: RawItem, content: Content, store: Blobs, settings: SourceSettings) -> None:
    try:
        data = content.head(settings.max_text_bytes + 1)
    except UnreadableItem:
        _store_bytes(item, content, store)
        return
    if len(data) > settings.max_text_bytes:
        _store_bytes(item, content, store, num_read=len(data))
        item.fault = item.fault or Fault(1008, f"text_bytes={item.size_bytes} not in [0, {settings.max_text_bytes}]")
        return
    item.digest = content.stored[0] if content.stored else store.put(data, extension=item.extension)
    item.size_bytes = len(data)
    item.decode(data, settings)


def _store_bytes(item: RawItem, content: Content, store: Blobs, *, num_read: int = 0) -> None:
    """A stream that does not expand is stored as it is, since it is all there is. num_read: how many bytes it has at
    least."""
    if content.stored is not None:
        item.digest, item.size_bytes = content.stored
        return
    try:
        item.digest, item.size_bytes = _put(content, store, item.extension, num_read or item.size_bytes)
    except UnreadableItem as error:
        if content.raw is None or error.code == 1008:
            raise
        item.digest, item.size_bytes = _put(Content(content.raw), store, "bin", 0)
        item.fault = Fault.of(error)


def _put(content: Content, store: Blobs, extension: str, size_bytes: int) -> tuple[str, int]:
    """(digest, size) of the content in the store, where what is large goes as it is read. size_bytes: as claimed."""
    is_small = size_bytes <= _SMALL_BYTES
    if is_small and content.first is not None and len(data := content.first(_SMALL_BYTES + 1)) <= _SMALL_BYTES:
        return store.put(data, extension=extension), len(data)
    with content.open() as stream:
        data = read_up_to(stream, _SMALL_BYTES + 1) if is_small else b""
        if is_small and len(data) <= _SMALL_BYTES:
            return store.put(data, extension=extension), len(data)
        return store.put_stream(stream, extension=extension, head=data)
