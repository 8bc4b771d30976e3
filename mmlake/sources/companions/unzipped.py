"""What zips would put into a directory if they were unpacked where they lie: as far as annotations and the images that
they speak of go.

Enters: zips and the directories around them. Leaves: entries that can be opened, of files that are never written.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats import zip as zip_format
from mmlake.formats.zip_members import opened
from mmlake.landing import Entry, Landing
from mmlake.sources.companions.placement import Around, holds_images, is_speaking_archive, may_be_annotations
from mmlake.sources.companions.zip_entries import File, Packed, packed, unpacked_path
from mmlake.streams import Window

_ENTRIES_KEPT = 400_000  # of archives, in memory, 150 bytes each; all zips of COCO 2017 have 330,000


def open_entry(landing: Landing, entry: File) -> IO[bytes]:
    """The file, or the member of a zip. Raises UnreadableItem."""
    if not isinstance(entry, Packed):
        return landing.open(entry.path)
    file = landing.open(entry.archive)
    try:
        window = Window(file)
        directory = zip_format.directory_of(window)
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


class Unpacked:
    """The zips of a landing zone, seen as unpacked. own: one that is looked into whatever it is called."""

    def __init__(self, landing: Landing, *, own: str | None = None) -> None:
        self._landing, self._own = landing, own
        self._plain = Around(landing)

    def files(self, directory: str) -> list[File]:
        """What the zips near would put into the directory: images, and annotations of those that may hold them by
        their names."""
        found: list[File] = []
        for base in _bases(directory):
            archives = {entry.path: entry for entry in self._plain.archives(base)}
            if (
                self._own is not None
                and (self._own.rpartition("/")[0] or ".") == base
                and (own := self._landing.stat(self._own)) is not None
            ):
                archives[own.path] = own
            for path, archive in archives.items():
                is_telling = path == self._own or is_speaking_archive(path)
                found += [
                    entry
                    for entry in _listing(self._landing, archive).get(directory, ())
                    if is_telling or not may_be_annotations(entry.path)
                ]
        return found


def _bases(directory: str) -> list[str]:
    """The directory and those above it, whose zips may unpack into it."""
    parts = [] if directory == "." else directory.split("/")
    return ["/".join(parts[:length]) or "." for length in range(len(parts), -1, -1)]


_LISTINGS: OrderedDict[tuple[str, Entry], dict[str, list[File]]] = OrderedDict()
_LISTING = threading.Lock()


def _listing(landing: Landing, archive: Entry) -> dict[str, list[File]]:
    """The archive's images and annotations by the directory where they would lie; read once."""
    key = (landing.location, archive)
    with _LISTING:
        if key not in _LISTINGS:
            _LISTINGS[key] = _listed(landing, archive)
        _LISTINGS.move_to_end(key)
        while (
            len(_LISTINGS) > 1
            and sum(len(entries) + 1 for listing in _LISTINGS.values() for entries in listing.values()) > _ENTRIES_KEPT
        ):
            _LISTINGS.popitem(last=False)
        return _LISTINGS[key]


def _listed(landing: Landing, archive: Entry) -> dict[str, list[File]]:
    found: dict[str, list[File]] = {}
    seen: set[str] = set()
    try:
        with landing.open(archive.path) as file:
            window = Window(file)
            for place, member in zip_format.walk(window, zip_format.directory_of(window)):
                if member.refused is not None:
                    continue
                if holds_images([member.name]):
                    entry: File = Entry(
                        unpacked_path(archive, member), member.size_bytes, archive.modified_ns, None, archive.version
                    )
                elif may_be_annotations(member.name) and member.name not in seen:
                    seen.add(member.name)  # what repeats a name is a row of the zip
                    entry = packed(archive, place, member)
                else:
                    continue
                found.setdefault(entry.path.rpartition("/")[0] or ".", []).append(entry)
    except UnreadableItem:
        return {}  # its own rows say why
    return found
