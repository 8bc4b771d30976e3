"""The child processes that read columnar files for this one. Native code ends the process that it runs in over some
damaged files, which nothing can catch.

Enters: requests. Leaves: answers of `child.py`, read one at a time. A child that did as it was asked, or said that it
could not, is kept for the next file for a while. None outlives this process: each ends when its socket is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

import mmlake
from mmlake.errors import MissingExtra
from mmlake.formats.columnar.child import ABSENT
from mmlake.optional import need

# -I -S: nothing of the environment or of `site` is imported, which would take as long as pyarrow does
_FLAGS = ("-I", "-S", "-W", "ignore", "-c")
_PATHS = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
_PROGRAM = f"{_PATHS}; from mmlake.formats.columnar import child; child.main()"
_IDLE_S = 20.0  # seconds; a child that nobody needed for so long is ended, with the 60 to 130 MB that it holds
_MAX_IDLE = 2  # children; one per thread that reads
_DEADLINE_S = 120.0  # seconds of waiting for one answer; it reads at most some hundred megabytes
_EXIT_S = 5.0  # seconds; an abort takes milliseconds
_SOCKET_BYTES = 1 << 20
_LENGTH_BYTES = 8
_MAX_HEAD_BYTES = 64 << 20  # names of a fragment's files, numbers of rows
# traces take longer than reading; other pools reserve 1 GiB, which counts as taken
_ENVIRONMENT = {"RUST_BACKTRACE": "0", "ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}

Serve = Callable[[int, int], bytes | memoryview]  # (place, bytes) -> those bytes of the file, fewer at its end


class Ended(Exception):
    """The child is no more, and has not answered."""

    def __init__(self, *, may_pass: bool, is_late: bool = False) -> None:
        super().__init__()
        # somebody else killed it, for want of memory or by hand, or it came from another file: a new one may answer
        self.may_pass = may_pass
        self.is_late = is_late


class Answer(NamedTuple):
    """What a child answers."""

    head: dict[str, Any]
    data: pa.Buffer  # an Arrow stream, or nothing


class ChildProcess:
    """A child that answers one request after another."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        paths = [str(Path(mmlake.__file__).parents[1]), *(path for path in sys.path if path)]
        # A group of its own: an interrupt at the terminal is for us, and a child that it ends would pass for damage.
        with its:
            self._process = subprocess.Popen(
                [sys.executable, *_FLAGS, _PROGRAM, json.dumps(paths)],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
                env={**os.environ, **_ENVIRONMENT},
            )
        self._socket = ours
        for which in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                ours.setsockopt(socket.SOL_SOCKET, which, _SOCKET_BYTES)
        self._is_asked = False
        self._is_kept = False  # whether another reader had it, and this one has no answer yet

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it lives and owes no answer."""
        return not self._is_asked and self._process.poll() is None

    def keep(self) -> None:
        """Note that another reader is to have it."""
        self._is_kept = True

    def ask(self, request: dict[str, Any], descriptor: int | None = None) -> None:
        """Send a request, and a file with it. That nobody reads it any more is what `answer` says."""
        self._is_asked = True
        data = json.dumps(request).encode()
        data = len(data).to_bytes(_LENGTH_BYTES, "little") + data
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if descriptor is None:
                self._socket.sendall(data)
            else:  # no request that opens a file is larger than what the socket takes at once
                socket.send_fds(self._socket, [data], [descriptor])

    def answer(self, *, max_bytes: int, serve: Serve | None = None) -> Answer:
        """The answer to the request. serve: gives the child the ranges of the file that it asks for meanwhile; what it
        raises is raised, and ends the child. Raises Ended, also where the answer is larger than that or is late."""
        left_s = _DEADLINE_S
        while True:
            start_s = time.monotonic()
            head = self._head(left_s)
            left_s -= time.monotonic() - start_s
            if (asked := head.get("range")) is None:
                break
            if serve is None:
                raise self._ended()
            try:
                data = serve(*asked)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self._socket.settimeout(None)
                    self._socket.sendall(len(data).to_bytes(_LENGTH_BYTES, "little"))
                    self._socket.sendall(data)
            except BaseException:
                self.end()
                raise
        if head["size_bytes"] > max_bytes:
            raise self._ended()
        buffer = pa.allocate_buffer(head["size_bytes"])
        self._read(memoryview(buffer), left_s)
        self._is_asked = self._is_kept = False
        return Answer(head, buffer)

    def _head(self, left_s: float) -> dict[str, Any]:
        size_bytes = int.from_bytes(self._read(memoryview(bytearray(_LENGTH_BYTES)), left_s), "little")
        if size_bytes > _MAX_HEAD_BYTES:
            raise self._ended()
        return dict(json.loads(bytes(self._read(memoryview(bytearray(size_bytes)), left_s))))

    def _read(self, view: memoryview, left_s: float) -> memoryview:
        whole, end_s = view, time.monotonic() + left_s
        while view:
            self._socket.settimeout(max(0.001, end_s - time.monotonic()))
            try:
                num_bytes = self._socket.recv_into(view)
            except TimeoutError:
                raise self._ended(is_late=True) from None
            except ConnectionResetError:
                num_bytes = 0
            if not num_bytes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_EXIT_S)
                raise self._ended()
            view = view[num_bytes:]
        return whole

    def _ended(self, *, is_late: bool = False) -> Ended:
        code = self._process.poll()
        self.end()
        if code == ABSENT:
            need("lance", extra="lance", purpose="reading a Lance dataset")
            where = f"which does not load in a process started as {sys.executable}; run: pip install 'mmlake[lance]'"
            raise MissingExtra(f"reading a Lance dataset needs the library 'lance', {where}")
        return Ended(may_pass=self._is_kept or code == -signal.SIGKILL, is_late=is_late)

    def end(self) -> None:
        """End it, whatever it does, and wait until it has."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Let go of a child that belongs to the process that this one was forked from."""
        self._process.returncode = 0
        self._socket.close()


class Children:
    """The children of one process: those that are at work, and those that are kept for the next file.

    Whoever made it ends it with `close`; after a fork it is empty in the new process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[ChildProcess, float]] = []  # with the time until which each is kept
        self._timer: threading.Timer | None = None  # ends those that were kept for long enough; one, not one for each
        self._living: weakref.WeakSet[ChildProcess] = weakref.WeakSet()

    @property
    def living(self) -> list[ChildProcess]:
        """All that were started and not let go of."""
        return list(self._living)

    @property
    def idle(self) -> list[ChildProcess]:
        """Those that are kept."""
        return [child for child, _ in self._idle]

    def take(self) -> ChildProcess:
        """A child for one reader: one that was kept, or a new one."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                child, _ = self._idle.pop()
            if child.is_ready:
                return child
            child.end()
        child = ChildProcess()
        self._living.add(child)
        return child

    def give_back(self, child: ChildProcess) -> None:
        """Keep the child for the next reader, or end it where it is busy or enough are kept."""
        if child.is_ready:
            child.keep()
            with self._lock:
                if len(self._idle) < _MAX_IDLE:
                    self._idle.append((child, time.monotonic() + _IDLE_S))
                    self._arm()
                    return
        child.end()

    def _arm(self) -> None:
        """Start the timer where none runs and it is needed. Called with the lock."""
        if self._timer is None and self._idle:
            left_s = min(until_s for _, until_s in self._idle) - time.monotonic()
            self._timer = threading.Timer(max(0.0, left_s), self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            now_s = time.monotonic()
            late = [child for child, until_s in self._idle if until_s <= now_s]
            self._idle[:] = [(child, until_s) for child, until_s in self._idle if until_s > now_s]
            self._timer = None
            self._arm()
        for child in late:
            child.end()

    def close(self) -> None:
        """End every child that is there, kept or at work."""
        living = list(self._living)  # before the last reference to some of them goes
        with self._lock:
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for child in living:
            child.end()

    def forget(self) -> None:
        """After a fork: they answer the parent alone, and end with it, not with us."""
        self._lock, self._timer, living = threading.Lock(), None, list(self._living)
        self._idle.clear()
        for child in living:
            child.forget()
        self._living.clear()


CHILDREN: Final = Children()  # of this process; ended at its exit
atexit.register(CHILDREN.close)
os.register_at_fork(after_in_child=CHILDREN.forget)
