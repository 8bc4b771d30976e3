"""Requirements of a lake that decodes in worker processes: the same tables for any number of them, and no item's fault
is another's."""

from __future__ import annotations

import io
import os
import threading
import zlib

import pytest

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.errors import RemoteUnavailable, SettingsError
from mmlake.lake import Lake
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, Made, parallel, run_shards, run_step
from mmlake.tables import Slot
from tests import make
from tests.thorough import drawn

LIMIT_BYTES = 96 << 20
SMALL = {"compute": {"workers": 2, "item_memory_bytes": LIMIT_BYTES}}


@pytest.fixture(scope="module")
def zone(tmp_path_factory):
    """Small shards of every modality."""
    zone = tmp_path_factory.mktemp("zone")
    make.land(
        zone,
        {
            f"image/{tar}.tar": make.tar({f"{tar}{at}.png": make.picture(10 * tar + at) for at in range(3)})
            for tar in range(4)
        }
        | {f"text/{at}.jsonl": make.jsonl([make.prose(10 * at + one) for one in range(4)]) for at in range(3)}
        | {"audio/a.wav": make.sound(1), "video/a.mp4": make.film(1), "image/bad.png": b"\x89PNG\r\n\x1a\nnothing"},
    )
    return zone


def tables_of(zone, root, runner=None, **compute):
    """Data version of every table."""
    with Lake(root, landing=zone, settings=Settings.of({"compute": compute}), runner=runner) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        found = {}
        for name in os.listdir(lake.tables.root):
            for modality in ("text", "image", "video", "audio"):
                found |= {str(slot): stamp.data_version for slot, stamp in lake.tables.stamps(name, modality).items()}
    return found


@pytest.fixture(scope="module")
def expected(zone, tmp_path_factory):
    return tables_of(zone, tmp_path_factory.mktemp("one") / "lake", InProcess())


@pytest.mark.parametrize("workers", drawn([3], [1, 2, 3]))
def test_tables_do_not_depend_on_the_number_of_workers(zone, expected, tmp_path, workers):
    assert len(expected) > 40
    assert tables_of(zone, tmp_path / "lake", workers=workers) == expected


def white(side_px: int) -> bytes:
    """A PNG of a few kilobytes that decodes to side_px squared times three bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    packer, rows = zlib.compressobj(9), io.BytesIO()
    for _ in range(side_px):
        rows.write(packer.compress(b"\0" + b"\xff" * (3 * side_px)))
    rows.write(packer.flush())
    head = side_px.to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows.getvalue()) + chunk(b"IEND", b"")


@pytest.fixture
def landed(tmp_path):
    """A shard of three pictures, one of which decodes to 192 MB."""
    pictures = {"a.png": make.picture(1), "b.png": white(8000), "c.png": make.picture(2)}
    make.land(tmp_path / "zone", {"image/a.tar": make.tar(pictures)})
    return tmp_path


def codes(lake):
    return sorted(code or 0 for code in lake.tables.concat("tracks", "image").column("error_code").to_pylist())


def test_a_picture_that_needs_too_much_memory_is_a_row_and_may_be_tried_again(landed):
    with Lake(landed / "lake", landing=landed / "zone", settings=Settings.of(SMALL)) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["image"])
        tracks = lake.tables.concat("tracks", "image").to_pylist()
        (failed,) = [row for row in tracks if row["status"] != "ok"]
        assert (failed["error_code"], len(tracks)) == (3103, 3)
        assert str(LIMIT_BYTES) in failed["error"]
        lake.retries.request(Slot("tracks", "image", "image/a.tar"), [failed["digest"]])
    with Lake(landed / "lake", landing=landed / "zone") as lake:
        pipeline.run_tables(lake, modalities=["image"])
        assert codes(lake) == [0, 0, 0]


def test_limits_make_no_table_stale(landed):
    with Lake(landed / "lake", landing=landed / "zone", settings=Settings.of(SMALL)) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["image"])
    with Lake(landed / "lake", landing=landed / "zone", settings=Settings.of({"compute": {"workers": 3}})) as lake:
        assert pipeline.run_tables(lake, modalities=["image"]) == 0


def test_several_shards_are_in_hand_at_once(zone, tmp_path, monkeypatch):
    """Two steps meet at a barrier, which one thread alone would never pass."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(step, lake, modality, shard, **more):
        if step.name == "tracks":
            meeting.wait()
        return run_step(step, lake, modality, shard, **more)

    monkeypatch.setattr(parallel, "run_step", meet)
    with Lake(tmp_path / "lake", landing=zone, settings=Settings.of({"compute": {"workers": 2}})) as lake:
        pipeline.refresh(lake)
        shards = lake.registry.keys("image")[:4]
        for name in ("items", "blobs"):
            list(run_shards(ROW_STEPS[name], lake, "image", shards))
        made = list(run_shards(ROW_STEPS["tracks"], lake, "image", shards))
    assert [shard for shard, _ in made] == shards
    assert all(isinstance(one, Made) for _, one in made)


def test_a_shard_that_fails_leaves_the_others_made(zone, tmp_path, monkeypatch):
    def fail(step, lake, modality, shard, **more):
        if step.name == "tracks" and shard.endswith("/1.tar"):
            raise RemoteUnavailable("the store does not answer")
        return run_step(step, lake, modality, shard, **more)

    monkeypatch.setattr(parallel, "run_step", fail)
    with Lake(tmp_path / "lake", landing=zone, settings=Settings.of({"compute": {"workers": 2}})) as lake:
        pipeline.refresh(lake)
        with pytest.raises(RemoteUnavailable, match="does not answer"):
            pipeline.run_tables(lake, modalities=["image"])
        made = lake.tables.shards("tracks", "image")
    assert sorted(set(lake.registry.keys("image")) - set(made)) == ["image/1.tar"]


def test_an_interrupt_ends_the_work_of_the_other_threads(zone, tmp_path, monkeypatch):
    """Tables that are not done when a person stops the run are not stamped."""

    def interrupted(step, lake, modality, shard, **more):
        if shard.endswith("/0.tar"):
            raise KeyboardInterrupt
        return run_step(step, lake, modality, shard, **more)

    with Lake(tmp_path / "lake", landing=zone, settings=Settings.of({"compute": {"workers": 2}})) as lake:
        pipeline.refresh(lake)
        for name in ("items", "blobs"):
            list(run_shards(ROW_STEPS[name], lake, "image", lake.registry.keys("image")))
        monkeypatch.setattr(parallel, "run_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(run_shards(ROW_STEPS["tracks"], lake, "image", lake.registry.keys("image")))
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("mmlake-shard")]
        monkeypatch.undo()
        assert pipeline.run_tables(lake, modalities=["image"]) > 0  # the same lake goes on


def test_a_closed_lake_has_no_workers(zone, tmp_path, own_workers):
    with Lake(tmp_path / "lake", landing=zone) as lake:
        pipeline.refresh(lake)
        run_step(ROW_STEPS["items"], lake, "image", "image/0.tar")
        run_step(ROW_STEPS["tracks"], lake, "image", "image/0.tar")
        pool = lake.runner
        assert pool.pids()
    assert pool.pids() == []


def test_processor_time_of_workers_is_in_the_stamp(zone, tmp_path, own_workers):
    with Lake(tmp_path / "lake", landing=zone) as lake:
        pipeline.refresh(lake)
        (shard,) = lake.registry.keys("video")
        run_step(ROW_STEPS["items"], lake, "video", shard)
        made = run_step(ROW_STEPS["tracks"], lake, "video", shard)
        assert made.stamp.cpu_seconds > lake.runner.stats().cpu_s > 0


@pytest.mark.parametrize("wrong", [{"workers": -1}, {"item_timeout_s": 0.0}, {"item_memory_bytes": 1}])
def test_limits_that_no_run_could_keep_are_refused(wrong):
    with pytest.raises(SettingsError, match=f"compute.{next(iter(wrong))}="):
        Settings.of({"compute": wrong})
