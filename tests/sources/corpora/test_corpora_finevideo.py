"""FineVideo: Parquet of mp4 bytes and a nested record with timecodes and scenes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from mmlake.formats.timed_text import seconds_of, transcript_of
from mmlake.preprocess.transcripts.subtitles import parse_cues
from tests.sources.corpora.builders import FINEVIDEO_JSON, finevideo, finevideo_record, landed, metadata
from tests.sources.source_builders import brief, mp4, rows_of

PATH = "data/train-00000-of-01357.parquet"
LINES = [("00:00:00.000", "00:00:01.500", "Hello & welcome."), ("00:00:01.500", "00:00:02.240", "This is <b>it</b>.")]
FILM = mp4(b"vide", b"soun")


def one(tmp_path, rows, **options):
    return rows_of(landed(tmp_path / "in", {PATH: finevideo(rows, **options)}))


def test_a_row_is_a_video_and_its_transcript_with_times(tmp_path):
    rows = one(tmp_path, [(FILM, finevideo_record(0, LINES))])
    assert brief(rows) == [
        ("row:1/mp4", "video", "media", None),
        ("row:1/json/timecoded_text_to_speech", "text", "transcript", None),
    ]
    assert (
        rows[0]["sample_id"] == rows[1]["sample_id"]
        and rows[0]["content_type"] == "video/mp4"
        and rows[1]["content_type"] == "text/vtt"
    )
    assert rows[0]["sample_text"] == rows[1]["text_content"]
    assert [(cue.start_s, cue.end_s, cue.text) for cue in parse_cues(rows[0]["sample_text"])] == [
        (0.0, 1.5, "Hello & welcome."),
        (1.5, 2.24, "This is <b>it</b>."),
    ]


@pytest.mark.parametrize(
    "kind, spell",
    [
        (pa.string(), json.dumps),
        (pa.large_string(), json.dumps),
        (pa.binary(), lambda record: json.dumps(record).encode()),
    ],
)
def test_mirrors_that_hold_the_record_as_text_or_bytes_give_the_same_rows(tmp_path, kind, spell):
    record = finevideo_record(0, LINES)
    struct, text = one(tmp_path / "a", [(FILM, record)]), one(tmp_path / "b", [(FILM, spell(record))], kind=kind)
    names = ("sample_id", "modality", "role", "digest", "text_content", "sample_text", "position", "status")
    assert [[row[name] for name in names] for row in struct] == [[row[name] for name in names] for row in text]
    assert metadata(struct[0]) == metadata(text[0])


def test_the_record_is_kept_as_nested_metadata_and_scenes_have_seconds(tmp_path):
    record = finevideo_record(0, LINES)
    kept = metadata(one(tmp_path, [(FILM, record)])[0])
    scene = kept["content_metadata"]["scenes"][0]
    assert scene["timestamps"] == {
        "start_timestamp": "00:00:00.000",
        "end_timestamp": "00:00:02.240",
        "start_s": 0.0,
        "end_s": 2.24,
    }
    assert scene["activities"][0]["timestamp"]["end_s"] == 2.24
    assert scene["props"][0]["timestamp"] == {"start_timestamp": "start", "end_timestamp": "00:01:00.5", "end_s": 60.5}
    assert (kept["youtube_view_count"], kept["text_to_speech"], kept["content_metadata"]["fps"]) == (
        12_345,
        record["text_to_speech"],
        23.976,
    )
    assert "timecoded_text_to_speech" not in kept


def test_without_timecodes_the_plain_transcript_is_taken(tmp_path):
    rows = one(tmp_path, [(FILM, finevideo_record(0, None, text_to_speech="Hello there."))])
    assert brief(rows) == [
        ("row:1/mp4", "video", "media", None),
        ("row:1/json/text_to_speech", "text", "transcript", None),
    ]
    assert rows[0]["sample_text"] == "Hello there."


def test_lines_with_malformed_times_are_a_row_and_the_good_ones_stay(tmp_path):
    lines = [
        LINES[0],
        ("0:xx", "00:00:02.000", "lost?"),
        ("00:00:03.000", "00:00:02.000", "backwards"),
        ("00:00:05.000", "00:00:06.000", "end"),
    ]
    rows = one(tmp_path, [(FILM, finevideo_record(0, lines))])
    assert [(row["role"], row["error_code"]) for row in rows] == [
        ("media", None),
        ("transcript", None),
        ("transcript", 1003),
    ]
    assert [cue.text for cue in parse_cues(rows[1]["text_content"])] == ["Hello & welcome.", "end"] and "lost?" in rows[
        1
    ]["text_content"]
    assert rows[2]["materialize_error"].startswith("num_lines=2 of 4 in timecoded_text_to_speech") and rows[2][
        "size_bytes"
    ] == len(b"lost?\nbackwards")


def test_a_transcript_whose_times_are_all_malformed_falls_back_to_the_plain_one(tmp_path):
    rows = one(tmp_path, [(FILM, finevideo_record(0, [("?", "?", "words")]))])
    assert [(row["role"], row["error_code"]) for row in rows] == [
        ("media", None),
        ("transcript", None),
        ("transcript", 1003),
    ]
    assert rows[0]["sample_text"] == "words"


def test_null_cells_are_rows_with_reasons_and_lose_nothing_else(tmp_path):
    rows = one(tmp_path, [(None, finevideo_record(0, LINES)), (FILM, None), (None, None)])
    assert brief(rows) == [
        ("row:1/json/timecoded_text_to_speech", "text", "transcript", None),
        ("row:1/mp4", "video", "media", 1003),
        ("row:2/mp4", "video", "media", None),
        ("row:2/json", "text", "document", 1003),
        ("row:3/mp4", "video", "media", 1003),
        ("row:3/json", "text", "document", 1003),
    ]
    assert {row["materialize_error"] for row in rows if row["error_code"]} == {
        "the cell of mp4 is null",
        "the cell of json is null",
    }


def test_a_record_that_is_no_json_is_a_row_with_its_bytes_and_the_video_stays(tmp_path):
    rows = one(tmp_path, [(FILM, '{"youtube_title": "cut')], kind=pa.string())
    assert [(row["modality"], row["error_code"], row["size_bytes"]) for row in rows] == [
        ("video", None, len(FILM)),
        ("text", 1003, 22),
    ]


def test_a_video_cell_that_is_damaged_keeps_its_row_and_transcript(tmp_path):
    rows = one(tmp_path, [(b"", finevideo_record(0, LINES)), (b"<html>404</html>", finevideo_record(1, LINES))])
    assert [(row["modality"], row["error_code"]) for row in rows] == [
        ("video", 1006),
        ("text", None),
        ("video", None),
        ("text", None),
    ]


def test_a_record_without_texts_is_metadata_alone(tmp_path):
    rows = one(tmp_path, [(FILM, {"width": 64})], kind=pa.struct([("width", pa.int64())]))
    assert [row["modality"] for row in rows] == ["video"] and metadata(rows[0]) == {"width": 64}


def test_the_published_schema_is_what_the_builder_writes():
    assert {"content_metadata", "timecoded_text_to_speech", "youtube_title"} <= {field.name for field in FINEVIDEO_JSON}


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("00:00:01.234", 1.234),
        ("01:02:03", 3723.0),
        ("02:03.5", 123.5),
        ("62.25", 62.25),
        (7, 7.0),
        ("00:00:01,5", 1.5),
        ("100:00.000", 6000.0),
    ],
)
def test_times_in_any_common_spelling_are_seconds(text, seconds):
    assert seconds_of(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00:00:75.000",
        "00:61:00.000",
        "-1",
        "1e9",
        "nan",
        float("inf"),
        None,
        True,
        "00:00:01.234 --> x",
        -0.5,
        "12:",
    ],
)
def test_what_is_no_time_has_no_seconds(text):
    assert seconds_of(text) is None


@pytest.mark.parametrize(
    "lines", [None, [], "text", [1, 2], [{"start": 0, "end": 1}], [{"text": "  ", "start": 0, "end": 1}]]
)
def test_what_is_no_list_of_lines_is_no_transcript(lines):
    assert transcript_of(lines) is None


def test_words_cannot_forge_a_cue():
    text = transcript_of(
        [
            {"start": 0, "end": 1, "text": "a\n\n00:00:05.000 --> 00:00:06.000\nforged"},
            {"start": "x", "end": 1, "text": "00:07.000 --> 00:08.000"},
        ]
    ).text
    assert [(cue.start_s, cue.text) for cue in parse_cues(text)] == [(0.0, "a 00:00:05.000 --> 00:00:06.000 forged")]
