"""Units within a lake: every table after them has just them, and a change makes no more than it must."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import av
import pytest
import soundfile

from mmlake import pipeline, publish
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.item_provenance import story_of, version_answer
from mmlake.lake import Lake
from mmlake.loader import ShardDataset
from mmlake.preprocess import check_tiling
from mmlake.publish.dead_letters import _origins
from mmlake.publish.version import publish_version
from mmlake.settings import Settings
from mmlake.shards import verify_shards
from mmlake.steps import CORPUS_STEPS
from mmlake.summary import summarize
from mmlake.tables import Slot
from mmlake.upkeep import collect, failed_rows, request_retries
from mmlake.upkeep.references import is_named, marks_of, referenced
from tests import make
from tests.lakes import published
from tests.wiring import long_items

TIMED = ("video", "audio")
ROW_TABLES = ("items", "tracks", "alignments", "units", "measures", "verdicts", "fingerprints", "embeddings")


def opened(base: Path, **settings: dict[str, object]) -> Lake:
    """The lake, opened anew."""
    return Lake(
        base / "lake",
        landing=base / "landing",
        settings=Settings.of(settings),
        executor=Executor("cpu"),
        runner=InProcess(),
    )


def run(lake: Lake) -> Lake:
    """The lake with all tables, samples and the catalog up to date."""
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    return lake


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """The folder of a lake that was run and published once; tests inspect it and change nothing."""
    base = tmp_path_factory.mktemp("units")
    long_items.landed(base / "landing")
    publish_version(run(opened(base)), "everything-v001")
    return base


@pytest.fixture
def lake(base: Path) -> Lake:
    return opened(base)


@pytest.fixture
def own(base: Path, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    for name in ("lake", "landing"):
        shutil.copytree(base / name, tmp_path / name)
    return tmp_path


def rows_of(lake: Lake, table: str, modality: str) -> list[dict[str, Any]]:
    if table in CORPUS_STEPS:
        return lake.tables.read(Slot(table, modality)).to_pylist()
    return lake.tables.concat(table, modality).to_pylist()


def unit_names(lake: Lake, modality: str) -> set[str]:
    """The units of the modality, without gaps."""
    return {row["digest"] for row in rows_of(lake, "units", modality) if row["kind"] != "gap"}


def item_of(lake: Lake, modality: str, *, longest: bool = True) -> str:
    lengths = {row["duration_s"]: row["digest"] for row in rows_of(lake, "tracks", modality)}
    return lengths[max(lengths) if longest else min(lengths)]


def stamps(lake: Lake, modality: str) -> dict[str, object]:
    """The data version and time of each row table."""
    return {table: lake.tables.stamps(table, modality) for table in ROW_TABLES}


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [table for table in ROW_TABLES if before[table] != after[table]]


@pytest.mark.parametrize("modality", TIMED)
def test_units_and_gaps_tile_their_items(lake, modality):
    tracks = lake.tables.concat("tracks", modality)
    check_tiling("test", tracks, lake.tables.concat("units", modality))
    lengths = dict.fromkeys(tracks["digest"].to_pylist(), 0)
    for row in rows_of(lake, "units", modality):
        lengths[row["parent_digest"]] += row["end"] - row["start"]
    assert lengths == {row["digest"]: round(row["duration_s"] * 1e6) for row in tracks.to_pylist()}


def test_what_is_still_or_silent_is_a_gap(lake):
    for modality, why, (start_s, end_s) in (
        ("video", "static", long_items.STILL_S),
        ("audio", "silence", long_items.SILENCE_S),
    ):
        (gap,) = [row for row in rows_of(lake, "units", modality) if row["kind"] == "gap"]
        assert gap["gap"] == why
        assert start_s <= gap["start"] / 1e6 < start_s + 1 and end_s - 1 < gap["end"] / 1e6 <= end_s


@pytest.mark.parametrize("table", ["measures", "verdicts", "fingerprints", "embeddings", "duplicate_clusters"])
@pytest.mark.parametrize("modality", TIMED)
def test_every_later_table_has_exactly_the_units(lake, modality, table):
    names = unit_names(lake, modality)
    assert len(names) >= 3
    if table == "duplicate_clusters":  # of what is admitted
        names = {row["digest"] for row in rows_of(lake, "verdicts", modality) if row["status"] in ("ok", "flagged")}
        assert names
    assert {row["digest"] for row in rows_of(lake, table, modality)} == names


def test_the_catalog_has_exactly_the_units_with_their_places(lake):
    columns = ["digest", "parent_digest", "kind", "span_start_s", "span_end_s", "modality", "duration_s"]
    rows = {row["digest"]: row for row in lake.catalog.read(columns).to_pylist()}
    assert set(rows) == {name for modality in ("text", *TIMED) for name in unit_names(lake, modality)}
    for modality in TIMED:
        for unit in (row for row in rows_of(lake, "units", modality) if row["kind"] != "gap"):
            row = rows[unit["digest"]]
            assert (row["parent_digest"], row["kind"]) == (unit["parent_digest"], unit["kind"])
            assert (row["span_start_s"], row["span_end_s"]) == (unit["start"] / 1e6, unit["end"] / 1e6)
            assert row["duration_s"] == pytest.approx((unit["end"] - unit["start"]) / 1e6)


def test_fields_licences_and_sources_are_those_of_the_item(lake):
    rows = lake.catalog.read(["parent_digest", "modality", "licences", "sources", "metadata"]).to_pylist()
    said = {
        item_of(lake, "video"): ("fox", ["CC-BY-4.0"]),
        item_of(lake, "audio"): ("talk", ["CC0-1.0"]),
        item_of(lake, "audio", longest=False): (None, ["NOASSERTION"]),
    }
    found = dict.fromkeys(TIMED, 0)
    for row in (row for row in rows if row["modality"] in TIMED):
        label, licences = said[row["parent_digest"]]
        assert ((row["metadata"] or {}).get("label"), row["licences"]) == (label, licences)
        found[row["modality"]] += 1
    assert found == {modality: len(unit_names(lake, modality)) for modality in TIMED}


def test_clips_are_found_by_their_kind_and_by_what_is_said_in_them(lake):
    found = lake.catalog.search(where="kind = 'clip'", limit=100).to_pylist()
    assert {row["digest"] for row in found} == unit_names(lake, "video")
    clips = sorted(found, key=lambda row: row["span_start_s"])
    assert [row["text"] for row in clips] == ["A fox waits.", *[None] * (len(clips) - 2), "It leaves."]
    assert lake.catalog.search(where="kind = 'gap'", limit=100).num_rows == 0


def test_a_version_holds_clips_with_all_that_belongs_to_the_film(lake):
    film = item_of(lake, "video")
    rows = [row for row in lake.versions.samples("everything-v001").to_pylist() if row["modality"] == "video"]
    assert {row["lead"] for row in rows} == unit_names(lake, "video")
    for row in rows:
        leads = [part for part in row["parts"] if part["role"] == "media"]
        assert [part["parent_digest"] for part in leads] == [film]
        assert len(row["parts"]) == 3
        assert row["licences"] == ["CC-BY-4.0"] and '"label":"fox"' in row["fields_json"]
    size = next(row["size_bytes"] for row in rows_of(lake, "items", "video") if row["digest"] == film)
    assert sum(part["size_bytes"] for row in rows for part in row["parts"] if part["role"] == "media") == size


def test_the_items_of_a_version_say_which_blob_holds_them(lake):
    items = {row["digest"]: row for row in lake.versions.items("everything-v001").to_pylist()}
    for modality in TIMED:
        for unit in (row for row in rows_of(lake, "units", modality) if row["kind"] != "gap"):
            assert items[unit["digest"]]["parent_digest"] == unit["parent_digest"]
    assert all(row["parent_digest"] in lake.store for row in items.values())


def test_the_shards_have_the_cut_media(lake):
    directory = lake.shards_dir / lake.versions.resolve("everything-v001")
    assert verify_shards(directory) == []
    leads = {row["sample"]: row["lead"] for row in lake.versions.samples("everything-v001").to_pylist()}
    files = {leads[one["__key__"]]: one.get("mp4") or one.get("flac") for one in ShardDataset(directory, shuffle=False)}
    expected = {
        row["digest"]: pytest.approx((row["end"] - row["start"]) / 1e6, abs=0.11)
        for modality in TIMED
        for row in rows_of(lake, "units", modality)
        if row["kind"] != "gap"
    }
    assert {unit: length_s(media) for unit, media in files.items()} == expected


def length_s(media: bytes) -> float:
    if media[:4] == b"fLaC":
        return float(soundfile.info(io.BytesIO(media)).duration)
    with av.open(io.BytesIO(media)) as film:
        return sum(1 for _ in film.decode(video=0)) / long_items.FRAMES_PER_S


def test_everything_on_disk_holds_its_contract(lake):
    assert publish.recheck_catalog(lake) == sum(len(unit_names(lake, modality)) for modality in ("text", *TIMED))
    assert publish.recheck_samples(lake) == 5
    held = publish.recheck_manifest(lake, "everything-v001")
    assert publish.recheck_shards(lake, "everything-v001") == held
    assert lake.versions.verify("everything-v001") == []


def test_the_summary_counts_items_units_and_gaps_and_adds_up(lake):
    found = {row.modality: row for row in summarize(lake).modalities}
    assert [(found[one].num_items, found[one].num_gaps) for one in ("text", *TIMED)] == [(2, 0), (1, 1), (2, 1)]
    for modality in ("text", *TIMED):
        row = found[modality]
        assert row.num_rows == len(unit_names(lake, modality)) == sum(row.statuses.values()) + row.num_waiting


def test_a_clip_says_where_it_lies_and_who_holds_it(lake):
    clip = next(row for row in rows_of(lake, "units", "video") if row["kind"] == "clip" and row["position"])
    story = story_of(lake, clip["digest"][:16])
    assert (story.digest, story.kind, story.modality) == (clip["digest"], "clip", "video")
    assert story.derived_from == {
        "digest": item_of(lake, "video"),
        "position": clip["position"],
        "start_s": clip["start"] / 1e6,
        "end_s": clip["end"] / 1e6,
    }
    assert [each.held for each in story.versions] == [True]
    assert {step.table for step in story.steps} >= {"items", "tracks", "units", "measures", "verdicts", "embeddings"}
    assert len(story.measures) == len(
        [row for row in rows_of(lake, "measures", "video") if row["digest"] == clip["digest"]]
    )
    assert "lies in" in story.to_text()


def test_a_film_lists_its_clips_and_gaps_and_counts_the_versions(lake):
    story = story_of(lake, item_of(lake, "video"))
    expected = rows_of(lake, "units", "video")
    assert [(unit["digest"], unit["kind"], unit["gap"]) for unit in story.units] == [
        (row["digest"], row["kind"], row["gap"]) for row in sorted(expected, key=lambda row: row["position"])
    ]
    assert [unit["status"] is None for unit in story.units] == [unit["kind"] == "gap" for unit in story.units]
    num_units = len(unit_names(lake, "video"))
    assert story.conclusion == (
        f"Cut to {num_units} units and 1 gaps, which add up to it; landed once; 1 of 1 versions hold units of it."
    )


def test_a_version_without_films_says_so_of_the_film_its_clips_and_its_gaps(own):
    """Clips are left out by names of their own, so that the film was said to have come after the version."""
    lake = opened(own)
    recipe = 'name = "heard"\ndescription = "No films"\nstatuses = ["ok", "flagged"]\nwhere = "modality <> \'video\'"\n'
    version, film = published(lake, recipe), item_of(lake, "video")
    story = {name: each for each in story_of(lake, film).versions for name in each.names}
    assert (story[version].held, story[version].cause) == (False, "where")
    answer = version_answer(lake, film, version)
    assert (answer.num_held, answer.num_left_out) == (0, len(unit_names(lake, "video")))
    assert version_answer(lake, film, "everything").num_held == len(unit_names(lake, "video"))
    rows = {row["kind"]: row["digest"] for row in rows_of(lake, "units", "video")}
    assert [row["digest"] for row in version_answer(lake, rows["clip"], "everything").held] == [rows["clip"]]
    assert "a gap between units" in version_answer(lake, rows["gap"], "everything").conclusion


def test_a_gap_says_why_nothing_holds_it(lake):
    gap = next(row for row in rows_of(lake, "units", "audio") if row["kind"] == "gap")
    story = story_of(lake, gap["digest"][:12])
    assert (story.kind, story.conclusion) == ("gap", "Left out: a gap (silence) between units; landed once.")
    assert [(each.held, each.cause) for each in story.versions] == [(False, "a gap (silence) between units")]


def test_another_threshold_judges_again_and_makes_nothing_else(own):
    before = {modality: stamps(opened(own), modality) for modality in TIMED}
    lake = opened(own, quality={"bounds": {"too_short_audio": [25.0, None]}})
    pipeline.run_tables(lake)
    for modality in TIMED:
        assert changed(before[modality], stamps(lake, modality)) == ["verdicts"]
    rules = {row["rule"] for row in rows_of(lake, "verdicts", "audio")}
    assert "too_short_audio" in rules


def test_other_lengths_cut_again_and_decode_nothing(own):
    before = {modality: stamps(opened(own), modality) for modality in ("text", *TIMED)}
    names = unit_names(opened(own), "audio")
    lake = run(opened(own, units={"max_span_s": 20.0, "target_span_s": 15.0}))
    for modality in TIMED:
        after = ["units", "measures", "verdicts", "fingerprints", "embeddings"]
        assert changed(before[modality], stamps(lake, modality)) == after
    assert names != unit_names(lake, "audio")
    assert publish.recheck_catalog(lake) == sum(len(unit_names(lake, modality)) for modality in ("text", *TIMED))


def test_a_recording_that_cannot_be_cut_is_one_row_one_letter_and_is_tried_again_alone(own, monkeypatch):
    cutting, tried = import_module("mmlake.preprocess.tiling.units"), []
    lake, original = opened(own), cutting.recording_places
    slot = Slot("units", "audio", lake.registry.keys("audio")[0])
    good = {table: lake.tables.stamp(replace(slot, table=table)).data_version for table in ROW_TABLES}
    lake.tables.remove(slot)

    def torn(levels, spoken):
        tried.append(round(levels.end_us / 1e6))
        if len(tried) <= 2 and levels.end_us > 50e6:
            raise ValueError("met something that nobody foresaw")
        return original(levels, spoken)

    monkeypatch.setattr(cutting, "recording_places", torn)
    pipeline.run_tables(lake, modalities=["audio"])
    failed = item_of(lake, "audio")
    (row,) = [row for row in rows_of(lake, "units", "audio") if row["parent_digest"] == failed]
    assert [row[name] for name in ("digest", "kind", "status", "error_code")] == [failed, "whole", "unreadable", 3301]
    (letter,) = failed_rows(lake)
    assert (letter["stage"], letter["error_code"], letter["key"]) == ("preprocess", 3301, failed)
    (item,) = [row for row in rows_of(lake, "items", "audio") if row["digest"] == failed]
    assert (letter["source"], letter["source_ref"]) == (item["source"], item["source_ref"])
    assert [row["status"] for row in rows_of(lake, "verdicts", "audio") if row["digest"] == failed] == ["unreadable"]
    assert request_retries(lake, [letter]) == 1
    pipeline.run_tables(lake, modalities=["audio"])
    assert (sorted(tried[:2]), tried[2:]) == ([45, 70], [70])
    assert failed_rows(lake) == []
    assert {table: lake.tables.stamp(replace(slot, table=table)).data_version for table in ROW_TABLES} == good


def test_the_blob_of_a_film_is_kept_while_a_version_holds_a_clip_of_it(own):
    film = item_of(opened(own), "video")
    make.land(own / "landing", {"films/fox.mp4": make.film(3)})
    lake = run(opened(own))
    assert film not in {row["digest"] for row in rows_of(lake, "items", "video")}
    assert not set(lake.catalog.read(["parent_digest"])["parent_digest"].to_pylist()) & {film}
    assert is_named(marks_of([film]), referenced(lake)).all()
    collect(lake, now_s=0.0, grace_s=0.0)
    assert film in lake.store


@pytest.mark.parametrize("modality", TIMED)
def test_what_fails_of_a_span_has_the_file_of_its_item(lake, modality):
    """A dead letter of a span has the file of the recording or film that it was cut from."""
    for shard in lake.registry.keys(modality):
        items = {row["digest"]: row for row in lake.tables.read(Slot("items", modality, shard)).to_pylist()}
        units = lake.tables.read(Slot("units", modality, shard)).to_pylist()
        origins = _origins(lake, modality, shard)
        assert any(row["digest"] != row["parent_digest"] for row in units)
        for row in units:
            item = items[row["parent_digest"]]
            assert origins[row["digest"]] == (item["source"], item["source_ref"])
