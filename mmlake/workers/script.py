"""Scripts in processes of another Python: a library whose needs conflict with ours, or that leaks, or that crashes.

Enters: requests with their sound, one after another. Leaves: one answer per request, in order, as soon as it is there,
so that whatever becomes of the process costs no answer that was given before. A process is ended when it holds too much
memory, when an item takes too long, and when it has had its batch of sound; it never outlives us.

What a script does wrong over an item is that item's `Failure`. A process that was ended over an item after it had done
others had their leaks as well: the item is tried once more, in a new one. Nothing is pickled.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmlake.border import Failure
from mmlake.errors import MmlakeError
from mmlake.workers import script_child
from mmlake.workers.script_child import HEAD

CRASHED, LATE, NO_MEMORY = 3101, 3102, 3103  # codes of the error catalogue
_LOG = logging.getLogger(__name__)
_WATCH_S = 0.05  # seconds between two readings of the memory of a process
_CHUNK_BYTES = 1 << 20
_MAX_SAID_BYTES = 64 << 20  # of JSON in one answer
_EXIT_S = 5.0
# threads of all processes together would be more than the cores
_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """A script and the Python that runs it."""

    what: str  # names it in errors: "diarizer 'pyannote'"
    python: Path
    path: Path  # has a function `load(config)`; see script_child
    config: Mapping[str, Any] = field(default_factory=dict)
    paths: tuple[str, ...] = ()  # added to where that Python imports from


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one process may take."""

    memory_bytes: int = 8 << 30
    # beyond what it holds when it is ready; pyannote takes 2 GB for an hour of sound
    start_s: float = 600.0
    # until it is ready: weights are read from a slow disk
    item_s: float = 120.0
    # for one item, whatever its length
    item_s_per_s: float = 4.0
    # for each second of sound on top: a large recognizer on one core needs about 2
    batch_s: float = 7_200.0
    # of sound that a process is given before another takes its place; a longer item has one alone


class Request(NamedTuple):
    """One item."""

    said: dict[str, Any]
    samples: np.ndarray  # float32
    duration_s: float


class Answer(NamedTuple):
    """What the script made of an item."""

    said: dict[str, Any]
    data: np.ndarray  # float32, flat


class _Ended(Exception):
    """The process is no more, or had to be ended."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def run_script(
    script: Script, requests: Iterable[Request], *, limits: Limits | None = None
) -> Iterator[Answer | Failure]:
    """One answer per request, in order; each is given before the next request is taken.

    Raises MmlakeError where the script does not start, which concerns all items alike.
    """
    limits = limits or Limits()
    process: _Process | None = None
    try:
        for request in requests:
            if process is not None and process.done_s + request.duration_s > limits.batch_s:
                process.end()
                process = None
            process = process or _Process(script, limits)
            answer = process.answer(request)
            if isinstance(answer, _Ended) and process.num_done:
                _LOG.warning("%s: %s; the item is tried again in a new process", script.what, answer.reason)
                process.end()
                process = _Process(script, limits)
                answer = process.answer(request)
            if isinstance(answer, _Ended):
                process.end()
                process = None
                yield Failure(answer.code, f"{script.what}: {answer.reason}")
            else:
                yield answer
    finally:
        if process is not None:
            process.end()


class _Process:
    """A process that is ready for items."""

    def __init__(self, script: Script, limits: Limits) -> None:
        self._script, self._limits = script, limits
        self.num_done, self.done_s = 0, 0.0
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115  # what libraries print; closed in `end`
        self._base_bytes = 0
        try:
            # A group of its own: an interrupt at the terminal is for us, and what the script starts ends with it.
            self._process = subprocess.Popen(
                [str(script.python), "-I", script_child.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._noise,
                process_group=0,
                env={**os.environ, **_ENVIRONMENT},
            )
        except OSError as error:
            self._noise.close()
            raise MmlakeError(f"{script.what}: {script.python} does not start ({error.strerror})") from error
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        script = self._script
        setup = {
            "script": str(script.path),
            "paths": list(script.paths),
            "config": dict(script.config),
            "memory_bytes": self._limits.memory_bytes,
            "parent": os.getpid(),
        }
        try:
            said, _ = self._exchange(setup, b"", limit_s=self._limits.start_s)
        except _Ended as error:
            raise MmlakeError(f"{script.what} does not start: {error.reason}{self._last_words()}") from error
        if said.get("status") != "ready":
            raise MmlakeError(
                f"{script.what} does not start in {script.python}: {said.get('error')}: {said.get('message')}"
            )
        self._base_bytes = self._held_bytes()

    def answer(self, request: Request) -> Answer | Failure | _Ended:
        """What the script makes of it."""
        limit_s = self._limits.item_s + self._limits.item_s_per_s * request.duration_s
        samples = np.ascontiguousarray(request.samples, "<f4").data.cast("B")
        try:
            said, data = self._exchange(request.said, samples, limit_s=limit_s)
        except _Ended as error:
            return error
        match said.get("status"):
            case "ok" if isinstance(said.get("answer"), dict) and len(data) % 4 == 0:
                self.num_done += 1
                self.done_s += request.duration_s
                return Answer(said["answer"], np.frombuffer(data, "<f4"))
            case "memory":
                return _Ended(NO_MEMORY, f"it needs more than {self._limits.memory_bytes / 1e9:.1f} GB")
            case "failed":
                _LOG.debug("%s: %s: %s", self._script.what, said.get("error"), said.get("message"))
                self.done_s += request.duration_s
                return Failure(CRASHED, f"{self._script.what} raised {said.get('error')} over it")
        return _Ended(CRASHED, "its process sent what is no answer")

    def _exchange(
        self, said: Mapping[str, Any], data: bytes | memoryview, *, limit_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """The answer to a frame, JSON and bytes. Raises _Ended."""
        line = json.dumps(said).encode()
        outbox = [memoryview(HEAD.pack(len(line), len(data)) + line), memoryview(data)]
        inbox, end_s = bytearray(), time.monotonic() + limit_s
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            ready.register(stdin, selectors.EVENT_WRITE)
            while (answer := _parsed(inbox, max_bytes=self._limits.memory_bytes)) is None:
                self._inspect(end_s - time.monotonic(), limit_s)
                for key, _ in ready.select(_WATCH_S):
                    if key.fileobj is stdout:
                        part = os.read(stdout.fileno(), _CHUNK_BYTES)
                        if not part:
                            raise self._gone()
                        inbox += part
                    elif not _written(stdin.fileno(), outbox):
                        ready.unregister(stdin)
        return answer

    def _inspect(self, left_s: float, limit_s: float) -> None:
        """Raises _Ended where the process has had its time or its memory."""
        if left_s <= 0:
            raise _Ended(LATE, f"seconds={limit_s:.0f} were not enough")
        held = self._held_bytes() - self._base_bytes
        if self._base_bytes and held > self._limits.memory_bytes:
            raise _Ended(
                NO_MEMORY, f"its process held {held / 1e9:.2f} GB, more than {self._limits.memory_bytes / 1e9:.2f}"
            )

    def _held_bytes(self) -> int:
        """Memory of the process that is its own; 0 where the system does not say."""
        with suppress(OSError, IndexError, ValueError):
            resident, shared = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1:3]
            return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
        return 0

    def _gone(self) -> _Ended:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_S)
        code = self._process.poll()
        if code == -signal.SIGKILL:
            return _Ended(NO_MEMORY, "its process was killed, as a system does that runs out of memory")
        return _Ended(CRASHED, f"its process ended with {'signal' if (code or 0) < 0 else 'status'} {abs(code or 0)}")

    def _last_words(self) -> str:
        """The last line that the process printed, which a person needs where an environment is broken."""
        self._noise.seek(0)
        lines = self._noise.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""

    def end(self) -> None:
        """End it and what it has started, and wait until it has."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._noise.close()


def _written(descriptor: int, outbox: list[memoryview]) -> bool:
    """Whether anything is left after writing what fits."""
    while outbox:
        try:
            count = os.write(descriptor, outbox[0][:_CHUNK_BYTES])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # it has ended: its answers say so
        outbox[0] = outbox[0][count:]
        if not outbox[0]:
            del outbox[0]
    return False


def _parsed(inbox: bytearray, *, max_bytes: int) -> tuple[dict[str, Any], bytes] | None:
    """The answer, or None where not all of it is there. Raises _Ended where it is none."""
    if len(inbox) < HEAD.size:
        return None
    json_bytes, data_bytes = HEAD.unpack_from(inbox)
    if json_bytes > _MAX_SAID_BYTES or data_bytes > max_bytes:
        raise _Ended(CRASHED, "its process sent what is no answer")
    if len(inbox) < HEAD.size + json_bytes + data_bytes:
        return None
    try:
        said = json.loads(inbox[HEAD.size : HEAD.size + json_bytes])
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise _Ended(CRASHED, "its process sent what is no answer")
    return said, bytes(inbox[HEAD.size + json_bytes :])
