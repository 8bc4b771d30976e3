"""Worker processes: where native code meets foreign bytes.

Enters: a kernel and items. Leaves: one result per item, in order, the same as in one process; a crash, a hang or a want
of memory is that item's `Failure` and nobody else's. What a kernel does is no business of this package.
"""

from __future__ import annotations

from mmlake.workers.calls import Meter
from mmlake.workers.cores import usable_cores
from mmlake.workers.pool import ITEM_MEMORY_BYTES, ITEM_TIMEOUT_S, MIN_ITEM_MEMORY_BYTES, PoolStats, WorkerPool

__all__ = [
    "ITEM_MEMORY_BYTES",
    "ITEM_TIMEOUT_S",
    "MIN_ITEM_MEMORY_BYTES",
    "Meter",
    "PoolStats",
    "WorkerPool",
    "usable_cores",
]
