"""Tables cut into content-addressed segments, so that versions share what they share.

A segment ends behind every sample whose name's last 32 bits are a multiple of 1024; rows of one sample stay together.
The cut depends on the names alone: a sample that comes or goes rewrites one segment. A segment is canonical JSON lines;
its name is the SHA-256 of those lines, not of the file, whose compression may change between libraries:
segments/ab/<sha256>.jsonl.z
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically

_MEAN_SAMPLES = 1024
_BATCH_ROWS = 16_384


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One piece of a manifest's list of samples, as the manifest names it."""

    digest: str  # SHA-256 of the lines
    num_rows: int
    size_bytes: int  # of the lines, before compression
    first: str  # smallest name of a sample
    last: str  # largest name


def cut(table: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows in segments; the table must be sorted by sample."""
    rows: list[dict[str, Any]] = []
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        for row in map(_without_defaults, batch.to_pylist()):
            if rows and rows[-1]["sample"] != row["sample"] and int(rows[-1]["sample"][-8:], 16) % _MEAN_SAMPLES == 0:
                yield rows
                rows = []
            rows.append(row)
    if rows:
        yield rows


def _without_defaults(row: dict[str, Any]) -> dict[str, Any]:
    """The row; of a part that is a whole item, without its place in one: so it was written before items were cut."""
    for part in row.get("parts", ()):
        if part["start_us"] is None and part["parent_digest"] == part["digest"]:
            for name in ("parent_digest", "start_us", "end_us"):
                del part[name]
    return row


class Segments:
    """The segments under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, table: pa.Table) -> tuple[Segment, ...]:
        """The segments of the table, durable on return. Sound ones that are already there are not written again;
        damaged ones are."""
        return tuple(self._write(rows) for rows in cut(table))

    def read(self, segment: Segment) -> list[dict[str, Any]]:
        """The rows, checked against the segment's digest. Raises BlobMissing, BlobCorrupt."""
        return [json.loads(line) for line in self._lines(segment.digest, segment.size_bytes).splitlines()]

    def _write(self, rows: list[dict[str, Any]]) -> Segment:
        lines = b"".join(canonical_json(row).encode() + b"\n" for row in rows)
        segment = Segment(
            digest=digest_of(lines),
            num_rows=len(rows),
            size_bytes=len(lines),
            first=rows[0]["sample"],
            last=rows[-1]["sample"],
        )
        try:
            self._lines(segment.digest, segment.size_bytes)
        except (BlobMissing, BlobCorrupt):
            write_atomically(self.path(segment.digest), zlib.compress(lines))
        return segment

    def path(self, digest: str) -> Path:
        """The file of the segment, which need not exist."""
        return self.root / digest[:2] / f"{digest}.jsonl.z"

    def _lines(self, digest: str, size_bytes: int) -> bytes:
        try:
            packed = self.path(digest).read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(
                f"segment {digest} is named by a manifest but absent from {self.root}; build the version again"
            ) from error
        try:
            # never more than the manifest says, whatever the file holds
            lines = zlib.decompressobj().decompress(packed, size_bytes + 1)
        except zlib.error:
            lines = b""
        if len(lines) != size_bytes or digest_of(lines) != digest:
            raise BlobCorrupt(f"segment {digest} in {self.root} does not hash to its name; build the version again")
        return lines
