"""A file that is held against its publisher's hash while it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.streams import Seekable, expect


class CheckedFile(Seekable):
    """The file, hashed as it is read in order from its start; the read that reaches its end raises UnreadableItem 1010
    where the hash is another one, or does what `otherwise` does with that.

    Reads out of order are not hashed: `Landing.verify` reads a whole file for that.
    """

    def __init__(
        self,
        file: IO[bytes],
        *,
        size_bytes: int,
        expected: str,
        hasher: Any,
        otherwise: Callable[[str], None] | None = None,
    ) -> None:
        self._file: Any = file
        self._size, self._expected, self._hasher = size_bytes, expected, hasher
        self._otherwise = otherwise or self._refuse
        self._at = self._hashed = 0

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        expect(self._file, ranges)

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._at)
        # of one block at most: the buffer above asks for more than its reader wants
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        if self._at <= self._hashed < self._at + len(data):
            self._hasher.update(memoryview(data)[self._hashed - self._at :])
            self._hashed = self._at + len(data)
            if self._hashed == self._size and (actual := self._hasher.hexdigest()) != self._expected:
                self._otherwise(actual)
        self._at += len(data)
        return len(data)

    def _refuse(self, actual: str) -> None:
        reason = f"{self._hasher.name}={actual} is not {self._expected}, which its publisher states"
        raise UnreadableItem(1010, reason)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
