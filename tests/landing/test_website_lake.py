"""A lake on a web server: the rows of the same files in a directory, and no credential anywhere."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import dagster as dg
import pytest
from site_server import PASSWORD, USER, Site
from typer.testing import CliRunner

from mmlake import __version__, checked_json
from mmlake.cli import app
from mmlake.errors import RemoteUnavailable
from mmlake.lake import FORMAT, Lake
from mmlake.landing import addresses_of
from mmlake.pipeline import refresh
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from mmlake_assets import definitions
from mmlake_assets.instance import open_instance
from mmlake_assets.jobs import ROW_JOBS
from mmlake_assets.partitions import SHARD_SETS, row_key
from mmlake_assets.sensors import landing_zone
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make


def remembered(site) -> dict[str, object]:
    return {"format": FORMAT, "release": __version__, "landing": site.url}


def with_login(site: Site) -> str:
    return site.url.replace("//", f"//{USER}:{PASSWORD}@")


def ingested(lake: Lake) -> dict[str, list[dict[str, object]]]:
    """Shard -> rows of its items, without what says when they were read."""
    refresh(lake)
    found = {}
    for modality in ("text", "image", "video", "audio"):
        for key in lake.registry.keys(modality):
            run_step(ROW_STEPS["items"], lake, modality, key)
            found[f"{modality} {key}"] = lake.tables.read(Slot("items", modality, key)).to_pylist()
    return found


def holding_secrets(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]


@pytest.fixture
def corpus(site: Site, tmp_path: Path) -> Path:
    """A small corpus in a directory and on the site."""
    root = make.small_landing(tmp_path / "in")
    make.land(
        root,
        {
            "_source.json": json.dumps({"source": "ours", "licence": "CC-BY-4.0"}).encode(),
            "notes/one file.txt": make.prose(9).encode(),
            "image/gone.bin": b"",
        },
    )
    site.files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return root


def test_the_rows_are_those_of_the_directory(site: Site, corpus: Path, tmp_path: Path) -> None:
    expected = ingested(Lake(tmp_path / "local", landing=corpus))
    assert ingested(Lake(tmp_path / "remote", landing=site.url)) == expected
    assert sum(map(len, expected.values())) >= 15
    site.has_ranges = False
    assert ingested(Lake(tmp_path / "streamed", landing=site.url)) == expected


def test_a_changed_file_makes_its_shard_new_and_no_other_is_opened(site: Site, corpus: Path, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", landing=site.url)
    assert len(refresh(lake).new) == 8
    site.files["text/b.jsonl"] = make.jsonl([make.prose(40)])
    site.seen.clear()
    listing = refresh(Lake(tmp_path / "lake", landing=site.url))
    assert [shard.key for shard in listing.changed] == ["text/b.jsonl"] and not listing.new
    assert {one.path for one in site.seen if one.num_bytes and not one.path.endswith("/")} <= {
        "/text/b.jsonl",
        "/_source.json",
    }
    del site.files["text/b.jsonl"]
    assert refresh(Lake(tmp_path / "lake", landing=site.url)).gone == ("text/b.jsonl",)


def test_the_sensor_registers_what_the_site_lists(site: Site, corpus: Path, tmp_path: Path) -> None:
    resource = LakeResource.at(str(tmp_path / "lake"), addresses_of([site.url]))
    with dg.DagsterInstance.ephemeral() as instance:
        with dg.build_sensor_context(instance=instance, resources={"lake": resource}) as context:
            found = landing_zone(context)
        assert isinstance(found, dg.SensorResult)
        assert sum(len(one.partition_keys) for one in found.dynamic_partitions_requests) == 8


def test_scan_and_rows_take_an_address_with_a_login(site: Site, corpus: Path, tmp_path: Path) -> None:
    site.login = (USER, PASSWORD)
    scanned = CliRunner().invoke(app, ["scan", "--landing", with_login(site), "--json"])
    assert scanned.exit_code == 0, scanned.output
    assert len(json.loads(scanned.stdout)) == 8
    written = CliRunner().invoke(
        app, ["rows", "--landing", with_login(site), "--out", str(tmp_path / "rows"), "--on-error", "warn", "--json"]
    )
    assert written.exit_code == 0, written.output
    assert f'"{site.url}"' in (tmp_path / "rows" / "_provenance.json").read_text()
    assert PASSWORD not in scanned.output + written.output and not holding_secrets(tmp_path)


def test_a_run_leaves_no_credential_though_the_resource_was_given_one(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Dagster keeps the configuration of resources with each run. Later stages read the lake and no address."""
    for name in ("mmlake", "aiohttp", "fsspec", "asyncio", "dagster"):  # not all: numba would log every instruction
        caplog.set_level(logging.DEBUG, logger=name)
    site.login, site.files = (USER, PASSWORD), {"a.png": make.picture(1)}
    root = tmp_path / "lake"
    resource = LakeResource(root=str(root), landing=with_login(site))
    opened = resource.open()
    refresh(opened)
    opened.remember_landing()
    with open_instance(root) as instance:
        instance.add_dynamic_partitions(SHARD_SETS["image"], ["root"])
        job = definitions.build(resource, CudaExecutorResource(device="cpu")).resolve_job_def(ROW_JOBS["image"].name)
        done = job.execute_in_process(
            instance=instance, partition_key=row_key("image", "root"), asset_selection=[dg.AssetKey(["image", "items"])]
        )
        assert done.success
    assert checked_json.loads((root / "lake.json").read_bytes()) == {
        "format": FORMAT,
        "release": __version__,
        "landing": site.url,
    }
    assert Lake(root).tables.concat("items", "image").num_rows == 1
    assert not holding_secrets(root) and not holding_secrets(Path(os.environ["XDG_CACHE_HOME"]))
    assert PASSWORD not in caplog.text + "".join(capfd.readouterr())
    with open_instance(root) as instance:
        (run,) = (record.dagster_run for record in instance.get_run_records())
        # kept compressed, so no file shows it
        assert PASSWORD not in repr(run) + repr(instance.get_job_snapshot(run.job_snapshot_id))
    assert PASSWORD not in repr(resource)


def test_a_login_lives_as_long_as_the_connections_and_the_lake_remembers_the_address_alone(
    site: Site, corpus: Path, tmp_path: Path
) -> None:
    site.login = (USER, PASSWORD)
    lake = Lake(tmp_path / "lake", landing=with_login(site))
    refresh(lake)
    lake.remember_landing()
    assert checked_json.loads((tmp_path / "lake" / "lake.json").read_bytes()) == {
        "format": FORMAT,
        "release": __version__,
        "landing": site.url,
    }
    again = Lake(tmp_path / "lake", connections=lake.connections)
    assert again.landing.open("text/a.jsonl").read() == site.files["text/a.jsonl"]
    with pytest.raises(RemoteUnavailable, match="wants a login"):
        Lake(tmp_path / "lake").landing.open("text/a.jsonl")
    assert not holding_secrets(tmp_path)
