"""Arrays that may be larger than memory: small ones are numpy's own, large ones lie in files and are mapped.

The files have no name, so the disk is free again when the last array is gone, or the process, however it ends. What is
read of a mapped array is in the page cache, which the kernel takes back when memory is wanted.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    import pyarrow as pa


class Scratch:
    """Where arrays are made."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, most_bytes: float = math.inf) -> None:
        """folder: for files, made when the first of them is; a temporary one where none is given. most_bytes: of an
        array in memory."""
        self.most_bytes = most_bytes
        self._folder = None if folder is None else Path(folder)

    def file(self) -> IO[bytes]:
        """A file without a name, empty, to be written and read."""
        return tempfile.TemporaryFile(dir=self.made_folder())

    def made_folder(self) -> Path | None:
        """The folder, which is there now; None for the machine's own."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def zeros(self, num: int, dtype: DTypeLike) -> NDArray[Any]:
        """So many zeros, to be overwritten."""
        size = num * np.dtype(dtype).itemsize
        if size <= self.most_bytes or not size:
            return np.zeros(num, dtype)
        with self.file() as file:
            file.truncate(size)
            return np.frombuffer(mapped(file), dtype)

    def full(self, num: int, value: float, dtype: DTypeLike) -> NDArray[Any]:
        """So many times the value, to be overwritten."""
        made = self.zeros(num, dtype)
        if value:
            made[:] = value
        return made

    def laid(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values; those that are large in a file, so that theirs can be freed."""
        if values.nbytes <= self.most_bytes:
            return values
        made = self.zeros(values.size, values.dtype).reshape(values.shape)
        made[:] = values
        return made

    def column(self, dtype: DTypeLike, *, one_of: int = 1) -> Column:
        """An array that grows. one_of: how many grow at the same time and share the memory of one."""
        return Column(self, np.dtype(dtype), self.most_bytes / one_of)


class Column:
    """Values that come one part after the other."""

    def __init__(self, scratch: Scratch, dtype: np.dtype[Any], most_bytes: float) -> None:
        self._scratch, self._dtype, self._most_bytes = scratch, dtype, most_bytes
        self._parts: list[NDArray[Any]] = []
        self._held = 0
        self._file: IO[bytes] | None = None

    def append(self, values: NDArray[Any]) -> None:
        """More values behind those that are there; they may be a view of what the caller overwrites."""
        part = np.array(values, self._dtype)
        self._parts.append(part)
        self._held += part.nbytes
        if self._held > self._most_bytes:
            self._write()

    def array(self) -> NDArray[Any]:
        """All values. Nothing can be appended any more."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._dtype), *self._parts])
        with self._file as file:
            self._write()
            file.flush()
            return np.frombuffer(mapped(file), self._dtype)

    def _write(self) -> None:
        self._file = self._file or self._scratch.file()
        for part in self._parts:
            self._file.write(part.data)
        self._parts.clear()
        self._held = 0


def mapped(file: IO[bytes]) -> mmap.mmap:
    """The bytes of a file that is not empty; they stay when it is closed."""
    return mmap.mmap(file.fileno(), 0)


def cumulated(lengths: NDArray[np.int64], scratch: Scratch) -> NDArray[np.int64]:
    """Where rows of these lengths begin, and where the last one ends."""
    offsets = scratch.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class TextColumn:
    """Texts that come one part after the other."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch, self._bytes, self._lengths = scratch, scratch.column(np.uint8), scratch.column(np.int64)

    def append(self, texts: pa.ChunkedArray) -> None:
        """More texts behind those that are there; none of them null."""
        import pyarrow as pa

        for chunk in texts.chunks:
            chunk = chunk.cast(pa.large_string())
            offsets = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
            if len(chunk) and offsets[-1] > offsets[0]:
                self._bytes.append(np.frombuffer(chunk.buffers()[2], np.uint8)[offsets[0] : offsets[-1]])
            self._lengths.append(np.diff(offsets) if len(chunk) else np.empty(0, np.int64))

    def array(self) -> pa.Array:
        """All texts; as large strings where they are more than offsets of 32 bits can count."""
        import pyarrow as pa

        values, offsets = self._bytes.array(), cumulated(self._lengths.array(), self._scratch)
        num = len(offsets) - 1
        if offsets[-1] < 2**31:
            small = self._scratch.zeros(num + 1, np.int32)
            small[:] = offsets
            return pa.StringArray.from_buffers(num, pa.py_buffer(small), pa.py_buffer(values))
        return pa.LargeStringArray.from_buffers(num, pa.py_buffer(offsets), pa.py_buffer(values))


_IN_MEMORY = Scratch()
_CURRENT: ContextVar[Scratch | None] = ContextVar("scratch", default=None)


def current() -> Scratch:
    """Where large arrays of the running step are made; in memory where no step said anything."""
    return _CURRENT.get() or _IN_MEMORY


@contextmanager
def used(scratch: Scratch) -> Iterator[None]:
    """Within it, `current` is this one: what is built deep in a join asks for it, and no signature has to carry it."""
    token = _CURRENT.set(scratch)
    try:
        yield
    finally:
        _CURRENT.reset(token)
