"""JSON lines and Parquet: every record is a row or more, good or bad."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest
from source_builders import brief, gz, jsonl, land, mp4, parquet, png, rows_of, sha, wav, zst

from mmlake import sources


@pytest.mark.parametrize(
    "name, pack", [("a.jsonl", bytes), ("a.jsonl.gz", gz), ("a.ndjson.zst", zst), ("a", bytes), ("a.json", bytes)]
)
def test_lines_become_text_rows_with_their_fields_as_metadata(tmp_path, name, pack):
    data = jsonl({"id": "x", "text": "first", "n": 1}, {"text": "zweite ü", "license": "mit"})
    first, second = rows_of(land(tmp_path / "in", {name: pack(data)}))
    assert (first["text_content"], first["digest"], first["sample_id"], first["metadata_json"]) == (
        "first",
        sha(b"first"),
        f"{name}/x",
        '{"id":"x","n":1}',
    )
    assert (second["text_content"], second["licence"], second["digest"]) == (
        "zweite ü",
        "MIT",
        sha("zweite ü".encode()),
    )
    assert [member for member, *_ in brief([first, second])] == ["line:1", "line:2"]


@pytest.mark.parametrize(
    "line, code",
    [
        (b"{not json", 1003),
        (b"[1,2]", 1003),
        (b'"text"', 1003),
        (b"null", 1003),
        (b'{"text":NaN}', 1003),
        (b'{"text":"a","x":-Infinity}', 1003),
        (b'{"text":"a","x":1e400}', 1003),
        (b'{"text":"\xff\xfe"}', 1004),
        (b'{"text":' * 100_000, 1003),
        (b'{"text":5}', 1003),
        (b'{"title":"no text"}', 1003),
        (b'{"text":null}', 1003),
        (b'{"text":"a","x":' + b"1" * 10_000 + b"}", 1003),
    ],
)
def test_a_bad_line_is_a_row_with_its_bytes(tmp_path, line, code):
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": jsonl({"text": "before"}, line, {"text": "after"})}))
    assert [row["error_code"] for row in rows] == [None, code, None]
    assert rows[1]["digest"] == sha(line)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"text": None, "n": 1}, "the field 'text' is null, expected a text"),
        ({"Text": 5}, "the field 'Text' is of type int, expected a text"),
        ({"caption": {"en": "a"}}, "the field 'caption' is of type dict, expected a text"),
        ({}, "the record has no fields"),
        ({"title": "a"}, "none of the fields ['title'] is a text field; name the one that is in sources.text_fields"),
    ],
)
def test_a_record_without_text_says_which_field_has_none(tmp_path, record, reason):
    """A null in the field `text` was answered by the advice to name a text field in the settings."""
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": jsonl({"text": "before"}, record)}))
    assert rows[1]["materialize_error"] == reason


def test_a_json_file_whose_field_lists_records_says_how_they_are_read(tmp_path):
    """What corpora call `data`: the file was metadata without a text, and nothing said how to get at its texts."""
    texts = [{"text": "one"}, {"text": "two"}]
    given = {"a.json": json.dumps({"version": "1", "data": texts}), "b.json": json.dumps({"version": [1]})}
    rows = rows_of(land(tmp_path / "in", {name: text.encode() for name, text in given.items()}))
    listed, plain = (row["materialize_error"] for row in rows)
    assert "the field 'data' lists 2 records: a file that is that list alone would be read as records" in listed
    assert plain == "metadata without any text or media next to it"
    rows = rows_of(land(tmp_path / "out", {"data.json": json.dumps(texts).encode()}))
    assert [row["text_content"] for row in rows] == ["one", "two"]


def test_half_of_a_surrogate_pair_is_no_text_but_may_stand_in_metadata(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": jsonl(b'{"text":"\\ud800"}', b'{"text":"fine","t":"\\ud800"}')}))
    assert [row["error_code"] for row in rows] == [1003, None]
    assert json.loads(rows[1]["metadata_json"]) == {"t": "\ud800"}


def test_an_empty_text_is_a_text_and_a_blank_line_is_nothing(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"a.jsonl": jsonl({"text": ""}) + b"\n  \r\n" + b'{"text":"last, no newline"}'})
    )
    assert [(member, row["text_content"]) for row, (member, *_) in zip(rows, brief(rows), strict=True)] == [
        ("line:1", ""),
        ("line:4", "last, no newline"),
    ]


def test_a_repeated_id_names_two_samples(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {
                "a.jsonl": jsonl(
                    {"id": 7, "text": "a"}, {"id": "7", "text": "b"}, {"text": "c"}, {"id": "line:3", "text": "d"}
                )
            },
        )
    )
    assert [row["sample_id"] for row in rows] == ["a.jsonl/7", "a.jsonl/7~2", "a.jsonl/line:3", "a.jsonl/line:3~4"]


def test_captions_of_a_record_are_rows_of_one_sample(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": jsonl({"captions": ["one", "two"], "text": "body", "w/e": 1})}))
    assert brief(rows) == [
        ("line:1", "text", "document", None),
        ("line:1#/captions/0", "text", "caption", None),
        ("line:1#/captions/1", "text", "caption", None),
    ]
    assert [row["position"] for row in rows] == [0, 1, 2]


def test_a_caption_and_a_list_of_captions_in_one_record_are_all_captions(tmp_path):
    """The list stayed a field, and its captions were lost to training."""
    record = {"caption": "one", "captions": ["one", "two"], "n": 1}
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": jsonl(record)}))
    assert [(row["role"], row["text_content"]) for row in rows] == [("caption", "one"), ("caption", "two")]
    assert {row["metadata_json"] for row in rows} == {'{"n":1}'}


@pytest.mark.parametrize("size, code", [(1000, None), (1001, 1008)])
def test_a_line_over_the_limit_is_a_row_and_the_next_is_read(tmp_path, size, code):
    line = b'{"text":"' + b"a" * (size - 11) + b'"}'
    rows = rows_of(
        land(tmp_path / "in", {"a.jsonl": jsonl(line, {"text": "after"})}),
        settings=sources.SourceSettings(max_line_bytes=1000),
    )
    assert [row["error_code"] for row in rows] == [code, None] and rows[0]["size_bytes"] == (
        size - 11 if code is None else size + 1
    )


@pytest.mark.parametrize("size, code", [(100, None), (101, 1008)])
def test_a_text_over_the_limit_is_kept_but_not_held(tmp_path, size, code):
    row = rows_of(
        land(tmp_path / "in", {"a.jsonl": jsonl({"text": "a" * size})}),
        settings=sources.SourceSettings(max_text_bytes=100),
    )[0]
    assert (row["error_code"], row["digest"], row["text_content"] is None) == (code, sha(b"a" * size), code is not None)


@pytest.mark.parametrize("pack", [gz, zst])
def test_cut_compressed_lines_give_what_came_before_and_a_fault(tmp_path, pack):
    data = pack(jsonl(*({"text": f"{at} {sha(bytes([at]))}"} for at in range(200))))
    rows = rows_of(land(tmp_path / "in", {"a.jsonl.gz": data[:-1]}))
    assert rows[-1]["error_code"] == 1002 and rows[-1]["digest"] is None
    assert [row["status"] for row in rows] == ["ok"] * (len(rows) - 1) + ["unreadable"]
    # gzip gives out all but its trailer; Zstandard works in blocks of up to 128 KiB
    assert len(rows) >= (201 if pack is gz else 1)


def test_a_wrong_checksum_of_gzip_is_reported_after_the_last_line(tmp_path):
    data = bytearray(gz(jsonl({"text": "a"}, {"text": "b"})))
    data[-6] ^= 1
    assert [row["error_code"] for row in rows_of(land(tmp_path / "in", {"a.jsonl.gz": bytes(data)}))] == [
        None,
        None,
        1001,
    ]


def test_zstandard_gives_out_the_blocks_before_a_cut(tmp_path):
    data = zst(jsonl(*({"text": f"{at} {sha(bytes([at % 256])) * 40}"} for at in range(200))))
    rows = rows_of(land(tmp_path / "in", {"a.jsonl.zst": data[:-1]}))
    assert rows[-1]["error_code"] == 1002 and 49 < sum(row["status"] == "ok" for row in rows) < 200


def test_gzip_members_behind_one_another_and_padding_are_one_stream(tmp_path):
    data = gz(jsonl({"text": "a"})) + gz(jsonl({"text": "b"})) + bytes(512)
    assert [row["text_content"] for row in rows_of(land(tmp_path / "in", {"a.jsonl.gz": data}))] == ["a", "b"]


def test_a_bomb_of_lines_stops_with_a_row(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"a.jsonl.gz": gz(jsonl(*({"text": "a" * 990} for _ in range(200))))}),
        settings=sources.SourceSettings(max_shard_bytes=100_000),
    )
    assert rows[-1]["error_code"] == 1008 and 50 < len(rows) < 102


def test_an_empty_file_of_lines_is_a_row(tmp_path):
    assert [(row["error_code"], row["digest"]) for row in rows_of(land(tmp_path / "in", {"a.jsonl": b""}))] == [
        (1006, sha(b""))
    ]


def test_parquet_cells_become_rows_by_their_column(tmp_path):
    image = [{"bytes": png(1), "path": "x.png"}, {"bytes": png(2), "path": None}]
    data = parquet(
        {
            "id": ["a", "b"],
            "image": image,
            "text": ["a cat", None],
            "wav": [None, wav()],
            "n": [1, 2],
            "license": ["cc-by-4.0", None],
        }
    )
    rows = rows_of(land(tmp_path / "in", {"p.parquet": data}))
    assert brief(rows) == [
        ("row:1/image", "image", "media", None),
        ("row:1/text", "text", "caption", None),
        ("row:2/image", "image", "media", None),
        ("row:2/wav", "audio", "media", None),
    ]
    assert [row["digest"] for row in rows] == [sha(png(1)), sha(b"a cat"), sha(png(2)), sha(wav())]
    assert rows[0]["sample_text"] == "a cat" and json.loads(rows[0]["metadata_json"]) == {
        "id": "a",
        "image": {"path": "x.png"},
        "license": "cc-by-4.0",
        "n": 1,
    }
    assert [row["licence"] for row in rows] == ["CC-BY-4.0", "CC-BY-4.0", "NOASSERTION", "NOASSERTION"]


def test_a_cell_of_another_kind_than_its_column_is_unreadable(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {
                "p.parquet": parquet(
                    {"image": [wav(), png(), b"", b"unknown"], "video": [mp4(b"vide"), None, None, None]}
                )
            },
        )
    )
    assert [(row["modality"], row["error_code"]) for row in rows] == [
        ("image", 1003),
        ("video", None),
        ("image", None),
        ("image", 1006),
        ("image", None),
    ]


def test_a_row_without_any_cell_is_reported(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in", {"p.parquet": parquet({"text": ["a", None], "image": pa.array([None, None], pa.binary())})}
        )
    )
    assert [(row["modality"], row["error_code"]) for row in rows] == [("text", None), ("text", 1003)]


def test_a_column_of_addresses_is_metadata(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet({"image": ["http://x/1.png"], "caption": ["c"]})}))
    assert brief(rows) == [("row:1/caption", "text", "caption", None)] and json.loads(rows[0]["metadata_json"]) == {
        "image": "http://x/1.png"
    }


def test_binary_texts_and_awkward_metadata_are_read(tmp_path):
    columns = {
        "text": [b"ok", b"\xff\xfa\x00"],
        "t": pa.array([1, None], pa.timestamp("us")),
        "f": [float("nan"), 1.5],
        "b": [b"\0" * 5000, b"\1"],
        "l": [[{"a": 1}], []],
    }
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet(columns)}))
    assert [row["error_code"] for row in rows] == [None, 1004] and rows[1]["digest"] == sha(b"\xff\xfa\x00")
    assert json.loads(rows[0]["metadata_json"]) == {
        "b": {"digest": sha(bytes(5000)), "size_bytes": 5000},
        "f": None,
        "l": [{"a": 1}],
        "t": "1970-01-01T00:00:00.000001",
    }


def test_a_parquet_without_any_known_column_is_one_row(tmp_path):
    assert [
        (row["modality"], row["error_code"])
        for row in rows_of(land(tmp_path / "in", {"audio/p.parquet": parquet({"x": [1, 2]})}))
    ] == [("audio", 1003)]


def test_bytes_that_are_no_utf8_in_a_text_column_cost_one_row(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")]
    )
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet({"text": bad})}))
    assert [row["error_code"] for row in rows] == [None, 1003, None]


def test_a_flipped_bit_in_a_page_costs_its_row_group_and_no_other(tmp_path):
    data = bytearray(
        parquet(
            {"text": [f"text number {at}" for at in range(30)]},
            row_group_size=10,
            use_dictionary=False,
            compression="none",
        )
    )
    data[data.index(b"text number 15")] ^= 4
    rows = rows_of(land(tmp_path / "in", {"p.parquet": bytes(data)}))
    assert [row["error_code"] for row in rows] == [None] * 10 + [1001] + [None] * 10
    assert "rows 11 to 20" in rows[10]["materialize_error"]


@pytest.mark.parametrize("cut", [4, 100, -1, -8, -200])
def test_a_cut_parquet_is_one_row(tmp_path, cut):
    data = parquet({"text": ["a" * 50, "b" * 50], "image": [png(), png(1)]})[:cut]
    assert [
        (row["modality"], row["error_code"]) for row in rows_of(land(tmp_path / "in", {"image/p.parquet": data}))
    ] == [("image", 1001)]


def test_large_row_groups_are_decoded_in_pieces(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"p.parquet": parquet({"text": [f"{at:04d}" * 20 for at in range(20)]})}),
        settings=sources.SourceSettings(batch_bytes=1),
    )
    assert [row["text_content"][:4] for row in rows] == [f"{at:04d}" for at in range(20)]


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_a_picture_in_base64_is_named_by_its_digest_in_metadata(tmp_path, prefix):
    """labelme repeats the image next to its outlines."""
    picture = png() + bytes(4000)
    coded = base64.b64encode(picture).decode()
    fields = {"imagePath": "a.png", "imageData": prefix + coded, "flags": {}, "note": "A" * 5000, "short": coded[:400]}
    rows = rows_of(land(tmp_path / "in", {"a.png": picture, "a.json": json.dumps(fields).encode()}))
    (image,) = (json.loads(row["metadata_json"]) for row in rows if row["modality"] == "image")
    assert image.pop("imageData") == {"digest": sha(picture), "size_bytes": len(picture)}
    assert image == {name: fields[name] for name in ("imagePath", "flags", "note", "short")}
    lines = rows_of(land(tmp_path / "lines", {"a.jsonl": jsonl({"text": "words", "thumbnail": prefix + coded})}))
    assert json.loads(lines[0]["metadata_json"])["thumbnail"]["digest"] == sha(picture)
