"""Tables cut into content-addressed segments, so that versions share what they share.

A segment holds rows of one source shard, sorted by sample; where a shard has very many samples it is cut further, by
ranges of the first bits of their names. A shard that comes or goes leaves the segments of the others as they are. A
segment is a Parquet file whose name is the digest of its values, not of the file, whose bytes and compression may
change between libraries: segments/ab/<digest>.parquet
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.recent_files import RecentValues
from mmlake.records import digest_of
from mmlake.store import write_atomically
from mmlake.versions.values import digest_of_values

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAX_SAMPLES = 65_536  # of a segment: some 20 MB of values, read and checked in a tenth of a second
_ROW_GROUP_ROWS = 65_536
_SINGLE_BYTES = 1 << 20  # a smaller segment is decoded sooner than threads are woken for its columns
# A version is read by a dozen steps and checks, and most of its segments are those of the version before: decoding and
# hashing small ones each time was a quarter of a run with one new shard of 500. Kept are rows that hash to their name,
# by the SHA-256 of their file, which is read each time: damage is found as before.
_checked: RecentValues[tuple[str, str, pa.Schema], pa.Table] = RecentValues(max_bytes=64 << 20)
# columns of few distinct values; names and digests are distinct, a dictionary of them costs time and saves nothing
_REPEATING = (
    "modality", "weight", "sources.list.element", "licences.list.element", "num_occurrences", "shard", "is_whole",
    "cause", "role", "parts.list.element.role", "parts.list.element.modality", "parts.list.element.position",
    "parts.list.element.content_type",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One piece of a tree's list of samples, as the tree names it."""

    digest: str  # of the values
    shard: str | None  # key of the source shard; null where versions of an older release did not say
    num_rows: int
    size_bytes: int  # of the values, as they are hashed
    first: str  # smallest name of a sample
    last: str  # largest name


def cut(table: pa.Table) -> Iterator[pa.Table]:
    """The rows of each segment, by shard, then sample; rows of one sample keep their order. The table has the columns
    `shard` and `sample`; where it is in that order already nothing is copied."""
    if not table.num_rows:
        return
    keys = table.select(["shard", "sample"])
    order = (
        pc.sort_indices(keys, sort_keys=[("shard", "ascending"), ("sample", "ascending")]).to_numpy().astype(np.int64)
    )
    codes = pc.fill_null(piece(keys["shard"]).dictionary_encode().indices, -1).to_numpy()[order]
    start = 0
    for end in np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes)).tolist():
        for rows in _ranges(keys["sample"], order[start:end]):
            is_one_piece = bool((np.diff(rows) == 1).all())
            yield table.slice(int(rows[0]), len(rows)) if is_one_piece else table.take(pa.array(rows))
        start = end


def _ranges(samples: pa.ChunkedArray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of one shard, sorted by sample, in as many ranges as the number of its samples needs."""
    bits = 0
    if len(rows) > MAX_SAMPLES:
        count = pc.count_distinct(samples.take(pa.array(rows))).as_py()
        while count > MAX_SAMPLES << bits:
            bits += 1
    start = 0
    for number in range(1, 1 << bits):
        bound = f"{number << (16 - bits):04x}"
        end = bisect_left(range(len(rows)), bound, lo=start, key=lambda at: samples[int(rows[at])].as_py())
        if end > start:
            yield rows[start:end]
        start = end
    if start < len(rows):
        yield rows[start:]


class Segments:
    """The segments under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, rows: pa.Table) -> Segment:
        """The segment of these rows, which are of one shard and sorted, durable on return. A sound one that is already
        there is not written again; a damaged one is."""
        digest, size_bytes = digest_of_values(rows)
        segment = Segment(
            digest=digest,
            shard=rows["shard"][0].as_py(),
            num_rows=rows.num_rows,
            size_bytes=size_bytes,
            first=rows["sample"][0].as_py(),
            last=rows["sample"][-1].as_py(),
        )
        try:
            self.read(segment, rows.schema)
        except (BlobMissing, BlobCorrupt):
            write_atomically(self.path(digest), _parquet(rows))
        return segment

    def read(self, segment: Segment, schema: pa.Schema) -> pa.Table:
        """The rows, checked against the segment's digest. Raises BlobMissing, BlobCorrupt."""
        import pyarrow.parquet as pq

        try:
            data = self.path(segment.digest).read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(
                f"segment {segment.digest} is named by a version but absent from {self.root}; build the version again"
            ) from error
        key = (digest_of(data), f"{segment.digest} {segment.size_bytes} {segment.num_rows}", schema)
        if (kept := _checked.get(key)) is not None:
            return kept
        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            # never more than the tree says, whatever the file holds
            is_large = segment.size_bytes > _SINGLE_BYTES
            table = file.read(use_threads=is_large).cast(schema) if _fits(file.metadata, segment) else None
        except (pa.ArrowException, OSError, ValueError, KeyError):  # the last two are pyarrow's own too
            table = None
        if table is None or digest_of_values(table) != (segment.digest, segment.size_bytes):
            raise BlobCorrupt(
                f"segment {segment.digest} in {self.root} does not hash to its name; build the version again"
            )
        _checked.keep(key, table, table.nbytes)
        return table

    def path(self, digest: str) -> Path:
        """The file of the segment, which need not exist."""
        return self.root / digest[:2] / f"{digest}.parquet"


def _fits(metadata: pq.FileMetaData, segment: Segment) -> bool:
    """Whether the file says that it holds what the segment counts; encodings add little to the values."""
    size_bytes = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    return bool(metadata.num_rows == segment.num_rows and size_bytes <= 2 * segment.size_bytes + 65_536)


def _parquet(rows: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    pq.write_table(
        rows,
        sink := io.BytesIO(),
        compression="zstd",
        use_dictionary=list(_REPEATING),
        write_statistics=["sample", "shard"],
        write_page_checksum=True,
        row_group_size=_ROW_GROUP_ROWS,
    )
    return sink.getvalue()


def unlike(segment: Segment, rows: pa.Table) -> str | None:
    """What is wrong where the rows are not those that the segment counts."""
    facts = (rows.num_rows, rows["shard"][0].as_py(), rows["sample"][0].as_py(), rows["sample"][-1].as_py())
    if facts == (segment.num_rows, segment.shard, segment.first, segment.last):
        return None
    return f"segment {segment.digest}: its rows are not those that the tree counts; build the version again"
