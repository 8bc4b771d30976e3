"""What models say of clips, in a lake: asked once for each question, seen where it failed, carried on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.errors import RemoteUnavailable
from mmlake.lake import Lake
from mmlake.loader import read_tracks, track_samples, write_tracks
from mmlake.modalities import MODALITIES
from mmlake.publish import VERSION_STEPS, run_version_step, update_catalog, update_samples
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, row_steps, run_step
from mmlake.tables import Slot
from mmlake.track_drawing import drawn_tracks
from mmlake.upkeep import failed_rows, request_retries
from mmlake.version_report.tracks import tracks_of
from mmlake.word_errors import word_errors
from tests import make
from tests.captions.chat_server import ChatServer, body, chat_server, replies, says
from tests.cuts.counted_films import counted_film
from tests.ports import free_port

SRT = "1\n00:00:00,500 --> 00:00:01,250\nThe focks sits.\n\n2\n00:00:01,500 --> 00:00:01,900\nIt wates.\n"
SAID = {"caption": "a fox sits in the snow", "tags": ["animals", "nature"]}


@pytest.fixture
def opened(tmp_path) -> Callable[..., Lake]:
    """Opens a lake with a film of two seconds and its subtitles, with these settings."""
    (tmp_path / "in" / "films").mkdir(parents=True)
    counted_film(tmp_path / "in" / "films" / "fox.mp4", 50)
    (tmp_path / "in" / "films" / "fox.srt").write_text(SRT)

    def lake(**settings: dict[str, Any]) -> Lake:
        return Lake(
            tmp_path / "lake",
            landing=tmp_path / "in",
            settings=Settings.of(settings),
            executor=Executor("cpu"),
            runner=InProcess(),
        )

    pipeline.refresh(lake())
    return lake


def asking(server: ChatServer, **captions: Any) -> dict[str, dict[str, Any]]:
    """Settings that ask this server for both."""
    return {
        "captions": {"corrector": "endpoint", "describer": "endpoint", **captions},
        "endpoint": {"base_url": server.base_url, "model": "m", "tries": 1, "timeout_s": 20.0},
    }


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """What a good model says to either question."""
    parts = request["messages"][1]["content"]
    if parts[0]["text"].startswith("The clip lasts"):
        lasts_s = float(re.findall(r"[\d.]+\d", parts[0]["text"])[0])
        return SAID | {"events": [{"start_s": 0.0, "end_s": lasts_s, "text": "a fox sits"}]}
    lines = dict(re.findall(r"^(\d+): (.*)$", parts[0]["text"], re.M))
    right = {"The focks sits.": "The fox sits.", "It wates.": "It waits."}
    return {"lines": [{"number": int(at), "text": right.get(text, text)} for at, text in lines.items()]}


def run(lake: Lake, *, only: tuple[str, ...] = ()) -> dict[str, bool]:
    """Step -> whether its table was made anew, of the films' row steps up to units, and captions."""
    shard, made = lake.registry.keys("video")[0], {}
    for step in row_steps(MODALITIES["video"]):
        if step.name in ("items", "blobs", "tracks", "alignments", "units", "captions"):
            made[step.name] = not run_step(step, lake, "video", shard).reused
    return made


def rows(lake: Lake) -> dict[str, dict[str, Any]]:
    """Kind -> row."""
    return {row["kind"]: row for row in lake.tables.concat("captions", "video").to_pylist()}


def texts(lake: Lake) -> list[tuple[float, float, str, str | None]]:
    return [tuple(line.values()) for line in rows(lake)["correction"]["lines"]]


def test_without_settings_nothing_is_asked_and_the_table_is_empty(opened) -> None:
    lake = opened()
    run(lake)
    assert rows(lake) == {}


def test_clips_are_described_and_lines_corrected_with_the_times_that_they_had(opened) -> None:
    with chat_server(replies(reply)) as server:
        lake = opened(**asking(server))
        run(lake)
    found = rows(lake)
    assert texts(lake) == [
        (0.5, 1.25, "The focks sits.", "The fox sits."),
        (1.5, 1.9, "It wates.", "It waits."),
    ]
    assert (found["description"]["caption"], found["description"]["event_tags"]) == (SAID["caption"], SAID["tags"])
    assert found["description"]["events"] == [{"start_s": 0.0, "end_s": 2.0, "text": "a fox sits"}]
    assert {(row["status"], row["producer"], row["model"]) for row in found.values()} == {("ok", "endpoint", "m")}
    sent = {json.dumps(request["messages"][1]["content"]) for request in server.requests}
    assert json.dumps([{"type": "text", "text": "1: The focks sits.\n2: It wates."}]) in sent  # no time leaves
    assert len(sent) == 2 and any("data:image/jpeg;base64," in one for one in sent)


def test_a_changed_model_asks_again_and_redoes_nothing_else(opened) -> None:
    with chat_server(replies(reply)) as server:
        run(opened(**asking(server)))
        asked = len(server.requests)
        made = run(opened(**asking(server, corrector_model="better")))
        assert [name for name, is_new in made.items() if is_new] == ["captions"]
        assert [request["model"] for request in server.requests[asked:]] == ["better"]  # the description is kept
        assert rows(opened())["correction"]["model"] == "better"


def test_a_new_bound_judges_the_old_answer(opened) -> None:
    with chat_server(replies(reply)) as server:
        run(opened(**asking(server)))
        asked = len(server.requests)
        lake = opened(**asking(server, max_edit_fraction=0.0, min_edits=2))
        run(lake)
        assert len(server.requests) == asked
    assert [line[3] for line in texts(lake)] == [None, "It waits."]  # three edits, and two
    correction = rows(lake)["correction"]
    assert (correction["status"], correction["error_code"]) == ("flagged", 3804)
    assert correction["error"] == "edit_fraction=0.20 not in [0, 0] in line 1"


def test_what_failed_is_a_dead_letter_and_is_asked_again_alone(opened) -> None:
    good = replies(reply)

    def overloaded(handler, request) -> None:
        is_clip = "clip lasts" in request["messages"][1]["content"][0]["text"]
        (body(b"", status=503) if is_clip else good)(handler, request)

    with chat_server(overloaded) as server:
        lake = opened(**asking(server))
        run(lake)
        (letter,) = failed_rows(lake, transient=True)
        assert (letter["stage"], letter["error_code"], letter["name"]) == ("captions", 3801, "endpoint_unanswered")
        server.answers[:] = [good]
        asked = len(server.requests)
        assert request_retries(lake, [letter]) == 1
        run(lake)
        assert len(server.requests) == asked + 1  # the correction is kept
    assert failed_rows(lake) == []
    assert rows(lake)["description"]["caption"] == SAID["caption"]


def test_an_answer_that_cannot_be_used_is_a_row_and_keeps_the_transcript(opened) -> None:
    with chat_server(says("As an AI model I cannot see films.")) as server:
        lake = opened(**asking(server))
        run(lake)
    assert {(row["status"], row["error_code"]) for row in rows(lake).values()} == {("unreadable", 3802)}
    assert rows(lake)["correction"]["answers"] == ["As an AI model I cannot see films."]
    assert lake.tables.concat("tracks", "video")["transcript"].to_pylist() == ["The focks sits. It wates."]


def test_a_server_that_answers_nobody_ends_the_run_and_stamps_nothing(opened) -> None:
    lake = opened(
        captions={"corrector": "endpoint"},
        endpoint={"base_url": f"http://127.0.0.1:{free_port()}/v1", "model": "m", "tries": 1, "max_unanswered": 1},
    )
    with pytest.raises(RemoteUnavailable):
        run(lake)
    assert lake.tables.stamp(Slot("captions", "video", lake.registry.keys("video")[0])) is None


def test_the_gain_of_a_correction_is_measured_against_gold(opened, tmp_path) -> None:
    gold = make.land(tmp_path / "gold", {"fox.txt": b"The fox sits. It waits.", "other.txt": b"Nothing."})
    with chat_server(replies(reply)) as server:
        lake = opened(**asking(server))
        run(lake)
    found = {one.transcript: one for one in word_errors(lake, gold)}
    assert {one.rates.num_words for one in found.values()} == {5}
    assert {name: (one.rates.wer, one.rates.cer) for name, one in found.items()} == {
        "transcript": (2 / 5, 5 / 21),  # focks and wates; ck and s for x, an i too few, an e too many
        "transcript of those corrected": (2 / 5, 5 / 21),
        "corrected": (0.0, 0.0),
    }
    assert {(one.source, one.written_by) for one in found.values()} == {("films", "source")}


def test_a_glossary_needs_no_model(opened) -> None:
    lake = opened(captions={"corrector": "glossary", "glossary": {"focks": "fox"}})
    run(lake)
    assert texts(lake) == [(0.5, 1.25, "The focks sits.", "The fox sits."), (1.5, 1.9, "It wates.", None)]
    assert rows(lake)["correction"]["producer"] == "glossary"


@contextmanager
def _published(opened: Callable[..., Lake], **captions: Any):
    with chat_server(replies(reply)) as server:
        lake = opened(**asking(server, **captions))
        pipeline.run_tables(lake)
        update_samples(lake)
        update_catalog(lake)
        for step in ("manifest", "training_shards"):
            run_version_step(VERSION_STEPS[step], lake, "everything-v001")
        yield lake


def test_captions_reach_the_catalog_the_shards_and_the_track_lines(opened, tmp_path) -> None:
    with _published(opened) as lake:
        found = lake.catalog.read(["modality", "caption", "event_tags"], where="array_has(event_tags, 'animals')")
        assert found.to_pylist() == [{"modality": "video", "caption": SAID["caption"], "event_tags": SAID["tags"]}]
        index = lake.shards_dir / lake.versions.resolve("everything-v001")
        write_tracks(index, tmp_path / "tracks.jsonl")
        (line,) = read_tracks(tmp_path / "tracks.jsonl")
        (sample,) = track_samples(index)
        (example,) = tracks_of(lake, "everything-v001")
    drawn = drawn_tracks(sample).plain
    assert "caption    a fox sits in the snow" in drawn
    assert "events     0.00-2.00 s a fox sits" in drawn
    assert example.spans["events"] == [{"start_s": 0.0, "end_s": 2.0, "text": "a fox sits"}]
    assert [one["text"] for one in example.spans["corrected"]] == ["The fox sits.", "It waits."]
    assert (line.caption, line.event_tags) == (SAID["caption"], SAID["tags"])
    assert line.events == [{"text": "a fox sits", "start_s": 0.0, "end_s": 2.0}]
    assert line.corrected == [
        {"text": "The fox sits.", "start_s": 0.5, "end_s": 1.25},
        {"text": "It waits.", "start_s": 1.5, "end_s": 1.9},
    ]
    assert [cue["text"] for cue in line.cues] == ["The focks sits.", "It wates."]


def test_the_step_is_there_for_what_is_seen_or_recorded() -> None:
    step = ROW_STEPS["captions"]
    assert [name for name, row in MODALITIES.items() if step.is_for(row)] == ["video", "audio"]
