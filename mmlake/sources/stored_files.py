"""Which blobs the loose files of a shard became, so that a large one that is still there is not read again because
another was laid next to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmlake.errors import BlobMissing
from mmlake.landing import Entry
from mmlake.records import Digest, canonical_json
from mmlake.sources.raw_items import Member, RawItem
from mmlake.store import Blobs

# files up to here are read whole when they are classified: to open a file again costs as much as to read this
LARGE_BYTES = 1 << 15


class StoredFiles:
    """The files as they were when the shard was last ingested, and as they are."""

    def __init__(self, before: Mapping[str, Sequence[str]], store: Blobs) -> None:
        """before: `now` of the last ingest."""
        self._before, self._store = before, store
        self.now: dict[str, list[str]] = {}  # path -> version, digest

    def blob_of(self, entry: Entry) -> tuple[Digest, int] | None:
        """Digest and size of the file's blob, where the file has the size and the version, or time, that it had, and
        the store still has the blob."""
        if entry.path not in self._before:
            return None
        version, digest = self._before[entry.path]
        if version != _version(entry):
            return None
        try:
            is_there = self._store.size(digest) == entry.size_bytes
        except BlobMissing:
            return None
        return (digest, entry.size_bytes) if is_there else None

    def note(self, item: RawItem, entries: Mapping[str, Entry]) -> None:
        """Remember the blob of an item that is a file as it lies. entries: the loose files of the shard by path."""
        content = item.content
        if item.digest is None or item.fault is not None or item.modality == "text" or not isinstance(content, Member):
            return
        entry = entries.get(content.path) if content.label is None else None
        if entry is not None and item.size_bytes == entry.size_bytes > LARGE_BYTES:
            self.now[entry.path] = [_version(entry), item.digest]


def _version(entry: Entry) -> str:
    return canonical_json([entry.size_bytes, entry.version or entry.modified_ns])
