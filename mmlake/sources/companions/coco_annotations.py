"""COCO annotation files, read as a stream into a temporary table on disk: `captions_*.json`, `instances_*.json` and
their like.

Enters: a JSON object with the lists images, annotations, licenses and categories in any order, of any size. Leaves: an
index that answers what is said of an image. Memory holds one element at a time; polygons and key points are passed over
unread.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.compression import MARK_BYTES, compression_of, expanded
from mmlake.landing import Landing
from mmlake.records import canonical_json
from mmlake.sources.companions.unzipped import open_entry
from mmlake.sources.companions.zip_entries import File
from mmlake.sources.settings import SourceSettings

SECTIONS = ("images", "annotations", "licenses", "categories")
_ABOUT_THE_FILE = frozenset({"info", "type"})  # known, and without items
# nine tenths of a file of instances, and no part of a row
_UNREAD = frozenset({"segmentation", "keypoints", "counts", "segments_info"})
_CACHE_KIB = 8192  # of SQLite; everything beyond it lies in the temporary directory
_INDEXES_KEPT = 4  # captions, instances, key points of one split and one more
_ANSWERS_KEPT = 64
_BATCH_ROWS = 1000
# captions, and as many objects: all rows of a sample are in memory, and no corpus has a thousand
_MAX_PER_IMAGE = 10_000
_BOM = b"\xef\xbb\xbf"
_TABLES = """
CREATE TABLE images (number INTEGER PRIMARY KEY, id TEXT, name TEXT, body TEXT, reason TEXT, is_first INTEGER);
CREATE TABLE annotations (number INTEGER PRIMARY KEY, id TEXT, image TEXT, kind TEXT, body TEXT, reason TEXT,
    is_first INTEGER);
CREATE TABLE licenses (number INTEGER PRIMARY KEY, id TEXT, body TEXT);
CREATE TABLE categories (number INTEGER PRIMARY KEY, id TEXT, body TEXT);
CREATE TABLE unread (number INTEGER PRIMARY KEY, reason TEXT);
"""
_INDICES = """
CREATE INDEX image_ids ON images (id);
CREATE INDEX image_names ON images (name);
CREATE INDEX annotation_ids ON annotations (id);
CREATE INDEX annotation_images ON annotations (image);
CREATE INDEX license_ids ON licenses (id);
CREATE INDEX category_ids ON categories (id);
UPDATE images SET is_first = NOT EXISTS (
    SELECT 1 FROM images AS earlier WHERE earlier.id = images.id AND earlier.number < images.number);
UPDATE annotations SET is_first = NOT EXISTS (
    SELECT 1 FROM annotations AS earlier WHERE earlier.id = annotations.id AND earlier.number < annotations.number);
"""
_LISTED = (
    "EXISTS (SELECT 1 FROM images WHERE images.id = annotations.image AND images.is_first AND images.reason IS NULL)"
)


@dataclass(frozen=True, slots=True)
class Annotation:
    """One element of the list of annotations."""

    number: int  # place in the list, from 0
    id: str | None
    image: str | None  # id of its image
    kind: str  # "caption", "object", "other" or "broken"
    body: str  # the caption, or the element as JSON
    reason: str | None = None  # why it is broken

    @property
    def pointer(self) -> str:
        """Where the body stands in the file (RFC 6901)."""
        return f"/annotations/{self.number}" + ("/caption" if self.kind == "caption" else "")


@dataclass(frozen=True, slots=True)
class Image:
    """One element of the list of images."""

    number: int
    id: str
    name: str  # of its file, without directories
    fields: dict[str, Any]


class Index:
    """What one annotation file says, by image."""

    def __init__(self, landing: Landing, entry: File, settings: SourceSettings) -> None:
        self._lock = threading.Lock()
        # An empty name: a database of this connection alone, in the temporary directory as soon as it outgrows the
        # cache.
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};{_TABLES}"
        )
        self.fault: Fault | None = None  # where the file stopped being readable
        try:
            self._fill(elements(landing, entry, settings))
        except UnreadableItem as error:
            counts = [self._value(f"SELECT count(*) FROM {section}") for section in SECTIONS[:2]]
            self.fault = Fault(error.code, f"{error.reason}; {counts[0]} images and {counts[1]} annotations were read")
        self._database.executescript(_INDICES)

    def _fill(self, found: Iterator[tuple[str, int, Any]]) -> None:
        waiting: dict[str, list[tuple[Any, ...]]] = {section: [] for section in _ROWS}
        try:
            for section, number, element in found:
                rows = waiting[section]
                rows.append(_ROWS[section](number, element))
                if len(rows) == _BATCH_ROWS:
                    self._write(section, rows)
        finally:
            for section, rows in waiting.items():
                self._write(section, rows)

    def _write(self, section: str, rows: list[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany(f"INSERT INTO {section} VALUES ({_MARKS[section]})", rows)
        self._database.execute("COMMIT")
        rows.clear()

    def _select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def _value(self, sql: str, *values: object) -> Any:
        return self._select(sql, *values)[0][0]

    def _pages(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query over `number`, some at a time, so that others may ask in between and memory stays
        small."""
        last = -1
        while rows := self._select(f"{sql} AND number > ? ORDER BY number LIMIT {_BATCH_ROWS}", *values, last):
            yield from rows
            last = rows[-1][0]

    @property
    def num_images(self) -> int:
        """Entries of the list of images."""
        return int(self._value("SELECT count(*) FROM images"))

    def images_named(self, name: str) -> list[Image]:
        """The entries for a file of that name, in the file's order."""
        rows = self._select(
            "SELECT number, id, name, body FROM images WHERE name = ? AND is_first AND reason IS NULL ORDER BY number",
            name,
        )
        return [Image(number, identity, name, json.loads(body)) for number, identity, name, body in rows]

    def names(self) -> Iterator[tuple[int, str, str]]:
        """(number, id, file name) of every image that has one, in order."""
        return self._pages("SELECT number, id, name FROM images WHERE is_first AND reason IS NULL")

    def annotations_of(self, image: str, kind: str) -> list[Annotation]:
        """What is said of the image, in the file's order, as far as it is not `beyond`."""
        sql = (
            "SELECT number, id, image, kind, body FROM annotations WHERE image = ? AND kind = ? AND is_first ORDER BY "
            "number LIMIT ?"
        )
        return [Annotation(*row) for row in self._select(sql, image, kind, _MAX_PER_IMAGE)]

    def beyond(self) -> Iterator[tuple[Annotation, str]]:
        """(annotation, reason) of what is said of images of which more is said than one sample may hold."""
        # Written down first: the pages of a query each make its inner ones anew.
        self._select(
            "CREATE TEMPORARY TABLE IF NOT EXISTS crowded AS SELECT image FROM annotations GROUP BY image HAVING "
            "count(*) > ?",
            _MAX_PER_IMAGE,
        )
        counts = Counter[tuple[str | None, str]]()
        sql = (
            "SELECT number, id, image, kind, body FROM annotations WHERE is_first AND kind IN ('caption', 'object') "
            f"AND image IN (SELECT image FROM crowded) AND {_LISTED}"
        )
        for found in (Annotation(*row) for row in self._pages(sql)):
            counts[found.image, found.kind] += 1
            if counts[found.image, found.kind] > _MAX_PER_IMAGE:
                yield (
                    found,
                    f"num_{found.kind}s>{_MAX_PER_IMAGE} not in [0, {_MAX_PER_IMAGE}] of image {str(found.image)[:60]}",
                )

    def broken_images(self) -> Iterator[tuple[int, str, str]]:
        """(number, reason, JSON) of entries that say nothing usable, or repeat an id."""
        for number, body, reason, identity in self._pages(
            "SELECT number, body, reason, id FROM images WHERE (NOT is_first OR reason IS NOT NULL)"
        ):
            yield number, reason or f"images/{number} repeats the id {identity[:60]}", body

    def broken_annotations(self) -> Iterator[tuple[Annotation, str]]:
        """(annotation, reason) of those that say nothing usable, or repeat an id."""
        for row in self._pages(
            "SELECT number, id, image, kind, body, reason FROM annotations WHERE (NOT is_first OR kind = 'broken')"
        ):
            found = Annotation(*row)
            yield found, found.reason or f"annotations/{found.number} repeats the id {str(found.id)[:60]}"

    def strays(self) -> Iterator[Annotation]:
        """Annotations of images that the file does not list, or lists without a name."""
        sql = (
            "SELECT number, id, image, kind, body FROM annotations WHERE is_first AND kind != 'broken' AND NOT "
            f"{_LISTED}"
        )
        return (Annotation(*row) for row in self._pages(sql))

    def num_other(self) -> int:
        """Annotations that are neither a caption nor a box."""
        return int(self._value("SELECT count(*) FROM annotations WHERE kind = 'other'"))

    def unread_sections(self) -> Iterator[tuple[int, str]]:
        """(place among the file's sections, reason) of every list that is not read, and of images and annotations
        that are none."""
        return self._pages("SELECT number, reason FROM unread WHERE TRUE")

    def licence(self, identity: object) -> dict[str, Any] | None:
        """The licence of that id: id, name, url."""
        rows = self._select("SELECT body FROM licenses WHERE id = ? ORDER BY number LIMIT 1", _identity(identity))
        return json.loads(rows[0][0]) if rows else None

    def category(self, identity: object) -> str | None:
        """The name of the category."""
        rows = self._select("SELECT body FROM categories WHERE id = ? ORDER BY number LIMIT 1", _identity(identity))
        name = json.loads(rows[0][0]).get("name") if rows else None
        return name if isinstance(name, str) else None

    def body(self, section: str, number: int) -> str | None:
        """The caption, or the element as JSON, at that place of images or annotations."""
        rows = self._select(
            f"SELECT body FROM {'images' if section == 'images' else 'annotations'} WHERE number = ?", number
        )
        return rows[0][0] if rows else None


def _identity(value: object) -> str | None:
    """The one spelling of an id: files mix 9, 9.0 and "9"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _image_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    identity, path = _identity(fields.get("id")), fields.get("file_name")
    name = path.replace("\\", "/").rpartition("/")[2] if isinstance(path, str) else ""
    reason = None if identity is not None and name else f"images/{number} has no id or no file_name"
    return number, identity, name or None, canonical_json(element), reason


def _annotation_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    identity, image = _identity(fields.get("id")), _identity(fields.get("image_id"))
    caption = fields.get("caption")
    if image is None:
        return number, identity, image, "broken", canonical_json(element), f"annotations/{number} has no image_id"
    if "caption" in fields:
        if isinstance(caption, str) and caption.strip():
            return number, identity, image, "caption", caption, None
        return (
            number,
            identity,
            image,
            "broken",
            canonical_json(element),
            f"annotations/{number} has an empty caption, or one that is no text",
        )
    return (
        number,
        identity,
        image,
        "object" if isinstance(fields.get("bbox"), list) else "other",
        canonical_json(element),
        None,
    )


def _named_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    return number, _identity(fields.get("id")), canonical_json(fields)


_ROWS = {
    "images": _image_row,
    "annotations": _annotation_row,
    "licenses": _named_row,
    "categories": _named_row,
    "unread": lambda number, reason: (number, reason),
}
_MARKS = {
    "images": "?,?,?,?,?,NULL",
    "annotations": "?,?,?,?,?,?,NULL",
    "licenses": "?,?,?",
    "categories": "?,?,?",
    "unread": "?,?",
}


class _Source:
    """The stream as the parser reads it; refuses to read on where one element takes more bytes than a text may."""

    def __init__(self, stream: IO[bytes], limit_bytes: int) -> None:
        self._stream, self._limit, self._since, self.num_bytes, self.ended = stream, limit_bytes, 0, 0, False

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.num_bytes += len(data)
        self._since += len(data)
        self.ended = self.ended or (not data and size != 0)
        if self._since > self._limit:
            raise UnreadableItem(1008, f"element_bytes>={self._since} not in [0, {self._limit}]")
        return data

    def mark(self) -> None:
        """An element ends here."""
        self._since = 0


def elements(landing: Landing, entry: File, settings: SourceSettings) -> Iterator[tuple[str, int, Any]]:
    """(section, place in it, element) of the file's lists; ("unread", place among the sections, reason) of one that
    is not read. Raises UnreadableItem where it breaks."""
    import ijson

    with open_entry(landing, entry) as file:
        head = file.read(MARK_BYTES)
        file.seek(0)
        compression = compression_of(head)
        stream = expanded(file, compression, limit_bytes=settings.max_shard_bytes) if compression else file
        if head.startswith(_BOM):
            file.seek(len(_BOM))
        source = _Source(stream, settings.max_text_bytes)
        try:
            yield from _walk(ijson.basic_parse(source, use_float=True), source, settings.max_json_depth)
        except (ijson.JSONError, ValueError, OverflowError) as error:
            code, what = (1002, "the JSON stops before its end") if source.ended else (1001, "the JSON is damaged")
            raise UnreadableItem(code, f"{what} within the first {source.num_bytes} bytes") from error


def _walk(events: Iterator[tuple[str, Any]], source: _Source, max_depth: int) -> Iterator[tuple[str, int, Any]]:
    if _next(events)[0] != "start_map":
        raise UnreadableItem(1003, "the file holds no JSON object")
    seen: set[str] = set()
    for place, (event, key) in enumerate(events):
        if event == "end_map":
            continue
        event, value = _next(events)
        is_known = key in SECTIONS
        if event != "start_array":
            _skip(events, event)
            source.mark()
            if is_known and event != "null":
                yield "unread", place, f"the section {key} is no list and is not read"
            continue
        num_unread = 0
        for number, (event, value) in enumerate(events):
            if event == "end_array":
                break
            if is_known and key not in seen:
                yield key, number, _built(events, event, value, max_depth)
            else:
                _skip(events, event)
                num_unread += 1
            source.mark()
        if is_known and key in seen:
            yield (
                "unread",
                place,
                f"the section {key} stands in the file before; the {num_unread} elements of this one are not read",
            )
        elif is_known:
            seen.add(key)
        elif key not in _ABOUT_THE_FILE:
            yield (
                "unread",
                place,
                f"the section {key[:60]!r} is none that COCO has; its {num_unread} elements are not read",
            )


def _next(events: Iterator[tuple[str, Any]]) -> tuple[str, Any]:
    for event in events:
        return event
    raise UnreadableItem(1002, "the JSON stops before its end")


def _skip(events: Iterator[tuple[str, Any]], event: str) -> None:
    """Pass over a value whose first event was taken."""
    if event not in ("start_map", "start_array"):
        return
    depth = 1
    for event, _ in events:
        if event == "number":  # polygons: nearly every event of a file of instances
            continue
        if event in ("start_map", "start_array"):
            depth += 1
        elif event in ("end_map", "end_array"):
            depth -= 1
            if not depth:
                return


def _built(events: Iterator[tuple[str, Any]], event: str, value: Any, depth: int) -> Any:
    """The value whose first event was taken; numbers beyond the range of a float are null."""
    if event == "start_map":
        fields: dict[str, Any] = {}
        for event, key in events:
            if event == "end_map":
                return fields
            event, value = _next(events)
            if key in _UNREAD:
                _skip(events, event)
            else:
                fields[key] = _built(events, event, value, _deeper(depth))
    if event == "start_array":
        values: list[Any] = []
        for event, value in events:
            if event == "end_array":
                return values
            values.append(_built(events, event, value, _deeper(depth)))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _deeper(depth: int) -> int:
    if not depth:
        raise UnreadableItem(1003, "an element is nested deeper than the settings allow")
    return depth - 1


_INDEXES: OrderedDict[tuple[object, ...], Index] = OrderedDict()
_CAPTIONED: OrderedDict[tuple[object, ...], bool] = OrderedDict()
_INDEXING = threading.Lock()


def index_of(landing: Landing, entry: File, settings: SourceSettings) -> Index:
    """The index of the file, made once for all parts of a directory that this process reads one after the other."""
    key = _key(landing, entry, settings)
    with _INDEXING:
        if key not in _INDEXES:
            _INDEXES[key] = Index(landing, entry, settings)
        _INDEXES.move_to_end(key)
        while len(_INDEXES) > _INDEXES_KEPT:
            _INDEXES.popitem(last=False)
        return _INDEXES[key]


def holds_captions(landing: Landing, entry: File, settings: SourceSettings) -> bool:
    """Whether the file's first annotation that says anything of an image is a caption; reads no further, and once."""
    key = _key(landing, entry, settings)
    with _INDEXING:
        if key not in _CAPTIONED:
            _CAPTIONED[key] = _first_is_caption(landing, entry, settings)
        while len(_CAPTIONED) > _ANSWERS_KEPT:
            _CAPTIONED.popitem(last=False)
        return _CAPTIONED[key]


def _key(landing: Landing, entry: File, settings: SourceSettings) -> tuple[object, ...]:
    return (landing.location, entry, settings.max_text_bytes, settings.max_shard_bytes, settings.max_json_depth)


def _first_is_caption(landing: Landing, entry: File, settings: SourceSettings) -> bool:
    try:
        for section, _, element in elements(landing, entry, settings):
            if section == "annotations" and isinstance(element, dict) and ("caption" in element or "bbox" in element):
                return "caption" in element
    except UnreadableItem:
        return False
    return False
