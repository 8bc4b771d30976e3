"""What every test has: no telemetry, no hub, and a quiet machine that the workers of a parallel run share fairly."""

from __future__ import annotations

import gc
import os
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, count
from pathlib import Path

import hypothesis
import pytest

os.environ |= {
    "DO_NOT_TRACK": "1",
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
os.environ["COLUMNS"] = "120"  # the width of every table, also where a worker has no terminal to ask
sys.path.insert(0, str(Path(__file__).parents[1]))  # `from tests import make` from any folder

# Compiled once for all workers and for all processes that tests start, whatever the shell says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No lake of the tests has to outlive the machine, and a run waits longer for the disk than it computes. What is synced
# and when is recorded by tests/vocabulary/test_durable.py, tests/store and tests/faults, in processes of their own.
os.fsync = os.fdatasync = lambda handle: None

# The same examples in every run, and no limit of time on a machine that others share; `--hypothesis-profile=explore`
# searches for new ones.
_CHECKS = (hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture)
hypothesis.settings.register_profile("explore", deadline=None, database=None, suppress_health_check=_CHECKS)
hypothesis.settings.register_profile("house", hypothesis.settings.get_profile("explore"), derandomize=True)
hypothesis.settings.load_profile("house")

gc.disable()  # until all tests are collected: no garbage lies between thousands of modules and tests

_folders = count()
MAX_WORKERS = 8
WORKER_BYTES = 2 << 30  # torch, Arrow and Dagster in one process
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    # more would only take the other workers' processors
    threads = str(max(1, min(2, (os.cpu_count() or 1) // workers)))
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
        os.environ.setdefault(f"{library}_NUM_THREADS", threads)

# A parallel run starts with these, so that none is left over for the end. The first makes the lake that many others
# inspect.
LONGEST = (
    "graph/test_run_next_to_ui.py",
    "graph/test_deployment.py",
    "wiring/test_sample_truth.py",
    "faults/test_two_at_once.py",
    "graph/test_follow.py",
    "sample/test_sample_corpus.py",
    "examples/test_plugin_example.py",
    "wiring/test_versions_published.py",
    "bench/test_bench_vad.py",
    "quality/test_sync.py",
    "graph/test_materialize.py",
    "bench/test_bench_clock.py",
    "graph/test_automation.py",
    "faults/test_disturbed_jobs.py",
    "wiring/test_killed_runs.py",
    "remote/test_remote_copies.py",
    "compute/test_environments.py",
    "bench/test_bench_av_shots.py",
    "preprocess/test_alignment_of_speech.py",
    "dedup/test_dedup_video.py",
    "preprocess/test_units.py",
    "remote/test_remote_gateway.py",
    "remote/test_remote_faults.py",
    "upkeep/test_upkeep_inventory.py",
    "upkeep/test_upkeep_collecting.py",
    "wiring/test_cross_modalities.py",
    "wiring/test_shards_of_versions.py",
    "wiring/test_worker_lakes.py",
    "wiring/test_mismatch_in_lakes.py",
    "wiring/test_measures_in_catalog.py",
    "wiring/test_drafts.py",
    "wiring/test_pins.py",
    "cuts/test_cut_films.py",
    "faults/test_clock_set_back.py",
    "sources/corpora/test_corpora_memory.py",
    "hostile/test_fuzz_slice.py",
    "cli/test_console_ui.py",
    "shards/test_shard_files.py",
    "cli/test_commands.py",
    "examples/test_examples.py",
    "report/test_report.py",
    "remote/test_remote_store.py",
    "remote/test_remote_landing.py",
)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, since tests also wait for servers and disks; fewer where memory is short."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min((os.cpu_count() or 1) + 1, MAX_WORKERS, memory_bytes // WORKER_BYTES))


def pytest_configure(config: pytest.Config) -> None:
    """Every worker collects all files, each from another folder on: of a fresh checkout they compile a part each."""
    if workers and config.args == config.getini("testpaths"):
        config.args = _turned(int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) / workers)


def _turned(fraction: float) -> list[str]:
    """The folders of tests, from that part of their bytes on and around."""
    folders = sorted(path for path in Path(__file__).parent.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
    sizes = [sum(file.stat().st_size for file in folder.rglob("*.py")) for folder in folders]
    first = bisect_left(list(accumulate(sizes, initial=0)), fraction * sum(sizes))
    return [str(folder) for folder in (*folders[first:], *folders[:first])]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if workers:
        rank = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: (rank.get(item.path, len(rank)), item.path))


def pytest_collection_finish() -> None:
    """The tests themselves are there to the end: no search for garbage goes through them."""
    from mmlake_assets.console import RARELY

    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)  # as where the command line is used
    gc.enable()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, which for the number of a new folder reads the names of all that there are, some thousands."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_folders)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session", autouse=True)
def _workers() -> Iterator[object]:
    """The lakes of all tests share their worker processes."""
    from tests.lent_workers import lent_workers

    with lent_workers() as lender:
        yield lender


@pytest.fixture(scope="session", autouse=True)
def _revisions() -> Iterator[None]:
    """The migrations of Dagster's databases are read once."""
    from tests.revisions import revisions_read_once

    with revisions_read_once():
        yield


@pytest.fixture
def own_workers(_workers: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lake of the test has worker processes of its own, which end with it."""
    monkeypatch.setattr(_workers, "is_off", True)


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A small lake, run once; tests inspect it and change nothing. Of a parallel run's workers one runs it, and each
    has a copy."""
    from tests.lakes import copied, done_once

    base = tmp_path_factory.mktemp("done")
    yield from copied(done_once(tmp_path_factory), base)


@pytest.fixture
def own(done, tmp_path: Path) -> Iterator[object]:
    """A copy of it, with its landing zone and history, that the test may change."""
    from tests.lakes import copied

    yield from copied(done, tmp_path)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    """The smallest useful sample corpus, made once: (folder, truth); tests inspect it and change nothing."""
    from mmlake import sample
    from tests.make import SMALL
    from tests.once import once

    def fill(base: Path) -> None:
        truth = sample.generate(base / "corpus", settings=sample.SampleSettings(**SMALL))
        truth.write(base / "truth.json")  # as it was returned; the corpus has a truth file of its own

    base = once(tmp_path_factory, "small-corpus", fill)
    return base / "corpus", sample.Truth.read(base / "truth.json")
