"""What the fuzzer found, each as a case of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.memory import rows_of
from tests.hostile.mutations import repaired
from tests.hostile.seeds import media, tar, zipped


def _land(landing: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_bytes(data)
    return landing


@pytest.mark.parametrize(
    "record", [{"": 1}, {"": {"": 1}, "text": None}, {"": "x", "text": "words"}, {"text": "words", "": None}]
)
def test_a_record_with_a_field_without_a_name_is_read(tmp_path, record):
    lines = _land(tmp_path / "lines", {"a.jsonl": json.dumps(record).encode() + b'\n{"text":"next"}\n'})
    assert [row["text_content"] for row in rows_of(lines)] == [record.get("text"), "next"]
    packed = rows_of(
        _land(
            tmp_path / "packed", {"a.tar": tar((("0.json", json.dumps(record).encode()), ("0.png", media()["p.png"])))}
        )
    )
    assert [row["status"] for row in packed if row["modality"] == "image"] == ["ok"]


def test_a_member_whose_name_ends_in_a_slash_and_has_bytes_is_refused_and_the_next_is_read(tmp_path):
    """Old archives mark directories so; a regular member with content is none, and its bytes are no header."""
    data = bytearray(tar((("ab", b"something"), ("1.txt", b"next"))))
    data[1:2] = b"/"
    rows = rows_of(_land(tmp_path / "in", {"a.tar": repaired(bytes(data[:512])) + bytes(data[512:])}))
    assert [(row["text_content"], row["error_code"]) for row in rows] == [(None, 1007), ("next", None)]


def test_annotations_that_begin_without_a_caption_still_give_their_captions(tmp_path):
    """The scan detects modalities by the first annotation with content: an empty one decides nothing."""
    record = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"id": 0, "image_id": 1}, {"id": 1, "image_id": 1, "caption": "a bridge"}],
    }
    landing = _land(
        tmp_path / "in",
        {"annotations/captions_val2017.json": json.dumps(record).encode(), "val2017/1.jpg": media()["p.jpg"]},
    )
    assert [row["text_content"] for row in rows_of(landing) if row["status"] == "ok"] == [None, "a bridge"]


def test_captions_among_objects_are_kept_as_metadata_of_their_image(tmp_path):
    annotations = [{"id": 0, "image_id": 1, "bbox": [0, 0, 4, 4]}, {"id": 1, "image_id": 1, "caption": "a bridge"}]
    record = {"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": annotations}
    landing = _land(
        tmp_path / "in",
        {"annotations/instances_val2017.json": json.dumps(record).encode(), "val2017/1.jpg": media()["p.jpg"]},
    )
    (image,) = (row for row in rows_of(landing) if row["modality"] == "image")
    assert json.loads(image["metadata_json"])["captions"] == ["a bridge"]


def test_a_zip_of_damaged_pictures_has_the_captions_that_lie_next_to_it(tmp_path):
    """The scan asked for captions of folders with a readable picture alone, so that the run ended at the first one."""
    record = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"id": 1, "image_id": 1, "caption": "a bridge"}],
    }
    data = zipped((("val2017/1.jpg", media()["p.jpg"]),))
    behind = data.index(b"PK\x01\x02")  # the directory alone is left: its member lies before the file
    files = {"annotations/captions_val2017.json": json.dumps(record).encode(), "val2017.zip": data[behind:]}
    rows = rows_of(_land(tmp_path / "in", files))
    found = {(row["modality"], row["text_content"], row["error_code"]) for row in rows}
    assert found == {("image", None, 1001), ("text", "a bridge", None)}


def test_captions_of_pictures_without_an_extension_in_a_zip_are_kept_as_their_metadata(tmp_path):
    """By its names the zip holds no pictures, so that the scan asks for no captions: the shard has no rows of texts."""
    record = {
        "images": [{"id": 1, "file_name": "1"}],
        "annotations": [{"id": 1, "image_id": 1, "caption": "a bridge"}],
    }
    data = zipped((("val2017/1", media()["p.jpg"]),))
    files = {"annotations/captions_val2017.json": json.dumps(record).encode(), "val2017.zip": data}
    (picture,) = (row for row in rows_of(_land(tmp_path / "in", files)) if row["modality"] == "image")
    assert json.loads(picture["metadata_json"])["captions"] == ["a bridge"]
