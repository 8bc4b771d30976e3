"""What a landing zone is to the library: a tree of files that is listed and opened here and nowhere else.

Enters: a directory or the address of remote storage. Leaves: directories with their files, and binary files opened for
reading and seeking. Paths are relative and POSIX, in their portable spelling (see `portable`).
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from mmlake.errors import SettingsError
from mmlake.media_names import COMPANION_NAMES, MEDIA_NAMES

# what copying programs call a file that they still write, and what yt-dlp and aria2 note next to one
UNFINISHED = (".part", ".tmp", ".crdownload", ".filepart", ".ytdl", ".aria2")
SUCCESS = "_SUCCESS"
# files about other files: `stat` and `open` find them, listings leave them out
MARKERS = (SUCCESS, "_source.json", "_provenance.json")
# Hidden names that end as media do: AppleDouble (._), locks (.# and .~), what Android throws away or still writes, what
# NFS, FUSE, GNOME, Finder and Syncthing keep for a while, the icon of a volume.
_LITTER = re.compile(
    r"\.(?:[_#~]|te?mp\b|te?mp_|nfs[0-9a-f]{8}|fuse_hidden|goutputstream|sb-|syncthing\.|pending-|trashed-|volumeicon\.)",
    re.IGNORECASE,
)
ENCODED = "fsencoded:"  # prefix of a path whose bytes are no UTF-8 and so could not stand in a table


class Entry(NamedTuple):  # a frozen dataclass takes five times as long to make
    """One file of the landing zone."""

    path: str  # relative, POSIX, in its portable spelling (see `portable`)
    size_bytes: int
    modified_ns: int
    refused: str | None = None  # why it is never opened, in our words
    # what the storage itself names the content by (ETag, object id); None where only size and time distinguish versions
    version: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class LeftOut(NamedTuple):
    """A name of the landing zone that is never listed."""

    path: str  # portable; of a directory with a slash at its end, and what is below it is not listed
    size_bytes: int  # 0 for a directory
    reason: str  # hidden, unfinished or marker


def left_out_as(name: str) -> str | None:
    """Why listings leave out a file of that name; None where they do not. Of directories, hidden ones are left out."""
    if name.startswith(".") and not _is_hidden_medium(name):
        return "hidden"
    return "unfinished" if name.endswith(UNFINISHED) else "marker" if name in MARKERS else None


def _is_hidden_medium(name: str) -> bool:
    """Whether a name that begins with a dot is that of an image, sound, film or text that somebody hid, and none of
    those that systems and copying programs give to what is none, or is not whole yet."""
    stem, _, extension = name[1:].lower().rpartition(".")
    is_known = extension in MEDIA_NAMES or extension in COMPANION_NAMES
    return bool(stem) and is_known and not _LITTER.match(name)


class Landing(ABC):
    """A landing zone. Unfinished and marker files are never listed, nor hidden ones but media; see `left_out`."""

    # how many files a reader of many should open at once: more than one where each waits for a network
    num_at_once: int = 1
    # as a person names it: a directory, `s3://bucket/prefix`, `hf://datasets/org/name@revision`; never with a
    # credential
    location: str

    @abstractmethod
    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        """(directory, its files sorted by path), directories sorted; "." is the root."""

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        """As `directories`, the directory at the portable path and those below it alone; none where it does not exist.
        Storage that lists a directory at a time lists no others."""
        inside = "" if directory == "." else f"{native(directory)}/"
        return (one for one in self.directories() if f"{native(one[0])}/".startswith(inside))

    @abstractmethod
    def files(self, directory: str) -> list[Entry]:
        """The files directly in the directory at the portable path, sorted; none where it does not exist."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """The file at the portable path, markers included, or None where there is none."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """The file at the portable path, for reading and seeking. Raises UnreadableItem: 1007 unsafe, 1001 missing
        or not readable."""

    def open_listed(self, entry: Entry) -> IO[bytes]:
        """As `open`, of a file that was listed a moment ago: the storage need not be asked again how large it is.
        Raises UnreadableItem 1001 where the file is no longer the one that was listed, as far as that is seen."""
        return self.open(entry.path)

    def head(self, path: str, size_bytes: int) -> bytes:
        """The first bytes of the file, all of it where it has no more. Raises as `open` and as reading does."""
        parts, left = [], size_bytes
        with self.open(path) as file:
            while left and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def has(self, path: str) -> bool:
        """Whether there is a file, or a directory with files in it or below it, at the portable path."""
        if path == "." or self.stat(path) is not None or self.files(path):
            return True
        return any(True for _ in self.directories_below(path))

    def parts(self) -> list[Landing]:
        """The landing zones that it is made up of, each by itself; itself where it is one."""
        return [self]

    def part_of(self, path: str) -> Landing:
        """The one of `parts` that has the path, under the same path; a landing zone without files where none has it."""
        return self

    def left_out(self) -> Iterator[LeftOut]:
        """What the listings leave out. Raises SettingsError where the storage is not on this machine."""
        raise SettingsError(
            f"what is left out of {self.location} cannot be listed: that is known of directories of this machine "
            "alone; list the storage with its own client"
        )

    def naming(self) -> AbstractContextManager[None]:
        """A context whose errors name the landing zone, where it is one of several."""
        return nullcontext()

    def local_path(self, path: str) -> Path | None:
        """Where the file at the portable path lies on this machine, for libraries that open files themselves; None
        where it lies elsewhere."""
        return None

    def provenance(self) -> Mapping[str, object]:
        """Where the bytes come from, for the record: "location"; "revision" where the storage pins one; "zones",
        with the same of each, where it is made up of several."""
        return {"location": self.location}

    def defaults(self, directory: str = ".") -> dict[str, str]:
        """The "source" and "licence" (in the publisher's spelling) of rows of the directory where neither their
        record nor a `_source.json` states them; empty where nothing is known."""
        return {}

    def sparing(self) -> Landing:
        """The same landing zone without read-ahead, for readers that stop early."""
        return self

    def verify(self, path: str) -> None:
        """Return if the whole file has the hash that its publisher states, or none is stated. Raises UnreadableItem
        1010 where it has another."""
        return


def portable(path: str) -> str:
    """The path as tables and refs hold it: itself, or percent-encoded where its bytes are no UTF-8. Reversed by
    `native`."""
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            return ENCODED + quote_from_bytes(os.fsencode(path), safe="/")
    return ENCODED + quote_from_bytes(path.encode(), safe="/") if path.startswith(ENCODED) else path


def is_odd(path: str) -> bool:
    """Whether no directory tree has the native path: a part is empty, "." or "..", or has a NUL in it."""
    return any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path


def odd_entry(directory: str, rest: str, reason: str) -> Entry:
    """A refused entry for a path that no directory tree has. directory: its native path. rest: percent-encoded with
    its slashes and dots, so that it is one harmless name."""
    name = quote(rest, safe="", errors="surrogatepass").replace(".", "%2E")
    inside = "" if directory == "." else quote_from_bytes(os.fsencode(directory), safe="/") + "/"
    return Entry(f"{ENCODED}{inside}{name}", 0, 0, reason)


def native(path: str) -> str:
    """The path as the file system spells it."""
    return os.fsdecode(unquote_to_bytes(path.removeprefix(ENCODED))) if path.startswith(ENCODED) else path
