"""Dockerfile and .dockerignore: what is copied is let through, nothing else is, and nothing runs as root."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LINES = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
RUNTIME = LINES[max(at for at, line in enumerate(LINES) if line.startswith("FROM")) :]
COPIED = sorted(
    word for line in LINES if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
)
ADMITTED = sorted(line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!"))


def test_the_build_sees_just_what_it_copies():
    assert ADMITTED == COPIED


def test_everything_else_is_kept_out_first():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"


def test_all_three_packages_are_copied():
    assert {"mmlake", "mmlake_resources", "mmlake_assets"} <= set(COPIED)


def test_the_image_runs_as_an_ordinary_user():
    users = [line.split()[1] for line in RUNTIME if line.startswith("USER")]
    assert users == ["mmlake"]


def test_no_compiler_and_no_cache_come_from_the_build_stage():
    assert [line.split()[-1] for line in RUNTIME if line.startswith("COPY --from")] == ["/opt/mmlake/venv"]


def test_torch_is_installed_before_anything_that_would_pull_its_own():
    installs = [line for line in LINES if "pip install" in line]
    assert [at for at, line in enumerate(installs) if '"$TORCH"' in line] < [
        at for at, line in enumerate(installs) if "EXTRAS" in line
    ]


def test_dependencies_are_held_by_the_constraints():
    assert re.search(r"pip install --constraint constraints.txt", DOCKERFILE)


def test_extras_of_image_and_compose_exist_and_hold_one_faiss():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    default = re.search(r'ARG EXTRAS="([^"]+)"', DOCKERFILE)[1].split(",")
    assert default == yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["code"]["build"]["args"][
        "EXTRAS"
    ].split(",")
    assert set(default) <= known.keys()
    assert {"cpu", "gpu"} & set(default) == {"cpu"}


def test_the_python_of_the_image_is_one_that_the_project_supports():
    python = re.search(r"ARG PYTHON=(\S+)", DOCKERFILE)[1]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].startswith(f">={python}")


@pytest.mark.parametrize(
    "setting", ["DO_NOT_TRACK=1", "DAGSTER_DISABLE_TELEMETRY=yes", "WDS_SECURE=1", "DAGSTER_HOME=/lake/dagster"]
)
def test_the_image_sets(setting):
    assert any(line.startswith("ENV") and setting in line.split() for line in RUNTIME)


def test_no_secret_is_built_in():
    assert [
        line for line in LINES if line.startswith(("ARG", "ENV")) and re.search("PASSWORD|SECRET|TOKEN", line)
    ] == []
