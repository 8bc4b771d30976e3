"""The rows of a shard's .idx file: all of them in memory when a shard is opened for the first time, and a few at a time
from the file when it is opened again.

Where more shards are shuffled than may be open, nearly every sample opens one. To read, hash and check all rows for one
of them takes 4 ms for 20,000 rows, and those of all open shards a gigabyte in each worker.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from mmlake.errors import ShardCorrupt
from mmlake.loader.entries import Entry
from mmlake.loader.read_file import ReadFile
from mmlake.records import digest_of

_BLOCK = 16  # rows that are read at once: whoever reads in order needs the next ones
_I32, _I64 = 4, 8  # bytes of a number of that type; those of float32 and uint32 too
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the index, from `first` on. Views of arrays, no Python objects: a million samples take 150 MB in each
    worker, and took 440. A view gives Python's numbers, three times as fast as an array gives its own."""

    first: int
    keys: memoryview  # UTF-8 of all of them
    key_bounds: memoryview  # where each begins in it, and the last one ends
    weights: np.ndarray  # float32, one per row
    bounds: memoryview  # which members are a row's: from one to the next, below in the order of members
    endings: list[str]  # the distinct ones
    ending_of: memoryview  # of each member, its place among them
    offsets: memoryview
    sizes: memoryview
    crc32s: memoryview

    def __contains__(self, number: int) -> bool:
        return 0 <= number - self.first < len(self.weights)

    def key(self, number: int) -> str:
        """The name of the sample."""
        at = number - self.first
        return str(self.keys[self.key_bounds[at] : self.key_bounds[at + 1]], "utf-8")

    def places(self, number: int) -> range:
        """Which members the sample has."""
        at = number - self.first
        return range(self.bounds[at], self.bounds[at + 1])


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in an .idx file that was checked its columns lie: the first byte of each buffer."""

    state: tuple[int, int]  # of the file that was checked, as `ReadFile.state`
    num_rows: int
    keys: tuple[int, int]  # bounds, text
    weights: int
    bounds: int  # of the members of each row
    endings: tuple[int, int]  # bounds, text
    offsets: int
    sizes: int
    crc32s: int


def whole_index(directory: Path, entry: Entry) -> tuple[Rows, Layout | None]:
    """(all rows, where they lie) of the shard's index, checked against its SHA-256 and the facts of the shard. None in
    place of the layout where the file is not laid out as this release writes it. Raises ShardCorrupt."""
    file = _opened(directory, entry)
    try:
        state, data = file.state(), pa.py_buffer(file.read(0, entry.idx_bytes + 1))
    except OSError as error:
        raise not_read(directory / f"{entry.name}.idx", error) from error
    finally:
        file.close()
    if len(data) != entry.idx_bytes or digest_of(data) != entry.idx_sha256:
        raise ShardCorrupt(f"{entry.name}.idx does not hash to {entry.idx_sha256[:12]}; fetch or write the shard again")
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if table.num_rows != entry.num_samples:
        raise ShardCorrupt(
            f"{entry.name}.idx has {table.num_rows} samples, expected {entry.num_samples}; write the shards again"
        )
    rows = _rows_of(table, entry)
    return rows, _layout(table, data, state)


def _rows_of(table: pa.Table, entry: Entry) -> Rows:
    keys, key_bounds = _texts_of(table["key"].combine_chunks())
    lists = {name: table[name].combine_chunks() for name in ("endings", "offsets", "sizes", "crc32s")}
    offsets, sizes, crc32s = (np.from_dlpack(lists[name].flatten()) for name in ("offsets", "sizes", "crc32s"))
    if len(offsets) != entry.num_members or bool(((offsets < 512) | (sizes > entry.size_bytes - offsets)).any()):
        raise ShardCorrupt(f"{entry.name}.idx does not fit its tar; write the shards again")
    endings = lists["endings"].flatten().dictionary_encode()
    bounds = np.from_dlpack(lists["offsets"].offsets) if table.num_rows else np.zeros(1, np.int32)
    return Rows(
        first=0,
        keys=keys,
        key_bounds=key_bounds,
        # `to_numpy` imports pandas, a third of a second in every worker of a DataLoader
        weights=np.from_dlpack(table["weight"].combine_chunks()),
        bounds=bounds.data,
        endings=endings.dictionary.to_pylist(),
        ending_of=np.from_dlpack(endings.indices).data,
        offsets=offsets.data,
        sizes=sizes.data,
        crc32s=crc32s.data,
    )


def _layout(table: pa.Table, data: pa.Buffer, state: tuple[int, int]) -> Layout | None:
    """None where a column has several chunks, is a part of a longer one, has nulls, or was copied as it was read."""
    columns = {name: table[name] for name in table.column_names}
    if not table.num_rows or any(column.num_chunks != 1 or column.null_count for column in columns.values()):
        return None
    arrays = {name: column.chunk(0) for name, column in columns.items()}
    if any(array.offset for array in arrays.values()):
        return None
    # buffers of a text: validity, bounds, bytes; of a list: validity, bounds, then those of its values
    wanted = [
        *arrays["key"].buffers()[1:],
        arrays["weight"].buffers()[1],
        arrays["offsets"].buffers()[1],
        *arrays["endings"].buffers()[3:],
        *(arrays[name].buffers()[3] for name in ("offsets", "sizes", "crc32s")),
    ]
    places = [-1 if buffer is None else buffer.address - data.address for buffer in wanted]
    if any(not 0 <= place < data.size for place in places):
        return None
    key_bounds, keys, weights, bounds, ending_bounds, endings, offsets, sizes, crc32s = places
    return Layout(
        state, table.num_rows, (key_bounds, keys), weights, bounds, (ending_bounds, endings), offsets, sizes, crc32s
    )


class IndexOnDisk:
    """The rows of an index that was checked before, read as they are asked for."""

    def __init__(self, directory: Path, entry: Entry, layout: Layout) -> None:
        """Raises ShardCorrupt where the file is gone."""
        self._directory, self._entry, self._layout = directory, entry, layout
        self._file = _opened(directory, entry)
        self._rows: Rows | None = None  # read last; threads may each put theirs here

    def rows(self, number: int) -> Rows:
        """Some rows, that of the number among them; all of them where the file is not the one that was checked, and is
        as it was written all the same. Raises ShardCorrupt."""
        rows = self._rows
        if rows is None or number not in rows:
            rows = self._rows = self._unless_changed(self._block, number - number % _BLOCK) or self._whole()
        return rows

    def weights(self) -> np.ndarray:
        """Those of all rows, float32. Raises ShardCorrupt."""
        found = self._unless_changed(self._numbers, self._layout.weights, self._layout.num_rows, "<f4")
        return self._whole().weights if found is None else found

    def keys(self) -> list[str]:
        """The names of all samples. Raises ShardCorrupt."""
        rows = self._whole()
        return [rows.key(number) for number in range(self._entry.num_samples)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _whole(self) -> Rows:
        return whole_index(self._directory, self._entry)[0]

    def _unless_changed(self, read: Callable[..., _T], *given: Any) -> _T | None:
        """What is read, of the file that was checked; None where it has changed, so that what was read means nothing.
        Raises ShardCorrupt."""
        try:
            found = read(*given)
        except ValueError:  # such as bounds that are none
            return None
        except OSError as error:
            raise not_read(self._directory / f"{self._entry.name}.idx", error) from error
        return found if self._file.state() == self._layout.state else None

    def _block(self, first: int) -> Rows:
        layout, num = self._layout, min(_BLOCK, self._layout.num_rows - first)
        bounds = self._numbers(layout.bounds + _I32 * first, num + 1, "<i4")
        least, num_members = int(bounds[0]), int(bounds[-1]) - int(bounds[0])
        keys, key_bounds = self._texts(*layout.keys, first, num)
        text, text_bounds = self._texts(*layout.endings, least, num_members)
        named = [str(text[text_bounds[at] : text_bounds[at + 1]], "utf-8") for at in range(num_members)]
        endings = list(dict.fromkeys(named))
        return Rows(
            first=first,
            keys=keys,
            key_bounds=key_bounds,
            weights=self._numbers(layout.weights + _I32 * first, num, "<f4"),
            bounds=(bounds - least).data,
            endings=endings,
            ending_of=np.array([endings.index(one) for one in named], np.int32).data,
            offsets=self._numbers(layout.offsets + _I64 * least, num_members, "<i8").data,
            sizes=self._numbers(layout.sizes + _I64 * least, num_members, "<i8").data,
            crc32s=self._numbers(layout.crc32s + _I32 * least, num_members, "<u4").data,
        )

    def _texts(self, bounds_at: int, text_at: int, first: int, num: int) -> tuple[memoryview, memoryview]:
        """(UTF-8 of so many texts, where each begins in it and the last one ends)."""
        bounds = self._numbers(bounds_at + _I32 * first, num + 1, "<i4")
        data = self._numbers(text_at + int(bounds[0]), int(bounds[-1]) - int(bounds[0]), "u1")
        return data.data, (bounds - bounds[0]).data

    def _numbers(self, offset: int, num: int, kind: str) -> np.ndarray:
        """So many numbers that lie there. Raises ValueError where the file has not as many."""
        if not 0 <= num <= self._entry.idx_bytes or offset < 0:
            raise ValueError(num)
        width = np.dtype(kind).itemsize
        return np.frombuffer(self._file.read(offset, num * width), kind, num)


def not_read(path: Path, error: OSError) -> Exception:
    """What is raised where a file of a shard is not to be had: ShardCorrupt, and the error itself where it is the
    process that has too many files open or no memory, for then the shard may be sound."""
    if error.errno in _OF_THE_PROCESS:
        return error
    if isinstance(error, FileNotFoundError):
        return ShardCorrupt(f"{path.name} is missing from {path.parent}; fetch or write the shard again")
    return ShardCorrupt(f"{path} cannot be read: {error.strerror}; fetch or write the shard again")


def _texts_of(array: pa.StringArray) -> tuple[memoryview, memoryview]:
    """(UTF-8 of all texts, where each begins in it and the last one ends) of an array without nulls."""
    _, bounds, text = array.buffers()
    whole = memoryview(bounds).cast("i") if bounds is not None and bounds.size else np.zeros(1, np.int32).data
    return memoryview(text or b""), whole[array.offset : array.offset + len(array) + 1]


def _opened(directory: Path, entry: Entry) -> ReadFile:
    path = directory / f"{entry.name}.idx"
    try:
        return ReadFile(path)
    except OSError as error:
        raise not_read(path, error) from error
