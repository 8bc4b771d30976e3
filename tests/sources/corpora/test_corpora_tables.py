"""Tables of any name with a column of files and one of words, next to the media or above them."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.source_builders import SETTINGS, gz, land, png, rows_of, wav

TABLE = b'filename,caption,rater\na.png,"a red, round apple",7\nb.png,a pear,8\n'
SAID = [("a", "a red, round apple"), ("b", "a pear")]


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def captions(rows):
    """(stem of the picture, words) of the captions that lie in a sample with one."""
    pictures = {row["sample_id"] for row in rows if row["modality"] == "image"}
    texts = (row for row in rows if row["modality"] == "text" and row["error_code"] is None)
    return [(row["sample_id"].rpartition("/")[2], row["text_content"]) for row in texts if row["sample_id"] in pictures]


def formats(tmp_path):
    return {shard.key: shard.format for shard in sources.scan(tmp_path / "in", settings=SETTINGS)}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("captions.csv", TABLE),
        ("metadata.csv", TABLE),  # without a `file_name`, as the library `datasets` asks for
        ("train.csv", b"\xef\xbb\xbf" + TABLE.replace(b"\n", b"\r\n")),
        ("notes.csv", TABLE.replace(b"filename", b"file_name")),
        ("captions.csv.gz", gz(TABLE)),
        ("all.csv", TABLE.decode().encode("utf-16")),
        ("data.tsv", b"text\timg\na red, round apple\ta.png\na pear\tb.png\n"),
        ("results.csv", b";Sentence;path\n0;a red, round apple; a.png\n1;a pear;b.png\n"),
        ("results.csv", b"image_name|number|caption\na.png|0|a red, round apple\nb.png|0|a pear\n"),
    ],
)
@pytest.mark.parametrize("place", ["", "images/", "Images/"])
def test_a_picture_has_the_caption_of_its_row(tmp_path, name, data, place):
    rows = found(tmp_path, {f"d/{place}a.png": png(1), f"d/{place}b.png": png(2), f"d/{name}": data})
    assert captions(rows) == SAID and len(rows) == 4
    assert formats(tmp_path)[f"d/{name}"] == "manifest"


def test_what_else_a_row_says_is_said_of_its_caption_and_the_names_of_files_are_not(tmp_path):
    rows = found(tmp_path, {"d/a.png": png(1), "d/b.png": png(2), "d/captions.csv": TABLE})
    assert [json.loads(row["metadata_json"]) for row in rows if row["modality"] == "text"] == [
        {"rater": "7"},
        {"rater": "8"},
    ]


def test_several_rows_of_a_picture_are_its_captions_and_rows_of_missing_ones_say_so(tmp_path):
    table = TABLE + b"a.png,one apple,9\nc.png,a plum,1\n,nothing,2\n"
    rows = found(tmp_path, {"d/a.png": png(1), "d/b.png": png(2), "d/captions.csv": table})
    assert sorted(captions(rows)) == sorted([*SAID, ("a", "one apple")])
    missing = [row for row in rows if row["error_code"] is not None]
    assert [(row["error_code"], row["sample_id"]) for row in missing] == [(1011, "d/captions.csv/row:4")]
    assert "c.png is missing" in missing[0]["materialize_error"]
    assert [
        row["text_content"] for row in rows if row["sample_id"].startswith("d/captions.csv") and row not in missing
    ] == ["nothing"]


def test_a_recording_has_its_transcript(tmp_path):
    table = b"wav,transcription\nwavs/one.wav,one and two\n"
    rows = found(tmp_path, {"d/wavs/one.wav": wav(), "d/list.csv": table})
    assert [(row["sample_id"], row["role"]) for row in rows] == [
        ("d/wavs/one", "media"),
        ("d/wavs/one", "transcript"),
    ]


def test_a_caption_has_the_place_of_its_cell(tmp_path):
    rows = found(tmp_path, {"d/a.png": png(1), "d/b.png": png(2), "d/captions.csv": TABLE})
    (row,) = [row for row in rows if row["text_content"] == "a pear"]
    ref = SourceRef.from_json(row["source_ref"])
    assert (ref.path, ref.member, row["materialize_error"]) == ("d/captions.csv", "row:2#/caption", None)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,  # none of whose files is there
        b"url,caption\nhttp://x.example/a.png,an apple\nhttp://x.example/b.png,a pear\n",
        b"name,caption\na,an apple\nb,a pear\n",
        b"filename,caption\na.png,an apple\nno picture,a pear\n",  # a column of other things, too
    ],
)
def test_a_table_that_names_no_file_that_is_there_is_a_list_of_texts(tmp_path, data):
    rows = found(tmp_path, {"d/e.png": png(1), "d/captions.csv": data})
    texts = [row for row in rows if row["modality"] == "text"]
    assert [row["error_code"] for row in texts] == [None, None] and captions(rows) == []


def test_a_table_of_labels_alone_stays_a_document(tmp_path):
    rows = found(tmp_path, {"d/a.png": png(1), "d/labels.csv": b"image,label\na.png,apple\n"})
    assert formats(tmp_path).get("d/labels.csv") is None and captions(rows) == []


def test_hundreds_of_tables_are_of_one_medium_each_and_manifests_next_to_them_count(tmp_path):
    many = {f"d/log{number}.csv": b"file,text\na.png,x\n" for number in range(257)}
    manifest = b'[{"image": "a.png", "caption": "an apple"}]'
    rows = found(tmp_path, {"d/a.png": png(1), "d/mix.json": manifest} | many)
    assert captions(rows) == [("a", "an apple")]
