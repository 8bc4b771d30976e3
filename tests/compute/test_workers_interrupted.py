"""An interrupt at any step of a call: it is raised, and the pool works on and ends."""

from __future__ import annotations

from mmlake.workers.dispatch import Dispatcher
from mmlake.workers.pool import WorkerPool
from tests.compute.worker_kernels import double
from tests.interrupted_steps import interrupted_at

_STEPS = {"after": Dispatcher.submit, "until": (Dispatcher.end,)}


def test_an_interrupt_at_any_step_of_a_call_leaves_a_pool_that_works():
    step = 2
    with WorkerPool(workers=1) as pool:
        while True:
            try:
                with interrupted_at(step, **_STEPS) as seen:
                    list(pool.map(double, [1, 2], code=3001, what="it"))
            except KeyboardInterrupt:
                pass
            assert list(pool.map(double, [3], code=3001, what="it")) == [6]
            if seen[0] < step:
                break  # the call was over before
            step += 1
    assert step > 20
