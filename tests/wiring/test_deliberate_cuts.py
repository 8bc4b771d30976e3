"""What somebody chose to leave out is no loss of retrieval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmlake.lake import Lake
from mmlake.publish import Request, ask_for, deliberate, read_result
from mmlake.publish.version import publish_version
from mmlake.versions import RECIPES, Recipe
from tests import make
from tests.thorough import drawn
from tests.wiring.conftest import Site

NUM_SHORT, NUM_LONG = 13, 17
NUM_LOW, NUM_PICTURES = drawn((39, 90), (130, 300))
LENIENT, STRICT = ({"text_too_short": [low, float("inf")]} for low in (11, 40))
RECIPE = replace(RECIPES["curated"], drop_tiers=("exact",))


def publish(site: Site, version: str, recipe: Recipe = RECIPE, bounds: dict | None = None) -> Lake:
    """The lake once the version is published on the branch `curated`."""
    lake = site.catalogued(quality={"bounds": bounds or LENIENT})
    ask_for(lake, version, Request(recipe=recipe, branch="curated"))
    publish_version(lake, version)
    return lake


@pytest.fixture
def texts(tmp_path) -> Site:
    """Of 30 texts, 13 are short; all are in the first version."""
    short = [make.prose(number, words=20) for number in range(NUM_SHORT)]
    site = Site(tmp_path, short + [make.prose(100 + number, words=60) for number in range(NUM_LONG)])
    publish(site, "curated-v001")
    return site


def test_quarantining_almost_half_on_purpose_does_not_make_the_decision_reject(texts) -> None:
    """Until now it did."""
    lake = publish(texts, "curated-v002", bounds=STRICT)
    assert lake.versions.read("curated").num_samples == NUM_LONG
    decided = read_result(lake, "curated-v002", "decision")
    assert decided["outcome"] != "reject"
    cut = read_result(lake, "curated-v002", "probe_scores")["cut_on_purpose"]
    assert set(cut.values()) == {"rule:text_too_short"}
    assert decided["cut_on_purpose"] == len(cut)


def test_what_the_clauses_of_a_recipe_leave_out_is_reported_apart(texts) -> None:
    lake = publish(texts, "curated-v002", replace(RECIPE, where="num_words > 40"))
    assert lake.versions.read("curated").num_samples == NUM_LONG
    assert read_result(lake, "curated-v002", "decision")["outcome"] != "reject"
    assert set(read_result(lake, "curated-v002", "probe_scores")["cut_on_purpose"].values()) == {"where"}


def test_what_is_lost_without_anybodys_choice_still_counts(texts, monkeypatch) -> None:
    monkeypatch.setattr(deliberate, "changed_rules", lambda *asked: set())
    lake = publish(texts, "curated-v002", bounds=STRICT)
    assert read_result(lake, "curated-v002", "decision")["outcome"] == "reject"


@pytest.fixture
def pictures(tmp_path) -> Site:
    """Of 90 or 300 pictures, 13 of 30 are 40 px high; all are in the first version."""
    site = Site(tmp_path, [make.prose(1, words=60)])
    sides = [(96, 40) if number < NUM_LOW else (96, 72) for number in range(NUM_PICTURES)]
    files = {
        f"{number:03d}.jpg": make.picture(number, width=width, height=height, kind="JPEG")
        for number, (width, height) in enumerate(sides)
    }
    make.land(site.zone, {"image/a.tar": make.tar(files)})
    publish(site, "curated-v001", bounds={"too_small": [36, float("inf")]})
    return site


def test_quarantining_almost_half_of_the_pictures_on_purpose_is_no_loss(pictures) -> None:
    """Until now both recipes were rejected for it."""
    assert pictures.lake().versions.read("curated").samples["image"]["num_samples"] == NUM_PICTURES
    lake = publish(pictures, "curated-v002", bounds={"too_small": [64, float("inf")]})
    assert lake.versions.read("curated").samples["image"]["num_samples"] == NUM_PICTURES - NUM_LOW
    decided = read_result(lake, "curated-v002", "decision")
    assert decided["outcome"] != "reject"
    cut = read_result(lake, "curated-v002", "probe_scores")["cut_on_purpose"]
    assert set(cut.values()) == {"rule:too_small"} and decided["cut_on_purpose"] == len(cut) > 0
