"""`mmlake recipe` and `mmlake publish` on a real lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import MmlakeError, SettingsError
from mmlake_assets import console
from mmlake_assets.run import run_lake
from mmlake_resources import CudaExecutorResource
from tests.lakes import copied

RUNNER = CliRunner()
MINE = 'name = "pictures"\ndescription = "Pictures alone."\nwhere = "modality = \'image\'"\n'


def call(*words: object) -> str:
    result = RUNNER.invoke(app, [str(word) for word in words])
    if isinstance(result.exception, MmlakeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def read(*words: object) -> dict:
    return json.loads(call(*words, "--json"))


@pytest.fixture(scope="module")
def done(done, tmp_path_factory) -> Iterator[object]:
    """A copy, since versions are published into it, and one of them is damaged."""
    yield from copied(done, tmp_path_factory.mktemp("recipes"))


@pytest.fixture
def lake(done) -> Path:
    assert console.entry
    return Path(done.resource.root)


@pytest.fixture
def mine(tmp_path) -> Path:
    (path := tmp_path / "mine.toml").write_text(MINE)
    return path


@pytest.mark.parametrize("name", ["list", "show", "check", "diff"])
def test_every_command_on_recipes_has_help_with_an_example(name: str) -> None:
    assert f"mmlake recipe {name}" in call("recipe", name, "--help")


def test_recipes_of_package_and_lake_are_listed(lake: Path, mine: Path) -> None:
    (lake / "recipes").mkdir()
    (lake / "recipes" / "p.toml").write_text(MINE.replace("pictures", "of-lake"))
    rows = read("recipe", "list", "--lake", lake)["recipes"]
    assert [row["name"] for row in rows] == ["everything", "curated", "of-lake"]
    assert "Pictures alone." in call("recipe", "list", "--lake", lake)


def test_a_recipe_is_shown_with_its_defaults(lake: Path, mine: Path) -> None:
    shown = read("recipe", "show", mine, "--lake", lake)
    assert (shown["where"], shown["drop_tiers"], shown["seed"]) == (
        "modality = 'image'",
        ["exact", "near", "semantic"],
        0,
    )
    assert shown["licences"] == {"allow": [], "deny": []}
    assert "modality = 'image'" in call("recipe", "show", mine, "--lake", lake)


def test_a_recipe_is_checked_with_and_without_a_lake(lake: Path, mine: Path, tmp_path) -> None:
    alone = read("recipe", "check", mine, "--lake", tmp_path / "none")
    assert alone["checked_against"] is None
    assert read("recipe", "check", mine, "--lake", lake)["num_admitted"] > 0
    mine.write_text(MINE.replace("modality", "modalty"))
    with pytest.raises(SettingsError, match=r"mine\.toml: where: .*'modalty' \(near: modality[,)]"):
        call("recipe", "check", mine, "--lake", lake)


def test_recipes_are_compared_key_by_key(lake: Path, mine: Path) -> None:
    found = read("recipe", "diff", "curated", mine, "--lake", lake)
    assert (set(found["keys"]), found["is_same"]) == ({"name", "description", "where"}, False)
    assert read("recipe", "diff", mine, mine, "--lake", lake)["keys"] == {}


def test_a_dry_run_publishes_nothing(lake: Path, mine: Path, done) -> None:
    before = done.lake.versions.branches()
    found = read("publish", "--recipe", mine, "--dry-run", "--lake", lake)
    assert found["num_admitted"] + sum(found["causes"].values()) == found["num_samples"]
    assert [clause["clause"] for clause in found["clauses"]][-2:] == ["where", "drop_tiers"]
    assert "nothing was published" in call("publish", "--recipe", mine, "--dry-run", "--lake", lake)
    assert done.lake.versions.branches() == before


def test_a_file_is_published_on_a_branch_of_its_own_and_once(lake: Path, mine: Path, done) -> None:
    made = read("publish", "--recipe", mine, "--branch", "try-pictures", "--lake", lake, "--message", "first")
    assert (made["version"], made["branch"], made["is_new"]) == ("try-pictures-v001", "try-pictures", True)
    held = done.lake.versions.samples("try-pictures")
    assert set(held["modality"].to_pylist()) == {"image"}
    again = read("publish", "--recipe", mine, "--branch", "try-pictures", "--lake", lake)
    assert (again["version"], again["is_new"], again["dagster_runs"]) == ("try-pictures-v001", False, [])
    assert {"everything", "curated", "try-pictures"} == set(done.lake.versions.branches())


@pytest.mark.parametrize("branch", ["A", "a b", "../x", "x" * 64])
def test_a_branch_that_cannot_name_versions_is_refused(lake: Path, mine: Path, branch: str) -> None:
    with pytest.raises(SettingsError, match="cannot name versions"):
        call("publish", "--recipe", mine, "--branch", branch, "--lake", lake)


def test_a_run_with_an_unknown_recipe_fails_before_any_table_is_made(done, monkeypatch) -> None:
    """It made every table first."""
    monkeypatch.setattr("mmlake_assets.run.refresh", lambda lake: pytest.fail("the landing zone was listed"))
    with pytest.raises(SettingsError, match=r"there is no recipe 'currated' \(near: curated\)"):
        run_lake(
            done.resource,
            CudaExecutorResource(device="cpu"),
            done.instance,
            recipes=["everything", "currated"],
            phase=lambda name, total: None,
        )


def test_verify_reports_a_damaged_mixture(lake: Path, mine: Path, done) -> None:
    mine.write_text(MINE.replace("pictures", "mixed") + '[mixture]\nby = "source"\ntemperature = 2\n')
    made = read("publish", "--recipe", mine, "--lake", lake)
    order = done.lake.shards_dir / made["id"] / "mixture.order"
    assert read("verify", "mixed-v001", "--lake", lake)["problems"] == []
    order.write_bytes(order.read_bytes()[::-1] + b"x")
    result = RUNNER.invoke(app, ["verify", "mixed-v001", "--lake", str(lake), "--json"])
    assert result.exit_code == 5
    assert "mixture.order does not hash to" in result.stdout


def test_a_check_without_a_lake_says_what_it_did_not_check(tmp_path: Path, mine: Path) -> None:
    assert "columns, quotas and groups were not checked" in call("recipe", "check", mine, "--lake", tmp_path / "no")


def test_a_file_that_is_no_toml_is_not_taken_for_the_name_of_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"mine\.json is a file of another kind; .* ends in \.toml"):
        call("recipe", "check", "mine.json")
