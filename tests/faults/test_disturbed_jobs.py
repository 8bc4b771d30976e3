"""Jobs that are killed, or whose disk fails, at one of their system calls: the next run ends at what an undisturbed one
made. Places are drawn from all calls of the job; MMLAKE_FAULTS=200 draws as many for each kind,
MMLAKE_FAULTS=10000 tries every call."""

from __future__ import annotations

import errno
import random
import shutil
from pathlib import Path

import pytest

from mmlake.versions import VersionStore
from tests.faults import jobs, state
from tests.faults.conftest import Recorded
from tests.faults.disk import real
from tests.faults.machine import Fault, Machine, Outcome, tried
from tests.versions.test_migration import lake_of_the_release_before

# job -> how many of its calls are tried in the default suite
JOBS = {"run": 1, "publish_all": 1, "compact": 1, "collect": 1, "repair": 1}
BEFORE = {"run": "first", "publish_all": "tables"}  # the lake that it begins with, where that is not the last one
ERRORS = {
    "a disk that is full from there on": ("write", errno.ENOSPC, "fail on"),
    "a disk that cannot write once": ("write", errno.EIO, "fail once"),
    "a disk that cannot read once": ("read", errno.EIO, "fail once"),
    "no more handles once": ("open", errno.EMFILE, "fail once"),
}


def begun(recorded: Recorded, job: str, base: Path) -> tuple[Path, tuple[str | Path, ...]]:
    """(a lake on which the job has work to do, what it is given)."""
    lake = base / "lake"
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(recorded.base / BEFORE.get(job, "disk/lake"), lake, symlinks=True)
    if job == "repair":
        pack = min((lake / "blobs" / "packs").glob("*.pack"))
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.write_bytes(data)
    if job == "collect":
        jobs.opened(lake).store.put(b"nothing names these bytes")
    return lake, (lake, recorded.landing) if job == "run" else (lake,)


_counted: dict[str, dict[str, int]] = {}


def calls_of(machine: Machine, recorded: Recorded, job: str, base: Path) -> dict[str, int]:
    """How many system calls of each kind the job makes where nothing fails, counted once; those of the record where
    few are drawn of them."""
    if not tried() and job in BEFORE:  # the others begin with another lake than in the record
        return recorded.counts[job]
    if job not in _counted:
        lake, given = begun(recorded, job, base)
        outcome = machine.do(job, *given, root=lake)
        assert outcome.is_done, outcome
        _counted[job] = outcome.counts
    return _counted[job]


def after(recorded: Recorded, job: str, lake: Path) -> dict[str, str]:
    """What the lake holds after one more run, and before it what a person runs."""
    if job == "repair":
        jobs.repair(str(lake))
    return state.recovered(lake, recorded.landing)


def drawn(name: str, count: int, total: int) -> list[int]:
    """The calls that are disturbed, counted from 1: every one where as many are asked for as there are."""
    if count >= total:
        return list(range(1, total + 1))
    return random.Random(name).sample(range(1, total + 1), count)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_killed_at_any_call_is_ended_by_the_next_run(
    job: str, machine: Machine, recorded: Recorded, tmp_path: Path
) -> None:
    total = calls_of(machine, recorded, job, tmp_path / job)["write"]
    for at in drawn(job, tried() or JOBS[job], total):
        lake, given = begun(recorded, job, tmp_path / job)
        outcome = machine.do(job, *given, root=lake, fault=Fault(kind="write", at=at, mode="kill"))
        assert outcome.signal == 9, (at, outcome)
        assert after(recorded, job, lake) == recorded.ids, at


def test_a_migration_killed_at_any_call_is_ended_by_running_it_again(machine: Machine, tmp_path: Path) -> None:
    """Two versions of the release before with a branch, tags, logs and training shards."""
    old, lake = tmp_path / "old", tmp_path / "lake"
    (old / "shards").mkdir(parents=True)
    _, *ids = lake_of_the_release_before(VersionStore(tmp_path / "source"), old / "versions")
    for one in ids:
        (old / "shards" / one).mkdir()

    def migrated(fault: Fault | None) -> Outcome:
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(old, lake)
        return machine.do("migrate", lake, root=lake, fault=fault)

    undisturbed = migrated(None)
    expected = real(lake)
    assert undisturbed.is_done, undisturbed
    assert len(expected) > len(real(old))
    for at in drawn("migrate", tried() or 3, undisturbed.counts["write"]):
        assert migrated(Fault(kind="write", at=at, mode="kill")).signal == 9, at
        jobs.migrate(str(lake))
        left = {path: what for path, what in real(lake).items() if not path.endswith(".part")}
        assert left == expected, at


@pytest.mark.parametrize("name", ERRORS)
def test_a_run_on_a_failing_disk_says_so_and_the_next_one_ends_it(
    name: str, machine: Machine, recorded: Recorded, tmp_path: Path
) -> None:
    kind, code, mode = ERRORS[name]
    total = calls_of(machine, recorded, "run", tmp_path / "run")[kind]
    for at in drawn(name, tried() or 1, total):
        lake, given = begun(recorded, "run", tmp_path / "run")
        outcome = machine.do("run", *given, root=lake, fault=Fault(kind=kind, at=at, mode=mode, code=code))
        assert outcome.hits, (at, outcome)
        assert not outcome.signal, (at, outcome)
        assert mode == "fail once" or outcome.error, (at, outcome)
        assert after(recorded, "run", lake) == recorded.ids, (at, outcome)


def test_a_lake_that_cannot_be_written_is_read_and_refuses_a_run_at_once(
    machine: Machine, recorded: Recorded, tmp_path: Path
) -> None:
    lake, given = begun(recorded, "run", tmp_path / "run")
    read_only = Fault(kind="write", at=1, mode="fail on", code=errno.EROFS)
    outcome = machine.do("read", lake, root=lake, fault=read_only)
    assert outcome.is_done, outcome
    before = real(lake)
    for job in ("compact", "collect"):
        refused = machine.do(job, lake, root=lake, fault=read_only)
        assert refused.error == "SettingsError", refused
        assert "cannot be written" in refused.message
    assert not machine.do("run", *given, root=lake, fault=read_only).is_done
    assert real(lake) == before


def test_a_lake_without_locks_is_refused_with_the_reason(machine: Machine, recorded: Recorded, tmp_path: Path) -> None:
    lake, given = begun(recorded, "run", tmp_path / "run")
    outcome = machine.do("run", *given, root=lake, fault=Fault(kind="lock", at=1, mode="fail on", code=errno.ENOLCK))
    assert outcome.error == "SettingsError", outcome
    assert "has no locks" in outcome.message
