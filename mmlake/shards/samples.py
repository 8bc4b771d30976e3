"""The samples table that shards are made of: what is read of it, and its rows in batches, so that no more than a batch
of them is ever a Python object."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken
from mmlake.records import LEADING_ROLES, canonical_json
from mmlake.shards.layout import Kind
from mmlake.shards.unit_facts import Tracks

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
        pa.field("parent_digest", pa.string()),  # the blob that holds it: the digest itself where the part is whole
        pa.field("start_us", pa.int64()),  # in the item, of a transcript in its recording; null where whole
        pa.field("end_us", pa.int64()),
    ]
)
TRACKED = ("video", "audio")  # modalities with sound, keyframes and words
SAMPLES_READ = pa.schema(
    [
        pa.field("sample", pa.string(), nullable=False),  # unique: a SHA-256 in hexadecimal
        pa.field("modality", pa.string(), nullable=False),  # of the leading part, or interleaved
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("sources", pa.list_(pa.string()), nullable=False),
        pa.field("licences", pa.list_(pa.string()), nullable=False),
        pa.field("sample_ids", pa.list_(pa.string()), nullable=False),
        pa.field("num_occurrences", pa.int32(), nullable=False),
        pa.field("fields_json", pa.string()),
        pa.field("parts", pa.list_(PART_READ), nullable=False),  # in the order of the sample
        pa.field("shard", pa.string()),  # key of the source shard; null where nobody knows
    ]
)
_NOT_IN_BYTES = ("weight", "shard")  # the weight is in the .idx: versions with other weights share tars
_SPANS = pa.schema([PART_READ.field(name) for name in ("digest", "parent_digest", "modality", "start_us", "end_us")])
_FLAT = tuple(name for name in SAMPLES_READ.names if name not in _NOT_IN_BYTES) + tuple(
    f"parts.{part.name}" for part in PART_READ
)


class SampleRows:
    """The rows of a samples table (SAMPLES_READ), in the order of their names."""

    def __init__(self, samples: pa.Table) -> None:
        """Raises ContractBroken for a name that comes twice."""
        if "shard" not in samples.column_names:
            samples = samples.append_column("shard", pa.nulls(samples.num_rows, pa.string()))
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
        """SHA-256 of the values of these rows by column, of those that are in the bytes of a shard, however the table
        is cut into batches."""
        hashers = {name: hashlib.sha256() for name in _FLAT}
        for batch in self.taken(rows):
            for name, values in zip(_FLAT, _flat(batch), strict=True):
                if len(values):
                    listed = canonical_json(values.to_pylist())[1:-1] + ","
                    hashers[name].update(listed.encode("utf-8", "replace"))
        return {name: hasher.hexdigest() for name, hasher in hashers.items()}

    def spans(self, rows: np.ndarray) -> Iterator[dict[str, Any]]:
        """The leading parts of these samples that are spans, each once, in order of their items and their starts. rows:
        int64, increasing."""
        found = [_SPANS.empty_table()]
        for batch in self.taken(rows):
            parts = pa.Table.from_batches([pa.RecordBatch.from_struct_array(batch.column("parts").flatten())])
            leads = pc.is_in(parts["role"], value_set=pa.array(LEADING_ROLES))
            wanted = parts.filter(pc.and_(leads, pc.is_valid(parts["start_us"])))
            found.append(wanted.select(_SPANS.names).cast(_SPANS))
        order = [(name, "ascending") for name in ("modality", "parent_digest", "start_us", "digest")]
        last = ""
        for batch in pa.concat_tables(found).sort_by(order).to_batches(max_chunksize=_BATCH_ROWS):
            for part in batch.to_pylist():
                if part["digest"] != last:
                    yield part
                last = part["digest"]

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """The weights of these samples as their index has them, float32. rows: int64, increasing."""
        found = [np.asarray(batch.column("weight")) for batch in self.taken(rows)]
        return np.concatenate([np.zeros(0), *found]).astype(np.float32)

    def num_items(self) -> int:
        """Distinct items among all parts, as a version counts them: by digest, of each modality."""
        columns = ("digest", "modality")
        chunks = {name: [part_column(batch, name) for batch in self.batches] for name in columns}
        parts = pa.table({name: pa.chunked_array(chunks[name], pa.string()) for name in columns})
        count: int = parts.group_by(list(columns)).aggregate([]).num_rows
        return count


def part_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A field of every part of every sample of the batch."""
    return pc.struct_field(batch.column("parts").flatten(), name)


def part_kinds(batch: pa.RecordBatch, *, tracks: Tracks | None, recordings_sound: bool) -> Iterator[tuple[Kind, ...]]:
    """The kinds of all parts, for every sample of the batch. recordings_sound: the 16 kHz sound of recordings is a
    member too."""
    names = ("role", "modality", "content_type", "digest", "start_us")
    columns = [part_column(batch, name).to_pylist() for name in names]
    place = 0
    for count in batch.column("parts").value_lengths().to_pylist():
        rows = zip(*(column[place : place + count] for column in columns), strict=True)
        yield tuple(kind_of(*row, tracks=tracks, recordings_sound=recordings_sound) for row in rows)
        place += count


def kind_of(
    role: str,
    modality: str,
    content_type: str | None,
    digest: str,
    start_us: int | None,
    *,
    tracks: Tracks | None,
    recordings_sound: bool,
) -> Kind:
    """The kind of one part."""
    if tracks is None or modality not in TRACKED or role not in LEADING_ROLES:
        return Kind(role, modality, content_type, start_us is not None)
    held = tracks.held(digest)
    has_sound = held.sound and (modality == "video" or recordings_sound)
    return Kind(role, modality, content_type, start_us is not None, has_sound, held.keyframes)


def _is_increasing(table: pa.Table) -> bool:
    names = table.column("sample")
    return len(names) < 2 or bool(pc.all(pc.less(names[:-1], names[1:])).as_py())


def _flat(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    """The columns of _FLAT; that of parts is their number in each sample."""
    for name in SAMPLES_READ.names:
        if name in _NOT_IN_BYTES:
            continue
        yield batch.column("parts").value_lengths() if name == "parts" else batch.column(name)
    for part in PART_READ:
        yield part_column(batch, part.name)
