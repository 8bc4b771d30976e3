"""What was made of small files when they were last read, as long as the files stay what they were.

A file is known again by its inode, size and times. Whoever changes it in place soon after it was written may leave all
of these as they are, since times have steps; what is younger than a step is read again (git's "racy" entries).
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_Signature = tuple[int, int, int, int]
_SETTLED_NS = 25_000_000  # times of Linux have steps of 1 to 10 ms
_WHOLE_SETTLED_NS, _SECOND_NS = 3_000_000_000, 1_000_000_000  # a file system that keeps whole seconds, or pairs of them
_FEWEST = 16  # values that there is room for: a larger one would push out all others


class RecentFiles(Generic[_Value]):
    """The values of the files that were read last. Threads may share it, and the values, which nobody changes."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._kept: OrderedDict[str, tuple[_Signature, _Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, path: str, make: Callable[[], tuple[_Value, int]]) -> _Value:
        """The value of the file, kept or made. make: gives it and the bytes that it takes. Raises OSError where there
        is no file, and what `make` raises."""
        seen = os.stat(path)
        signature = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        with self._lock:
            if (kept := self._kept.get(path)) is not None and kept[0] == signature:
                self._kept.move_to_end(path)
                return kept[1]
        value, num_bytes = make()  # of a file that is replaced meanwhile: the next signature is another
        is_kept = num_bytes <= self._max_bytes // _FEWEST and _is_settled(seen)
        self._keep(path, (signature, value, num_bytes) if is_kept else None)
        return value

    def forget(self, path: str) -> None:
        """Read the file anew when it is next asked for."""
        self._keep(path, None)

    def _keep(self, path: str, one: tuple[_Signature, _Value, int] | None) -> None:
        with self._lock:
            if (before := self._kept.pop(path, None)) is not None:
                self._num_bytes -= before[2]
            if one is None:
                return
            self._kept[path] = one
            self._num_bytes += one[2]
            while self._num_bytes > self._max_bytes:
                _, (*_, num_bytes) = self._kept.popitem(last=False)
                self._num_bytes -= num_bytes


def _is_settled(seen: os.stat_result) -> bool:
    """Whether a later change would give the file other times."""
    last_ns = max(seen.st_mtime_ns, seen.st_ctime_ns)
    wait_ns = _SETTLED_NS if seen.st_mtime_ns % _SECOND_NS else _WHOLE_SETTLED_NS
    return time.time_ns() - last_ns > wait_ns
