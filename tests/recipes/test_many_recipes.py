"""A folder of many recipes: what all of them cost is what each costs, and not each time all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake import publish
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.publish import requests
from mmlake.recipes import files as recipe_files
from mmlake.recipes import find_recipe, sql

COUNT = 12


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    folder = tmp_path / "lake" / "recipes"
    folder.mkdir(parents=True)
    for number in range(COUNT):
        text = f"name = 'r{number:02}'\ndescription = 'One of many.'\nwhere = 'num_words >= {number}'\n"
        (folder / f"r{number:02}.toml").write_text(text)
    (tmp_path / "landing").mkdir()
    return Lake(tmp_path / "lake", landing=tmp_path / "landing")


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[tuple]:
    """Where the arguments of each call of the module's function are put from now on."""
    calls: list[tuple] = []
    called = getattr(module, name)

    def noted(*given, **named):
        calls.append(given)
        return called(*given, **named)

    monkeypatch.setattr(module, name, noted)
    return calls


def test_all_recipes_are_asked_for_with_one_reading_of_their_folder_and_of_the_stamps(lake, monkeypatch) -> None:
    read = counted(monkeypatch, recipe_files, "read")
    inspected = counted(monkeypatch, requests, "catalog_is_current")
    names = [f"r{number:02}" for number in range(COUNT)]
    asked = list(publish.all_wanted(lake, names))
    assert len(read) == COUNT and len(inspected) == 1
    assert [one.branch for one in asked] == names
    assert asked == [publish.wanted(lake, name) for name in names]


def test_a_request_that_is_made_already_stays_and_reads_nothing(lake, monkeypatch) -> None:
    made = publish.Request(recipe=find_recipe(lake.root, "r03"), branch="other", message="kept")
    read = counted(monkeypatch, recipe_files, "read")
    assert list(publish.all_wanted(lake, [made])) == [made] and not read


def test_recipes_are_refused_when_it_is_their_turn(lake) -> None:
    asked = publish.all_wanted(lake, ["r00", "r99", "r01"])
    assert next(asked).branch == "r00"
    with pytest.raises(SettingsError, match="there is no recipe 'r99'"):
        next(asked)


def test_conditions_are_parsed_by_one_database(monkeypatch) -> None:
    """It starts in the time of fifty conditions, and each of more than 64 recipes started one whenever it was read."""
    opened = counted(monkeypatch, sql, "_database")
    sql._parser().close()
    for number in range(100):
        assert sql.Condition(f"num_words > {number}", where="a test").columns == ("num_words",)
    assert len(opened) == 1


def test_a_database_that_could_not_parse_is_not_asked_again(monkeypatch) -> None:
    opened = counted(monkeypatch, sql, "_database")
    sql._parser().close()
    with pytest.raises(SettingsError):
        sql.Condition("'\ud800' = source", where="a test")
    assert sql.Condition("num_words > 7", where="another test").columns == ("num_words",)
    assert len(opened) == 2
