"""Environments of their own: made by one command from an index, gone on with when interrupted, with clear errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake import environments
from mmlake.cli import app
from mmlake.environments import Environment, add_environment, installed, python_of, remove_environment, site_packages
from mmlake.errors import MissingExtra, MmlakeError, RemoteUnavailable, SettingsError

NAME = "tiny"


def wheel(folder: Path, version: str, text: str = "SIZE = 1\n") -> None:
    """A package in the folder, as an index has it."""
    folder.mkdir(exist_ok=True)
    info = f"tinylib-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tinylib-{version}-py3-none-any.whl", "w") as file:
        file.writestr("tinylib.py", text)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinylib\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def row(monkeypatch, tmp_path):
    """Puts a small environment into the table; its index is a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))

    def put(**changed: object) -> None:
        plain = {"requirements": ("tinylib>=1",), "module": "tinylib", "size": "1 MB", "licence": "MIT"}
        made = Environment(name=NAME, what="a test", **(plain | changed))
        monkeypatch.setattr(environments, "ENVIRONMENTS", {**environments.ENVIRONMENTS, NAME: made})

    put()
    return put


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python without packages: an environment that was interrupted early."""
    folder = tmp_path_factory.mktemp("bare") / NAME
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def begun(bare, tmp_path):
    """The folder of environments with that one in it."""
    shutil.copytree(bare, tmp_path / "e" / NAME, symlinks=True)


def test_an_environment_is_made_used_kept_and_removed(row, tmp_path):
    wheel(tmp_path / "wheels", "1.2")
    said: list[str] = []
    found = add_environment(NAME, folder=tmp_path / "e", report=said.append)
    assert (found.status, found.versions["tinylib"]) == ("ready", "1.2")
    assert any("Installing" in text for text in said)
    python = python_of(NAME, purpose="a test", folder=tmp_path / "e")
    assert os.path.realpath(python) == os.path.realpath(sys.executable)
    assert (site_packages(NAME, tmp_path / "e") / "tinylib.py").is_file()
    said.clear()
    assert add_environment(NAME, folder=tmp_path / "e", report=said.append).status == "ready"
    assert said == []  # nothing was done
    row(requirements=("tinylib>=2",))
    assert installed(NAME, tmp_path / "e").status == "outdated"
    assert remove_environment(NAME, folder=tmp_path / "e")
    assert not remove_environment(NAME, folder=tmp_path / "e")
    with pytest.raises(MissingExtra, match="mmlake environments add tiny"):
        python_of(NAME, purpose="a test", folder=tmp_path / "e")


def test_an_interrupted_environment_is_no_environment_and_is_gone_on_with(row, begun, tmp_path):
    (tmp_path / "wheels").mkdir()
    with pytest.raises(MmlakeError, match="nothing that fits"):
        add_environment(NAME, folder=tmp_path / "e")
    assert installed(NAME, tmp_path / "e").status == "incomplete"
    assert site_packages(NAME, tmp_path / "e") is None
    with pytest.raises(MissingExtra):
        python_of(NAME, purpose="a test", folder=tmp_path / "e")
    made = (tmp_path / "e" / NAME / "pyvenv.cfg").stat().st_ino
    wheel(tmp_path / "wheels", "1.0")
    assert add_environment(NAME, folder=tmp_path / "e").status == "ready"
    assert (tmp_path / "e" / NAME / "pyvenv.cfg").stat().st_ino == made  # what was there was kept


def test_a_library_that_does_not_load_is_no_environment(row, begun, tmp_path):
    wheel(tmp_path / "wheels", "1.0", "import nothing_of_that_name\n")
    with pytest.raises(MmlakeError, match="does not load.*nothing_of_that_name"):
        add_environment(NAME, folder=tmp_path / "e")
    assert installed(NAME, tmp_path / "e").status == "incomplete"


def test_an_index_that_does_not_answer_says_so(row, begun, tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(RemoteUnavailable, match="index does not answer.*what was fetched is kept"):
        add_environment(NAME, folder=tmp_path / "e")


def test_a_wrong_python_is_named_before_anything_is_made(row, tmp_path):
    row(least=(3, 99), most=(3, 99))
    with pytest.raises(SettingsError, match="needs Python 3.99 to 3.99"):
        add_environment(NAME, folder=tmp_path / "e")
    with pytest.raises(SettingsError, match="name another with --python"):
        add_environment(NAME, folder=tmp_path / "e", python=sys.executable)
    with pytest.raises(SettingsError, match="does not start"):
        add_environment(NAME, folder=tmp_path / "e", python=tmp_path / "python")
    assert not (tmp_path / "e" / NAME).exists()


def test_the_command_lists_and_adds_as_json(row, begun, tmp_path):
    wheel(tmp_path / "wheels", "1.2")
    folder = ["--folder", str(tmp_path / "e"), "--json"]
    added = CliRunner().invoke(app, ["environments", "add", NAME, *folder])
    assert added.exit_code == 0 and json.loads(added.stdout)["status"] == "ready"
    listed = json.loads(CliRunner().invoke(app, ["environments", "list", *folder]).stdout)
    assert {one["name"]: one["status"] for one in listed} == {
        **dict.fromkeys(("whisperx", "pyannote", "demucs", "resemblyzer"), "absent"),
        NAME: "ready",
    }
    removed = CliRunner().invoke(app, ["environments", "remove", NAME, *folder])
    assert json.loads(removed.stdout) == {"name": NAME, "removed": True}


def test_an_unknown_name_names_the_known_ones():
    with pytest.raises(SettingsError, match="demucs, pyannote, resemblyzer, whisperx"):
        installed("whisper")
