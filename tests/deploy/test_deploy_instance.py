"""deploy/dagster.yaml and dagster_cloud.yaml, held against Dagster's own schema; nothing connects to a database."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config
from packaging.requirements import Requirement

from mmlake_assets.instance import _DAGSTER_YAML

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
POSTGRES = yaml.safe_load((ROOT / "deploy/dagster.yaml").read_text())["storage"]["postgres"]["postgres_db"]


@pytest.fixture(scope="module")
def config():
    """The file as Dagster validates it, defaults filled in."""
    return dagster_instance_config(str(ROOT / "deploy"))[0]


def test_runs_events_and_schedules_are_in_postgres(config):
    assert list(config["storage"]) == ["postgres"]


def test_telemetry_is_off(config):
    assert config["telemetry"] == {"enabled": False}


def test_a_run_that_waits_for_a_pool_waits_in_the_queue(config):
    assert config["concurrency"]["pools"] == {"granularity": "run", "default_limit": 1}


def test_a_cancelled_run_gives_its_slot_back(config):
    assert config["run_monitoring"]["enabled"]
    assert config["run_monitoring"]["free_slots_after_run_end_seconds"] > 0


def test_runs_are_retried(config):
    assert config["run_retries"]["enabled"]
    assert config["run_retries"]["max_retries"] == 2


def test_deployment_and_laptop_agree_on_pools_and_retries():
    laptop, deployment = yaml.safe_load(_DAGSTER_YAML), yaml.safe_load((ROOT / "deploy/dagster.yaml").read_text())
    assert laptop["concurrency"]["pools"] == deployment["concurrency"]["pools"]
    assert laptop["run_retries"] == deployment["run_retries"]


def test_every_process_is_given_what_the_storage_reads():
    wanted = {value["env"] for value in POSTGRES.values() if isinstance(value, dict)}
    assert {"MMLAKE_PG_PASSWORD"} < wanted
    assert {
        name: wanted - SERVICES[name]["environment"].keys()
        for name in ("prepare", "code", "daemon", "webserver", "viewer")
    } == dict.fromkeys(("prepare", "code", "daemon", "webserver", "viewer"), set())


def test_no_value_that_differs_between_places_stands_in_the_file():
    assert {name for name, value in POSTGRES.items() if not isinstance(value, dict)} == {"scheme"}


def test_the_database_driver_is_named():
    """SQLAlchemy 2.1 takes another driver for plain `postgresql://`, which dagster-postgres 0.29 cannot use."""
    assert POSTGRES["scheme"] == "postgresql+psycopg2"


def test_a_password_with_signs_of_an_address_survives():
    from sqlalchemy.engine import make_url

    utils = pytest.importorskip("dagster_postgres.utils", reason="the extra postgres is not installed")
    given = {
        "scheme": POSTGRES["scheme"],
        "hostname": "postgres",
        "port": 5432,
        "username": "mmlake",
        "password": "p@ss:w/ord?#%",
        "db_name": "mmlake",
    }
    assert make_url(utils.pg_url_from_config({"postgres_db": given})).password == "p@ss:w/ord?#%"


def test_the_postgres_extra_keeps_sqlalchemy_below_the_release_that_breaks_it():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["postgres"]
    sqlalchemy = next(one for text in extra if (one := Requirement(text)).name == "sqlalchemy")
    assert ("2.0.40" in sqlalchemy.specifier, "2.1.0" in sqlalchemy.specifier) == (True, False)


def test_the_hosted_location_is_the_one_that_every_other_file_names():
    """The shape that Dagster's own `ci check` accepts: a list of locations with a name, one code source, and what to
    build."""
    locations = yaml.safe_load((ROOT / "dagster_cloud.yaml").read_text())["locations"]
    module = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dagster"]["module_name"]
    assert locations == [
        {"location_name": "mmlake", "code_source": {"module_name": module}, "build": {"directory": "."}}
    ]
