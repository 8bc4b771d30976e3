"""Speakers within a lake: a table of audio and video alone, made without decoding, tried again, and in what leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish.unit_facts import facts_of_shard, turns_within
from mmlake.settings import Settings
from mmlake.shards import UnitFacts
from mmlake.shards.contents import _digest_of_facts
from mmlake.steps import row_steps, run_step
from mmlake.upkeep import failed_rows, request_retries
from mmlake.voices import Diarizer, diarizers
from mmlake.workers.script import Script
from tests import make

ANSWERS = """
import os
def load(config):
    def answer(request, samples):
        if os.path.exists(config["broken"]):
            os.abort()
        return {"turns": [[0.0, 0.5, "S1", 0.9], [0.5, 1.0, "S2", 0.8]]}, b""
    return answer
"""


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens a lake with one recording and these settings; the diarizer `test` crashes while a file is there."""
    (tmp_path / "script.py").write_text(ANSWERS)

    def script(settings):
        config = {"broken": str(tmp_path / "broken")}
        return Script(what="diarizer 'test'", python=Path(sys.executable), path=tmp_path / "script.py", config=config)

    row = Diarizer(name="test", what="a test", revision="1", licence="MIT", script=script)
    monkeypatch.setitem(diarizers.DIARIZERS, "test", row)
    make.land(tmp_path / "landing", {"audio/a.tar": make.tar({"one.wav": make.sound(1, seconds=1.5)})})

    def lake(**settings: dict[str, object]) -> Lake:
        made = Lake(
            tmp_path / "lake",
            landing=tmp_path / "landing",
            settings=Settings.of(settings),
            executor=Executor("cpu"),
            runner=InProcess(),
        )
        pipeline.refresh(made)
        return made

    return lake


def run(lake: Lake):
    """The stamps of the sound's tables up to the units."""
    steps = row_steps(MODALITIES["audio"])[:6]
    return {step.name: run_step(step, lake, "audio", lake.registry.keys("audio")[0]).stamp for step in steps}


def test_a_diarizer_that_is_chosen_later_decodes_nothing_again(opened):
    before = run(opened())
    lake = opened(speakers={"diarizer": "test"})
    after = run(lake)
    assert [name for name in before if before[name] != after[name]] == ["speakers"]
    (row,) = lake.tables.concat("speakers", "audio").to_pylist()
    assert (row["num_speakers"], [turn["speaker"] for turn in row["turns"]]) == (2, ["S1", "S2"])


def test_turns_are_facts_of_units(opened):
    plain = opened()
    run(plain)
    shard = plain.registry.keys("audio")[0]
    assert facts_of_shard(plain, "audio", shard)["turns"].to_pylist() == [[]]
    lake = opened(speakers={"diarizer": "test"})
    run(lake)
    (facts,) = facts_of_shard(lake, "audio", shard).to_pylist()
    assert [(turn["speaker"], turn["start_s"]) for turn in facts["turns"]] == [("S1", 0.0), ("S2", 0.5)]


def test_a_shard_depends_on_turns_only_where_there_are_some():
    turn = {"speaker": "S1", "start_s": 0.0, "end_s": 1.0, "confidence": None}
    assert _digest_of_facts(UnitFacts(duration_s=1.0)) != _digest_of_facts(UnitFacts(duration_s=1.0, turns=[turn]))


def test_turns_of_a_span_are_cut_to_it():
    turns = [
        {"speaker": "S1", "start_s": 1.0, "end_s": 3.0},
        {"speaker": "S2", "start_s": 3.0, "end_s": 9.0},
        {"speaker": "S1", "start_s": 9.0, "end_s": 10.0},
    ]
    assert turns_within(turns, 2.0, 9.0) == [
        {"speaker": "S1", "start_s": 0.0, "end_s": 1.0},
        {"speaker": "S2", "start_s": 1.0, "end_s": 7.0},
    ]
    assert turns_within(turns, None, None) == turns


def test_a_crashed_diarizer_is_a_dead_letter_and_is_tried_again(opened, tmp_path):
    (tmp_path / "broken").touch()
    lake = opened(speakers={"diarizer": "test"})
    run(lake)
    (letter,) = failed_rows(lake)
    assert (letter["stage"], letter["error_code"], letter["name"]) == ("preprocess", 3101, "worker_crashed")
    assert letter["letter"].startswith("audio/speakers/")
    (tmp_path / "broken").unlink()
    assert request_retries(lake, [letter]) == 1
    run(lake)
    assert failed_rows(lake) == []
    assert lake.tables.concat("speakers", "audio")["num_speakers"].to_pylist() == [2]
