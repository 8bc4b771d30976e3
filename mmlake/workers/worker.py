"""What a worker process does: items in, one result each out, in their order.

Enters: frames with kernels and items from the parent. Leaves: frames with results, and on a page of shared memory which
item is in hand, so that the parent knows whose fault a crash or a hang is. It trusts its parent, which
does not trust it.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import pickle
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mmlake.border import attempt
from mmlake.workers import wire

# parent to worker: kind, number of the item or the kernel, size of what follows
TASK_HEAD = struct.Struct("<cQQ")
KERNEL, ITEM = b"K", b"I"
# worker to parent: kind, number of the item, seconds it took, processor seconds of this process, size of what follows
RESULT_HEAD = struct.Struct("<cQddQ")
VALUE, FAULT, OUT_OF_MEMORY, LOG = b"V", b"F", b"M", b"L"
# the page: number of the item begun last, when (monotonic ns), number of the item ended last
PAGE_BYTES, BEGUN, BEGUN_NS, ENDED = mmap.PAGESIZE, 0, 1, 2
# exit statuses of a worker that ends by itself for another reason than having nothing to do
FAILED, NO_MEMORY = 70, 71
_CV2_NO_MEMORY = -4  # cv2.Error.StsNoMem
MAX_KERNELS = 16  # kept by a worker; the parent forgets in the same order
_READ_BYTES = 1 << 20


def work(items: int, results: int, page: int) -> None:
    """Handle items until the parent closes their pipe."""
    _use_one_thread()
    warnings.simplefilter("ignore")  # of libraries, over foreign bytes; our own findings are rows
    _Worker(items, results, page).run()


class _Worker:
    """The pipes, and the kernels at hand."""

    def __init__(self, items: int, results: int, page: int) -> None:
        self._items, self._results = items, results
        self._page = memoryview(mmap.mmap(page, PAGE_BYTES)).cast("Q")
        self._kernels: dict[int, Any] = {}
        self._buffer = bytearray()
        self._records = _Records()
        logging.getLogger().handlers[:] = [self._records]

    def run(self) -> None:
        """Frames until there are none."""
        while (frame := self._next()) is not None:
            kind, number, data = frame
            if kind == KERNEL:
                while len(self._kernels) >= MAX_KERNELS:
                    del self._kernels[next(iter(self._kernels))]
                self._kernels[number] = bytes(data)
            else:
                self._do(number, data)

    def _next(self) -> tuple[bytes, int, memoryview] | None:
        """The next frame; None where there is none any more."""
        while len(self._buffer) < TASK_HEAD.size:
            data = os.read(self._items, _READ_BYTES)
            if not data:
                return None
            self._buffer += data
        kind, number, size_bytes = TASK_HEAD.unpack_from(self._buffer)
        if kind == ITEM:  # from here on it may be what ends us, if only by its size
            self._page[BEGUN_NS] = time.monotonic_ns()
            self._page[BEGUN] = number
        end = TASK_HEAD.size + size_bytes
        frame = memoryview(bytearray(size_bytes))
        at = min(end, len(self._buffer)) - TASK_HEAD.size
        frame[:at] = memoryview(self._buffer)[TASK_HEAD.size : TASK_HEAD.size + at]
        del self._buffer[:end]
        while at < size_bytes:  # the rest of a large one goes straight to its place
            count = os.readv(self._items, [frame[at:]])
            if not count:
                return None
            at += count
        return kind, number, frame

    def _do(self, number: int, data: memoryview) -> None:
        """One item to one frame of results. data: the kernel's number, then the pickled item."""
        started_ns = time.monotonic_ns()
        kind, parts = self._result(int.from_bytes(data[:8], "little"), data[8:])
        seconds = (time.monotonic_ns() - started_ns) / 1e9
        for record in self._records.take():
            self._send(LOG, number, 0.0, [record])
        # at once, however short the item was: the next one may take hours
        self._send(kind, number, seconds, parts)
        self._page[ENDED] = number

    def _result(self, kernel_number: int, data: memoryview) -> tuple[bytes, list[bytes | bytearray]]:
        try:
            kernel = self._kernels[kernel_number]
            if isinstance(kernel, bytes):
                paths, inner = pickle.loads(kernel)  # noqa: S301  # written by our own parent
                sys.path.extend(path for path in paths if path not in sys.path)
                kernel = self._kernels[kernel_number] = pickle.loads(inner)  # noqa: S301
            function, code, what = kernel
            item = pickle.loads(data)  # noqa: S301  # written by our own parent
            return VALUE, wire.encoded_parts(attempt(partial(_call, function), item, code=code, what=what))
        except MemoryError:
            return OUT_OF_MEMORY, []
        # what is no item's fault is the parent's to raise
        except BaseException as error:  # noqa: BLE001
            if isinstance(error, OSError) and error.errno == errno.ENOMEM:
                return OUT_OF_MEMORY, []
            return FAULT, wire.encoded_parts(describe(error))

    def _send(self, kind: bytes, number: int, seconds: float, parts: Sequence[bytes | bytearray]) -> None:
        size_bytes = sum(map(len, parts))
        head = RESULT_HEAD.pack(kind, number, seconds, time.process_time(), size_bytes)
        # one call for what is short, and no copy of what is long
        whole = size_bytes < _READ_BYTES
        for part in (b"".join((head, *parts)),) if whole else (head, *parts):
            data = memoryview(part)
            while data:
                data = data[os.write(self._results, data) :]


def _call(kernel: Callable[[Any], Any], item: Any) -> Any:
    """What the kernel returns; OpenCV's want of memory as Python's."""
    try:
        return kernel(item)
    except Exception as error:  # raised again
        if type(error).__module__ == "cv2" and getattr(error, "code", None) == _CV2_NO_MEMORY:
            raise MemoryError from error
        raise


def describe(error: BaseException) -> dict[str, Any]:
    """The error in plain values, from which the parent makes its own."""
    found: dict[str, Any] = {
        "module": type(error).__module__,
        "name": type(error).__qualname__,
        "message": str(error),
        "trace": "".join(traceback.format_exception(error)),
    }
    if isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        found |= {"errno": error.errno, "strerror": error.strerror, "filenames": names}
    return found


class _Records(logging.Handler):
    """Warnings of one item, which the parent logs as its own."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found: list[bytes] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, formatted: what it was made of may not travel."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        self._found.append(wire.encode({"name": record.name, "level": record.levelno, "message": message}))

    def take(self) -> list[bytes]:
        """What came since the last call."""
        found, self._found = self._found, []
        return found


def _use_one_thread() -> None:
    """Workers are as many as the cores: a decoder with threads of its own would only make them wait for one another."""
    if (cv2 := sys.modules.get("cv2")) is not None:
        with suppress(AttributeError):
            cv2.setNumThreads(1)
