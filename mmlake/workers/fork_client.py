"""The fork server of this process: started at the first worker, ended with the process.

One serves all pools, since it holds no more than imported modules, and a lake that is opened for one small run must not
wait for them again.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mmlake.errors import MmlakeError

_PROGRAM = """
import sys
sys.path[:] = {path!r}
from mmlake.workers.fork_server import serve
serve({descriptor}, {parent})
"""
# One thread per library: workers are as many as cores. Arrow's allocator would start a thread before the fork.
_ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_EXIT_S = 5.0  # seconds for a process that has nothing left to do


class ForkServer:
    """A connection to a process that forks workers; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = os.getpid()
        self.is_closed = False
        self.cpu_s = 0.0  # processor seconds that it has used, its workers apart

    def start(self, files: Sequence[int], *, module: str, memory_bytes: int) -> int:
        """The process id of a new worker. Raises OSError where the system gives none.

        files: its items (to read), its results (to write), its page of progress, and where its end is noted.
        module: imported before the fork where it is one of ours.
        """
        answer = self._ask({"module": module, "memory_bytes": memory_bytes}, files)
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), "a worker process")
        return int(answer["pid"])

    def kill(self, pid: int) -> None:
        """End that worker, whatever it does; nothing where it has ended."""
        with suppress(OSError, MmlakeError):
            self._ask({"kill": pid}, (), is_repeated=False)

    def close(self) -> None:
        """End the server and with it every worker; none starts afterwards."""
        if os.getpid() == self._owner:
            with self._lock:
                self.is_closed = True
                self._end()

    def _ask(self, request: dict[str, Any], files: Sequence[int], *, is_repeated: bool = True) -> dict[str, Any]:
        with self._lock:
            for _ in range(2 if is_repeated else 1):  # one that was killed since is replaced
                if self.is_closed:
                    break
                if self._control is None:
                    self._begin()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [json.dumps(request).encode()], list(files))
                    if data := self._control.recv(1 << 16):
                        answer: dict[str, Any] = json.loads(data)
                        self.cpu_s = float(answer["cpu_s"])
                        return answer
                except ConnectionError:
                    pass
                self._end()
        raise OSError(errno.EAGAIN, "no process starts that could fork workers", sys.executable)

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = _PROGRAM.format(
            path=[os.path.abspath(entry) for entry in sys.path], descriptor=theirs.fileno(), parent=os.getpid()
        )
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,  # an interrupt at the terminal is for us alone
                    env={**os.environ, **_ENVIRONMENT},
                )
            except BaseException:
                ours.close()
                raise
        self._control = ours

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_EXIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None


_servers: dict[int, ForkServer] = {}  # by process: one that was forked off has none yet
_lock = threading.Lock()


def fork_server() -> ForkServer:
    """The one of this process, which ends with it."""
    with _lock:
        found = _servers.get(os.getpid())
        if found is None or found.is_closed:
            _servers.clear()
            _servers[os.getpid()] = found = ForkServer()
            atexit.register(found.close)
        return found
