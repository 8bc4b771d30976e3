"""A file of the landing zone, or a member of a zip in it that is looked at as one."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.formats.zip import ZipMember
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.names import label_of


@dataclass(frozen=True, slots=True)
class Packed:
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


File = Entry | Packed


def packed(archive: Entry, place: int, member: ZipMember) -> Packed:
    """A member as a file. place: where its entry stands in the archive's directory."""
    return Packed(
        unpacked_path(archive, member),
        member.size_bytes,
        archive.modified_ns,
        archive.version,
        archive.path,
        label_of(member.name),
        place,
    )


def unpacked_path(archive: Entry, member: ZipMember) -> str:
    """Where the member would lie if the zip were unpacked where it lies."""
    directory, name = archive.path.rpartition("/")[0], member.name.removeprefix("./")
    return f"{directory}/{name}" if directory else name


def locate(file: File, pointer: str) -> SourceRef:
    """The locator of what stands at the pointer in the file."""
    return (
        SourceRef(file.archive, f"{file.member}#{pointer}")
        if isinstance(file, Packed)
        else SourceRef(file.path, f"#{pointer}")
    )
