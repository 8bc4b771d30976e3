"""One way to run a model over many items: CPU preparation ahead of inference, batches by cost, the same code with and
without a GPU.

Enters: items, and what to do with one (`prepare`) and with a batch (`infer`). Leaves: one `Outcome` per item, in input
order.
It knows nothing of modalities, tables or files, and starts no processes; one Executor drives one device.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mmlake.border import Failure, attempt
from mmlake.errors import MmlakeError, SettingsError
from mmlake.progress import Advance, silent
from mmlake.workers import ITEM_MEMORY_BYTES, ITEM_TIMEOUT_S, MIN_ITEM_MEMORY_BYTES, WorkerPool

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
M = TypeVar("M")

# what a cost can count; each has its own budget, for a token is not a pixel
UNITS = ("tokens", "pixels", "samples", "items")
# CUDA on Linux, CUDA in WSL, ROCm: without any of them torch finds no GPU
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_QUEUED_PER_WORKER = 4  # items that wait for each thread; enough for it never to be idle
_log = logging.getLogger(__name__)
_models: dict[tuple[str, str], Any] = {}
_models_lock = threading.RLock()  # one lock for all keys: two models loading at once would also double the peak memory


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """What became of one item: a value, or why it has none."""

    item: T
    value: R | Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorStats:
    """What an Executor has done since it was made. Times and memory never enter a table's rows."""

    device: str
    num_items: int
    num_failed: int
    num_batches: int
    num_oom_backoffs: int
    seconds: float  # wall time spent inside map_batches, the consumer's share excluded
    items_per_s: float
    peak_memory_bytes: int  # of the GPU's allocator; on the CPU of the whole process
    padding_waste_fraction: float  # 0..1: cost that was padding


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeSettings:
    """How much of the machine a run may use. None of it changes rows, so no stamp depends on it; an item that a limit
    stopped is taken up again by `mmlake retry`."""

    workers: int = 0
    # processes that decode; 0 for as many as the cores that this process may use (affinity, quota of its container)
    item_timeout_s: float = ITEM_TIMEOUT_S
    # seconds for one item in one worker: two hours of film in 1080p take 15 minutes of one core, a hang never ends
    item_memory_bytes: int = ITEM_MEMORY_BYTES
    # memory for one item in one worker: the largest picture that `preprocess.max_pixels` admits takes 1.5 GiB with its
    # copies; workers times this is the worst case, a tenth of it what a run over ordinary media uses
    device: str = "auto"
    # auto, cpu, cuda or cuda:<n>; auto takes the first GPU that torch sees, and says so in stats().device
    prepare_threads: int = 2
    # tokenizing and stacking release the GIL, and two keep one CPU encoder fed on a small machine
    window_items: int = 256
    # items sorted by cost together; at most two windows are in memory (float32 pictures of 224 px: 150 MB a window)
    token_budget: int = 2048
    # padded tokens per batch; 2k gave 59 texts per CPU second against 17 for batches of 32 in arrival order
    pixel_budget: int = 32 * 224 * 224
    # padded pixels per batch: 32 pictures of 224 px
    sample_budget: int = 16 * 16_000 * 30
    # padded audio samples per batch: 16 windows of 30 s at 16 kHz
    item_budget: int = 256
    # items per batch where all cost the same

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        lowest = {"workers": 0, "item_timeout_s": 0.001, "item_memory_bytes": MIN_ITEM_MEMORY_BYTES}
        for name in ("prepare_threads", "window_items", *(f"{unit.removesuffix('s')}_budget" for unit in UNITS)):
            lowest[name] = 1
        for name, low in lowest.items():
            if getattr(self, name) < low:
                raise SettingsError(f"compute.{name}={getattr(self, name)} is below {low}; correct the setting")

    def pool(self) -> WorkerPool:
        """A pool of workers with these limits; it starts them when there is work."""
        return WorkerPool(
            workers=self.workers, item_timeout_s=self.item_timeout_s, item_memory_bytes=self.item_memory_bytes
        )


class Executor:
    """Runs models over items on one device. Results depend on the items alone, never on which thread was faster."""

    def __init__(self, device: str = "auto", *, settings: ComputeSettings | None = None) -> None:
        self.settings = settings or ComputeSettings(device=device)
        self.device = resolve_device(device if device != "auto" else self.settings.device)
        self._inferring = threading.Lock()  # tables made in parallel take turns at the device
        self._helped = threading.local()
        self._budgets: dict[str, int] = {}  # model key -> budget learned from an out-of-memory
        self._num_items = self._num_failed = self._num_batches = self._num_oom = 0
        self._used = self._padded = 0
        self._seconds = 0.0

    def model(self, model_key: str, load: Callable[[str], M]) -> M:
        """The model of that key on this device, loaded on the first call in this process. load: device -> model."""
        with _models_lock:
            if (model_key, self.device) not in _models:
                _models[model_key, self.device] = load(self.device)
            loaded: M = _models[model_key, self.device]
            return loaded

    def map_batches(
        self,
        items: Iterable[T],
        *,
        model_key: str,
        load: Callable[[str], M],
        prepare: Callable[[T], P],
        infer: Callable[[M, list[P]], Sequence[R]],
        cost: Callable[[P], int] | None = None,
        unit: str = "items",
        code: int,
        what: str,
        advance: Advance = silent,
    ) -> Iterator[Outcome[T, R]]:
        """One Outcome per item, in input order.

        prepare runs in threads, ahead of inference, as a kernel of the border (mmlake/border.py; code, what: of its
        failures): an item's fault is that item's Outcome, a machine's fault raises. infer gets prepared items of like
        cost and returns one result each, in their order; its exceptions raise, but an out-of-memory halves the batch,
        and the smaller budget is kept for this model. cost: what one prepared item takes, in `unit`. An item that does
        not fit alone fails.
        """
        model, before, taken_s = self.model(model_key, load), time.perf_counter(), 0.0

        def prepared(item: T) -> tuple[Outcome[T, P], float]:
            began_s = time.thread_time()
            return Outcome(item, attempt(prepare, item, code=code, what=what)), time.thread_time() - began_s

        windows = ordered_map(
            prepared,
            items,
            workers=self.settings.prepare_threads,
            ahead=2 * self.settings.window_items,
        )
        while took := list(itertools.islice(windows, self.settings.window_items)):
            window = [outcome for outcome, _ in took]
            self._count_help(sum(cpu_s for _, cpu_s in took))
            with self._inferring:
                outcomes = self._run_window(
                    window,
                    model=model,
                    infer=infer,
                    cost=cost or (lambda prepared: 1),
                    key=model_key,
                    budget=self._budget(unit),
                    code=code,
                )
            for outcome in outcomes:
                paused = time.perf_counter()
                yield outcome
                advance(1)
                taken_s += time.perf_counter() - paused
            self._seconds += time.perf_counter() - before - taken_s
            before, taken_s = time.perf_counter(), 0.0

    def taken_cpu_s(self) -> float:
        """Processor seconds that other threads spent on what this one asked for, since it was last called here: those
        that prepare, and those of torch while it infers on the CPU (their share of the process, as far as so many
        threads could)."""
        taken_s: float = getattr(self._helped, "cpu_s", 0.0)
        self._helped.cpu_s = 0.0
        return taken_s

    def _count_help(self, cpu_s: float) -> None:
        self._helped.cpu_s = getattr(self._helped, "cpu_s", 0.0) + max(0.0, cpu_s)

    def stats(self) -> ExecutorStats:
        """What has been done so far."""
        return ExecutorStats(
            device=self.device,
            num_items=self._num_items,
            num_failed=self._num_failed,
            num_batches=self._num_batches,
            num_oom_backoffs=self._num_oom,
            seconds=self._seconds,
            items_per_s=self._num_items / self._seconds if self._seconds else 0.0,
            peak_memory_bytes=_peak_memory_bytes(self.device),
            padding_waste_fraction=1 - self._used / self._padded if self._padded else 0.0,
        )

    def _budget(self, unit: str) -> int:
        if unit not in UNITS:
            raise SettingsError(f"compute: cost unit {unit!r} is not one of {', '.join(UNITS)}")
        budget: int = getattr(self.settings, f"{unit.removesuffix('s')}_budget")
        return budget

    def _run_window(
        self,
        window: list[Outcome[T, P]],
        *,
        model: M,
        infer: Callable[[M, list[P]], Sequence[R]],
        cost: Callable[[P], int],
        key: str,
        budget: int,
        code: int,
    ) -> list[Outcome[T, R]]:
        prepared, failed = dict[int, P](), dict[int, Failure]()
        for at, entry in enumerate(window):
            if isinstance(entry.value, Failure):
                failed[at] = entry.value
            else:
                prepared[at] = entry.value
        costs, results = {at: max(1, int(cost(one))) for at, one in prepared.items()}, dict[int, R]()
        pending = deque(form_batches(costs, min(budget, self._budgets.get(key, budget))))
        while pending:
            batch = pending.popleft()
            padded = len(batch) * max(costs[at] for at in batch)
            began_s = time.perf_counter(), time.process_time(), time.thread_time()
            try:
                found = infer(model, [prepared[at] for at in batch])
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                pending.extendleft(reversed(self._back_off(batch, padded, key)))
                if len(batch) == 1:
                    failed[batch[0]] = Failure(
                        code,
                        f"one item of cost {padded} does not fit into the memory of {self.device}; use a device with "
                        "more, or a smaller encoder",
                    )
                continue
            if len(found) != len(batch):
                raise MmlakeError(
                    f"model {key!r} returned {len(found)} results for a batch of {len(batch)}; its infer must "
                    "return one each"
                )
            wall_s, process_s, own_s = (
                now - then
                for now, then in zip(
                    (time.perf_counter(), time.process_time(), time.thread_time()), began_s, strict=True
                )
            )
            self._count_help(min(process_s, wall_s * self._num_threads()) - own_s)
            self._num_batches += 1
            self._used += sum(costs[at] for at in batch)
            self._padded += padded
            results.update(zip(batch, found, strict=True))
        self._num_items += len(window)
        self._num_failed += len(failed)
        return [Outcome(entry.item, failed[at] if at in failed else results[at]) for at, entry in enumerate(window)]

    def _num_threads(self) -> int:
        """Threads that a model computes in."""
        return sys.modules["torch"].get_num_threads() if "torch" in sys.modules and self.device == "cpu" else 1

    def _back_off(self, batch: list[int], padded: int, key: str) -> list[list[int]]:
        """The batch in halves; none of a single item. The budget shrinks to what the next try may cost."""
        self._num_oom += 1
        if "torch" in sys.modules and self.device.startswith("cuda"):
            sys.modules["torch"].cuda.empty_cache()
        if len(batch) == 1:
            return []
        self._budgets[key] = min(self._budgets.get(key, padded), max(1, padded // 2))
        _log.warning(
            "%s ran out of memory on a batch of %d items; budget of %r is now %d",
            self.device,
            len(batch),
            key,
            self._budgets[key],
        )
        half = (len(batch) + 1) // 2
        return [batch[:half], batch[half:]]


def form_batches(costs: dict[int, int], budget: int) -> list[list[int]]:
    """Positions in batches of like cost, most expensive first, each within the budget (number x largest cost), an
    oversized item alone."""
    batches: list[list[int]] = []
    largest = 0
    # the most expensive first: an out-of-memory shows in the first batch, not in the last
    for at in sorted(costs, key=lambda at: (-costs[at], at)):
        if batches and (len(batches[-1]) + 1) * largest <= budget:
            batches[-1].append(at)
        else:
            batches.append([at])
            largest = costs[at]
    return batches


def ordered_map(function: Callable[[T], R], items: Iterable[T], *, workers: int, ahead: int = 64) -> Iterator[R]:
    """The results in input order, made by threads at most `ahead` items before they are taken. An exception raises
    at its item's turn.

    Items are taken in the caller's thread, and few wait for a thread: an item may be larger than its result.
    """
    if workers <= 1 and ahead <= 1:
        yield from map(function, items)
        return
    source, waiting, unfinished = iter(items), deque[Future[R]](), set[Future[R]]()
    workers = max(1, workers)
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="mmlake-prepare")

    def submit(count: int) -> None:
        for item in itertools.islice(source, count):
            while len(unfinished) >= _QUEUED_PER_WORKER * workers:
                unfinished.difference_update(wait(unfinished, return_when=FIRST_COMPLETED).done)
            unfinished.add(future := pool.submit(function, item))
            waiting.append(future)

    try:
        submit(max(1, ahead))
        while waiting:
            result = waiting.popleft().result()
            submit(1)
            yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def resolve_device(device: str) -> str:
    """ "cpu" or "cuda:<n>". Raises SettingsError for an unknown name, and where a GPU is asked for and there
    is none."""
    name, _, number = device.partition(":")
    if name not in ("auto", "cpu", "cuda") or (number and not (name == "cuda" and number.isdigit())):
        raise SettingsError(f"compute: device {device!r} is not auto, cpu, cuda or cuda:<number>")
    if name == "cpu":
        return "cpu"
    count = _num_gpus()
    if count > int(number or 0):
        return f"cuda:{number or 0}"
    if name == "auto":
        return "cpu"
    raise SettingsError(
        f"compute: device {device!r} is asked for but torch sees {count} CUDA devices; install the driver and "
        "pip install 'mmlake[gpu]', or choose device 'auto' or 'cpu'"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help: CUDA's or Python's own out-of-memory, or the CPU allocator's."""
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    return torch is not None and (
        isinstance(error, torch.cuda.OutOfMemoryError)
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def forget_models() -> None:
    """Drop every loaded model, so that its memory can be had back."""
    with _models_lock:
        _models.clear()


def _num_gpus() -> int:
    # importing torch takes a second or more, and the default encoders need none
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in _GPU_DRIVERS):
        return 0
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _peak_memory_bytes(device: str) -> int:
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
