"""A landing zone below a prefix of an S3 bucket: `s3://bucket/prefix`.

It is listed a directory at a time with the prefix delimiter, so memory holds one directory; it is read by ranges
through the block cache, always at the version that was opened. Keys that no directory tree has (empty, "." or ".."
parts) are refused entries.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO, Any, cast

from mmlake.errors import UnreadableItem
from mmlake.landing.walk import KnownDirectories, walked
from mmlake.landing.zone import MARKERS, Entry, Landing, left_out_as, native, odd_entry, portable
from mmlake.remote import sums
from mmlake.remote.bucket import Bucket, ObjectInfo
from mmlake.remote.checked_file import CheckedFile
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.reading import open_file
from mmlake.remote.s3 import Address, Damaged, Missing, is_odd
from mmlake.remote.settings import RemoteSettings

_BUFFER_BYTES = 64 << 10
_READ_BYTES = 1 << 20
_TRIES = 3  # of a whole transfer
_ODD = "a key with an empty, '.' or '..' part, which no directory tree has"
_BOTH = "an object whose name is also a directory's"


class S3Landing(Landing):
    """A landing zone below a prefix of an S3 bucket.

    client: a boto3 S3 client, such as dagster-aws's S3Resource makes; None takes the connections', which is made from
    the environment when it is first needed.
    """

    def __init__(
        self,
        address: str,
        *,
        client: Any = None,
        remote: RemoteSettings | None = None,
        connections: RemoteConnections | None = None,
    ) -> None:
        self._address = Address.parse(address)
        self._remote, self._connections = remote or RemoteSettings(), connections or RemoteConnections()
        self.num_at_once = self._remote.files_at_once
        self.bucket = Bucket(self._address.bucket, client=client, connections=self._connections, settings=self._remote)
        self.location = str(self._address)
        self._root = f"{self._address.prefix}/" if self._address.prefix else ""
        self._verified = set[str]()  # identities of objects
        self._markers: dict[str, dict[str, Entry]] = {}  # directory -> the markers that its last listing found
        self._known = KnownDirectories()

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        self._markers.clear()
        self._known.clear()
        return self.directories_below(".")

    def directories_below(self, directory: str) -> Iterator[tuple[str, list[Entry]]]:
        start = native(directory)
        if start != "." and is_odd(start):
            return
        for listed, entries in walked(start, self._list, num_at_once=self.num_at_once):
            if entries:
                yield portable(listed), entries

    def files(self, directory: str) -> list[Entry]:
        path = native(directory)
        if path != "." and (is_odd(path) or self._known.lack(path)):
            return []
        return self._list(path)[0]

    def _list(self, directory: str) -> tuple[list[Entry], list[str]]:
        """(the directory's files sorted by path, the directories in it sorted)."""
        prefix = self._prefix(directory)
        entries: dict[str, Entry] = {}
        markers: dict[str, Entry] = {}
        below: list[str] = []
        for found, prefixes in self.bucket.pages(prefix, delimiter="/"):
            for one in found:
                name = one.key.removeprefix(prefix)
                if name in MARKERS:
                    markers[name] = self._entry(one)
                elif name in (".", "..") or (not name and one.size_bytes):
                    entries[name] = odd_entry(directory, name or "/", _ODD)
                elif name and left_out_as(name) is None:
                    entries[name] = self._entry(one)
            for whole in prefixes:
                name = whole.removeprefix(prefix)[:-1]
                if is_odd(name):
                    entries.update(
                        (one.key, odd_entry(directory, one.key.removeprefix(prefix), _ODD))
                        for one in self.bucket.objects(whole)
                    )
                elif not name.startswith("."):
                    below.append(name)
        for name in below:
            if name in entries:  # their shards would have one key, and one of them be lost
                entries[name] = Entry(entries[name].path, 0, entries[name].modified_ns, _BOTH)
        self._markers[directory] = markers
        self._known.note(directory, below)
        return sorted(entries.values(), key=lambda entry: entry.path), [
            name if directory == "." else f"{directory}/{name}" for name in sorted(below)
        ]

    def stat(self, path: str) -> Entry | None:
        """As `Landing.stat`; a marker is answered for by the last listing of its directory, so that a scan does not
        ask for one with each shard."""
        plain = native(path)
        if is_odd(plain):
            return None
        directory, _, name = plain.rpartition("/")
        if name in MARKERS and (listed := self._markers.get(directory or ".")) is not None:
            return listed.get(name)
        try:
            found = self.bucket.head(self._address.key(plain))
        except UnreadableItem:
            return None
        return None if found is None else self._entry(found)

    def open(self, path: str) -> IO[bytes]:
        plain = native(path)
        if is_odd(plain) or "\0" in plain:
            raise UnreadableItem(1007, f"path {path[:200]!r} is {_ODD}")
        found = self.bucket.head(self._address.key(plain))
        if found is None:
            raise Missing
        return self._opened(found)

    def open_listed(self, entry: Entry) -> IO[bytes]:
        if entry.version is None or entry.refused is not None:
            return self.open(entry.path)
        key = self._address.key(native(entry.path))
        return self._opened(ObjectInfo(key, entry.size_bytes, entry.version, entry.modified_ns, {}))

    def _opened(self, found: ObjectInfo) -> IO[bytes]:
        if found.size_bytes == 0:
            return io.BytesIO()

        def read_range(offset: int, size: int) -> bytes:
            return self.bucket.read_range(found.key, etag=found.etag, offset=offset, size=size)

        raw = open_file(self._connections.cache(self._remote), self._identity(found), found.size_bytes, read_range)
        if not self._has_many_parts(found):
            return raw
        checked = CheckedFile(
            raw,
            size_bytes=found.size_bytes,
            expected=found.etag,
            hasher=sums.md5(),
            otherwise=partial(self._compare, found),
        )
        return cast("IO[bytes]", io.BufferedReader(checked, _BUFFER_BYTES))

    def verify(self, path: str) -> None:
        """Return if the whole object, which the cache then holds, has the MD5 that its ETag states, or two transfers of
        it agree. Raises Damaged where bytes change on the way again and again.

        Not held against anything: objects that were uploaded in parts, whose ETag is no hash of the whole, and those
        of more than half of the cache.
        """
        found = self.bucket.head(self._address.key(native(path)))
        if found is None or not self._has_many_parts(found) or 2 * found.size_bytes > self._remote.cache_bytes:
            return
        for left in range(_TRIES - 1, -1, -1):
            if self._identity(found) in self._verified:
                return
            try:
                with self.open(path) as file:
                    while file.read(_READ_BYTES):
                        pass
                self._verified.add(self._identity(found))
            except Damaged:
                if not left:
                    raise

    def _compare(self, found: ObjectInfo, actual: str) -> None:
        """Raise Damaged where what was read is not what a second transfer gives."""
        if self.bucket.doubts(found, actual):
            self._connections.cache(self._remote).forget(self._identity(found), found.size_bytes)
            raise Damaged(f"GET {self._address.bucket}/{found.key}")

    def _has_many_parts(self, found: ObjectInfo) -> bool:
        """Whether the ETag may be a hash of the object, and it comes in several requests; the bucket checks what comes
        in one."""
        return found.size_bytes > self._remote.block_bytes and sums.may_be_md5(found.etag)

    def _identity(self, found: ObjectInfo) -> str:
        return f"{self.bucket.endpoint} {self.bucket.name} {found.key}@{found.etag}"

    def sparing(self) -> S3Landing:
        other = copy.copy(self)
        other._remote = replace(self._remote, ahead_blocks=0)
        return other

    def has(self, path: str) -> bool:
        plain = native(path)
        if path == "." or self.stat(path) is not None:
            return True
        return not is_odd(plain) and next((True for _ in self.bucket.objects(self._prefix(plain))), False)

    def _prefix(self, directory: str) -> str:
        return self._root if directory == "." else f"{self._root}{directory}/"

    def _entry(self, found: ObjectInfo) -> Entry:
        return Entry(
            portable(found.key.removeprefix(self._root)), found.size_bytes, found.modified_ns, version=found.etag
        )
