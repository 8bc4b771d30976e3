"""What one COCO annotation file says, by image, in tables on disk, so that memory stays small however large the file
is."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.coco import SECTIONS, claims, elements
from mmlake.formats.json_elements import BOM
from mmlake.landing import Landing
from mmlake.records import canonical_json
from mmlake.sources.companions.archives import File, open_file
from mmlake.sources.names import composed
from mmlake.sources.parsed_files import Kind
from mmlake.sources.raw_items import Reading
from mmlake.sources.records.lines import expanded_stream, head_reader
from mmlake.sources.records.scratch import ScratchTables

# captions, and as many objects: all rows of a sample are in memory, and no corpus has a thousand
_MAX_PER_IMAGE = 10_000
# code: that of what no image takes, see `left_over`
_TABLES = """
CREATE TABLE images (number INTEGER PRIMARY KEY, id TEXT, name TEXT, body TEXT, reason TEXT, code INTEGER, folder TEXT);
CREATE TABLE annotations (number INTEGER PRIMARY KEY, id TEXT, image TEXT, kind TEXT, body TEXT, reason TEXT,
    code INTEGER);
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
UPDATE images SET code = 1003 WHERE reason IS NOT NULL OR EXISTS (
    SELECT 1 FROM images AS earlier WHERE earlier.id = images.id AND earlier.number < images.number);
UPDATE annotations SET code = 1003 WHERE kind = 'broken' OR EXISTS (
    SELECT 1 FROM annotations AS earlier WHERE earlier.id = annotations.id AND earlier.number < annotations.number);
UPDATE annotations SET code = 1011 WHERE code IS NULL AND NOT EXISTS (
    SELECT 1 FROM images WHERE images.id = annotations.image AND images.code IS NULL);
UPDATE annotations SET code = 1008 WHERE number IN (SELECT number FROM (
    SELECT number, row_number() OVER (PARTITION BY image, kind ORDER BY number) AS place FROM annotations
    WHERE code IS NULL AND kind IN ('caption', 'object')
    AND image IN (SELECT image FROM annotations GROUP BY image HAVING count(*) > {limit})
) WHERE place > {limit});
"""


def is_coco(landing: Landing, entry: File) -> bool:
    """Whether the file is one of annotations, by its first bytes, whatever it is called."""
    if sniff.extension_of(entry.name) != "json":
        return False
    try:
        with open_file(landing, entry) as file:
            head = file.read(sniff.HEAD_BYTES)
        return claims(head_reader(head, lambda: open_file(landing, entry))(sniff.HEAD_BYTES), entry.name)
    except UnreadableItem:
        return False


class Element(NamedTuple):
    """One element of the list of annotations, or of that of images."""

    number: int  # place in the list, from 0
    id: str | None
    image: str | None  # id of the image that is annotated
    kind: str  # "caption", "object", "other" or "broken"; "image" of one of the list of images
    body: str  # the caption, or the element as JSON
    reason: str | None = None  # why it is broken

    @property
    def pointer(self) -> str:
        """Where the body stands in the file (RFC 6901)."""
        section = "images" if self.kind == "image" else "annotations"
        return f"/{section}/{self.number}" + ("/caption" if self.kind == "caption" else "")


_ANNOTATION = "SELECT number, id, image, kind, body, reason FROM annotations WHERE"


class CocoIndex:
    """What one annotation file says, by image."""

    def __init__(self, found: Iterator[tuple[str, int, Any]]) -> None:
        """found: (section, place in it, element), as `elements` gives them."""
        self._tables = ScratchTables(_TABLES)
        self.fault: Fault | None = None  # where the file stopped being readable
        try:
            for section, number, element in found:
                self._tables.add(section, _ROWS[section](number, element))
        except UnreadableItem as error:
            self.fault = Fault.of(error)
        self._tables.finish(_INDICES.format(limit=_MAX_PER_IMAGE))
        if self.fault is not None:
            counts = [self._tables.value(f"SELECT count(*) FROM {section}") for section in SECTIONS[:2]]
            reason = f"{self.fault.reason}; {counts[0]} images and {counts[1]} annotations were read"
            self.fault = Fault(self.fault.code, reason)

    @property
    def num_images(self) -> int:
        """Entries of the list of images."""
        return int(self._tables.value("SELECT count(*) FROM images"))

    def images_named(self, name: str, folders: Collection[str], *, or_any: bool) -> list[tuple[str, dict[str, Any]]]:
        """(id, fields) of the entries for a file of that name in one of the folders, in the file's order. or_any: where
        there are none, those in any other."""
        sql = "SELECT id, body, folder FROM images WHERE name = ? AND code IS NULL ORDER BY number"
        rows = list(self._tables.select(sql, composed(name)))
        named = [row for row in rows if row[2] in folders] or (rows if or_any else [])
        return [(identity, json.loads(body)) for identity, body, _ in named]

    def names(self) -> Iterator[tuple[int, str, str, str]]:
        """(number, id, file name, folder) of every image that has one, in order."""
        return self._tables.pages("SELECT number, id, name, folder FROM images WHERE code IS NULL")

    def annotations_of(self, image: str, kind: str) -> list[Element]:
        """What is said of the image, in the file's order, as far as one sample may hold it."""
        sql = f"{_ANNOTATION} image = ? AND kind = ? AND code IS NULL ORDER BY number"
        return [Element(*row) for row in self._tables.select(sql, image, kind)]

    def left_over(self) -> Iterator[tuple[Element, Fault]]:
        """Every element that no image takes, whichever are there: those that say nothing usable or repeat an id,
        annotations of images that the file does not list or lists without a name, and what is beyond a sample."""
        for number, identity, body, reason in self._tables.pages(
            "SELECT number, id, body, reason FROM images WHERE code IS NOT NULL"
        ):
            reason = reason or f"images/{number} repeats the id {identity[:60]}"
            yield Element(number, None, None, "image", body), Fault(1003, reason)
        for code in (1003, 1011, 1008):
            for row in self._tables.pages(f"{_ANNOTATION} code = ?", code):
                found = Element(*row)
                yield found, Fault(code, _why_left(found, code))

    def num_other(self) -> int:
        """Annotations that are neither a caption nor a box."""
        return int(self._tables.value("SELECT count(*) FROM annotations WHERE kind = 'other'"))

    def unread_sections(self) -> Iterator[tuple[int, str]]:
        """(place among the file's sections, reason) of every list that is not read, and of images and annotations
        that are none."""
        return self._tables.pages("SELECT number, reason FROM unread WHERE TRUE")

    def licence(self, identity: object) -> dict[str, Any] | None:
        """The licence of that id: id, name, url."""
        return self._named("licenses", identity)

    def category(self, identity: object) -> str | None:
        """The name of the category."""
        name = (self._named("categories", identity) or {}).get("name")
        return name if isinstance(name, str) else None

    def _named(self, section: str, identity: object) -> dict[str, Any] | None:
        sql = f"SELECT body FROM {section} WHERE id = ? ORDER BY number LIMIT 1"
        body = self._tables.value(sql, _identity(identity))
        return json.loads(body) if body is not None else None

    def body(self, section: str, number: int) -> str | None:
        """The caption, or the element as JSON, at that place of images or annotations."""
        table = "images" if section == "images" else "annotations"
        found: str | None = self._tables.value(f"SELECT body FROM {table} WHERE number = ?", number)
        return found


def _why_left(found: Element, code: int) -> str:
    """Why no image takes the annotation. code: as the index has it."""
    image = str(found.image)[:60]
    if code == 1003:
        return found.reason or f"annotations/{found.number} repeats the id {str(found.id)[:60]}"
    if code == 1011:
        return f"annotations/{found.number} is of image {image}, which the file does not list by name"
    return f"num_{found.kind}s>{_MAX_PER_IMAGE} not in [0, {_MAX_PER_IMAGE}] of image {image}"


# Captions, instances, key points and the like of several splits.
_INDEXES: Kind[CocoIndex] = Kind(max_size=16)
_HOLDS_CAPTIONS: Kind[bool] = Kind(max_size=64)


def index_of(reading: Reading, entry: File) -> CocoIndex:
    """The index of the file, made once for all shards that one owner reads."""
    return reading.parsed.get(_INDEXES, _key(reading, entry), lambda: CocoIndex(_elements(reading, entry)))


def holds_captions(reading: Reading, entry: File) -> bool:
    """Whether the file's first annotation that says anything of an image is a caption; reads no further, and once."""
    return reading.parsed.get(_HOLDS_CAPTIONS, _key(reading, entry), lambda: _first_is_caption(reading, entry))


def _key(reading: Reading, entry: File) -> tuple[object, ...]:
    limits = reading.settings
    return (reading.landing.location, entry, limits.max_text_bytes, limits.max_shard_bytes, limits.max_json_depth)


def _first_is_caption(reading: Reading, entry: File) -> bool:
    try:
        for section, _, element in _elements(reading, entry):
            if section == "annotations" and isinstance(element, dict) and ("caption" in element or "bbox" in element):
                return "caption" in element
    except UnreadableItem:
        return False
    return False


def _elements(reading: Reading, entry: File) -> Iterator[tuple[str, int, Any]]:
    limits = reading.settings
    with open_file(reading.landing, entry) as file:
        stream = expanded_stream(file, limits)
        if stream is file and file.read(len(BOM)) != BOM:
            file.seek(0)
        yield from elements(stream, max_element_bytes=limits.max_text_bytes, max_depth=limits.max_json_depth)


def _identity(value: object) -> str | None:
    """The one spelling of an id: files mix 9, 9.0 and "9"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _image_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    identity, path = _identity(fields.get("id")), fields.get("file_name")
    parts = [one for one in path.replace("\\", "/").split("/") if one != "."] if isinstance(path, str) else [""]
    name, folder = composed(parts[-1] if parts else ""), composed("/".join(parts[:-1]).strip("/"))
    reason = None if identity is not None and name else f"images/{number} has no id or no file_name"
    return number, identity, name or None, canonical_json(element), reason, None, folder


def _annotation_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    identity, image, caption = _identity(fields.get("id")), _identity(fields.get("image_id")), fields.get("caption")
    if image is not None and isinstance(caption, str) and caption.strip():
        return number, identity, image, "caption", caption, None, None
    kind, reason = "object" if isinstance(fields.get("bbox"), list) else "other", None
    if image is None:
        kind, reason = "broken", f"annotations/{number} has no image_id"
    elif "caption" in fields:
        kind, reason = "broken", f"annotations/{number} has an empty caption, or one that is no text"
    return number, identity, image, kind, canonical_json(element), reason, None


def _named_row(number: int, element: Any) -> tuple[Any, ...]:
    fields = element if isinstance(element, dict) else {}
    return number, _identity(fields.get("id")), canonical_json(fields)


_ROWS: dict[str, Callable[[int, Any], tuple[Any, ...]]] = {
    "images": _image_row,
    "annotations": _annotation_row,
    "licenses": _named_row,
    "categories": _named_row,
    "unread": lambda number, reason: (number, reason),
}
