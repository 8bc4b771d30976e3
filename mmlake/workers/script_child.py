"""The program that runs a script in a Python of its own, for a process that does not trust it with its memory.

Enters on standard input: frames, JSON with raw float32 behind it. Leaves on standard output: a frame for each. It needs
nothing but the standard library, since the Python that it runs in has no mmlake: `mmlake.workers.script` starts it.

A script is a file with a function `load(config)` that returns a function from (request, samples) to (answer, bytes of
float32). samples is a memoryview of float32; `numpy.frombuffer` takes it without a copy.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import runpy
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

HEAD = struct.Struct("<IQ")  # bytes of the JSON, bytes of float32 behind it
Answer = Callable[[dict[str, Any], "memoryview[float]"], "tuple[dict[str, Any], bytes]"]
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer requests until there are no more. The first frame names the script, its paths, its config and how much
    memory it may take."""
    requests, answers = _pipes()
    first = _received(requests)
    if first is None:
        return
    setup = first[0]
    _end_with(setup["parent"])
    try:
        sys.path.extend(setup["paths"])
        answer: Answer = runpy.run_path(setup["script"])["load"](setup["config"])
        _limit_memory(setup["memory_bytes"])
        _send(answers, {"status": "ready"})
    # what a script raises is reported to the parent, which makes its own error of it
    except BaseException as error:  # noqa: BLE001
        _send(answers, _described(error))
        return
    while (frame := _received(requests)) is not None:
        try:
            found, data = answer(*frame)
            _send(answers, {"status": "ok", "answer": found}, data)
        except BaseException as error:  # noqa: BLE001
            _send(answers, _described(error))
        del frame
        gc.collect()


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two ends that the parent holds the others of. Whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return requests, answers


def _received(requests: BinaryIO) -> tuple[dict[str, Any], memoryview[float]] | None:
    """The next frame; None where the parent has closed the pipe."""
    head = requests.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    json_bytes, data_bytes = HEAD.unpack(head)
    said = requests.read(json_bytes)
    data = bytearray(data_bytes)
    view, at = memoryview(data), 0
    while at < data_bytes:
        count = requests.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            return None
        at += count
    return json.loads(said), view.cast("f")


def _send(answers: BinaryIO, said: dict[str, Any], data: bytes = b"") -> None:
    line = json.dumps(said).encode()
    answers.write(HEAD.pack(len(line), len(data)))
    answers.write(line)
    answers.write(data)
    answers.flush()


def _described(error: BaseException) -> dict[str, Any]:
    status = "memory" if isinstance(error, MemoryError) else "failed"
    return {"status": status, "error": type(error).__name__, "message": str(error)[:500]}


def _end_with(parent: int) -> None:
    """Let the kernel end this process when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which ends us
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory(memory_bytes: int) -> None:
    """Let this process take so much more than it has now. The parent watches as well: this is for what grows faster
    than the parent reads."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:
        base_bytes = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = base_bytes + memory_bytes
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main()
