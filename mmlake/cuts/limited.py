"""The program that becomes ffmpeg: it sets limits that hold from ffmpeg's first instruction on.

    python -I -S limited.py PARENT MEMORY_BYTES CPU_S FILE_BYTES PROGRAM ARGUMENTS...

A process of its own does it, since a process that has threads must not run Python between fork and exec. It imports
nothing of this library: it starts in 10 ms.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_MAX_FILES = 64  # the film, the clip, and what the program opens for itself


def limit(parent: int, memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Limit this process and what it becomes, which ends when that parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os._exit(1)
    for kind, wanted in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, _MAX_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (bound, bound))


if __name__ == "__main__":
    limit(*(int(number) for number in sys.argv[1:5]))
    os.execv(sys.argv[5], sys.argv[5:])
