"""What a landing zone is to the library: a tree of files that is listed and opened here and nowhere else.

Enters: a directory or the address of remote storage. Leaves: directories with their files, and binary files opened for reading and
seeking. Paths are relative and POSIX, in their portable spelling (see `portable`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

UNFINISHED = (".part", ".tmp", ".crdownload", ".filepart")  # what copying programs call a file that they still write
SUCCESS = "_SUCCESS"
MARKERS = (SUCCESS, "_source.json", "_provenance.json")  # files that say something about others; `stat` and `open` find them, listings leave them out
ENCODED = "fsencoded:"  # prefix of a path whose bytes are no UTF-8 and so could not stand in a table


class Entry(NamedTuple):  # a frozen dataclass takes five times as long to make
    """One file of the landing zone."""

    path: str  # relative, POSIX, in its portable spelling (see `portable`)
    size_bytes: int
    modified_ns: int
    refused: str | None = None  # why it is never opened, in our words
    version: str | None = None  # what the storage itself names the content by (ETag, object id); None where only size and time tell

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Landing(ABC):
    """A landing zone. Hidden, unfinished and marker files are never listed."""

    num_at_once: int = 1  # files that are worth opening at once by a reader of many: more than one where each waits for a network
    location: str  # as a person names it: a directory, `s3://bucket/prefix`, `hf://datasets/org/name@revision`; never with a credential

    @abstractmethod
    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        """(directory, its files sorted by path), directories sorted; "." is the root."""

    @abstractmethod
    def files(self, directory: str) -> list[Entry]:
        """The files directly in the directory at the portable path, sorted; none where it does not exist."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """The file at the portable path, markers included, or None where there is none."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """The file at the portable path, for reading and seeking. Raises UnreadableItem: 1007 unsafe, 1001 missing or not readable."""

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
        below = f"{native(path)}/"
        return any(native(directory).startswith(below) for directory, _ in self.directories())

    def parts(self) -> list[Landing]:
        """The landing zones that are looked at apart: itself, where it is not made up of several."""
        return [self]

    def part_of(self, path: str) -> Landing:
        """The one of `parts` that has the path, whose paths are the same; one without files where none has."""
        return self

    def naming(self) -> AbstractContextManager[None]:
        """What is raised inside names the landing zone where it is one of several."""
        return nullcontext()

    def local_path(self, path: str) -> Path | None:
        """Where the portable path lies in the file system of this machine; None where it does not. For libraries that open files themselves."""
        return None

    def provenance(self) -> Mapping[str, object]:
        """Where the bytes come from, for the record: the location, the revision that it is pinned to where the storage has such a thing, and the same of each of its `zones`."""
        return {"location": self.location}

    def defaults(self, directory: str = ".") -> dict[str, str]:
        """What rows of the directory get where neither their record nor a `_source.json` says: "source", "licence" in the publisher's spelling. Empty where nothing is known."""
        return {}

    def sparing(self) -> Landing:
        """The same landing zone, for readers that stop early: its files are not read ahead of what is asked for."""
        return self

    def verify(self, path: str) -> None:
        """Return if the whole file has the hash that its publisher states, or none is stated. Raises UnreadableItem 1010 where it has another."""
        return


def portable(path: str) -> str:
    """The path as tables and refs hold it: itself, or percent-encoded where its bytes are no UTF-8. Reversed by `native`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return ENCODED + quote_from_bytes(os.fsencode(path), safe="/")
    return ENCODED + quote_from_bytes(path.encode(), safe="/") if path.startswith(ENCODED) else path


def odd_entry(directory: str, rest: str, reason: str) -> Entry:
    """A refused entry of the directory, a native path, for what has no place in a tree: its slashes and dots are spelled so that it is one harmless name."""
    name = quote(rest, safe="", errors="surrogatepass").replace(".", "%2E")
    inside = "" if directory == "." else quote_from_bytes(os.fsencode(directory), safe="/") + "/"
    return Entry(f"{ENCODED}{inside}{name}", 0, 0, reason)


def native(path: str) -> str:
    """The path as the file system spells it."""
    return os.fsdecode(unquote_to_bytes(path.removeprefix(ENCODED))) if path.startswith(ENCODED) else path
