"""Folders of images and recordings with a table `metadata.csv` or `metadata.jsonl` that says what they are."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.companions import file_records
from tests.sources.source_builders import SETTINGS, jsonl, land, png, rows_of, sha, wav

TABLE = b'file_name,caption,score\na.png,"a red, round apple",7\nb.png,a pear,8\n'
IMAGES = {"d/a.png": png(1), "d/b.png": png(2)}


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def metadata(row):
    return json.loads(row["metadata_json"] or "{}")


@pytest.mark.parametrize(
    "name, table, score",
    [
        ("metadata.csv", TABLE, "7"),
        ("metadata.csv", b"\xef\xbb\xbf" + TABLE.replace(b"\n", b"\r\n"), "7"),
        ("metadata.tsv", b"file_name\tcaption\tscore\na.png\ta red, round apple\t7\nb.png\ta pear\t8\n", "7"),
        (
            "metadata.jsonl",
            jsonl(
                {"file_name": "a.png", "caption": "a red, round apple", "score": 7},
                {"file_name": "b.png", "caption": "a pear", "score": 8},
            ),
            7,
        ),
        (
            "metadata.jsonl",
            jsonl(
                {"image_file_name": "./a.png", "text": "a red, round apple", "score": 7},
                {"image_file_name": "b.png", "text": "a pear"},
            ),
            7,
        ),
    ],
)
def test_an_image_and_what_the_table_says_of_it_are_one_sample(tmp_path, name, table, score):
    rows = found(tmp_path, IMAGES | {f"d/{name}": table})
    assert [(row["sample_id"], row["modality"], row["role"], row["error_code"]) for row in rows] == [
        ("d/a", "image", "media", None),
        ("d/a", "text", "caption", None),
        ("d/b", "image", "media", None),
        ("d/b", "text", "caption", None),
    ]
    assert [row["sample_text"] or row["text_content"] for row in rows] == [
        "a red, round apple",
        "a red, round apple",
        "a pear",
        "a pear",
    ]
    assert metadata(rows[0]) == {"score": score}


def test_a_recording_has_its_transcript(tmp_path):
    rows = found(tmp_path, {"d/x/1.wav": wav(), "d/metadata.csv": b"file_name,transcription\nx/1.wav,good morning\n"})
    assert [(row["modality"], row["role"], row["sample_text"]) for row in rows] == [
        ("audio", "media", "good morning"),
        ("text", "transcript", None),
    ]


def test_a_table_describes_files_of_directories_below_it(tmp_path):
    files = {
        "d/train/x/a.png": png(1),
        "d/test/a.png": png(2),
        "d/metadata.jsonl": jsonl(
            {"file_name": "train/x/a.png", "text": "one"}, {"file_name": "test/a.png", "text": "two"}
        ),
    }
    rows = found(tmp_path, files)
    assert [(row["sample_id"], row["sample_text"]) for row in rows if row["modality"] == "image"] == [
        ("d/test/a", "two"),
        ("d/train/x/a", "one"),
    ]


def test_the_nearest_table_speaks_and_the_other_one_says_so(tmp_path):
    files = {
        "x/a.png": png(1),
        "x/metadata.csv": b"file_name,text\na.png,near\n",
        "metadata.csv": b"file_name,text\nx/a.png,far\n",
    }
    rows = found(tmp_path, files)
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == ["near"]
    assert [(row["sample_id"], row["materialize_error"]) for row in rows if row["error_code"] == 1011] == [
        ("metadata.csv/row:1", "the file x/a.png is described by a table that lies nearer to it")
    ]


def test_several_records_of_one_image_are_its_captions(tmp_path):
    rows = found(
        tmp_path, {"d/a.png": png(1), "d/metadata.csv": b"file_name,caption,by\na.png,first,x\na.png,second,y\n"}
    )
    assert [(row["position"], row["sample_text"] or row["text_content"]) for row in rows] == [
        (0, "first\nsecond"),
        (1, "first"),
        (2, "second"),
    ]
    assert metadata(rows[0]) == {"by": "x"}


def test_a_record_that_no_file_took_is_a_row_with_the_record(tmp_path):
    table = (
        jsonl(
            {"file_name": "gone.png", "text": "lost"},
            {"file_name": "../out.png", "text": "out"},
            {"text": "of nothing"},
        )
        + b"no json\n"
    )
    rows = found(tmp_path, {"d/a.png": png(1), "d/metadata.jsonl": table})
    said = [
        (SourceRef.from_json(row["source_ref"]).member, row["error_code"], row["digest"])
        for row in rows
        if row["modality"] == "text"
    ]
    assert said == [
        ("line:1", 1011, sha(b'{"file_name":"gone.png","text":"lost"}')),
        ("line:2", 1011, sha(b'{"file_name":"../out.png","text":"out"}')),
        ("line:3", 1003, sha(b'{"text":"of nothing"}')),
        ("line:4", 1003, sha(b"no json")),
    ]


def test_a_damaged_line_of_a_csv_costs_its_record_alone(tmp_path):
    rows = found(tmp_path, IMAGES | {"d/metadata.csv": b"file_name,caption\na.png,one,too many\nb.png,a pear\n"})
    assert [(row["sample_id"], row["error_code"]) for row in rows if row["modality"] == "text"] == [
        ("d/b", None),
        ("d/metadata.csv/row:1", 1003),
    ]


@pytest.mark.parametrize(
    "name, data",
    [
        ("metadata.csv", b"name,caption\na,x\n"),
        ("metadata.jsonl", jsonl({"text": "a document"}, {"text": "another"})),
        ("metadata.csv", b'"' * 200_000),
        ("metadata.jsonl", b"[" * 100_000),
    ],
)
def test_a_table_that_names_no_files_is_what_it_was(tmp_path, name, data):
    rows = found(tmp_path, {"d/a.png": png(1), f"d/{name}": data})
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == [None]
    assert {shard.format for shard in sources.scan(tmp_path / "in", settings=SETTINGS)} <= {
        "folder",
        "jsonl",
        "separated",
    }


def test_a_name_of_any_bytes_is_no_way_out(tmp_path):
    table = jsonl(
        *(
            {"file_name": name, "text": "x"}
            for name in ("/etc/passwd", "..", "x\0.png", "\ud800.png", "a" * 5000, ".", "x/../../up.png")
        )
    )
    rows = found(tmp_path, {"d/a.png": png(1), "d/metadata.jsonl": table})
    assert [row["error_code"] for row in rows if row["modality"] == "text"] == [1011] * 7


def test_half_of_a_surrogate_pair_in_a_caption_is_a_row(tmp_path):
    rows = found(
        tmp_path,
        {"d/a.png": png(1), "d/metadata.jsonl": b'{"file_name": "a.png", "text": "\\ud800", "title": "\\udc00"}\n'},
    )
    assert [(row["sample_id"], row["error_code"]) for row in rows] == [("d/a", None), ("d/a", 1003)]


def test_another_table_or_another_image_is_another_revision(tmp_path):
    root = land(tmp_path / "in", IMAGES | {"d/metadata.csv": TABLE, "e/c.png": png(3)})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first
    land(root, {"d/c.png": png(4)})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert {key for key in first if first[key].revision != second[key].revision} == {"d", "d/metadata.csv"}
    land(root, {"d/metadata.csv": TABLE + b"c.png,a plum,9\n"})
    third = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=second)}
    assert {key for key in second if second[key].revision != third[key].revision} == {"d", "d/metadata.csv"}


def test_texts_behind_a_first_record_without_any_stay_in_the_metadata(tmp_path):
    rows = found(
        tmp_path,
        IMAGES | {"d/metadata.jsonl": jsonl({"file_name": "a.png", "n": 1}, {"file_name": "b.png", "caption": "late"})},
    )
    assert [(row["modality"], metadata(row)) for row in rows] == [("image", {"n": 1}), ("image", {"caption": "late"})]


def test_records_beyond_what_one_sample_may_hold_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(file_records, "_MAX_PER_FILE", 2)
    rows = found(
        tmp_path,
        {"d/a.png": png(1), "d/metadata.jsonl": jsonl(*({"file_name": "a.png", "text": f"t{at}"} for at in range(4)))},
    )
    assert [(row["sample_id"], row["error_code"]) for row in rows if row["modality"] == "text"] == [
        ("d/a", None),
        ("d/a", None),
        ("d/metadata.jsonl/line:3", 1008),
        ("d/metadata.jsonl/line:4", 1008),
    ]
