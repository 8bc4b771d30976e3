"""Settings: what a file may say, which error it gets where it is wrong, and which steps a change reaches."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from mmlake.errors import SettingsError
from mmlake.records import canonical_json, digest_of
from mmlake.settings import Settings

SECTIONS = tuple(field.name for field in dataclasses.fields(Settings))


def load(folder, text: str) -> Settings:
    path = folder / "mmlake.toml"
    path.write_text(text)
    return Settings.load(path)


def test_no_file_means_the_defaults() -> None:
    assert Settings.load(None) == Settings()


def test_a_section_changes_its_stage_and_no_other(tmp_path) -> None:
    changed = load(tmp_path, "[quality]\nflagged_weight = 0.25\n")
    assert changed.quality.flagged_weight == 0.25
    assert dataclasses.replace(changed, quality=Settings().quality) == Settings()


def test_an_empty_section_changes_nothing(tmp_path) -> None:
    assert load(tmp_path, "[dedup]\n[shards]\n") == Settings()


def test_an_infinite_bound_is_an_open_one(tmp_path) -> None:
    changed = load(tmp_path, "[quality.bounds]\ntext_too_short = [11, inf]\nblurred = [-inf, 4.5]\n")
    assert dict(changed.quality.bounds) == {"text_too_short": (11, None), "blurred": (None, 4.5)}


def test_nested_tables_name_models(tmp_path) -> None:
    changed = load(tmp_path, '[embed.encoders]\nimage = "clip"\n[embed.models.clip]\npath = "/models/clip"\n')
    assert changed.embed.encoders["image"] == "clip"
    assert (changed.embed.models["clip"].path, changed.embed.models["clip"].revision) == ("/models/clip", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[qualty]\n", r"section \[qualty\] is not known.*'quality'"),
        (
            "[quality]\nflaged_weight = 1\n",
            r"\[quality\] has the fields \['flaged_weight'\]; expected some of .*flagged_weight",
        ),
        ("quality = 3\n", r"\[quality\] has the fields 3"),
        ("[quality]\nflagged_weight = 1.5\n", "flagged_weight=1.5 not in"),
        ("[quality.bounds]\ntext_too_short = [3, 2]\n", "no range"),
        ("[quality.bounds]\ntext_too_short = 3\n", r"\[quality\] has a nested value that does not fit"),
        ('[quality]\nflagged_weight = "half"\n', "flagged_weight like 0.5"),
        ("[quality]\nflagged_weight = true\n", "flagged_weight like 0.5"),
        ("[dedup]\ntext_shingle_words = 4.5\n", "text_shingle_words like 5"),
        ("[dedup]\ntext_jaccard = inf\n", "text_jaccard like 0.7"),
        ('[embed]\nmodels = "clip"\n', "models like {}"),
        ('[embed.models.clip]\npth = "x"\n', r"\[embed\] has a nested value that does not fit"),
        (
            "[publish]\nfollow = [3]\n",
            r"\[publish\] has lists or tables of something else: follow holds 3, expected texts",
        ),
        ('[evaluate]\nks = [1, "5"]\n', "ks holds '5', expected whole numbers"),
        ("[sources]\ntext_fields = [['text']]\n", "text_fields holds .*, expected texts"),
        ("[embed.encoders]\ntext = 3\n", "encoders holds 3, expected texts"),
        ("[remote.storage_options]\ngs = 3\n", "storage_options holds 3, expected tables"),
        ("[quality\n", "cannot be read as TOML in line 1; correct it"),
        ("[quality]\n\nflagged_weight = 1 2\n", "cannot be read as TOML in line 3; correct it"),
        ("[quality]\nbounds = [1,\n2,", "cannot be read as TOML in line 3; correct it"),
        ("a = " + "[" * 5000, "cannot be read as TOML in line 1; correct it"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, text, said) -> None:
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path) -> None:
    """It was said to be no TOML."""
    with pytest.raises(SettingsError, match=r"none\.toml is not there; name another with --settings"):
        Settings.load(tmp_path / "none.toml")


def test_a_file_that_cannot_be_read_is_refused(tmp_path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        Settings.load(tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path) -> None:
    (tmp_path / "mmlake.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="cannot be read as TOML, byte 0 is not UTF-8"):
        Settings.load(tmp_path / "mmlake.toml")


def test_a_whole_number_does_for_a_fraction() -> None:
    assert Settings.of({"quality": {"flagged_weight": 1}}).quality.flagged_weight == 1


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("sources", {"max_item_bytes": 77}),
        ("quality", {"bounds": {"text_too_short": [5, None]}}),
        ("dedup", {"text_jaccard": 0.8}),
        ("embed", {"models": {"clip": {"path": "/m"}}}),
        ("evaluate", {"ks": [1, 3]}),
    ],
)
def test_a_change_reaches_the_digest_of_its_section_alone(section, values) -> None:
    default, changed = Settings(), Settings.of({section: values})
    assert [name for name in SECTIONS if default.digest((name,)) != changed.digest((name,))] == [section]


def test_the_digest_is_of_what_is_set_not_of_how() -> None:
    assert {
        Settings().digest(SECTIONS),
        Settings.of({}).digest(SECTIONS),
        Settings.of({"quality": {"flagged_weight": 0.5}}).digest(SECTIONS),
    } == {Settings().digest(SECTIONS)}


def test_a_setting_that_came_later_makes_nothing_stale_at_its_default() -> None:
    held = dataclasses.asdict(Settings().embed)
    assert held.pop("precision") == "float32"
    assert Settings().digest(("embed",)) == digest_of(canonical_json({"embed": held}).encode())[:16]
    assert Settings.of({"embed": {"precision": "bfloat16"}}).digest(("embed",)) != Settings().digest(("embed",))
    assert Settings().digest(("embed.precision",)) != Settings().digest(("embed",))


def test_a_precision_that_no_model_has_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"embed\.precision='int8' is not one of float32, bfloat16, float16"):
        Settings.of({"embed": {"precision": "int8"}})


def test_no_sections_have_one_digest() -> None:
    assert Settings().digest(()) == Settings.of({"quality": {"flagged_weight": 0.1}}).digest(())


def test_a_digest_is_computed_once_and_another_tree_has_its_own(monkeypatch) -> None:
    tree = Settings()
    before, calls = tree.digest(("dedup",)), list[tuple[str, ...]]()
    monkeypatch.setattr(Settings, "_digest", lambda self, names: calls.append(names) or "made")
    assert tree.digest(("dedup",)) == before and not calls
    assert dataclasses.replace(tree, dedup=tree.dedup).digest(("dedup",)) == "made"
    assert pickle.loads(pickle.dumps(tree)) == tree
