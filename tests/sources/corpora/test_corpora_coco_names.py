"""COCO files whose names say nothing are found by their first bytes, next to and above the images."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.sources.companions import coco_index
from tests.sources.corpora.builders import coco_image, coco_json, coco_object, landed, metadata
from tests.sources.source_builders import SETTINGS, png, rows_of


def described(name="a.jpg"):
    return coco_json([coco_image(9, file_name=name)], [coco_object(9, 0)], categories=True)


@pytest.mark.parametrize("place", ["d/rle.json", "d/lvis_v1_train.json", "d/images/dataset.json", "d/train/b.json"])
def test_a_file_of_any_name_describes_the_images_next_to_it_or_below(tmp_path, place):
    where = "d/train/a.jpg" if "train/" in place else "d/images/a.jpg"
    (row,) = rows_of(landed(tmp_path / "in", {place: described(), where: png()}))
    assert metadata(row)["image_id"] == 9 and len(metadata(row)["objects"]) == 1


def test_two_files_describe_one_image_whatever_one_is_called(tmp_path):
    other = coco_json([coco_image(9, file_name="a.jpg")], [coco_object(9, 1)], categories=True)
    files = {"d/instances.json": described(), "d/rle.json": other, "d/images/a.jpg": png()}
    (row,) = rows_of(landed(tmp_path / "in", files))
    assert len(metadata(row)["objects"]) == 2


def test_other_json_and_the_sidecar_of_an_image_describe_no_other_image(tmp_path):
    files = {"d/info.json": b'{"info": {"about": "nothing"}}', "d/b.json": described(), "d/b.png": png(1)}
    rows = rows_of(landed(tmp_path / "in", {**files, "d/images/a.jpg": png()}))
    (image,) = [row for row in rows if row["sample_id"] == "d/images/a"]
    assert "image_id" not in json.loads(image["metadata_json"] or "{}")


def test_a_file_that_arrives_changes_the_shard_of_the_images_alone(tmp_path):
    root = landed(tmp_path / "in", {"d/images/a.jpg": png(), "e/images/a.jpg": png(2)})
    before = {shard.key: shard.revision for shard in sources.scan(root, settings=SETTINGS)}
    (root / "d" / "rle.json").write_bytes(described())
    after = {shard.key: shard.revision for shard in sources.scan(root, settings=SETTINGS)}
    assert sorted(key for key in after if after[key] != before.get(key)) == ["d/images", "d/rle.json"]


def test_what_is_known_to_be_loose_is_not_opened_again(tmp_path, monkeypatch):
    files = {"d/notes.json": b'{"title": "nothing"}', "d/rle.json": described(), "d/images/a.jpg": png()}
    root, opened = landed(tmp_path / "in", files), list[str]()
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    real = coco_index.open_file
    monkeypatch.setattr(
        "mmlake.sources.companions.coco_index.open_file", lambda zone, one: opened.append(one.path) or real(zone, one)
    )
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first
    assert opened == ["d/rle.json"]
