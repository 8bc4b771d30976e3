"""Images whose objects stand in a file each, in another directory: YOLO and Pascal VOC as they are published."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.formats import label_files
from mmlake.records import SourceRef
from mmlake.sources.raw_items import Member
from tests.hostile.seeds import zipped
from tests.sources.source_builders import SETTINGS, gz, land, png, rows_of, tar

YAML = (
    b"path: ../datasets/coco8\ntrain: images/train\nval: images/val\n\nnames:\n  0: person\n  1: bicycle\n  45: bowl\n"
)
YOLO = {
    "coco8/data.yaml": YAML,
    "coco8/images/train/000000000009.jpg": png(1),
    "coco8/images/train/000000000025.jpg": png(2),
    "coco8/labels/train/000000000009.txt": b"45 0.479492 0.688771 0.955609 0.5955\n1 0.5 0.5 1 1\n",
    "coco8/labels/train/000000000025.txt": b"7 0.770336 0.489695 0.335891 0.697559\n",
}
VOC = b"""<annotation>
	<folder>VOC2012</folder>
	<filename>2007_000027.jpg</filename>
	<source><database>The VOC2007 Database</database><annotation>PASCAL VOC2007</annotation></source>
	<size><width>486</width><height>500</height><depth>3</depth></size>
	<segmented>0</segmented>
	<object>
		<name>person</name><pose>Unspecified</pose><truncated>0</truncated><difficult>0</difficult>
		<bndbox><xmin>174</xmin><ymin>101</ymin><xmax>349</xmax><ymax>351.5</ymax></bndbox>
		<part><name>head</name><bndbox><xmin>169</xmin><ymin>104</ymin><xmax>209</xmax><ymax>146</ymax></bndbox></part>
	</object>
</annotation>
"""


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def objects(rows):
    return {
        row["sample_id"]: json.loads(row["metadata_json"] or "{}").get("objects")
        for row in rows
        if row["modality"] == "image"
    }


def texts(rows):
    return [(row["sample_id"], row["error_code"]) for row in rows if row["modality"] == "text"]


def box(category, *bbox):
    return {"category": category, "bbox": list(bbox), "bbox_format": "cxcywh_fraction"}


def test_an_image_has_the_objects_of_its_yolo_label(tmp_path):
    rows = found(tmp_path, YOLO)
    assert objects(rows) == {
        "coco8/images/train/000000000009": [
            box("bowl", 0.479492, 0.688771, 0.955609, 0.5955),
            box("bicycle", 0.5, 0.5, 1.0, 1.0),
        ],
        "coco8/images/train/000000000025": [box(7, 0.770336, 0.489695, 0.335891, 0.697559)],
    }
    assert texts(rows) == [("coco8/data", None)]


@pytest.mark.parametrize(
    "name, data",
    [
        ("d/data.yaml", b"train: ../train/images\nnc: 2\nnames: ['cat', 'dog']\n"),
        ("d/dataset.yaml", b"names:\n- cat\n- dog\n"),
        ("d/classes.txt", b"cat\r\ndog\r\n"),
        ("d/train/labels/classes.txt", b"cat\ndog\n"),
    ],
)
def test_classes_have_the_names_that_a_file_gives_them(tmp_path, name, data):
    rows = found(tmp_path, {name: data, "d/train/images/a.jpg": png(1), "d/train/labels/a.txt": b"1 0.5 0.5 0.5 0.5\n"})
    assert objects(rows) == {"d/train/images/a": [box("dog", 0.5, 0.5, 0.5, 0.5)]}


@pytest.mark.parametrize(
    "data",
    [
        b"names: [cat",
        b"- 1\n",
        b"names: 7\n",
        b"\xff\xfe\xff",
        b"!!python/object/apply:os.system ['true']\n",
        b"[" * 100_000,
        b"names: {a: b}\n",
    ],
)
def test_a_file_of_classes_that_says_nothing_usable_leaves_the_numbers(tmp_path, data):
    rows = found(tmp_path, {"d/data.yaml": data, "d/images/a.jpg": png(1), "d/labels/a.txt": b"1 0.5 0.5 0.5 0.5\n"})
    assert objects(rows) == {"d/images/a": [box(1, 0.5, 0.5, 0.5, 0.5)]}


def test_a_polygon_gives_the_box_around_it(tmp_path):
    rows = found(tmp_path, {"images/a.jpg": png(1), "labels/a.txt": b"0 0.25 0.25 0.75 0.25 0.75 0.5 0.25 0.5\n"})
    assert objects(rows) == {"images/a": [box(0, 0.5, 0.375, 0.5, 0.25)]}


def test_of_a_pose_the_box_is_taken(tmp_path):
    rows = found(
        tmp_path,
        {
            "data.yaml": b"kpt_shape: [2, 3]\nnames: [person]\n",
            "images/a.jpg": png(1),
            "labels/a.txt": b"0 0.5 0.5 0.2 0.4 0.1 0.1 2 0.3 0.3 0\n",
        },
    )
    assert objects(rows) == {"images/a": [box("person", 0.5, 0.5, 0.2, 0.4)]}


def test_an_image_without_objects_has_an_empty_list_and_one_without_a_label_has_none(tmp_path):
    rows = found(
        tmp_path,
        {
            "images/a.jpg": png(1),
            "images/b.jpg": png(2),
            "labels/a.txt": b"",
            "labels/c.txt": b"0 0.5 0.5 0.1 0.1\n",
            "images/c.jpg": png(3),
        },
    )
    assert objects(rows) == {"images/a": [], "images/b": None, "images/c": [box(0, 0.5, 0.5, 0.1, 0.1)]}


def test_a_label_of_an_image_that_is_missing_is_a_row_with_its_bytes(tmp_path):
    rows = found(tmp_path, YOLO | {"coco8/labels/train/gone.txt": b"0 0.5 0.5 0.1 0.1\n"})
    (row,) = [row for row in rows if row["error_code"]]
    assert (row["sample_id"], row["error_code"], row["size_bytes"]) == ("coco8/labels/train/gone.txt!labels", 1011, 18)
    assert row["digest"] is not None


@pytest.mark.parametrize(
    "line",
    [
        b"0 0.5 0.5\n",
        b"0 1.5 0.5 0.1 0.1\n",
        b"0 nan 0.5 0.1 0.1\n",
        b"cat 0.5 0.5 0.1 0.1\n",
        b"\xff\n",
        b"0 0.5 0.5 0.1 0.1 0.1 0.1 2\n",
        b"a red apple\n",
    ],
)
def test_a_text_of_another_form_is_the_document_that_it_was(tmp_path, line):
    rows = found(tmp_path, {"images/a.jpg": png(1), "labels/a.txt": line})
    assert (objects(rows), [name for name, _ in texts(rows)]) == ({"images/a": None}, ["labels/a"])


def test_a_broken_line_costs_its_object_and_is_a_row(tmp_path):
    good = b"0 0.5 0.5 0.1 0.1\n"
    rows = found(tmp_path, {"images/a.jpg": png(1), "labels/a.txt": good * 16 + b"0 0.5\n" + good})
    assert (len(objects(rows)["images/a"]), texts(rows)) == (17, [("labels/a.txt!labels", 1003)])


@pytest.mark.parametrize(
    "files",
    [
        {"labels/a.txt": b"0 0.5 0.5 0.1 0.1\n", "photos/a.jpg": png(1)},
        {"images/a.txt": b"0 0.5 0.5 0.1 0.1\n", "images/b.jpg": png(1)},
    ],
)
def test_texts_of_numbers_elsewhere_are_documents(tmp_path, files):
    rows = found(tmp_path, files)
    assert (list(objects(rows).values()), [code for _, code in texts(rows)]) == ([None], [None])


@pytest.mark.parametrize(
    "images, annotations", [("JPEGImages", "Annotations"), ("images", "annotations"), ("images", "annotations/xmls")]
)
def test_an_image_has_the_objects_of_its_voc_annotation(tmp_path, images, annotations):
    rows = found(tmp_path, {f"VOC2012/{images}/2007_000027.jpg": png(1), f"VOC2012/{annotations}/2007_000027.xml": VOC})
    metadata = json.loads(rows[0]["metadata_json"])
    assert (len(rows), metadata["annotation"]["size"]) == (1, {"width": "486", "height": "500", "depth": "3"})
    assert metadata["objects"] == [
        {
            "category": "person",
            "bbox": [174, 101, 349, 351.5],
            "bbox_format": "xyxy_px",
            "pose": "Unspecified",
            "truncated": "0",
            "difficult": "0",
            "part": {"name": "head", "bndbox": {"xmin": "169", "ymin": "104", "xmax": "209", "ymax": "146"}},
        }
    ]


ENTITIES = (
    b'<!DOCTYPE annotation [<!ENTITY a SYSTEM "file:///etc/passwd"><!ENTITY b "&a;&a;">]>\n<annotation><filename>&b;'
    b"</filename></annotation>"
)


@pytest.mark.parametrize(
    "data, code",
    [
        (ENTITIES, 1007),
        (b'<!DOCTYPE annotation SYSTEM "http://127.0.0.1:9/x.dtd"><annotation/>', 1007),
        (VOC[:-30], 1003),
        (VOC.replace(b"<xmin>174", b"<xmin>x"), 1003),
        (b"<annotation>" + b"<a>" * 100_000, 1003),
        (b'<?xml version="1.0" encoding="no-such"?>' + VOC, None),
        (b"<html><body>a page</body></html>", None),
        (b"<annotation>only words</annotation>", None),
    ],
)
def test_xml_that_cannot_be_read_is_a_row_and_other_xml_a_document(tmp_path, data, code):
    rows = found(tmp_path, {"JPEGImages/a.jpg": png(1), "Annotations/a.xml": data})
    assert [code for _, code in texts(rows)] == [code]
    assert "root:x" not in json.dumps([row["metadata_json"] for row in rows])


def test_objects_beyond_what_one_image_may_have_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(label_files, "_MAX_OBJECTS", 2)
    rows = found(tmp_path, {"images/a.jpg": png(1), "labels/a.txt": b"0 0.5 0.5 0.1 0.1\n" * 3})
    assert (len(objects(rows)["images/a"]), texts(rows)) == (2, [("labels/a.txt!labels", 1008)])


def test_objects_of_coco_and_of_label_files_stand_together(tmp_path):
    coco = {
        "images": [{"id": 9, "file_name": "a.jpg"}],
        "annotations": [{"id": 1, "image_id": 9, "category_id": 3, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 3, "name": "car"}],
    }
    rows = found(
        tmp_path,
        {
            "d/images/a.jpg": png(1),
            "d/labels/a.txt": b"0 0.5 0.5 0.1 0.1\n",
            "d/annotations/instances.json": json.dumps(coco).encode(),
        },
    )
    assert objects(rows) == {"d/images/a": [{"category": "car", "bbox": [1, 2, 3, 4]}, box(0, 0.5, 0.5, 0.1, 0.1)]}


def test_another_label_or_another_image_is_another_revision(tmp_path):
    root = land(
        tmp_path / "in", YOLO | {"coco8/images/val/a.jpg": png(3), "coco8/labels/val/a.txt": b"0 0.5 0.5 0.1 0.1\n"}
    )
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first

    def changed(files):
        nonlocal first
        land(root, files)
        second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
        keys = {key for key in second if key not in first or first[key].revision != second[key].revision}
        first = second
        return keys

    assert changed({"coco8/labels/train/000000000025.txt": b""}) == {"coco8/images/train", "coco8/labels/train"}
    assert changed({"coco8/images/train/new.jpg": png(4)}) == {"coco8/images/train", "coco8/labels/train"}
    assert changed({"coco8/data.yaml": YAML + b"  46: banana\n"}) == {
        "coco8",
        "coco8/images/train",
        "coco8/labels/train",
        "coco8/images/val",
        "coco8/labels/val",
    }


def test_a_directory_in_parts_joins_the_same(tmp_path):
    files = {f"images/{at}.jpg": png(at) for at in range(9)} | {
        f"labels/{at}.txt": f"{at} 0.5 0.5 0.1 0.1\n".encode() for at in range(9)
    }
    settings = sources.SourceSettings(max_loose_files=4)
    rows = rows_of(land(tmp_path / "in", files), settings=settings)
    assert sorted((name.rpartition("/")[2], said[0]["category"]) for name, said in objects(rows).items()) == [
        (str(at), at) for at in range(9)
    ]
    assert texts(rows) == []


NEXT_TO = {  # as LabelImg, Darknet and CVAT leave them
    "set/obj.names": b"cat\ndog\n",
    "set/data/a.jpg": png(1),
    "set/data/a.txt": b"1 0.5 0.5 0.25 0.125\n0 0.25 0.25 0.5 0.5\n",
    "set/data/b.jpg": png(2),
    "set/data/b.xml": VOC,
    "set/data/c.jpg": png(3),
    "set/data/c.txt": b"2 dogs and 1 cat on 1 sofa\n",
}


@pytest.mark.parametrize("pack", [None, "set.tar", "set.zip"])
def test_labels_next_to_their_images_are_objects_and_no_captions(tmp_path, pack):
    files = NEXT_TO if pack is None else {pack: tar(NEXT_TO) if pack == "set.tar" else zipped(NEXT_TO)}
    rows = {row["sample_id"].removeprefix(f"{pack}/"): row for row in found(tmp_path, files) if row["role"] == "media"}
    held = {name.rpartition("/")[2]: json.loads(row["metadata_json"] or "{}") for name, row in rows.items()}
    assert held["a"]["objects"] == [box("dog", 0.5, 0.5, 0.25, 0.125), box("cat", 0.25, 0.25, 0.5, 0.5)]
    assert (held["b"]["objects"][0]["category"], held["b"]["annotation"]["segmented"]) == ("person", "0")
    assert "objects" not in held["c"]
    said = [row["text_content"] for row in found(tmp_path, files) if row["role"] == "caption"]
    assert said == ["2 dogs and 1 cat on 1 sofa\n"]


def test_labels_next_to_an_image_that_break_are_a_row_and_what_was_read_stays(tmp_path):
    lines = b"0 0.5 0.5 0.25 0.125\n" * 16 + b"no label\n"
    rows = found(tmp_path, {"a.jpg": png(), "a.txt": lines})
    (image,) = (row for row in rows if row["error_code"] is None)
    assert len(json.loads(image["metadata_json"])["objects"]) == 16
    (broken,) = (row for row in rows if row["error_code"] is not None)
    assert broken["error_code"] == 1003 and broken["materialize_error"].startswith("line 17 is not of the form")


def test_classes_that_come_later_name_the_objects_next_to_images(tmp_path):
    root = land(tmp_path / "in", {name: data for name, data in NEXT_TO.items() if name != "set/obj.names"})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {"set/obj.names": NEXT_TO["set/obj.names"]})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert first["set/data"].revision != second["set/data"].revision


def test_imagenet_has_its_objects_in_a_directory_of_the_same_name(tmp_path):
    files = {"Data/CLS-LOC/val/a.JPEG": png(), "Annotations/CLS-LOC/val/a.xml": VOC}
    rows = found(tmp_path, files)
    assert [one[0]["category"] for one in objects(rows).values()] == ["person"] and texts(rows) == []


APART = {  # as they are published: official VOC tars, zips of YOLO data sets
    "VOC2012/Annotations/2007_000027.xml": VOC,
    "VOC2012/Annotations/notes.xml": b"<notes>none</notes>",
    "VOC2012/JPEGImages/2007_000027.jpg": png(1),
    "coco8/data.yaml": YAML,
    "coco8/images/train/9.jpg": png(2),
    "coco8/images/train/25.jpg": png(3),
    "coco8/labels/train/9.txt": b"45 0.5 0.5 0.25 0.125\n",
    "coco8/labels/train/25.txt": b"no label of it\n",
    "coco8/labels/train/absent.txt": b"1 0.5 0.5 0.25 0.125\n",
}


@pytest.mark.parametrize("pack", ["set.tar", "set.tar.gz", "set.zip"])
@pytest.mark.parametrize("is_backwards", [False, True])
def test_labels_in_other_folders_of_an_archive_are_objects(tmp_path, pack, is_backwards):
    members = dict(reversed(APART.items())) if is_backwards else APART
    packed = {"set.tar": tar, "set.tar.gz": lambda files: gz(tar(files)), "set.zip": zipped}[pack](members)
    rows = {row["sample_id"].removeprefix(f"{pack}/"): row for row in found(tmp_path, {pack: packed})}
    held = {name: json.loads(row["metadata_json"] or "{}").get("objects") for name, row in rows.items()}
    assert held.pop("VOC2012/JPEGImages/2007_000027")[0]["category"] == "person"
    assert held.pop("coco8/images/train/9") == [box("bowl", 0.5, 0.5, 0.25, 0.125)]
    # what is no label, or has no image, is what it was
    others = ["coco8/images/train/25", *(f"coco8/labels/train/{name}" for name in ("25", "absent"))]
    assert held == dict.fromkeys([*others, "VOC2012/Annotations/notes", "coco8/data"])
    text = rows["coco8/labels/train/25"]
    assert (text["role"], text["text_content"]) == ("document", "no label of it\n")
    assert sources.fetch(SourceRef.from_json(text["source_ref"]), landing=tmp_path / "in") == b"no label of it\n"


def test_a_text_in_a_folder_of_labels_stays_with_its_record(tmp_path):
    files = {"images/a.jpg": png(), "labels/a.txt": b"words of a page\n", "labels/a.json": b'{"page": 7}'}
    rows = {row["sample_id"]: row for row in found(tmp_path, {"set.zip": zipped(files)})}
    assert sorted(rows) == ["set.zip/images/a", "set.zip/labels/a"]
    text = rows["set.zip/labels/a"]
    assert (text["text_content"], json.loads(text["metadata_json"])) == ("words of a page\n", {"page": 7})


def test_xml_of_another_kind_next_to_an_image_is_what_it_was(tmp_path):
    other = b"<annotation><note>made by hand</note></annotation>"
    rows = found(tmp_path, {"a.jpg": png(), "a.xml": other})
    assert [(row["modality"], row["error_code"]) for row in rows if row["modality"] == "text"] == [("text", None)]


def test_a_text_that_cannot_be_read_again_is_its_own_loss(tmp_path, monkeypatch):
    root = land(tmp_path / "in", {"a.jpg": png(1), "a.txt": b"a cat\n", "b.jpg": png(2)})
    (shard,) = sources.scan(root, settings=SETTINGS)
    first, asked = Member.first, []

    def gone_later(self, size_bytes):
        asked.append(self.name)
        if asked.count("a.txt") > 1:
            raise UnreadableItem(1001, "the file is gone")
        return first(self, size_bytes)

    monkeypatch.setattr(Member, "first", gone_later)
    items = list(sources.read(shard, landing=root, settings=SETTINGS))
    assert asked.count("a.txt") > 1
    assert sorted(item.sample_id for item in items) == ["root/a", "root/a", "root/b"]
