"""The indexes that stand next to the tar files.

<name>.idx    Arrow IPC: a row per sample (key, weight, and per member its ending, offset, size and CRC-32)
index.json    a line of facts per shard (sizes, SHA-256, counts), behind the checksum of its own text; written last: a
              folder without it is not a finished set of shards
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake import checked_json
from mmlake.errors import ShardCorrupt
from mmlake.formats.tar_writer import Member
from mmlake.records import canonical_json, digest_of

SCHEMA = "mmlake.shards/3"
_READ = ("mmlake.shards/2", SCHEMA)  # the one before names files that stand in the folder and are no links
INDEX_NAME = "index.json"
TAR, PARQUET = "tar", "parquet"
OURS = (".tar", ".idx", ".parquet", ".part")  # suffixes of what a writer leaves in a version's directory
IDX = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("weight", pa.float32(), nullable=False),
        pa.field("endings", pa.list_(pa.string()), nullable=False),
        pa.field("offsets", pa.list_(pa.int64()), nullable=False),
        pa.field("sizes", pa.list_(pa.int64()), nullable=False),
        pa.field("crc32s", pa.list_(pa.uint32()), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardEntry:
    """One tar file, as index.json names it."""

    name: str  # without extension: <name>.tar, <name>.idx
    modality: str
    endings: list[str] | None  # of the members of every sample, in order; None where samples differ: interleaved
    size_bytes: int  # of the file that holds the samples
    sha256: str  # likewise
    num_samples: int
    num_members: int
    idx_bytes: int
    idx_sha256: str
    plan: str  # digest of everything that its bytes depend on; its name among the objects
    format: str = TAR  # or PARQUET, which has no .idx

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files."""
        return (f"{self.name}.parquet",) if self.format == PARQUET else (f"{self.name}.tar", f"{self.name}.idx")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardIndex:
    """A finished set of shards."""

    directory: Path
    manifest_id: str
    num_items: int  # distinct items among the parts of all samples
    shards: tuple[ShardEntry, ...]

    @property
    def num_samples(self) -> int:
        """Samples in all shards."""
        return sum(shard.num_samples for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """Bytes of all tar files."""
        return sum(shard.size_bytes for shard in self.shards)

    def to_dict(self) -> dict[str, Any]:
        """What index.json holds."""
        return {
            "schema": SCHEMA,
            "manifest": self.manifest_id,
            "num_items": self.num_items,
            "num_samples": self.num_samples,
            "shards": [asdict(shard) for shard in self.shards],
        }

    def to_json(self) -> bytes:
        """The text of index.json, with its checksum."""
        return checked_json.dumps(self.to_dict())

    @classmethod
    def read(cls, directory: str | Path) -> ShardIndex:
        """The index of the folder. Raises ShardCorrupt where it is missing, unfinished or not of this schema."""
        directory = Path(directory)
        try:
            body = checked_json.loads((directory / INDEX_NAME).read_bytes())
            shards = tuple(ShardEntry(**shard) for shard in body["shards"])
            index = cls(
                directory=directory, manifest_id=body["manifest"], num_items=int(body["num_items"]), shards=shards
            )
            sound = body["schema"] in _READ and body["num_samples"] == index.num_samples
        except FileNotFoundError as error:
            raise ShardCorrupt(
                f"{directory} has no {INDEX_NAME}: the shards were never finished; write them again"
            ) from error
        except (ValueError, TypeError, KeyError):
            sound = False
        if not sound:
            raise ShardCorrupt(f"{directory / INDEX_NAME} is damaged; write the shards again")
        return index


def idx_table(samples: list[tuple[str, list[Member]]]) -> pa.Table:
    """The rows of an .idx file for samples of weight 1."""
    columns = {
        "key": [key for key, _ in samples],
        "weight": [1.0] * len(samples),
        "endings": [[member.name.partition(".")[2] for member in members] for _, members in samples],
        "offsets": [[member.offset for member in members] for _, members in samples],
        "sizes": [[member.size_bytes for member in members] for _, members in samples],
        "crc32s": [[member.crc32 for member in members] for _, members in samples],
    }
    return pa.table(columns, schema=IDX)


def weighted(table: pa.Table, weights: np.ndarray) -> pa.Table:
    """The rows of an .idx file with other weights. weights: float32 of shape (num_samples,)."""
    return table.set_column(IDX.get_field_index("weight"), IDX.field("weight"), pa.array(weights, pa.float32()))


def idx_bytes(table: pa.Table, facts: dict[str, Any]) -> bytes:
    """The bytes of an .idx file. facts: what the resuming writer compares."""
    table = table.replace_schema_metadata({"facts": canonical_json(facts | {"rows": _rows_digest(table)})})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_idx(data: bytes, *, is_hashed: bool = False) -> tuple[pa.Table, dict[str, Any]]:
    """(rows, facts) of an .idx file. is_hashed: its bytes were compared with what was written. Raises ShardCorrupt."""
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        facts = json.loads(table.schema.metadata[b"facts"])
        sound = is_hashed or facts["rows"] == _rows_digest(table)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise ShardCorrupt("the .idx file is damaged; write the shard again")
    return table, facts


def _rows_digest(table: pa.Table) -> str:
    """Arrow IPC has no checksum of its own; a resuming writer must not take over flipped offsets."""
    return digest_of(canonical_json(table.to_pylist()).encode())
