"""Deleting branches and tags of a lake: what publishes goes on, and names that it needs stay."""

from __future__ import annotations

import pytest

from mmlake import publish
from mmlake.errors import RefInUse, RefMissing
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.publish.version import publish_version
from mmlake.upkeep import checked_all, collect, named
from tests.wiring.conftest import Site

RECIPE = """
name = "trial"
description = "All texts"
statuses = ["ok", "flagged"]
"""


@pytest.fixture
def trial(site: Site) -> Site:
    """The lake with the version trial-v001 on the branch `trial`, by a recipe outside of the lake."""
    site.publish()
    (site.root.parent / "trial.toml").write_text(RECIPE)
    assert _publish_trial(site) == "trial-v001"
    return site


def _problems(lake: Lake) -> list[str]:
    kinds = [(kind, kind.units(lake)) for kind in named(())]
    return [
        one
        for checked in checked_all(lake, kinds, repair=False, advance_of=lambda kind: silent)
        for one in checked.left
    ]


def _publish_trial(site: Site) -> str:
    lake = site.lake()
    request = publish.wanted(lake, str(site.root.parent / "trial.toml"))
    name, is_new = publish.needs_version(lake, request.branch, request.recipe)
    if is_new:
        publish.ask_for(lake, name, request)
        publish_version(lake, name)
    return name


def test_a_branch_that_was_deleted_begins_anew_when_it_is_published_on(trial: Site) -> None:
    """Nothing was made, since the newest version of that name held the same; the branch stayed away."""
    lake = trial.lake()
    publish.delete_branch(lake, "trial")
    assert "trial" not in lake.versions.branches() and lake.versions.verify("trial-v001") == []
    assert _problems(lake) == []
    assert (_publish_trial(trial), _publish_trial(trial)) == ("trial-v002", "trial-v002")
    lake = trial.lake()
    assert lake.versions.branches()["trial"] == lake.versions.tags()["trial-v002"]
    assert lake.versions.read("trial").parents == ()
    assert lake.versions.read("trial").tree == lake.versions.read("trial-v001").tree
    assert _problems(lake) == []


def test_the_branch_of_a_recipe_and_the_name_of_a_version_stay(trial: Site) -> None:
    lake = trial.lake()
    with pytest.raises(RefInUse, match="that of a recipe"):
        publish.delete_branch(lake, "curated", force=True)
    with pytest.raises(RefInUse, match="published under"):
        publish.delete_tag(lake, "trial-v001", force=True)
    with pytest.raises(RefMissing):
        publish.delete_branch(lake, "everything")  # nothing was published on it yet
    (lake.root / "recipes").mkdir()
    (lake.root / "recipes" / "own.toml").write_text(RECIPE)
    with pytest.raises(RefInUse, match=r"own\.toml away first"):
        publish.delete_branch(lake, "trial")


def test_nothing_of_a_version_goes_with_its_branch_when_garbage_is_collected(trial: Site) -> None:
    lake = trial.lake()
    before = lake.versions.samples("trial-v001")
    publish.delete_branch(lake, "trial")
    collect(lake, now_s=1e12, grace_s=0)
    assert lake.versions.samples("trial-v001").equals(before) and _problems(lake) == []
