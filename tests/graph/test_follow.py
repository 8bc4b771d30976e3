"""`[publish] follow`: which version the sensor asks for, when, and how often; and a real daemon from a dropped shard to
a moved branch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from mmlake import pipeline, publish
from mmlake.errors import LakeLocked, SettingsError
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake_assets import follow
from mmlake_resources import LakeResource
from tests import make
from tests.graph.deployment import Deployment, deployed
from tests.lakes import Done, copied
from tests.thorough import takes_minutes

PUBLISHED_S = 600
GC_EVERY_S = 8


@pytest.fixture
def own(done, tmp_path: Path) -> Iterator[Done]:
    """A lake that follows `curated`."""
    for made in copied(done, tmp_path):
        settings = tmp_path / "mmlake.toml"
        settings.write_text('[publish]\nfollow = ["curated"]\n')
        made.resource = LakeResource(
            root=made.resource.root, landing=made.resource.landing, settings_file=str(settings), settle_s=0
        )
        yield made


def _tick(own: Done, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    with dg.build_sensor_context(instance=own.instance, cursor=cursor) as context:
        return follow.publishing(context, own.resource)


def _land(own: Done, name: str, number: int) -> None:
    """A shard whose rows are in the catalog."""
    make.land(own.lake.landing.root, {name: make.jsonl([make.prose(number)])})
    with own.resource.open() as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["text"])
        publish.update_samples(lake)
        publish.update_catalog(lake)


def test_a_catalog_that_a_version_holds_is_left_alone(own) -> None:
    result = _tick(own)
    assert not result.run_requests and result.cursor
    assert isinstance(_tick(own, result.cursor), dg.SkipReason)


def test_a_changed_catalog_asks_for_the_next_version_once(own) -> None:
    before = _tick(own).cursor
    _land(own, "text/new.jsonl", 71)
    first, second = _tick(own, before), _tick(own, before)
    (asked,) = first.run_requests
    assert (asked.job_name, asked.partition_key) == ("publish_version", "curated-v002")
    assert asked.run_key == second.run_requests[0].run_key  # the daemon starts a run key once
    assert [one.partition_keys for one in first.dynamic_partitions_requests] == [["curated-v002"]]
    publish_version(own.resource.open(), "curated-v002")
    after = _tick(own, before)
    assert not after.run_requests and after.cursor not in (None, before)


def test_nothing_is_asked_for_while_runs_are_under_way_or_tables_are_newer_than_the_catalog(own) -> None:
    _land(own, "text/new.jsonl", 72)
    run_id = own.instance.create_run_for_job(_idle, status=dg.DagsterRunStatus.STARTED).run_id
    assert "is under way" in _tick(own).skip_message
    own.instance.delete_run(run_id)
    assert _tick(own).run_requests
    make.land(own.lake.landing.root, {"text/newer.jsonl": make.jsonl([make.prose(73)])})
    with own.resource.open() as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["text"])
    assert "about to change" in _tick(own).skip_message


@dg.job
def _idle() -> None:
    pass


def test_nobody_follows_by_default_and_an_unknown_recipe_is_named(own) -> None:
    settings = Path(own.resource.settings_file)
    settings.write_text("")
    assert "no recipe is followed" in _tick(own).skip_message
    settings.write_text('[publish]\nfollow = ["curatted"]\n')
    with pytest.raises(SettingsError, match="curatted"):
        _tick(own)


@takes_minutes
@pytest.mark.slow
@pytest.mark.daemon
def test_a_daemon_takes_a_dropped_shard_to_a_moved_branch_while_garbage_is_collected(own) -> None:
    """The way of a shard through sensors alone: registered, made, in the catalog, in a version, under the branch. All
    the while `mmlake gc` runs again and again without grace: it does its work or is refused, and nothing is lost."""
    lake = own.lake
    before = lake.versions.branches()["curated"]
    settings = {"MMLAKE_SETTINGS": own.resource.settings_file, "MMLAKE_AUTOMATION": "on", "MMLAKE_INTERVAL_S": "5"}
    landing = lake.landing.root
    with deployed(lake.root, landing, **settings) as running:
        running.wait(lambda: _ticks(running), seconds=120)  # what is there before the first scan is nobody's news
        make.land(landing, {"text/dropped.jsonl": make.jsonl([make.prose(74)])})
        an_hour_ago = time.time() - 3600
        os.utime(landing / "text" / "dropped.jsonl", (an_hour_ago, an_hour_ago))
        collected: list[int] = []
        next_s = time.monotonic()

        def published() -> bool:
            nonlocal next_s
            if time.monotonic() >= next_s:  # starting the command is most of its work
                collected.append(_mmlake("gc", "--grace-hours", "0", "--lake", lake.root))
                next_s = time.monotonic() + GC_EVERY_S
            return bool(Lake(lake.root).versions.branches()["curated"] != before)

        running.wait(published, seconds=PUBLISHED_S)
    assert {0} <= set(collected) <= {0, LakeLocked.exit_code}
    assert _mmlake("fsck", "--lake", lake.root) == 0
    held = Lake(lake.root).versions
    assert held.read("curated").parents == (before,)
    assert "text/dropped.jsonl" in held.samples("curated").column("shard").to_pylist()


def _mmlake(*words: object) -> int:
    """The exit code of the command."""
    command = [Path(sys.executable).with_name("mmlake"), *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False).returncode


SENSORS = (
    '{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: '
    '"mmlake_assets.definitions"}) { ... on Sensors { results { name sensorState { ticks(limit: 1) { status } } } } } }'
)


def _ticks(running: Deployment) -> bool:
    """Whether both sensors have ticked once."""
    done = set()
    for one in running.ask(SENSORS)["sensorsOrError"].get("results", ()):
        if any(tick["status"] in ("SUCCESS", "SKIPPED") for tick in one["sensorState"]["ticks"]):
            done.add(one["name"])
    return {"landing_zone", "automation"} <= done
