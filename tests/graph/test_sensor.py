"""The landing-zone sensor: new, half-written, repeated, changed and vanished files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context

from mmlake.cli.app import open_lake
from mmlake.errors import SettingsError
from mmlake.steps import ROW_STEPS, run_step
from mmlake.summary import summarize
from mmlake_assets import definitions, sensors
from mmlake_assets.partitions import row_key
from mmlake_assets.sensors import landing_zone
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make

OLD_S = 3600

OF_SOUND = ("alignments", "speakers", "component_fingerprints", "captions")  # steps that texts and pictures have not


class Zone:
    """A landing zone under a sensor."""

    def __init__(self, base: Path, instance: dg.DagsterInstance) -> None:
        self.landing, self.instance = (
            make.land(base / "landing", {"text/a.jsonl": make.jsonl([make.prose(1)])}),
            instance,
        )
        self.resource = LakeResource(root=str(base / "lake"), landing=str(self.landing), settle_s=60.0)
        self.settle("text/a.jsonl")

    def put(self, name: str, data: bytes, *, settled: bool = True) -> None:
        make.land(self.landing, {name: data})
        if settled:
            self.settle(name)

    def settle(self, name: str, *, age_s: float = OLD_S) -> None:
        at = time.time() - age_s
        os.utime(self.landing / name, (at, at))

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        """One tick, its requests carried out as the daemon does."""
        with dg.build_sensor_context(instance=self.instance, resources={"lake": self.resource}) as context:
            result = landing_zone(context)
        for request in getattr(result, "dynamic_partitions_requests", None) or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        return result

    def shards(self, modality: str = "text") -> list[str]:
        return list(self.instance.get_dynamic_partitions(f"{modality}_shards"))


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[Zone]:
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "home")) as instance:
        yield Zone(tmp_path, instance)


def test_a_new_file_is_registered(zone: Zone) -> None:
    zone.tick()
    zone.put("text/b.jsonl", make.jsonl([make.prose(2)]))
    zone.tick()
    assert zone.shards() == ["text/a.jsonl", "text/b.jsonl"]


def test_many_directories_of_few_files_are_one_partition_once_each_is_settled(zone: Zone) -> None:
    for at in range(70):
        zone.put(f"pages/{at}/page.txt", make.prose(at).encode())
    zone.put("pages/70/page.txt", b"half of a te", settled=False)
    zone.tick()
    assert zone.shards() == ["text/a.jsonl"]
    zone.put("pages/70/_SUCCESS", b"", settled=False)
    zone.tick()
    assert sorted(zone.shards()) == ["pages~~", "text/a.jsonl"]


def test_a_tar_of_two_modalities_is_registered_in_both(zone: Zone) -> None:
    zone.put("mixed/s.tar", make.tar({"0.png": make.picture(1), "0.txt": b"a red square"}))
    zone.tick()
    assert "mixed/s.tar" in zone.shards("text")
    assert "mixed/s.tar" in zone.shards("image")


def test_a_file_that_is_still_being_written_waits_for_the_settle_time(zone: Zone) -> None:
    zone.put("text/b.jsonl", make.jsonl([make.prose(2)])[:40], settled=False)
    zone.tick()
    assert zone.shards() == ["text/a.jsonl"]
    zone.put("text/b.jsonl", make.jsonl([make.prose(2)]))
    zone.tick()
    assert zone.shards() == ["text/a.jsonl", "text/b.jsonl"]


def test_a_success_marker_vouches_for_a_fresh_file(zone: Zone) -> None:
    zone.put("fresh/b.jsonl", make.jsonl([make.prose(2)]), settled=False)
    zone.put("fresh/_SUCCESS", b"", settled=False)
    zone.tick()
    assert "fresh/b.jsonl" in zone.shards()


@pytest.mark.parametrize("name", ["text/b.jsonl.part", "text/.b.jsonl", "text/b.jsonl.crdownload"])
def test_names_of_unfinished_files_never_count(zone: Zone, name: str) -> None:
    zone.put(name, make.jsonl([make.prose(2)]))
    zone.tick()
    assert zone.shards() == ["text/a.jsonl"]


def test_nothing_new_is_a_skip(zone: Zone) -> None:
    zone.tick()
    assert isinstance(zone.tick(), dg.SkipReason)


def test_a_file_seen_again_is_not_registered_twice(zone: Zone) -> None:
    zone.tick()
    zone.settle("text/a.jsonl", age_s=OLD_S / 2)
    zone.tick()
    assert zone.shards() == ["text/a.jsonl"]


def test_changed_contents_under_an_old_name_ask_for_one_run_per_revision(zone: Zone) -> None:
    zone.tick()
    run_step(ROW_STEPS["items"], zone.resource.open(), "text", "text/a.jsonl")
    zone.put("text/a.jsonl", make.jsonl([make.prose(1), make.prose(2)]))
    first, second = zone.tick(), zone.tick()
    assert [request.partition_key for request in first.run_requests] == ["text|text/a.jsonl"]
    assert first.run_requests[0].run_key == second.run_requests[0].run_key  # the daemon starts a run key once


# Dagster's own tags of two-dimensional partitions
@pytest.mark.filterwarnings("ignore:Non-compliant tag keys:DeprecationWarning")
def test_the_daemon_finds_the_job_and_the_partition_of_each_run_that_a_tick_asks_for(zone: Zone) -> None:
    zone.put("photos/a.png", make.picture(1))
    zone.tick()
    for modality, shard in (("text", "text/a.jsonl"), ("image", "photos")):
        run_step(ROW_STEPS["items"], zone.resource.open(), modality, shard)
    zone.put("text/a.jsonl", make.jsonl([make.prose(3)]))
    zone.put("photos/a.png", make.picture(2))
    defs = definitions.build(zone.resource, CudaExecutorResource(device="cpu"))
    with (
        dg.build_sensor_context(instance=zone.instance, definitions=defs, resources={"lake": zone.resource}) as context,
        partition_loading_context(dynamic_partitions_store=zone.instance),
    ):
        asked = landing_zone.evaluate_tick(context).run_requests
    assert [(request.asset_selection, request.partition_key) for request in asked] == [
        ([dg.AssetKey([modality, name]) for name in ROW_STEPS if name not in OF_SOUND], row_key(modality, shard))
        for modality, shard in (("text", "text/a.jsonl"), ("image", "photos"))
    ]
    jobs = [defs.resolve_job_def(request.job_name).asset_layer.asset_graph for request in asked]
    assert all(job.has(key) for job, request in zip(jobs, asked, strict=True) for key in request.asset_selection)


def test_a_file_that_was_removed_stays_a_partition_and_its_page_says_so_once(zone: Zone) -> None:
    zone.tick()
    run_step(ROW_STEPS["items"], zone.resource.open(), "text", "text/a.jsonl")
    (zone.landing / "text" / "a.jsonl").unlink()
    result = zone.tick()
    assert [(event.asset_key.path, event.partition) for event in result.asset_events] == [
        (["text", "items"], "text|text/a.jsonl")
    ]
    assert not result.run_requests
    assert isinstance(zone.tick(), dg.SkipReason)
    assert zone.shards() == ["text/a.jsonl"]


def test_a_tick_registers_a_bounded_number_and_the_next_goes_on(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "TICK_SHARDS", 3)
    for number in range(6):
        zone.put(f"text/n{number}.jsonl", make.jsonl([make.prose(number)]))
    sizes = [zone.tick() and len(zone.shards()) for _ in range(3)]
    assert sizes == [3, 6, 7]


def test_a_tick_that_died_before_its_requests_were_carried_out_is_repeated(zone: Zone) -> None:
    with dg.build_sensor_context(instance=zone.instance, resources={"lake": zone.resource}) as context:
        landing_zone(context)
    zone.tick()
    assert zone.shards() == ["text/a.jsonl"]


def test_changed_shards_that_follow_each_other_are_one_run(zone: Zone) -> None:
    """One run for each would take the daemon a second apiece; a range counts in the order of registration."""
    names = [f"text/n{number}.jsonl" for number in range(4)]
    for name in names:
        zone.put(name, make.jsonl([make.prose(5)]))
    zone.tick()
    for name in ["text/a.jsonl", *names]:
        run_step(ROW_STEPS["items"], zone.resource.open(), "text", name)
    for name in ("text/a.jsonl", names[0], names[1], names[3]):
        zone.put(name, make.jsonl([make.prose(6), make.prose(7)]))
    first, second = zone.tick().run_requests, zone.tick().run_requests
    start, end = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
    assert [(one.partition_key, one.tags.get(start), one.tags.get(end)) for one in first] == [
        (None, "text|text/a.jsonl", "text|text/n1.jsonl"),
        ("text|text/n3.jsonl", None, None),
    ]
    assert [one.run_key for one in first] == [one.run_key for one in second]
    zone.put(names[0], make.jsonl([make.prose(8)]))
    assert [one.run_key for one in zone.tick().run_requests] != [one.run_key for one in first]


def test_a_lake_that_sensors_alone_made_is_a_lake(zone: Zone) -> None:
    lake = Path(zone.resource.root)
    with pytest.raises(SettingsError, match="holds no lake"):
        open_lake(lake)
    zone.tick()
    assert open_lake(lake).landing.location == str(zone.landing)
    (lake / "lake.json").unlink()  # as sensors of an earlier release left it
    run_step(ROW_STEPS["items"], zone.resource.open(), "text", "text/a.jsonl")
    assert summarize(open_lake(lake)).to_dict()
