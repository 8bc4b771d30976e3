"""What a connector yields: one `RawItem` per thing that a source holds, good or bad, with a way to its bytes that
reads nothing yet."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any

from mmlake.download.results import Downloads
from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.sniff import Kind
from mmlake.formats.texts import printable
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.defaults import Defaults
from mmlake.sources.settings import SourceSettings
from mmlake.streams import View, read_up_to

Opener = Callable[[], IO[bytes]]
TEXT_EXTENSIONS = {"text/html": "html", "text/vtt": "vtt", "application/x-subrip": "srt"}
TIMED = ("application/x-subrip", "text/vtt")  # content types of texts that tell their times
TextReader = Callable[[], str | None]  # a text that came beside a media item; None where it cannot be read


@dataclass(slots=True, eq=False)  # not frozen, which doubles what it costs to make one: there is one per member
class Content:
    """A way to an item's bytes."""

    open: Opener
    raw: Opener | None = None  # the bytes before decompression, kept where decompression fails
    stored: tuple[str, int] | None = None  # digest and size, where the store of the ingest has the bytes already
    # gives so many of the first bytes in one read, where that is cheaper than to open a file
    first: Callable[[int], bytes] | None = None
    text: str | None = None  # what the bytes decode to, where they were encoded from it

    @classmethod
    def of_bytes(cls, data: bytes | memoryview) -> Content:
        """Bytes that are in memory already."""
        return _Held(data)

    def head(self, size_bytes: int) -> bytes:
        """At most so many of the first bytes. Raises UnreadableItem."""
        if self.first is not None:
            return self.first(size_bytes)
        with self.open() as stream:
            return read_up_to(stream, size_bytes)

    def read(self) -> bytes:
        """The bytes, or those before decompression where that fails: what an ingest stores. Raises UnreadableItem
        where there are none."""
        try:
            with self.open() as stream:
                return stream.read()
        except UnreadableItem as error:
            if self.raw is None or error.code == 1008:
                raise
            with self.raw() as stream:
                return stream.read()


class _Held(Content):
    """Bytes that are in memory already."""

    __slots__ = ("_data", "text")
    raw = stored = None

    def __init__(self, data: bytes | memoryview, text: str | None = None) -> None:
        self._data, self.text = data, text

    def open(self) -> IO[bytes]:
        return io.BytesIO(self._data) if isinstance(self._data, bytes) else io.BufferedReader(View(self._data))

    def first(self, size_bytes: int) -> bytes:
        return (
            self._data
            if size_bytes >= len(self._data) and isinstance(self._data, bytes)
            else bytes(self._data[:size_bytes])
        )


_SAME: Any = object()  # the value of a field that `but` leaves alone


@dataclass(kw_only=True, slots=True)  # not frozen: `but` is the inner loop of every reader, and nobody else changes one
class RawItem:
    """One occurrence of one item, before its bytes were read."""

    modality: str
    ref: SourceRef
    sample_id: str  # unique within the shard and prefixed by its key
    position: int = 0
    role: str = "media"
    content_type: str | None = None
    extension: str = "bin"
    charset: str | None = None  # of a text, where whoever sent it declares one; the bytes may say otherwise
    content: Content | None = None  # None where no bytes can be had
    beside: tuple[TextReader, ...] = ()  # captions and transcripts of the same sample, for media
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the whole sample
    own: Mapping[str, Any] = field(default_factory=dict)  # of this row alone
    licence: str | None = None  # of the record; None: that of the directory
    fault: Fault | None = None
    size_bytes: int = 0  # as the source says, for items whose bytes are not read
    ordinal: int = -1  # in the whole shard, from 0; set by `read`

    def but(
        self,
        *,
        modality: Any = _SAME,
        ref: Any = _SAME,
        sample_id: Any = _SAME,
        position: Any = _SAME,
        role: Any = _SAME,
        content_type: Any = _SAME,
        extension: Any = _SAME,
        charset: Any = _SAME,
        content: Any = _SAME,
        beside: Any = _SAME,
        metadata: Any = _SAME,
        own: Any = _SAME,
        licence: Any = _SAME,
        fault: Any = _SAME,
        size_bytes: Any = _SAME,
        ordinal: Any = _SAME,
    ) -> RawItem:
        """The item with other values in these fields. Spelled out: 0.6 us, where copying a dict takes 3 and
        `dataclasses.replace` 20."""
        item = object.__new__(RawItem)
        item.modality = self.modality if modality is _SAME else modality
        item.ref = self.ref if ref is _SAME else ref
        item.sample_id = self.sample_id if sample_id is _SAME else sample_id
        item.position = self.position if position is _SAME else position
        item.role = self.role if role is _SAME else role
        item.content_type = self.content_type if content_type is _SAME else content_type
        item.extension = self.extension if extension is _SAME else extension
        item.charset = self.charset if charset is _SAME else charset
        item.content = self.content if content is _SAME else content
        item.beside = self.beside if beside is _SAME else beside
        item.metadata = self.metadata if metadata is _SAME else metadata
        item.own = self.own if own is _SAME else own
        item.licence = self.licence if licence is _SAME else licence
        item.fault = self.fault if fault is _SAME else fault
        item.size_bytes = self.size_bytes if size_bytes is _SAME else size_bytes
        item.ordinal = self.ordinal if ordinal is _SAME else ordinal
        return item


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """All that a connector needs to read one shard."""

    landing: Landing
    key: str
    path: str
    settings: SourceSettings
    defaults: Defaults
    hint: str | None  # the modality that the path names
    entries: tuple[Entry, ...] = ()  # the loose files, where the shard is a directory
    around: tuple[Entry, ...] = ()  # files of other shards that speak of them
    downloads: Downloads | None = None  # fetches what a shard only names; None: nothing may be fetched
    limit: int | None = None  # samples that will be taken; None: all. A connector may stop there, none must
    is_plain_taken: bool = False  # whether samples of the plainest form may be given as one `Plain` each
    siblings: tuple[Entry, ...] = ()  # the directory's files that other shards read, where it is in parts
    # (first bytes, name, way to the file) -> whether a loose file is a shard of its own; None: none is
    is_container: Callable[[bytes, str, Opener], bool] | None = None

    def open(self) -> IO[bytes]:
        """The shard's file."""
        return self.landing.open(self.path)

    def fault(
        self, code: int, reason: str, *, modality: str, member: str | None = None, content: Content | None = None
    ) -> RawItem:
        """The row that says that a part of the shard could not be read."""
        name = f"{self.key}/{printable(member or '')}!fault"
        role = "document" if modality == "text" else "media"
        return RawItem(
            modality=modality,
            role=role,
            ref=SourceRef(path=self.path, member=member),
            sample_id=name,
            content=content,
            fault=Fault(code, reason),
        )


def home_of_unknown(name: str, *, hint: str | None, common: str | None) -> str:
    """The modality whose table tells of content that nothing recognizes: by folder, then by the shard's commonest
    modality, then text."""
    folder = name.rpartition("/")[0]
    return (shards.hinted_modality(folder) if folder else None) or hint or common or "text"


def text_item(item: RawItem, text: str, role: str, **changes: Any) -> RawItem:
    """The item as a text row whose bytes are the text's UTF-8; unreadable where the text has none. changes: as for
    `RawItem.but`."""
    return become_text(item.but(**changes), text, role)


def become_text(item: RawItem, text: str, role: str) -> RawItem:
    """The same item, which nobody else has yet, made a text row as by `text_item`."""
    item.modality, item.role = "text", role
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        item.content, item.fault = None, Fault(1003, f"character {error.start} of the text is half of a surrogate pair")
        return item
    item.content_type = content_type = sniff.text_content_type(data)
    item.extension = TEXT_EXTENSIONS.get(content_type, "txt")
    item.content, item.size_bytes = _Held(data, text), len(data)
    return item


def holds_no_marks(text: str) -> bool:
    """Whether nothing in the text is what `decode_text` tells other encodings by: a mark at its start, zeros,
    escapes."""
    return text[:1] != "\ufeff" and "\0" not in text and "\x1b" not in text


def media_item(item: RawItem, kind: Kind, content: Content) -> RawItem:
    """The item as a media row with these bytes."""
    return item.but(
        modality=kind.modality or item.modality,
        role="media",
        content_type=kind.content_type,
        extension=kind.extension,
        content=content,
    )


def reader_of(text: str) -> TextReader:
    """A reader of a text that is in memory already."""
    return lambda: text


def licence_field(fields: Mapping[str, Any], settings: SourceSettings) -> str | None:
    """The record's own licence as it spells it, or None where it has none."""
    found = first_field(fields, settings.licence_fields)
    return None if found is None else str(fields[found])


def first_field(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The record's own spelling of the first of these names that it has with a value, compared without regard to
    case."""
    return first_of(fields, spellings(tuple(fields), names)[0])


def first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these fields that has a value."""
    for name in names:
        if fields[name] is not None:
            return name
    return None


def spellings(fields: tuple[str, ...], *groups: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """For each group of names, those that are among the fields, as the record spells them and in the order of the
    group."""
    # The records of a shard have few sets of fields; of keys that are data, which differ from record to record, none
    # are kept.
    is_kept = len(fields) <= 64 and sum(map(len, fields)) <= 4096
    return _spelled(fields, *groups) if is_kept else _spelled.__wrapped__(fields, *groups)


@lru_cache(maxsize=4096)
def _spelled(fields: tuple[str, ...], *groups: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    by_lower: dict[str, str] = {}
    for name in fields:
        by_lower.setdefault(name.lower(), name)
    return tuple(tuple(by_lower[name.lower()] for name in names if name.lower() in by_lower) for names in groups)
