"""A plugin that cannot be used is refused before anything runs, with what is wrong and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.parts import BUILT_IN, assemble, rule_versions, steering
from mmlake.plugins import Measurement, Plugin, PluginSettings, Rule, Scorer, load
from mmlake.settings import Settings

DARK = Rule(name="acme_dark", error_code=9101, severity="P2", measure="luma_mean", low=16, what="Dark.", fix="Light.")
TIER, ENCODER = MODALITIES["image"].tiers[0], BUILT_IN.encoders["colour-gradient"]


def numbers(subject):
    return {"acme_size": 1.0}


SIZE = Measurement(name="acme_size", modalities=("image",), measures=("acme_size",), columns=(), take=numbers)
SCORE = Scorer(name="acme_score", modalities=("text",), revision="1", licence="MIT", columns=(), load=list)


def acme(**rows) -> Plugin:
    return Plugin(name="acme", version="1.0", **rows)


def of_images(**fields) -> dict:
    return {"rules": {"image": (replace(DARK, **fields),)}}


WRONG = {
    "a built-in one's name": (of_images(name="blurred"), "'blurred', which another row has already"),
    "a name without the plugin's": (of_images(name="dark"), r"'dark', expected acme_\[a-z0-9_\]\+"),
    "an unknown modality": ({"rules": {"smell": (DARK,)}}, "modality 'smell', expected one of text"),
    "a measure that nobody takes": (of_images(measure="smell"), "judges 'smell', which no measurement of image gives"),
    "a code of the catalogue": (of_images(error_code=4203), "error code 4203, expected one of 9000 to 9999"),
    "one code twice": (
        {"rules": {"image": (DARK, replace(DARK, name="acme_darker"))}},
        "'acme_dark' and 'acme_darker' both have the error code 9101",
    ),
    "a row of another type": ({"tiers": (DARK,)}, "tiers holds a Rule, expected rows of the type Tier"),
    "a lambda": (
        {"measurements": (replace(SIZE, take=lambda subject: {}),)},
        "take of measurements 'acme_size' is .*<lambda>.*, which worker processes cannot import",
    ),
    "an unknown column": ({"measurements": (replace(SIZE, columns=("smell",)),)}, "column of tracks 'smell'"),
    "a scorer of nothing": ({"scorers": (replace(SCORE, modalities=("smell",)),)}, "modality 'smell'"),
    "a method of a built-in tier": ({"tiers": (replace(TIER, method="acme-phash"),)}, "'phash', which another row has"),
    "an encoder twice": (
        {"encoders": (replace(ENCODER, name="acme-a"),) * 2},
        "'acme-a', which another row has already",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused_with_plugin_row_and_expectation(case):
    rows, message = WRONG[case]
    with pytest.raises(SettingsError, match=f"plugin acme: .*{message}"):
        assemble([acme(**rows)])


def test_a_measure_with_the_name_of_a_catalog_column_is_refused_with_both():
    plugin = Plugin(name="cluster", version="2", scorers=(replace(SCORE, name="cluster_size"),))
    with pytest.raises(SettingsError, match=r"'cluster_size' of 'cluster_size \(cluster==2\)'.* column 'cluster_size'"):
        assemble([plugin])


@pytest.mark.parametrize(("name", "version"), [("Acme", "1"), ("acme-x", "1"), ("acme", ""), ("acme", "1 0")])
def test_a_plugin_that_rows_could_not_name_is_refused(name, version):
    with pytest.raises(SettingsError, match="a plugin has the (name|version)"):
        Plugin(name=name, version=version)


def test_two_plugins_of_one_name_are_refused_and_one_named_twice_is_one():
    assert assemble([acme(), acme()]).plugins == (acme(),)
    with pytest.raises(SettingsError, match="two plugins are called 'acme'"):
        assemble([acme(), Plugin(name="acme", version="2")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PluginSettings(modules=("no_such_module",)), r"'no_such_module' cannot be imported \(ModuleNotFoundError"),
        (PluginSettings(modules=("json",)), r"'json', which has no function mmlake_rows\(\)"),
        (PluginSettings(modules=("acme_broken",)), r"'acme_broken' cannot be imported \(ZeroDivisionError"),
        (PluginSettings(modules=("acme_wrong",)), "'acme_wrong' offers a list, expected a mmlake.plugins.Plugin"),
        (PluginSettings(entry_points=("smell",)), "'smell', which no installed packages offer"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_refused(tmp_path, monkeypatch, settings, message):
    (tmp_path / "acme_broken.py").write_text("1 / 0\n")
    (tmp_path / "acme_wrong.py").write_text("def mmlake_rows():\n    return []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=message):
        load(settings)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"quality": {"bounds": {"no_such_rule": [0, 1]}}}, "no_such_rule"),
        ({"quality": {"disabled": ["nothing"]}}, "nothing"),
        ({"embed": {"encoders": {"smell": "minilm-l6"}}}, "modality is 'smell'"),
        ({"embed": {"encoders": {"image": "smell"}}}, "encoder 'smell' does not exist"),
        ({"dedup": {"semantic_bounds": {"smell": 0.9}}}, "smell"),
    ],
)
def test_a_lake_is_not_opened_with_settings_that_name_no_row(tmp_path, sections, message):
    with pytest.raises(SettingsError, match=message):
        Lake(tmp_path, settings=Settings.of(sections))


def test_the_rows_of_a_plugin_stand_behind_the_built_in_ones_and_are_signed():
    parts = assemble([acme(rules={"image": (DARK,)}, measurements=(SIZE,), scorers=(SCORE,))])
    image = parts.modality("image")
    assert image.rules == (*MODALITIES["image"].rules, replace(DARK, plugin="acme==1.0"))
    assert image.measurements[-1].plugin == parts.modality("text").scorers[0].plugin == "acme==1.0"
    assert BUILT_IN.modality("image").rules == MODALITIES["image"].rules


def test_a_stamp_says_the_plugins_of_the_rows_and_a_digest_of_their_rules():
    rules = assemble([acme(rules={"image": (DARK,)})]).modality("image").rules
    moved = assemble([acme(rules={"image": (replace(DARK, low=20),)})]).modality("image").rules
    assert steering(rules) == steering(moved) == {"plugins/acme": "1.0"}
    assert rule_versions(rules) != rule_versions(moved)
    assert rule_versions(MODALITIES["image"].rules) == {}
