"""What the configuration of a run may say: nothing of where the lake is, what it reads, or where it writes."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from mmlake.errors import SettingsError
from mmlake_assets import definitions
from mmlake_assets.publish_config import ask_as_configured
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make

FIELDS = sorted(LakeResource.model_fields)
JOBS = sorted(job.name for job in definitions.defs.resolve_all_job_defs())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    root = tmp_path_factory.mktemp("lake")
    return definitions.build(LakeResource(root=str(root)), CudaExecutorResource(device="cpu"))


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_the_lake_is_taken_from_a_run(built: dg.Definitions, field: str) -> None:
    """A request that named `root` and `landing` made a lake in a directory of its choice, of files of its choice."""
    job = built.resolve_job_def("text_rows")
    with pytest.raises(dg.DagsterInvalidConfigError, match=f'unexpected config entry "{field}"'):
        dg.validate_run_config(job, {"resources": {"lake": {"config": {field: "/etc"}}}})


@pytest.mark.parametrize("name", JOBS)
def test_no_run_says_where_its_outputs_are_written(built: dg.Definitions, name: str) -> None:
    job = built.resolve_job_def(name)
    with pytest.raises(dg.DagsterInvalidConfigError, match='unexpected config entry "base_dir"'):
        dg.validate_run_config(job, {"resources": {"io_manager": {"config": {"base_dir": "/etc"}}}})


@pytest.mark.parametrize("name", JOBS)
def test_no_configuration_of_a_job_has_the_paths_of_this_machine(built: dg.Definitions, name: str) -> None:
    """The launchpad shows what a run could set: resources have the device alone."""
    config = dg.validate_run_config(built.resolve_job_def(name), {})
    assert config["resources"].pop("compute", {"config": {"device": "cpu"}}) == {"config": {"device": "cpu"}}
    assert config["resources"] == {"lake": {"config": {}}, "io_manager": {"config": {}}}


@pytest.mark.parametrize("name", JOBS)
def test_no_configuration_of_a_run_names_a_variable_of_the_environment(built: dg.Definitions, name: str) -> None:
    """A device of {"env": "AWS_SECRET_ACCESS_KEY"} was looked up, and the error about the device showed it."""
    with pytest.raises(dg.DagsterInvalidConfigError, match="device"):
        dg.validate_run_config(
            built.resolve_job_def(name), {"resources": {"compute": {"config": {"device": {"env": "HOME"}}}}}
        )


def test_a_run_names_its_device() -> None:
    with dg.build_resources({"compute": CudaExecutorResource(device="cuda")}) as given:
        assert given.compute.device == "cuda"
    with dg.build_resources(
        {"compute": CudaExecutorResource()}, resource_config={"compute": {"config": {"device": "cpu"}}}
    ) as given:
        assert given.compute.device == "cpu"


def test_a_run_has_a_pool_of_its_own_and_the_connections_of_the_resource(tmp_path: Path) -> None:
    resource = LakeResource(root=str(tmp_path), landing="https://ann:secret@host.example/a/")
    with dg.build_resources({"lake": resource}) as first, dg.build_resources({"lake": resource}) as second:
        assert first.lake._pool is not None
        assert len({id(one._pool) for one in (resource, first.lake, second.lake)}) == 3
        assert first.lake._connections is second.lake._connections is resource._connections
    assert resource._pool is None


@pytest.mark.parametrize(
    "where", ["{base}/secret.toml", "{base}/lake/recipes/../../secret.toml", "{base}/lake/link.toml"]
)
def test_a_recipe_of_a_run_is_not_read_outside_of_the_lake(done, where: str) -> None:
    make.land(done.base, {"secret.toml": b'password = "hunter2"\n'})
    link = done.base / "lake/link.toml"
    link.unlink(missing_ok=True)
    link.symlink_to(done.base / "secret.toml")
    with pytest.raises(SettingsError, match=r"is not in lake .*; put it into .*/recipes") as caught:
        ask_as_configured(done.lake, "mine-v001", {"recipe": where.format(base=done.base), "branch": "", "message": ""})
    assert "hunter2" not in str(caught.value)


def test_a_recipe_file_in_the_lake_is_taken(done) -> None:
    lake = done.lake
    text = b'name = "mine"\ndescription = "All of it."\n'
    make.land(lake.root / "recipes", {"mine.toml": text})
    ask_as_configured(lake, "mine-v001", {"recipe": str(lake.root / "recipes/mine.toml"), "branch": "", "message": ""})
    assert (lake.root / "results/mine-v001/request.json").exists()


@pytest.mark.parametrize("step", ["manifest", "publication"])
def test_a_version_whose_name_is_a_path_is_refused(own, step: str) -> None:
    """Partitions of versions are added by anybody who may use the UI."""
    name = "../../elsewhere"
    make.land(own.base, {"elsewhere/request.json": b"{}"})  # was read, and named in the error
    own.instance.add_dynamic_partitions("versions", [name])
    built = definitions.build(own.resource, CudaExecutorResource(device="cpu"))
    result = built.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=own.instance, asset_selection=[dg.AssetKey(step)], partition_key=name, raise_on_error=False
    )
    error = next(event for event in result.all_events if event.is_step_failure).step_failure_data.error
    while error.cause:
        error = error.cause
    assert "is not <branch>-v<number>" in error.message
