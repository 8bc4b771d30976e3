"""COCO: images in one directory, captions and objects in JSON files of another."""

from __future__ import annotations

import gzip
import json
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import sources
from mmlake.error_codes import CODES
from mmlake.records import SourceRef
from tests.hostile.seeds import zipped
from tests.sources.corpora.builders import coco, coco_captions, coco_image, coco_json, coco_object, landed, metadata
from tests.sources.source_builders import SETTINGS, png, rows_of, sha

CAPTIONS, INSTANCES = "coco/annotations/captions_train2017.json", "coco/annotations/instances_train2017.json"


def found(tmp_path, files):
    rows = rows_of(landed(tmp_path / "in", files))
    return [row for row in rows if not row["sample_id"].startswith("coco/annotations")], [
        row for row in rows if row["sample_id"].startswith("coco/annotations")
    ]


def described(rows):
    return [(SourceRef.from_json(row["source_ref"]).member, row["error_code"], row["text_content"]) for row in rows]


@pytest.mark.parametrize(
    "split, stem",
    [("train2017", "000000000009"), ("train2014", "COCO_train2014_000000000009"), ("val2017", "000000000009")],
)
def test_an_image_and_its_five_captions_are_one_sample(tmp_path, split, stem):
    rows, rest = found(tmp_path, coco(split=split))
    first = [row for row in rows if row["sample_id"] == f"coco/{split}/{stem}"]
    assert [(row["role"], row["modality"], row["position"], row["status"]) for row in first] == [
        ("media", "image", 0, "ok"),
        *(("caption", "text", at, "ok") for at in range(1, 6)),
    ]
    captions = [caption["caption"] for caption in coco_captions(9)]
    assert [row["text_content"] for row in first[1:]] == captions and first[0]["sample_text"] == "\n".join(captions)
    assert len(rows) == 18 and rest == []


def test_a_caption_is_read_again_by_its_place_in_the_file(tmp_path):
    rows, _ = found(tmp_path, coco())
    ref = SourceRef.from_json(rows[1]["source_ref"])
    assert (ref.path, ref.member) == (CAPTIONS, "#/annotations/0/caption")
    assert sources.fetch(ref, landing=tmp_path / "in") == coco_captions(9)[0]["caption"].encode()


def test_the_image_row_has_its_fields_licence_and_objects_and_a_caption_its_ids(tmp_path):
    rows, _ = found(tmp_path, coco())
    kept = metadata(rows[0])
    box = coco_object(9, 0)["bbox"]
    assert kept["objects"] == [
        {"category": "bowl", "bbox": box, "iscrowd": 0},
        {"category": "person", "bbox": box, "iscrowd": 1},
    ]
    assert (kept["image_id"], kept["width"], kept["height"], kept["license"]["name"]) == (
        9,
        640,
        480,
        "Attribution License",
    )
    assert kept["coco_url"] == coco_image(9)["coco_url"] and "segmentation" not in json.dumps(kept)
    assert metadata(rows[1]) == {"image_id": 9, "annotation_id": 9000}


@pytest.mark.parametrize(
    "number, spdx", [(1, "CC-BY-NC-SA-2.0"), (4, "CC-BY-2.0"), (7, "NOASSERTION"), (99, "CC0-1.0")]
)
def test_the_licence_is_that_of_the_image_and_the_captions_have_the_directory_s(tmp_path, number, spdx):
    files = {
        "coco/_source.json": b'{"licence":"cc0"}',
        CAPTIONS: coco_json([coco_image(9, licence=number)], coco_captions(9, count=1)),
        "coco/train2017/000000000009.jpg": png(),
    }
    rows, _ = found(tmp_path, files)
    assert [row["licence"] for row in rows] == [spdx, "CC0-1.0"]


@pytest.mark.parametrize(
    "order",
    [
        "annotations images categories licenses info",
        "info licenses annotations images categories",
        "categories annotations licenses images info",
    ],
)
def test_the_order_of_the_keys_does_not_matter(tmp_path, order):
    rows = [
        found(tmp_path / name, coco(order=keys))[0]
        for name, keys in (("a", order), ("b", "info licenses images annotations categories"))
    ]
    assert [[row["digest"], row["metadata_json"], row["sample_text"]] for row in rows[0]] == [
        [row["digest"], row["metadata_json"], row["sample_text"]] for row in rows[1]
    ]


def test_key_points_next_to_them_do_not_repeat_the_objects_and_a_compressed_file_counts(tmp_path):
    files = coco()
    points = [coco_object(9, 1, category=1) | {"keypoints": [0, 1, 2] * 17, "num_keypoints": 4}]
    files["coco/annotations/person_keypoints_train2017.json"] = coco_json([coco_image(9)], points, categories=True)
    files[CAPTIONS + ".gz"] = gzip.compress(files.pop(CAPTIONS))
    rows, rest = found(tmp_path, files)
    assert len(metadata(rows[0])["objects"]) == 2 and len(rows) == 18 and rest == []


def test_images_without_captions_are_images(tmp_path):
    images = [coco_image(number, split="test2017") for number in (1, 2)]
    files = {
        "coco/annotations/image_info_test2017.json": coco_json(images, None),
        "coco/annotations/image_info_test-dev2017.json": coco_json(images[:1], None),
    }
    files |= {f"coco/test2017/{image['file_name']}": png(image["id"]) for image in images}
    rows, rest = found(tmp_path, files)
    assert [(row["modality"], metadata(row)["image_id"], row["sample_text"]) for row in rows] == [
        ("image", 1, None),
        ("image", 2, None),
    ] and rest == []
    assert sources.scan(tmp_path / "in", settings=SETTINGS)[-1].modalities == ("image",)


def test_an_image_that_no_file_describes_is_an_image(tmp_path):
    rows, _ = found(tmp_path, coco() | {"coco/train2017/000000000777.jpg": png(3)})
    assert [
        (row["modality"], row["status"], row["metadata_json"]) for row in rows if row["sample_id"].endswith("777")
    ] == [("image", "ok", None)]


def test_captions_of_a_missing_image_are_rows_that_keep_their_words(tmp_path):
    files = coco()
    del files["coco/train2017/000000000025.jpg"]
    rows, rest = found(tmp_path, files)
    assert len(rows) == 12 and CODES[1011].name == "media_file_missing"
    captions = [row for row in rest if row["role"] == "caption"]
    assert [(row["error_code"], row["digest"]) for row in captions] == [
        (1011, sha(caption["caption"].encode())) for caption in coco_captions(25)
    ]
    assert {row["materialize_error"] for row in captions} == {"the image 000000000025.jpg is not in coco/train2017"}
    counts = [row["materialize_error"] for row in rest if row["role"] == "document"]
    assert counts == ["num_missing=1 of 3 image files not in [0, 0]: 000000000025.jpg is not in coco/train2017"] * 2


def test_annotations_without_any_images_keep_every_caption(tmp_path):
    rows, rest = found(tmp_path, {CAPTIONS: coco()[CAPTIONS]})
    assert rows == [] and [row["error_code"] for row in rest] == [1011] * 16


@pytest.mark.parametrize(
    "broken, code, words",
    [
        ({"image_id": 404, "id": 1, "caption": "of nothing"}, 1011, "of nothing"),
        ({"image_id": 9, "id": 9000, "caption": "again"}, 1003, "again"),
        ({"id": 2, "caption": "whose?"}, 1003, None),
        ({"image_id": 9, "id": 3, "caption": 7}, 1003, None),
        ({"image_id": 9, "id": 4, "caption": "  "}, 1003, None),
        (["no", "object"], 1003, None),
    ],
)
def test_a_bad_annotation_is_one_row_and_the_others_stand(tmp_path, broken, code, words):
    rows, rest = found(
        tmp_path,
        coco() | {CAPTIONS: coco_json([coco_image(number) for number in (9, 25, 30)], [*coco_captions(9), broken])},
    )
    assert len([row for row in rows if row["role"] == "caption"]) == 5
    assert [row["error_code"] for row in rest] == [code] and SourceRef.from_json(
        rest[0]["source_ref"]
    ).member.startswith("#/annotations/5")
    assert words is None or rest[0]["digest"] == sha(words.encode())


def test_a_repeated_image_id_is_a_row_and_the_first_entry_counts(tmp_path):
    images = [coco_image(9), coco_image(9, file_name="000000000025.jpg", width=1), {"id": 3}]
    rows, rest = found(
        tmp_path,
        {
            CAPTIONS: coco_json(images, coco_captions(9)),
            "coco/train2017/000000000009.jpg": png(),
            "coco/train2017/000000000025.jpg": png(1),
        },
    )
    assert metadata(rows[0])["width"] == 640 and metadata(rows[-1]) == {}
    assert [row["materialize_error"] for row in rest] == [
        "images/1 repeats the id 9",
        "images/2 has no id or no file_name",
    ]


@pytest.mark.parametrize(
    "damage, code",
    [
        (lambda data: data[: len(data) * 3 // 4], 1002),
        (lambda data: data[:-600] + b"}}]" + data[-597:], 1001),
        (lambda data: data + b"x", 1001),
    ],
)
def test_json_that_breaks_in_the_middle_keeps_what_came_before_and_all_images(tmp_path, damage, code):
    rows, rest = found(tmp_path, coco() | {CAPTIONS: damage(coco()[CAPTIONS])})
    assert [row["status"] for row in rows if row["role"] == "media"] == ["ok"] * 3
    assert rows[1]["text_content"] == coco_captions(9)[0]["caption"]
    assert rest[-1]["error_code"] == code and "3 images and" in rest[-1]["materialize_error"]


def test_captions_cut_within_the_images_leave_the_images_alone(tmp_path):
    data = coco(order="info licenses annotations images")[CAPTIONS]
    rows, rest = found(tmp_path, coco() | {CAPTIONS: data[: data.index(b'"images"') + 40]})
    assert [row["status"] for row in rows if row["role"] == "media"] == ["ok"] * 3
    assert [row["error_code"] for row in rest] == [1011] * 15 + [1002]


def test_panoptic_annotations_are_counted_and_not_read(tmp_path):
    segments = [{"segments_info": [{"id": 1, "category_id": 1}], "file_name": "000000000009.png", "image_id": 9}]
    _, rest = found(
        tmp_path,
        coco() | {"coco/annotations/panoptic_train2017.json": coco_json([coco_image(9)], segments, categories=True)},
    )
    assert [row["materialize_error"] for row in rest] == [
        "1 annotations have neither a caption nor a bbox and are not read"
    ]


@pytest.mark.parametrize(
    "changes, reason",
    [
        (
            {"annotatins": coco_captions(9)},
            "the section 'annotatins' is none that COCO has; its 5 elements are not read",
        ),
        (
            {"\u202e/~" * 40: []},
            "the section '" + "\\u202e/~" * 20 + "' is none that COCO has; its 0 elements are not read",
        ),
        ({"annotations": {"1": coco_captions(9)}}, "the section annotations is no list and is not read"),
        (
            {"annotations": None, "contributors": "many", "made": {"by": ["us"]}, "type": ["captions"], "info": [1]},
            None,
        ),
    ],
)
def test_a_list_that_is_not_read_is_a_row_and_a_field_of_the_file_is_none(tmp_path, changes, reason):
    files = {
        CAPTIONS: json.dumps({"images": [coco_image(9)], "categories": [], "licenses": []} | changes).encode(),
        "coco/train2017/000000000009.jpg": png(),
    }
    rows, rest = found(tmp_path, files)
    assert [row["status"] for row in rows] == ["ok"]
    assert [(row["error_code"], row["materialize_error"]) for row in rest] == ([(1003, reason)] if reason else [])


def test_a_list_that_stands_twice_counts_once_and_the_other_is_a_row(tmp_path):
    data = (
        coco_json([coco_image(9)], coco_captions(9, count=2))[:-1]
        + b', "annotations": '
        + json.dumps(coco_captions(9)).encode()
        + b"}"
    )
    rows, rest = found(tmp_path, {CAPTIONS: data, "coco/train2017/000000000009.jpg": png()})
    assert len(rows) == 3
    assert [(row["error_code"], row["materialize_error"]) for row in rest] == [
        (1003, "the section annotations stands in the file before; the 5 elements of this one are not read")
    ]


def test_what_is_said_of_one_image_beyond_a_sample_s_room_is_a_row_with_its_words(tmp_path, monkeypatch):
    """A million captions of one image were a sample of a million rows, all in memory."""
    monkeypatch.setattr("mmlake.sources.companions.coco_index._MAX_PER_IMAGE", 3)
    files = {CAPTIONS: coco_json([coco_image(9), coco_image(25)], [*coco_captions(9), *coco_captions(25, count=3)])}
    rows, rest = found(tmp_path, files | {f"coco/train2017/{number:012d}.jpg": png(number) for number in (9, 25)})
    assert [row["role"] for row in rows] == ["media", *["caption"] * 3] * 2
    assert [(row["error_code"], row["digest"]) for row in rest] == [
        (1008, sha(caption["caption"].encode())) for caption in coco_captions(9)[3:]
    ]


def test_captions_of_an_image_without_a_name_are_rows_that_keep_their_words(tmp_path):
    _, rest = found(
        tmp_path,
        {
            CAPTIONS: coco_json([coco_image(9), {"id": 25}], [*coco_captions(9), *coco_captions(25)]),
            "coco/train2017/000000000009.jpg": png(),
        },
    )
    assert [row["digest"] for row in rest if row["error_code"] == 1011] == [
        sha(caption["caption"].encode()) for caption in coco_captions(25)
    ]


def test_one_huge_element_is_refused_and_what_came_before_stays(tmp_path):
    small = sources.SourceSettings(max_text_bytes=1 << 18)
    images = [coco_image(9), coco_image(25, date_captured="x" * (1 << 19))]
    root = landed(
        tmp_path / "in",
        {CAPTIONS: coco_json(images, [], order="images annotations"), "coco/train2017/000000000009.jpg": png()},
    )
    assert [row["error_code"] for row in rows_of(root, settings=small)] == [1008, None]


@pytest.mark.parametrize("value", ["1e999", "-1e999", "[[[[1e400]]]]"])
def test_a_number_beyond_a_float_is_damage_of_the_file_and_not_of_the_images(tmp_path, value):
    data = coco_json([coco_image(9, height=12345)], []).replace(b"12345", value.encode())
    rows, rest = found(tmp_path, {CAPTIONS: data, "coco/train2017/000000000009.jpg": png()})
    assert [row["status"] for row in rows] == ["ok"] and [row["error_code"] for row in rest] == [1001]


def test_deep_nesting_is_refused(tmp_path):
    data = coco_json([coco_image(9, height=12345)], []).replace(b"12345", b"[" * 5000 + b"]" * 5000)
    rows, rest = found(tmp_path, {CAPTIONS: data, "coco/train2017/000000000009.jpg": png()})
    assert [row["status"] for row in rows] == ["ok"] and [row["error_code"] for row in rest] == [1003]


@pytest.mark.parametrize(
    "place",
    [
        "d/annotations/instances_train.json",
        "d/annotations/annotations.json",
        "d/images/_annotations.coco.json",
        "d/instances_default.json",
        "d/images/train_annotations.json",
    ],
)
def test_other_places_of_annotations_are_found(tmp_path, place):
    files = {
        place: coco_json([coco_image(9, file_name="pictures/a.jpg")], [coco_object(9, 0)], categories=True),
        "d/images/a.jpg": png(),
    }
    rows = rows_of(landed(tmp_path / "in", files))
    assert [metadata(row).get("image_id") for row in rows if row["modality"] == "image"] == [9] and len(rows) == 1


LAYOUTS = {  # tool or corpus: (file, its names of images, where these lie, pictures that it says nothing of)
    "labelme": ("d/annotations.json", ["JPEGImages/a.jpg"], ["d/JPEGImages/a.jpg"], ["d/Visualization/a.jpg"]),
    "Label Studio": ("d/result.json", ["images\\a.jpg"], ["d/images/a.jpg"], ["d/logo.jpg"]),
    "FiftyOne": ("d/labels.json", ["a.jpg"], ["d/data/a.jpg"], []),
    "TACO": (
        "d/annotations.json",
        ["batch_1/a.jpg", "./batch_2/a.jpg"],
        ["d/batch_1/a.jpg", "d/batch_2/a.jpg"],
        ["d/batch_3/a.jpg", "e/batch_1/a.jpg", "d/a.jpg"],
    ),
    "iNaturalist": (
        "train2017.json",
        ["train_val_images/Aves/Ardea alba/a.jpg", "train_val_images/Fungi/Boletus edulis/a.jpg"],
        ["train_val_images/Aves/Ardea alba/a.jpg", "train_val_images/Fungi/Boletus edulis/a.jpg"],
        [],
    ),
    "packed splits": (
        "d/annotations/all.json",
        ["train/a.jpg", "val/a.jpg"],
        ["d/images/train/a.jpg", "d/images/val/a.jpg"],
        ["d/images/test/a.jpg"],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_packed", [False, True], ids=["loose", "zip"])
def test_names_of_images_lead_to_their_directories(tmp_path, layout, is_packed):
    place, names, where, others = LAYOUTS[layout]
    images = [coco_image(at, file_name=name) for at, name in enumerate(names)]
    files = {place: coco_json(images, [coco_object(at, at) for at in range(len(names))], categories=True)}
    files |= {path: png(at) for at, path in enumerate((*where, *others))}
    folder = landed(tmp_path / "in", {"all.zip": zipped(files)} if is_packed else files)
    rows = {unquote(row["sample_id"]).removeprefix("all.zip/"): row for row in rows_of(folder)}
    assert sorted(rows) == sorted(path.rpartition(".")[0] for path in (*where, *others))  # no row of what is missing
    assert [metadata(rows[path[:-4]]).get("image_id") for path in where] == list(range(len(where)))
    assert not any(metadata(rows[path[:-4]]).get("image_id") for path in others)


def test_an_image_that_is_not_where_its_name_leads_is_missing_until_it_comes(tmp_path):
    files = in_batches()
    second_image = files.pop("batch_2/a.jpg")
    root = landed(tmp_path / "in", files)
    missing = [row["materialize_error"] for row in rows_of(root) if row["error_code"] == 1011]
    assert len(missing) == 6 and "num_missing=1 of 2 image files not in [0, 0]: batch_2/a.jpg is in" in missing[-1]
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    landed(root, {"batch_2/a.jpg": second_image})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert {key for key in first if first[key].revision != second[key].revision} == {"annotations.json"}
    assert [row["error_code"] for row in rows_of(root)] == [None] * 12


def test_the_landing_zone_may_be_the_corpus_itself(tmp_path):
    files = {name.removeprefix("coco/"): data for name, data in coco().items()}
    assert [row["status"] for row in rows_of(landed(tmp_path / "in", files))] == ["ok"] * 18


@pytest.mark.parametrize(
    "text",
    [
        {"info": {"title": "x"}, "paths": {}},
        {"images": ["a.png", None], "texts": [None, "t"]},
        {"annotations": [{"label": "cat"}]},
        {"categories": [1, 2]},
        {"images": []},
    ],
)
def test_other_json_is_not_taken_for_annotations(tmp_path, text):
    root = landed(tmp_path / "in", {"annotations/a.json": json.dumps(text).encode(), "annotations/a.png": png()})
    assert [shard.format for shard in sources.scan(root, settings=SETTINGS)] == ["folder"]


def test_captions_that_arrive_later_change_the_images_shard_and_new_images_the_captions(tmp_path):
    files = coco(numbers=(9, 25))
    captions, image = files.pop(CAPTIONS), files.pop("coco/train2017/000000000025.jpg")
    root = landed(tmp_path / "in", files)
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    landed(root, {CAPTIONS: captions})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert (first["coco/train2017"].modalities, second["coco/train2017"].modalities) == (("image",), ("text", "image"))
    landed(root, {"coco/train2017/000000000025.jpg": image})
    third = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=second)}
    assert {key for key in third if second[key].revision != third[key].revision} == {
        "coco/train2017",
        CAPTIONS,
        INSTANCES,
    }


def in_batches():
    """Images in directories that the file of annotations names."""
    images = [coco_image(at, file_name=f"batch_{at}/a.jpg") for at in (1, 2)]
    pictures = {f"batch_{at}/a.jpg": png(at) for at in (1, 2)}
    return {"annotations.json": coco_json(images, coco_captions(1) + coco_captions(2)), **pictures}


@pytest.mark.parametrize("files", [coco(), in_batches()], ids=["as published", "in batches"])
def test_an_unchanged_corpus_is_not_opened(tmp_path, monkeypatch, files):
    root = landed(tmp_path / "in", files)
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    monkeypatch.setattr("mmlake.landing.LocalLanding.open", lambda self, path: pytest.fail(f"{path} was opened"))
    assert sources.scan(root, settings=SETTINGS, known=first) == list(first.values())


def test_an_archive_of_a_format_that_is_not_read_is_a_row_that_says_to_unpack_it(tmp_path):
    rows = rows_of(
        landed(tmp_path / "in", {"coco/images/train2017.7z": b"7z\xbc\xaf\x27\x1c" + bytes(60)}),
        settings=sources.SourceSettings(max_item_bytes=32),
    )
    assert (
        [(row["error_code"], row["modality"]) for row in rows] == [(1012, "image")]
        and "unpack" in rows[0]["materialize_error"]
        and "npack" in CODES[1012].fix
    )


@settings(max_examples=30)
@given(
    cut=st.integers(0, 9000),
    at=st.integers(0, 9000),
    byte=st.integers(0, 255),
    insert=st.binary(max_size=6),
    order=st.sampled_from(["images annotations", "annotations images"]),
)
def test_whatever_a_bit_or_a_cut_does_every_image_and_every_row_is_accounted_for(
    tmp_path_factory, cut, at, byte, insert, order
):
    """rows_of asserts the rest: each item once, in its modality, with bytes that can be fetched again."""
    files = coco(order=f"info licenses {order} categories")
    data = bytearray(files[CAPTIONS])
    data[at % len(data)] = byte
    data[at % len(data) : at % len(data)] = insert
    rows, _ = found(
        tmp_path_factory.mktemp("zone"), files | {CAPTIONS: bytes(data[: len(data) if cut > 8000 else cut % len(data)])}
    )
    assert [row["status"] for row in rows if row["modality"] == "image" and row["role"] == "media"].count("ok") == 3
