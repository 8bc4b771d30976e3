"""Our own runner of the ffmpeg program that `imageio-ffmpeg` brings.

Enters: a graph of `ffmpeg-python`, which writes the arguments; its own `run` has neither a time limit nor limits of
memory. Leaves: the files that the graph names, or an UnreadableItem in our own words. The program reads nothing from
standard input, opens no other file or address than those named, and ends with its parent.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import platform
import select
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmlake.cuts import limited
from mmlake.cuts.settings import CutSettings
from mmlake.errors import MissingExtra, UnreadableItem

FAILED, TIMED_OUT, NO_MEMORY = 3303, 3102, 3103  # of the error catalogue
# The instructions that any x86-64 machine of the last fifteen years has. With AVX, AAC sound had other bytes than
# without, and x264's pictures had others with SSE 4.2 than with SSE2; neither limit costs what could be measured
# (docs/decisions/0026).
IS_X86 = platform.machine() in ("x86_64", "AMD64")
_SAME_EVERYWHERE = ("-cpuflags", "sse2") if IS_X86 else ()
_GLOBAL = (
    "-hide_banner",
    "-nostdin",
    "-nostats",
    "-loglevel",
    "error",
    "-filter_threads",
    "1",
    "-y",
    *_SAME_EVERYWHERE,
)
_SAID_BYTES = 4096  # of what the program says first, and last; a hostile film makes it say gigabytes
_MAX_FILE_BYTES = 64 << 30
_OUT_OF_CPU = -24  # SIGXCPU
_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def program() -> str:
    """The path of ffmpeg. Raises MissingExtra where the package has no program for this machine."""
    import imageio_ffmpeg

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise MissingExtra(
            "cutting films needs an ffmpeg program, and imageio-ffmpeg has none for this machine; install ffmpeg and "
            "set IMAGEIO_FFMPEG_EXE to its path"
        ) from error


@lru_cache(maxsize=1)
def program_digest() -> str:
    """The SHA-256 of the program: another one may cut other bytes."""
    with open(program(), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_ffmpeg(graph: Any, *, settings: CutSettings, what: str) -> None:
    """Let the program make the files of the graph. graph: an output of ffmpeg-python. what: the subject of the error,
    such as "the film".

    Raises UnreadableItem 3303 where the program gives up, 3102 where it takes too long, 3103 where it needs more memory
    than the settings allow, and OSError where the disk is full.
    """
    arguments = graph.compile(cmd=program())
    command = [sys.executable, "-I", "-S", limited.__file__, str(os.getpid()), str(settings.memory_bytes)]
    command += [str(int(settings.timeout_s) + 1), str(_MAX_FILE_BYTES), arguments[0], *_GLOBAL, *arguments[1:]]
    started = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": os.defpath, "LANG": "C"},
    ) as process:
        try:
            said = _words(process, deadline=started + settings.timeout_s)
            status = process.wait(max(0.1, started + settings.timeout_s - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            # without its cause, which would be taken for a fault of the machine
            raise UnreadableItem(TIMED_OUT, f"{what} took {settings.timeout_s:g} s to cut and was not done") from None
        finally:
            process.kill()
    if status:
        _log.debug("ffmpeg on %s: status %d: %s", what, status, said)
        _raise(status, said, settings=settings, what=what)


def _words(process: subprocess.Popen[bytes], *, deadline: float) -> str:
    """The beginning, which may name the cause, and the end of what the process says until it closes its standard error.
    Raises TimeoutError."""
    assert process.stderr is not None
    first, said, handle = b"", b"", process.stderr.fileno()
    while True:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(handle, _SAID_BYTES)
        if not part:
            return (first + said).decode("utf-8", "replace")
        taken = part[: _SAID_BYTES - len(first)]
        first += taken
        said = (said + part[len(taken) :])[-_SAID_BYTES:]


def _raise(status: int, said: str, *, settings: CutSettings, what: str) -> None:
    """Raises what the program's end means."""
    if os.strerror(errno.ENOSPC) in said:
        raise OSError(errno.ENOSPC, "no space is left for the clip")
    if status == _OUT_OF_CPU:
        raise UnreadableItem(TIMED_OUT, f"{what} took {settings.timeout_s:g} s of CPU to cut and was not done")
    # a thread that finds no room for its stack is refused as EAGAIN; x264 has words of its own
    if any(words in said for words in (os.strerror(errno.ENOMEM), os.strerror(errno.EAGAIN), "malloc of size")):
        raise UnreadableItem(NO_MEMORY, f"cutting {what} needs more than memory_bytes={settings.memory_bytes}")
    ending = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    raise UnreadableItem(FAILED, f"{what} cannot be cut: the program {ending}")


def as_file(path: Path) -> str:
    """The path as the program takes it: never as the address of a protocol."""
    return f"file:{path}"
