"""One shard as the loader sees it: its index at hand, its tar open, both checked before the first sample is given
out."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader.entries import Entry
from mmlake.loader.parquet_shard import ParquetShard, RowGroups
from mmlake.loader.read_file import ReadFile
from mmlake.loader.shard_index import IndexOnDisk, Layout, Rows, not_read, whole_index

VERIFY = ("fast", "members", "full")
KNOWN = "known"  # as "full", of a file that was hashed before and is the same


class SampleCorrupt(ShardCorrupt):
    """One sample of an open shard is not as it was written; the others may be."""


def open_shard(
    directory: Path, entry: Entry, *, verify: str, groups: RowGroups, layout: Layout | None = None
) -> OpenShard | ParquetShard:
    """The checked shard, whatever its format. groups: where row groups of Parquet are kept. layout: that a tar had when
    it was open before."""
    if entry.format == "parquet":
        return ParquetShard(directory, entry, verify=verify, groups=groups)
    return OpenShard(directory, entry, verify=verify, layout=layout)


class OpenShard:
    """A checked shard, open for random access."""

    def __init__(self, directory: Path, entry: Entry, *, verify: str, layout: Layout | None = None) -> None:
        """verify: "fast" checks sizes, counts and the index's SHA-256, and that the tar does not change while it is
        open; "members" also each member's CRC-32 as it is read; "full" also the tar's SHA-256 now. layout: of an index
        that was checked before, which is then not read as a whole while its file is the same."""
        self.entry, self.layout = entry, layout
        self._check_members = verify != "fast"
        self._on_disk = None if layout is None else IndexOnDisk(directory, entry, layout)
        self._rows: Rows | None = None
        if layout is None:
            self._rows, self.layout = whole_index(directory, entry)
        self._file = _opened(directory / f"{entry.name}.tar", entry)
        self._state = self._file.state()
        if verify == "full" and self._file.sha256() != entry.sha256:
            raise ShardCorrupt(f"{entry.name}.tar does not hash to {entry.sha256[:12]}; fetch or write the shard again")

    @property
    def num_indexed(self) -> int:
        """Samples whose rows of the index are in memory."""
        return 0 if self._rows is None else self.entry.num_samples

    @property
    def keys(self) -> list[str]:
        """The name of every sample, made anew."""
        if self._on_disk is not None:
            return self._on_disk.keys()
        return [self.key(number) for number in range(self.entry.num_samples)]

    @property
    def weights(self) -> np.ndarray:
        """The weight of every sample, float32 of shape (num_samples,)."""
        return self._rows_with(0).weights if self._on_disk is None else self._on_disk.weights()

    def _rows_with(self, number: int) -> Rows:
        """Rows of the index, that of the sample among them."""
        if self._rows is not None:
            return self._rows
        assert self._on_disk is not None  # it is one or the other
        return self._on_disk.rows(number)

    def key(self, number: int) -> str:
        """The name of one sample."""
        return self._rows_with(number).key(number)

    def weight(self, number: int) -> float:
        """The weight of one sample, 0..1."""
        rows = self._rows_with(number)
        return float(rows.weights[number - rows.first])

    def members(self, number: int) -> dict[str, bytes]:
        """The members of the sample by ending. Raises SampleCorrupt where a checked member's bytes changed, and where
        the tar became shorter; ShardCorrupt where members are not checked and the tar changed."""
        rows = self._rows_with(number)
        return {rows.endings[rows.ending_of[place]]: self._member(rows, number, place) for place in rows.places(number)}

    def endings(self, number: int) -> list[str]:
        """The endings of the sample's members, in order."""
        rows = self._rows_with(number)
        return [rows.endings[rows.ending_of[place]] for place in rows.places(number)]

    def member(self, number: int, ending: str) -> bytes:
        """One member of the sample, as `members` gives it. Raises ShardCorrupt where the sample has none of that
        ending."""
        if ending not in (endings := self.endings(number)):
            raise ShardCorrupt(f"{self.entry.name}: {self.key(number)} has no {ending}; write the shards again")
        rows = self._rows_with(number)
        return self._member(rows, number, rows.places(number)[endings.index(ending)])

    def _member(self, rows: Rows, number: int, place: int) -> bytes:
        size_bytes = rows.sizes[place]
        try:
            data = self._file.read(rows.offsets[place], size_bytes)
        except OSError as error:
            raise SampleCorrupt(f"{self._where(rows, number, place)} cannot be read: {error.strerror}") from error
        if len(data) != size_bytes:
            raise SampleCorrupt(
                f"{self._where(rows, number, place)} is cut: the tar became shorter; fetch or write the shard again"
            )
        if self._check_members:
            if zlib.crc32(data) != rows.crc32s[place]:
                raise SampleCorrupt(f"{self._where(rows, number, place)} changed; fetch or write the shard again")
        elif self._file.state() != self._state:
            raise ShardCorrupt(f"{self.entry.name}.tar changed while it was read; fetch or write the shard again")
        return data

    def _where(self, rows: Rows, number: int, place: int) -> str:
        member = f"{rows.key(number)}.{rows.endings[rows.ending_of[place]]}"
        return f"{self.entry.name}.tar: member {member} at byte {rows.offsets[place]}"

    def close(self) -> None:
        """Close the tar, and the index where it is open."""
        self._file.close()
        if self._on_disk is not None:
            self._on_disk.close()


def checked_mode(verify: str) -> str:
    """The mode, when there is such. Raises SettingsError."""
    if verify not in VERIFY:
        raise SettingsError(f"verify is {verify!r}, expected one of {', '.join(VERIFY)}")
    return verify


def _opened(path: Path, entry: Entry) -> ReadFile:
    try:
        file = ReadFile(path)
    except OSError as error:
        raise not_read(path, error) from error
    if (size_bytes := file.state()[0]) != entry.size_bytes:
        raise ShardCorrupt(
            f"{path.name} has {size_bytes} bytes, expected {entry.size_bytes}; fetch or write the shard again"
        )
    return file
