"""`--landing`, once or with names, on the command line and in the environment."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import SettingsError
from mmlake_assets import console, show
from mmlake_resources import LakeResource
from tests import make

RUNNER = CliRunner()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `mmlake run` takes for the landing zone, run after run."""
    seen: list[Any] = []

    def note(lake: Path, *, landing: object, **rest: object) -> SimpleNamespace:
        seen.append(landing)
        return SimpleNamespace(to_dict=dict, draw=lambda out: None)

    monkeypatch.setattr(show, "run_and_show", note)
    monkeypatch.delenv("MMLAKE_LANDING", raising=False)
    return seen


def run(*words: str) -> None:
    assert console.app is app
    result = RUNNER.invoke(app, ["run", *words, "--json"])
    assert result.exit_code == 0, result.output


def test_run_takes_one_several_or_none(given: list[Any]) -> None:
    run()
    run("--landing", "/data/my shards")
    run(
        "--landing",
        "coco=/data/coco",
        "--landing",
        "web=hf://datasets/HuggingFaceFW/fineweb-edu@main",
        "--landing",
        "old=",
    )
    assert given == [
        None,
        "/data/my shards",
        {"coco": "/data/coco", "web": "hf://datasets/HuggingFaceFW/fineweb-edu@main", "old": ""},
    ]


def test_the_environment_names_them_where_no_option_does(given: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMLAKE_LANDING", "coco=/data/coco speech=s3://corpora/LibriSpeech")
    run()
    run("--landing", "/data")
    monkeypatch.setenv("MMLAKE_LANDING", "/data/my shards")
    run()
    assert given == [{"coco": "/data/coco", "speech": "s3://corpora/LibriSpeech"}, "/data", "/data/my shards"]


def test_the_resource_opens_one_or_several(tmp_path: Path) -> None:
    make.land(tmp_path / "one", {"a.txt": b"a"})
    plain = LakeResource.at(str(tmp_path / "plain"), str(tmp_path / "one")).open()
    named = LakeResource.at(str(tmp_path / "named"), {"one": str(tmp_path / "one")}).open()
    assert [entry.path for _, entries in plain.landing.directories() for entry in entries] == ["a.txt"]
    assert [entry.path for _, entries in named.landing.directories() for entry in entries] == ["one/a.txt"]
    assert LakeResource.at(str(tmp_path / "plain"), None).landing is None


def test_the_resource_keeps_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = LakeResource(root="lake", landing="https://ann:secret@host.example/a/")
    several = LakeResource(root="lake", landings={"a": "https://ann:secret@host.example/a/", "old": ""})
    assert (resource.landing, several.landings) == (
        "https://host.example/a/",
        {"a": "https://host.example/a/", "old": ""},
    )
    assert resource.open().connections.logins.of("https://host.example/a/").password == "secret"


@pytest.mark.parametrize(
    "text", ["https:/ann:secret@host.example/a/", " https//ann:secret@host", "a=htps:/ann:sec/ret@host"]
)
def test_a_mistyped_address_is_reported_without_its_password(text: str) -> None:
    result = RUNNER.invoke(app, ["scan", "--landing", text])
    assert isinstance(result.exception, SettingsError) and "is not a directory" in str(result.exception)
    assert "secret" not in str(result.exception) and "sec/ret" not in str(result.exception)


@pytest.mark.parametrize("command", ["run", "scan", "rows"])
def test_help_names_every_kind_of_landing_zone(command: str) -> None:
    message = RUNNER.invoke(app, [command, "--help"], env={"COLUMNS": "2000"}).output
    assert all(kind in message for kind in ("s3://", "hf://", "http(s)://", "gs://", "sftp://", "NAME=ADDRESS"))


def test_scan_inspects_several(tmp_path: Path) -> None:
    make.land(tmp_path, {"one/a.jsonl": make.jsonl(["a"]), "two/b.jsonl": make.jsonl(["b"])})
    result = RUNNER.invoke(
        app, ["scan", "--landing", f"x={tmp_path / 'one'}", "--landing", f"y={tmp_path / 'two'}", "--json"]
    )
    assert [shard["key"] for shard in json.loads(result.stdout)] == ["x/a.jsonl", "y/b.jsonl"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x="], "names no landing zone"),
        (["x=/nowhere"], "/nowhere is not a directory"),
        (["/a", "/b"], "given 2 times"),
    ],
)
def test_scan_refuses_what_is_no_place(texts: list[str], message: str) -> None:
    result = RUNNER.invoke(app, ["scan", *(word for text in texts for word in ("--landing", text))])
    assert isinstance(result.exception, SettingsError) and message in str(result.exception)
