"""Which files speak of media that lie in another directory: COCO annotations, LibriSpeech's table of speakers, tables
that describe files.

Told by place and name alone: nothing is opened, so that an unchanged landing zone stays unopened. Whether a file is
what its name says is found out when it is read. Manifests have names of any kind: above media, the first records of
what may be one are looked at.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmlake.formats import sniff
from mmlake.formats.compression import SUFFIXES
from mmlake.landing import Entry, Landing, native
from mmlake.sources import shard as shards
from mmlake.sources.companions import dialects, label_formats, manifest_forms, transcripts
from mmlake.sources.companions.zip_entries import File

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_JSON = (".json", *(f".json{suffix}" for suffix in SUFFIXES))
_HOME = "annotations"  # directory whose JSON files all may speak of images elsewhere
# what names of such files elsewhere hold
_SPEAKING = re.compile(r"coco|annotation|captions|instances|keypoints|image_info|panoptic|stuff")
MAX_SPEAKING = 256  # JSON files; a directory with more has one beside each image, and none speaks of a whole corpus
# names of tables that describe the files of their directory and of those below
DESCRIPTIONS = ("metadata.csv", "metadata.jsonl", "metadata.tsv")
_MAX_NAME_BYTES, _MAX_PATH_CHARS = 255, 1000  # of what file systems have
_ARCHIVE = ".zip"
# zips; of a directory with more only those are looked into whose names say that they speak of images
_MAX_ARCHIVES = 64
# COCO's directories of images
_SPLITS = ("train", "val", "test", *(f"{split}{year}" for year in (2014, 2017) for split in ("train", "val", "test")))
_SUBSET = re.compile(r"-[a-z]+")  # `image_info_test-dev2017.json` speaks of a part of `test2017`


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is kept of a directory's listing."""

    holds_images: bool
    names_digest: str
    num_files: int
    speaking: tuple[File, ...]  # JSON files that may speak of images elsewhere
    tables: tuple[Entry, ...]  # of transcripts
    descriptions: tuple[Entry, ...]  # the tables that describe files here and below
    manifests: tuple[Entry, ...]  # files that may be manifests, and what lies beside `wav.scp`
    holds_media: bool
    label_endings: frozenset[str]  # of files that may be labels of images elsewhere
    labels_revision: str  # of all of those; "" where there are none
    classes: tuple[Entry, ...]  # files that may say what classes mean
    archives: tuple[Entry, ...]  # zips that may hold images of which files elsewhere speak, or the other way round


class Around:
    """The landing zone as far as it was listed, one directory kept in a few bytes."""

    def __init__(self, landing: Landing, *, unpacked: Callable[[str], list[File]] | None = None) -> None:
        """unpacked: what zips would add to a directory if they were unpacked where they lie; None: they are not
        looked into."""
        self._landing, self._unpacked = landing, unpacked
        self._listed: dict[str, _Listed] = {}
        self._speakers: dict[str, Entry | None] = {}
        # whether a file that may be a manifest is known to be none, so that nobody looks at it
        self.recall: Callable[[Entry], bool] = lambda entry: False
        self._above_media: set[str] = set()  # directories in which, or below which, media lie
        self._sorted: list[str] = []  # the directories that were listed, as far as they were sorted

    def learn(self, directory: str, entries: Sequence[File]) -> None:
        """Take note of a listing, so that the directory is not listed again."""
        names = [entry.name for entry in entries]
        lower = [name.lower() for name in names]
        home = directory.rpartition("/")[2] == _HOME
        speaking = [
            entry
            for entry, name in zip(entries, lower, strict=True)
            if name.endswith(_JSON) and (home or _SPEAKING.search(name))
        ]
        own = [(entry, name) for entry, name in zip(entries, names, strict=True) if isinstance(entry, Entry)]
        archives = [entry for entry, name in own if name.lower().endswith(_ARCHIVE) and entry.refused is None]
        if len(archives) > _MAX_ARCHIVES:
            archives = [entry for entry in archives if is_speaking_archive(entry.path)]
        joined = "\0".join(lower)  # what none of very many names holds is soon told
        endings = {
            ending
            for _, ending in label_formats.image_directories(directory)
            if any(name.endswith(ending) for name in names)
        }
        self._listed[directory] = _Listed(
            holds_images=any(name.endswith(_IMAGES) for name in lower),
            names_digest=hashlib.sha256("\0".join(sorted(names)).encode("utf-8", "surrogateescape")).hexdigest(),
            num_files=len(names),
            speaking=tuple(speaking) if len(speaking) <= MAX_SPEAKING else (),
            tables=tuple(entry for entry, name in own if transcripts.prefix_of(name) is not None),
            descriptions=_speaking([entry for entry, name in own if name in DESCRIPTIONS or name in dialects.TABLES]),
            manifests=_may_be_manifests([entry for entry, _ in own])
            if any(mark in joined for mark in manifest_forms.MARKS)
            else (),
            holds_media=any(name.rpartition(".")[2] in sniff.MEDIA_NAMES for name in lower),
            label_endings=frozenset(endings),
            labels_revision=shards.revision_of([entry for entry, name in own if name.endswith(tuple(endings))])
            if endings
            else "",
            classes=tuple(entry for entry, name in own if label_formats.is_of_classes(name) and entry.refused is None)
            if any(mark in joined for mark in label_formats.CLASS_FILES)
            else (),
            archives=tuple(archives),
        )
        above: str | None = directory if self._listed[directory].holds_media else None
        while above is not None and above not in self._above_media:
            self._above_media.add(above)
            above = _above(above)

    def of(self, directory: str) -> list[Entry]:
        """The files elsewhere, and the directory's own tables, that speak of loose files in it."""
        listed = self._list(directory)
        found, tables = (
            [entry for entry in self.annotations(directory) if isinstance(entry, Entry)] if listed.holds_images else [],
            listed.tables,
        )
        if listed.holds_images:
            found += [
                entry
                for place in _places(directory)
                for entry in self._list(place).archives
                if is_speaking_archive(entry.path)
            ]
        found += self._labels_of(directory)
        if listed.holds_media:
            found += self.manifests_of(directory)
        speakers = self._speakers_of(directory) if tables else None
        return sorted(
            {*found, *tables, *([speakers] if speakers is not None else []), *self.descriptions_of(directory)},
            key=lambda entry: entry.path,
        )

    def descriptions_of(self, directory: str) -> tuple[Entry, ...]:
        """The nearest tables, here or above, that may describe files of the directory."""
        here, above = self._list(directory).descriptions, _above(directory)
        return here or (self.descriptions_of(above) if above is not None else ())

    def _is_manifest(self, entry: Entry) -> bool:
        return not self.recall(entry) and manifest_forms.is_manifest(self._landing, entry)

    def _labels_of(self, directory: str) -> list[Entry]:
        """Label files of images in the directory, and images of label files in it, each directory as one entry that
        changes with them; and what says what their classes mean."""
        listed, found = self._list(directory), dict[str, Entry]()
        for place, ending in label_formats.label_directories(directory) if listed.holds_images else ():
            other = self._list(place)
            if ending in other.label_endings:
                found[place] = Entry(f"{place}/*", other.num_files, 0, version=other.labels_revision)
        images = [
            place
            for place, ending in label_formats.image_directories(directory)
            if ending in listed.label_endings and self._list(place).holds_images
        ]
        found |= {place: self._digest(place) for place in images}
        classes = (
            (
                entry
                for place in (images or [directory])
                for home in label_formats.class_directories(place)
                for entry in self._list(home).classes
            )
            if found
            else ()
        )
        return [*found.values(), *classes]

    def manifests_of(self, directory: str) -> list[Entry]:
        """The manifests, here and above, that may speak of files of the directory, and what lies beside those of
        Kaldi."""
        above = _above(directory)
        found = [
            entry
            for entry in self._list(directory).manifests
            if entry.name in manifest_forms.COMPANIONS or self._is_manifest(entry)
        ]
        return [*found, *(self.manifests_of(above) if above is not None else ())]

    def _below(self, table: Entry) -> Entry:
        """The names of all files that the table may describe, as one entry that changes with them."""
        home = table.path.rpartition("/")[0]
        if len(self._sorted) != len(self._listed):
            self._sorted = sorted(self._listed)
        # "0" is the character behind "/": all directories below one lie together.
        below = (
            self._sorted[bisect_left(self._sorted, f"{home}/") : bisect_left(self._sorted, f"{home}0")]
            if home
            else self._sorted
        )
        names = [
            (directory, self._listed[directory].names_digest)
            for directory in dict.fromkeys((home or ".", *below))
            if directory in self._listed
        ]
        return Entry(
            f"{home or '.'}/**",
            len(names),
            0,
            version=hashlib.sha256(repr(names).encode("utf-8", "surrogateescape")).hexdigest(),
        )

    def speaks(self, directory: str) -> bool:
        """Whether files of the directory may speak of files elsewhere."""
        listed = self._list(directory)
        return (
            bool(listed.speaking)
            or bool(listed.descriptions)
            or bool(listed.manifests)
            or any(is_speaking_archive(entry.path) for entry in listed.archives)
        )

    def subject(self, entry: Entry) -> list[Entry]:
        """What else decides what is told of the file; none for most files.

        Of a table that describes files, and of a manifest: all of their names; of Kaldi's also what lies beside it.
        Of annotations: the names of the directory whose images they may speak of, as one entry that changes with them,
        and zips that may hold them.
        Of a zip: the annotations that may speak of what it holds, and where it may hold annotations itself, what these
        do.
        """
        if entry.name.lower().endswith(_ARCHIVE):
            return self._subject_of_archive(entry)
        if entry.name in DESCRIPTIONS or entry.name in dialects.TABLES:
            return [self._below(entry)]
        if manifest_forms.may_be(entry.name) and (below := self._subject_of_manifest(entry)):
            return below
        if not self.may_speak(entry):
            return []
        directory = self.images_of(entry.path)
        return [*([] if directory is None else [self._digest(directory)]), *self._archives_near(entry.path)]

    def _subject_of_manifest(self, entry: Entry) -> list[Entry]:
        here = entry.path.rpartition("/")[0] or "."
        found = self._list(here).manifests
        if entry not in found or here not in self._above_media or not self._is_manifest(entry):
            return []
        return [
            self._below(entry),
            *(one for one in found if entry.name == manifest_forms.SCP and one.name in manifest_forms.COMPANIONS),
        ]

    def _subject_of_archive(self, archive: Entry) -> list[Entry]:
        here = archive.path.rpartition("/")[0] or "."
        near = [
            entry
            for place in _places(here)
            for listed in [self._list(place)]
            for entry in (*listed.speaking, *listed.archives)
        ]
        found = {
            entry
            for entry in near
            if isinstance(entry, Entry)
            and entry != archive
            and (not entry.name.lower().endswith(_ARCHIVE) or is_speaking_archive(entry.path))
        }
        if is_speaking_archive(archive.path):
            found.update(entry for entry in self._archives_near(archive.path) if entry != archive)
            found.update(
                self._digest(directory)
                for directory in _directories_named(archive.path)
                if self._list(directory).holds_images
            )
        return sorted(found, key=lambda entry: entry.path)

    def _archives_near(self, path: str) -> list[Entry]:
        """The zips that may hold the images of which a file at the path speaks."""
        here, base = _home_of(path)
        return [
            entry
            for place in dict.fromkeys((base, _joined(base, "images"), here, _joined(here, "images")))
            for entry in self._list(place).archives
        ]

    def _digest(self, directory: str) -> Entry:
        listed = self._list(directory)
        return Entry(f"{directory}/*", listed.num_files, 0, version=listed.names_digest)

    def archives(self, directory: str) -> tuple[Entry, ...]:
        """The zips in the directory that may hold images of which files elsewhere speak, or the other way round."""
        return self._list(directory).archives

    def files(self, directory: str) -> list[File]:
        """The files in the directory, and those that zips would put there."""
        return [
            *(self._landing.files(directory) if _may_exist(directory) else ()),
            *(self._unpacked(directory) if self._unpacked is not None else ()),
        ]

    def images_of(self, path: str) -> str | None:
        """The directory whose images an annotation file at the path may speak of: the first that holds images of
        those where corpora have them."""
        return next((directory for directory in _image_directories(path) if self._list(directory).holds_images), None)

    def may_speak(self, entry: File) -> bool:
        """Whether the file's place or name is that of annotations."""
        return entry in self._list(entry.path.rpartition("/")[0] or ".").speaking

    def _list(self, directory: str) -> _Listed:
        if directory not in self._listed:
            self.learn(directory, self.files(directory))
        return self._listed[directory]

    def annotations(self, directory: str) -> list[File]:
        """The JSON files whose place and name say that they speak of images in the directory."""
        return [
            entry
            for place in _places(directory)
            for entry in self._list(place).speaking
            if self.images_of(entry.path) == directory
        ]

    def _speakers_of(self, directory: str) -> Entry | None:
        """The nearest table of speakers above."""
        if directory not in self._speakers:
            here = self._landing.stat(_joined(directory, transcripts.SPEAKERS))
            above = _above(directory)
            self._speakers[directory] = here or (self._speakers_of(above) if above is not None else None)
        return self._speakers[directory]


def _speaking(tables: list[Entry]) -> tuple[Entry, ...]:
    """Those of a directory's tables that speak: the first that any corpus may have, else all of those that one
    corpus has several of."""
    common = sorted((entry for entry in tables if entry.name in DESCRIPTIONS), key=lambda entry: entry.name)
    return tuple(common[:1] or sorted(tables, key=lambda entry: entry.name))


def _may_be_manifests(entries: list[Entry]) -> tuple[Entry, ...]:
    """The files that may be manifests; none where there are so many that each is of one medium."""
    found = [
        entry
        for entry in entries
        if manifest_forms.may_be(entry.name) and entry.name not in DESCRIPTIONS and entry.refused is None
    ]
    if len(found) > MAX_SPEAKING:
        return ()
    has_kaldi = any(entry.name == manifest_forms.SCP for entry in found)
    return tuple(
        found
        + [
            entry
            for entry in entries
            if has_kaldi and entry.name in manifest_forms.COMPANIONS and entry.refused is None
        ]
    )


def _may_exist(directory: str) -> bool:
    """Whether a landing zone may be asked for the directory: members of zips and lists of images have names that
    none can have."""
    plain = native(directory)
    parts = plain.split("/")
    is_odd = "\0" in plain or ".." in parts or not parts[0]
    return (
        not is_odd
        and len(plain) <= _MAX_PATH_CHARS
        and all(len(part.encode("utf-8", "surrogateescape")) <= _MAX_NAME_BYTES for part in parts)
    )


def may_be_annotations(path: str) -> bool:
    """Whether the place and the name are those of annotations."""
    directory, _, name = path.lower().rpartition("/")
    return name.endswith(_JSON) and (directory.rpartition("/")[2] == _HOME or _SPEAKING.search(name) is not None)


def is_speaking_archive(path: str) -> bool:
    """Whether the name of a zip, or its place, says that it holds annotations."""
    directory, _, name = path.lower().rpartition("/")
    return name.endswith(_ARCHIVE) and (directory.rpartition("/")[2] == _HOME or _SPEAKING.search(name) is not None)


def holds_images(names: Sequence[str]) -> bool:
    """Whether a file with one of these names is an image, by the name."""
    return any(name.lower().endswith(_IMAGES) for name in names)


def _places(directory: str) -> list[str]:
    """Where the annotations of a directory of images may lie."""
    above = _above(directory)
    higher = _above(above) if above is not None else None
    return list(
        dict.fromkeys(
            [
                directory,
                _joined(directory, _HOME),
                *(place for base in (above, higher) if base is not None for place in (base, _joined(base, _HOME))),
            ]
        )
    )


def _home_of(path: str) -> tuple[str, str]:
    """(directory of the path, directory of the corpus)."""
    here = path.rpartition("/")[0] or "."
    return here, (_above(here) or ".") if here.rpartition("/")[2] == _HOME else here


def _directories_named(archive: str) -> list[str]:
    """Where the images of the annotations in a zip may lie, as far as its name tells."""
    base, stem = _home_of(archive)[1], archive.rpartition("/")[2].lower().removesuffix(_ARCHIVE)
    split = stem.rpartition("_")[2]
    both = split.startswith("trainval")
    named = [f"{one}{split.removeprefix('trainval')}" for one in ("train", "val")] if both else [split]
    return [
        _joined(root, word)
        for word in dict.fromkeys((*named, *_SPLITS))
        if word
        for root in (base, _joined(base, "images"))
    ] + [base, _joined(base, "images")]


def _image_directories(path: str) -> list[str]:
    """Where the images of an annotation file may lie, likeliest first."""
    name = path.rpartition("/")[2]
    here, base = _home_of(path)
    split = name.partition(".json")[0].rpartition("_")[2]
    splits = [word for word in dict.fromkeys((split, _SUBSET.sub("", split))) if word not in ("", ".", "..")]
    named = [
        _joined(root, word)
        for word in splits
        for root in (base, _joined(base, "images"), here, _joined(here, "images"))
    ]
    return list(dict.fromkeys([*named, here, _joined(base, "images"), _joined(here, "images"), base]))


def _above(directory: str) -> str | None:
    return None if directory == "." else directory.rpartition("/")[0] or "."


def _joined(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"
