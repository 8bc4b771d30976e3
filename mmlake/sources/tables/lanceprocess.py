"""A process that reads Lance for this one. Lance ends the process that it runs in over some damaged files, which
nothing can catch.

Enters: requests. Leaves: answers of `lancechild.py`, read one at a time. A process that did as it was asked, or said
that it could not, is kept for the next dataset for a while. None outlives this process: each ends when the pipe of its
requests is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from mmlake.errors import MissingExtra
from mmlake.optional import need
from mmlake.sources.tables.lancechild import ABSENT

_PROGRAM = Path(__file__).with_name("lancechild.py")
_IDLE_S = 20.0  # seconds; a process that nobody needed for so long is ended, with the 130 MB that it holds
_MAX_IDLE = 2  # processes; one per thread that reads
_STALL_S = 300.0  # seconds without a byte of an answer; it reads at most some hundred megabytes of the local disk
_EXIT_S = 5.0  # seconds; an abort takes milliseconds
_PIPE_BYTES = 1 << 20
_MAX_HEAD_BYTES = 64 << 20  # names of a fragment's files
# traces take longer than reading; other pools reserve 1 GiB, which counts as taken
_ENVIRONMENT = {"RUST_BACKTRACE": "0", "ARROW_DEFAULT_MEMORY_POOL": "system"}

_lock = threading.Lock()
_idle: list[tuple[LanceProcess, threading.Timer]] = []
_living: weakref.WeakSet[LanceProcess] = weakref.WeakSet()


class Ended(Exception):
    """The process is no more, and has not answered."""

    def __init__(self, *, may_pass: bool) -> None:
        super().__init__()
        # somebody else killed it, for want of memory or by hand, or it came from another dataset: a new one may answer
        self.may_pass = may_pass


class Answer(NamedTuple):
    """What a process answers."""

    head: dict[str, Any]
    data: bytearray  # an Arrow stream, or nothing

    @property
    def is_unreadable(self) -> bool:
        """Whether Lance says so."""
        return bool(self.head.get("is_unreadable"))


class LanceProcess:
    """A process that answers one request after another."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-W", "ignore", str(_PROGRAM)]
        # A group of its own: an interrupt at the terminal is for us, and a process that it ends would look like damage.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
            env={**os.environ, **_ENVIRONMENT},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._is_asked = False
        self._is_kept = False  # whether another reader had it, and this one has no answer yet
        with contextlib.suppress(AttributeError, OSError):  # Linux alone lets a pipe hold more
            fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        _living.add(self)

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

    def ask(self, request: dict[str, Any]) -> None:
        """Send a request. That nobody reads it any more is what `answer` says."""
        self._is_asked = True
        data = memoryview(json.dumps(request).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[self._requests.write(data) :]

    def answer(self, *, max_bytes: int) -> Answer:
        """The answer to the request. Raises Ended, also where it is larger than that or does not come."""
        head_bytes = int.from_bytes(self._read(4), "little")
        if head_bytes > _MAX_HEAD_BYTES:
            raise self._ended()
        head = json.loads(self._read(head_bytes))
        if head["size_bytes"] > max_bytes:
            raise self._ended()
        data = self._read(head["size_bytes"])
        self._is_asked = self._is_kept = False
        return Answer(head, data)

    def _read(self, size_bytes: int) -> bytearray:
        data = bytearray(size_bytes)
        view, waiting = memoryview(data), select.poll()
        waiting.register(self._answers, select.POLLIN)
        while view:
            if not waiting.poll(_STALL_S * 1000):
                raise self._ended()
            if not (num_bytes := self._answers.readinto(view)):  # type: ignore[attr-defined]
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_EXIT_S)
                raise self._ended()
            view = view[num_bytes:]
        return data

    def _ended(self) -> Ended:
        code = self._process.poll()
        self.end()
        if code == ABSENT:
            need("lance", extra="lance", purpose="reading a Lance dataset")
            raise MissingExtra(
                "reading a Lance dataset needs the library 'lance', which does not load in a process started as "
                f"{sys.executable}; run: pip install 'mmlake[lance]'"
            )
        return Ended(may_pass=self._is_kept or code == -signal.SIGKILL)

    def end(self) -> None:
        """End it, whatever it does, and wait until it has."""
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Let go of a process that belongs to the one that this was forked from."""
        self._process.returncode = 0
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()


def taken() -> LanceProcess:
    """A process for one reader: one that was kept, or a new one."""
    while True:
        with _lock:
            if not _idle:
                break
            process, timer = _idle.pop()
        timer.cancel()
        if process.is_ready:
            return process
        process.end()
    return LanceProcess()


def give_back(process: LanceProcess) -> None:
    """Keep the process for the next reader, or end it where it is busy or enough are kept."""
    if process.is_ready:
        process.keep()
        timer = threading.Timer(_IDLE_S, _end_idle, (process,))
        timer.daemon = True
        with _lock:
            if is_kept := len(_idle) < _MAX_IDLE:
                _idle.append((process, timer))
        if is_kept:
            timer.start()
            return
    process.end()


def _end_idle(process: LanceProcess) -> None:
    with _lock:
        is_idle = any(one is process for one, _ in _idle)
        _idle[:] = [(one, timer) for one, timer in _idle if one is not process]
    if is_idle:
        process.end()


def end_all() -> None:
    """End every process that is there, kept or at work."""
    with _lock:
        kept, _idle[:] = list(_idle), []
    for _, timer in kept:
        timer.cancel()
    for process in list(_living):
        process.end()


def _forget_all() -> None:
    """After a fork: they answer the parent alone, and end with it, not with us."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    for process in list(_living):
        process.forget()
    _living.clear()


atexit.register(end_all)
os.register_at_fork(after_in_child=_forget_all)
