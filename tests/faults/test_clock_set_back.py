"""A clock that is set back between two runs: names, order, locks, caches and garbage collection follow what was done,
not when. Each job's clock is hours behind that of the job before it, as are the times of its files."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.faults import jobs, state
from tests.faults.conftest import Recorded
from tests.faults.machine import Machine

HOUR_S = 3600


def later(root: Path, seconds: int) -> None:
    """Move the times of all files below the directory, as if a clock that was ahead had stamped them."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            facts = path.stat()
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + seconds * 10**9))


def stamped_at(lake: Path) -> list[str]:
    """When the tables were written, as their stamps say, sorted."""
    return sorted(json.loads(path.read_text())["written_at"] for path in (lake / "tables").rglob("*.stamp.json"))


@pytest.fixture(scope="module")
def first(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a lake and its landing zone lie after the first run, by a clock that was 48 hours ahead."""
    base = tmp_path_factory.mktemp("ahead")
    landing, lake = state.land(base / "landing"), base / "lake"
    assert machine.do("run", lake, landing, root=lake, ahead_s=48 * HOUR_S).is_done
    for root in (landing, lake):
        later(root, 48 * HOUR_S)
    assert stamped_at(lake)[0] > time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() + 47 * HOUR_S))
    return base


@pytest.fixture
def ahead(first: Path, tmp_path: Path) -> tuple[Path, Path]:
    """(lake, landing zone): a copy of them, times included."""
    for name in ("lake", "landing"):
        shutil.copytree(first / name, tmp_path / name, symlinks=True)
    return tmp_path / "lake", tmp_path / "landing"


def test_runs_after_the_clock_was_set_back_end_at_the_ids_of_undisturbed_ones(
    machine: Machine, recorded: Recorded, ahead: tuple[Path, Path]
) -> None:
    lake, landing = ahead
    state.land_more(landing)
    assert machine.do("run", lake, landing, root=lake).is_done
    opened = jobs.opened(lake)
    first, second = (opened.versions.read(f"everything-v00{number}") for number in (1, 2))
    assert second.created_at < first.created_at
    assert state.ids(opened) == recorded.ids
    assert [move.after for move in opened.versions.log("everything")] == [second.id, first.id]
    assert state.problems(opened) == []

    stamps = stamped_at(lake)
    for job, *given in (("run", lake, landing), ("publish_all", lake), ("compact", lake)):
        assert machine.do(job, *given, root=lake, ahead_s=-24 * HOUR_S).is_done
    assert stamped_at(lake) == stamps  # nothing was out of date by the clock
    assert state.ids(jobs.opened(lake)) == recorded.ids
    assert sorted(jobs.opened(lake).versions.tags()) == ["everything-v001", "everything-v002"]


def test_garbage_collection_after_the_clock_was_set_back_keeps_all_that_is_named(
    machine: Machine, recorded: Recorded, ahead: tuple[Path, Path]
) -> None:
    lake, landing = ahead
    stray = jobs.opened(lake).store.put(b"nothing names these bytes")
    assert machine.do("collect_now", lake, root=lake, ahead_s=48 * HOUR_S).value["condemned"] == 1
    state.land_more(landing)
    assert machine.do("run", lake, landing, root=lake).is_done
    for hours, condemned, deleted in ((0, 1, 0), (-24, 1, 0), (1, 0, 1)):
        found = machine.do("collect_now", lake, root=lake, ahead_s=hours * HOUR_S).value
        assert (found["condemned"], found["deleted"]) == (condemned, deleted), hours
    assert stray not in jobs.opened(lake).store
    assert state.recovered(lake, landing) == recorded.ids
