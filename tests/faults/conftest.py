"""One machine for all tests of faults, and one small lake that was left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults import state
from tests.faults.disk import Call, calls
from tests.faults.jobs import opened
from tests.faults.machine import Machine, started
from tests.once import once


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A lake that was made, ran again with another shard, was compacted and cleared of garbage, all undisturbed."""

    # holds `disk/lake`, `first` (the lake after its first run), `tables` (after the second, before it published) and
    # the landing zone
    base: Path
    calls: list[Call]
    ids: dict[str, str]  # what it holds
    counts: dict[str, dict[str, int]]  # run, publish_all -> how many calls of each kind it made

    @property
    def landing(self) -> Path:
        return self.base / "landing"


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with started(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@pytest.fixture(scope="session")
def recorded(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Of a parallel run's workers one makes it; nobody changes it."""
    base = once(tmp_path_factory, "recorded", lambda base: _record(machine, base))
    ids, counts = state.ids(opened(base / "disk" / "lake")), json.loads((base / "counts.json").read_text())
    return Recorded(base=base, calls=calls(base / "record"), ids=ids, counts=counts)


def _record(machine: Machine, base: Path) -> None:
    disk, lake, record = base / "disk", base / "disk" / "lake", base / "record"
    disk.mkdir()
    landing = state.land(base / "landing")
    assert machine.do("run", lake, landing, root=disk, record=record).is_done
    shutil.copytree(lake, base / "first", symlinks=True)
    state.land_more(landing)
    tables = machine.do("make_tables", lake, landing, root=disk, record=record)
    assert tables.is_done
    shutil.copytree(lake, base / "tables", symlinks=True)
    published = machine.do("publish_all", lake, root=disk, record=record)
    assert published.is_done
    run = {kind: number + published.counts[kind] for kind, number in tables.counts.items()}
    (base / "counts.json").write_text(json.dumps({"run": run, "publish_all": published.counts}))
    for job in ("compact", "collect"):
        assert machine.do(job, lake, root=disk, record=record).is_done
