"""A pool of worker processes: the Runner that uses the whole machine and survives what foreign bytes do to decoders."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from mmlake.border import Failure, Runner
from mmlake.errors import MmlakeError, SettingsError
from mmlake.progress import Advance, silent
from mmlake.workers.calls import Meter, Task
from mmlake.workers.cores import usable_cores
from mmlake.workers.dispatch import Dispatcher

T = TypeVar("T")
R = TypeVar("R")

ITEM_TIMEOUT_S = 1800.0  # two hours of film in 1080p take 15 minutes of one core; a hang never ends
ITEM_MEMORY_BYTES = 4 << 30  # the largest picture that `preprocess.max_pixels` admits takes .5 GiB, with its copies 1.5
MIN_ITEM_MEMORY_BYTES = 64 << 20  # below it, importing a decoder fails


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolStats:
    """What a pool has used. Never part of a table's rows."""

    cpu_s: float  # processor seconds of all workers, by their own account: the system counts them as nobody's children
    num_started: int  # worker processes; those above `workers` replaced others


class WorkerPool:
    """Worker processes that are reused between items and calls, started when there is work and ended with the pool.

    An item that crashes its worker, takes longer than item_timeout_s or needs more than item_memory_bytes becomes a
    Failure (3101, 3102, 3103), and costs no other item. Any number of threads may call `map` at once.
    """

    def __init__(
        self,
        *,
        workers: int = 0,
        item_timeout_s: float = ITEM_TIMEOUT_S,
        item_memory_bytes: int = ITEM_MEMORY_BYTES,
    ) -> None:
        """workers: how many at most; 0 for as many as there are cores that this process may use."""
        if workers < 0 or item_timeout_s <= 0 or item_memory_bytes < MIN_ITEM_MEMORY_BYTES:
            raise SettingsError(
                f"compute: workers={workers}, item_timeout_s={item_timeout_s} and "
                f"item_memory_bytes={item_memory_bytes} must be at least 0, above 0, and at least "
                f"{MIN_ITEM_MEMORY_BYTES}; correct the settings"
            )
        self.workers = workers or usable_cores()
        self._limits: dict[str, Any] = {"item_timeout_s": item_timeout_s, "item_memory_bytes": item_memory_bytes}
        self._process = os.getpid()
        self._dispatcher: Dispatcher | None = None
        self._starting = threading.Lock()
        self._close: Callable[[], object] | None = None
        self._is_closed = False

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, whatever they do; they have ended when this returns."""
        self._is_closed = True
        if self._close is not None and os.getpid() == self._process:
            self._close()

    def map(
        self, kernel: Callable[[T], R], items: Iterable[T], *, code: int, what: str, advance: Advance = silent
    ) -> Iterator[R | Failure]:
        """See `mmlake.border.Runner.map`. The kernel and the items must be picklable, and the kernel importable."""
        return self._map(kernel, items, code=code, what=what, advance=advance, meter=Meter())

    def metered(self, meter: Meter) -> Runner:
        """This pool as a Runner that adds to the meter what its items take of the workers' time."""
        return _Metered(self, meter)

    def interrupt(self) -> None:
        """Let every `map` that is in flight raise MmlakeError; later ones are not concerned."""
        if self._dispatcher is not None:
            self._dispatcher.interrupt()

    def _map(
        self,
        kernel: Callable[[T], R],
        items: Iterable[T],
        *,
        code: int,
        what: str,
        advance: Advance,
        meter: Meter,
    ) -> Iterator[R | Failure]:
        module, payload = _pickled_kernel(kernel, code=code, what=what)
        dispatcher = self._started()
        call = dispatcher.begin(module=module, packages=frozenset({"mmlake", module.partition(".")[0]}), meter=meter)
        number = int.from_bytes(hashlib.sha256(payload).digest()[:8], "little")
        try:
            for index, item in enumerate(items):
                data = pickle.dumps(item, protocol=5)
                dispatcher.submit(Task(call, index, (number, payload), data))
                while call.is_full(dispatcher.num_workers):
                    yield dispatcher.take(call)
                    advance(1)
            while call.num_in_flight:
                yield dispatcher.take(call)
                advance(1)
        finally:
            dispatcher.end(call)

    def stats(self) -> PoolStats:
        """What has been used so far."""
        found = self._dispatcher
        return PoolStats(cpu_s=found.cpu_s() if found else 0.0, num_started=found.num_started if found else 0)

    def pids(self) -> list[int]:
        """Process ids of the workers that live now."""
        return self._dispatcher.pids() if self._dispatcher else []

    def _started(self) -> Dispatcher:
        if self._is_closed:
            raise MmlakeError("the pool of workers is closed; make a new one")
        if os.getpid() != self._process:
            raise MmlakeError("the pool of workers belongs to the process that this one was forked from; make another")
        with self._starting:
            if self._dispatcher is None:
                self._dispatcher = self._begun()
            return self._dispatcher

    def _begun(self) -> Dispatcher:
        found = Dispatcher(workers=self.workers, **self._limits)
        self._close = weakref.finalize(self, found.close)
        return found


class _Metered:
    """A pool, with one meter for all calls."""

    def __init__(self, pool: WorkerPool, meter: Meter) -> None:
        self._pool, self._meter, self.workers = pool, meter, pool.workers

    def map(
        self, kernel: Callable[[T], R], items: Iterable[T], *, code: int, what: str, advance: Advance = silent
    ) -> Iterator[R | Failure]:
        """See `mmlake.border.Runner.map`."""
        return self._pool._map(kernel, items, code=code, what=what, advance=advance, meter=self._meter)


def _pickled_kernel(kernel: Callable[..., Any], *, code: int, what: str) -> tuple[str, bytes]:
    """(module of the function, it and its arguments as bytes). Raises MmlakeError for what another process cannot
    import."""
    function: Any = kernel
    while isinstance(function, functools.partial):
        function = function.func
    module = str(function.__module__)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        # with where modules are found here, which may have changed since the fork server started: a plugin's folder
        payload = pickle.dumps((sys.path, pickle.dumps((kernel, code, what), protocol=5)), protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MmlakeError(
            f"kernel {module}.{name} cannot be sent to a worker process; make it a function at the top of a module, "
            "with picklable arguments"
        ) from error
    if module == "__main__":
        raise MmlakeError(
            f"kernel {name} stands in the program that was started, which a worker process does not import; move it "
            "into a module"
        )
    return module, payload
