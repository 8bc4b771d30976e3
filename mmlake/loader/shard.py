"""One shard as the loader sees it: its index in memory, its tar open, both checked before the first sample is given
out."""

from __future__ import annotations

import errno
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

_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


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
        # views of arrays, no Python objects: a million samples take 150 MB in each worker, and took 440
        self._keys = table["key"].combine_chunks()
        self._key_text, self._key_bounds = texts_of(self._keys)
        # `to_numpy` imports pandas, a third of a second in every worker of a DataLoader
        self.weights: np.ndarray = np.from_dlpack(table["weight"].combine_chunks())
        lists = {name: table[name].combine_chunks() for name in ("endings", "offsets", "sizes", "crc32s")}
        numbers: list[np.ndarray] = [np.from_dlpack(lists[name].flatten()) for name in ("offsets", "sizes", "crc32s")]
        offsets, sizes, crc32s = numbers
        if len(offsets) != entry.num_members or bool(((offsets < 512) | (sizes > entry.size_bytes - offsets)).any()):
            raise ShardCorrupt(f"{entry.name}.idx does not fit its tar; write the shards again")
        endings = lists["endings"].flatten().dictionary_encode()
        self._endings: list[str] = endings.dictionary.to_pylist()
        bounds = np.from_dlpack(lists["offsets"].offsets) if table.num_rows else np.zeros(1, np.int32)
        # a view gives Python's numbers, three times as fast as an array gives its own
        self._bounds, self._ending_of = bounds.data, np.from_dlpack(endings.indices).data
        self._offsets, self._sizes, self._crc32s = offsets.data, sizes.data, crc32s.data
        self._file = _opened(directory / f"{entry.name}.tar", entry)
        self._state = self._file.state()
        if verify == "full" and self._file.sha256() != entry.sha256:
            raise ShardCorrupt(f"{entry.name}.tar does not hash to {entry.sha256[:12]}; fetch or write the shard again")

    @property
    def keys(self) -> list[str]:
        """The name of every sample, made anew."""
        found: list[str] = self._keys.to_pylist()
        return found

    def key(self, number: int) -> str:
        """The name of one sample."""
        return str(self._key_text[self._key_bounds[number] : self._key_bounds[number + 1]], "utf-8")

    def members(self, number: int) -> dict[str, bytes]:
        """The members of the sample by ending. Raises SampleCorrupt where a checked member's bytes changed, and where
        the tar became shorter; ShardCorrupt where members are not checked and the tar changed."""
        return {self._endings[self._ending_of[place]]: self._member(number, place) for place in self._places(number)}

    def endings(self, number: int) -> list[str]:
        """The endings of the sample's members, in order."""
        return [self._endings[self._ending_of[place]] for place in self._places(number)]

    def member(self, number: int, ending: str) -> bytes:
        """One member of the sample, as `members` gives it. Raises ShardCorrupt where the sample has none of that
        ending."""
        if ending not in (endings := self.endings(number)):
            raise ShardCorrupt(f"{self.entry.name}: {self.key(number)} has no {ending}; write the shards again")
        return self._member(number, self._places(number)[endings.index(ending)])

    def _places(self, number: int) -> range:
        return range(self._bounds[number], self._bounds[number + 1])

    def _member(self, number: int, place: int) -> bytes:
        size_bytes = self._sizes[place]
        try:
            data = self._file.read(self._offsets[place], size_bytes)
        except OSError as error:
            raise SampleCorrupt(f"{self._where(number, place)} cannot be read: {error.strerror}") from error
        if len(data) != size_bytes:
            raise SampleCorrupt(
                f"{self._where(number, place)} is cut: the tar became shorter; fetch or write the shard again"
            )
        if self._check_members:
            if zlib.crc32(data) != self._crc32s[place]:
                raise SampleCorrupt(f"{self._where(number, place)} changed; fetch or write the shard again")
        elif self._file.state() != self._state:
            raise ShardCorrupt(f"{self.entry.name}.tar changed while it was read; fetch or write the shard again")
        return data

    def _where(self, number: int, place: int) -> str:
        member = f"{self.key(number)}.{self._endings[self._ending_of[place]]}"
        return f"{self.entry.name}.tar: member {member} at byte {self._offsets[place]}"

    def close(self) -> None:
        """Close the tar."""
        self._file.close()


def not_read(path: Path, error: OSError) -> Exception:
    """What is raised where a file of a shard is not to be had: ShardCorrupt, and the error itself where it is the
    process that has too many files open or no memory, for then the shard may be sound."""
    if error.errno in _OF_THE_PROCESS:
        return error
    if isinstance(error, FileNotFoundError):
        return ShardCorrupt(f"{path.name} is missing from {path.parent}; fetch or write the shard again")
    return ShardCorrupt(f"{path} cannot be read: {error.strerror}; fetch or write the shard again")


def texts_of(array: pa.StringArray) -> tuple[memoryview, memoryview]:
    """(UTF-8 of all texts, where each begins in it and the last one ends) of an array without nulls."""
    _, bounds, text = array.buffers()
    whole = memoryview(bounds).cast("i") if bounds is not None and bounds.size else np.zeros(1, np.int32).data
    return memoryview(text or b""), whole[array.offset : array.offset + len(array) + 1]


def checked_mode(verify: str) -> str:
    """The mode, when there is such. Raises SettingsError."""
    if verify not in VERIFY:
        raise SettingsError(f"verify is {verify!r}, expected one of {', '.join(VERIFY)}")
    return verify


def _index_table(directory: Path, entry: Entry) -> pa.Table:
    try:
        data = (directory / f"{entry.name}.idx").read_bytes()
    except OSError as error:
        raise not_read(directory / f"{entry.name}.idx", error) from error
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
    except OSError as error:
        raise not_read(path, error) from error
    if (size_bytes := file.state()[0]) != entry.size_bytes:
        raise ShardCorrupt(
            f"{path.name} has {size_bytes} bytes, expected {entry.size_bytes}; fetch or write the shard again"
        )
    return file
