"""One worker process as its parent sees it: pipes, the items it has, and the page that says which is in hand."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mmlake.errors import MmlakeError
from mmlake.workers.calls import Task
from mmlake.workers.fork_client import ForkServer
from mmlake.workers.worker import (
    BEGUN,
    BEGUN_NS,
    ENDED,
    ITEM,
    KERNEL,
    MAX_KERNELS,
    PAGE_BYTES,
    RESULT_HEAD,
    TASK_HEAD,
)

_PIPE_BYTES = 1 << 20  # a picture or two wait in the pipe while the parent is busy
_READ_BYTES = 1 << 20


class Frame(NamedTuple):
    """What a worker sent."""

    kind: bytes
    number: int
    seconds: float
    cpu_s: float
    data: memoryview


class DamagedStream(Exception):
    """A worker sent what is no frame."""


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """A living worker."""

    pid: int
    items: int  # descriptors
    results: int
    status: int
    page: mmap.mmap
    max_frame_bytes: int
    waiting: deque[tuple[int, Task]] = field(default_factory=deque)  # sent and not answered, oldest first
    num_sent: int = 0
    waiting_bytes: int = 0
    waiting_since: float = 0.0  # monotonic seconds; when the oldest was sent, or became the oldest
    idle_since: float = 0.0
    cpu_s: float = 0.0
    exit_code: int | None = None  # negative: the signal that ended it
    has_ended: bool = False
    is_cut: bool = False  # its results have come to an end
    is_dismissed: bool = False  # ended by us; what it still sends is not read
    is_overdue: bool = False  # ended by us, since an item took too long
    _kernels: deque[int] = field(default_factory=deque)
    _outbox: deque[memoryview] = field(default_factory=deque)
    _inbox: bytearray = field(default_factory=bytearray)
    _coming: Frame | None = None  # a large one, of which a part is missing
    _num_come: int = 0  # bytes of it

    @classmethod
    def start(cls, server: ForkServer, *, module: str, memory_bytes: int) -> WorkerProcess:
        """A new one. Raises OSError where the system gives no process, memory or descriptors."""
        opened: list[int] = []
        try:
            for _ in range(3):
                opened += os.pipe()
            items_read, items_write, results_read, results_write, status_read, status_write = opened
            for end in (items_write, results_read):
                with suppress(AttributeError, OSError):  # Linux alone, and so much for one user
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                os.set_blocking(end, False)
            os.set_blocking(status_read, False)
            shared = _shared_file()
            opened.append(shared)
            os.ftruncate(shared, PAGE_BYTES)
            page = mmap.mmap(shared, PAGE_BYTES)
            pid = server.start(
                (items_read, results_write, shared, status_write), module=module, memory_bytes=memory_bytes
            )
        except BaseException:
            for end in opened:
                os.close(end)
            raise
        for end in (items_read, results_write, status_write, shared):
            os.close(end)
        # no frame is larger than what a worker can hold
        return cls(pid, items_write, results_read, status_read, page, memory_bytes + (64 << 20))

    def send(self, task: Task) -> None:
        """Put the item in line; `flush` sends it."""
        number, payload = task.kernel
        if number not in self._kernels:
            if len(self._kernels) >= MAX_KERNELS:
                self._kernels.popleft()
            self._kernels.append(number)
            self._outbox.append(memoryview(TASK_HEAD.pack(KERNEL, number, len(payload)) + payload))
        self.num_sent += 1
        head = TASK_HEAD.pack(ITEM, self.num_sent, 8 + len(task.data)) + number.to_bytes(8, "little")
        if len(task.data) < 1 << 16:
            self._outbox.append(memoryview(head + task.data))
        else:
            self._outbox += (memoryview(head), memoryview(task.data))
        if not self.waiting:
            self.waiting_since = time.monotonic()
        self.waiting.append((self.num_sent, task))
        self.waiting_bytes += len(task.data)

    def flush(self) -> bool:
        """Send what fits into the pipe; whether all did."""
        try:
            while self._outbox:
                sent = os.writev(self.items, list(self._outbox)[:64])
                while sent:
                    part = self._outbox.popleft()
                    if sent < len(part):
                        self._outbox.appendleft(part[sent:])
                        break
                    sent -= len(part)
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._outbox.clear()  # it has ended: its results say so
        return True

    def receive(self) -> Iterator[Frame]:
        """The frames that have come. Raises DamagedStream."""
        try:
            if self._coming is not None and not self.is_dismissed:
                yield from self._receive_rest(self._coming)
                return
            data = os.read(self.results, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.is_cut = True
        if not data or self.is_dismissed:
            return
        self._inbox += data
        at = 0
        view = memoryview(self._inbox)
        come: memoryview | None = None
        try:
            while len(view) - at >= RESULT_HEAD.size:
                kind, number, seconds, cpu_s, size_bytes = RESULT_HEAD.unpack_from(view, at)
                if size_bytes > self.max_frame_bytes:
                    raise DamagedStream(f"a frame of {size_bytes} bytes")
                end = at + RESULT_HEAD.size + size_bytes
                come = view[at + RESULT_HEAD.size : end]
                if len(view) < end and size_bytes >= _READ_BYTES:
                    # read to where it stays: an inbox that grows by the sound of a film is a second copy of it, and
                    # what is cut out of that a third. Memory that nobody wrote is none, whatever a worker claims
                    self._coming = Frame(kind, number, seconds, cpu_s, np.empty(size_bytes, np.uint8).data)
                    self._coming.data[: len(come)] = come
                    self._num_come, at = len(come), len(view)
                    break
                if len(view) < end:
                    break
                yield Frame(kind, number, seconds, cpu_s, memoryview(bytes(come)))
                at = end
        finally:
            come = None
            view.release()
            del self._inbox[:at]

    def _receive_rest(self, frame: Frame) -> Iterator[Frame]:
        """More of the large frame, and the frame where that was all. Raises BlockingIOError."""
        count = os.readv(self.results, [frame.data[self._num_come :]])
        self.is_cut |= not count
        self._num_come += count
        if self._num_come == len(frame.data):
            self._coming = None
            yield frame

    def oldest(self, number: int) -> Task:
        """The oldest item, which has that number. Raises DamagedStream where it has another."""
        if not self.waiting or self.waiting[0][0] != number:
            raise DamagedStream(f"an answer to item {number}")
        return self.waiting[0][1]

    def answered(self) -> Task:
        """The oldest item, which waits no more."""
        task = self.waiting.popleft()[1]
        self.waiting_bytes -= len(task.data)
        self.waiting_since = self.idle_since = time.monotonic()
        return task

    def guilty(self) -> int | None:
        """The number of the item in hand, as the page has it; None where none was."""
        begun, _, ended = self._progress()
        return begun if begun > ended and any(number == begun for number, _ in self.waiting) else None

    def overdue_in(self, limit_s: float) -> float:
        """Seconds until the item in hand has had its time; 0 or less where it has."""
        now = time.monotonic()
        left = self.waiting_since + limit_s - now
        if left > 0:
            return left
        begun, begun_ns, ended = self._progress()
        if begun > ended and begun_ns / 1e9 <= now:
            # the ones before it were answered late; a page that says nonsense gains no more than their time
            left = begun_ns / 1e9 + limit_s - now
            return min(left, self.waiting_since + limit_s * (len(self.waiting) + 1) - now)
        return left

    def _progress(self) -> tuple[int, int, int]:
        page = memoryview(self.page).cast("Q")
        try:
            return page[BEGUN], page[BEGUN_NS], page[ENDED]
        finally:
            page.release()

    @property
    def is_open(self) -> bool:
        """Whether it may be given items."""
        return not (self.is_cut or self.has_ended or self.is_dismissed)

    def read_status(self) -> bool:
        """Whether it has ended; then how, as far as that is known."""
        try:
            data = os.read(self.status, 4)
        except BlockingIOError:
            return False
        self.has_ended = True
        self.exit_code = int.from_bytes(data, "little", signed=True) if len(data) == 4 else None
        return True

    def close(self) -> None:
        """Close our ends; an idle worker ends by itself then."""
        for end in (self.items, self.results, self.status):
            with suppress(OSError):
                os.close(end)
        self.page.close()

    def ending(self) -> str:
        """How it ended, in words."""
        if self.exit_code is None:
            return "its process is gone"
        if self.exit_code < 0:
            with suppress(ValueError):
                return f"its process was ended by {signal.Signals(-self.exit_code).name}"
            return f"its process was ended by signal {-self.exit_code}"
        return f"its process ended with status {self.exit_code}"


def _shared_file() -> int:
    """The descriptor of memory that two processes can map; /dev/shm is not needed."""
    try:
        return os.memfd_create("mmlake-worker")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def rebuilt_error(found: object) -> BaseException:
    """The machine's fault that a worker described, as the error of the same class where that is one of ours or Python's
    own; never unpickled."""
    import builtins

    from mmlake import errors

    said: dict[str, object] = found if isinstance(found, dict) else {}
    module, name, message = str(said.get("module")), str(said.get("name")), str(said.get("message"))
    error: BaseException
    known = getattr({"mmlake.errors": errors, "builtins": builtins}.get(module), name, None)
    if isinstance(said.get("errno"), int):
        names = said.get("filenames")
        files = [str(one) for one in names][:1] if isinstance(names, list) else []
        error = OSError(said["errno"], str(said.get("strerror")), *files)
    elif isinstance(known, type) and issubclass(known, BaseException):
        try:
            error = known(message)
        except TypeError:
            error = MmlakeError(f"{name}: {message}")
    else:
        error = MmlakeError(f"a worker process met {module}.{name}: {message}")
    error.add_note(f"In a worker process:\n{said.get('trace')}")
    return error
