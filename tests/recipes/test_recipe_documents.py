"""Recipes as documents: what they may hold, what is refused and how, and what their digest depends on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mmlake.errors import SettingsError
from mmlake.recipes import RECIPES, Mixture, Quota, Recipe, find_recipe, parse, recipes_of
from mmlake.records import STATUSES

FULL = """
name = "mine"
description = "All keys."
where = "modality = 'image' AND min_side_px >= 64"
sources = ["web", "coco"]
languages = ["en"]
statuses = ["flagged", "ok"]
drop_tiers = ["exact", "near"]
roles = ["media", "caption"]
required_roles = ["caption"]
weighted = false
seed = 7
[size]
duration_s = [1, inf]
[licences]
allow = ["CC-BY-*", "MIT OR Apache-2.0", "LicenseRef-Mine", "NOASSERTION"]
deny = ["cc-by-nc-4.0"]
[[quotas]]
by = "source"
at_most = 100
groups = ["web"]
[[quotas]]
by = "metadata.label"
share = 0.5
at_least = 2
[mixture]
by = "source"
temperature = 2
weights = { web = 0.5 }
epochs = { coco = 3 }
"""


def test_every_key_is_read() -> None:
    assert parse(FULL, origin="mine.toml") == Recipe(
        name="mine",
        description="All keys.",
        where="modality = 'image' AND min_side_px >= 64",
        sources=("coco", "web"),
        size=(("duration_s", 1.0, None),),
        languages=("en",),
        statuses=("ok", "flagged"),
        drop_tiers=("exact", "near"),
        allow_licences=("Apache-2.0 OR MIT", "CC-BY-*", "LicenseRef-Mine", "NOASSERTION"),
        deny_licences=("CC-BY-NC-4.0",),
        roles=("caption", "media"),
        required_roles=("caption",),
        weighted=False,
        quotas=(
            Quota(by="source", at_most=100, groups=("web",)),
            Quota(by="metadata.label", share=0.5, at_least=2),
        ),
        mixture=Mixture(by="source", temperature=2, weights=(("web", 0.5),), epochs=(("coco", 3),)),
        seed=7,
    )


def test_the_canonical_form_comes_back() -> None:
    recipe = parse(FULL, origin="mine.toml")
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert (again, again.digest) == (recipe, recipe.digest)


def test_comments_white_space_and_order_do_not_change_the_digest() -> None:
    head, _, rest = FULL.partition("[size]")
    lines = [line for line in head.splitlines() if line]
    other = "# a comment\n" + "\n".join(reversed(lines)) + "\n[size]" + rest
    other = other.replace("'image' AND", "'image' -- pictures\\n  AND").replace('["web", "coco"]', '["coco",  "web"]')
    assert parse(other, origin="o").digest == parse(FULL, origin="mine.toml").digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (">= 64", ">= 65"), ('"web", "coco"', '"web"'), ("seed = 7", "seed = 8"), ("[1, inf]", "[2, inf]"),
        ("at_most = 100", "at_most = 99"), ("web = 0.5", "web = 0.6"), ("coco = 3", "coco = 2"),
        ("temperature = 2", "temperature = 3"), ('"cc-by-nc-4.0"', '"CC-BY-SA-4.0"'), ('["en"]', '["fr"]'),
        ("weighted = false", "weighted = true"),
    ],
)  # fmt: skip
def test_every_rule_changes_the_digest(old: str, new: str) -> None:
    assert old in FULL
    assert parse(FULL.replace(old, new), origin="o").digest != parse(FULL, origin="o").digest


def test_name_and_description_do_not_change_the_digest() -> None:
    assert parse(FULL.replace('"mine"', '"yours"'), origin="o").digest == parse(FULL, origin="o").digest


def test_the_recipes_of_the_package_are_files_and_mean_what_they_meant() -> None:
    """Their canonical form is what earlier releases wrote into manifests, so that equal versions keep their id."""
    roles, every = ["document", "caption", "transcript", "media"], ["exact", "near", "semantic"]
    base = {"allow_licences": [], "deny_licences": [], "roles": roles, "required_roles": []}
    everything, curated = RECIPES["everything"], RECIPES["curated"]
    assert everything.to_dict() == base | {
        "name": "everything", "description": everything.description, "statuses": list(STATUSES[:-1]),
        "drop_tiers": ["exact"], "weighted": False,
    }  # fmt: skip
    assert curated.to_dict() == base | {
        "name": "curated", "description": curated.description, "statuses": ["ok", "flagged"], "drop_tiers": every,
        "weighted": True,
    }  # fmt: skip
    assert everything.origin.endswith("everything.toml") and everything.text.startswith("#")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 1", "x.toml: name is '1', expected a name"),
        ("", "x.toml: name is None, expected 1 to 63 of a-z"),
        ('name = "Mine"', "x.toml: name is 'Mine'"),
        ('name = "../mine"', r"x.toml: name is '\.\./mine'"),
        ('nmae = "mine"', r"x.toml: unknown key 'nmae' \(near: name\); expected some of name"),
        ('name = "m"\nstatuses = ["okay"]', r"x.toml: statuses has 'okay' \(near: ok\)|statuses has 'okay'"),
        ('name = "m"\nstatuses = ["unreadable"]', "x.toml: statuses has 'unreadable'.*expected some of ok"),
        ('name = "m"\nstatuses = "ok"', "x.toml: statuses is 'ok', expected a list of statuses"),
        ('name = "m"\nroles = ["captoin"]', r"roles has 'captoin' \(near: caption\)"),
        ('name = "m"\nweighted = 1', "weighted is '1', expected true or false"),
        ('name = "m"\nseed = true', "seed is 'True', expected a whole number"),
        ('name = "m"\n[size]\nwidth = [1, 2]', r"size: unknown key 'width' \(near: width_px\)"),
        ('name = "m"\n[size]\nwidth_px = 64', r"width_px is '64', expected \[smallest, largest\]"),
        ('name = "m"\n[size]\nwidth_px = [9, 1]', "which nothing is within"),
        ('name = "m"\n[licences]\nalow = []', r"licences: unknown key 'alow' \(near: allow\)"),
        ('name = "m"\n[licences]\nallow = ["CC-BY-4"]', r"'CC-BY-4' is no SPDX id \(near: CC-BY-4.0"),
        ('name = "m"\n[licences]\nallow = ["MIT OR"]', "'MIT OR' is no SPDX expression"),
        ('name = "m"\n[licences]\ndeny = ["XYZ-*"]', r"no SPDX id is like 'XYZ-\*'"),
        ('name = "m"\n[quotas]\nby = "source"', r"quotas is .*each below \[\[quotas\]\]"),
        ('name = "m"\n[[quotas]]\nat_most = 1', "quota 1: by is 'None', expected a column"),
        ('name = "m"\n[[quotas]]\nby = "sauce"\nat_most = 1', r"by is 'sauce' \(near: source\)"),
        ('name = "m"\n[[quotas]]\nby = "source"', "bounds nothing; give at_most, share or at_least"),
        ('name = "m"\n[[quotas]]\nby = "source"\nat_most = -1', "at_most is -1, expected 0 or more"),
        ('name = "m"\n[[quotas]]\nby = "source"\nshare = 1.5', "share is 1.5, expected more than 0, at most 1"),
        ('name = "m"\n[[quotas]]\nby = "source"\nat_least = 3\nat_most = 2', "which no group can meet"),
        ('name = "m"\n[[quotas]]\nby = "source"\nmax = 2', "quota 1: unknown key 'max'"),
        ('name = "m"\n[mixture]\nby = "source"', "changes nothing"),
        ('name = "m"\n[mixture]\nby = "source"\ntemperature = 0', "temperature is 0"),
        ('name = "m"\n[mixture]\nby = "source"\ntemperature = 0.09', "expected a number from 0.1 to"),
        ('name = "m"\n[mixture]\nby = "source"\nweights = {a = -1}', "weights of 'a' is -1"),
        ('name = "m"\n[mixture]\nby = "source"\nweights = {a = "x"}', "weights.a is 'x', expected a number"),
        ('name = "m"\n[mixture]\nby = "source"\nweights = {a = nan}', "weights.a is 'nan', expected a number"),
        ('name = "m"\n[mixture]\nby = "source"\nweights = {a = 1}\nepochs = {a = 1}', "keep one of the two"),
        ('name = "m"\nwhere = "true; DROP TABLE catalog"', "x.toml: where"),
        ("name = ", "x.toml: not TOML"),
        ("a = " + "[" * 5000, "x.toml: not TOML"),
    ],
)
def test_what_does_not_fit_is_named_with_file_key_and_expectation(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse(text, origin="x.toml")


def test_an_unknown_column_names_the_file_and_near_columns() -> None:
    recipe = parse('name = "m"\nwhere = "min_side > 64"', origin="x.toml")
    with pytest.raises(SettingsError, match=r"x.toml: where: the catalog has no column 'min_side' \(near: min_side_px"):
        recipe.check(["modality", "min_side_px"], None)


def test_source_fields_are_not_asked_for_before_there_are_any() -> None:
    recipe = parse('name = "m"\nwhere = "metadata.lable = 1"', origin="x.toml")
    recipe.check(["modality"], None)
    with pytest.raises(SettingsError, match=r"no field 'lable' \(near: label\)"):
        recipe.check(["modality"], ["label"])


def test_a_lake_has_recipes_of_its_own(tmp_path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "b.toml").write_text(FULL)
    assert list(recipes_of(tmp_path)) == ["everything", "curated", "mine"]
    assert find_recipe(tmp_path, "mine").seed == find_recipe(tmp_path, str(tmp_path / "recipes" / "b.toml")).seed == 7


@pytest.mark.parametrize("name", ["mine", "curated"])
def test_two_recipes_of_one_name_are_refused_with_both_files(tmp_path, name: str) -> None:
    (tmp_path / "recipes").mkdir()
    for file in ("a.toml", "b.toml"):
        (tmp_path / "recipes" / file).write_text(f'name = "{name}"')
    with pytest.raises(SettingsError, match=rf"two recipes are called '{name}': .*\.toml and .*\.toml"):
        recipes_of(tmp_path)


def test_a_file_elsewhere_may_not_take_the_name_of_another_recipe(tmp_path) -> None:
    (path := tmp_path / "curated.toml").write_text('name = "curated"\nseed = 3')
    with pytest.raises(SettingsError, match=r"two recipes are called 'curated': .*curated\.toml and .*curated\.toml"):
        find_recipe(tmp_path, str(path))


def test_an_unknown_recipe_is_answered_with_near_names(tmp_path) -> None:
    with pytest.raises(SettingsError, match=r"no recipe 'currated' \(near: curated\); expected one of everything"):
        find_recipe(tmp_path, "currated")


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    for name in ("x.toml", "none.toml"):
        with pytest.raises(SettingsError, match="cannot be read as text"):
            find_recipe(tmp_path, str(tmp_path / name))


def test_a_recipe_is_hashable_and_replaceable() -> None:
    recipe = parse(FULL, origin="x.toml")
    assert hash(replace(recipe)) == hash(recipe)
    assert replace(recipe, seed=1).digest != recipe.digest
