"""A store in memory, for tests whose subject is the reader: it keeps what a store promises, without a disk's syncs."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from mmlake import sources
from mmlake.records import digest_of

SETTINGS = sources.SourceSettings()


class MemoryStore:
    """Blobs in a dict."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, data: bytes, *, extension: str = "bin") -> str:
        """The digest of the bytes, which are kept."""
        digest = digest_of(data)
        self.blobs[digest] = bytes(data)
        return digest

    def put_stream(self, stream: IO[bytes], *, extension: str = "bin", head: bytes = b"") -> tuple[str, int]:
        """(digest, size) of the head and what the stream still holds."""
        data = head + stream.read()
        return self.put(data), len(data)


def rows_of(landing: Path, *, settings: sources.SourceSettings = SETTINGS) -> list[dict[str, Any]]:
    """The rows of all modalities of all shards of a landing zone, by item id. What has a digest is stored under it."""
    store, rows = MemoryStore(), []
    for shard in sources.scan(landing, settings=settings):
        for modality in shard.modalities:
            table = sources.ingest(shard, modality, landing=landing, store=store, settings=settings)  # type: ignore[arg-type]
            rows += table.to_pylist()
    rows.sort(key=lambda row: row["item_id"])
    for row in rows:
        assert row["digest"] is None or len(store.blobs[row["digest"]]) == row["size_bytes"]
    return rows
