"""One shard as the loader sees it: its index in memory, its tar open, both checked before the first sample is given
out."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader.entries import Entry
from mmlake.loader.parquet_shard import ParquetShard, RowGroups
from mmlake.loader.read_file import ReadFile
from mmlake.records import digest_of

VERIFY = ("fast", "members", "full")
KNOWN = "known"  # as "full", of a file that was hashed before and is the same


class SampleCorrupt(ShardCorrupt):
    """One sample of an open shard is not as it was written; the others may be."""


def open_shard(directory: Path, entry: Entry, *, verify: str, groups: RowGroups) -> OpenShard | ParquetShard:
    """The checked shard, whatever its format. groups: where row groups of Parquet are kept."""
    if entry.format == "parquet":
        return ParquetShard(directory, entry, verify=verify, groups=groups)
    return OpenShard(directory, entry, verify=verify)


class OpenShard:
    """A checked shard, open for random access."""

    def __init__(self, directory: Path, entry: Entry, *, verify: str) -> None:
        """verify: "fast" checks sizes, counts and the index's SHA-256, and that the tar does not change while it is
        open; "members" also each member's CRC-32 as it is read; "full" also the tar's SHA-256 now."""
        self.entry = entry
        self._check_members = verify != "fast"
        table = _index_table(directory, entry)
        self.keys: list[str] = table["key"].to_pylist()
        # `to_numpy` imports pandas, a third of a second in every worker of a DataLoader
        self.weights: np.ndarray = np.from_dlpack(table["weight"].combine_chunks())
        lists = {name: table[name].combine_chunks() for name in ("endings", "offsets", "sizes", "crc32s")}
        self._bounds: list[int] = lists["offsets"].offsets.to_pylist() if table.num_rows else [0]
        self._endings, self._offsets, self._sizes, self._crc32s = (
            lists[name].flatten().to_pylist() for name in ("endings", "offsets", "sizes", "crc32s")
        )
        if len(self._offsets) != entry.num_members or any(
            offset < 512 or offset + size > entry.size_bytes
            for offset, size in zip(self._offsets, self._sizes, strict=True)
        ):
            raise ShardCorrupt(f"{entry.name}.idx does not fit its tar; write the shards again")
        self._file = _opened(directory / f"{entry.name}.tar", entry)
        self._state = self._file.state()
        if verify == "full" and self._file.sha256() != entry.sha256:
            raise ShardCorrupt(f"{entry.name}.tar does not hash to {entry.sha256[:12]}; fetch or write the shard again")

    def members(self, number: int) -> dict[str, bytes]:
        """The members of the sample by ending. Raises SampleCorrupt where a checked member's bytes changed, and where
        the tar became shorter; ShardCorrupt where members are not checked and the tar changed."""
        places = range(self._bounds[number], self._bounds[number + 1])
        return {self._endings[place]: self._member(number, place) for place in places}

    def endings(self, number: int) -> list[str]:
        """The endings of the sample's members, in order."""
        found: list[str] = self._endings[self._bounds[number] : self._bounds[number + 1]]
        return found

    def member(self, number: int, ending: str) -> bytes:
        """One member of the sample, as `members` gives it. Raises ShardCorrupt where the sample has none of that
        ending."""
        if ending not in (endings := self.endings(number)):
            raise ShardCorrupt(f"{self.entry.name}: {self.keys[number]} has no {ending}; write the shards again")
        return self._member(number, self._bounds[number] + endings.index(ending))

    def _member(self, number: int, place: int) -> bytes:
        offset = self._offsets[place]
        data = self._file.read(offset, self._sizes[place])
        where = f"{self.entry.name}.tar: member {self.keys[number]}.{self._endings[place]} at byte {offset}"
        if len(data) != self._sizes[place]:
            raise SampleCorrupt(f"{where} is cut: the tar became shorter; fetch or write the shard again")
        if self._check_members:
            if zlib.crc32(data) != self._crc32s[place]:
                raise SampleCorrupt(f"{where} changed; fetch or write the shard again")
        elif self._file.state() != self._state:
            raise ShardCorrupt(f"{self.entry.name}.tar changed while it was read; fetch or write the shard again")
        return data

    def close(self) -> None:
        """Close the tar."""
        self._file.close()


def checked_mode(verify: str) -> str:
    """The mode, when there is such. Raises SettingsError."""
    if verify not in VERIFY:
        raise SettingsError(f"verify is {verify!r}, expected one of {', '.join(VERIFY)}")
    return verify


def _index_table(directory: Path, entry: Entry) -> pa.Table:
    try:
        data = (directory / f"{entry.name}.idx").read_bytes()
    except FileNotFoundError as error:
        raise ShardCorrupt(f"{entry.name}.idx is missing from {directory}; fetch or write the shard again") from error
    if len(data) != entry.idx_bytes or digest_of(data) != entry.idx_sha256:
        raise ShardCorrupt(f"{entry.name}.idx does not hash to {entry.idx_sha256[:12]}; fetch or write the shard again")
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if table.num_rows != entry.num_samples:
        raise ShardCorrupt(
            f"{entry.name}.idx has {table.num_rows} samples, expected {entry.num_samples}; write the shards again"
        )
    return table


def _opened(path: Path, entry: Entry) -> ReadFile:
    try:
        file = ReadFile(path)
    except FileNotFoundError as error:
        raise ShardCorrupt(f"{path.name} is missing from {path.parent}; fetch or write the shard again") from error
    if (size_bytes := file.state()[0]) != entry.size_bytes:
        raise ShardCorrupt(
            f"{path.name} has {size_bytes} bytes, expected {entry.size_bytes}; fetch or write the shard again"
        )
    return file
