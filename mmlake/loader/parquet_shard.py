"""A shard of short texts in Parquet as the loader sees it: the same samples as a tar would give, to the byte."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlake.errors import ShardCorrupt
from mmlake.loader.entries import Entry, file_state
from mmlake.records import canonical_json

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ENDINGS = ("txt", "json")
_CACHE_BYTES = 64 << 20


class RowGroups:
    """Decoded row groups, the latest of all shards of a stream, in bounded memory; for several threads."""

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tables: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self.size_bytes = 0
        self._reading = threading.Lock()

    def get(self, name: str, number: int, file: pq.ParquetFile) -> pa.Table:
        """The row group of that number of the shard, which the file holds. Raises ShardCorrupt."""
        key = (name, number)
        with self._reading:
            if (table := self._tables.get(key)) is None:
                table = self._tables[key] = _read(name, lambda: file.read_row_group(number, use_threads=False))
                self.size_bytes += table.nbytes
                while self.size_bytes > self._max_bytes and len(self._tables) > 1:
                    self.size_bytes -= self._tables.popitem(last=False)[1].nbytes
            self._tables.move_to_end(key)
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        return RowGroups, (self._max_bytes,)  # rows do not travel to spawned workers


class ParquetShard:
    """A checked Parquet shard, open for random access; as `OpenShard`."""

    def __init__(self, directory: Path, entry: Entry, *, verify: str, groups: RowGroups) -> None:
        """verify: "fast" checks sizes and counts, and that the file does not change while it is open; "members" and
        "full" also the file's SHA-256 now, since the checksums of pages do not cover their headers, and these
        checksums whenever a page is read."""
        import pyarrow.parquet as pq

        self.entry, self._groups, self._directory = entry, groups, directory
        path = directory / f"{entry.name}.parquet"
        try:
            if (size_bytes := path.stat().st_size) != entry.size_bytes:
                raise ShardCorrupt(
                    f"{path.name} has {size_bytes} bytes, expected {entry.size_bytes}; fetch or write the shard again"
                )
            self._state = file_state(directory, entry)
            if verify in ("members", "full"):
                _check_hash(path, entry)
        except FileNotFoundError as error:
            raise ShardCorrupt(f"{path.name} is missing from {directory}; fetch or write the shard again") from error
        self._file = _read(entry.name, lambda: pq.ParquetFile(path, page_checksum_verification=verify != "fast"))
        table = _read(entry.name, lambda: self._file.read(columns=["key", "weight"], use_threads=False))
        if table.num_rows != entry.num_samples:
            raise ShardCorrupt(
                f"{path.name} has {table.num_rows} samples, expected {entry.num_samples}; write the shards again"
            )
        self._keys = table["key"].combine_chunks()  # as in OpenShard, no Python objects
        self.weights: np.ndarray = np.from_dlpack(table["weight"].combine_chunks())
        counts = [self._file.metadata.row_group(at).num_rows for at in range(self._file.num_row_groups)]
        self._starts = np.cumsum([0, *counts])

    layout = None  # of an index, which only tars have

    @property
    def num_indexed(self) -> int:
        """Samples whose keys and weights are in memory."""
        return self.entry.num_samples

    @property
    def keys(self) -> list[str]:
        """The name of every sample, made anew."""
        found: list[str] = self._keys.to_pylist()
        return found

    def key(self, number: int) -> str:
        """The name of one sample."""
        name: str = self._keys[number].as_py()
        return name

    def weight(self, number: int) -> float:
        """The weight of one sample, 0..1."""
        return float(self.weights[number])

    def members(self, number: int) -> dict[str, bytes]:
        """The members of the sample by ending. Raises ShardCorrupt where the file changed since it was opened."""
        if file_state(self._directory, self.entry) != self._state:
            raise ShardCorrupt(f"{self.entry.name}.parquet changed while it was read; fetch or write the shard again")
        at = int(np.searchsorted(self._starts, number, "right")) - 1
        rows = self._groups.get(self.entry.name, at, self._file)
        row: dict[str, Any] = rows.slice(number - int(self._starts[at]), 1).to_pylist()[0]
        return {"txt": row["text"].encode(), "json": _json_of(row)}

    def endings(self, number: int) -> list[str]:
        """The endings of the sample's members, in order."""
        return list(ENDINGS)

    def member(self, number: int, ending: str) -> bytes:
        """One member of the sample. Raises ShardCorrupt where the sample has none of that ending."""
        if ending not in ENDINGS:
            raise ShardCorrupt(f"{self.entry.name}: {self.key(number)} has no {ending}; write the shards again")
        return self.members(number)[ending]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _json_of(row: dict[str, Any]) -> bytes:
    """What describes the sample, as the member of a tar says it."""
    del row["text"], row["weight"]
    row["sample"] = row.pop("key")
    row["fields"] = json.loads(row["fields"])
    for part in row["parts"]:
        part["fields"] = json.loads(part["fields"] or "null")
    return canonical_json(row).encode()


def _check_hash(path: Path, entry: Entry) -> None:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise ShardCorrupt(f"{path.name} does not hash to {entry.sha256[:12]}; fetch or write the shard again")


def _read(name: str, read: Any) -> Any:
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ShardCorrupt(f"{name}.parquet does not decode; fetch or write the shard again") from error
