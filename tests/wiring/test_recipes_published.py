"""From a recipe file to a version: which samples it holds, under which name, and what a dry run says of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from mmlake import publish
from mmlake.errors import SettingsError
from mmlake.loader import ShardStream
from mmlake.publish.dry_run import dry_run
from mmlake.publish.version import publish_version
from mmlake.recipes import Recipe
from tests import make

LABELS = ("news", "news", "news", "blog", "blog", "wiki")
MINE = """
name = "mine"
where = "metadata.label <> 'wiki' AND num_words > 2"
statuses = ["ok", "flagged", "quarantined"]
drop_tiers = ["exact"]
[[quotas]]
by = "metadata.label"
at_most = 2
"""


@pytest.fixture
def labelled(site):
    """Six texts with a field, and one that is too short."""
    lines = [{"text": make.prose(number), "label": label} for number, label in enumerate(LABELS, start=1)]
    lines.append({"text": "Too short text.", "label": "blog"})
    make.land(site.zone, {"text/a.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()})
    return site


def write(site, text: str = MINE, name: str = "mine.toml") -> str:
    path = site.root / "recipes" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def publish_by(site, recipe: str, **fields) -> str:
    """The version of the recipe, as `mmlake publish` makes it without Dagster."""
    lake = site.catalogued()
    request = publish.wanted(lake, recipe, **fields)
    name, is_new = publish.needs_version(lake, request.branch, request.recipe)
    if is_new or not publish.version_is_complete(lake, name):
        publish.ask_for(lake, name, request)
        publish_version(lake, name)
    return name


def labels(site, version: str) -> list[str]:
    rows = site.lake().versions.samples(version).to_pylist()
    return sorted(json.loads(row["fields_json"])["label"] for row in rows)


def test_a_recipe_file_of_the_lake_is_published_on_a_branch_of_any_name(labelled) -> None:
    write(labelled)
    assert publish_by(labelled, "mine") == "mine-v001"
    assert publish_by(labelled, "mine", branch="try-it") == "try-it-v001"
    assert labels(labelled, "mine-v001") == labels(labelled, "try-it") == ["blog", "blog", "news", "news"]
    lake = labelled.lake()
    assert set(lake.versions.branches()) == {"mine", "try-it"}
    causes = lake.versions.read("mine").excluded["text"]
    assert causes == {"quota:blog": 1, "quota:news": 1, "where": 1}


def test_the_same_recipe_makes_no_version_and_a_changed_one_does(labelled) -> None:
    path = write(labelled)
    assert publish_by(labelled, path) == publish_by(labelled, path) == "mine-v001"
    write(labelled, "# a comment\n" + MINE)
    assert publish_by(labelled, path) == "mine-v001"
    write(labelled, MINE.replace("at_most = 2", "at_most = 1"))
    assert publish_by(labelled, path) == "mine-v002"
    assert labels(labelled, "mine-v002") == ["blog", "news"]


def test_a_version_keeps_the_recipe_that_it_was_asked_to_be(labelled) -> None:
    """Its file may be gone or another by the time that a killed run is taken up again."""
    path = write(labelled)
    lake = labelled.catalogued()
    publish.ask_for(lake, "mine-v001", publish.wanted(lake, path))
    write(labelled, MINE.replace("at_most = 2", "at_most = 1"))
    publish_version(lake, "mine-v001")
    assert labels(labelled, "mine-v001") == ["blog", "blog", "news", "news"]
    with pytest.raises(SettingsError, match="version mine-v001 is recipe 'mine' on branch 'mine', not"):
        publish.ask_for(lake, "mine-v001", publish.wanted(lake, path))


def test_a_request_that_was_never_made_gives_way_to_a_corrected_one(labelled) -> None:
    path = write(labelled, MINE.replace("at_most = 2", "at_least = 4"))
    with pytest.raises(SettingsError, match="expected at least 4"):
        publish_by(labelled, path)
    write(labelled)
    assert publish_by(labelled, path) == "mine-v001"
    assert labels(labelled, "mine-v001") == ["blog", "blog", "news", "news"]


def test_a_version_made_without_a_request_keeps_its_recipe_too(labelled) -> None:
    write(labelled)
    publish_version(labelled.catalogued(), "mine-v001")
    write(labelled, MINE.replace("at_most = 2", "at_most = 1"))
    assert publish.request_of(labelled.lake(), "mine-v001").recipe.quotas[0].at_most == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("metadata.label", "metadata.lable", r"no field 'lable' \(near: label\)"),
        ("num_words", "num_wrods", r"no column 'num_wrods' \(near: num_words"),
        ("num_words > 2", "num_words > 'x'", "does not fit the columns"),
        ("at_most = 2", "at_least = 4", "group 'blog' has 3 samples, expected at least 4"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_and_leaves_no_version(labelled, old: str, new: str, message: str) -> None:
    path = write(labelled, MINE.replace(old, new, 1))
    with pytest.raises(SettingsError, match=message):
        publish_by(labelled, path)
    assert labelled.lake().versions.branches() == {}


def test_a_measure_of_which_the_lake_has_no_item_is_null_and_not_unknown(labelled) -> None:
    path = write(labelled, 'name = "mine"\ndrop_tiers = []\nwhere = "snr_db > 1 OR modality = \'text\'"')
    assert labels(labelled, publish_by(labelled, path)) == sorted(LABELS)


def test_a_dry_run_says_what_each_clause_takes_away_and_writes_nothing(labelled) -> None:
    path = write(labelled)
    lake = labelled.catalogued()
    before = sorted(str(one) for one in labelled.root.rglob("*") if one.is_file())
    found = dry_run(lake, publish.wanted(lake, path).recipe)
    assert (found.num_samples, found.num_admitted) == (7, 4)
    assert [(one.clause, one.alone, one.in_order) for one in found.clauses] == [
        ("where", 1, 1),
        ("drop_tiers", 0, 0),
        ("quotas", 2, 2),
    ]
    assert found.causes == {"quota:blog": 1, "quota:news": 1, "where": 1}
    assert sorted(str(one) for one in labelled.root.rglob("*") if one.is_file()) == before
    curated = dry_run(lake, publish.wanted(lake, "curated").recipe)
    assert [(one.clause, one.alone) for one in curated.clauses][0] == ("statuses", 1)
    assert sum(one.in_order for one in curated.clauses) == curated.num_samples - curated.num_admitted


def test_a_dry_run_counts_what_cannot_be_read_to_no_clause(labelled) -> None:
    """It has the rule that says why, as what `statuses` keeps out has; of the first clause both counts are one."""
    lines = [{"text": make.prose(9), "label": "news"}, {"label": "news"}]
    make.land(labelled.zone, {"text/b.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()})
    lake = labelled.catalogued()
    found = dry_run(lake, publish.wanted(lake, "curated").recipe)
    assert [(one.clause, one.alone, one.in_order) for one in found.clauses][:2] == [
        ("unreadable or without a lead", 1, 1),
        ("statuses", 1, 1),
    ]


def test_a_dry_run_shows_the_mixture(labelled) -> None:
    path = write(labelled, 'name = "mine"\ndrop_tiers = []\n[mixture]\nby = "metadata.label"\nepochs = { wiki = 3 }')
    lake = labelled.catalogued()
    assert dry_run(lake, publish.wanted(lake, path).recipe).mixture == {
        "blog": {"num_samples": 2, "num_positions": 2},
        "news": {"num_samples": 3, "num_positions": 3},
        "wiki": {"num_samples": 1, "num_positions": 3},
    }


def test_a_recipe_survives_the_manifest(labelled) -> None:
    path = write(labelled)
    name = publish_by(labelled, path)
    asked = publish.request_of(labelled.lake(), name).recipe
    assert isinstance(asked, Recipe) and asked.digest == publish.wanted(labelled.lake(), path).recipe.digest


def test_a_mixture_reaches_the_loader(labelled) -> None:
    path = write(
        labelled,
        'name = "mine"\ndrop_tiers = []\nseed = 3\n[mixture]\nby = "metadata.label"\nepochs = { wiki = 3, news = 1 }',
    )
    name = publish_by(labelled, path)
    lake = labelled.lake()
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(name), decode="auto")
    found = Counter(sample["json"]["fields"]["label"] for sample in stream)
    assert (found, stream.seed) == ({"news": 3, "blog": 2, "wiki": 3}, 3)
    publish_version(lake, name)
    assert Counter(sample["json"]["fields"]["label"] for sample in stream) == found


def test_a_mixture_of_groups_that_are_not_there_is_refused_before_anything_is_published(labelled) -> None:
    path = write(labelled, 'name = "mine"\n[mixture]\nby = "metadata.label"\nweights = { wikki = 3, news = 1 }')
    with pytest.raises(SettingsError, match="weights name the group 'wikki'"):
        publish_by(labelled, path)
    assert labelled.lake().versions.branches() == {}
