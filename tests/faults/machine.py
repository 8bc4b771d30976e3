"""A machine that fails when a test wants it: jobs run in processes of their own, whose system calls `shim.c` counts,
lets fail, ends, or records."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("write", "read", "open", "lock")  # as in shim.c
MODES = ("count", "fail once", "fail on", "kill")


class Control(ctypes.Structure):
    """`struct control` of shim.c, in memory that the job shares."""

    _fields_ = (
        ("counts", ctypes.c_uint64 * len(KINDS)),
        ("at", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("code", ctypes.c_uint32),
        ("trace", ctypes.c_uint32),
        ("hits", ctypes.c_uint64),
        ("ahead_s", ctypes.c_int64),
        ("root", ctypes.c_char * 1024),
        ("record", ctypes.c_char * 1024),
    )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What fails: the call of that number, counted from 1, and where it is to last every later one."""

    kind: str
    at: int
    code: int = 0
    mode: str = "fail once"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a job."""

    counts: dict[str, int]  # calls by kind
    hits: int  # calls that failed
    signal: int  # that ended it; 0 where it ended by itself
    error: str = ""  # the class of what it raised
    message: str = ""
    value: Any = None  # what it returned

    @property
    def is_done(self) -> bool:
        """Whether the job came to its end and returned."""
        return not self.signal and not self.error


class Machine:
    """Runs jobs (functions of `tests.faults.jobs`, by name) one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        library = directory / "shim.so"
        source = Path(__file__).with_name("shim.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl", "-lpthread"], check=True)
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.faults.jobs"],
            env=os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the server of jobs."""
        with self._server:
            self._server.stdin.close()

    def do(
        self,
        job: str,
        *given: Any,
        root: Path,
        fault: Fault | None = None,
        record: Path | None = None,
        ahead_s: int = 0,
    ) -> Outcome:
        """What became of the job. root: the directory below which calls count. record: where the calls are written.
        ahead_s: how far its clock is before the machine's."""
        with tempfile.NamedTemporaryFile(dir=self._directory) as file:
            file.truncate(ctypes.sizeof(Control))
            shared = mmap.mmap(file.fileno(), ctypes.sizeof(Control))
            control = Control.from_buffer(shared)
            control.root, control.ahead_s = os.fsencode(root.resolve()), ahead_s
            if record is not None:
                control.trace, control.record = 1, os.fsencode(record)
            if fault is not None:
                control.at, control.code = fault.at, fault.code
                control.kind, control.mode = KINDS.index(fault.kind), MODES.index(fault.mode)
            asked = {"job": job, "given": [str(one) if isinstance(one, Path) else one for one in given]}
            self._server.stdin.write(json.dumps(asked | {"control": file.name}) + "\n")
            self._server.stdin.flush()
            answer = json.loads(self._server.stdout.readline())
            return Outcome(counts=dict(zip(KINDS, control.counts, strict=True)), hits=control.hits, **answer)


@contextmanager
def started(directory: Path) -> Iterator[Machine]:
    """A machine, ended with the context. Skips the test where there is no compiler for its shim."""
    if not shutil.which("gcc") or not sys.platform.startswith("linux"):
        pytest.skip("the shim below the system calls needs Linux and gcc")
    machine = Machine(directory)
    try:
        yield machine
    finally:
        machine.close()


def tried() -> int:
    """How many faults of a kind are tried: a sample, or as many as MMLAKE_FAULTS says (every call where it makes no
    more)."""
    return int(os.environ.get("MMLAKE_FAULTS", "0"))
