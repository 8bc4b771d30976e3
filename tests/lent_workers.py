"""Worker processes that the lakes of all tests share: those of a lake of its own would import scipy and pandas and load
the compiled loops again, two seconds of work for a lake of a few items."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mmlake.compute import ComputeSettings
from mmlake.workers.dispatch import Dispatcher
from mmlake.workers.pool import WorkerPool

MAX_POOLS = 2  # of the limits that were asked for last: the usual ones, and those of one test
_own = ComputeSettings.pool
_Limits = tuple[int, float, int]


class Lender:
    """The pools, by their limits."""

    def __init__(self) -> None:
        self.is_off = False
        self._pools: dict[_Limits, WorkerPool] = {}
        self._lock = threading.Lock()
        self._path = [*sys.path]

    def pool(self, settings: ComputeSettings) -> WorkerPool:
        """A pool for one lake, which ends with the lake and leaves its workers to the next one. Of its own where
        modules may be found that no other test has."""
        if self.is_off or sys.path != self._path:
            return _own(settings)
        return _Lent(self, (settings.workers, settings.item_timeout_s, settings.item_memory_bytes))

    def shared(self, limits: _Limits) -> WorkerPool:
        """The pool that all lakes with these limits use."""
        with self._lock:
            pool = self._pools.pop(limits, None)
            if pool is None or not pool._started()._thread.is_alive():
                pool = _limited(*limits)
            self._pools[limits] = pool  # the last one
            while len(self._pools) > MAX_POOLS:
                self._pools.pop(next(iter(self._pools)))  # its workers end once no lake has them
            return pool

    def close(self) -> None:
        """End all workers."""
        for pool in self._pools.values():
            pool.close()


def _limited(workers: int, item_timeout_s: float, item_memory_bytes: int) -> WorkerPool:
    return WorkerPool(workers=workers, item_timeout_s=item_timeout_s, item_memory_bytes=item_memory_bytes)


class _Lent(WorkerPool):
    """The pool of one lake, whose workers are shared."""

    def __init__(self, lender: Lender, limits: _Limits) -> None:
        workers, item_timeout_s, item_memory_bytes = limits
        super().__init__(workers=workers, item_timeout_s=item_timeout_s, item_memory_bytes=item_memory_bytes)
        self._lender, self._limits_asked = lender, limits

    def _begun(self) -> Dispatcher:
        self._shared = self._lender.shared(self._limits_asked)  # held, so that it is not closed while it is in use
        return self._shared._started()


@contextmanager
def lent_workers() -> Iterator[Lender]:
    """Until the end, the lakes of this process share their workers."""
    lender = Lender()
    ComputeSettings.pool = lambda settings: lender.pool(settings)  # type: ignore[method-assign]
    try:
        yield lender
    finally:
        ComputeSettings.pool = _own  # type: ignore[method-assign]
        lender.close()
