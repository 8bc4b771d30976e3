"""COCO: images in one directory, what is said of them in JSON files of another.

The images are the shards of their directory, and their captions and objects are looked up in the annotation files that
belong to it (`around.py`). An annotation file is a shard of its own, whose rows are what no image took: captions of
missing images, repeated ids, broken records, lists under names that COCO does not have. Polygons are not kept; other
fields at the top describe the file.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import compression_of, expanded_head
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.companions.coco_annotations import SECTIONS, Annotation, Image, Index, holds_captions, index_of
from mmlake.sources.companions.placement import Around, is_speaking_archive
from mmlake.sources.companions.unzipped import Unpacked, open_entry
from mmlake.sources.companions.zip_entries import File, Packed, locate
from mmlake.sources.raw_items import Content, Member, RawItem, Reading, become_text
from mmlake.sources.samples.companion import Description

_START = re.compile(rb'\s*\{\s*"(?:info|licenses|images|annotations|categories|type)"\s*:\s*[\[{"]')
_TOLD_MISSING = 3  # names of missing files that a reason lists
_POINTER = re.compile(r"#/(images|annotations)/([0-9]{1,18})(?:/caption)?")


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a COCO annotation file: its keys at the top, and an element as COCO has
    it."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if sniff.extension_of(name) != "json" or not _START.match(head):
        return False
    top, inner = _keys(head)
    if {"file_name", "id"} <= inner.get("images", set()) or inner.get("annotations", set()) & {
        "image_id",
        "segmentation",
    }:
        return True
    return len(top & {"info", *SECTIONS}) >= 2 and bool(
        inner.get("licenses", set()) & {"url", "name"} or inner.get("categories", set()) & {"supercategory", "name"}
    )


def _keys(head: bytes) -> tuple[set[str], dict[str, set[str]]]:
    """(keys of the object, keys of the elements of its lists by the list's key), as far as the bytes go."""
    import ijson

    top: set[str] = set()
    inner: dict[str, set[str]] = {}
    try:
        for prefix, event, value in ijson.parse(io.BytesIO(head), use_float=True):
            if event == "map_key" and not prefix:
                top.add(value)
            elif event == "map_key" and prefix.endswith(".item") and prefix.count(".") == 1:
                inner.setdefault(prefix[: -len(".item")], set()).add(value)
    except (ijson.JSONError, ValueError, OverflowError):
        pass  # the bytes end within an element
    return top, inner


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text: images are told of in their own directory."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for everything in the file that no image took."""
    return rest(reading, _entry(reading), Around(reading.landing, unpacked=Unpacked(reading.landing).files))


def rest(reading: Reading, entry: File, around: Around) -> Iterator[RawItem]:
    """A row for everything in an annotation file of the shard that no image took. entry: the shard's file, or a
    member of it."""
    index = index_of(reading.landing, entry, reading.settings)
    for number, reason, body in index.broken_images():
        yield _row(reading, entry, f"/images/{number}", body, Fault(1003, reason))
    for annotation, reason in index.broken_annotations():
        yield _row(reading, entry, annotation.pointer, annotation.body, Fault(1003, reason), annotation)
    for annotation in index.strays():
        reason = (
            f"annotations/{annotation.number} is of image {str(annotation.image)[:60]}, which the file does not list "
            "by name"
        )
        yield _row(reading, entry, annotation.pointer, annotation.body, Fault(1011, reason), annotation)
    for annotation, reason in index.beyond():
        yield _row(reading, entry, annotation.pointer, annotation.body, Fault(1008, reason), annotation)
    yield from _missing(reading, entry, index, around)
    if num_other := index.num_other():
        yield _fault(
            reading,
            entry,
            1003,
            f"{num_other} annotations have neither a caption nor a bbox and are not read",
            "annotations",
        )
    for place, reason in index.unread_sections():
        yield _fault(reading, entry, 1003, reason, f"section:{place}")
    if index.fault is not None:
        yield _fault(reading, entry, index.fault.code, index.fault.reason)


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text that the locator names. Raises UnreadableItem where the file no longer has it."""
    for item in texts_at(reading, _entry(reading), [ref.member or ""]):
        assert item.content is not None
        return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def texts_at(reading: Reading, entry: File, pointers: Iterable[str]) -> Iterator[RawItem]:
    """The texts at these places of an annotation file, as far as it has them, with their locators alone."""
    for pointer in pointers:
        found = _POINTER.fullmatch(pointer)
        body = index_of(reading.landing, entry, reading.settings).body(found[1], int(found[2])) if found else None
        if body is not None:
            yield RawItem(
                modality="text", ref=locate(entry, pointer[1:]), sample_id="", content=Content.of_bytes(body.encode())
            )


def _entry(reading: Reading) -> Entry:
    entry = reading.landing.stat(reading.path)
    if entry is None:
        raise UnreadableItem(1001, "the file is missing")
    return entry


def _missing(reading: Reading, entry: File, index: Index, around: Around) -> Iterator[RawItem]:
    """The captions of images whose files are not there, and one row that counts the files."""
    directory = around.images_of(entry.path) if around.may_speak(entry) else None
    present = {file.name for file in around.files(directory)} if directory is not None else set()
    where = f"is not in {directory}" if directory is not None else "is in no directory that belongs to this file"
    missing: list[str] = []
    num_missing = 0
    for _, identity, name in index.names():
        if name in present:
            continue
        num_missing += 1
        missing.extend([name] if num_missing <= _TOLD_MISSING else [])
        for annotation in index.annotations_of(identity, "caption"):
            yield _row(
                reading,
                entry,
                annotation.pointer,
                annotation.body,
                Fault(1011, f"the image {name} {where}"),
                annotation,
            )
    if num_missing:
        reason = (
            f"num_missing={num_missing} of {index.num_images} image files not in [0, 0]: {', '.join(missing)} {where}"
        )
        yield _fault(reading, entry, 1011, reason, "images")


def _fault(reading: Reading, entry: File, code: int, reason: str, member: str | None = None) -> RawItem:
    """The row that says that a part of the file could not be read."""
    if isinstance(entry, Packed):
        member = f"{entry.member}#{member}" if member is not None else entry.member
    return reading.fault(code, reason, modality="text", member=member)


def _row(
    reading: Reading, entry: File, pointer: str, body: str, fault: Fault, annotation: Annotation | None = None
) -> RawItem:
    image = annotation.image if annotation is not None else None
    file = f"{reading.key}/{entry.member}" if isinstance(entry, Packed) else reading.key
    name = f"{file}/{image}" if image is not None and len(image) <= 200 else f"{file}{pointer}"
    caption = annotation is not None and annotation.kind == "caption"
    blank = RawItem(modality="text", ref=locate(entry, pointer), sample_id=name, metadata=_ids(annotation))
    item = become_text(blank, body, "caption" if caption else "document")
    item.fault = item.fault or fault
    if not caption:
        item.content_type, item.extension = "application/json", "json"
    return item


def _ids(annotation: Annotation | None) -> dict[str, Any]:
    if annotation is None:
        return {}
    given = {"image_id": annotation.image, "annotation_id": annotation.id}
    return {name: _number(value) for name, value in given.items() if value is not None}


def _number(identity: str) -> int | str:
    """An id as files have it: a number where it is spelled as one."""
    return int(identity) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", identity) else identity


class Annotated:
    """What annotation files say of the images of one directory."""

    def __init__(self, reading: Reading, entries: Sequence[File]) -> None:
        self._reading, self._entries = reading, list(entries)
        self.has_texts = any(holds_captions(reading.landing, entry, reading.settings) for entry in entries)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """Captions as texts, everything else as metadata of the image."""
        metadata: dict[str, Any] = {}
        media: dict[str, Any] = {}
        texts: list[RawItem] = []
        objects: dict[str, dict[str, Any]] = {}  # by annotation id: files of key points repeat those of instances
        said: set[tuple[str | None, str]] = set()  # captions, by annotation id
        for entry in self._entries:
            index = index_of(self._reading.landing, entry, self._reading.settings)
            for image in (
                image
                for member in members
                if member.is_media
                for image in index.images_named(member.name.rpartition("/")[2])
            ):
                metadata.setdefault("image_id", _number(image.id))
                media = {**_about(index, image), **media}
                captions = index.annotations_of(image.id, "caption")
                if self.has_texts:
                    # The same file may lie there packed and unpacked.
                    new = [one for one in captions if one.id is None or (one.id, one.body) not in said]
                    said.update((one.id, one.body) for one in new)
                    texts.extend(_caption(entry, annotation) for annotation in new)
                elif bodies := [annotation.body for annotation in captions]:
                    # The file began with objects: the shard is not registered for texts, and the words are not lost.
                    media["captions"] = [*media.get("captions", ()), *bodies]
                for annotation in index.annotations_of(image.id, "object"):
                    objects.setdefault(annotation.id or f"{entry.path}#{annotation.number}", _object(index, annotation))
        if objects:
            media["objects"] = list(objects.values())
        licence = media.get("license")
        url = licence.get("url") or licence.get("name") if isinstance(licence, dict) else None
        return Description(
            texts=tuple(texts), metadata=metadata, media=media, licence=url if isinstance(url, str) else None
        )

    def rest(self) -> Iterator[RawItem]:
        """Nothing: what no image took is told by the annotation file's own shard."""
        return iter(())


def annotated(reading: Reading) -> Annotated | None:
    """What is said of the images that are read, or None where no annotation file belongs to them."""
    told: Sequence[File] = reading.around
    if any(is_speaking_archive(entry.path) for entry in told):
        told = Around(reading.landing, unpacked=Unpacked(reading.landing).files).annotations(reading.path)
    entries = [entry for entry in told if entry.refused is None and is_coco(reading.landing, entry)]
    return Annotated(reading, entries) if entries else None


def is_coco(landing: Landing, entry: File) -> bool:
    """Whether the file is one of annotations, by its first bytes."""
    if sniff.extension_of(entry.name) != "json":
        return False
    try:
        with open_entry(landing, entry) as file:
            head = file.read(sniff.HEAD_BYTES)
            if (compression := compression_of(head)) is not None:
                file.seek(0)
                head = expanded_head(file, compression, size_bytes=sniff.HEAD_BYTES)
    except UnreadableItem:
        return False
    return claims(head, entry.name)


def _about(index: Index, image: Image) -> dict[str, Any]:
    """The fields of the image as they came; its licence with name and address in place of its number."""
    fields = {
        name: value for name, value in image.fields.items() if name not in ("id", "file_name") and value is not None
    }
    licence = index.licence(fields.get("license"))
    return {**fields, "license": licence} if licence is not None else fields


def _caption(entry: File, annotation: Annotation) -> RawItem:
    own = {"annotation_id": _number(annotation.id)} if annotation.id is not None else {}
    blank = RawItem(modality="text", ref=locate(entry, annotation.pointer), sample_id="", own=own)
    return become_text(blank, annotation.body, "caption")


def _object(index: Index, annotation: Annotation) -> dict[str, Any]:
    fields = json.loads(annotation.body)
    found = {
        "category": index.category(fields.get("category_id")),
        "bbox": fields.get("bbox"),
        "iscrowd": fields.get("iscrowd"),
    }
    return {name: value for name, value in found.items() if value is not None}
