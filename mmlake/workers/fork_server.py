"""A process with one thread that forks workers, so that no process with threads ever forks.

Enters: requests on a socket: start a worker with these four files, kill that one. Leaves: process ids, and on each
worker's status pipe how it ended. It imports what kernels need before the first fork, so that a worker starts in
milliseconds and shares that memory; it opens no foreign bytes itself. It ends when the process that started it does.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from mmlake.memory_limits import limit_memory
from mmlake.optional import kept_imports
from mmlake.workers.worker import FAILED, NO_MEMORY, work

# what decoders need; a worker that imports them itself takes 0.3 s and 60 MB more
_PRELOADED = ("numpy", "cv2", "av", "PIL.Image", "simplejpeg")
_OWN_PACKAGE = "mmlake"  # whose modules may be imported before forking: they start no threads
_OOM_SCORE = 500  # of 1000: where the machine runs out of memory, a worker goes before its parent
_PR_SET_PDEATHSIG = 1
_MAX_REQUEST_BYTES = 1 << 16


def serve(descriptor: int, parent: int) -> None:
    """Answer requests until the socket is closed or that parent has ended; no worker outlives this.

    Called as the whole program of a fresh process, by `mmlake.workers.fork_client`.
    """
    server = _ForkServer(socket.socket(fileno=descriptor))
    try:
        server.run(parent)
    finally:
        server.kill_all()


class _ForkServer:
    """The socket, and the workers that live."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._statuses: dict[int, int] = {}  # process id -> where to write how it ended
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which ends us
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._prctl = _prctl()

    def run(self, parent: int) -> None:
        """Requests and ended workers, until nobody is left to ask."""
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        waiting.register(self._wake_read, select.POLLIN)
        with suppress(OSError, AttributeError):  # a process forked off the parent may hold the socket open
            waiting.register(os.pidfd_open(parent), select.POLLIN)
        if os.getppid() != parent:
            return
        with kept_imports():
            for name in _PRELOADED:
                with suppress(ImportError):
                    importlib.import_module(name)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._wake_read in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                self._reap()
                ready.discard(self._wake_read)
            if self._control.fileno() in ready:
                if not self._answer():
                    return
            elif ready:
                return  # the parent has ended

    def _answer(self) -> bool:
        """Do what the next request asks; False where there is none any more."""
        try:
            data, files, _, _ = socket.recv_fds(self._control, _MAX_REQUEST_BYTES, 4)
        except ConnectionError:
            return False
        if not data:
            return False
        request = json.loads(data)
        answer: dict[str, object] = {}
        if "kill" in request:
            self._reap()  # a process id is ours until it is waited for
            if request["kill"] in self._statuses:
                _kill_group(request["kill"])
        else:
            try:
                answer["pid"] = self._start(files, request["module"], request["memory_bytes"])
            except OSError as error:
                answer["errno"] = error.errno
        answer["cpu_s"] = time.process_time()
        with suppress(ConnectionError):
            self._control.send(json.dumps(answer).encode())
        return True

    def _start(self, files: list[int], module: str, memory_bytes: int) -> int:
        """The process id of a new worker. files: its items, its results, its page of progress, its status."""
        items, results, page, status = files
        with kept_imports():  # pages that are shared stay so
            if module.partition(".")[0] == _OWN_PACKAGE:
                with suppress(Exception):  # the worker meets it again, and says so
                    importlib.import_module(module)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:
                for file in (items, results, page) if pid > 0 else files:
                    os.close(file)
        if not pid:
            self._become_worker(items, results, page, [status, *self._statuses.values()], memory_bytes)
        self._statuses[pid] = status
        return pid

    def _become_worker(self, items: int, results: int, page: int, others: list[int], memory_bytes: int) -> NoReturn:
        """Never returns: what follows the fork, in the new process."""
        code = FAILED
        try:
            os.setpgid(0, 0)  # so that what a decoder starts ends with it
            if self._prctl is not None:
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for file in (*others, self._wake_read, self._wake_write):
                os.close(file)
            with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write(str(_OOM_SCORE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            limit_memory(memory_bytes, is_final=True)  # a decoder that asks for more gets none
            work(items, results, page)
            code = 0
        except BrokenPipeError:
            pass  # nobody reads any more
        except MemoryError:
            code = NO_MEMORY
        except BaseException:  # noqa: BLE001  # the last thing that this process can do is to say why
            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Wait for every worker that has ended, and say how on its status pipe."""
        while self._statuses:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            file = self._statuses.pop(pid)
            with suppress(OSError):
                os.write(file, os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
            os.close(file)

    def kill_all(self) -> None:
        """End every worker."""
        for pid in self._statuses:
            _kill_group(pid)


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group is there once the worker has run
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _prctl() -> ctypes._CFuncPtr | None:  # type: ignore[name-defined]
    return getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
