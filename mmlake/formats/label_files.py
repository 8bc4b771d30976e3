"""Label files of images: YOLO's lines of boxes, Pascal VOC's XML, and the files that name YOLO's classes.

Enters: the bytes of one file. Leaves: the objects in the image. XML is read without document types, so that no entity
is ever made or fetched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any
from xml.parsers import expat

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.json_elements import BOM

ENDINGS = YOLO, VOC = "txt", "xml"  # of label files
LABEL_NAMES = tuple(f".{ending}" for ending in ENDINGS)  # what their names end with
_MAX_OBJECTS = 10_000
_MAX_DEPTH = 32
_FIRST_LINES = 16  # that say whether a text has YOLO's form
_CLASS = re.compile(r"[0-9]{1,6}")
CLASS_FILES = ("classes.txt", "obj.names", "data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_MAX_CLASSES = 100_000
_MAX_YAML_BYTES = 256 << 10  # of a file of classes; LVIS has 1,203 of them in 40 kB
_MAX_YAML_MARKS = 5000  # of lists and mappings in it: deep ones take seconds to parse
_KEYPOINTS = "kpt_shape"  # of a YOLO data set of poses, whose lines begin with a box
_VOC_START = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<annotation[\s>]")
_VOC_FIELDS = ("object", "size", "filename")  # one of which makes an annotation one of Pascal VOC
_VOC_FIELD = re.compile(rf"<(?:{'|'.join(_VOC_FIELDS)})[\s/>]".encode())


@dataclass(frozen=True, slots=True)
class Labels:
    """What a label file says."""

    objects: list[dict[str, Any]]
    about: dict[str, Any] = field(default_factory=dict)  # what else it says of the image
    fault: Fault | None = None  # why some of it, or all, is left out


@dataclass(frozen=True, slots=True)
class Classes:
    """What the numbers of YOLO's classes mean."""

    names: dict[int, str] = field(default_factory=dict)
    has_keypoints: bool = False


def labels_in(data: bytes, extension: str, classes: Classes) -> Labels | None:
    """What a label file with that ending says; None where it is none."""
    return _yolo_of(data, classes) if extension == YOLO else _voc_of(data)


def described(data: bytes, extension: str, classes: Classes) -> tuple[dict[str, Any], Fault | None]:
    """(what a file that begins as labels says of its image, why some of it, or all, is left out)."""
    labels = labels_in(data, extension, classes)
    if labels is None:
        return {}, Fault(1003, "the text begins as labels of objects and goes on as something else")
    return {**labels.about, "objects": labels.objects}, labels.fault


def begins_as_labels(head: bytes, extension: str, *, is_whole: bool) -> bool:
    """Whether these are the first bytes of a label file with at least one object. is_whole: they are all."""
    if extension == VOC:
        return _VOC_START.match(head.removeprefix(BOM)) is not None and _VOC_FIELD.search(head) is not None
    if not head.lstrip()[:1].isdigit():  # most texts next to images are captions
        return False
    labels = _yolo_of(head if is_whole else head[: head.rfind(b"\n") + 1], Classes())
    return labels is not None and bool(labels.objects)


def _yolo_of(data: bytes, classes: Classes) -> Labels | None:
    """The objects of a text of lines `class cx cy w h`, in fractions of the picture; None where its first lines have
    another form. No lines: no objects."""
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError:
        return None
    rows = ((number, cells) for number, line in enumerate(text.splitlines(), 1) if (cells := line.split()))
    found = ((number, _yolo_object(cells, classes)) for number, cells in rows)
    first = list(islice(found, _FIRST_LINES))
    if any(one is None for _, one in first):
        return None
    form = "is not of the form <class> <cx> <cy> <w> <h> with fractions of the picture"
    every = chain(first, found)
    return _labels_of((one, f"line {number} {form}", f" from line {number} on") for number, one in every)


def _labels_of(found: Iterable[tuple[dict[str, Any] | None, str, str]], about: dict[str, Any] | None = None) -> Labels:
    """The labels that these objects are. found: each, why there is none, and from where on there are too many."""
    objects, fault = list[dict[str, Any]](), None
    for one, reason, where in found:
        if one is None:
            fault = fault or Fault(1003, reason)
        elif len(objects) == _MAX_OBJECTS:
            fault = fault or Fault(1008, f"num_objects>{_MAX_OBJECTS} not in [0, {_MAX_OBJECTS}]{where}")
        else:
            objects.append(one)
    return Labels(objects, about or {}, fault)


def _yolo_object(cells: list[str], classes: Classes) -> dict[str, Any] | None:
    if len(cells) < 5 or not _CLASS.fullmatch(cells[0]):
        return None
    try:
        values = [float(cell) for cell in cells[1:]]
    except ValueError:
        return None
    box = values[:4] if len(values) == 4 or classes.has_keypoints else _box_of(values)
    if box is None or not all(0 <= value <= 1 for value in box):
        return None
    number = int(cells[0])
    return {"category": classes.names.get(number, number), "bbox": box, "bbox_format": "cxcywh_fraction"}


def _box_of(corners: list[float]) -> list[float] | None:
    """The box around a polygon x y x y ...; None where it is none within the picture."""
    if len(corners) < 6 or len(corners) % 2 or not all(0 <= value <= 1 for value in corners):
        return None
    left, right, top, bottom = min(corners[::2]), max(corners[::2]), min(corners[1::2]), max(corners[1::2])
    return [round(value, 9) for value in ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)]


def classes_in(data: bytes, name: str) -> Classes | None:
    """What the file says of the classes; None where it says nothing of them. Raises nothing: it is a document of its
    own besides."""
    if name in CLASS_FILES[:2]:  # a name in each line
        names = [line.strip() for line in data.decode("utf-8-sig", "replace").splitlines()]
        while names and not names[-1]:
            names.pop()
        return Classes(dict(enumerate(names[:_MAX_CLASSES])), False) if names else None
    if len(data) > _MAX_YAML_BYTES or data.count(b"[") + data.count(b"{") + data.count(b"- ") > _MAX_YAML_MARKS:
        return None
    import yaml

    try:
        # Strings, lists and dicts alone: nothing is constructed, and no key merges others, which could grow without
        # bounds.
        fields = yaml.load(data, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    given = fields.get("names") if isinstance(fields, dict) else None
    pairs = enumerate(given) if isinstance(given, list) else given.items() if isinstance(given, dict) else ()
    found = {int(number): value for number, value in pairs if isinstance(value, str) and _CLASS.fullmatch(str(number))}
    return Classes(found, isinstance(fields.get(_KEYPOINTS), list)) if found else None


def _voc_of(data: bytes) -> Labels | None:
    """The objects of a Pascal VOC annotation, in pixels; None where the XML is none. One with a document type, or
    that breaks, has a fault."""
    reader = _Elements()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = reader.words, reader.refuse
    try:
        parser.Parse(data, True)
    except UnreadableItem as error:
        return Labels([], fault=Fault.of(error))
    except (expat.ExpatError, ValueError, LookupError):
        if reader.root != "annotation":
            return None
        return Labels([], fault=Fault(1003, f"the XML breaks at line {parser.CurrentLineNumber}"))
    fields = reader.found.get("annotation")
    if not isinstance(fields, dict) or not fields.keys() & set(_VOC_FIELDS):
        return None
    given = fields.pop("object", [])
    every = enumerate(given if isinstance(given, list) else [given])
    reason = "has no name, or no bndbox with xmin, ymin, xmax and ymax"
    return _labels_of(((_voc_object(one), f"object {at} {reason}", "") for at, one in every), {"annotation": fields})


def _voc_object(one: Any) -> dict[str, Any] | None:
    box = one.get("bndbox") if isinstance(one, dict) else None
    if not isinstance(box, dict) or not isinstance(one.get("name"), str) or not one["name"]:
        return None
    try:
        sides = [float(box[side]) for side in ("xmin", "ymin", "xmax", "ymax")]
    except (KeyError, TypeError, ValueError):
        return None
    if not all(map(math.isfinite, sides)):
        return None
    whole: list[float] = [int(side) if side.is_integer() else side for side in sides]
    rest = {name: value for name, value in one.items() if name not in ("name", "bndbox")}
    return {"category": one["name"], "bbox": whole, "bbox_format": "xyxy_px", **rest}


class _Elements:
    """Elements as nested dicts: one without others in it is its text, several of one name are a list."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.found: dict[str, Any] = {}  # the root by its name
        self._open: list[tuple[str, dict[str, Any], list[str]]] = [("", self.found, [])]

    def refuse(self, *doctype: object) -> None:
        """A document type could declare entities; no annotation has one."""
        raise UnreadableItem(1007, "the XML has a document type, which is never read")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self.root = self.root or name
        if len(self._open) > _MAX_DEPTH:
            raise UnreadableItem(1003, f"depth>{_MAX_DEPTH} not in [0, {_MAX_DEPTH}]")
        self._open.append((name, dict(attributes), []))

    def words(self, text: str) -> None:
        """Characters of the innermost element."""
        self._open[-1][2].append(text)

    def end(self, name: str) -> None:
        """The innermost element ends."""
        _, fields, words = self._open.pop()
        value, into = fields or "".join(words).strip(), self._open[-1][1]
        if isinstance(into.get(name), list):
            into[name].append(value)
        else:
            into[name] = [into[name], value] if name in into else value
