"""Values that were used last, in bounded memory; of files, as long as the files stay what they were.

A file is known again by its device, inode, size and times. Whoever changes it in place soon after it was written may
leave all of these as they are, since times have steps; what is younger than a step is read again (git's "racy"
entries).
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Signature = tuple[int, int, int, int, int]
_SETTLED_NS = 25_000_000  # times of Linux have steps of 1 to 10 ms
_WHOLE_SETTLED_NS, _SECOND_NS = 3_000_000_000, 1_000_000_000  # a file system that keeps whole seconds, or pairs of them
_MAX_TABLES_BYTES, _MAX_STAMPS_BYTES = 64 << 20, 16 << 20
_MAX_SHARDS_BYTES = 512 << 20  # a sixteenth a file: 16,000 shards
_FEWEST = 16  # values that there is room for: a larger one would push out all others


class RecentValues(Generic[_Key, _Value]):
    """The values that were used last. Threads may share it, and the values, which nobody changes."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._kept: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """The value; None where it is not kept."""
        with self._lock:
            if (kept := self._kept.get(key)) is None:
                return None
            self._kept.move_to_end(key)
            return kept[0]

    def keep(self, key: _Key, value: _Value, num_bytes: int) -> None:
        """Keep the value in place of the key's former one, unless it would push out nearly all others."""
        with self._lock:
            self._drop(key)
            if num_bytes > self._max_bytes // _FEWEST:
                return
            self._kept[key] = (value, num_bytes)
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                self._drop(next(iter(self._kept)))

    def forget(self, key: _Key) -> None:
        """Keep no value of the key."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self._num_bytes -= kept[1]


class RecentFiles(Generic[_Value]):
    """The values of the files that were read last. Threads may share it, and the values, which nobody changes."""

    def __init__(self, *, max_bytes: int) -> None:
        self._values: RecentValues[str, tuple[_Signature, _Value]] = RecentValues(max_bytes=max_bytes)

    def read(self, path: str, make: Callable[[], tuple[_Value, int]]) -> _Value:
        """The value of the file, kept or made. make: gives it and the bytes that it takes. Raises OSError where there
        is no file, and what `make` raises."""
        seen = os.stat(path)
        signature = _signature(seen)
        if (kept := self._values.get(path)) is not None and kept[0] == signature:
            return kept[1]
        value, num_bytes = make()  # of a file that is replaced meanwhile: the next signature is another
        if _is_settled(seen):
            self._values.keep(path, (signature, value), num_bytes)
        else:
            self._values.forget(path)
        return value

    def get(self, path: str) -> _Value | None:
        """The value that is kept of the file as it is; None where none is."""
        kept = self._values.get(path)
        try:
            return kept[1] if kept is not None and kept[0] == _signature(os.stat(path)) else None
        except OSError:
            return None

    def forget(self, path: str) -> None:
        """Read the file anew when it is next asked for."""
        self._values.forget(path)


class RecentReads:
    """What was read of the small files of lakes, by all that are opened with it: each asset and check of a run opens
    its lake anew, and asks for the same stamps, tables and shards. Bounded, and gone with its owner."""

    def __init__(self) -> None:
        self.decoded: RecentValues[str, Any] = RecentValues(max_bytes=_MAX_TABLES_BYTES)  # tables by their SHA-256
        self.tables: RecentFiles[tuple[str, Any]] = RecentFiles(max_bytes=_MAX_TABLES_BYTES)  # the same by their files
        self.stamps: RecentFiles[Any] = RecentFiles(max_bytes=_MAX_STAMPS_BYTES)
        self.shards: RecentFiles[dict[str, Any]] = RecentFiles(max_bytes=_MAX_SHARDS_BYTES)  # by key, of each registry


def _signature(seen: os.stat_result) -> _Signature:
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _is_settled(seen: os.stat_result) -> bool:
    """Whether a later change would give the file other times."""
    last_ns = max(seen.st_mtime_ns, seen.st_ctime_ns)
    wait_ns = _SETTLED_NS if seen.st_mtime_ns % _SECOND_NS else _WHOLE_SETTLED_NS
    return time.time_ns() - last_ns > wait_ns
