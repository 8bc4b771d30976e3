"""COCO: images in one directory, their captions and objects in JSON files of another (`placement.py`), both also in
zips, as COCO is published. Polygons are not kept; other fields at the top describe the file.

What a file says of images is joined where these are read. The file is a shard of its own, too, whose rows are what no
image took.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import coco as coco_format
from mmlake.landing import Entry, portable
from mmlake.records import SourceRef
from mmlake.sources.companions.archives import ArchiveMember, File, locate
from mmlake.sources.companions.coco_index import CocoIndex, Element, holds_captions, index_of, is_coco
from mmlake.sources.companions.placement import Placement, UnpackedPlacement
from mmlake.sources.companions.places import folders_in, image_places, image_roots, is_annotation_archive, join
from mmlake.sources.names import composed
from mmlake.sources.raw_items import Content, Member, RawItem, Reading, become_text
from mmlake.sources.records.lines import text_alone
from mmlake.sources.samples.companion import Companion, Description

_NAMED_MISSING = 3  # names of missing files that a reason lists
_FOLDERS_KEPT = 1000  # of a zip, with what annotates them
_POINTER = re.compile(r"#/(images|annotations)/([0-9]{1,18})(?:/caption)?")
claims, modalities = coco_format.claims, text_alone


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for everything in the shard's file that no image took."""
    return left_over(reading, _entry(reading), UnpackedPlacement(reading.landing, reading.parsed))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text that the locator names. Raises UnreadableItem where the file no longer has it."""
    for item in texts_at(reading, _entry(reading), [ref.member or ""]):
        assert item.content is not None
        return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _entry(reading: Reading) -> Entry:
    entry = reading.landing.stat(reading.path)
    if entry is None:
        raise UnreadableItem(1001, "the file is missing")
    return entry


def annotations_of(reading: Reading) -> ImageAnnotations | None:
    """What is said of the images that are read, or None where no annotation file belongs to them."""
    found: Sequence[File] = reading.around
    if any(is_annotation_archive(entry.path) for entry in found):
        found = UnpackedPlacement(reading.landing, reading.parsed).annotations_of(reading.path)
    return ImageAnnotations.of(reading, found, reading.path)


class ImageAnnotations(Companion):
    """What annotation files say of the images of one directory. What no image took is in their own shards."""

    def __init__(self, reading: Reading, entries: Sequence[File], directory: str) -> None:
        self._reading, self._entries = reading, entries
        # of each file how it may name the directory, and whether that is where corpora have its images
        self._folders = [
            (folders_in(entry.path, directory), directory in image_places(entry.path)) for entry in entries
        ]
        self.has_texts = any(holds_captions(reading, entry) for entry in entries)
        # held as long as images are read: files that are more than those that are kept were else read for each image
        self._index_of = functools.cache(functools.partial(index_of, reading))

    @classmethod
    def of(cls, reading: Reading, may_be: Iterable[File], directory: str) -> ImageAnnotations | None:
        """None where none of the files is one of annotations. directory: of the images."""
        entries = [entry for entry in may_be if entry.refused is None and is_coco(reading.landing, entry)]
        return cls(reading, entries, directory) if entries else None

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """Captions as texts, everything else as metadata of the image."""
        metadata, media, texts = dict[str, Any](), dict[str, Any](), list[RawItem]()
        objects: dict[str, dict[str, Any]] = {}  # by annotation id: files of key points repeat those of instances
        said: set[tuple[str | None, str]] = set()  # captions, by annotation id
        names = [member.name.rpartition("/")[2] for member in members if member.is_media]
        for entry, (folders, or_any) in zip(self._entries, self._folders, strict=True):
            index = self._index_of(entry)
            images = (image for name in names for image in index.images_named(name, folders, or_any=or_any))
            for identity, fields in images:
                metadata.setdefault("image_id", _number(identity))
                media = {**_fields_of(index, fields), **media}
                captions = index.annotations_of(identity, "caption")
                if self.has_texts:
                    # The same file may lie there packed and unpacked.
                    new = [one for one in captions if one.id is None or (one.id, one.body) not in said]
                    said.update((one.id, one.body) for one in new)
                    texts.extend(_caption(entry, annotation) for annotation in new)
                elif bodies := [annotation.body for annotation in captions]:
                    # The file began with objects: the shard is not registered for texts, and the words are not lost.
                    media["captions"] = [*media.get("captions", ()), *bodies]
                for annotation in index.annotations_of(identity, "object"):
                    objects.setdefault(annotation.id or f"{entry.path}#{annotation.number}", _object(index, annotation))
        if objects:
            media["objects"] = list(objects.values())
        licence = media.get("license")
        url = licence.get("url") or licence.get("name") if isinstance(licence, dict) else None
        licence = url if isinstance(url, str) else None
        return Description(texts=tuple(texts), metadata=metadata, media=media, licence=licence)


class ZipAnnotations(Companion):
    """What annotations in a zip or near it say of its images, and what no image took of those in it."""

    def __init__(self, reading: Reading, own: Mapping[int, ArchiveMember], folders: Collection[str] | None) -> None:
        """own: the zip's members that are annotations, by number. folders: those of the zip that hold images; None:
        too many to ask for each."""
        self._reading, self.own = reading, own
        self._placement = UnpackedPlacement(reading.landing, reading.parsed, own=reading.path)
        self._above = reading.path.rpartition("/")[0]
        self._of = functools.lru_cache(_FOLDERS_KEPT)(self._annotations_of)
        # Whether there may be text rows: captions of images in the zip, or what no image took of its own annotations.
        self.has_texts = bool(own) or folders is None
        for folder in sorted(folders or ()):
            found = None if self.has_texts else self._of(folder)
            self.has_texts = self.has_texts or (found is not None and found.has_texts)

    @classmethod
    def of(
        cls, reading: Reading, may_be: Mapping[int, ArchiveMember], folders: Collection[str] | None
    ) -> ZipAnnotations | None:
        """None where no annotations belong to the zip. may_be: its members whose names are like those of
        annotations, by number."""
        own = {at: entry for at, entry in may_be.items() if is_coco(reading.landing, entry)}
        archive = reading.landing.stat(reading.path)
        if not own and (archive is None or not Placement(reading.landing, reading.parsed).dependencies(archive)):
            return None
        return cls(reading, own, folders)

    def _annotations_of(self, folder: str) -> ImageAnnotations | None:
        """What is said of the images in a folder of the zip."""
        directory = "/".join(part for part in (self._above, folder) if part) or "."
        return ImageAnnotations.of(self._reading, self._placement.annotations_of(directory), directory)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """Captions as texts, everything else as metadata of the image."""
        found = self._of(stem.rpartition("/")[0]) if any(member.is_media for member in members) else None
        if found is None:
            return Description()
        # a folder whose images have no names of images was not asked, and the shard may have no rows of texts
        found.has_texts = found.has_texts and self.has_texts
        return found.describe(stem, members)

    def rest(self) -> Iterator[RawItem]:
        """A row for everything in the zip's own annotations that no image took."""
        for entry in self.own.values():
            yield from left_over(self._reading, entry, self._placement)

    def named(self, members: Collection[str]) -> Iterator[RawItem]:
        """The texts of the zip's own annotations that these locators name."""
        for entry in self.own.values():
            pointers = [one.removeprefix(entry.member) for one in members if one.startswith(f"{entry.member}#")]
            yield from texts_at(self._reading, entry, pointers)


def texts_at(reading: Reading, entry: File, pointers: Iterable[str]) -> Iterator[RawItem]:
    """The texts at these places of an annotation file, as far as it has them, with their locators alone."""
    for pointer in pointers:
        found = _POINTER.fullmatch(pointer)
        body = index_of(reading, entry).body(found[1], int(found[2])) if found else None
        if body is not None:
            content, ref = Content.of_bytes(body.encode()), locate(entry, pointer[1:])
            yield RawItem(modality="text", ref=ref, sample_id="", content=content)


def left_over(reading: Reading, entry: File, placement: Placement) -> Iterator[RawItem]:
    """A row for everything in an annotation file of the shard that no image took: captions of missing images, repeated
    ids, broken records, lists under names that COCO does not have. entry: the shard's file, or a member of it."""
    index = index_of(reading, entry)
    for element, fault in index.left_over():
        yield _row(reading, entry, element, fault)
    yield from _missing(reading, entry, index, placement)
    if num_other := index.num_other():
        reason = f"{num_other} annotations have neither a caption nor a bbox and are not read"
        yield _fault(reading, entry, Fault(1003, reason), "annotations")
    for place, reason in index.unread_sections():
        yield _fault(reading, entry, Fault(1003, reason), f"section:{place}")
    if index.fault is not None:
        yield _fault(reading, entry, index.fault)


def _missing(reading: Reading, entry: File, index: CocoIndex, placement: Placement) -> Iterator[RawItem]:
    """The captions of images whose files are not there, and one row that counts the files."""
    directory = placement.images_of(entry.path) if placement.may_annotate(entry) else None
    names_in = functools.lru_cache(_FOLDERS_KEPT)(
        lambda place: {composed(file.name) for file in placement.files(place)}
    )
    present = names_in(directory) if directory is not None else set[str]()
    roots = image_roots(entry.path)
    where = f"is not in {directory}" if directory is not None else "is in no directory that belongs to this file"
    missing, num_missing = list[str](), 0
    for _, identity, name, folder in index.names():
        if name in present or (folder and any(name in names_in(join(root, portable(folder))) for root in roots)):
            continue
        num_missing += 1
        name = join(folder or ".", name)
        missing.extend([name] if num_missing <= _NAMED_MISSING else [])
        for annotation in index.annotations_of(identity, "caption"):
            yield _row(reading, entry, annotation, Fault(1011, f"the image {name} {where}"))
    if num_missing:
        reason = f"num_missing={num_missing} of {index.num_images} image files not in [0, 0]"
        yield _fault(reading, entry, Fault(1011, f"{reason}: {', '.join(missing)} {where}"), "images")


def _fault(reading: Reading, entry: File, fault: Fault, member: str | None = None) -> RawItem:
    """The row that says that a part of the file could not be read."""
    if isinstance(entry, ArchiveMember):
        member = f"{entry.member}#{member}" if member is not None else entry.member
    return reading.fault(fault.code, fault.reason, modality="text", member=member)


def _row(reading: Reading, entry: File, element: Element, fault: Fault) -> RawItem:
    image, is_caption = element.image, element.kind == "caption"
    file = f"{reading.key}/{entry.member}" if isinstance(entry, ArchiveMember) else reading.key
    name = f"{file}/{image}" if image is not None and len(image) <= 200 else f"{file}{element.pointer}"
    ids = {"image_id": image, "annotation_id": element.id}
    metadata = {key: _number(value) for key, value in ids.items() if value is not None}
    blank = RawItem(modality="text", ref=locate(entry, element.pointer), sample_id=name, metadata=metadata)
    item = become_text(blank, element.body, "caption" if is_caption else "document")
    item.fault = item.fault or fault
    if not is_caption:
        item.content_type, item.extension = "application/json", "json"
    return item


def _number(identity: str) -> int | str:
    """An id as files have it: a number where it is spelled as one."""
    return int(identity) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", identity) else identity


def _fields_of(index: CocoIndex, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the image as they came; its licence with name and address in place of its number."""
    found = {name: value for name, value in fields.items() if name not in ("id", "file_name") and value is not None}
    licence = index.licence(found.get("license"))
    return {**found, "license": licence} if licence is not None else found


def _caption(entry: File, annotation: Element) -> RawItem:
    own = {"annotation_id": _number(annotation.id)} if annotation.id is not None else {}
    blank = RawItem(modality="text", ref=locate(entry, annotation.pointer), sample_id="", own=own)
    return become_text(blank, annotation.body, "caption")


def _object(index: CocoIndex, annotation: Element) -> dict[str, Any]:
    fields = json.loads(annotation.body)
    category = index.category(fields.get("category_id"))
    found = {"category": category, "bbox": fields.get("bbox"), "iscrowd": fields.get("iscrowd")}
    return {name: value for name, value in found.items() if value is not None}
