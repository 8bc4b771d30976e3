"""Two commands at once on one lake, each a process of its own: the later one refuses or waits, and the lake ends at the
ids of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mmlake.errors import LakeLocked
from tests.faults import jobs, state
from tests.faults.conftest import Recorded
from tests.faults.machine import ROOT, Machine

PATIENCE_S = 300

pytestmark = pytest.mark.slow


def command(*words: object) -> subprocess.Popen[str]:
    """An `mmlake` that has begun."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", "from mmlake_assets.console import entry; entry()", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(lake: Path, recorded: Recorded) -> Iterator[subprocess.Popen[str]]:
    """A whole `mmlake run` that has made its first table. Asserts at the end that it made all."""
    run = command("run", "--lake", lake, "--landing", recorded.landing, "--recipe", "everything", "--json")
    try:
        until_s = time.monotonic() + PATIENCE_S
        while not any((lake / "tables").rglob("*.stamp.json")):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < until_s
            time.sleep(0.01)
        yield run
        said = run.communicate(timeout=PATIENCE_S)
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()
    assert run.returncode == 0, said
    opened = jobs.opened(lake)
    found = state.ids(opened)
    assert {name: found.get(name) for name in recorded.ids} == recorded.ids
    assert state.problems(opened) == []


def test_a_second_run_and_a_publish_are_refused_while_a_run_is_under_way(recorded: Recorded, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with running(lake, recorded) as run:
        os.kill(run.pid, signal.SIGSTOP)  # in the middle of it, however fast the machine is
        try:
            others = [
                command("run", "--lake", lake, "--landing", recorded.landing),
                command("publish", "--lake", lake, "--recipe", "everything"),
            ]
            for other in others:
                _, said = other.communicate(timeout=PATIENCE_S)
                assert other.returncode == LakeLocked.exit_code, said
                assert f"lake {lake} (lock 'run') is being written by another process; wait" in said
                assert "Traceback" not in said
        finally:
            os.kill(run.pid, signal.SIGCONT)


@pytest.mark.parametrize("job", ["collect", "repair"])
def test_a_run_next_to_garbage_collection_or_repair_ends_at_the_ids_of_an_undisturbed_one(
    job: str, machine: Machine, recorded: Recorded, tmp_path: Path
) -> None:
    """`collect` has no grace, so that whatever the run has put and not yet named would go."""
    lake, num_done, num_refused = tmp_path / "lake", 0, 0
    with running(lake, recorded) as run:
        while run.poll() is None:
            outcome = machine.do(job, lake, root=lake)
            assert outcome.is_done or outcome.error == "LakeLocked", outcome
            num_done += outcome.is_done
            num_refused += not outcome.is_done
    assert num_done + num_refused > 1
