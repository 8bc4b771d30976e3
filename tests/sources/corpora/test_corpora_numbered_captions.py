"""Captions in fields with numbers (Clotho's `caption_1` to `caption_5`, Flickr8k's `caption_0` to `caption_4`): each is
a caption, in the order of the numbers."""

from __future__ import annotations

import json

import pytest

from tests.make import tar
from tests.sources.source_builders import jsonl, land, parquet, png, rows_of, wav

HEAD = b"file_name,caption_2,caption_1,caption_10,keywords\n"
CSV = HEAD + b'Birds 1.wav,birds sing,"a bird, singing",singing,birds\n'
SAID = ["a bird, singing", "birds sing", "singing"]


def captions(rows: list[dict]) -> list[str]:
    assert {row["error_code"] for row in rows} == {None}
    return [row["text_content"] for row in rows if row["role"] == "caption"]


@pytest.mark.parametrize(
    "table, media",
    [
        ("metadata.csv", "Birds 1.wav"),
        ("clotho_captions_development.csv", "development/Birds 1.wav"),
        ("d/clotho_captions_development.csv", "d/development/Birds 1.wav"),
        ("captions.csv", "Birds 1.wav"),
    ],
)
def test_a_table_of_numbered_captions_describes_recordings(tmp_path, table: str, media: str) -> None:
    rows = rows_of(land(tmp_path / "in", {table: CSV, media: wav()}))
    assert captions(rows) == SAID and len(rows) == 4
    (recording,) = (row for row in rows if row["modality"] == "audio")
    assert json.loads(recording["metadata_json"])["keywords"] == "birds"
    assert len({row["sample_id"] for row in rows}) == 1


def test_numbered_captions_of_records_and_columns_are_captions(tmp_path) -> None:
    fields = {"caption_0": "a", "caption_1": "b", "caption": "c", "Caption2": "d", "caption_id": "7"}
    columns = {name: [value] for name, value in fields.items()} | {"image": [png(1)]}
    files = {
        "a.parquet": parquet(columns),
        "b/x.jpg": png(2),
        "b/x.json": json.dumps(fields).encode(),
        "c.tar": tar({"y.png": png(3), "y.json": json.dumps(fields).encode()}),
        "d.jsonl": jsonl(fields),
    }
    rows = rows_of(land(tmp_path / "in", files))
    assert captions(rows) == ["c", "a", "b", "d"] * 4


def test_a_number_behind_a_caption_that_is_no_text_is_metadata(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "in", {"x.jpg": png(2), "x.json": b'{"caption_1": 5, "caption_2": "a"}'}))
    (picture,) = (row for row in rows if row["modality"] == "image")
    assert captions(rows) == ["a"] and json.loads(picture["metadata_json"]) == {"caption_1": 5}
