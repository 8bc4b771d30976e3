"""Clusters of duplicates: the list of the largest, and one cluster as a page with every reason."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.cluster_pages import _clusters, cluster_of, largest
from mmlake.errors import SettingsError
from mmlake.provenance.evidence import AmbiguousDigest
from mmlake.tables import Slot

RUNNER = CliRunner()


def invoked(*arguments: str):
    return RUNNER.invoke(app, ["clusters", *arguments])


def sizes(lake, modality: str) -> Counter:
    rows = lake.tables.read(Slot("duplicate_clusters", modality), columns=["survivor", "digest"]).to_pylist()
    return Counter(row["survivor"] for row in rows)


def test_the_largest_clusters_are_listed_with_what_ties_them(done):
    lake = done.lake
    given = json.loads(invoked("--lake", str(lake.root), "--limit", "500", "--json").stdout)["clusters"]
    assert [one["size"] for one in given] == sorted((one["size"] for one in given), reverse=True)
    for modality in lake.parts.modalities:
        mine = {one["survivor"]: one["size"] for one in given if one["modality"] == modality}
        assert mine == {survivor: num for survivor, num in sizes(lake, modality).items() if num > 1}
    assert all(sum(one["tiers"].values()) == one["size"] - 1 and one["reasons"] for one in given)
    assert [one.survivor for one in largest(lake, count=1)] == [given[0]["survivor"]]
    assert given
    for tier, modality in {(tier, one["modality"]) for one in given for tier in one["tiers"]}:
        wanted = [one["survivor"] for one in given if one["modality"] == modality and tier in one["tiers"]]
        assert [one.survivor for one in largest(lake, tier=tier, modality=modality, count=500)] == wanted
    assert "Largest clusters" in invoked("--lake", str(lake.root)).stdout


@pytest.mark.parametrize("tier", ["nera", "exact"])
def test_a_tier_that_no_duplicate_has_is_refused_with_those_that_there_are(done, tier):
    with pytest.raises(SettingsError, match=f"tier is '{tier}', expected one of near, semantic; equal files"):
        largest(done.lake, tier=tier)
    assert largest(done.lake, tier="semantic", modality="audio") == []


def test_any_member_names_its_cluster_and_the_page_has_each_with_its_reason(done, tmp_path):
    lake = done.lake
    one = largest(lake, count=1)[0]
    prefix, page = one.members[-1]["digest"], tmp_path / "cluster.html"
    said = invoked(prefix, "--out", str(page), "--lake", str(lake.root))
    assert said.exit_code == 0 and f"{len(one.members)} of its {one.size - 1} duplicates" in said.stdout
    text = page.read_text()
    assert text.count("<figure") == one.size
    assert all(row["digest"][:10] in text and row["reason"].partition(":")[0] in text for row in one.members)
    assert "summary" not in re.findall(r'id="(\w+)"', text) and 'href="#summary"' not in text
    given = json.loads(invoked(prefix, "--out", str(page), "--limit", "1", "--lake", str(lake.root), "--json").stdout)
    assert given["num_shown"] == 1 and page.read_text().count("<figure") == 2
    assert [row["digest"] for row in given["members"]] == [row["digest"] for row in one.members]


def test_members_stand_by_their_score_and_reasons_are_counted_without_their_figures():
    def row(digest: str, score: float | None, tier: str, reason: str | None) -> dict:
        return {"digest": digest, "survivor": "s", "score": score, "tier": tier, "reason": reason, "radius": 0.3}

    given = [row("b", 0.7, "near", "more pixels: 12 over 9"), row("a", 0.9, "near", "more pixels: 9 over 3")]
    given += [row("s", None, None, None), row("c", 0.8, "semantic", "smallest digest")]
    (one,) = _clusters("image", given)
    assert [member["digest"] for member in one.members] == ["a", "c", "b"]
    assert (one.survivor, one.size, one.radius) == ("s", 4, 0.3)
    assert one.tiers == {"near": 2, "semantic": 1} and one.reasons == {"more pixels": 2, "smallest digest": 1}


def test_what_is_no_cluster_is_refused_with_what_to_do(done):
    lake = done.lake
    alone = next(survivor for survivor, num in sizes(lake, "text").items() if num == 1)
    for digest, words in ((alone, "has no duplicate"), ("zz", "no unit in the clusters")):
        with pytest.raises(SettingsError, match=words):
            cluster_of(lake, digest)
        assert words in str(invoked(digest, "--lake", str(lake.root)).exception)
    with pytest.raises(AmbiguousDigest):
        cluster_of(lake, "")
