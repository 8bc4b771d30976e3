"""COCO as it is published: images in one zip, annotations in another."""

from __future__ import annotations

import gzip
import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.excerpt import scan_first
from tests.hostile.seeds import zipped
from tests.sources.corpora.builders import coco, coco_captions, coco_image, coco_json, coco_object, metadata
from tests.sources.source_builders import SETTINGS, land, png, rows_of, sha

ANNOTATIONS, IMAGES = "coco/annotations_trainval2017.zip", "coco/val2017.zip"


def parts(numbers=(9, 25, 30)):
    """(annotations, images) of a COCO directory, by path below it."""
    files = {name.removeprefix("coco/"): data for name, data in coco(split="val2017", numbers=numbers).items()}
    return {name: data for name, data in files.items() if name.endswith(".json")}, {
        name: data for name, data in files.items() if name.endswith(".jpg")
    }


def laid_out(annotations, images, *, pack_annotations=True, pack_images=True):
    loose = {} if pack_annotations else annotations
    loose = loose | ({} if pack_images else images)
    packed = ({ANNOTATIONS: zipped(annotations)} if pack_annotations else {}) | (
        {IMAGES: zipped(images, 0)} if pack_images else {}
    )
    return {f"coco/{name}": data for name, data in loose.items()} | packed


def reported(rows):
    """What the rows say, whatever their shards are called."""
    kept = (
        "digest",
        "modality",
        "role",
        "position",
        "sample_text",
        "text_content",
        "licence",
        "metadata_json",
        "error_code",
        "size_bytes",
    )
    return sorted(
        ([row["sample_id"].rpartition("/")[2].rpartition("#")[2], *(row[name] for name in kept)] for row in rows),
        key=repr,
    )


@pytest.mark.parametrize("pack_annotations, pack_images", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("missing", [False, True])
def test_zips_give_the_rows_of_the_unpacked_directory(tmp_path, pack_annotations, pack_images, missing):
    annotations, images = parts()
    if missing:
        del images["val2017/000000000025.jpg"]
    rows = rows_of(
        land(
            tmp_path / "zips" / "in",
            laid_out(annotations, images, pack_annotations=pack_annotations, pack_images=pack_images),
        )
    )
    plain = rows_of(
        land(tmp_path / "plain" / "in", laid_out(annotations, images, pack_annotations=False, pack_images=False))
    )
    assert reported(rows) == reported(plain) and len(rows) == (12 + 7 if missing else 18)
    captions = [row for row in rows if row["role"] == "caption" and row["error_code"] is None]
    media = {row["sample_id"] for row in rows if row["role"] == "media"}
    assert len(captions) == 5 * len(media) and {row["sample_id"] for row in captions} == media


def test_one_zip_with_images_and_annotations_describes_itself(tmp_path):
    annotations, images = parts()
    rows = rows_of(land(tmp_path / "zip" / "in", {"data/all.zip": zipped(annotations | images)}))
    plain = rows_of(
        land(tmp_path / "plain" / "in", laid_out(annotations, images, pack_annotations=False, pack_images=False))
    )
    assert reported(rows) == reported(plain) and {row["sample_id"].rpartition("/")[0] for row in rows} == {
        "data/all.zip/val2017"
    }


def test_an_export_with_annotations_next_to_its_images_describes_itself(tmp_path):
    """One folder per split, each with a file of its own."""
    members = {}
    for split, number in (("train", 1), ("valid", 2)):
        image = coco_image(number, file_name=f"{number}.jpg")
        members |= {
            f"{split}/{number}.jpg": png(number),
            f"{split}/_annotations.coco.json": coco_json([image], [coco_object(number, 0)], categories=True),
        }
    rows = rows_of(land(tmp_path / "in", {"pets.v1.coco.zip": zipped(members)}))
    assert [(row["modality"], metadata(row)["image_id"], len(metadata(row)["objects"])) for row in rows] == [
        ("image", 1, 1),
        ("image", 2, 1),
    ]


def test_a_caption_in_a_zip_is_read_again_by_its_place(tmp_path):
    annotations, images = parts()
    root = land(tmp_path / "in", laid_out(annotations, images))
    caption = next(row for row in rows_of(root) if row["role"] == "caption")
    ref = SourceRef.from_json(caption["source_ref"])
    assert (ref.path, ref.member) == (ANNOTATIONS, "annotations/captions_val2017.json#/annotations/0/caption")
    assert sources.fetch(ref, landing=root) == coco_captions(9)[0]["caption"].encode()


def test_a_corpus_that_lies_there_packed_and_unpacked_is_read_twice_and_said_once(tmp_path):
    annotations, images = parts()
    files = laid_out(annotations, images) | laid_out(annotations, images, pack_annotations=False, pack_images=False)
    rows = rows_of(land(tmp_path / "in", files))
    assert (
        len([row for row in rows if row["role"] == "media"]) == 6
        and len([row for row in rows if row["role"] == "caption"]) == 30
    )


def test_what_no_image_took_is_reported_by_the_zip(tmp_path):
    """Of the whole corpus with one split landed, captions of the other splits keep their words."""
    annotations, images = parts(numbers=(9,))
    annotations["annotations/captions_train2017.json"] = coco_json([coco_image(77)], coco_captions(77))
    annotations["annotations/captions_val2017.json"] = coco_json(
        [coco_image(9), {"id": 3}], [*coco_captions(9), {"id": 2, "caption": "whose?"}]
    )
    rows = [row for row in rows_of(land(tmp_path / "in", laid_out(annotations, images))) if row["error_code"]]
    assert sorted((row["error_code"], SourceRef.from_json(row["source_ref"]).member) for row in rows) == [
        (1003, "annotations/captions_val2017.json#/annotations/5"),
        (1003, "annotations/captions_val2017.json#/images/1"),
        *((1011, f"annotations/captions_train2017.json#/annotations/{at}/caption") for at in range(5)),
        (1011, "annotations/captions_train2017.json#images"),
    ]
    assert {row["digest"] for row in rows} >= {sha(caption["caption"].encode()) for caption in coco_captions(77)}


def test_annotations_that_break_in_a_zip_keep_what_came_before_and_all_images(tmp_path):
    annotations, images = parts()
    name = "annotations/captions_val2017.json"
    annotations[name] = annotations[name][: len(annotations[name]) * 3 // 4]
    rows = rows_of(land(tmp_path / "in", laid_out(annotations, images)))
    assert [row["status"] for row in rows if row["role"] == "media"] == ["ok"] * 3
    assert 1002 in {row["error_code"] for row in rows} and any(
        row["text_content"] == coco_captions(9)[0]["caption"] for row in rows
    )


def test_a_damaged_zip_of_annotations_leaves_the_images_alone(tmp_path):
    annotations, images = parts()
    files = laid_out(annotations, images)
    data = bytearray(files[ANNOTATIONS])
    data[200] ^= 4
    rows = rows_of(land(tmp_path / "bit" / "in", files | {ANNOTATIONS: bytes(data)}))
    cut = rows_of(land(tmp_path / "cut" / "in", files | {ANNOTATIONS: files[ANNOTATIONS][:-60]}))
    for found in (rows, cut):
        assert [row["status"] for row in found if row["role"] == "media"] == ["ok"] * 3 and any(
            row["error_code"] for row in found
        )


def test_compressed_annotations_in_a_zip_count(tmp_path):
    annotations, images = parts()
    rows = rows_of(
        land(
            tmp_path / "in", laid_out({f"{name}.gz": gzip.compress(data) for name, data in annotations.items()}, images)
        )
    )
    assert len(rows) == 18


def test_json_next_to_images_is_not_taken_for_annotations(tmp_path):
    members = {"annotations/a.json": json.dumps({"caption": "of a"}).encode(), "annotations/a.png": png()}
    rows = rows_of(land(tmp_path / "in", {"annotations.zip": zipped(members)}))
    assert sorted(row["role"] for row in rows) == ["caption", "media"]


def test_an_unchanged_corpus_in_zips_is_not_opened(tmp_path, monkeypatch):
    root = land(tmp_path / "in", laid_out(*parts()))
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert {key: (shard.format, shard.modalities) for key, shard in first.items()} == {
        ANNOTATIONS: ("zip", ("text",)),
        IMAGES: ("zip", ("text", "image")),
    }
    monkeypatch.setattr("mmlake.landing.LocalLanding.open", lambda self, path: pytest.fail(f"{path} was opened"))
    assert sources.scan(root, settings=SETTINGS, known=first) == list(first.values())


@pytest.mark.parametrize("pack_images", [False, True])
def test_annotations_that_arrive_later_change_the_images_shard_and_images_the_annotations(tmp_path, pack_images):
    annotations, images = parts()
    images_key = IMAGES if pack_images else "coco/val2017"
    root = land(tmp_path / "in", laid_out({}, images, pack_annotations=False, pack_images=pack_images))
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {ANNOTATIONS: zipped(annotations)})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert (first[images_key].modalities, second[images_key].modalities) == (("image",), ("text", "image"))
    more = images | {"val2017/000000000077.jpg": png(7)}
    land(root, laid_out({}, more, pack_annotations=False, pack_images=pack_images))
    third = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=second)}
    assert {key for key in third if second[key].revision != third[key].revision} == {images_key, ANNOTATIONS}


def test_zips_of_other_things_next_to_images_are_not_opened_for_them(tmp_path, monkeypatch):
    root = land(tmp_path / "in", {"photos/a.png": png(), "photos/more.zip": zipped({"t.txt": b"words"})})
    (shard,) = [shard for shard in sources.scan(root, settings=SETTINGS) if shard.format == "folder"]
    opened = []
    monkeypatch.setattr(
        "mmlake.sources.companions.archives._listing", lambda landing, archive: opened.append(archive.path) or {}
    )
    assert len(list(sources.read(shard, landing=root, settings=SETTINGS))) == 1 and opened == []


def test_under_a_limit_images_come_before_what_no_image_took(tmp_path):
    """The zip of annotations comes first by its name, and describes splits that were not downloaded."""
    annotations, images = parts()
    annotations["annotations/captions_train2017.json"] = coco_json([coco_image(77)], coco_captions(77))
    root = land(tmp_path / "in", laid_out(annotations, images))
    shards = scan_first(root, 2, settings=SETTINGS)
    assert [(shard.key, shard.num_samples, shard.modalities) for shard in shards] == [(IMAGES, 2, ("text", "image"))]


@pytest.mark.parametrize(
    "folder", ["fsencoded:..", "fsencoded:%00", "n" * 300, "d/" * 600 + "d", "\u202e", "a//b", "~"]
)
def test_folders_with_names_that_no_directory_has_are_never_looked_up(tmp_path, folder):
    """Where annotations of the images in them may lie is a question to the landing zone, and the name is data."""
    image = coco_image(1, file_name="1.jpg")
    members = {
        f"{folder}/1.jpg": png(1),
        f"{folder}/captions_{folder[:400].replace('/', '_')}.json": coco_json([image], coco_captions(1)),
    }
    rows = rows_of(
        land(tmp_path / "in", {"s.zip": zipped(members), "captions.json": coco_json([image], coco_captions(1))})
    )
    assert [row["status"] for row in rows if row["role"] == "media"] == ["ok"]
