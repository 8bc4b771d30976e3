"""What sources give badly: lone captions and pictures, parts that repeat, holes, manifests that overlap, ids that
repeat. Each is clear rows of samples, and no item is lost: `assemble` counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from samples_landed import landed

from tests import make
from tests.sources.source_builders import jsonl, parquet, png


def packed(value: Any) -> bytes:
    return json.dumps(value).encode()


def cell(shade: int) -> dict[str, Any]:
    """An image as the library `datasets` keeps it."""
    return {"bytes": png(shade), "path": f"{shade}.png"}


def dialogue(number: int, answer: str) -> list[dict[str, Any]]:
    turns = [{"from": "human", "value": "What?"}, {"from": "gpt", "value": answer}]
    return [{"id": f"q{number}", "image": "0.png", "conversations": turns}]


@pytest.mark.parametrize(
    "files",
    [
        {"a.tar": make.tar({"0.json": packed({"caption": "Alone."}), "1.png": png(1)})},
        {"a.jsonl": jsonl({"caption": "Alone."})},
        {"a.parquet": parquet({"image": [None, cell(1)], "caption": ["Alone.", "Next to one."]})},
    ],
    ids=["tar", "jsonl", "parquet"],
)
def test_a_caption_without_a_picture_is_a_sample_that_nothing_leads(files: dict[str, bytes], tmp_path: Path) -> None:
    found = landed(tmp_path, files)
    assert found.parts()[0] == [(0, "caption", "Alone.")]
    assert [sample["modality"] for sample in found.samples] == [None, "image"][: len(found.samples)]


def test_dialogues_about_a_picture_are_its_captions_and_one_without_is_a_document(tmp_path: Path) -> None:
    records = [
        *dialogue(1, "A bus."),
        *dialogue(2, "White."),
        {"id": "q3", "conversations": dialogue(3, "No.")[0]["conversations"]},
    ]
    found = landed(tmp_path, {"p/mix.json": packed(records), "p/0.png": png(0)})
    kinds = sorted((sample["modality"], [part["role"] for part in sample["parts"]]) for sample in found.samples)
    assert kinds == [("image", ["media", "caption", "caption"]), ("text", ["document"])]


@pytest.mark.parametrize(
    "files",
    [
        {"a.tar": make.tar({"0.png": png(0), "1.png": png(1), "1.txt": b"A cat."})},
        {"a.parquet": parquet({"image": [cell(0), cell(1)], "caption": [None, "A cat."]})},
        {"p/metadata.jsonl": jsonl({"file_name": "1.png", "text": "A cat."}), "p/0.png": png(0), "p/1.png": png(1)},
    ],
    ids=["tar", "parquet", "manifest"],
)
def test_a_picture_without_a_caption_is_a_sample_of_one_part(files: dict[str, bytes], tmp_path: Path) -> None:
    found = landed(tmp_path, files)
    assert found.parts() == [
        [(0, "media", "image/png")],
        [(0, "media", "image/png"), (1, "caption", "A cat.")],
    ]
    assert [sample["modality"] for sample in found.samples] == ["image", "image"]


def test_what_a_manifest_says_of_a_missing_picture_is_a_sample_that_says_so(tmp_path: Path) -> None:
    said = jsonl({"file_name": "gone.png", "text": "A ghost."}, {"file_name": "0.png", "text": "A cat."})
    found = landed(tmp_path, {"p/metadata.jsonl": said, "p/0.png": png(0)})
    assert [(0, "document", "the file gone.png is missing")] in found.parts()
    assert [(0, "media", "image/png"), (1, "caption", "A cat.")] in found.parts()


@pytest.mark.parametrize(
    "files",
    [
        {"a.tar": make.tar({"0.png": png(0), "0.json": packed({"captions": ["Same.", "Same.", "Other."]})})},
        {"a.parquet": parquet({"image": [cell(0)], "captions": [["Same.", "Same.", "Other."]]})},
    ],
    ids=["tar", "parquet"],
)
def test_a_caption_that_is_given_twice_is_two_parts(files: dict[str, bytes], tmp_path: Path) -> None:
    found = landed(tmp_path, files)
    (parts,) = found.parts()
    assert parts == [
        (0, "media", "image/png"),
        (1, "caption", "Same."),
        (2, "caption", "Same."),
        (3, "caption", "Other."),
    ]
    digests = [part["digest"] for part in found.samples[0]["parts"]]
    assert len(digests) == 4
    assert len(set(digests)) == 3


def test_one_caption_in_a_record_and_in_a_file_is_two_parts(tmp_path: Path) -> None:
    files = {"a.tar": make.tar({"0.png": png(0), "0.json": packed({"caption": "Same."}), "0.txt": b"Same."})}
    assert landed(tmp_path, files).parts() == [
        [(0, "media", "image/png"), (1, "caption", "Same."), (2, "caption", "Same.")]
    ]


def interleaved(texts: list[Any], images: list[Any], form: str) -> dict[str, bytes]:
    """A document of these lists, in which an image is the number of a picture, as one shard."""
    if form == "parquet":
        cells = [cell(image) if image is not None else None for image in images]
        return {"a.parquet": parquet({"texts": [texts], "images": [cells]})}
    names = [f"0.{image}.png" if image is not None else None for image in images]
    pictures = {f"0.{image}.png": png(image) for image in images if image is not None}
    return {"a.tar": make.tar({"0.json": packed({"texts": texts, "images": names}), **pictures})}


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_a_picture_that_stands_twice_in_a_document_is_two_parts(form: str, tmp_path: Path) -> None:
    found = landed(tmp_path, interleaved(["Before.", None, None, "After."], [None, 7, 7, None], form))
    (sample,) = found.samples
    assert [(part["position"], part["role"]) for part in sample["parts"]] == [
        (0, "document"),
        (1, "media"),
        (2, "media"),
        (3, "document"),
    ]
    assert sample["parts"][1]["digest"] == sample["parts"][2]["digest"]
    assert sample["modality"] == "interleaved"


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_positions_of_a_document_keep_their_holes(form: str, tmp_path: Path) -> None:
    found = landed(tmp_path, interleaved(["Before.", None, None, None], [None, None, None, 7], form))
    (sample,) = found.samples
    assert [(part["position"], part["role"]) for part in sample["parts"]] == [(0, "document"), (3, "media")]


def test_a_picture_that_a_document_names_and_the_shard_lacks_is_a_part_without_bytes(tmp_path: Path) -> None:
    said = packed({"texts": ["Before.", None, "After."], "images": [None, "0.1.png", None]})
    found = landed(tmp_path, {"a.tar": make.tar({"0.json": said, "0.7.png": png(7)})})
    by_position = {part["position"]: part for sample in found.samples for part in sample["parts"]}
    assert by_position[1]["digest"] is None
    assert found.items[by_position[1]["item_id"]]["status"] == "unreadable"


def test_two_manifests_of_one_picture_are_parts_of_one_sample_with_the_fields_of_each(tmp_path: Path) -> None:
    files = {"p/one.json": packed(dialogue(1, "A cat.")), "p/two.json": packed(dialogue(2, "A kitten."))}
    found = landed(tmp_path, {**files, "p/0.png": png(0)})
    (parts,) = found.parts()
    assert [text for _, _, text in parts] == [
        "image/png",
        "human: What?\n\ngpt: A cat.",
        "human: What?\n\ngpt: A kitten.",
    ]
    (sample,) = found.samples
    given = [json.loads(sample["fields_json"]) | json.loads(part["fields_json"] or "{}") for part in sample["parts"]]
    assert [one["id"] for one in given] == ["q1", "q1", "q2"]
    assert [one["conversations"][1]["value"] for one in given[1:]] == ["A cat.", "A kitten."]


def test_of_two_tables_that_caption_one_picture_the_other_is_a_sample_that_says_so(tmp_path: Path) -> None:
    tables = {
        "p/metadata.jsonl": jsonl({"file_name": "0.png", "text": "A cat."}),
        "p/metadata.csv": b"file_name,text\n0.png,A kitten.\n",
    }
    first, second = landed(tmp_path, {**tables, "p/0.png": png(0)}).parts()
    assert first == [(0, "media", "image/png"), (1, "caption", "A kitten.")]
    assert second == [(0, "document", "the file 0.png is described by a table that lies nearer to it")]


@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": jsonl({"id": "x", "text": "One."}, {"id": "x", "text": "Two."})},
        {"a.parquet": parquet({"id": ["x", "x"], "text": ["One.", "Two."]})},
    ],
    ids=["jsonl", "parquet"],
)
def test_two_samples_of_one_id_in_one_shard_are_two_samples(files: dict[str, bytes], tmp_path: Path) -> None:
    found, (shard,) = landed(tmp_path, files), files
    assert [sample["sample_ids"] for sample in found.samples] == [[f"{shard}/x"], [f"{shard}/x~2"]]
    assert found.parts() == [[(0, "document", "One.")], [(0, "document", "Two.")]]


def test_members_of_one_name_in_a_tar_are_parts_of_one_sample_and_marked(tmp_path: Path) -> None:
    members = [("0.png", png(0)), ("0.txt", b"One."), ("1.png", png(5)), ("0.png", png(1)), ("0.txt", b"Two.")]
    found = landed(tmp_path, {"a.tar": make.tar(members)})
    assert found.parts() == [
        [(0, "media", "image/png"), (1, "caption", "One."), (2, "media", "image/png"), (3, "caption", "Two.")],
        [(0, "media", "image/png")],
    ]
    marks = [part["fields_json"] for part in found.samples[0]["parts"]]
    assert marks == [None, None, '{"duplicate_member":true}', '{"duplicate_member":true}']


def test_two_samples_of_one_id_in_two_shards_are_two_samples(tmp_path: Path) -> None:
    one, two = (make.tar({"0.png": png(at), "0.txt": text}) for at, text in enumerate((b"One.", b"Two.")))
    found = landed(tmp_path, {"a.tar": one, "b.tar": two})
    assert [sample["sample_ids"] for sample in found.samples] == [["a.tar/0"], ["b.tar/0"]]
    assert len({sample["sample"] for sample in found.samples}) == 2


def test_one_sample_in_two_shards_has_one_name(tmp_path: Path) -> None:
    same = make.tar({"0.png": png(0), "0.txt": b"One."})
    found = landed(tmp_path, {"a.tar": same, "b.tar": same})
    assert len({sample["sample"] for sample in found.samples}) == 1
    assert [sample["num_occurrences"] for sample in found.samples] == [1, 1]


def test_one_sample_twice_in_a_shard_is_one_row_with_both_ids(tmp_path: Path) -> None:
    found = landed(tmp_path, {"a.jsonl": jsonl({"text": "One."}, {"text": "Two."}, {"text": "One."})})
    assert [(sample["sample_ids"], sample["num_occurrences"]) for sample in found.samples] == [
        (["a.jsonl/line:1", "a.jsonl/line:3"], 2),
        (["a.jsonl/line:2"], 1),
    ]
