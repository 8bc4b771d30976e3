"""A landing zone in any other storage that fsspec knows: gs://, az://, abfs://, ftp://, sftp://, smb://, github://,
memory:// and more.

It is listed a directory at a time and read by ranges through the block cache. After every range the storage is asked
whether the file is still what it was. What is no plain file (links, devices) is refused, and so are names that no
directory tree has.
"""

from __future__ import annotations

import copy
import io
import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import IO

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing.walk import KnownDirectories, walked
from mmlake.landing.zone import MARKERS, Entry, Landing, is_odd, left_out_as, native, odd_entry, portable
from mmlake.remote.backoff import Retries
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.reading import open_file
from mmlake.remote.settings import RemoteSettings
from mmlake.remote.storages import FileInfo, Storage

_MAX_DEPTH = 64  # directories below each other: some storages have links that lead back up
_ODD = "a name with a slash, or an empty, '.' or '..' name, which no directory tree has"
_BOTH = "a file whose name is also a directory's"
_SPECIAL = "a link, device or pipe"
_UNMEASURED = "a file whose size the storage does not state"


class FilesystemLanding(Landing):
    """A landing zone in storage that fsspec reads. Raises SettingsError for a scheme that is not opened, and where
    its package is missing."""

    def __init__(
        self,
        address: str,
        *,
        remote: RemoteSettings | None = None,
        connections: RemoteConnections | None = None,
        retries: Retries | None = None,
    ) -> None:
        self._remote, self._connections = remote or RemoteSettings(), connections or RemoteConnections()
        self.num_at_once = self._remote.files_at_once
        self._storage = Storage(address, settings=self._remote, connections=self._connections, retries=retries)
        self.location = self._storage.location
        self._markers: dict[str, set[str]] = {}  # native directory -> the markers that its last listing found
        self._known = KnownDirectories()

    @cached_property
    def _only(self) -> str | None:
        """The name of the one file that the address is; None where it is a directory."""
        found = self._storage.info(self._storage.root)
        return self._storage.root.rpartition("/")[2] if found is not None and found.kind == "file" else None

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        self._markers.clear()
        self._known.clear()
        return self.directories_below(".")

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        start = "" if directory == "." else native(directory)
        if self._only is not None or (start and is_odd(start)):
            yield from [(".", found)] if (found := self.files(directory)) else []
            return

        def listed(node: tuple[str, int]) -> tuple[list[Entry], list[tuple[str, int]]]:
            directory, depth = node
            found = self._list(directory)
            if found is None and not depth:
                raise SettingsError(f"landing zone {self.location} is not there; correct the address")
            entries, below = found or ([], [])
            if below and depth == _MAX_DEPTH:
                raise SettingsError(
                    f"landing zone {self.location} has more than {_MAX_DEPTH} levels of directories; name a "
                    "directory below it"
                )
            return entries, [(path, depth + 1) for path in below]

        depth = start.count("/") + 1 if start else 0
        for (directory, _), entries in walked((start, depth), listed, num_at_once=self.num_at_once):
            if entries:
                yield portable(directory or "."), entries

    def files(self, directory: str) -> list[Entry]:
        plain = "" if directory == "." else native(directory)
        if self._only is not None:
            found = self._storage.info(self._storage.root) if not plain else None
            return [] if found is None else [_entry(self._only, found)]
        listed = None if plain and (is_odd(plain) or self._known.lack(plain)) else self._list(plain)
        return [] if listed is None else listed[0]

    def _list(self, directory: str) -> tuple[list[Entry], list[str]] | None:
        """(the directory's files sorted by path, the directories in it sorted); None where it is not there. "" is
        the root."""
        at = self._at(directory)
        listed = self._storage.listed(at)
        if listed is None:
            return None
        entries, below, markers = dict[str, Entry](), list[str](), set[str]()
        for info in listed:
            name = info.path.removeprefix(f"{at}/") if at else info.path
            if is_odd(name) or "/" in name:
                entries[name] = odd_entry(directory or ".", name, _ODD)
            elif info.kind == "directory":
                below += [] if name.startswith(".") else [name]
            elif name in MARKERS:
                markers.add(name)
            elif left_out_as(name) is None:
                entries[name] = _entry(f"{directory}/{name}".lstrip("/"), info)
        for name in below:
            if name in entries:  # their shards would have one key, and one of them be lost
                entries[name] = Entry(entries[name].path, 0, entries[name].modified_ns, _BOTH)
        self._markers[directory] = markers
        self._known.note(directory or ".", below)
        return sorted(entries.values(), key=lambda entry: entry.path), [
            f"{directory}/{name}".lstrip("/") for name in sorted(below)
        ]

    def stat(self, path: str) -> Entry | None:
        """As `Landing.stat`; a marker is answered for by the last listing of its directory."""
        plain = native(path)
        directory, _, name = plain.rpartition("/")
        if name in MARKERS and directory in self._markers and name not in self._markers[directory]:
            return None
        try:
            found = self._info(plain)
        except UnreadableItem:
            return None
        return None if found is None else _entry(plain, found)

    def open(self, path: str) -> IO[bytes]:
        plain = native(path)
        if is_odd(plain):
            raise UnreadableItem(1007, f"path {path[:200]!r} leaves the landing zone")
        found = self._info(plain)
        if found is None:
            raise UnreadableItem(1001, "the file is missing")
        if found.size_bytes is None:
            raise UnreadableItem(1001, _UNMEASURED)
        if found.size_bytes == 0:
            return io.BytesIO()
        opened: FileInfo = found

        def read_range(offset: int, size: int) -> bytes:
            return self._storage.read_range(opened, offset=offset, size=size)

        # Without a version or a time, nothing distinguishes two contents: the cache then serves this open file alone.
        version = found.version or found.modified_ns or f"unknown {secrets.token_hex(8)}"
        cache, identity = self._connections.cache(self._remote), f"{self.location} {found.path}@{version}"
        return open_file(cache, identity, found.size_bytes, read_range)

    def has(self, path: str) -> bool:
        plain = native(path)
        if path == "." or self.stat(path) is not None:
            return True
        pending = [] if self._only is not None or is_odd(plain) else [plain]
        while pending and len(pending[-1].split("/")) <= _MAX_DEPTH:
            entries, below = self._list(pending.pop()) or ([], [])
            if entries:
                return True
            pending.extend(below)
        return False

    def sparing(self) -> FilesystemLanding:
        other = copy.copy(self)
        other._remote = replace(self._remote, ahead_blocks=0)
        return other

    def _info(self, path: str) -> FileInfo | None:
        """What the storage says of the plain file at the native path; None where there is none."""
        if is_odd(path) or (self._only is not None and path != self._only):
            return None
        found = self._storage.info(self._at("" if self._only is not None else path))
        return found if found is not None and found.kind == "file" else None

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self._storage.root, path) if part)


def _entry(path: str, info: FileInfo) -> Entry:
    refused = _SPECIAL if info.kind != "file" else _UNMEASURED if info.size_bytes is None else None
    return Entry(
        portable(path),
        0 if refused else info.size_bytes or 0,
        info.modified_ns,
        refused,
        version=None if refused else info.version,
    )
