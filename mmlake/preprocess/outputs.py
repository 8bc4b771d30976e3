"""What decoding makes besides columns: sound, small frames, keyframes.

Enters: bytes, as they are made. Leaves: files in the folder that the item has been given, or bytes in memory where it
has none. In a film of three hours they are hundreds of megabytes, which neither the process that decodes nor the one
that stores them shall hold.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.streams import Slice

SOUND, FRAMES, KEYFRAMES = "sound.flac", "frames.arrow", "keyframes.mjpeg"


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes in a file of the item's folder."""

    name: str  # SOUND, FRAMES or KEYFRAMES
    start: int
    size_bytes: int


Output = bytes | Written


class OutputFile:
    """One file that grows, with what libsndfile asks of a file; in memory where there is no folder."""

    def __init__(self, path: Path | None) -> None:
        self._name = "" if path is None else path.name
        self.file: IO[bytes] = io.BytesIO() if path is None else path.open("w+b")
        self._error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        """The number of bytes written; 0 after an error, which `check` raises: libsndfile passes none on."""
        try:
            return self.file.write(data)
        except OSError as error:
            self._error = self._error or error
            return 0

    def read(self, size: int = -1) -> bytes:
        """So many bytes from where the file stands."""
        return self.file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The new position."""
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self.file.tell()

    def check(self) -> None:
        """Raises what went wrong when it was written."""
        if self._error is not None:
            raise self._error

    def whole(self) -> Output:
        """All that was written. Raises OSError where a part was not."""
        self.check()
        if isinstance(self.file, io.BytesIO):
            return self.file.getvalue()
        self.file.flush()
        return Written(self._name, 0, self.file.seek(0, io.SEEK_END))

    def append(self, data: bytes) -> Output:
        """The data, which is held by this file alone where it is one."""
        if isinstance(self.file, io.BytesIO):
            return data
        start = self.file.seek(0, io.SEEK_END)
        self.file.write(data)
        return Written(self._name, start, len(data))

    def data_of(self, output: Output) -> bytes:
        """The bytes of what `append` returned."""
        if isinstance(output, bytes):
            return output
        self.file.seek(output.start)
        return self.file.read(output.size_bytes)


class Outputs:
    """The files of one item, closed with the context."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: of this item alone; None for results in memory."""
        self._folder = folder
        self._files: dict[str, OutputFile] = {}

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._files.values():
            one.file.close()

    def begin(self, name: str) -> OutputFile:
        """An empty file of that name: what an attempt before has written is gone."""
        if name in self._files:
            self._files[name].file.close()
        self._files[name] = OutputFile(None if self._folder is None else self._folder / name)
        return self._files[name]

    def readable(self, output: Output) -> Path | IO[bytes]:
        """A whole file for who reads it."""
        return io.BytesIO(output) if isinstance(output, bytes) else (self._folder or Path()) / output.name


@contextmanager
def opened_output(output: Output, folder: Path | None) -> Iterator[IO[bytes]]:
    """The bytes as a stream. folder: that the item was given.

    Raises UnreadableItem 3101 for another file than decoding writes: who handles foreign bytes is not trusted.
    """
    if isinstance(output, bytes):
        yield io.BytesIO(output)
        return
    if folder is None or output.name not in (SOUND, FRAMES, KEYFRAMES):
        raise UnreadableItem(3101, "its process names a file that decoding does not write")
    with (folder / output.name).open("rb") as file:
        yield io.BufferedReader(Slice(file, output.start, output.size_bytes), 1 << 20)
