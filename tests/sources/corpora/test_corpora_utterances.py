"""Manifests of utterances: NeMo's with offsets, and the cuts of Lhotse."""

from __future__ import annotations

import json

import pytest

from mmlake.sources.companions import utterances
from tests.sources.source_builders import brief, gz, jsonl, land, rows_of, wav

VTT = "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\ngood morning\n\n00:00:01.500 --> 00:00:02.250\nand good night\n"


def metadata(row: dict) -> dict:
    return json.loads(row["metadata_json"] or "{}")


def span(offset: float, duration: float, text: str, **fields: object) -> dict:
    return {"audio_filepath": "wavs/1.wav", "offset": offset, "duration": duration, "text": text, **fields}


SPANS = [span(0, 1.0, "good morning"), span(1.5, 0.75, "and good night")]


def cut(start: float = 0.0, number: int = 1, kind: str = "file", **said: object) -> dict:
    """A cut of a recording as `CutSet.to_file` of Lhotse writes it."""
    supervision = {"id": f"s{number}", "recording_id": "r1", "start": 0.5, "duration": 1.0, "channel": 0, **said}
    source = {"type": kind, "channels": [0], "source": "wavs/1.wav"}
    recording = {"id": "r1", "sources": [source], "sampling_rate": 8000, "num_samples": 8, "duration": 3.0}
    return {"id": f"c{number}", "start": start, "duration": 2.0, "channel": 0, "type": "MonoCut"} | {
        "supervisions": [supervision],
        "recording": recording,
    }


@pytest.mark.parametrize("name", ["m.json", "m.jsonl", "m.jsonl.gz"])
def test_utterances_of_one_recording_are_its_transcript(tmp_path, name: str) -> None:
    data = jsonl(SPANS[0], {"audio_filepath": "wavs/2.wav", "duration": 1, "text": "alone"}, SPANS[1])
    files = {name: gz(data) if name.endswith(".gz") else data, "wavs/1.wav": wav(8), "wavs/2.wav": wav(9)}
    rows = rows_of(land(tmp_path / "in", files))
    assert [(row["modality"], row["sample_text"] or row["text_content"]) for row in rows] == [
        ("audio", VTT),
        ("text", VTT),
        ("audio", "alone"),
        ("text", "alone"),
    ]


def test_what_else_is_said_of_an_utterance_stays_with_it(tmp_path) -> None:
    files = {"m.json": jsonl(SPANS[0] | {"speaker": "a"}, SPANS[1] | {"speaker": "b"}), "wavs/1.wav": wav()}
    media, _ = rows_of(land(tmp_path / "in", files))
    assert metadata(media)["segments"] == [
        {"text": "good morning", "speaker": "a", "start_s": 0.0, "end_s": 1.0},
        {"text": "and good night", "speaker": "b", "start_s": 1.5, "end_s": 2.25},
    ]


def test_an_utterance_that_is_the_whole_recording_has_its_words_as_they_are(tmp_path) -> None:
    media, _ = rows_of(land(tmp_path / "in", {"m.json": jsonl(SPANS[0]), "wavs/1.wav": wav()}))
    assert (media["sample_text"], metadata(media)) == ("good morning", {"offset": 0, "duration": 1.0})


@pytest.mark.parametrize("name", ["recordings.jsonl", "recordings.jsonl.gz"])
def test_recordings_of_lhotse_are_what_they_are_and_no_broken_records(tmp_path, name: str) -> None:
    """Lhotse writes them next to the supervisions; each was a row that could not be read."""
    recording = cut()["recording"] | {"id": "rec-0001", "channel_ids": [0]}
    said = {"id": "s1", "recording_id": "rec-0001", "start": 0.0, "duration": 2.5, "channel": 0, "text": "good morning"}
    recording["sources"][0]["source"] = "wavs/rec-0001.wav"
    data = gz(jsonl(recording)) if name.endswith(".gz") else jsonl(recording)
    rows = rows_of(land(tmp_path / "in", {name: data, "supervisions.jsonl": jsonl(said), "wavs/rec-0001.wav": wav(8)}))
    assert [(row["modality"], row["error_code"], row["sample_text"] or row["text_content"]) for row in rows] == [
        ("audio", None, "good morning"),
        ("text", None, "good morning"),
    ]
    known = metadata(rows[0])
    assert (known["sampling_rate"], known["num_samples"], known["duration"]) == (8000, 8, 2.5)


@pytest.mark.parametrize("change", [{"sources": []}, {"num_samples": "8"}, {"id": 1}])
def test_what_is_no_recording_of_lhotse_stays_a_record(change: dict) -> None:
    recording = cut()["recording"] | change
    assert not utterances.is_recording(recording) and utterances.as_utterances(recording) is recording


def test_a_cut_of_lhotse_gives_its_recording_words_with_times(tmp_path) -> None:
    cuts = [cut(0.0, 1, text="good morning", speaker="a"), cut(1.0, 2, text="and good night")]
    media, text = rows_of(land(tmp_path / "in", {"cuts.jsonl.gz": gz(jsonl(*cuts)), "wavs/1.wav": wav()}))
    assert "00:00:00.500 --> 00:00:01.500\ngood morning" in media["sample_text"]
    assert "00:00:01.500 --> 00:00:02.500\nand good night" in media["sample_text"]
    assert media["sample_text"] == text["text_content"]
    assert metadata(media)["recording_id"] == "r1"
    assert metadata(media)["segments"][0] == {
        "utterance_id": "s1", "channel": 0, "text": "good morning", "speaker_id": "a", "start_s": 0.5, "end_s": 1.5,
    }  # fmt: skip


def test_a_cut_of_a_command_is_a_row_and_is_never_run(tmp_path) -> None:
    mark = tmp_path / "ran"
    bad = cut(0.0, 2, "command", text="lost")
    bad["recording"]["sources"][0]["source"] = f"touch {mark}"
    rows = rows_of(land(tmp_path / "in", {"c.jsonl": jsonl(cut(text="here"), bad), "wavs/1.wav": wav()}))
    assert sorted(code for *_, code in brief(rows) if code) == [1007]
    assert not mark.exists()


def test_utterances_of_a_recording_that_is_missing_are_one_row_with_all_words(tmp_path) -> None:
    gone = [one | {"audio_filepath": "wavs/gone.wav"} for one in SPANS]
    rows = rows_of(land(tmp_path / "in", {"m.json": jsonl(*SPANS, *gone), "wavs/1.wav": wav()}))
    assert [code for *_, code in brief(rows)] == [1011, None, None]
    assert all(word in str(rows[0]) or rows[0]["digest"] for word in ("good morning", "and good night"))


def test_more_utterances_than_a_sample_may_hold_are_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(utterances, "_MAX_SEGMENTS", 2)
    spans = [span(at, 1, f"word {at}") for at in range(4)]
    rows = rows_of(land(tmp_path / "in", {"m.json": jsonl(*spans), "wavs/1.wav": wav()}))
    assert sorted(code for *_, code in brief(rows) if code) == [1008, 1008]
    assert "word 1" in next(row["sample_text"] for row in rows if row["modality"] == "audio")


@pytest.mark.parametrize("broken", [{"offset": -1}, {"duration": "long"}, {"offset": None}])
def test_a_span_that_is_none_leaves_the_record_as_it_is(tmp_path, broken: dict) -> None:
    media, _ = rows_of(land(tmp_path / "in", {"m.json": jsonl(SPANS[1] | broken), "wavs/1.wav": wav()}))
    assert media["sample_text"] == "and good night"


def test_half_of_a_surrogate_pair_in_a_record_ends_nothing(tmp_path) -> None:
    files = {
        "m.json": jsonl(SPANS[0] | {"note": "\ud800"}, SPANS[1] | {"audio_filepath": "./wavs/1.wav"}),
        "wavs/1.wav": wav(),
    }
    assert [code for *_, code in brief(rows_of(land(tmp_path / "in", files)))] == [None, None]
    files = {"m.json": jsonl(*SPANS, SPANS[1] | {"audio_filepath": "\ud800.wav"}), "wavs/1.wav": wav()}
    assert [code for *_, code in brief(rows_of(land(tmp_path / "else", files)))] == [1011, None, None]
