"""An interrupt at any step of a call is raised, and the pool works on and ends; so does one that ends another."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

from mmlake.workers import fork_client
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


def test_a_pool_that_is_collected_while_another_one_starts_a_worker_ends(monkeypatch):
    """Requirement: the search for garbage runs in any thread, also in one that has the fork server to itself."""
    old, new = WorkerPool(workers=1), WorkerPool(workers=1)
    assert list(old.map(double, [1], code=3001, what="it")) == [2]
    closing = [old]

    def dumps(request: object) -> str:
        if closing and threading.current_thread().name == "mmlake-workers":
            closing.pop().close()
        return json.dumps(request)

    monkeypatch.setattr(fork_client, "json", SimpleNamespace(dumps=dumps, loads=json.loads))
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.extend(new.map(double, [2], code=3001, what="it")), daemon=True)
    asking.start()
    asking.join(20)
    assert found == [4] and not closing
    new.close()
