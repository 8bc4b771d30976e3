"""Images and their label files, one for each image of another directory: YOLO's `labels/a.txt` for `images/a.jpg`,
Pascal VOC's `Annotations/a.xml` for `JPEGImages/a.jpg`. Objects are metadata of the image, in place of a document per
file.

A label file is a file of its directory's shard, as ever; it has a row there where its image is missing (1011), where
something of it cannot be read (1003, 1007, 1008), or where it is no label file at all: then it is the document that it
was. XML is read without document types, so that no entity is ever made or fetched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any
from xml.parsers import expat

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.json_elements import BOM
from mmlake.formats.texts import printable
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.raw_items import Content, Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

_YOLO, _VOC = ".txt", ".xml"  # what the names of label files end with
_DIRECTORIES = (  # of images, of their labels
    ("images", "labels", _YOLO),
    ("JPEGImages", "labels", _YOLO),
    ("JPEGImages", "Annotations", _VOC),
    ("images", "annotations", _VOC),
    ("images", "Annotations", _VOC),
    ("images", "annotations/xmls", _VOC),
)
_MAX_BYTES = 4 << 20  # of a label file, which is in memory; a thousand polygons take half a megabyte
_MAX_OBJECTS = 10_000
_MAX_DEPTH = 32
_FIRST_LINES = 16  # that say whether a text has YOLO's form
_CLASS = re.compile(r"[0-9]{1,6}")
CLASS_FILES = ("classes.txt", "data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_MAX_CLASSES = 100_000
_MAX_YAML_BYTES = 256 << 10  # of a file of classes; LVIS has 1,203 of them in 40 kB
_MAX_YAML_MARKS = 5000  # of lists and mappings in it: deep ones take seconds to parse
_KEYPOINTS = "kpt_shape"  # of a YOLO data set of poses, whose lines begin with a box


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


def label_directories(directory: str) -> list[tuple[str, str]]:
    """(directory, ending) of the label files that images of the directory may have."""
    return _renamed(directory, [(images, labels, ending) for images, labels, ending in _DIRECTORIES])


def image_directories(directory: str) -> list[tuple[str, str]]:
    """(directory, ending of label files) of the images that label files of the directory may annotate."""
    return _renamed(directory, [(labels, images, ending) for images, labels, ending in _DIRECTORIES])


def _renamed(directory: str, pairs: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """The directory with the last part of one name under the other, for each pair whose first name it has."""
    found = []
    for old, new, ending in pairs:
        before, mark, behind = f"/{directory}/".rpartition(f"/{old}/")
        if mark:
            found.append((f"{before}/{new}/{behind}".strip("/"), ending))
    return list(dict.fromkeys(found))


def class_directories(directory: str) -> list[str]:
    """Where the names of the classes of a directory of images may stand, likeliest first."""
    before = f"/{directory}/".rpartition("/images/")[0].strip("/")
    above = before.rpartition("/")[0]
    labels = (place for place, _ in label_directories(directory))
    return list(dict.fromkeys((*labels, directory, before or ".", above or ".")))


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


def _classes_in(data: bytes, name: str) -> Classes | None:
    """What the file says of the classes; None where it says nothing of them. Raises nothing: it is a document of its
    own besides."""
    if name == CLASS_FILES[0]:
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
    if not isinstance(fields, dict) or not fields.keys() & {"object", "size", "filename"}:
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


class ImageLabels(Companion):
    """What label files say of the images of one directory. What no image took is in the shard of the label files."""

    has_texts = False

    def __init__(self, reading: Reading, found: Sequence[tuple[str, str, frozenset[str]]]) -> None:
        """found: directory, ending and names of label files."""
        self._reading, self._found = reading, found
        self._classes = _classes_of(reading, reading.path)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The objects as metadata of the image."""
        media: dict[str, Any] = {}
        names = dict.fromkeys(_stem_of(member.name) for member in members if _is_image(member.name))
        for directory, ending, present in self._found:
            for name in names:
                if f"{name}{ending}" not in present:
                    continue
                labels = _read(self._reading, f"{directory}/{name}{ending}", ending, self._classes)
                if labels is not None:
                    media = {**labels.about, **media, "objects": [*media.get("objects", ()), *labels.objects]}
        return Description(media=media)


class LabelFiles(Companion):
    """The label files among those of one directory, whose images lie elsewhere. taken: paths of those whose rows are
    here or that are in those of their images, and are no documents."""

    def __init__(self, reading: Reading, entries: Sequence[Entry]) -> None:
        self.taken: set[str] = set()
        self._reading, self._faults = reading, list[tuple[Entry, Fault]]()
        for directory, ending in _places(reading, image_directories(reading.path)):
            good = [entry for entry in entries if entry.refused is None and entry.name.endswith(ending)]
            if mine := [entry for entry in good if entry.path not in self.taken]:
                self._take(mine, directory, ending)
        self.has_texts = bool(self._faults)

    def _take(self, entries: Sequence[Entry], directory: str, ending: str) -> None:
        """Note those of the files that are labels of images in the directory, or would be."""
        stems = {_stem_of(entry.name) for entry in self._reading.landing.files(directory) if _is_image(entry.name)}
        classes = _classes_of(self._reading, directory)
        for entry in entries:
            labels, stem = _read(self._reading, entry.path, ending, classes), entry.name.removesuffix(ending)
            # an empty text without an image says nothing
            if labels is None or not (labels.objects or stem in stems or labels.fault is not None):
                continue
            self.taken.add(entry.path)
            fault = labels.fault
            if stem not in stems:
                fault = Fault(1011, f"no image of the name {stem[:200]} is in {directory}")
            if fault is not None:
                self._faults.append((entry, fault))

    def rest(self) -> Iterator[RawItem]:
        """A row for each label file that no image took, or of which something could not be read."""
        for entry, fault in self._faults:
            content_type = "text/xml" if entry.name.endswith(_VOC) else "text/plain"
            content, name = Content(partial(self._reading.landing.open, entry.path)), printable(entry.name)
            blank = RawItem("text", SourceRef(entry.path), f"{self._reading.key}/{name}!labels", role="document")
            blank.content_type, blank.extension = content_type, entry.name.rpartition(".")[2]
            yield blank.replace(content=content, fault=fault, size_bytes=entry.size_bytes)


def labels_of(reading: Reading) -> ImageLabels | None:
    """What is said of the images that are read, or None where no label files belong to them."""
    found = []
    for directory, ending in _places(reading, label_directories(reading.path)):
        good = (entry.name for entry in reading.landing.files(directory) if entry.refused is None)
        if names := frozenset(name for name in good if name.endswith(ending)):
            found.append((directory, ending, names))
    return ImageLabels(reading, found) if found else None


def label_files_among(entries: Sequence[Entry], reading: Reading) -> LabelFiles | None:
    """The label files among these, or None where none is one."""
    found = LabelFiles(reading, entries)
    return found if found.taken else None


def _places(reading: Reading, directories: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the directories that the scan found to belong to the one that is read."""
    companions = {entry.path for entry in reading.around}
    return [(directory, ending) for directory, ending in directories if f"{directory}/*" in companions]


def _read(reading: Reading, path: str, ending: str, classes: Classes) -> Labels | None:
    """What a label file says; None where it is none, or cannot be read, of which its own row says why."""
    if (data := _small_file(reading, path)) is None:
        return None
    return _yolo_of(data, classes) if ending == _YOLO else _voc_of(data)


def _small_file(reading: Reading, path: str) -> bytes | None:
    """The bytes of a file; None where it is too large for labels, or cannot be read."""
    try:
        data = reading.landing.head(path, _MAX_BYTES + 1)
    except UnreadableItem:
        return None
    return data if len(data) <= _MAX_BYTES else None


def _classes_of(reading: Reading, directory: str) -> Classes:
    """What the numbers of classes mean; nothing where no file says so."""
    for place in class_directories(directory):
        for entry in sorted(reading.landing.files(place)):
            if entry.name in CLASS_FILES and entry.refused is None:
                data = _small_file(reading, entry.path)
                found = _classes_in(data, entry.name) if data is not None else None
                if found is not None:
                    return found
    return Classes()


def _is_image(name: str) -> bool:
    kind = sniff.kind_of(b"", name)
    return kind is not None and kind.modality == "image"


def _stem_of(name: str) -> str:
    return name.rpartition(".")[0] or name
