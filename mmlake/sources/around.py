"""Which files speak of media that lie in another directory: COCO annotations, and LibriSpeech's table of speakers.

Told by place and name alone: nothing is opened, so that an unchanged landing zone stays unopened. Whether a file is what its name
says is found out when it is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mmlake.landing import Entry, Landing
from mmlake.sources import transcripts

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_JSON = (".json", ".json.gz")
_HOME = "annotations"  # directory whose JSON files all may speak of images elsewhere
_SPEAKING = re.compile(r"coco|annotation|captions|instances|keypoints|image_info|panoptic|stuff")  # what names of such files elsewhere hold
_MAX_SPEAKING = 256  # JSON files; a directory with more has one beside each image, and none speaks of a whole corpus
_SUBSET = re.compile(r"-[a-z]+")  # `image_info_test-dev2017.json` speaks of a part of `test2017`


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is kept of a directory's listing."""

    holds_images: bool
    names_digest: str
    num_files: int
    speaking: tuple[Entry, ...]  # JSON files that may speak of images elsewhere
    tables: tuple[Entry, ...]  # of transcripts


class Around:
    """The landing zone as far as it was listed, one directory kept in a few bytes."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self._listed: dict[str, _Listed] = {}
        self._speakers: dict[str, Entry | None] = {}

    def learn(self, directory: str, entries: Sequence[Entry]) -> None:
        """Take note of a listing, so that the directory is not listed again."""
        names = sorted(entry.name for entry in entries)
        home = directory.rpartition("/")[2] == _HOME
        speaking = [entry for entry in entries if entry.name.lower().endswith(_JSON) and (home or _SPEAKING.search(entry.name.lower()))]
        self._listed[directory] = _Listed(
            holds_images=any(name.lower().endswith(_IMAGES) for name in names),
            names_digest=hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest(),
            num_files=len(names),
            speaking=tuple(speaking) if len(speaking) <= _MAX_SPEAKING else (),
            tables=tuple(entry for entry in entries if transcripts.prefix_of(entry.name) is not None),
        )

    def of(self, directory: str) -> list[Entry]:
        """The files elsewhere, and the directory's own tables, that speak of loose files in it."""
        listed = self._list(directory)
        found, tables = self._annotations(directory) if listed.holds_images else [], listed.tables
        speakers = self._speakers_of(directory) if tables else None
        return sorted({*found, *tables, *([speakers] if speakers else [])}, key=lambda entry: entry.path)

    def speaks(self, directory: str) -> bool:
        """Whether files of the directory may speak of images elsewhere."""
        return bool(self._list(directory).speaking)

    def subject(self, entry: Entry) -> list[Entry]:
        """The names of the directory whose images the file may speak of, as one entry that changes with them; none for other files."""
        directory = self.images_of(entry.path) if self.may_speak(entry) else None
        if directory is None:
            return []
        listed = self._list(directory)
        return [Entry(f"{directory}/*", listed.num_files, 0, version=listed.names_digest)]

    def images_of(self, path: str) -> str | None:
        """The directory whose images an annotation file at the path may speak of: the first that holds images of those where corpora have them."""
        return next((directory for directory in _image_directories(path) if self._list(directory).holds_images), None)

    def may_speak(self, entry: Entry) -> bool:
        """Whether the file's place or name is that of annotations."""
        return entry in self._list(entry.path.rpartition("/")[0] or ".").speaking

    def _list(self, directory: str) -> _Listed:
        if directory not in self._listed:
            self.learn(directory, self._landing.files(directory))
        return self._listed[directory]

    def _annotations(self, directory: str) -> list[Entry]:
        above = _above(directory)
        higher = _above(above) if above is not None else None
        places = [directory, _joined(directory, _HOME), *(place for base in (above, higher) if base is not None for place in (base, _joined(base, _HOME)))]
        return [entry for place in dict.fromkeys(places) for entry in self._list(place).speaking if self.images_of(entry.path) == directory]

    def _speakers_of(self, directory: str) -> Entry | None:
        """The nearest table of speakers above."""
        if directory not in self._speakers:
            here = self._landing.stat(_joined(directory, transcripts.SPEAKERS))
            above = _above(directory)
            self._speakers[directory] = here or (self._speakers_of(above) if above is not None else None)
        return self._speakers[directory]


def _image_directories(path: str) -> list[str]:
    """Where the images of an annotation file may lie, likeliest first."""
    here, _, name = path.rpartition("/")
    here = here or "."
    base = (_above(here) or ".") if here.rpartition("/")[2] == _HOME else here
    split = name.partition(".json")[0].rpartition("_")[2]
    splits = [word for word in dict.fromkeys((split, _SUBSET.sub("", split))) if word not in ("", ".", "..")]
    named = [_joined(root, word) for word in splits for root in (base, _joined(base, "images"), here, _joined(here, "images"))]
    return list(dict.fromkeys([*named, here, _joined(base, "images"), _joined(here, "images"), base]))


def _above(directory: str) -> str | None:
    return None if directory == "." else directory.rpartition("/")[0] or "."


def _joined(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"
