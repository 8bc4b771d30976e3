"""A remote file that is read and sought like a local one: blocks from the cache, fetched ahead while it is read in order."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, cast

from mmlake.errors import RemoteUnavailable
from mmlake.remote.cache import ReadRange, block_key

if TYPE_CHECKING:
    from mmlake.remote.cache import BlockCache

_BUFFER_BYTES = 64 << 10  # parsers read 512 bytes at a time; larger reads pass it by


class RemoteFile(io.RawIOBase):
    """One version of a remote file. Not for several threads at once; any number may be open."""

    def __init__(self, cache: BlockCache, identity: str, size_bytes: int, read_range: ReadRange) -> None:
        self._cache, self._read_range = cache, read_range
        self._size, self._block_bytes = size_bytes, cache.settings.block_bytes
        self._key = block_key(identity, size_bytes, self._block_bytes)
        self._identity = identity
        self._position = 0
        self._held: tuple[int, bytes] = (-1, b"")
        self._window = 0  # blocks to read ahead; 0 until the file is read in order
        self._asked_until = 0  # the first block that no read-ahead has been asked for

    def buffered(self) -> IO[bytes]:
        """The file as `open` gives files: reads return all bytes asked for, short only at the end."""
        return cast("IO[bytes]", io.BufferedReader(self, _BUFFER_BYTES))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to {base + offset}, expected 0 or more")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        if self._position >= self._size or not view:
            return 0
        number, start = divmod(self._position, self._block_bytes)
        data = self._block(number)
        count = min(len(view), len(data) - start)
        view[:count] = memoryview(data)[start : start + count]
        self._position += count
        return count

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch these ranges, from and up to a byte, in the background: they will be read."""
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
        """Ask for what follows, a window at a time: again when half of it is used up, so that requests stay large."""
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
        """Returns nothing: what was read ahead is on the disk, and a future must not hold it in memory."""
        self._fetch(first, count)

    def _fetch(self, first: int, count: int) -> bytes:
        """The blocks' bytes, which are in the cache afterwards where that has room."""
        offset, size = self._extent(first, count)
        data = self._read_range(offset, size)
        if len(data) != size:
            raise RemoteUnavailable(f"{self._identity}: {len(data)} bytes came for the {size} from byte {offset}; the storage does not keep to byte ranges, use another endpoint")
        view = memoryview(data)
        for at in range(count):
            self._cache.keep(self._key, first + at, view[at * self._block_bytes : (at + 1) * self._block_bytes])
        return data

    def _extent(self, first: int, count: int) -> tuple[int, int]:
        """(offset, size in bytes) of blocks, the last one of the file being shorter."""
        offset = first * self._block_bytes
        return offset, min(count * self._block_bytes, self._size - offset)


def _runs(blocks: list[int], longest: int) -> list[list[int]]:
    """The sorted numbers in runs without gaps, each at most so long."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and runs[-1][-1] + 1 == block and len(runs[-1]) < longest:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
