"""Tables of one step for many shards, several at once where workers do the work.

A shard of few items leaves most workers idle, so the next ones are begun before it is done: each in its own thread,
which reads, stores and makes rows, while all share the lake's worker processes. What a table holds depends on its shard
alone, so the number of threads changes nothing in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.steps.running import Made, run_step
from mmlake.steps.step import Step
from mmlake.workers import WorkerPool

_MAX_THREADS = 16  # tables in memory at once; each thread feeds several workers


def run_shards(
    step: Step,
    lake: Lake,
    modality: str,
    shards: Sequence[str],
    *,
    advance: Advance = silent,
    run_id: str = "",
) -> Iterator[tuple[str, Made | MmlakeError | OSError]]:
    """(shard, its table or why it could not be made), in the order of the shards. The other shards are made either way;
    what is a fault of ours raises."""
    lake.store  # noqa: B018  # opened once, before threads share it
    runner = lake.runner
    if not (step.in_workers and isinstance(runner, WorkerPool)) or min(runner.workers, len(shards)) < 2:
        for shard in shards:
            yield shard, _attempted(step, lake, modality, shard, advance, run_id)
        return
    num_threads = min(runner.workers, len(shards), _MAX_THREADS)
    waiting: deque[tuple[str, Future[Made | MmlakeError | OSError]]] = deque()
    threads = ThreadPoolExecutor(num_threads, thread_name_prefix="mmlake-shard")
    try:
        for shard in shards:
            waiting.append((shard, threads.submit(_attempted, step, lake, modality, shard, advance, run_id)))
        while waiting:
            shard, future = waiting.popleft()
            yield shard, future.result()
    except BaseException:  # an interrupt, or a fault of ours: the other threads must not go on for hours
        threads.shutdown(wait=False, cancel_futures=True)
        runner.interrupt()
        raise
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def _attempted(
    step: Step, lake: Lake, modality: str, shard: str, advance: Advance, run_id: str
) -> Made | MmlakeError | OSError:
    try:
        return run_step(step, lake, modality, shard, advance=advance, run_id=run_id)
    except (MmlakeError, OSError) as error:
        return error
