"""JSON next to media that is no object, and numbers in members of their own, as WebDataset writes both."""

from __future__ import annotations

import json

import pytest

from tests.make import tar
from tests.sources.source_builders import brief, land, png, rows_of


def metadata(row: dict) -> dict:
    return json.loads(row["metadata_json"] or "{}")


@pytest.mark.parametrize("value", [[{"bbox": [1, 2, 3, 4], "id": 7}], ["alpha", "beta"], "a word", 7, None, []])
@pytest.mark.parametrize("is_packed", [True, False])
def test_json_next_to_a_picture_may_be_anything(tmp_path, value: object, is_packed: bool) -> None:
    files = {"a.png": png(), "a.json": json.dumps(value).encode(), "a.txt": b"a caption"}
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar(files)} if is_packed else files))
    assert [code for *_, code in brief(rows)] == [None, None]
    assert {(row["modality"], row["text_content"] or row["sample_text"]) for row in rows} == {
        ("image", "a caption"),
        ("text", "a caption"),
    }
    assert all(metadata(row) == {"json": value} for row in rows)


def test_a_list_without_a_medium_stays_a_fault(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"a.json": b"[1, 2]", "b.txt": b"words"})}))
    assert [code for *_, code in brief(rows)] == [1003, None]


@pytest.mark.parametrize("name", ["cls", "class", "cls2", "count", "index", "inx", "id"])
def test_a_number_in_a_member_of_its_own_is_no_caption(tmp_path, name: str) -> None:
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"a.png": png(), f"a.{name}": b"7", "a.txt": b"a dog"})}))
    assert [(row["modality"], row["sample_text"], metadata(row)) for row in rows if row["modality"] == "image"] == [
        ("image", "a dog", {name: "7"})
    ]
    assert len(rows) == 2
