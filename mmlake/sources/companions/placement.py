"""Which files describe media that lie in another directory: COCO annotations, LibriSpeech's table of speakers, tables
that describe files.

By place and name alone: nothing is opened, so that an unchanged landing zone stays unopened. Whether a file is what its
name says is found out when it is read. Manifests have names of any kind, and COCO files may: next to and above media,
the first records of what may be one are read.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from mmlake.landing import Entry, Landing
from mmlake.sources import shard as shards
from mmlake.sources.companions import file_lists, labels, manifest_forms, packed_media, parallel_texts, places
from mmlake.sources.companions.archives import File, unpacked_files
from mmlake.sources.companions.coco_index import is_coco
from mmlake.sources.companions.listed_names import ListedNames
from mmlake.sources.companions.places import is_annotation_archive
from mmlake.sources.parsed_files import ParsedFiles


class Placement:
    """The landing zone as far as it was listed, one directory kept in a few bytes."""

    def __init__(self, landing: Landing, parsed: ParsedFiles) -> None:
        self._landing, self.parsed = landing, parsed
        self._listed: dict[str, ListedNames] = {}
        # whether a file that may be of a format is known not to be, so that it is not read
        self.is_known_not: Callable[[Entry, str], bool] = lambda entry, format_: False
        self._coco = dict[Entry, bool]()  # whether files of other names are COCO, as far as they were read
        self._above_media: set[str] = set()  # directories in which, or below which, media lie
        self._sorted: list[str] = []  # the directories that were listed, as far as they were sorted

    def learn(self, directory: str, entries: Sequence[File]) -> None:
        """Take note of a listing, so that the directory is not listed again."""
        self._listed[directory] = ListedNames.of(directory, entries)
        listed = self._listed[directory]
        for above in places.upwards(directory) if listed.holds_media or listed.packed else ():
            if above in self._above_media:
                break
            self._above_media.add(above)

    def _list(self, directory: str) -> ListedNames:
        if directory not in self._listed:
            self.learn(directory, self.files(directory))
        return self._listed[directory]

    def _upwards(self, directory: str) -> Iterator[ListedNames]:
        """The listings of the directory and of those above it, the nearest first."""
        return map(self._list, places.upwards(directory))

    def files(self, directory: str) -> list[File]:
        """The files in the directory."""
        return [*self._landing.files(directory)] if places.may_exist(directory) else []

    def companions_of(self, directory: str) -> list[Entry]:
        """The files elsewhere, and the directory's own tables, that describe loose files in it."""
        listed = self._list(directory)
        found = [*self._labels_of(directory), *listed.transcripts, *self.descriptions_of(directory)]
        if listed.holds_images:
            found += [entry for entry in self.annotations_of(directory) if isinstance(entry, Entry)]
            for place in places.annotation_places(directory):
                found += [entry for entry in self._list(place).archives if is_annotation_archive(entry.path)]
        if listed.holds_media:
            found += self.manifests_of(directory)
        found += self._parallel_of(directory)
        if listed.transcripts:  # the nearest table of speakers above
            found += next((above.speakers for above in self._upwards(directory) if above.speakers), ())
        return _sorted(found)

    def annotations_of(self, directory: str) -> list[File]:
        """The JSON files that annotate images in the directory, as their place and name say, or their first bytes."""
        return [
            entry
            for place in places.annotation_places(directory)
            for entry in self._annotations_in(place)
            if self._may_show(entry.path, directory)
        ]

    def _annotations_in(self, directory: str) -> tuple[File, ...]:
        """The JSON files in the directory that may annotate images: by their names, or by their first bytes."""
        listed = self._list(directory)
        return (*listed.annotations, *filter(self._is_coco, listed.other_json))

    def _is_coco(self, entry: Entry) -> bool:
        if self.is_known_not(entry, shards.COCO):
            return False
        if entry not in self._coco:
            self._coco[entry] = is_coco(self._landing, entry)
        return self._coco[entry]

    def _may_show(self, path: str, directory: str) -> bool:
        """Whether images in the directory may be those of an annotation file at the path: it is the one that corpora
        have for them, or there is none and names in the file may lead to it."""
        found = self.images_of(path)
        return found == directory or (self._is_open(path, found) and bool(places.folders_in(path, directory)))

    def _is_open(self, path: str, found: str | None) -> bool:
        """Whether names in an annotation file say in which directories the images are. found: as `images_of` says."""
        return found is None or found in places.home_of(path)

    def images_of(self, path: str) -> str | None:
        """The directory whose images an annotation file at the path may annotate: the first that holds images of
        those where corpora have them."""
        return next((directory for directory in places.image_places(path) if self._list(directory).holds_images), None)

    def may_annotate(self, entry: File) -> bool:
        """Whether the file's place or name is that of annotations, or its first bytes are."""
        listed = self._list(entry.path.rpartition("/")[0] or ".")
        return entry in listed.annotations or any(one == entry and self._is_coco(one) for one in listed.other_json)

    def descriptions_of(self, directory: str) -> tuple[Entry, ...]:
        """The nearest tables, here or above, that may describe files of the directory. Whether a Parquet file does is
        known when it is opened: the nearest tables above it may describe them, too."""
        found: list[Entry] = []
        for above in self._upwards(directory):
            found += above.descriptions
            if found and found[-1].name != places.PARQUET:
                break
        return tuple(found)

    def manifests_of(self, directory: str) -> list[Entry]:
        """The manifests, here and above, that may name files of the directory, and the companions of those of
        Kaldi."""
        may_be = [one for above in self._upwards(directory) for one in above.manifests]
        lists = (one for place in file_lists.list_directories(directory) for one in self._list(place).manifests)
        may_be += [one for one in lists if file_lists.is_list(one.name)]
        return [one for one in may_be if one.name in manifest_forms.COMPANIONS or self._is_manifest(one)]

    def companions_of_archive(self, archive: Entry) -> list[Entry]:
        """The tables and manifests that may name members of a zip or a tar, by its name; where there are some, and its
        members may not lie where it lies, one entry more."""
        directory = archive.path.rpartition("/")[0] or "."
        packed = self._list(directory).packed
        found = self._naming_in(directory) if any(one.path == archive.path for one in packed) else []
        is_plain = not found or packed_media.is_plain(archive.name, [one.name for one in packed])
        return found if is_plain else [*found, packed_media.apart(directory)]

    def archives_of(self, table: Entry, directory: str) -> list[tuple[Entry, bool]]:
        """The archives in the directory whose members the table, or the manifest, may name; whether these may lie where
        the archive does."""
        packed = self._list(directory).packed
        names = [one.name for one in packed]
        is_ours = bool(packed) and table in self._naming_in(directory)
        return [(one, packed_media.is_plain(one.name, names)) for one in packed] if is_ours else []

    def _naming_in(self, directory: str) -> list[Entry]:
        """The tables and manifests that may name members of archives in the directory."""
        tables = (one for one in self.descriptions_of(directory) if one.name != places.PARQUET)
        return _sorted([*tables, *self.manifests_of(directory)])

    def _is_manifest(self, entry: Entry) -> bool:
        return not self.is_known_not(entry, shards.MANIFEST) and manifest_forms.is_manifest(
            self._landing, entry, self.parsed
        )

    def _labels_of(self, directory: str) -> list[Entry]:
        """Label files of images in the directory, and images of label files in it, each directory as one entry that
        changes with them; and what says what their classes mean."""
        listed, found = self._list(directory), dict[str, Entry]()
        for place, ending in labels.label_directories(directory) if listed.holds_images else ():
            other = self._list(place)
            if ending in other.revisions:
                found[place] = Entry(f"{place}/*", other.num_files, 0, version=other.revisions[ending])
        may_hold = (place for place, kind in labels.image_directories(directory) if kind in listed.revisions)
        images = [place for place in may_hold if self._list(place).holds_images]
        found |= {place: self._names_of(place) for place in images}
        homes = [home for place in (images or [directory]) for home in labels.class_directories(place)]
        asked = homes if found or listed.may_hold_labels else ()
        return [*found.values(), *(entry for home in asked for entry in self._list(home).classes)]

    def _parallel_of(self, directory: str) -> list[Entry]:
        """The texts of media in the directory, and the media of texts in it, each directory as one entry that changes
        with them."""
        listed, found = self._list(directory), list[Entry]()
        for place in parallel_texts.text_directories(directory) if listed.holds_media else ():
            if (version := (other := self._list(place)).revisions.get(parallel_texts.ENDING)) is not None:
                found.append(Entry(f"{place}/*", other.num_files, 0, version=version))
        media = parallel_texts.media_directories(directory) if parallel_texts.ENDING in listed.revisions else []
        return [*found, *(self._names_of(place) for place in media if self._list(place).holds_media)]

    def holds_companions(self, directory: str) -> bool:
        """Whether files of the directory may describe files elsewhere."""
        listed = self._list(directory)
        describes = bool(listed.annotations or listed.other_json or listed.descriptions or listed.manifests)
        return describes or any(is_annotation_archive(entry.path) for entry in listed.archives)

    def dependencies(self, entry: Entry) -> list[Entry]:
        """What else decides which rows the file has; none for most files.

        Of a table that describes files, and of a manifest: all of their names, and archives that may hold them; of
        Kaldi's also its companions. Of archives these tables and manifests.
        Of annotations: the names of the directory whose images they may annotate, as one entry that changes with them,
        and zips that may hold them.
        Of a zip: the annotations of what it may hold, and where it may hold annotations itself, the images of these.
        """
        if (name := entry.name.lower()).endswith(places.PACKED):
            found = self.companions_of_archive(entry)
            return _sorted([*found, *self._dependencies_of_zip(entry)]) if name.endswith(places.ARCHIVE) else found
        if entry.name in places.TABLES:
            return [self._names_below(entry.path.rpartition("/")[0])]
        if manifest_forms.may_be(entry.name) and (below := self._dependencies_of_manifest(entry)):
            return below
        here = entry.path.rpartition("/")[0] or "."
        is_named = entry in self._list(here).annotations
        if not is_named and not (here in self._above_media and self.may_annotate(entry)):
            return []
        directory, names = self.images_of(entry.path), list[Entry]()
        if directory is not None:
            names.append(self._names_of(directory))
        if self._is_open(entry.path, directory):
            names.append(self._names_below(places.home_of(entry.path)[1].removeprefix("."), of_images=True))
        return [*names, *self._archives_of(entry.path)]

    def _dependencies_of_manifest(self, entry: Entry) -> list[Entry]:
        found = self._list(entry.path.rpartition("/")[0] or ".").manifests
        home = file_lists.home_of(entry.path)
        if entry not in found or home not in self._above_media or not self._is_manifest(entry):
            return []
        is_scp = entry.name == manifest_forms.SCP
        below = self._names_below("" if home == "." else home)
        return [below, *(one for one in found if is_scp and one.name in manifest_forms.COMPANIONS)]

    def _dependencies_of_zip(self, archive: Entry) -> list[Entry]:
        found = list[Entry]()
        for place in places.annotation_places(archive.path.rpartition("/")[0] or "."):
            listed = self._list(place)
            found += [entry for entry in self._annotations_in(place) if isinstance(entry, Entry)]
            found += [entry for entry in listed.archives if is_annotation_archive(entry.path)]
        if is_annotation_archive(archive.path):
            found += self._archives_of(archive.path)
            for directory in places.archived_image_places(archive.path):
                found += [self._names_of(directory)] if self._list(directory).holds_images else []
        return _sorted(entry for entry in found if entry != archive)

    def _archives_of(self, path: str) -> list[Entry]:
        """The zips that may hold the images which a file at the path annotates."""
        return [entry for place in places.archive_places(path) for entry in self._list(place).archives]

    def archives(self, directory: str) -> tuple[Entry, ...]:
        """The zips in the directory that may hold images which files elsewhere annotate, or the other way round."""
        return self._list(directory).archives

    def _names_of(self, directory: str) -> Entry:
        """The names of the directory, as one entry that changes with them."""
        listed = self._list(directory)
        return Entry(f"{directory}/*", listed.num_files, 0, version=listed.names_digest)

    def _names_below(self, home: str, *, of_images: bool = False) -> Entry:
        """The names of all files in and below the directory, as one entry that changes with them. home: "" for the
        landing zone. of_images: those alone that lie next to images."""
        if len(self._sorted) != len(self._listed):
            self._sorted = sorted(self._listed)
        # "0" is the character behind "/": all directories below one lie together.
        first, last = (bisect_left(self._sorted, f"{home}{mark}") for mark in ("/", "0"))
        names = [
            (directory, self._listed[directory].names_digest, *(() if of_images else self._revisions_in(directory)))
            for directory in dict.fromkeys((home or ".", *(self._sorted[first:last] if home else self._sorted)))
            # places that were asked for and hold nothing are listed too, some scans more of them than others
            if directory in self._listed
            and self._listed[directory].num_files
            and (not of_images or self._listed[directory].holds_images)
        ]
        version = hashlib.sha256(repr(names).encode("utf-8", "surrogateescape")).hexdigest()
        return Entry(f"{home or '.'}/**", len(names), 0, version=version)

    def _revisions_in(self, directory: str) -> list[str]:
        """The revision of the Parquet table of the directory, which takes its files from tables above if it names
        some, and that of its archives; none for most directories."""
        listed = self._listed[directory]
        parquet = [entry for entry in listed.descriptions if entry.name == places.PARQUET]
        return [shards.revision_of(found) for found in (parquet, listed.packed) if found]


class UnpackedPlacement(Placement):
    """The same as if zips were unpacked where they lie. own: one that may hold annotations whatever it is called."""

    def __init__(self, landing: Landing, parsed: ParsedFiles, *, own: str | None = None) -> None:
        super().__init__(landing, parsed)
        self._packed, self._own = Placement(landing, parsed), own

    def files(self, directory: str) -> list[File]:
        """The files in the directory, and those that zips here and above would put there: images, and annotations."""
        found = super().files(directory)
        for base in places.upwards(directory):
            archives = {entry.path: entry for entry in self._packed.archives(base)}
            if self._own is not None and (self._own.rpartition("/")[0] or ".") == base:
                own = self._landing.stat(self._own)
                archives |= {own.path: own} if own is not None else {}
            for path, archive in archives.items():
                is_own = path == self._own
                found += unpacked_files(self._landing, archive, directory, self.parsed, is_own=is_own)
        return found


def _sorted(found: Iterable[Entry]) -> list[Entry]:
    """The entries by path, each once."""
    return sorted(set(found), key=lambda entry: entry.path)
