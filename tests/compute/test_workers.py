"""Requirements of the worker pool: one bad item costs one item, and the number of workers changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import worker_kernels as kernels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmlake.border import Failure, InProcess
from mmlake.errors import MmlakeError, ModelMissing, SettingsError
from mmlake.workers import WorkerPool
from mmlake.workers import pool as pools
from mmlake.workers.dispatch import Dispatcher

MEMORY_BYTES = 256 << 20
CODE, WHAT = 3001, "the bytes do not decode"


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(workers=2, item_timeout_s=60, item_memory_bytes=MEMORY_BYTES) as pool:
        yield pool


def outcomes(runner, kernel, items):
    return list(runner.map(kernel, items, code=CODE, what=WHAT))


def codes(results):
    return [result.code if isinstance(result, Failure) else result for result in results]


@pytest.mark.parametrize(
    ("deadly", "code"),
    [
        ("crash", 3101),
        ("abort", 3101),
        ("exit 3", 3101),
        ("kill", 3103),
        (f"hoard {2 * MEMORY_BYTES}", 3103),
    ],
)
def test_an_item_that_ends_its_process_costs_itself_alone(pool, deadly, code):
    items = [f"item {number}" for number in range(40)]
    items[17] = deadly
    results = codes(outcomes(pool, kernels.failing, items))
    assert results == [code if item == deadly else item for item in items]


def test_an_item_that_hangs_costs_itself_alone():
    items = ["a", "b", "hang", *"cdefgh"]
    with WorkerPool(workers=2, item_timeout_s=0.5) as pool:
        assert codes(outcomes(pool, kernels.failing, items)) == ["a", "b", 3102, *"cdefgh"]


def test_a_result_does_not_wait_for_the_item_behind_it():
    """Short items teach the pool to send several at once; the last of them hangs for longer than a test may take."""
    items = [*map(str, range(300)), "hang"]
    with WorkerPool(workers=1, item_timeout_s=3600) as pool:
        results = pool.map(kernels.failing, items, code=CODE, what=WHAT)
        assert [next(results) for _ in items[:-1]] == items[:-1]


def test_a_reason_names_the_signal_and_the_limits(pool):
    crashed, hoarded = outcomes(pool, kernels.failing, ["crash", f"hoard {2 * MEMORY_BYTES}"])
    assert "SIGSEGV" in crashed.reason
    assert str(MEMORY_BYTES) in hoarded.reason


def test_memory_within_the_limit_is_granted(pool):
    assert outcomes(pool, kernels.failing, [f"hoard {MEMORY_BYTES // 2}"]) == [MEMORY_BYTES // 2]


def test_an_item_is_not_blamed_for_what_an_earlier_one_left_behind():
    items = [("a", ""), ("b", "spoil"), *((str(number), "") for number in range(30))]
    with WorkerPool(workers=1) as pool:
        assert outcomes(pool, kernels.crash_where_another_was, items) == [name for name, _ in items]


def test_results_come_in_the_order_of_the_items(pool):
    assert outcomes(pool, kernels.double, range(5000)) == [2 * number for number in range(5000)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_what_this_process_gives(workers):
    items = ["a", "refuse 9 pixels", "b", "raise x", *map(str, range(100)), "hoard 7"]
    with WorkerPool(workers=workers) as pool:
        assert outcomes(pool, kernels.failing, items) == outcomes(InProcess(), kernels.failing, items)


VERBS = st.sampled_from(["a", "b", "refuse x", "raise y", "crash", "abort", "exit 1", f"hoard {2 * MEMORY_BYTES}"])
FATAL = {
    "crash": 3101,
    "abort": 3101,
    "exit 1": 3101,
    f"hoard {2 * MEMORY_BYTES}": 3103,
    "refuse x": 3004,
    "raise y": CODE,
}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(VERBS, max_size=12))
def test_whatever_items_do_each_gets_its_own_result(pool, items):
    assert codes(outcomes(pool, kernels.failing, items)) == [FATAL.get(item, item) for item in items]


def test_values_come_back_as_they_were(pool):
    (there,) = outcomes(pool, kernels.anything, [(1, [2.5])])
    here = kernels.anything((1, [2.5]))
    assert [type(one) for one in there] == [type(one) for one in here]
    assert repr(there) == repr(here)
    assert there[14].dtype == here[14].dtype


def test_a_result_of_another_kind_raises_and_names_it(pool):
    with pytest.raises(TypeError, match="returned a builtins.set"):
        outcomes(pool, kernels.unsendable, [1])


def test_large_items_and_large_results_pass_each_other(pool):
    items = [bytes([number]) * 3_000_000 for number in range(12)]
    assert outcomes(pool, kernels.large, items) == [item[::-1] for item in items]


def test_a_large_result_is_held_once_by_its_worker_and_twice_here():
    size_bytes = 96 << 20  # the sound of an hour and more
    tracemalloc.start()
    with WorkerPool(workers=1) as pool:
        before, large, after = outcomes(pool, kernels.large_or_peak, [0, size_bytes, 0])
        held_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(large) == size_bytes
    assert after - before < 1.2 * size_bytes  # as it was made; a second copy went over
    assert held_bytes < 2.2 * size_bytes  # as it came, and as it is


def test_a_fault_of_the_machine_raises_at_its_item(pool):
    results = pool.map(kernels.failing, ["a", "b", "disk", "c"], code=CODE, what=WHAT)
    assert [next(results), next(results)] == ["a", "b"]
    with pytest.raises(OSError, match="No space left") as caught:
        next(results)
    assert caught.value.filename == "/there"


def test_an_error_of_ours_keeps_its_class(pool):
    with pytest.raises(ModelMissing, match="^clip"):
        outcomes(pool, kernels.failing, ["model clip"])


def test_warnings_of_workers_are_logged_here(pool, caplog):
    outcomes(pool, kernels.failing, ["warn frames"])
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("mmlake.decoder", "a word about frames")
    ]


def test_workers_are_reused_between_items_and_calls(pool):
    found = {pid for _ in range(3) for pid, _ in outcomes(pool, kernels.whose, range(20))}
    assert len(found) <= 2
    assert os.getpid() not in found


def test_a_worker_has_one_thread_and_no_heavy_library(pool):
    assert outcomes(pool, kernels.threads, [None])[0][0] == 1
    assert outcomes(pool, kernels.loaded, [None]) == [[]]


def test_a_call_may_feed_another_on_one_worker():
    with WorkerPool(workers=1) as pool:
        inner = pool.map(kernels.double, range(300), code=CODE, what=WHAT)
        assert outcomes(pool, kernels.double, inner) == [4 * number for number in range(300)]


def test_threads_share_a_pool(pool):
    found = {}

    def work(base):
        found[base] = outcomes(pool, kernels.double, range(base, base + 400))

    threads = [threading.Thread(target=work, args=(base,)) for base in range(0, 4000, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {base: [2 * number for number in range(base, base + 400)] for base in range(0, 4000, 1000)}


def test_few_items_are_taken_ahead_of_their_results(pool):
    taken = []
    results = pool.map(kernels.large, (taken.append(1) or bytes(40 << 20) for _ in range(9)), code=CODE, what=WHAT)
    next(results)
    assert len(taken) <= 5  # two a worker, and the one that was asked for
    results.close()


def test_a_call_that_is_given_up_leaves_the_pool_usable(pool):
    results = pool.map(kernels.failing, ["a", "hang", "hang", "hang"], code=CODE, what=WHAT)
    assert next(results) == "a"
    results.close()
    assert outcomes(pool, kernels.double, [1, 2, 3]) == [2, 4, 6]


def test_progress_counts_every_item(pool):
    seen = []
    list(pool.map(kernels.failing, ["a", "crash", "b"], code=CODE, what=WHAT, advance=seen.append))
    assert seen == [1, 1, 1]


def test_a_closed_pool_has_ended_its_workers():
    pool = WorkerPool(workers=2)
    outcomes(pool, kernels.double, range(100))
    pids = pool.pids()
    pool.close()
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(MmlakeError, match="closed"):
        outcomes(pool, kernels.double, [1])


def test_threads_that_come_at_once_share_the_workers_of_a_pool(monkeypatch):
    """Each got workers of its own, and those of all but the last one lived until the process ended."""
    made, come = [], threading.Barrier(4, timeout=60)

    class Slow(Dispatcher):
        def __init__(self, **limits):
            made.append(self)
            time.sleep(0.05)  # for the others to come
            super().__init__(**limits)

    monkeypatch.setattr(pools, "Dispatcher", Slow)
    with WorkerPool(workers=1) as pool, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda item: (come.wait(), outcomes(pool, kernels.double, [item]))[1], range(4)))
    assert (found, len(made)) == ([[0], [2], [4], [6]], 1)


def test_workers_account_for_their_processor_time(pool):
    before = pool.stats().cpu_s
    outcomes(pool, kernels.large, [bytes(20_000_000)] * 4)
    assert pool.stats().cpu_s > before


def test_a_kernel_that_cannot_be_imported_is_refused(pool):
    with pytest.raises(MmlakeError, match="top of a module"):
        outcomes(pool, lambda item: item, [1])


def test_a_worker_that_does_not_start_is_the_machines_fault(monkeypatch):
    def refuse(self, *args, **kwargs):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("mmlake.workers.fork_client.ForkServer.start", refuse)
    with WorkerPool(workers=2) as pool, pytest.raises(OSError, match="temporarily unavailable"):
        outcomes(pool, kernels.double, [1, 2])


@pytest.mark.parametrize("wrong", [{"workers": -1}, {"item_timeout_s": 0.0}, {"item_memory_bytes": 1000}])
def test_limits_that_no_run_could_keep_are_refused(wrong):
    with pytest.raises(SettingsError, match=str(next(iter(wrong)))):
        WorkerPool(**wrong)


PROGRAM = """
    import signal
    import sys
    import worker_kernels as kernels
    from mmlake.workers import WorkerPool

    # what a shell started in the background ignores them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pool = WorkerPool(workers=2)
    items = ["a", "b"] + ["hang"] * 20
    results = pool.map(kernels.failing, items, code=3001, what="")
    next(results), next(results)
    while len(pool.pids()) < 2:
        pass
    try:
        print(*pool.pids(), pool._dispatcher._server._process.pid, flush=True)
        next(results)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_no_worker_outlives_its_parent(number, code):
    """Neither the workers, which hang, nor the process that forked them."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as parent:
        watched = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.send_signal(number)
        assert parent.wait(20) == code
    assert len(watched) == 3
    assert all(has_ended(descriptor) for descriptor in watched)


def has_ended(descriptor):
    import select

    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    ended = bool(waiting.poll(20_000))
    os.close(descriptor)
    return ended
