"""`mmlake run` while a UI with its daemon and sensors is at the same lake."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmlake import publish
from mmlake.locks import exclusive_lock
from mmlake.publish.version_names import slot_of
from tests.faults import jobs, state
from tests.graph.deployment import Deployment, deployed
from tests.thorough import takes_minutes

PATIENCE_S = 900
QUIET_S = 20  # four rounds of the sensors that ask for nothing
RUNS = "{ runsOrError(limit: 500) { ... on Runs { results { runId status } } } }"


def run(lake: Path, landing: Path) -> subprocess.CompletedProcess[str]:
    words = ["run", "--lake", lake, "--landing", landing, "--recipe", "everything", "--json"]
    command = [Path(sys.executable).with_name("mmlake"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def finished(running: Deployment) -> list[dict[str, str]]:
    """Every run, once none is under way any more; empty while one is."""
    runs: list[dict[str, str]] = running.ask(RUNS)["runsOrError"]["results"]
    return runs if all(one["status"] in ("SUCCESS", "FAILURE", "CANCELED") for one in runs) else []


@takes_minutes
@pytest.mark.slow
@pytest.mark.daemon
def test_a_run_next_to_a_ui_ends_at_the_ids_of_an_undisturbed_one_and_so_do_the_sensors(tmp_path: Path) -> None:
    """Both are at the landing zone from the start, so that each makes what the other is about to make."""
    landing, lake = state.land_more(state.land(tmp_path / "landing")), tmp_path / "lake"
    an_hour_ago = time.time() - 3600
    for path in landing.rglob("*"):
        os.utime(path, (an_hour_ago, an_hour_ago))  # settled, to the sensor
    jobs.run(str(tmp_path / "alone"), str(landing))
    lake.mkdir()
    with deployed(lake, landing, MMLAKE_AUTOMATION="on", MMLAKE_INTERVAL_S="5") as running:
        done = run(lake, landing)
        assert done.returncode == 0, done.stderr
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            before = running.wait(lambda: finished(running), seconds=PATIENCE_S)
            time.sleep(5)
            if finished(running) != before:
                quiet_since = time.monotonic()
        assert {one["status"] for one in before} == {"SUCCESS"}
    alone, opened = state.ids(jobs.opened(tmp_path / "alone")), jobs.opened(lake)
    assert {name: state.ids(opened).get(name) for name in alone} == alone
    assert state.problems(opened) == []


@pytest.mark.parametrize("name", ["catalog", "training_shards"])
def test_a_second_writer_waits_and_goes_on_from_what_the_first_left(own, name: str) -> None:
    """Two processes that came to the same step: the first holds its turn, and what refuses a second writer at once."""
    lake, version = own.lake, "curated-v001"
    taken, writes = {
        "catalog": (".catalog", lake.catalog.root),
        "training_shards": (f"results/{version}/writer", lake.shards_dir / lake.versions.resolve(version)),
    }[name]
    before = lake.catalog.data_version(), lake.tables.stamp(slot_of("training_shards", version)).data_version
    with ThreadPoolExecutor(1) as pool:
        with lake.turn(taken), exclusive_lock(writes / "writer.lock", what="it"):
            if name == "catalog":
                waiting = pool.submit(publish.update_catalog, lake)
            else:
                waiting = pool.submit(publish.run_version_step, publish.VERSION_STEPS[name], lake, version)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=1)
        waiting.result()
    after = lake.catalog.data_version(), lake.tables.stamp(slot_of("training_shards", version)).data_version
    assert (after, jobs.checked(lake)) == (before, [])
