"""Images and their label files, one for each image of another directory: YOLO's `labels/a.txt` for `images/a.jpg`,
Pascal VOC's `Annotations/a.xml` for `JPEGImages/a.jpg`. Objects are metadata of the image, in place of a document per
file.

A label file is a file of its directory's shard, as ever; it has a row there where its image is missing (1011), where
something of it cannot be read (1003, 1007, 1008), or where it is no label file at all: then it is the document that it
was. What lies next to its image is read with it (`samples`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.label_files import CLASS_FILES, VOC, YOLO, Classes, Labels, classes_in, labels_in
from mmlake.formats.texts import printable
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions.places import renamed
from mmlake.sources.names import stem_of
from mmlake.sources.parsed_files import Kind
from mmlake.sources.raw_items import Content, Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

_YOLO, _VOC = f".{YOLO}", f".{VOC}"  # what the names of label files end with
_DIRECTORIES = (  # of images, of their labels
    ("images", "labels", _YOLO),
    ("JPEGImages", "labels", _YOLO),
    ("JPEGImages", "Annotations", _VOC),
    ("images", "annotations", _VOC),
    ("images", "Annotations", _VOC),
    ("images", "annotations/xmls", _VOC),
    ("Data", "Annotations", _VOC),  # ImageNet, whose classes are directories below
)
# one of which the path of a label file has, where its image lies in another folder
LABEL_FOLDERS = tuple(sorted({f"{labels.partition('/')[0]}/" for _, labels, _ in _DIRECTORIES}))
_NAMES: Kind[frozenset[str]] = Kind(max_size=1 << 20, size_of=len)
MAX_BYTES = 4 << 20  # of a label file, which is in memory; a thousand polygons take half a megabyte


def label_directories(directory: str) -> list[tuple[str, str]]:
    """(directory, ending) of the label files that images of the directory may have."""
    found = ((renamed(directory, images, labels), ending) for images, labels, ending in _DIRECTORIES)
    return list(dict.fromkeys((place, ending) for place, ending in found if place is not None))


def image_directories(directory: str) -> list[tuple[str, str]]:
    """(directory, ending of label files) of the images that label files of the directory may annotate."""
    found = ((renamed(directory, labels, images), ending) for images, labels, ending in _DIRECTORIES)
    return list(dict.fromkeys((place, ending) for place, ending in found if place is not None))


def image_stems(name: str) -> list[str]:
    """What the samples of the images may be called that a member of an archive labels, by its name."""
    folder, _, base = name.rpartition("/")
    return [stem_of(f"{images}/{base}") for images, ending in image_directories(folder) if base.endswith(ending)]


def class_directories(directory: str) -> list[str]:
    """Where the names of the classes of a directory of images may stand, likeliest first."""
    before, mark, _ = f"/{directory}/".rpartition("/images/")
    before = before.strip("/") if mark else directory.rpartition("/")[0]
    above = before.rpartition("/")[0]
    labels = (place for place, _ in label_directories(directory))
    return list(dict.fromkeys((*labels, directory, before or ".", above or ".")))


class ImageLabels(Companion):
    """What label files say of the images of one directory. What no image took is in the shard of the label files."""

    has_texts = False

    def __init__(self, reading: Reading, found: Sequence[tuple[str, str, frozenset[str]]]) -> None:
        """found: directory, ending and names of label files."""
        self._reading, self._found = reading, found
        self._classes = classes_of(reading, reading.path)

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
        stems = _names_around(self._reading, directory, "stems of images")
        classes = classes_of(self._reading, directory)
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
        if names := _names_around(reading, directory, ending):
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
    return labels_in(data, ending.removeprefix("."), classes)


def _small_file(reading: Reading, path: str) -> bytes | None:
    """The bytes of a file; None where it is too large for labels, or cannot be read."""
    try:
        data = reading.landing.head(path, MAX_BYTES + 1)
    except UnreadableItem:
        return None
    return data if len(data) <= MAX_BYTES else None


def classes_of(reading: Reading, directory: str) -> Classes:
    """What the numbers of classes mean; nothing where no file says so. The files that may are among those around."""
    may_say = [entry for entry in sorted(reading.around) if entry.name in CLASS_FILES and entry.refused is None]
    for place in class_directories(directory) if may_say else ():
        for entry in may_say:
            if (entry.path.rpartition("/")[0] or ".") == place:
                data = _small_file(reading, entry.path)
                found = classes_in(data, entry.name) if data is not None else None
                if found is not None:
                    return found
    return Classes()


def _names_around(reading: Reading, directory: str, wanted: str) -> frozenset[str]:
    """The names in a directory around that end as label files do, or the stems of its images. wanted: that ending, or
    that word. Every part of a directory asks, and what is around says whether the other directory is what it was."""

    def listed() -> frozenset[str]:
        entries = reading.landing.files(directory)
        if wanted.startswith("."):
            return frozenset(one.name for one in entries if one.refused is None and one.name.endswith(wanted))
        return frozenset(_stem_of(entry.name) for entry in entries if _is_image(entry.name))

    as_scanned = tuple(entry for entry in reading.around if entry.path == f"{directory}/*")
    return reading.parsed.get(_NAMES, (reading.landing.location, as_scanned, wanted), listed)


def _is_image(name: str) -> bool:
    kind = sniff.kind_of(b"", name)
    return kind is not None and kind.modality == "image"


def _stem_of(name: str) -> str:
    return name.rpartition(".")[0] or name
