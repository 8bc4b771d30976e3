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
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults import jobs, state
from tests.faults.conftest import Recorded
from tests.faults.machine import ROOT, Machine
from tests.thorough import takes_minutes

PATIENCE_S = 300
BETWEEN_S = 1  # what takes turns with the run is not to take the machine from it

ALONE = "import sys; from tests.faults import jobs; jobs.run_alone(*sys.argv[1:])"
COMMAND = (
    "import sys; from mmlake_assets import console; lake, landing = sys.argv[1:]; sys.argv[1:] = ['run', '--lake', "
    "lake, '--landing', landing, '--recipe', 'everything', '--json']; console.entry()"
)


@contextmanager
def running(program: str, lake: Path, recorded: Recorded) -> Iterator[subprocess.Popen[str]]:
    """A whole run that has made its first table. Asserts at the end that it made all."""
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, str(lake), str(recorded.landing)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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


@pytest.mark.parametrize("program", [ALONE, pytest.param(COMMAND, marks=takes_minutes)], ids=["plain", "command"])
def test_next_to_a_run_a_second_one_is_refused_and_garbage_collection_and_repair_change_nothing(
    machine: Machine, recorded: Recorded, tmp_path: Path, program: str
) -> None:
    """`collect` has no grace, so that whatever the run has put and not yet named would go. It and `repair` take turns
    until the run has ended, each at least once."""
    lake, done = tmp_path / "lake", []
    with running(program, lake, recorded) as run:
        os.kill(run.pid, signal.SIGSTOP)  # in the middle of it, however fast the machine is
        try:
            second = machine.do("run_alone", lake, recorded.landing, root=lake)
            assert second.error == "LakeLocked", second
            assert f"lake {lake} (lock 'run') is being written by another process; wait" in second.message
        finally:
            os.kill(run.pid, signal.SIGCONT)
        for number, job in enumerate(cycle(("collect", "repair"))):
            outcome = machine.do(job, lake, root=lake)
            assert outcome.is_done or outcome.error == "LakeLocked", outcome
            done.append(job)
            if run.poll() is not None:
                break
            time.sleep(BETWEEN_S * 1.5**number)
    assert len(done) > 1
