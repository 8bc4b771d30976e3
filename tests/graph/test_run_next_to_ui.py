"""`mmlake run` while a UI with its daemon and sensors is at the same lake."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmlake import publish
from mmlake.errors import LakeLocked
from mmlake.publish.version import publish_version
from tests.faults import jobs, state
from tests.graph.deployment import Deployment, deployed

PATIENCE_S = 900
QUIET_S = 45  # a round of the sensors that asks for nothing
RUNS = "{ runsOrError(limit: 500) { ... on Runs { results { runId status } } } }"


def run(lake: Path, landing: Path) -> subprocess.CompletedProcess[str]:
    words = ["run", "--lake", lake, "--landing", landing, "--recipe", "everything", "--json"]
    command = [Path(sys.executable).with_name("mmlake"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def finished(running: Deployment) -> list[dict[str, str]]:
    """Every run, once none is under way any more; empty while one is."""
    runs: list[dict[str, str]] = running.ask(RUNS)["runsOrError"]["results"]
    return runs if all(one["status"] in ("SUCCESS", "FAILURE", "CANCELED") for one in runs) else []


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
    with deployed(lake, landing, MMLAKE_AUTOMATION="on") as running:
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


def test_a_second_writer_of_the_catalog_or_of_a_version_goes_on_from_what_the_first_left(own) -> None:
    """As two processes come to the same step: the later one waits, and ends at the same."""
    lake, name = own.lake, "curated-v001"
    before = state_of(lake)
    rival = [
        sys.executable,
        "-c",
        "import sys; from mmlake.lake import Lake; from mmlake import publish; "
        "from mmlake.publish.version import publish_version; lake = Lake(sys.argv[1]); print(flush=True); "
        f"publish.update_catalog(lake); publish_version(lake, {name!r})",
        str(lake.root),
    ]
    with subprocess.Popen(rival, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        publish.update_catalog(lake)
        publish_version(lake, name)
        _, said = other.communicate(timeout=PATIENCE_S)
    assert other.returncode == 0, said
    assert LakeLocked.__name__ not in said
    assert state_of(own.lake) == before


def state_of(lake) -> dict[str, object]:
    return {
        "catalog": lake.catalog.data_version(),
        "refs": (lake.versions.branches(), lake.versions.tags()),
        "problems": jobs.checked(lake),
    }
