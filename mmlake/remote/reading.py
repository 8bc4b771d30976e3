"""A remote file that is read and sought like a local one: its blocks come from the cache, and are fetched ahead
while it is read in order."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import IO, Any, cast

from mmlake.errors import RemoteUnavailable
from mmlake.remote.cache import BlockCache, block_key
from mmlake.streams import Seekable

# (offset, size) -> exactly those bytes; raises UnreadableItem, RemoteUnavailable
ReadRange = Callable[[int, int], bytes]
_BUFFER_BYTES = 64 << 10  # parsers read 512 bytes at a time; larger reads pass it by


def open_file(cache: BlockCache, identity: str, size_bytes: int, read_range: ReadRange) -> IO[bytes]:
    """The remote file as a seekable binary file with a buffer, as `open` returns files: a read returns all bytes asked
    for, fewer only at the end.

    identity: location and version, without credentials; bytes under one identity must never change. size_bytes: of that
    version.
    """
    return cast("IO[bytes]", io.BufferedReader(RemoteFile(cache, identity, size_bytes, read_range), _BUFFER_BYTES))


class RemoteFile(Seekable):
    """One version of a remote file. An object serves one thread at a time; any number may be open."""

    def __init__(self, cache: BlockCache, identity: str, size_bytes: int, read_range: ReadRange) -> None:
        self._cache, self._read_range = cache, read_range
        self._size, self._block_bytes = size_bytes, cache.settings.block_bytes
        self._key = block_key(identity, size_bytes, self._block_bytes)
        self._identity = identity
        self._at = 0
        self._held: tuple[int, bytes] = (-1, b"")
        self._window = 0  # blocks to read ahead; 0 until the file is read in order
        self._asked_until = 0  # the first block that no read-ahead has been asked for

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self._size or not view:
            return 0
        number, start = divmod(self._at, self._block_bytes)
        data = self._block(number)
        count = min(len(view), len(data) - start)
        view[:count] = memoryview(data)[start : start + count]
        self._at += count
        return count

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch these ranges, (first byte, byte behind the last), in the background, since they will be read."""
        size = self._block_bytes
        blocks = {block for start, stop in ranges for block in range(start // size, -(-min(stop, self._size) // size))}
        self._ask_for([block for block in sorted(blocks) if not self._cache.is_coming(self._key, block)])

    def close(self) -> None:
        if not self.closed:
            self._cache.cancel(self._key)
        super().close()

    def _block(self, number: int) -> bytes:
        last, data = self._held
        if number == last:
            return data
        if number == last + 1:
            self._window = min(max(1, 2 * self._window), self._cache.settings.ahead_blocks) if last >= 0 else 0
        else:
            self._window, self._asked_until = 0, 0
        self._read_ahead(number)
        data = self._load(number)
        self._held = (number, data)
        return data

    def _load(self, number: int) -> bytes:
        kept = self._cache.load(self._key, number)
        if kept is None:
            self._cache.wait(self._key, number)
            kept = self._cache.load(self._key, number)
        if kept is not None and len(kept) == self._extent(number, 1)[1]:
            return kept
        return self._fetch(number, 1)

    def _read_ahead(self, number: int) -> None:
        """Ask for the blocks that follow, a window at a time, and again when half of it is used up, so that requests
        stay large."""
        end = min(number + 1 + self._window, -(-self._size // self._block_bytes))
        start = max(number + 1, self._asked_until)
        if start >= end or start - number > self._window // 2 + 1:
            return
        self._asked_until = end
        self._ask_for(range(start, end))

    def _ask_for(self, blocks: Iterable[int]) -> None:
        wanted = [block for block in blocks if not self._cache.has(self._key, block)]
        for run in _runs(wanted, self._cache.settings.request_blocks):
            self._cache.ahead(self._key, run, partial(self._fetch_ahead, run[0], len(run)))

    def _fetch_ahead(self, first: int, count: int) -> None:
        """As `_fetch` without its result: what was read ahead is on the disk, and a future must not hold it in
        memory."""
        self._fetch(first, count)

    def _fetch(self, first: int, count: int) -> bytes:
        """The blocks' bytes, which the cache keeps as well, if it has room."""
        offset, size = self._extent(first, count)
        data = self._read_range(offset, size)
        if len(data) != size:
            raise RemoteUnavailable(
                f"{self._identity}: {len(data)} bytes came for the {size} from byte {offset}; the storage does "
                "not keep to byte ranges, use another endpoint"
            )
        view = memoryview(data)
        for at in range(count):
            self._cache.keep(self._key, first + at, view[at * self._block_bytes : (at + 1) * self._block_bytes])
        return data

    def _extent(self, first: int, count: int) -> tuple[int, int]:
        """(offset, size in bytes) of so many blocks from the first on; the file's last block may be shorter."""
        offset = first * self._block_bytes
        return offset, min(count * self._block_bytes, self._size - offset)


def _runs(blocks: list[int], longest: int) -> list[list[int]]:
    """The sorted numbers in runs without gaps, each of at most `longest`."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and runs[-1][-1] + 1 == block and len(runs[-1]) < longest:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
