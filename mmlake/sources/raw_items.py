"""The two forms of a thing that a source holds: a `Member`, which is a place of bytes, and a `RawItem`, which is on its
way to a row, good or bad. Both have a way to the bytes that reads nothing yet."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any, Final, Protocol, Self

from mmlake.download.results import Downloads
from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff, texts
from mmlake.formats.compression import compression_of, expanded, expanded_head
from mmlake.formats.label_files import begins_as_labels
from mmlake.formats.sniff import Kind
from mmlake.formats.texts import printable
from mmlake.landing import Entry, Landing
from mmlake.media_names import COMPANION_NAMES
from mmlake.records import Digest, SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.names import LONG
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Defaults
from mmlake.streams import View, read_up_to

Opener = Callable[[], IO[bytes]]
# digest and size of a loose file that did not change since it was read
BlobOf = Callable[[Entry], tuple[Digest, int] | None]
TEXT_EXTENSIONS = {"text/html": "html", "text/vtt": "vtt", "application/x-subrip": "srt"}
# content types of texts with times
TIMED = frozenset(["application/x-subrip", "text/vtt", *sniff.TIMED_NAMES.values()])
TextReader = Callable[[], str | None]  # a text that came with a media item; None where it cannot be read
# packed files whose members are not read
ARCHIVES = ("application/zip", "application/x-7z-compressed", "application/vnd.rar")
LABELS = ("cls", "id", "index")  # small members that describe the sample: a class, an id, a number
# texts that say something of a medium, but to programs: settings, checksums, places, phones, landmarks, numbers
ASIDE = LONG.union(
    "dat cfg ini properties toml yaml yml log nfo md5 sha1 sha256 xmp prj tfw jgw pgw wld phn wrd pts box rttm uem trs "
    "json3 srv1 srv2 srv3 cue m3u m3u8 pls sfv ffp accurip idx sub aae class cls2 count inx metadata".split()
)
_WORDS = frozenset([*COMPANION_NAMES, "text", "html", "htm", "json", "jsonl", "md"])  # whose texts are for people
_TIMES = re.compile(rb"\s*\d+(?:\.\d+)?[ \t]+\d+(?:\.\d+)?[ \t]+\S")  # of labels, as HTK has them
_ASIDE_BYTES = 1 << 16
EMPTY: Final = Fault(1006, "size_bytes=0 not in [1, inf)")
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_nothing = lambda: NOTHING
_NEW_REF: Final = tuple.__new__  # a third of what the call of a named tuple takes, and every row has a locator


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

    def whole(self, limit_bytes: int, size_bytes: int = 0) -> bytes:
        """All bytes. size_bytes: as the source says. Raises UnreadableItem, 1008 past the limit."""
        data = self.head(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise UnreadableItem(1008, f"size_bytes={max(size_bytes, len(data))} not in [0, {limit_bytes}]")
        return data

    def read(self, limit_bytes: int | None = None) -> bytes:
        """The bytes, or those before decompression where that fails: what an ingest stores. Raises UnreadableItem
        where there are none, 1008 past the limit."""
        try:
            with self.open() as stream:
                return within(stream, limit_bytes)
        except UnreadableItem as error:
            if self.raw is None or error.code == 1008:
                raise
            with self.raw() as stream:
                return within(stream, limit_bytes)


def within(stream: IO[bytes], limit_bytes: int | None) -> bytes:
    """All that is left of the stream. Raises UnreadableItem 1008 past the limit."""
    if limit_bytes is None:
        return stream.read()
    data = read_up_to(stream, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise UnreadableItem(1008, f"size_bytes>{limit_bytes} not in [0, {limit_bytes}]")
    return data


class _Held(Content):
    """Bytes that are in memory already."""

    __slots__ = ("_data", "text")
    raw = stored = None

    def __init__(self, data: bytes | memoryview, text: str | None = None) -> None:
        self._data, self.text = data, text

    def open(self) -> IO[bytes]:
        return io.BytesIO(self._data) if isinstance(self._data, bytes) else io.BufferedReader(View(self._data))

    def first(self, size_bytes: int) -> bytes:
        data = self._data
        return data if size_bytes >= len(data) and isinstance(data, bytes) else bytes(data[:size_bytes])


class Member(Content):
    """A place of bytes and the way to them: a member of an archive or a file of a directory, with what its first bytes
    say of it. What follows from its kind is found once: a shard has up to millions. A class per format opens it."""

    __slots__ = (
        "_extension", "expanded", "fault", "file", "is_apart", "is_json", "is_label", "is_media", "is_range",
        "is_readable", "is_whole", "kind", "known", "label", "modality", "name", "notes", "path", "size_bytes",
        "start", "stem",
    )  # fmt: skip
    raw = text = None
    stored: tuple[str, int] | None = None

    def __init__(self, name: str, stem: str, size_bytes: int, path: str, label: str | None, file: Any) -> None:
        """name: with its folder. stem: what its sample is called. path: of the file in the landing zone that it lies
        in, or is. label: what locators call it in there; None for a file by itself. file: what its format reads."""
        self.name, self.stem, self.size_bytes, self.path, self.label, self.file = (
            name, stem, size_bytes, path, label, file
        )  # fmt: skip
        self.start, self.is_range = 0, False  # where its bytes begin; whether they lie there as they are
        self.known, self.is_whole = b"", False  # its first bytes, as far as they were read; whether those are all
        self._extension: str | None = None
        self.is_apart = False  # whether it lies in another folder than its sample, whose label it may be
        self.notes: Mapping[str, Any] = NOTHING  # what its row says of itself

    def classify(
        self,
        kind: Kind | None,
        fault: Fault | None = None,
        *,
        is_readable: bool = True,
        expanded: Content | None = None,
    ) -> Self:
        """The same member, whose kind is known now. expanded: the way to what it holds, where it is compressed."""
        self.kind, self.fault, self.is_readable, self.expanded = kind, fault, is_readable, expanded
        self.modality = modality = None if kind is None else kind.modality
        self.is_media = modality is not None and modality != "text"
        self.is_json = self.is_label = False
        if not self.is_media and fault is None:
            self.is_json = modality == "text" and self.extension == "json"
            self.is_label = self.extension in LABELS and (kind is None or kind.content_type == "text/plain")
        return self

    def classify_by(self, head: bytes, settings: SourceSettings) -> Self:
        """The same by its first HEAD_BYTES, or all; a compressed member counts as what it holds."""
        # what begins as records do is not compressed
        compression = compression_of(head) if head[:1] != b"{" else None
        if compression is not None:
            limit, open_raw = settings.max_item_bytes, self.open
            with open_raw() as file:
                inner = expanded_head(file, compression, size_bytes=sniff.HEAD_BYTES)
            content = Content(lambda: expanded(open_raw(), compression, limit_bytes=limit), open_raw)
            self.is_range = False
            return self.classify(sniff.kind_of(inner, self.name), expanded=content)
        kind = sniff.kind_of(head, self.name, stream=self.open, extension=self.extension)
        if not self.size_bytes and (kind is None or kind.modality != "text") and self.extension not in LABELS:
            return self.classify(kind, EMPTY)
        return self.classify(kind)

    @property
    def content(self) -> Content | None:
        """The way to the bytes of the item; None where they are not to be read."""
        return (self.expanded or self) if self.is_readable else None

    @property
    def extension(self) -> str:
        """That of the name."""
        if self._extension is None:
            self._extension = sniff.extension_of(self.name)
        return self._extension

    @property
    def is_aside(self) -> bool:
        """Whether the text is written for programs, next to a medium. Raises UnreadableItem."""
        extension = self.extension
        is_timed = self.kind is not None and self.kind.content_type in TIMED
        if extension in ASIDE or extension in _WORDS or is_timed:
            return extension in ASIDE and not is_timed
        head = self.first(sniff.HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        if extension == "lab":
            return _TIMES.match(head) is not None
        if self.size_bytes > _ASIDE_BYTES:  # a chapter, or a notebook, is no note on a picture
            return False
        is_markup = head[:5] == b"<?xml" and not begins_as_labels(head, extension, is_whole=False)
        return is_markup or (head[:1] == b"{" and head[1:].lstrip()[:1] == b'"')

    def label_limit(self, small_bytes: int) -> int:
        """Bytes that are read of it where it is a label. small_bytes: of a class, an id, a number."""
        return small_bytes if self.extension in LABELS else _ASIDE_BYTES

    def locate(self, pointer: str) -> SourceRef:
        """The locator of the member, or of a text inside it: a JSON pointer or what stands for one."""
        if pointer:
            return _NEW_REF(SourceRef, (self.path, f"{self.label or ''}#{pointer}", None, None, None))
        if self.is_range:
            return _NEW_REF(SourceRef, (self.path, self.label, self.start, self.size_bytes, None))
        return _NEW_REF(SourceRef, (self.path, self.label, None, None, None))

    def forget(self) -> None:
        """Let the first bytes go."""
        self.known, self.is_whole = b"", False

    def first(self, size_bytes: int) -> bytes:
        """So many of its first bytes."""
        known = self.known
        return known[:size_bytes] if size_bytes <= len(known) or self.is_whole else self.fetch(size_bytes)

    def fetch(self, size_bytes: int) -> bytes:
        """The same, of which not all are known."""
        with self.open() as stream:
            return read_up_to(stream, size_bytes)

    def open(self) -> IO[bytes]:
        """The member's bytes as they lie."""
        raise NotImplementedError


@dataclass(slots=True)  # not frozen: readers fill it in as they learn of the item, and nobody else changes one
class RawItem:
    """One occurrence of one item, from its member to its row."""

    modality: str
    ref: SourceRef
    sample_id: str  # unique in the landing zone: it begins with the key of the file, or of the directory
    position: int = 0
    role: str = "media"
    content_type: str | None = None
    extension: str = "bin"
    content: Content | None = None  # None where no bytes can be had
    size_bytes: int = 0  # as the source says, until the bytes are read
    metadata: Mapping[str, Any] = field(default_factory=_nothing)  # of the whole sample
    own: Mapping[str, Any] = field(default_factory=_nothing)  # of this row alone
    licence: str | None = None  # of the record; None: that of the directory
    fault: Fault | None = None
    paired_texts: tuple[TextReader, ...] = ()  # captions and transcripts of the same sample, for media
    paired_role: str | None = None  # what they are to the medium
    charset: str | None = None  # of a text: what whoever sent it declares; once decoded, what it is other than UTF-8
    ordinal: int = -1  # in the whole shard, from 0; set by `read`
    digest: str | None = None  # of the bytes, once they are in the store
    text: str | None = None  # of a text, once its bytes are decoded

    def replace(self, **changes: Any) -> RawItem:
        """The item with other values in these fields: every row would pay ten times that to `dataclasses.replace`."""
        item = RawItem(
            self.modality, self.ref, self.sample_id, self.position, self.role, self.content_type, self.extension,
            self.content, self.size_bytes, self.metadata, self.own, self.licence, self.fault, self.paired_texts,
            self.paired_role, self.charset, self.ordinal, self.digest, self.text,
        )  # fmt: skip
        for name, value in changes.items():
            setattr(item, name, value)
        return item

    def read_text(self, settings: SourceSettings) -> None:
        """Note the text of the item. Raises UnreadableItem: 1008 past the limit, 1004 where the bytes are no text."""
        content = self.content
        assert content is not None
        if content.text is not None and self.size_bytes <= settings.max_text_bytes:  # its bytes were made from it
            self.text, self.charset = content.text, None
            return
        data = content.whole(settings.max_text_bytes, self.size_bytes)
        self.size_bytes = len(data)
        self.decode(data, settings)

    def decode(self, data: bytes, settings: SourceSettings) -> None:
        """Note the text that these bytes of the item are, and their charset where it is not UTF-8. Raises
        UnreadableItem 1004."""
        declared, self.charset = self.charset, None
        if self.content is not None and self.content.text is not None:
            self.text = self.content.text
            return
        least = settings.min_charset_confidence
        self.text, encoding = texts.decode_text(data, declared=declared, min_confidence=least)
        self.charset = None if encoding in ("utf-8", "utf-8-sig") else encoding


class InnerTable(Protocol):
    """A member of an archive that is a table of records."""

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that its rows may have."""

    def items(self) -> Iterator[RawItem]:
        """The rows of its records. Where the member breaks, a last one says so."""


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
    around: tuple[Entry, ...] = ()  # files of other shards that describe them
    downloads: Downloads | None = None  # fetches what a shard only names; None: nothing may be fetched
    limit: int | None = None  # samples that will be taken; None: all. A connector may stop there, none must
    parsed: ParsedFiles = field(default_factory=ParsedFiles)  # of the owner of the reading, or of it alone
    blob_of: BlobOf | None = None
    # (first bytes, name, way to the file) -> whether a loose file is a shard of its own; None: none is
    is_container: Callable[[bytes, str, Opener], bool] | None = None
    # (member of an archive, the members of its sample) -> the table that it is; None: members are no tables
    inner_table: Callable[[Member, list[Member], Reading], InnerTable | None] | None = None

    @property
    def home(self) -> str:
        """The modality of what does not say its own: that of the path, else text."""
        return self.hint or "text"

    def open(self) -> IO[bytes]:
        """The shard's file."""
        return self.landing.open(self.path)

    def fault(
        self, code: int, reason: str, *, modality: str, member: str | None = None, content: Content | None = None
    ) -> RawItem:
        """The row that says that a part of the shard could not be read."""
        name = f"{self.key}/{printable(member or '')}!fault"
        return RawItem(
            modality=modality,
            role=role_of(modality),
            ref=SourceRef(path=self.path, member=member),
            sample_id=name,
            content=content,
            fault=Fault(code, reason),
        )

    def empty(self, modality: str = "text", *, what: str = "size_bytes") -> RawItem:
        """The row that says that the shard's file has nothing in it. what: of which it has none."""
        return self.fault(1006, f"{what}=0 not in [1, inf)", modality=modality, content=Content(self.open))


def item_id_of(key: str, ordinal: int) -> str:
    """The name of the row of the shard's item with that ordinal, unique in the lake. key: of the shard."""
    return f"{key}#{ordinal:06d}"


def role_of(modality: str) -> str:
    """The role of a row of which nothing more is known."""
    return "document" if modality == "text" else "media"


def home_of_unknown(name: str, *, hint: str | None, common: str | None) -> str:
    """The modality whose table has the row of content that nothing recognizes: by folder, then by the shard's commonest
    modality, then text."""
    folder = name.rpartition("/")[0]
    return (shards.hinted_modality(folder) if folder else None) or hint or common or "text"


def become_text(item: RawItem, text: str, role: str) -> RawItem:
    """The same item, which nobody else has yet, made a text row whose bytes are the text's UTF-8; unreadable where the
    text has none."""
    item.modality, item.role = "text", role
    try:
        data = texts.encoded(text)
    except UnreadableItem as error:
        item.content, item.fault = None, Fault.of(error)
        return item
    item.content_type = content_type = sniff.text_content_type(data)
    item.extension = TEXT_EXTENSIONS.get(content_type, "txt")
    item.content, item.size_bytes = _Held(data, text), len(data)
    return item


def record_endings(extensions: Iterable[str]) -> tuple[str, ...]:
    """What the names of records with these extensions end with, in lower case."""
    return tuple(f".{one.lower().lstrip('.')}" for one in extensions)


def reader_of(text: str) -> TextReader:
    """A reader of a text that is in memory already."""
    return lambda: text
