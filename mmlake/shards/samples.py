"""The samples table that shards are made of: what is read of it, and its rows in batches, so that no more than a batch
of them is ever a Python object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken
from mmlake.records import canonical_json

_BATCH_ROWS = 4096  # a few MB as Python objects; `Table.take` over all chunks takes 1,000 times as long as over its own
PART_READ = pa.struct(
    [
        pa.field("position", pa.int32()),
        pa.field("role", pa.string()),
        pa.field("modality", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("content_type", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("fields_json", pa.string()),  # fields that the sample's own do not have
    ]
)
SAMPLES_READ = pa.schema(
    [
        pa.field("sample", pa.string(), nullable=False),  # unique, free of dots, and short enough for any tar
        pa.field("modality", pa.string(), nullable=False),  # of the leading part, or interleaved
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("sources", pa.list_(pa.string()), nullable=False),
        pa.field("licences", pa.list_(pa.string()), nullable=False),
        pa.field("sample_ids", pa.list_(pa.string()), nullable=False),
        pa.field("num_occurrences", pa.int32(), nullable=False),
        pa.field("fields_json", pa.string()),
        pa.field("parts", pa.list_(PART_READ), nullable=False),  # in the order of the sample
    ]
)
_FLAT = tuple(SAMPLES_READ.names) + tuple(f"parts.{part.name}" for part in PART_READ)


class SampleRows:
    """The rows of a samples table (SAMPLES_READ), in the order of their names."""

    def __init__(self, samples: pa.Table) -> None:
        """Raises ContractBroken for a name that comes twice."""
        table = samples.select(SAMPLES_READ.names).cast(SAMPLES_READ)
        if not _is_increasing(table):
            table = table.combine_chunks().sort_by("sample")
            if not _is_increasing(table):
                raise ContractBroken(
                    f"version -> training shards: {table.num_rows} rows hold "
                    f"{pc.count_distinct(table['sample']).as_py()} samples, expected one row for each; publish the "
                    "version again"
                )
        self.batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=_BATCH_ROWS)
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self.batches)])

    def taken(self, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The rows of these numbers in batches. rows: int64, increasing."""
        bounds = np.searchsorted(rows, self._starts).tolist()
        for batch, start, (first, last) in zip(self.batches, self._starts.tolist(), pairwise(bounds), strict=False):
            if last > first:
                yield batch.take(pa.array(rows[first:last] - start))

    def digests(self, rows: np.ndarray) -> dict[str, str]:
        """SHA-256 of the values of these rows by column, however the table is cut into batches."""
        hashers = {name: hashlib.sha256() for name in _FLAT}
        for batch in self.taken(rows):
            for name, values in zip(_FLAT, _flat(batch), strict=True):
                if len(values):
                    listed = canonical_json(values.to_pylist())[1:-1] + ","
                    hashers[name].update(listed.encode("utf-8", "replace"))
        return {name: hasher.hexdigest() for name, hasher in hashers.items()}

    def num_digests(self) -> int:
        """Distinct digests of all parts."""
        digests = [part_column(batch, "digest") for batch in self.batches]
        count: int = pc.count_distinct(pa.chunked_array(digests, pa.string())).as_py()
        return count


def part_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A field of every part of every sample of the batch."""
    return pc.struct_field(batch.column("parts").flatten(), name)


def part_kinds(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str, str | None], ...]]:
    """(role, modality, content type) of each part, for every sample of the batch."""
    kinds: Sequence[tuple[str, str, str | None]] = list(
        zip(*(part_column(batch, name).to_pylist() for name in ("role", "modality", "content_type")), strict=True)
    )
    place = 0
    for count in batch.column("parts").value_lengths().to_pylist():
        yield tuple(kinds[place : place + count])
        place += count


def _is_increasing(table: pa.Table) -> bool:
    names = table.column("sample")
    return len(names) < 2 or bool(pc.all(pc.less(names[:-1], names[1:])).as_py())


def _flat(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    """The columns of _FLAT; that of parts is their number in each sample."""
    for name in SAMPLES_READ.names:
        yield batch.column("parts").value_lengths() if name == "parts" else batch.column(name)
    for part in PART_READ:
        yield part_column(batch, part.name)
