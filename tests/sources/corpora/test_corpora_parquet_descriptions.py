"""`metadata.parquet` next to media: joined with them where its columns name files, a table of its own where not."""

from __future__ import annotations

import json

import pytest

from mmlake.sources import scan
from tests.make import tar
from tests.sources.source_builders import SETTINGS, brief, land, parquet, png, rows_of, wav

NAMED = {"file_name": ["a.png", "sub/b.png", "gone.png", None], "text": ["a red house", None, "lost", "of none"]}
FILES = {"d/a.png": png(1), "d/sub/b.png": png(2)}


def said(rows: list[dict]) -> list[tuple]:
    return [
        (row["sample_id"], row["modality"], row["sample_text"] or row["text_content"], row["error_code"])
        for row in sorted(rows, key=lambda row: (row["sample_id"], row["modality"]))
    ]


@pytest.mark.parametrize("options", [{}, {"row_group_size": 1}, {"compression": "zstd"}])
def test_rows_that_name_files_are_joined_with_them(tmp_path, options: dict) -> None:
    table = parquet(NAMED | {"n": [7, 8, 9, 10]}, **options)
    rows = rows_of(land(tmp_path / "in", {**FILES, "d/metadata.parquet": table}))
    assert said(rows) == [
        ("d/a", "image", "a red house", None),
        ("d/a", "text", "a red house", None),
        ("d/metadata.parquet/row:3", "text", None, 1011),
        ("d/metadata.parquet/row:4", "text", None, 1003),
        ("d/sub/b", "image", None, None),
    ]
    numbers = {row["sample_id"]: json.loads(row["metadata_json"]) for row in rows if row["modality"] == "image"}
    assert numbers == {"d/a": {"n": 7}, "d/sub/b": {"n": 8}}


def test_recordings_have_their_transcripts(tmp_path) -> None:
    table = parquet({"file_name": ["data/1.wav"], "transcription": ["good morning"]})
    (media, text) = rows_of(land(tmp_path / "in", {"metadata.parquet": table, "data/1.wav": wav()}))
    assert (media["sample_text"], media["sample_text_role"]) == ("good morning", "transcript")
    assert (text["text_content"], text["role"]) == ("good morning", "transcript")


@pytest.mark.parametrize(
    "table",
    [
        parquet({"title": ["a.png"], "text": ["a red house"]}),
        parquet({"file_name": ["a.png"], "image": [png(3)], "text": ["a red house"]}),
    ],
)
def test_a_table_of_its_own_stays_one(tmp_path, table: bytes) -> None:
    rows = rows_of(land(tmp_path / "in", {**FILES, "d/metadata.parquet": table}))
    assert ("d/a", "image", None, None) in said(rows)
    assert "row:1/text" in [member for member, *_ in brief(rows)]


def test_of_two_tables_the_one_that_is_text_describes(tmp_path) -> None:
    csv = b"file_name,text\na.png,a blue house\n"
    rows = rows_of(land(tmp_path / "in", {**FILES, "d/metadata.csv": csv, "d/metadata.parquet": parquet(NAMED)}))
    assert ("d/a", "image", "a blue house", None) in said(rows)
    assert ("row:1/text", "text", "document", None) in brief(rows)


def test_a_damaged_table_is_a_row_and_leaves_the_pictures_alone(tmp_path) -> None:
    good = parquet(NAMED, row_group_size=1)
    rows = rows_of(land(tmp_path / "in", {**FILES, "d/metadata.parquet": good[:-30]}))
    assert [row["sample_id"] for row in rows if row["error_code"] is None] == ["d/a", "d/sub/b"]
    assert [row["sample_id"] for row in rows if row["error_code"] is not None] == ["d/metadata.parquet/!fault"]


def test_a_table_in_an_archive_is_a_table_of_its_own(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"a.png": png(), "metadata.parquet": parquet(NAMED)})}))
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == [None]
    assert any(member == "metadata.parquet#row:1/text" for member, *_ in brief(rows))


CSV = b"file_name,text\nd/a.png,a blue house\nd/sub/b.png,a green house\n"
OF_ITS_OWN = parquet({"title": ["a.png"], "text": ["a red house"]})


@pytest.mark.parametrize("place", ["d/metadata.parquet", "d/sub/metadata.parquet"])
def test_a_table_of_its_own_hides_none_of_a_directory_above(tmp_path, place: str) -> None:
    rows = rows_of(land(tmp_path / "in", {**FILES, "metadata.csv": CSV, place: OF_ITS_OWN}))
    media = {row["sample_id"]: row["sample_text"] for row in rows if row["modality"] == "image"}
    assert media == {"d/a": "a blue house", "d/sub/b": "a green house"}
    assert [row["error_code"] for row in rows if row["error_code"] is not None] == []


def test_a_nearer_table_that_names_files_describes_them_alone(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "in", {**FILES, "metadata.csv": CSV, "d/metadata.parquet": parquet(NAMED)}))
    media = {row["sample_id"]: row["sample_text"] for row in rows if row["modality"] == "image"}
    assert media == {"d/a": "a red house", "d/sub/b": None}
    assert [row["sample_id"] for row in rows if row["error_code"] == 1011] == [
        *("d/metadata.parquet/row:3", "metadata.csv/row:1", "metadata.csv/row:2"),
    ]


def test_a_table_above_is_read_again_when_a_nearer_one_comes_to_name_its_files(tmp_path) -> None:
    files = {**FILES, "metadata.csv": CSV}
    root = land(tmp_path / "in", {**files, "d/metadata.parquet": OF_ITS_OWN})
    before = {shard.key: shard.revision for shard in scan(root, settings=SETTINGS)}
    land(root, {"d/metadata.parquet": parquet(NAMED)})
    after = {shard.key: shard.revision for shard in scan(root, settings=SETTINGS)}
    assert before["metadata.csv"] != after["metadata.csv"] and before["d"] != after["d"]
