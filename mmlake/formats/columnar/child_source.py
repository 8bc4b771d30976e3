"""What the formats of the child process share: a file's bytes, and answers in slices."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from mmlake.formats.columnar.weights import weight_of
from mmlake.streams import Seekable

FLOOR_BYTES = 64 << 20  # a row group or batch that decodes to less is read, however small it is in the file
SLICE_ROWS = 1024  # of one answer
Buffer: TypeAlias = Any  # bytes, a memoryview, or a buffer of Arrow's

_PIECE_BYTES = 4 << 20  # of one range that the parent is asked for
_HELD_BYTES = 64 << 20  # ranges up to here are held in memory, larger ones lie in a temporary file


class Refused(Exception):
    """A file, or a part of it, is not to be read."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class ColumnarLimits(NamedTuple):
    """What a file may take; the names are those of the settings of sources."""

    batch_bytes: int
    max_expansion: int
    max_decoded_bytes: int
    max_item_bytes: int
    max_line_bytes: int


class Answer(NamedTuple):
    """What is answered to a request."""

    head: dict[str, Any]
    batches: tuple[pa.RecordBatch, ...] = ()
    schema: pa.Schema | None = None


class Source(Protocol):
    """What is open. It has a method for each thing that it is asked for, which gives an `Answer`."""

    opened: Answer


class LocalFile:
    """A file of this machine, mapped: its bytes take no memory of their own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.native = pa.memory_map(os.fspath(path))
        self.size_bytes: int | None = self.native.size()

    def read_at(self, offset: int, size_bytes: int) -> Buffer:
        """So many bytes from there on, fewer at the end."""
        self.native.seek(min(offset, self.native.size()))
        return self.native.read_buffer(max(0, size_bytes))


class ServedFile(Seekable):
    """A file of which the parent sends what is asked for."""

    def __init__(self, ask: Callable[[int, int], bytearray], size_bytes: int | None) -> None:
        """ask: gives so many bytes from a place on, fewer at the end. size_bytes: None where it is known at the end
        alone."""
        self._ask, self.size_bytes, self._size, self._at = ask, size_bytes, size_bytes or 0, 0

    @property
    def native(self) -> pa.NativeFile:
        """The file as Arrow reads it, which seeks."""
        return pa.PythonFile(self, mode="r")

    def read_at(self, offset: int, size_bytes: int) -> Buffer:
        """So many bytes from there on, fewer at the end."""
        if size_bytes <= _PIECE_BYTES:
            return memoryview(self._ask(offset, max(0, size_bytes)))
        if size_bytes <= _HELD_BYTES:
            return memoryview(b"".join(self._pieces(offset, size_bytes)))
        with tempfile.TemporaryFile(prefix="mmlake-columnar-") as copy:
            copy.writelines(self._pieces(offset, size_bytes))
            copy.flush()
            found_bytes = copy.tell()
            return memoryview(mmap.mmap(copy.fileno(), found_bytes, access=mmap.ACCESS_READ) if found_bytes else b"")

    def _pieces(self, offset: int, size_bytes: int) -> Iterator[bytearray]:
        for at in range(offset, offset + size_bytes, _PIECE_BYTES):
            piece = self._ask(at, min(_PIECE_BYTES, offset + size_bytes - at))
            yield piece
            if len(piece) < min(_PIECE_BYTES, offset + size_bytes - at):
                return

    def close(self) -> None:
        """Stay open when a reader of Arrow's goes."""

    def read(self, size_bytes: int = -1) -> bytes:
        return bytes(self.read_buffer(size_bytes))

    def read_buffer(self, size_bytes: int) -> Buffer:
        data = self.read_at(self._at, size_bytes)
        self._at += len(data)
        return data


File = LocalFile | ServedFile


class Rows:
    """The rows of one part (row group or record batch) in slices; a request for the next ones goes on where the last
    one ended."""

    def __init__(self) -> None:
        self._next: tuple[Any, ...] = ()
        self._slices: Iterator[pa.RecordBatch] = iter(())

    def take(self, offset: int, key: tuple[Any, ...], batches: Iterable[pa.RecordBatch], max_bytes: int) -> Answer:
        """The slice that begins with that row. batches: lazily, all those of the part, for a new start."""
        if self._next != (offset, *key):
            self._slices = _behind(batches, offset, max_bytes)
        self._next = ()
        found = next(self._slices, None)
        if found is None:
            return Answer({"num_rows": 0})
        self._next = (offset + found.num_rows, *key)
        return Answer({"num_rows": found.num_rows}, (found,), found.schema)

    def forget(self) -> None:
        """Let go of what is held."""
        self._next, self._slices = (), iter(())


def _behind(batches: Iterable[pa.RecordBatch], offset: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows from that one on, so many at a time that a slice is no larger than that or one row."""
    for batch in batches:
        for start in range(min(offset, batch.num_rows), batch.num_rows, SLICE_ROWS):
            pending = [_plain(batch.slice(start, SLICE_ROWS), max_bytes)]
            while pending:
                part = pending.pop()
                half = part.num_rows // 2
                halves = [part.slice(half), part.slice(0, half)] if half and part.nbytes > max_bytes else []
                # what rows share, such as a dictionary, would be sent with each half
                if halves and sum(one.nbytes for one in halves) <= 1.5 * part.nbytes:
                    pending += halves
                else:
                    yield part
                del part, halves
        offset = max(0, offset - batch.num_rows)
        is_large = batch.nbytes > 8 << 20
        del batch  # before the next one is read
        if is_large:
            pa.default_memory_pool().release_unused()  # which it else keeps: twice what is in use, measured


def _plain(batch: pa.RecordBatch, max_bytes: int) -> pa.RecordBatch:
    """The batch with references and views as the values that they stand for, where that is not much: both are sent
    with all that their column refers to."""
    columns = list(batch.columns)
    for at, column in enumerate(columns):
        if pa.types.is_dictionary(column.type) and weight_of(column) <= max_bytes:
            columns[at] = column.dictionary_decode()
        elif pa.types.is_binary_view(column.type) or pa.types.is_string_view(column.type):
            columns[at] = column.view(pa.binary_view()).cast(pa.large_binary())
            if pa.types.is_string_view(column.type):
                columns[at] = columns[at].view(pa.large_string())
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns != batch.columns else batch
