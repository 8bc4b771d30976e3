"""A program that ends when its caller does, and whose children end when it does, also where one of the two is killed
outright.

The kernel signals to the program that its caller has ended (PR_SET_PDEATHSIG), and gives the caller what a program
leaves that was killed (PR_SET_CHILD_SUBREAPER). Both are Linux's; elsewhere the caller becomes the program, and a kill
-9 leaves the program's children.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # of linux/prctl.h
_FROM_TERMINAL = 0x80  # SI_KERNEL: such as Ctrl-C, which the whole process group has
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_WATCHED = _PASSED_ON | {signal.SIGCHLD}
_PATIENCE_S = 10.0  # for what a program leaves to end once it is signalled
_UNASKED_S = 3.0  # for it to end by itself: what was asked to has begun to by then
_POLL_S = 0.05


def become(command: Sequence[str], environment: Mapping[str, str], *, held: int) -> int:
    """The exit code of the program, once it has ended; signals to this process are passed on to it. Does not return
    where this process becomes the program.

    held: a descriptor, such as that of a lock, that stays open as long as either process runs.
    """
    if sys.platform != "linux":
        os.execve(command[0], command, environment)
    libc = ctypes.CDLL(None)
    libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    program = subprocess.Popen(
        command, env=environment, pass_fds=[held], preexec_fn=partial(_follow, libc, os.getpid(), before)
    )
    while (code := program.poll()) is None:
        received = signal.sigwaitinfo(_WATCHED)
        if received.si_signo == signal.SIGCHLD:
            _reap(program.pid)
        elif received.si_code != _FROM_TERMINAL:
            with suppress(ProcessLookupError):
                os.kill(program.pid, received.si_signo)
    _end_orphans(was_killed=code < 0)
    return 128 - code if code < 0 else code


def _follow(libc: ctypes.CDLL, parent: int, mask: set[int | signal.Signals]) -> None:
    """In the new process: end with its parent."""
    libc.prctl(_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _children() -> set[int]:
    """The processes whose parent is this one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def _reap(spared: int) -> None:
    """Let go of children that have ended, except for one."""
    for child in _children() - {spared}:
        with suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def _end_orphans(*, was_killed: bool) -> None:
    """End what the program has left, and what that leaves: the code servers of Dagster, which are asked to end and not
    waited for, outlived it by seconds. Only a killed program did not ask them."""
    for number in (signal.SIGTERM, signal.SIGKILL) if was_killed else (0, signal.SIGTERM, signal.SIGKILL):
        signalled: set[int] = set()
        until_s = time.monotonic() + (_PATIENCE_S if number else min(_UNASKED_S, _PATIENCE_S))
        while (orphans := _children()) and time.monotonic() < until_s:
            for orphan in orphans - signalled:
                with suppress(ProcessLookupError):
                    os.kill(orphan, number)
            signalled |= orphans
            time.sleep(_POLL_S)
            _reap(0)
