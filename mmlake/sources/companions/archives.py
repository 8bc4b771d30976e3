"""Zips of a landing zone as if they were unpacked where they lie: as far as annotations and the images that they
annotate go.

Enters: zips and the directories around them. Leaves: entries that can be opened, of files that are never written.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats import zip as zip_format
from mmlake.formats.zip import ZipMember
from mmlake.formats.zip_members import opened
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.companions.places import holds_images, is_annotation_archive, may_be_annotations
from mmlake.sources.names import label_of
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.raw_items import Opener
from mmlake.streams import Window


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A member of a zip, with what an entry of the landing zone has. Changes whenever the zip does."""

    path: str  # where it would lie, unpacked
    size_bytes: int
    modified_ns: int  # of the zip, as are the next two
    version: str | None
    archive: str  # path
    member: str  # what locators call it
    place: int  # where its entry stands in the archive's directory
    refused: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


File = Entry | ArchiveMember  # a file of the landing zone, or a member of a zip that counts as one
Listing = dict[str, list[File]]  # images and annotations of a zip by the directory where they would lie

# In memory, 150 bytes each; all zips of COCO 2017 have 330,000.
_LISTINGS: Kind[Listing] = Kind(max_size=400_000, size_of=lambda one: len(one) + sum(map(len, one.values())))


class OneFile(Landing):
    """A member as a landing zone that has it alone."""

    location = "."

    def __init__(self, entry: Entry, open_member: Opener) -> None:
        self._entry, self._open = entry, open_member

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        yield ".", [self._entry]

    def files(self, directory: str) -> list[Entry]:
        return [self._entry]

    def stat(self, path: str) -> Entry | None:
        return self._entry

    def open(self, path: str) -> IO[bytes]:
        return self._open()


def member_of(archive: Entry, place: int, member: ZipMember) -> ArchiveMember:
    """A member as a file. place: where its entry stands in the archive's directory."""
    path, of_archive = _unpacked_path(archive, member), (archive.modified_ns, archive.version, archive.path)
    return ArchiveMember(path, member.size_bytes, *of_archive, label_of(member.name), place)


def _unpacked_path(archive: Entry, member: ZipMember) -> str:
    """Where the member would lie if the zip were unpacked where it lies."""
    directory, name = archive.path.rpartition("/")[0], member.name.removeprefix("./")
    return f"{directory}/{name}" if directory else name


def locate(file: File, pointer: str) -> SourceRef:
    """The locator of what stands at the pointer in the file."""
    if isinstance(file, ArchiveMember):
        return SourceRef(file.archive, f"{file.member}#{pointer}")
    return SourceRef(file.path, f"#{pointer}")


def open_file(landing: Landing, entry: File) -> IO[bytes]:
    """The file, or the member of a zip. Raises UnreadableItem."""
    if not isinstance(entry, ArchiveMember):
        return landing.open(entry.path)
    file = landing.open(entry.archive)
    try:
        directory = zip_format.directory_of(window := Window(file))
        member = zip_format.entry_at(window, entry.place, directory)
        if member.refused is not None:
            raise UnreadableItem(*member.refused)
        return _Closing(opened(file, member, zip_format.data_of(window, member, directory.start)), file)
    except UnreadableItem:
        file.close()
        raise


class _Closing(io.BufferedReader):
    """A member that takes its archive along when it is closed."""

    def __init__(self, stream: io.BufferedReader, archive: IO[bytes]) -> None:
        super().__init__(stream.detach(), 1 << 16)
        self._archive = archive

    def close(self) -> None:
        super().close()
        self._archive.close()


def unpacked_files(
    landing: Landing, archive: Entry, directory: str, parsed: ParsedFiles, *, is_own: bool = False
) -> list[File]:
    """What the zip would put into the directory: images, and annotations where it may hold them by its name. is_own:
    whether its annotations count whatever it is called."""
    is_named = is_own or is_annotation_archive(archive.path)
    listing = parsed.get(_LISTINGS, (landing.location, archive), lambda: _listing(landing, archive))
    return [entry for entry in listing.get(directory, ()) if is_named or not may_be_annotations(entry.path)]


def _listing(landing: Landing, archive: Entry) -> Listing:
    found, seen = Listing(), set[str]()
    try:
        with landing.open(archive.path) as file:
            window = Window(file)
            for place, member in zip_format.walk(window, zip_format.directory_of(window)):
                if holds_images([member.name]):  # one that cannot be read is a row, and has its captions
                    path = _unpacked_path(archive, member)
                    entry: File = Entry(path, member.size_bytes, archive.modified_ns, None, archive.version)
                elif member.refused is None and may_be_annotations(member.name) and member.name not in seen:
                    seen.add(member.name)  # what repeats a name is a row of the zip
                    entry = member_of(archive, place, member)
                else:
                    continue
                found.setdefault(entry.path.rpartition("/")[0] or ".", []).append(entry)
    except UnreadableItem:
        return {}  # its own rows say why
    return found
