"""Interleaved corpora as they are published: OBELICS, MMC4, MINT-1T. Their order is kept, and each image has a row
that says where it lies."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from mmlake import sources
from mmlake.rows import read_rows
from mmlake.sources import SourceSettings
from tests.sources.source_builders import brief, gz, jsonl, land, parquet, png, rows_of, tar

FIRST, SECOND = "https://example.org/1.jpg", "https://example.org/2.png"
OBELICS = {
    "images": [FIRST, None, SECOND],
    "metadata": json.dumps([{"alt_text": "A cat", "src": FIRST}, None, {"alt_text": None, "src": SECOND}]),
    "general_metadata": json.dumps({"url": "https://example.org/"}),
    "texts": [None, "Between them.", None],
}
MMC4 = {
    "text_list": ["One.", "Two.", "Three."],
    "url": "https://example.org/",
    "image_info": [
        {"image_name": "b.jpg", "raw_url": FIRST, "matched_text_index": 2, "matched_sim": 0.3},
        {"image_name": "a.png", "raw_url": SECOND, "matched_text_index": 0, "matched_sim": 0.2},
    ],
    "similarity_matrix": [[0.1, 0.2, 0.3], [0.2, 0.1, 0.1]],
}
FORMS = {
    "a.jsonl": jsonl,
    "a.jsonl.gz": lambda record: gz(jsonl(record)),
    "a.parquet": lambda record: parquet({name: [value] for name, value in record.items()}),
}


def found(tmp_path, files, **options):
    return rows_of(land(tmp_path / "in", files), **options)


def places(rows):
    """(position, modality, text or address, code) of each row in the order of the positions."""
    return sorted(
        (
            row["position"],
            row["modality"],
            row["text_content"] or json.loads(row["metadata_json"])["image_url"],
            row["error_code"],
        )
        for row in rows
    )


@pytest.mark.parametrize("name", FORMS)
def test_texts_and_addresses_of_images_stand_at_their_places(tmp_path, name):
    rows = found(tmp_path, {name: FORMS[name](OBELICS)})
    assert places(rows) == [(0, "image", FIRST, 1111), (1, "text", "Between them.", None), (2, "image", SECOND, 1111)]
    assert len({row["sample_id"] for row in rows}) == 1
    assert all(json.loads(row["metadata_json"])["general_metadata"] == OBELICS["general_metadata"] for row in rows)


@pytest.mark.parametrize("name", FORMS)
def test_images_stand_before_the_sentences_that_they_were_matched_to(tmp_path, name):
    rows = found(tmp_path, {name: FORMS[name](MMC4)})
    assert [(place[0], place[2]) for place in places(rows)] == [
        (0, SECOND),
        (1, "One."),
        (2, "Two."),
        (3, FIRST),
        (4, "Three."),
    ]
    image = json.loads(next(row for row in rows if row["position"] == 3)["metadata_json"])
    assert (image["image_name"], image["matched_text_index"], image["matched_sim"], image["url"]) == (
        "b.jpg",
        2,
        0.3,
        "https://example.org/",
    )
    assert image["similarity_matrix"] == MMC4["similarity_matrix"]


@pytest.mark.parametrize("match", [None, -1, 3, True, "0"])
def test_an_image_that_was_matched_to_no_sentence_stands_at_the_end(tmp_path, match):
    rows = found(
        tmp_path,
        {"a.jsonl": jsonl({"text_list": ["One."], "image_info": [{"raw_url": FIRST, "matched_text_index": match}]})},
    )
    assert [(place[0], place[2]) for place in places(rows)] == [(0, "One."), (1, FIRST)]


def test_what_is_said_of_each_image_goes_to_its_row_where_the_settings_name_it(tmp_path):
    settings = SourceSettings(per_image_fields=("metadata", "similarity_matrix"))
    root = land(tmp_path / "in", {"a.parquet": FORMS["a.parquet"](OBELICS), "b.jsonl": jsonl(MMC4)})
    (batch,) = read_rows(sources.scan(root, settings=settings), landing=root, settings=settings)
    rows = {(row["sample_id"].partition("/")[0], row["position"]): row for row in batch.to_arrow().to_pylist()}
    assert (
        json.loads(rows["a.parquet", 0]["metadata"])["alt_text"] == "A cat"
        and rows["a.parquet", -1]["metadata"] is None
    )
    assert [json.loads(rows["b.jsonl", at]["similarity_matrix"]) for at in (0, 3)] == [[0.2, 0.1, 0.1], [0.1, 0.2, 0.3]]
    assert batch.conflicts == ()


def test_a_record_without_images_among_others_has_its_texts(tmp_path):
    records = [
        {"texts": ["a", None], "images": [None, FIRST]},
        {"texts": ["b", "c"], "images": [None, None]},
        {"texts": ["d"]},
        {"texts": [None], "images": [None]},
    ]
    rows = found(tmp_path, {"a.jsonl": jsonl(*records)})
    assert [row["text_content"] for row in rows if row["modality"] == "text"] == ["a", "b", "c", "d", None]
    assert rows[-1]["error_code"] == 1003


def test_images_of_a_file_whose_first_record_lists_none_are_rows_with_the_texts(tmp_path):
    rows = found(tmp_path, {"a.jsonl": jsonl({"text": "first"}, {"texts": ["a", None], "images": [None, FIRST]})})
    assert brief(rows) == [
        ("line:1", "text", "document", None),
        ("line:2#/texts/0", "text", "document", None),
        ("line:2#/images/1", "text", "document", 1111),
    ]


def test_a_list_of_texts_next_to_a_text_is_metadata_as_ever(tmp_path):
    (row,) = found(tmp_path, {"a.jsonl": jsonl({"text": "own", "texts": ["one", "two"]})})
    assert row["text_content"] == "own" and json.loads(row["metadata_json"]) == {"texts": ["one", "two"]}


def test_images_of_a_conversation_stay_metadata(tmp_path):
    record = {"messages": [{"role": "user", "content": "See"}], "images": ["a.jpg"]}
    (row,) = found(tmp_path, {"a.jsonl": jsonl(record)})
    assert row["text_content"] == "user: See" and json.loads(row["metadata_json"]) == record


def test_an_image_that_is_named_by_its_file_says_so(tmp_path):
    rows = found(tmp_path, {"a.jsonl": jsonl({"texts": [None, "t"], "images": ["pics/1.jpg", None]})})
    assert [(row["error_code"], json.loads(row["metadata_json"] or "{}").get("image_name")) for row in rows] == [
        (1011, "pics/1.jpg"),
        (None, None),
    ]


def test_credentials_in_an_address_reach_no_row(tmp_path):
    rows = found(
        tmp_path,
        {"a.jsonl": jsonl({"texts": [None, "t"], "images": ["https://user:pass@h.org/a.png?sig=secret", None]})},
    )
    assert "secret" not in str(rows) and "pass@" not in str(rows) and "h.org/a.png" in str(rows)


def test_a_first_record_longer_than_what_is_read_is_classified_by_its_names(tmp_path):
    record = {"texts": ["x" * 600, None], "images": [None, FIRST], "more": ["y" * (1 << 20)]}
    assert [row["modality"] for row in found(tmp_path, {"a.jsonl": jsonl(record)})] == ["text", "image"]


@pytest.mark.parametrize(
    "line", [b"", b"\n\n", b'{"images": [', b'{"texts": "a", "images": "b"}', b'["texts", "images"]', b"\xff\xfe"]
)
def test_a_first_line_that_is_no_such_record_lists_no_images(tmp_path, line):
    root = land(tmp_path / "in", {"a.jsonl": line + b"\n" + jsonl({"text": "t"})})
    assert sources.scan(root, settings=SourceSettings())[0].modalities == ("text",)


def test_images_whose_bytes_are_there_and_others_that_are_named_keep_their_order(tmp_path):
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    images = pa.array(
        [
            [
                None,
                {"bytes": png(1), "path": "1.png"},
                {"bytes": None, "path": FIRST},
                {"bytes": None, "path": "gone.png"},
            ]
        ],
        kind,
    )
    rows = found(
        tmp_path,
        {"a.parquet": parquet({"texts": [["a", None, None, None]], "images": images, "alt": [["x", "y", "z"]]})},
        settings=SourceSettings(per_image_fields=("alt",)),
    )
    rows.sort(key=lambda row: row["position"])
    assert [(row["position"], row["modality"], row["error_code"]) for row in rows] == [
        (0, "text", None),
        (1, "image", None),
        (2, "image", 1111),
        (3, "image", 1011),
    ]
    assert [json.loads(row["metadata_json"]).get("alt") for row in rows] == [None, "x", "y", "z"]


def test_other_text_fields_of_an_interleaved_record_are_its_metadata(tmp_path):
    """A record says all its texts in their order: the whole of them once more, or a caption, would stand behind the
    last as if it were one of them."""
    record = {"texts": ["a", None], "images": [None, "0.png"], "text": "a", "caption": "c"}
    rows = found(tmp_path, {"a.tar": tar({"0.png": png(1), "0.json": json.dumps(record).encode()})})
    assert [(row["modality"], row["text_content"], json.loads(row["metadata_json"])) for row in rows] == [
        ("text", "a", {"text": "a", "caption": "c"}),
        ("image", None, {"text": "a", "caption": "c"}),
    ]


@pytest.mark.parametrize("texts", [[], [None], None])
def test_a_caption_next_to_a_list_without_texts_is_a_text(tmp_path, texts):
    record = {"texts": texts, "images": ["0.png"], "caption": "c"}
    rows = found(tmp_path, {"a.tar": tar({"0.png": png(1), "0.json": json.dumps(record).encode()})})
    assert [(row["modality"], row["text_content"], row["sample_text"]) for row in rows] == [
        ("image", None, "c"),
        ("text", "c", None),
    ]
    assert all(row["metadata_json"] is None for row in rows)


def test_a_text_of_a_record_is_what_the_record_says_whatever_encoding_it_resembles(tmp_path):
    texts = ["a\x1b$Bb", "\ufeffmarked", "a\0b\0c\0", "\x1b$)Cx"]
    rows = found(tmp_path, {"a.jsonl": jsonl(*({"text": text} for text in texts))})
    assert [(row["text_content"], row["error_code"]) for row in rows] == [(text, None) for text in texts]


def test_pages_of_a_tiff_stand_between_the_texts_of_a_document(tmp_path):
    """MINT-1T's PDF and ArXiv parts: tokens that name no member stand for the pages of the one TIFF in their order."""
    record = {
        "pdf_name": "a.pdf",
        "texts": [None, "t", None],
        "images": ["page_0_image_1", None, "page_2_image_3"],
        "image_metadata": [{"page": 0}, {"page": 2}],
    }
    settings = SourceSettings(per_image_fields=("image_metadata",))
    rows = found(
        tmp_path,
        {"a.tar": tar({"d_1.tiff": b"II*\0" + bytes(60), "d_1.json": json.dumps(record).encode()})},
        settings=settings,
    )
    assert [(row["position"], row["modality"], json.loads(row["source_ref"]).get("frame_index")) for row in rows] == [
        (0, "image", 0),
        (1, "text", None),
        (2, "image", 1),
    ]
    assert [json.loads(row["metadata_json"]).get("image_metadata") for row in rows] == [{"page": 0}, None, {"page": 2}]
