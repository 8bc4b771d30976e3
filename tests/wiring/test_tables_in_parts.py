"""Shards of many rows: their tables are made a row group at a time, and are the rows of tables that are made whole."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake import pipeline, quality, table_files, tables
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.engine import EngineSettings
from mmlake.lake import Lake
from mmlake.preprocess.settings import UnitSettings
from mmlake.settings import Settings
from mmlake.steps import CORPUS_STEPS, ROW_STEPS, recheck, standing
from mmlake.steps.preprocess import unit_track_parts
from mmlake.steps.step import Job
from mmlake.tables import Slot
from tests import make

NUM = 10
FILES = {
    "text/a.jsonl": make.jsonl([*map(make.prose, range(NUM)), "Too short.", make.prose(1)]),
    "image/a.tar": make.tar({f"{at}.png": make.picture(at) for at in range(5)} | {"x.png": b"\x89PNG"}),
    "audio/a.tar": make.tar({"0.wav": make.sound(1, seconds=4), "1.wav": make.sound(2, seconds=0.75), "2.wav": b"x"}),
}
SHARDS = {"text": "text/a.jsonl", "image": "image/a.tar", "audio": "audio/a.tar"}
MADE_IN_PARTS = ("items", "tracks", "measures", "verdicts", "fingerprints", "embeddings")


def lake_of(path, **sections) -> Lake:
    landing = make.land(path / "landing", FILES)
    settings = Settings(
        units=UnitSettings(whole_up_to_s=2.0, min_span_s=0.5, target_span_s=1.0, max_span_s=1.5), **sections
    )
    lake = Lake(path / "lake", landing=landing, settings=settings, executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    return lake


def rows_of(lake: Lake, slot: Slot) -> list[dict]:
    """The rows; vectors without their last digit, which is float noise of what was encoded together."""
    rows = lake.tables.read(slot).to_pylist()
    return [row | {"vector": np.round(row["vector"], 3).tolist()} for row in rows] if "embed" in slot.table else rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return lake_of(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def groups_of_three(monkeypatch):
    monkeypatch.setattr(table_files, "ROW_GROUP_ROWS", 3)
    monkeypatch.setattr(tables, "_KEPT_BYTES", 0)


def test_tables_of_small_row_groups_have_the_rows_of_one(tmp_path, whole, groups_of_three):
    # as little memory as makes every sort go through files
    lake = lake_of(tmp_path, engine=EngineSettings(memory_gib=1e-9))
    for modality, shard in SHARDS.items():
        for name in ROW_STEPS:
            if (stamp := whole.tables.stamp(Slot(name, modality, shard))) is None:
                continue
            found = lake.tables.stamp(Slot(name, modality, shard))
            assert rows_of(lake, Slot(name, modality, shard)) == rows_of(whole, Slot(name, modality, shard))
            assert (found.counts, found.media_bytes) == (stamp.counts, stamp.media_bytes), name
            recheck(ROW_STEPS[name], lake, modality)
        for name in CORPUS_STEPS:
            if whole.tables.stamp(Slot(name, modality)) is not None:
                assert rows_of(lake, Slot(name, modality)) == rows_of(whole, Slot(name, modality)), name
    assert not list((lake.root / "scratch").glob("*"))


def test_steps_are_given_a_row_group_at_a_time(tmp_path, monkeypatch, groups_of_three):
    given, measure = [], quality.measure
    monkeypatch.setattr(quality, "measure", lambda rows, *a, **b: given.append(rows.num_rows) or measure(rows, *a, **b))
    lake = lake_of(tmp_path)
    texts = lake.tables.read(Slot("tracks", "text", SHARDS["text"])).num_rows
    assert texts == NUM + 1 and given[:4] == [3, 3, 3, 2]
    of_texts, of_sounds = (
        [part.num_rows for part in unit_track_parts(
            Job(lake=lake, modality=name, shard=SHARDS[name], advance=lambda _: None, runner=lake.runner)
        )]
        for name in ("text", "audio")
    )  # fmt: skip
    assert of_texts == [3, 3, 3, 2]
    assert len(of_sounds) == 1 and of_sounds[0] > 3  # spans of one item belong together


@pytest.mark.parametrize("name", MADE_IN_PARTS)
def test_tables_of_long_shards_are_made_in_parts(whole, name):
    step = ROW_STEPS[name]
    assert set(step.checked) <= set(step.schema.arrow.names) and step.checked


def test_a_shard_that_grew_is_made_a_row_group_at_a_time_too(tmp_path, monkeypatch, groups_of_three):
    """What is new comes among what stands, without either in memory as a whole."""
    lake = lake_of(tmp_path / "grown", engine=EngineSettings(memory_gib=1e-9))
    grown = {**FILES, "text/a.jsonl": FILES["text/a.jsonl"] + make.jsonl([*map(make.prose, range(NUM, NUM + 4))])}
    make.land(tmp_path / "grown" / "landing", grown)
    given, held = [], []
    measure, in_order = quality.measure, standing.in_order

    def sorted_rows(job, schema, parts):
        return in_order(job, schema, (held.append(part.num_rows) or part for part in parts))

    monkeypatch.setattr(quality, "measure", lambda rows, *a, **b: given.append(rows.num_rows) or measure(rows, *a, **b))
    monkeypatch.setattr(standing, "in_order", sorted_rows)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    assert sum(given) == 4 and max(given) <= 3
    assert len(held) > 20 and max(held) <= 3 * 40  # a row of measures for each of some thirty of a text
    fresh = Lake(tmp_path / "fresh", landing=tmp_path / "grown" / "landing", settings=lake.settings,
                 executor=Executor("cpu"), runner=InProcess())  # fmt: skip
    pipeline.refresh(fresh)
    pipeline.run_tables(fresh)
    for name in ROW_STEPS:
        if fresh.tables.stamp(slot := Slot(name, "text", SHARDS["text"])) is not None:
            assert rows_of(lake, slot) == rows_of(fresh, slot), name
