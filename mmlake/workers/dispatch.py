"""The thread that gives items to worker processes and takes their results, for all calls of a pool at once.

Everything about processes happens in this thread; callers append to the queue and wait for their next result. Pipes
are read and written as they can be, never waited for, so that large items and large results do not block each other.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from mmlake.border import Failure
from mmlake.errors import MmlakeError
from mmlake.workers import wire
from mmlake.workers.calls import Call, Meter, Raised, Task
from mmlake.workers.fork_client import fork_server
from mmlake.workers.process import DamagedStream, Frame, WorkerProcess, rebuilt_error
from mmlake.workers.worker import FAULT, LOG, NO_MEMORY, OUT_OF_MEMORY, VALUE

_log = logging.getLogger(__name__)
_MAX_QUEUE_BYTES = 1 << 20  # of items in a pipe behind the first, which may be of any size
_IDLE_S = 60.0  # an idle worker is ended after that time
_MAX_DEATHS = 3  # workers that an item may see end without being in hand before it is held to be the cause
_DRAIN_S = 5.0  # an ended process is waited for so long


class _PoolThread(threading.Thread):
    """The thread of a pool. A pool that is garbage may be closed in that of another one while this one asks the fork
    server, which both need: to wait for its end would be to wait without end."""


class Dispatcher:
    """The workers of a pool, the queue before them, and the thread between."""

    def __init__(self, *, workers: int, item_timeout_s: float, item_memory_bytes: int) -> None:
        self.num_workers, self._timeout_s, self._memory_bytes = workers, item_timeout_s, item_memory_bytes
        self.lock = threading.RLock()  # a pool may be collected, and so closed, in any thread at any place
        self._queue: deque[Task] = deque()
        self._workers: list[WorkerProcess] = []
        self._error: BaseException | None = None
        self._is_closing = False
        self._is_woken = False
        self._ended_cpu_s = 0.0
        self.num_started = 0
        self._calls: set[Call] = set()
        self._server = fork_server()
        self._owner = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread = _PoolThread(target=self._run, name="mmlake-workers", daemon=True)
        self._thread.start()

    # called by the threads of callers

    def begin(self, *, module: str, packages: frozenset[str], meter: Meter) -> Call:
        """A new call; see Call."""
        call = Call(module=module, packages=packages, meter=meter)
        with self.lock:
            self._calls.add(call)
        return call

    def interrupt(self) -> None:
        """Let every call that is in flight raise where its next result is waited for."""
        with self.lock:
            for call in self._calls:
                call.is_interrupted = True
                call.ready.put(None)

    def submit(self, task: Task) -> None:
        """Put an item at the end of the queue."""
        with self.lock:
            task.call.num_in_flight += 1
            task.call.size_bytes += len(task.data)
            self._queue.append(task)
            is_asleep = not self._is_woken
            self._is_woken = True
        if is_asleep:
            self._wake()

    def take(self, call: Call) -> Any:
        """The next result of the call; waits for it. Raises what the machine did wrong."""
        while (found := self._next(call)) is None:
            call.ready.get()
        result, _ = found
        if isinstance(result, Raised):
            raise result.error
        return result

    def _next(self, call: Call) -> tuple[Any, int] | None:
        """The next result and its bytes, taken from the call; None where it has not come. Raises as `take` does."""
        with self.lock:
            if call.is_interrupted:
                raise MmlakeError("the work was interrupted before this item was done; run it again")
            if call.next not in call.results:
                if self._error is not None:
                    raise self._error
                if self._is_closing:
                    raise MmlakeError("the pool of workers was closed while items were in it; make a new one")
                return None
            found = call.results.pop(call.next)
            call.next += 1
            call.num_in_flight -= 1
            call.size_bytes -= found[1]
            return found

    def end(self, call: Call) -> None:
        """Forget what is left of the call; workers that are busy with nothing else are ended."""
        with self.lock:
            call.is_over = True
            self._calls.discard(call)
            is_left = call.num_in_flight > 0
            if is_left:
                self._queue = deque(task for task in self._queue if task.call is not call)
                self._is_woken = True
        if is_left:
            self._wake()

    def cpu_s(self) -> float:
        """Processor seconds of all workers so far, by their own account."""
        return self._ended_cpu_s + sum(worker.cpu_s for worker in list(self._workers))

    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        return [worker.pid for worker in list(self._workers)]

    def close(self) -> None:
        """End all workers, and wait until they have, unless the thread of another pool ends them."""
        if os.getpid() != self._owner:
            return  # a process that was forked off: they are not ours
        with self.lock:
            self._is_closing = True
        self._wake()
        if not isinstance(threading.current_thread(), _PoolThread):
            self._thread.join()

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"\0")

    # the thread's own

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._step()
        except BaseException as error:  # noqa: BLE001  # it is raised again where the results are waited for
            with self.lock:
                self._error = error
        finally:
            self._end_all()
            with self.lock:
                self._is_closing = True
                for call in self._calls:
                    call.ready.put(None)

    def _step(self) -> None:
        with self.lock:
            self._is_woken = False
            self._drop_cancelled()
            self._assign()
        for worker in self._workers:
            self._flush(worker)
        for key, mask in self._selector.select(self._patience()):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                continue
            worker, is_status = key.data
            if is_status:
                if worker.read_status():
                    self._selector.unregister(worker.status)
            elif mask & selectors.EVENT_READ:
                self._receive(worker)
        for worker in [worker for worker in self._workers if worker.has_ended and worker.is_cut]:
            self._bury(worker)
        self._end_overdue()

    def _patience(self) -> float | None:
        """Seconds until somebody must be ended; None where nobody waits."""
        now = time.monotonic()
        dues = [
            max(0.0, worker.overdue_in(self._timeout_s)) if worker.waiting else worker.idle_since + _IDLE_S - now
            for worker in self._workers
            if worker.is_open
        ]
        return max(0.0, min(dues)) + 0.01 if dues else None

    def _assign(self) -> None:
        """Queued items to workers, the first to whoever has the least."""
        while self._queue:
            task = self._queue[0]
            try:
                worker = self._worker_for(task)
            except OSError as error:
                self._queue.popleft()
                self._deliver(task, Raised(error), 0)
                continue
            if worker is None:
                return
            self._queue.popleft()
            worker.send(task)

    def _worker_for(self, task: Task) -> WorkerProcess | None:
        alive = [worker for worker in self._workers if worker.is_open]
        if not task.is_alone:
            open_to_all = [
                worker
                for worker in alive
                if len(worker.waiting) < task.call.depth
                and (not worker.waiting or worker.waiting_bytes + len(task.data) <= _MAX_QUEUE_BYTES)
                and not (worker.waiting and worker.waiting[0][1].is_alone)
            ]
            best = min(open_to_all, key=lambda worker: len(worker.waiting), default=None)
            if best is not None and not best.waiting:
                return best
            if len(self._workers) >= self.num_workers:
                return best
            return self._start(task) or best
        if unused := next((worker for worker in alive if not worker.num_sent), None):
            return unused
        if len(self._workers) >= self.num_workers:
            if idle := next((worker for worker in alive if not worker.waiting), None):
                self._dismiss(idle)
            return None
        return self._start(task)

    def _dismiss(self, worker: WorkerProcess) -> None:
        """End a worker; what it still has goes back to the queue when it has ended."""
        worker.is_dismissed = True
        self._server.kill(worker.pid)

    def _start(self, task: Task) -> WorkerProcess | None:
        """A new worker; None where the system gives none and others are there. Raises OSError where none is."""
        try:
            worker = WorkerProcess.start(self._server, module=task.call.module, memory_bytes=self._memory_bytes)
        except OSError as error:
            if not self._workers:
                raise
            _log.warning("%d of %d workers: no more start (%s)", len(self._workers), self.num_workers, error.strerror)
            self.num_workers = len(self._workers)
            return None
        worker.idle_since = time.monotonic()
        self.num_started += 1
        self._workers.append(worker)
        self._selector.register(worker.results, selectors.EVENT_READ, (worker, False))
        self._selector.register(worker.status, selectors.EVENT_READ, (worker, True))
        return worker

    def _flush(self, worker: WorkerProcess) -> None:
        is_registered = worker.items in self._selector.get_map()
        if worker.flush() == is_registered:
            if is_registered:
                self._selector.unregister(worker.items)
            else:
                self._selector.register(worker.items, selectors.EVENT_WRITE, (worker, False))

    def _receive(self, worker: WorkerProcess) -> None:
        try:
            for frame in worker.receive():
                self._take_frame(worker, frame)
        except (DamagedStream, wire.DamagedResult) as error:
            _log.warning("a worker process sent what cannot be read (%s) and is replaced", error)
            self._dismiss(worker)
            self._blame(worker, Failure(3101, "its process sent what cannot be read"))
        if worker.is_cut:
            self._selector.unregister(worker.results)

    def _take_frame(self, worker: WorkerProcess, frame: Frame) -> None:
        used_s, worker.cpu_s = max(0.0, frame.cpu_s - worker.cpu_s), frame.cpu_s
        if worker.waiting:
            worker.waiting[0][1].call.meter.cpu_s += used_s
        if frame.kind == LOG:
            record = wire.decode(frame.data)
            logging.getLogger(str(record["name"])).log(int(record["level"]), "%s", record["message"])
            return
        if frame.kind == VALUE:
            result = wire.decode(frame.data, packages=worker.oldest(frame.number).call.packages)
            task = worker.answered()
            task.call.learn(frame.seconds)
            self._deliver(task, result, len(frame.data))
        elif frame.kind == FAULT:
            worker.oldest(frame.number)
            fault = rebuilt_error(wire.decode(frame.data))
            self._deliver(worker.answered(), Raised(fault), len(frame.data))
        elif frame.kind == OUT_OF_MEMORY:
            worker.oldest(frame.number)
            self._judge(worker.answered(), frame.number == 1, self._too_large())
            self._dismiss(worker)  # what the item left behind would be taken off the next one's share
        else:
            raise DamagedStream(f"a frame of kind {frame.kind!r}")

    def _judge(self, task: Task, is_first: bool, failure: Failure) -> None:
        """The item failed: for good where its worker had done nothing else, else a new worker tries it alone."""
        if is_first:
            self._deliver(task, failure, 0)
        else:
            task.is_alone = True
            with self.lock:
                self._requeue([task])

    def _requeue(self, tasks: list[Task]) -> None:
        self._queue.extendleft(task for task in reversed(tasks) if not task.call.is_over)

    def _deliver(self, task: Task, result: object, size_bytes: int) -> None:
        call = task.call
        with self.lock:
            if call.is_over:
                return
            call.size_bytes += size_bytes - len(task.data)
            call.results[task.index] = (result, size_bytes)
            if task.index == call.next:
                call.ready.put(None)

    def _blame(self, worker: WorkerProcess, failure: Failure) -> None:
        """The item in hand is at fault; those before it, answered or not, are made again with those behind it."""
        guilty, waiting = worker.guilty(), list(worker.waiting)
        for at, (number, task) in enumerate(waiting):
            if number == guilty:
                worker.waiting.remove((number, task))
                # time is not taken off by what came before, so nothing is gained by another try
                self._judge(task, worker.is_overdue or number == 1, failure)
            elif guilty is None and at == 0:  # between two items, or while results were sent
                task.num_deaths += 1
                if task.num_deaths >= _MAX_DEATHS:
                    worker.waiting.remove((number, task))
                    self._judge(task, True, failure)

    def _bury(self, worker: WorkerProcess) -> None:
        """A worker has ended: what it left goes back to the front of the queue."""
        self._workers.remove(worker)
        self._ended_cpu_s += worker.cpu_s
        if worker.exit_code is not None and not worker.is_dismissed:  # None: the fork server went, and all with it
            self._blame(worker, self._reason(worker))
        with self.lock:
            self._requeue([task for _, task in worker.waiting])
        self._close(worker)

    def _reason(self, worker: WorkerProcess) -> Failure:
        if worker.exit_code == NO_MEMORY:
            return self._too_large()
        if worker.exit_code == -signal.SIGKILL:
            return Failure(3103, "its process was ended by SIGKILL, as a system does that runs out of memory")
        return Failure(3101, worker.ending())

    def _too_large(self) -> Failure:
        return Failure(3103, f"more memory is needed than item_memory_bytes={self._memory_bytes}")

    def _drop_cancelled(self) -> None:
        """End workers that have only items nobody waits for any more."""
        for worker in self._workers:
            if worker.waiting and all(task.call.is_over for _, task in worker.waiting):
                worker.waiting.clear()
                self._dismiss(worker)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if not worker.is_open:
                continue
            if worker.waiting and worker.overdue_in(self._timeout_s) <= 0:
                worker.is_overdue = True
                self._dismiss(worker)
                self._blame(worker, Failure(3102, f"not done after item_timeout_s={self._timeout_s:g}"))
            elif not worker.waiting and now - worker.idle_since > _IDLE_S:
                self._dismiss(worker)

    def _close(self, worker: WorkerProcess) -> None:
        for end in (worker.items, worker.results, worker.status):
            with suppress(KeyError):
                self._selector.unregister(end)
        worker.close()

    def _end_all(self) -> None:
        for worker in self._workers:
            self._server.kill(worker.pid)
        for worker in self._workers:
            deadline = time.monotonic() + _DRAIN_S
            while not worker.has_ended and not worker.read_status() and time.monotonic() < deadline:
                with selectors.DefaultSelector() as selector:
                    selector.register(worker.status, selectors.EVENT_READ)
                    selector.select(_DRAIN_S)
            self._ended_cpu_s += worker.cpu_s
            self._close(worker)
        self._workers = []
        self._selector.close()
        os.close(self._wake_read)
        wake, self._wake_write = self._wake_write, -1
        os.close(wake)
