"""The executor: order, batching, backing off, failures as outcomes, honest devices."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from mmlake import compute
from mmlake.border import Failure
from mmlake.compute import ComputeSettings, Executor, form_batches, ordered_map
from mmlake.errors import MissingExtra, MmlakeError, SettingsError


@pytest.fixture(autouse=True)
def _no_models_left():
    compute.forget_models()
    yield
    compute.forget_models()


def run(
    items, *, executor=None, prepare=lambda item: item, infer=lambda model, batch: [2 * one for one in batch], **more
):
    executor = executor or Executor("cpu")
    return list(
        executor.map_batches(
            items,
            model_key="double",
            load=lambda device: device,
            prepare=prepare,
            infer=infer,
            code=5002,
            what="not prepared",
            **more,
        )
    )


def test_results_come_in_input_order_whatever_the_batches():
    items = [5, 1, 9, 3, 7, 2]
    outcomes = run(
        items,
        cost=lambda item: item,
        unit="tokens",
        executor=Executor(settings=ComputeSettings(device="cpu", token_budget=10, window_items=4)),
    )
    assert [(one.item, one.value) for one in outcomes] == [(item, 2 * item) for item in items]


def test_results_do_not_depend_on_which_thread_is_faster():
    late = threading.Event()

    def prepare(item):
        if item == 0:
            late.wait(timeout=5)
        else:
            late.set()
        return item

    assert [one.value for one in run(range(6), prepare=prepare)] == [0, 2, 4, 6, 8, 10]


def test_batches_stay_within_the_padded_budget():
    batches = form_batches({0: 3, 1: 10, 2: 4, 3: 4}, 10)
    assert batches == [[1], [2, 3], [0]]


def test_an_item_more_expensive_than_the_budget_gets_a_batch_of_its_own():
    assert form_batches({0: 50, 1: 5, 2: 5}, 10) == [[0], [1, 2]]


def test_an_out_of_memory_halves_the_batch_and_the_smaller_budget_is_kept():
    sizes = []

    def infer(model, batch):
        sizes.append(len(batch))
        if len(batch) > 4:
            raise MemoryError
        return batch

    executor = Executor(settings=ComputeSettings(device="cpu", item_budget=16))
    assert [one.value for one in run(range(16), executor=executor, infer=infer)] == list(range(16))
    assert sizes == [16, 8, 4, 4, 8, 4, 4]
    sizes.clear()
    run(range(8), executor=executor, infer=infer)
    assert sizes == [4, 4]


def test_torchs_own_out_of_memory_is_recognised():
    torch = pytest.importorskip("torch")
    assert compute.is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory"))
    assert not compute.is_out_of_memory(RuntimeError("shapes differ"))


def test_an_item_that_does_not_fit_alone_becomes_an_error_and_the_rest_go_on():
    def infer(model, batch):
        if 3 in batch:
            raise MemoryError
        return batch

    outcomes = run(range(5), infer=infer)
    assert [one.item for one in outcomes if isinstance(one.value, Failure)] == [3]
    assert (outcomes[3].value.code, "does not fit" in outcomes[3].value.reason) == (5002, True)


def test_an_item_that_cannot_be_prepared_is_an_outcome_and_not_a_crash():
    def prepare(item):
        if item == 1:
            raise ValueError("torn")
        return item

    outcomes = run(range(3), prepare=prepare)
    assert [one.value for one in outcomes] == [0, Failure(5002, "not prepared (ValueError)"), 4]


def test_a_missing_library_is_no_fault_of_the_item_and_raises():
    def prepare(item):
        raise MissingExtra("needs a library")

    with pytest.raises(MissingExtra):
        run(range(3), prepare=prepare)


def test_a_bug_in_the_model_raises():
    def infer(model, batch):
        raise ValueError("wrong shape")

    with pytest.raises(ValueError, match="wrong shape"):
        run([1], infer=infer)


def test_a_model_that_loses_results_is_an_error():
    with pytest.raises(MmlakeError, match="returned 1 results for a batch of 3"):
        run(range(3), infer=lambda model, batch: batch[:1])


def test_a_model_is_loaded_once_per_process_and_device():
    loads = []
    for _ in range(2):
        list(
            Executor("cpu").map_batches(
                [1],
                model_key="one",
                load=loads.append,
                prepare=lambda item: item,
                infer=lambda model, batch: batch,
                code=5002,
                what="not prepared",
            )
        )
    assert loads == ["cpu"]


def test_preparation_stays_ahead_but_bounded():
    seen = []
    source = (seen.append(item) or item for item in range(100))
    results = ordered_map(lambda item: item, source, workers=2, ahead=5)
    assert next(results) == 0
    assert len(seen) == 6
    results.close()


def test_stats_add_up_and_count_padding():
    executor = Executor(settings=ComputeSettings(device="cpu", token_budget=8))
    run([4, 2, 1], executor=executor, cost=lambda item: item, unit="tokens")
    stats = executor.stats()
    assert (stats.num_items, stats.num_failed, stats.num_batches, stats.device) == (3, 0, 2, "cpu")
    assert stats.padding_waste_fraction == pytest.approx(1 - 7 / 9)  # [4, 2] padded to 8, [1] to 1
    assert stats.peak_memory_bytes > 0


def test_advance_is_called_for_every_item():
    counts = []
    run(range(7), advance=counts.append)
    assert sum(counts) == 7


def test_no_items_give_no_outcomes():
    assert run([]) == []


def test_asking_for_a_gpu_where_there_is_none_raises_with_the_remedy(monkeypatch):
    monkeypatch.setattr(compute, "_num_gpus", lambda: 0)
    with pytest.raises(MmlakeError, match="choose device 'auto' or 'cpu'"):
        Executor("cuda")
    assert Executor("auto").device == "cpu"


def test_a_gpu_is_taken_by_auto_and_by_number(monkeypatch):
    monkeypatch.setattr(compute, "_num_gpus", lambda: 2)
    assert compute.resolve_device("auto") == "cuda:0"
    assert compute.resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(MmlakeError, match="sees 2 CUDA devices"):
        compute.resolve_device("cuda:2")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch is asked")
def test_torch_is_not_imported_where_no_driver_of_a_gpu_is_there(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)  # its import would raise
    monkeypatch.setattr(compute, "_GPU_DRIVERS", (str(tmp_path / "nvidiactl"),))
    assert compute.resolve_device("auto") == "cpu"


def test_torch_is_asked_where_a_driver_is_there(monkeypatch, tmp_path):
    driver = tmp_path / "nvidiactl"
    driver.touch()
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(compute, "_GPU_DRIVERS", (str(driver),))
    assert compute.resolve_device("auto") == "cuda:0"


@pytest.mark.parametrize("name", ["gpu", "cpu:1", "cuda:x", ""])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(SettingsError):
        compute.resolve_device(name)


def test_an_unknown_unit_is_refused():
    with pytest.raises(SettingsError, match="unit 'words'"):
        run([1], unit="words")


def test_what_other_threads_spend_on_a_table_is_counted_once():
    spent_s: list[float] = []

    def work(rounds: int) -> None:
        began_s = time.thread_time()
        for _ in range(rounds):
            hashlib.sha256(bytes(1 << 20)).digest()
        spent_s.append(time.thread_time() - began_s)

    def infer(model: object, batch: list[int]) -> list[int]:
        helper = threading.Thread(target=work, args=(300,))
        helper.start()
        helper.join()
        return batch

    def prepare(item: int) -> int:
        work(100)
        return item

    executor = Executor("cpu")
    assert len(run(range(3), executor=executor, prepare=prepare, infer=infer)) == 3
    assert len(spent_s) == 4
    assert executor.taken_cpu_s() == pytest.approx(sum(spent_s), rel=0.3)
    assert executor.taken_cpu_s() == 0.0
