"""One `map` of a pool: what it has in flight, and the results that came before their turn."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any

_QUEUE_S = 0.05  # work that waits in a worker's pipe, so that it does not wait for us; more would be uneven at the end
_MAX_QUEUE = 64  # items in a pipe
_AHEAD_S = 2.0  # work per worker that a call may have in flight
_AHEAD_BYTES = 64 << 20  # items and results per worker that a call may have in flight
_SMOOTHING = 0.2  # share of the newest item in the running mean of seconds per item


@dataclass(slots=True)
class Meter:
    """Processor seconds that workers spent on the items of some calls."""

    cpu_s: float = 0.0


class Call:
    """One `map`: its results by index, and how much it holds in memory."""

    def __init__(self, *, module: str, packages: frozenset[str], meter: Meter) -> None:
        """module: of the kernel. packages: whose dataclasses and named tuples its results may have."""
        self.module, self.packages, self.meter = module, packages, meter
        # Something is put here when there may be a result. No condition: it is entered and left by functions of Python,
        # and an interrupt within them leaves the lock of the whole pool locked, or lets go of it twice.
        self.ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.results: dict[int, tuple[Any, int]] = {}
        self.next = 0
        self.num_in_flight = 0
        self.size_bytes = 0
        self.is_over = False
        self.is_interrupted = False
        self._item_s: float | None = None  # running mean; None until the first result

    @property
    def depth(self) -> int:
        """Items of this call that one worker may have at once: 1 of films, 64 of short texts."""
        return 1 if self._item_s is None else max(1, min(_MAX_QUEUE, int(_QUEUE_S / max(self._item_s, 1e-6)) + 1))

    def is_full(self, num_workers: int) -> bool:
        """Whether no more items may be taken before a result is."""
        if self.num_in_flight >= 2 * num_workers and self.size_bytes >= _AHEAD_BYTES * num_workers:
            return True
        ahead = 2 if self._item_s is None else max(2, min(2 * _MAX_QUEUE, int(_AHEAD_S / max(self._item_s, 1e-6))))
        return self.num_in_flight >= ahead * num_workers

    def learn(self, seconds: float) -> None:
        """Take note of how long an item took."""
        self._item_s = seconds if self._item_s is None else self._item_s + _SMOOTHING * (seconds - self._item_s)


@dataclass(slots=True, eq=False)
class Task:
    """One item of a call, on its way through a worker."""

    call: Call
    index: int  # in its call
    kernel: tuple[int, bytes]  # number and pickle
    data: bytes  # the item, pickled
    num_deaths: int = 0  # of workers that had it
    is_alone: bool = (
        False  # it failed in a worker that had done others: a new one, all its own, decides whose fault it is
    )


@dataclass(frozen=True, slots=True)
class Raised:
    """A result that is raised where it is taken."""

    error: BaseException
