"""Draft, audit, publish: what moves a branch, what does not, and where a branch goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import mmlake.publish.publication as publication
from mmlake.errors import ContractBroken, LakeLocked
from mmlake.publish import VERSION_STEPS, Request, ask_for, read_result, run_version_step
from mmlake.publish.version import publish_version
from mmlake.versions import RECIPES, VersionStore
from tests import make
from tests.wiring.test_versions_published import killed_before_stamp


def test_a_rolled_back_branch_goes_on_from_where_it_is(site) -> None:
    """Until now it never moved again."""
    first = site.publish()
    site.land("text/b.jsonl", [make.prose(5)])
    second = site.publish()
    site.lake().versions.rollback("curated", first)
    assert site.publish() == second  # nothing changed: the branch stays where the rollback put it
    versions = site.lake().versions
    assert versions.branches()["curated"] == versions.resolve(first)
    site.land("text/c.jsonl", [make.prose(6)])
    third = site.publish()
    assert versions.branches()["curated"] == versions.resolve(third)
    assert versions.read(third).parents == (versions.resolve(first),)
    assert [move.action for move in versions.log("curated")] == ["advance", "rollback", "advance", "branch"]


def test_of_two_writers_one_wins_and_the_other_goes_on_from_there(site, monkeypatch) -> None:
    site.publish()
    site.land("text/b.jsonl", [make.prose(5)])
    killed_before_stamp(site, monkeypatch, "decision")  # the draft of one writer, made to follow curated-v001
    versions = site.lake().versions
    theirs = versions.build(
        versions.samples("curated").slice(1), recipe=RECIPES["curated"], settings_digest="", encoders={}
    )
    versions.publish(theirs.id, "curated", expect=versions.resolve("curated-v001"))
    lake = site.lake()
    with pytest.raises(LakeLocked, match="somebody moved the branch"):
        publish_version(lake, "curated-v002")
    assert versions.branches()["curated"] == theirs.id
    assert versions.is_draft("curated-v002")
    assert site.publish() == "curated-v003"
    assert versions.read("curated-v003").parents == (theirs.id,)
    assert versions.branches()["curated"] == versions.resolve("curated-v003")


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("manifest contract", lambda lake, name: next((lake.versions.root / "segments").rglob("*.parquet")).unlink()),
        ("shards contract", lambda lake, name: shutil.rmtree(lake.shards_dir / lake.versions.resolve(name))),
    ],
)
def test_a_draft_whose_check_fails_is_not_published_and_the_check_is_named(site, monkeypatch, check, broken) -> None:
    killed_before_stamp(site, monkeypatch, "publication")
    monkeypatch.setattr(VersionStore, "publish", lambda *arguments, **fields: pytest.fail("a branch moved"))
    lake = site.lake()
    broken(lake, "curated-v001")
    lake.versions._drafts.mark(lake.versions.resolve("curated-v001"))
    with pytest.raises(ContractBroken, match=f"stays a draft.*the check {check}"):
        run_version_step(VERSION_STEPS["publication"], lake, "curated-v001")


def test_what_the_probes_reject_stays_a_draft_where_the_recipe_asks_for_a_decision(site, monkeypatch) -> None:
    site.publish()
    site.land("text/b.jsonl", [make.prose(5)])
    rejected = {"outcome": "reject", "baseline": "curated-v001", "explanation": "worse"}
    monkeypatch.setattr(
        publication, "read_result", lambda lake, name, step: {**read_result(lake, name, step), **rejected}
    )
    asking = replace(RECIPES["curated"], needs_decision=True)
    with monkeypatch.context() as patch:
        patch.setattr(publication, "request_of", lambda lake, name: Request(recipe=asking, branch="curated"))
        with pytest.raises(ContractBroken, match="check decision: the probes reject it against curated-v001: worse"):
            site.publish()
    versions = site.lake().versions
    assert versions.branches()["curated"] == versions.resolve("curated-v001")
    assert site.publish() == "curated-v002"  # the same draft, where the recipe asks for none
    assert versions.branches()["curated"] == versions.resolve("curated-v002")


def test_a_denied_licence_is_found_before_the_branch_moves(site, monkeypatch) -> None:
    killed_before_stamp(site, monkeypatch, "publication")
    denying = replace(RECIPES["curated"], allow_licences=("MIT",))
    monkeypatch.setattr(publication, "request_of", lambda lake, name: Request(recipe=denying, branch="curated"))
    lake = site.lake()
    lake.versions._drafts.mark(lake.versions.resolve("curated-v001"))
    with pytest.raises(ContractBroken, match="the check licence policy"):
        run_version_step(VERSION_STEPS["publication"], lake, "curated-v001")


def test_any_recipe_goes_to_any_branch(site) -> None:
    lake = site.catalogued()
    ask_for(lake, "trial-v001", Request(recipe=RECIPES["everything"], branch="trial", message="a trial"))
    publish_version(lake, "trial-v001")
    made = lake.versions.read("trial")
    assert (made.id, made.message, made.recipe.name) == (lake.versions.resolve("trial-v001"), "a trial", "everything")
    assert made.num_samples == 3
