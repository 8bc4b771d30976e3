"""Shards of short texts as Parquet: a row per sample, its text and its facts as columns.

A tar takes 2 kB for a text of 200 bytes; here headers are gone and facts that repeat are compressed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from mmlake.errors import ShardCorrupt
from mmlake.formats.tar_writer import Member
from mmlake.records import canonical_json

ENDINGS = ("txt", "json")  # of the samples that a row can hold
ROW_GROUP_ROWS = 512  # what a reader decodes for one sample of a shuffled epoch: 0.3 MB of short texts
_LEVEL = 9  # of zstd
_REPEATED = [
    *("modality", "num_occurrences", "sources.list.element", "licences.list.element"),
    *(
        f"parts.list.element.{name}"
        for name in ("position", "role", "modality", "content_type", "size_bytes", "member")
    ),
]
_TEXTS = pa.list_(pa.string())
_PART = pa.struct(
    [
        ("position", pa.int32()),
        ("role", pa.string()),
        ("modality", pa.string()),
        ("digest", pa.string()),
        ("content_type", pa.string()),
        ("size_bytes", pa.int64()),
        ("member", pa.string()),
        ("text", pa.string()),
        ("fields", pa.string()),  # JSON
    ]
)
ROWS = pa.schema(
    [
        ("key", pa.string()),
        ("weight", pa.float32()),
        ("text", pa.string()),
        ("modality", pa.string()),
        ("num_occurrences", pa.int32()),
        ("sources", _TEXTS),
        ("licences", _TEXTS),
        ("sample_ids", _TEXTS),
        ("fields", pa.string()),  # JSON
        ("captions", _TEXTS),
        ("transcripts", _TEXTS),
        ("parts", pa.list_(_PART)),
    ]
)


class MembersOfRow:
    """The members of one sample in memory, in place of a tar."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def add(self, name: str, data: bytes) -> Member:
        """The member that now holds the data."""
        self.data.append(data)
        return Member(name, 0, len(data), zlib.crc32(data))

    def add_stream(self, name: str, size_bytes: int, stream: IO[bytes], *, digest: str) -> Member:
        """As `TarWriter.add_stream`."""
        data = stream.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ShardCorrupt(f"blob {digest} no longer hashes to its name; run `mmlake fsck`, then write again")
        return self.add(name, data)

    def row(self, weight: float) -> dict[str, Any]:
        """The row (ROWS) of a sample whose members are ENDINGS."""
        text, described = self.data
        facts: dict[str, Any] = json.loads(described)
        facts["parts"] = [part | {"fields": _as_json(part["fields"])} for part in facts["parts"]]
        facts["fields"] = _as_json(facts["fields"])
        return facts | {"key": facts.pop("sample"), "weight": weight, "text": text.decode("utf-8", "replace")}


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What is now in the file, which is synced: sha256, size_bytes, num_samples, num_members."""
    import pyarrow.parquet as pq

    count, pending = 0, list[Mapping[str, Any]]()
    with path.open("w+b") as file:
        with pq.ParquetWriter(
            file,
            ROWS,
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=_REPEATED,
            write_statistics=["key"],
            write_page_checksum=True,
            store_schema=False,
        ) as writer:
            for row in rows:
                pending.append(row)
                count += 1
                if len(pending) == ROW_GROUP_ROWS:
                    writer.write_table(pa.Table.from_pylist(pending, ROWS))
                    pending.clear()
            if pending:
                writer.write_table(pa.Table.from_pylist(pending, ROWS))
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    counts = {"num_samples": count, "num_members": count * len(ENDINGS)}
    return {"sha256": sha256, "size_bytes": path.stat().st_size} | counts


def _as_json(value: Any) -> str | None:
    return None if value is None else canonical_json(value).encode("utf-8", "replace").decode()
