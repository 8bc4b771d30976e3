"""`mmlake scan --ignored`: what nothing reads of a landing zone is listed with the reason, by its name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import SettingsError
from mmlake.landing import FilesystemLanding, LocalLanding, Mounts
from tests import make

NAMES = {
    ".DS_Store": "hidden",
    "pictures/._photo.jpg": "hidden",  # what a Mac keeps of a file on foreign file systems
    "pictures/.photo.jpg.a8XqZ1": "hidden",  # rsync, while it writes
    "pictures/late.jpg.part": "unfinished",
    "pictures/_SUCCESS": "marker",
}


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    files = dict.fromkeys([*NAMES, ".git/config", "pictures/.cache/x.jpg"], b"12345")
    return make.land(tmp_path / "in", files | {"pictures/a.jsonl": make.jsonl(["a text"])})


def scan(*words: object) -> str:
    result = CliRunner().invoke(app, ["scan", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_name_that_listings_leave_out_is_listed_with_its_reason(zone: Path) -> None:
    data = json.loads(scan("--landing", zone, "--ignored", "--json"))
    found = {one["path"]: (one["reason"], one["size_bytes"]) for one in data["left_out"]}
    directories = {".git/": ("hidden", 0), "pictures/.cache/": ("hidden", 0)}
    assert found == {name: (reason, 5) for name, reason in NAMES.items()} | directories
    assert data["counts"] == {"hidden": 5, "marker": 1, "unfinished": 1}


def test_every_file_is_either_listed_or_left_out(zone: Path) -> None:
    landing = LocalLanding(zone)
    listed = {entry.path for _, entries in landing.directories() for entry in entries}
    left_out = {one.path for one in landing.left_out()}
    files = {path.relative_to(zone).as_posix() for path in zone.rglob("*") if path.is_file()}
    below = {path for path in files for one in left_out if one.endswith("/") and path.startswith(one)}
    assert not listed & left_out
    assert listed | below | {one for one in left_out if not one.endswith("/")} == files


def test_a_scan_says_how_many_names_it_left_out(zone: Path) -> None:
    assert "left out by their names: 5 hidden, 1 marker, 1 unfinished; `mmlake scan --ignored`" in scan(
        "--landing", zone
    )
    assert "photo.jpg" in scan("--landing", zone, "--ignored")
    assert "left out" not in scan("--landing", make.land(zone.parent / "plain", {"a.txt": b"a text"}))


def test_names_of_several_landing_zones_begin_with_theirs(zone: Path) -> None:
    paths = {one.path for one in Mounts({"x": LocalLanding(zone)}).left_out()}
    assert {"x/.git/", "x/pictures/._photo.jpg"} <= paths


def test_storage_elsewhere_is_refused_and_not_called_empty() -> None:
    with pytest.raises(SettingsError, match="cannot be listed"):
        list(FilesystemLanding("memory://in").left_out())
