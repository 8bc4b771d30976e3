"""docker-compose.yml and its GPU override: valid for old and new Compose, reachable only from this machine, no
secret inside."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = ("docker-compose.yml", "deploy/docker-compose.gpu.yml")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / FILES[0]).read_text())
GPU: dict[str, Any] = yaml.safe_load((ROOT / FILES[1]).read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("mmlake:")]
SERVERS = [name for name in SERVICES if name != "prepare"]


@pytest.mark.parametrize("file", FILES)
def test_the_file_is_valid_by_the_compose_specification(file):
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", FILES)
def test_the_file_has_no_top_level_name_which_compose_one_refuses(file):
    assert not {"name", "version"} & yaml.safe_load((ROOT / file).read_text()).keys()


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_docker_compose_reads_both_files_together():
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "MMLAKE_PG_PASSWORD": "x", "MMLAKE_LANDING_DIR": "/data"}
    environment["MMLAKE_UI_TOKEN"] = "x"
    files = [part for file in FILES for part in ("-f", file)]
    done = subprocess.run(
        ["docker-compose", *files, "config", "-q"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_has_a_health_check(name):
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_until_what_it_needs_is_healthy(name):
    needs = SERVICES[name].get("depends_on", {})
    expected = {other: "service_completed_successfully" if other == "prepare" else "service_healthy" for other in needs}
    assert {other: how["condition"] for other, how in needs.items()} == expected


def test_everything_of_ours_comes_after_the_database():
    def reached(name: str) -> set[str]:
        needs = SERVICES[name].get("depends_on", {})
        return set(needs).union(*(reached(other) for other in needs)) if needs else set()

    assert [name for name in [*OURS, "proxy"] if "postgres" not in reached(name)] == []


@pytest.mark.parametrize("name", SERVICES)
def test_published_ports_are_bound_to_this_machine(name):
    assert [port for port in SERVICES[name].get("ports", []) if not str(port).startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", ["postgres", "code", "daemon", "webserver"])
def test_a_service_that_trusts_its_clients_is_not_published(name):
    """The web server has no login and the code server runs code: only the proxy reaches the one, nobody outside the
    other."""
    assert not {"ports", "network_mode"} & SERVICES[name].keys()


@pytest.mark.parametrize("name", ["webserver", "viewer"])
def test_every_web_server_is_behind_the_door_and_has_a_token_of_its_own(name):
    """Other containers reach them, and Dagster's own believes whoever does."""
    command = SERVICES[name]["command"]
    assert command[:3] == ["python", "-m", "mmlake_assets.door_server"]
    assert command[command.index("--host") + 1] == "0.0.0.0"
    tokens = [SERVICES[one]["environment"]["MMLAKE_UI_TOKEN"] for one in ("webserver", "viewer")]
    assert len(set(tokens)) == 2
    assert not any("dagster-webserver" in str(service.get("command")) for service in SERVICES.values())


@pytest.mark.parametrize("name", ["webserver", "viewer"])
def test_the_command_of_a_web_server_is_understood(name):
    import typer

    from mmlake_assets.door_server import serve

    program = typer.Typer()
    program.command()(serve)
    given = typer.main.get_command(program).make_context(name, SERVICES[name]["command"][3:]).params
    assert (given["read_only"], given["port"]) == (name == "viewer", 3000)


def test_the_viewer_is_read_only_and_not_started_by_default():
    assert "--read-only" in SERVICES["viewer"]["command"]
    assert SERVICES["viewer"]["profiles"] == ["viewer"]


def test_the_object_store_is_not_started_by_default():
    assert SERVICES["minio"]["profiles"] == ["s3"]


def test_the_database_is_on_an_internal_network_alone():
    assert SERVICES["postgres"]["networks"] == ["storage"]
    assert COMPOSE["networks"]["storage"]["internal"] is True


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_stands_in_the_file(name):
    """A password comes from the environment with a message where it is missing; MinIO's may be empty, and then it
    refuses to start."""
    secrets = {
        key: value
        for key, value in SERVICES[name].get("environment", {}).items()
        if re.search("PASSWORD|SECRET|TOKEN|KEY|ROOT_USER", key)
    }
    allowed = r"\$\{[A-Z0-9_]+(:\?[^}]+|:-)\}"
    assert {key: value for key, value in secrets.items() if not re.fullmatch(allowed, value)} == {}


@pytest.mark.parametrize(
    ("user", "password", "code"), [("", "", 1), ("me", "", 1), ("", "secret", 1), ("me", "secret", 0)]
)
def test_the_object_store_refuses_to_start_without_credentials_of_its_own(tmp_path, user, password, code):
    server = tmp_path / "minio"
    server.write_text("#!/bin/sh\nexit 0\n")
    server.chmod(0o755)
    script = SERVICES["minio"]["entrypoint"][2].replace("$$", "$")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password}
    assert subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False).returncode == code


@pytest.mark.parametrize("name", OURS)
def test_all_processes_share_one_dagster_home_in_the_lake(name):
    """`mmlake run` searches for its history in <lake>/dagster: another home would be another history."""
    environment = SERVICES[name]["environment"]
    assert environment["DAGSTER_HOME"] == f"{environment['MMLAKE_LAKE']}/dagster" == "/lake/dagster"


@pytest.mark.parametrize("name", OURS)
def test_lake_and_landing_zone_are_mounted_and_the_landing_zone_read_only(name):
    assert [volume.rpartition(":/")[2] for volume in SERVICES[name]["volumes"]] == ["lake", "landing:ro"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_privileges(name):
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_to_a_release(name):
    assert re.search(r":(\$\{MMLAKE_TAG:-cpu\}|.*\d.*)$", SERVICES[name]["image"])


def test_the_workspace_names_the_code_server_as_compose_starts_it():
    server = yaml.safe_load((ROOT / "deploy/workspace.yaml").read_text())["load_from"][0]["grpc_server"]
    command = SERVICES[server["host"]]["command"]
    assert [command[command.index(flag) + 1] for flag in ("--port", "--location-name")] == [
        str(server["port"]),
        server["location_name"],
    ]


def test_the_code_server_loads_the_module_that_the_laptop_workspace_loads():
    laptop = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"][0]["python_module"]
    command = SERVICES["code"]["command"]
    assert [command[command.index(flag) + 1] for flag in ("--module-name", "--location-name")] == [
        laptop["module_name"],
        laptop["location_name"],
    ]


def test_the_gpu_override_changes_the_process_that_executes_runs_and_no_other():
    assert list(GPU["services"]) == ["code"]
    device = GPU["services"]["code"]["deploy"]["resources"]["reservations"]["devices"][0]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_the_gpu_image_replaces_the_cpu_extra_and_has_a_tag_of_its_own():
    """faiss-gpu and faiss-cpu own the same folder."""
    code = GPU["services"]["code"]
    assert code["build"]["args"]["EXTRAS"].split(",") == [
        "gpu" if extra == "cpu" else extra for extra in SERVICES["code"]["build"]["args"]["EXTRAS"].split(",")
    ]
    assert code["image"] != SERVICES["code"]["image"].replace("${MMLAKE_TAG:-cpu}", "cpu")
