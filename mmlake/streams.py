"""Views of a binary file that others read too: a range of it, or all of it, that leave the file open when they are
closed."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import IO, Any


def expect(file: IO[bytes], ranges: Sequence[tuple[int, int]]) -> None:
    """Announce to a file which ranges, from and up to a byte, are read next, so that they are fetched meanwhile;
    nothing where they are at hand."""
    found: Any = file
    while found is not None and not hasattr(found, "expect"):
        found = getattr(found, "raw", None)
    if found is not None:
        found.expect(ranges)


_PART_BYTES = 64 << 10  # of one read: asking for 16 MiB allocates them, for a file of 4 KiB too


def read_up_to(stream: IO[bytes], size_bytes: int, *, part_bytes: int = _PART_BYTES) -> bytes:
    """At most so many bytes of the stream. Part by part: a buffered file that is asked for 4 GiB sets that much
    memory aside before it reads a byte."""
    parts, left = [], size_bytes
    while left > 0 and (part := stream.read(min(left, part_bytes))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class Seekable(io.RawIOBase):
    """A place in a file of known size, for subclasses that read from it."""

    _size: int
    _at: int

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at


class Owned(Seekable):
    """A file as whoever derives from this gives it: who drops it, or closes it, closes the file."""

    name = ""  # PyAV asks for one
    _file: IO[bytes]

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class Converted(io.RawIOBase):
    """Bytes that are made of another stream, in order, by whoever derives from this. Closing it closes that stream."""

    _source: IO[bytes]

    def next_bytes(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.next_bytes(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


class Slice(Seekable):
    """A range of a file that others read too: it seeks before every read."""

    def __init__(self, file: IO[bytes], offset: int, size_bytes: int) -> None:
        self._file, self._offset, self._size, self._at = file, offset, size_bytes, 0

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._offset + self._at)
        data = self._file.read(min(len(buffer), max(0, self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class View(Seekable):
    """Bytes in memory that belong to somebody else, for reading without a copy of all of them."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._size, self._at = data, len(data), 0

    def readinto(self, buffer: Any) -> int:
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


class Kept(io.RawIOBase):
    """Any binary file as the raw stream that a BufferedReader wants; it stays open when its reader goes."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seekable(self) -> bool:
        return self._source.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()


_NEAR_BYTES = 1 << 13  # bodies up to here are cheaper to read along than to pass over
_RUN_BYTES = 1 << 18  # read at a time while bodies are small
# the same of a file on this machine, whose calls cost little, at first (the headers of a record and of what follows
# it) and at most
_LOCAL_PROBE_BYTES, _LOCAL_RUN_BYTES = 3 << 10, 1 << 15
# read at least, where a read is more than a call of the system: a header and the first bytes of what follows it
_PROBE_BYTES = 1 << 13


class Window:
    """The part of a file that was read last, so that headers and the first bytes of small members cost one read for
    many."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size_bytes = file, file.seek(0, io.SEEK_END)
        self._start, self._data, self._last = 0, b"", 0
        self._ahead = 0
        is_local = isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)
        self._handle = file.fileno() if is_local else None

    def read(self, at: int, size_bytes: int) -> bytes:
        """The bytes from there on; fewer only where the file ends."""
        begin = at - self._start
        end = begin + size_bytes
        if begin < 0 or end > len(self._data):
            is_near, self._last = 0 <= at - self._last <= _NEAR_BYTES, at
            self._start, begin, end = at, 0, size_bytes
            if self._handle is not None:  # pread takes a third of the time of seek and read
                # A header far from the last read costs a small one, which a record behind it fits into; many small
                # bodies behind one another cost few.
                self._ahead = min(2 * self._ahead, _LOCAL_RUN_BYTES) if is_near else _LOCAL_PROBE_BYTES
                self._data = os.pread(self._handle, max(size_bytes, self._ahead), at)
            else:
                self.file.seek(at)
                self._data = self.file.read(max(size_bytes, _RUN_BYTES if is_near else _PROBE_BYTES))
        self._last = at
        return self._data[begin:end]

    def held(self, at: int, size_bytes: int) -> bytes:
        """The bytes from there on where they were read already; none where not all of them were."""
        begin = at - self._start
        return self._data[begin : begin + size_bytes] if 0 <= begin <= len(self._data) - size_bytes else b""
