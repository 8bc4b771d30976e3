"""Keyframes, sound tracks and transcripts that lie in a lake by themselves too: what is found, and who goes for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmlake import item_provenance, pipeline, publish
from mmlake.lake import Lake
from mmlake.publish.dry_run import dry_run
from mmlake.publish.version import publish_version
from mmlake.recipes import Recipe
from mmlake.steps import CORPUS_STEPS, ROW_STEPS, recheck
from mmlake.summary import summarize
from mmlake.tables import Slot
from mmlake.version_report import gather, write_version_report
from tests import crossed, make

TARGETS = ("text", "image", "audio")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, set[tuple[str, str, str]]]:
    """(a lake whose tables and catalog are made, the pairs that there are)."""
    base = tmp_path_factory.mktemp("crossed")
    zone, truth = crossed.landing(num_films=2)
    make.land(base / "landing", zone)
    lake = Lake(base / "lake", landing=base / "landing")
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    return base, truth


@pytest.fixture
def lake(made) -> Lake:
    return Lake(made[0] / "lake", landing=made[0] / "landing")


def rows(lake: Lake) -> list[dict]:
    """CROSS_PAIRS of all modalities, with the files of both sides."""
    files: dict[str, str] = {}
    for modality in lake.parts.modalities:
        items = lake.tables.concat("items", modality, columns=["digest", "sample_id"]).to_pylist()
        names = {row["digest"]: Path(row["sample_id"].removesuffix("/d0")).stem for row in items}
        units = lake.tables.concat("units", modality, columns=["digest", "parent_digest"]).to_pylist()
        files |= {row["digest"]: names[row["parent_digest"]] for row in units}
    tables = [lake.tables.read(Slot("cross_pairs", modality)).to_pylist() for modality in TARGETS]
    named = [row | {"file": files[row["digest"]], "film": files[row["carrier"]]} for table in tables for row in table]
    return sorted(named, key=lambda row: (row["file"], row["film"], row["component"]))


def test_every_part_of_a_film_that_lies_there_by_itself_is_found_and_no_decoy_is(made, lake):
    """Recall and precision are 1: pictures scaled, cropped, compressed anew; an MP3, an excerpt; a reworded text."""
    found = {(row["file"], row["film"], row["component"]) for row in rows(lake)}
    assert found == made[1]
    assert len(found) == 2 * 6


def test_a_row_says_where_in_the_film_it_is(lake):
    by_file = {(row["file"], row["component"]): row for row in rows(lake) if row["film"] == "0"}
    assert [by_file[f"0-{name}", "keyframe"]["time_s"] for name in ("scaled", "cropped", "poor")] == [0.0, 3.0, 6.0]
    excerpt = by_file["0-part", "sound"]
    assert excerpt["relation"] == "inside"
    assert [excerpt["carrier_start_s"], excerpt["carrier_end_s"]] == pytest.approx([4.0, 14.0], abs=0.3)
    assert [excerpt["start_s"], excerpt["end_s"]] == pytest.approx([0.0, 10.0], abs=0.3)
    assert by_file["0-article", "transcript"]["relation"] == "same"


def test_films_have_no_table_of_their_own_and_recordings_carry_transcripts_alone(lake):
    assert lake.tables.stamp(Slot("cross_pairs", "video")) is None
    assert set(lake.tables.concat("component_fingerprints", "audio")["component"].to_pylist()) <= {"transcript"}
    of_films = lake.tables.concat("component_fingerprints", "video")
    assert set(of_films["component"].to_pylist()) == {"keyframe", "sound", "transcript"}


def test_the_tables_pass_the_checks_of_their_borders(lake):
    for modality in ("video", "audio"):
        tables, _ = recheck(ROW_STEPS["component_fingerprints"], lake, modality)
        assert tables >= 1
    assert [recheck(CORPUS_STEPS["cross_pairs"], lake, modality)[1] for modality in TARGETS] == [2, 6, 4]


def test_why_says_it_of_both_sides_and_of_the_keyframe_itself(lake):
    row = next(row for row in rows(lake) if row["file"] == "0-cropped")
    said = [
        {step.table: step.said for step in item_provenance.story_of(lake, row[name]).steps}["cross_pairs"]
        for name in ("digest", "carrier", "component_digest")
    ]
    assert said[0].startswith(f"the same as the keyframe at 3.0 s of the film {row['carrier'][:16]} (phash-cropped 0.")
    assert said[2].startswith(f"its keyframe at 3.0 s is the picture {row['digest'][:16]} (phash-cropped 0.")
    film = [step.said for step in item_provenance.story_of(lake, row["carrier"]).steps if step.table == "cross_pairs"]
    assert len(film) == 3 and any(said[2] in one for one in film)
    sound = next(one for one in film if "recording" in one)
    assert "its sound holds the recording" in sound and "s here, " in sound


def test_a_recipe_drops_by_it_only_when_asked_and_only_while_the_film_stays(lake):
    assert not [cause for cause in dry_run(lake, Recipe(name="all", description="")).causes if "carried" in cause]
    asked = Recipe(name="all", description="", statuses=("ok", "flagged", "quarantined"), drop_tiers=())
    every = replace(asked, drop_carried=("keyframe", "sound", "transcript"))
    counts = {name: num for name, num in dry_run(lake, every).causes.items() if name.startswith("carried:")}
    assert counts == {"carried:keyframe": 6, "carried:sound": 4, "carried:transcript": 2}
    alone = replace(every, drop_carried=("sound",))
    assert dry_run(lake, alone).causes.get("carried:sound") == 4
    assert "carried:keyframe" not in dry_run(lake, alone).causes
    without_films = replace(every, where="modality <> 'video'")
    assert not [name for name in dry_run(lake, without_films).causes if name.startswith("carried:")]


def published(base: Path, recipe: str) -> str:
    """The version of the recipe, which is a document."""
    lake = Lake(base / "lake", landing=base / "landing")
    path = lake.root / "recipes" / "once.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recipe)
    request = publish.wanted(lake, str(path))
    name, _ = publish.needs_version(lake, "once", request.recipe)
    publish.ask_for(lake, name, request)
    publish_version(lake, name)
    return name


def test_what_went_for_a_film_names_it_and_the_difference_says_that_the_recipe_did_it(made, lake):
    recipe = 'name = "once"\ndrop_tiers = []\nstatuses = ["ok", "flagged", "quarantined"]\n'
    first = published(made[0], recipe)
    second = published(made[0], recipe + 'drop_carried = ["keyframe"]\n')
    row = next(row for row in rows(lake) if row["file"] == "1-poor")
    out = {one["digest"]: one for one in lake.versions.excluded(second).to_pylist()}[row["digest"]]
    assert (out["cause"], out["detail"]) == ("carried:keyframe", row["carrier"])
    diff = lake.versions.diff(first, second)
    assert diff.summary()["removed"] == {"image": {"carried:keyframe": 6}}
    assert diff.reasons() == {"added": {}, "removed": {"recipe": 6}, "changed": {}}
    story = item_provenance.story_of(lake, row["digest"])
    assert {one.cause for one in story.versions} == {None, f"carried:keyframe: {row['carrier']}"}


def test_the_report_shows_both_sides_and_the_status_counts_what_is_carried(made, lake):
    if not lake.versions.tags():
        published(made[0], 'name = "once"\n')
    data = gather(lake, "once-v001", planted={}, summary=summarize(lake))
    shown = {(one.tier, one.modality, one.method): one.found for one in data.crossed}
    assert shown == {
        ("transcript", "text", "video"): 2,
        ("keyframe", "image", "video"): 6,
        ("sound", "audio", "video"): 4,
    }
    keyframe = next(one for one in data.crossed if one.tier == "keyframe")
    assert keyframe.left.image and keyframe.right.image and " at " in keyframe.right.title
    sound = next(one for one in data.crossed if one.tier == "sound" and one.relation == "inside")
    assert sound.left.audio and sound.right.keyframes and sound.right_span_s is not None
    html = write_version_report(lake, "once-v001").read_text()
    assert "Across modalities" in html and "4 of 6 shown" in html
    assert {one.modality: one.num_carried for one in summarize(lake).modalities} == {
        "text": 2,
        "image": 6,
        "video": 0,
        "audio": 4,
    }


def test_nothing_is_made_again_where_nothing_changed(lake):
    assert pipeline.run_tables(lake) == 0
