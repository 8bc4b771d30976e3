"""Media in columns of Parquet files that no setting names: lists of them, columns of Hugging Face data sets, columns
that nobody expects to hold any."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_builders import brief, land, parquet, png, rows_of, sha, wav

from mmlake.formats.columnar import child, child_parquet
from mmlake.formats.columnar.child_source import LocalFile
from mmlake.sources.records import column_rows
from mmlake.sources.records.cells import limits_of
from mmlake.sources.settings import SourceSettings


def _written(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path.parent


def _struct(*images):
    return [{"bytes": image, "path": None} for image in images]


def test_every_image_of_a_list_is_a_row(tmp_path):
    root = land(
        tmp_path / "in",
        {
            "p.parquet": parquet(
                {
                    "images": [_struct(png(1), png(2)), [], None, _struct(png(3))],
                    "caption": ["two", "none", "null", "one"],
                }
            )
        },
    )
    rows = rows_of(root)
    assert [(row["sample_id"][-1], row["position"], row["digest"]) for row in rows if row["modality"] == "image"] == [
        ("1", 0, sha(png(1))),
        ("1", 1, sha(png(2))),
        ("4", 0, sha(png(3))),
    ]
    assert [row["text_content"] for row in rows if row["modality"] == "text"] == ["two", "none", "null", "one"]
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == ["two", "two", "one"]


def test_texts_and_images_of_two_lists_stand_at_their_places(tmp_path):
    root = land(
        tmp_path / "in",
        {"p.parquet": parquet({"texts": [["before", None, "after"]], "images": [[None, *_struct(png(1)), None]]})},
    )
    assert [
        (row["position"], row["modality"], row["role"], row["digest"])
        for row in sorted(rows_of(root), key=lambda row: row["position"])
    ] == [
        (0, "text", "document", sha(b"before")),
        (1, "image", "media", sha(png(1))),
        (2, "text", "document", sha(b"after")),
    ]


def test_texts_that_are_objects_are_json(tmp_path):
    root = land(
        tmp_path / "in",
        {
            "p.parquet": parquet(
                {"texts": [[{"user": "what is it?", "assistant": "grey"}]], "images": [_struct(png(1))]}
            )
        },
    )
    assert [row["text_content"] for row in rows_of(root) if row["modality"] == "text"] == [
        '{"assistant":"grey","user":"what is it?"}'
    ]


@pytest.mark.parametrize(
    "feature", [{"_type": "Image"}, [{"_type": "Image"}], {"feature": {"_type": "Image"}, "_type": "List"}]
)
def test_the_features_of_a_hugging_face_data_set_name_a_column(tmp_path, feature):
    is_list = feature != {"_type": "Image"}
    cell = _struct(png(1)) if is_list else _struct(png(1))[0]
    table = pa.table({"scan": [cell], "text": ["words"]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"scan": feature, "text": {}}}})}
    )
    rows = rows_of(_written(tmp_path / "in" / "p.parquet", table))
    assert brief(rows) == [
        (f"row:1/scan{'/0' if is_list else ''}", "image", "media", None),
        ("row:1/text", "text", "caption", None),
    ]


@pytest.mark.parametrize(
    "written", ["", "no json", "[]", '{"info": null}', '{"info": {"features": {"image": [], "b": 3}}}', "[" * 100_000]
)
def test_features_that_are_none_are_passed_over(tmp_path, written):
    table = pa.table({"image": [png(1)]}).replace_schema_metadata({"huggingface": written})
    assert brief(rows_of(_written(tmp_path / "in" / "p.parquet", table))) == [("row:1/image", "image", "media", None)]


def test_a_word_of_its_name_marks_a_column_whose_cells_hold_media(tmp_path):
    columns = {
        "jpg_0": [png(1), b"\x07" * 5000],
        "audio_bytes": [wav(), None],
        "image_embedding": [b"\x01" * 16] * 2,
        "text": ["a", "b"],
    }
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet(columns)}))
    assert brief(rows) == [
        ("row:1/jpg_0", "image", "media", None),
        ("row:1/audio_bytes", "audio", "media", None),
        ("row:1/text", "text", "caption", None),
        ("row:2/text", "text", "document", None),
    ]
    assert json.loads(rows[-1]["metadata_json"])["jpg_0"] == {"digest": sha(b"\x07" * 5000), "size_bytes": 5000}


def test_an_image_in_a_column_that_nobody_expects_keeps_its_bytes_and_says_what_to_name(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in", {"p.parquet": parquet({"text": ["a"], "photo": [png(1)], "nested": [[{"inner": wav()}]]})}
        )
    )
    assert [
        (json.loads(row["source_ref"])["member"], row["modality"], row["error_code"], row["digest"]) for row in rows
    ] == [
        ("row:1/text", "text", None, sha(b"a")),
        ("row:1/photo", "text", 1005, sha(png(1))),
        ("row:1/nested/0/inner", "text", 1005, sha(wav())),
    ]
    assert (
        "sources.image_fields" in rows[1]["materialize_error"]
        and "sources.audio_fields" in rows[2]["materialize_error"]
    )


def test_an_image_in_an_unexpected_column_next_to_expected_ones_is_an_image(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet({"image": [png(1)], "thumbnail": [png(2)]})}))
    assert [(row["modality"], row["error_code"], row["digest"]) for row in rows] == [
        ("image", None, sha(png(1))),
        ("image", None, sha(png(2))),
    ]


def test_numbers_in_an_unexpected_column_stay_metadata(tmp_path):
    numbers = bytes(range(1, 256)) * 24
    rows = rows_of(land(tmp_path / "in", {"p.parquet": parquet({"text": ["a"], "weights": [numbers]})}))
    assert brief(rows) == [("row:1/text", "text", "document", None)] and json.loads(rows[0]["metadata_json"])[
        "weights"
    ]["digest"] == sha(numbers)


def test_what_stands_next_to_the_bytes_of_a_cell_is_kept(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {"p.parquet": parquet({"audio": [{"bytes": wav(), "path": "a.wav", "sampling_rate": 8000}]})},
        )
    )
    assert json.loads(rows[0]["metadata_json"]) == {"audio": {"path": "a.wav", "sampling_rate": 8000}}


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow"])
@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError])
def test_a_fault_of_ours_is_not_reported_as_damage_of_the_file(tmp_path, monkeypatch, error, name):
    def broken(*_, **__):
        raise error("a fault of ours")
        yield

    monkeypatch.setattr(column_rows, "items_of", broken)
    table = pa.table({"text": ["a"]})
    with pa.BufferOutputStream() as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = {"p.parquet": parquet({"text": ["a"]}), "p.arrow": sink.getvalue().to_pybytes()}[name]
    with pytest.raises(error, match="a fault of ours"):
        rows_of(land(tmp_path / "in", {name: data}))


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, OSError, RuntimeError])
def test_whatever_the_library_raises_of_a_row_group_is_its_damage(tmp_path, monkeypatch, error):
    def broken(*_, **__):
        raise error("pages")

    (tmp_path / "p.parquet").write_bytes(parquet({"text": ["a", "b"]}))
    monkeypatch.setattr(child_parquet, "limit_memory", lambda size_bytes: None)
    file = child_parquet.ParquetFile(LocalFile(tmp_path / "p.parquet"), limits_of(SourceSettings()))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", broken)
    answer = child.answer_of(lambda: file.rows(part=0, offset=0, limit=0, is_careful=False))
    assert answer.head["fault"][0] == 1001 and not answer.batches


@pytest.mark.parametrize("kind", [pa.binary(), pa.null()])
def test_media_of_which_a_cell_has_a_path_alone_are_rows_that_say_so(tmp_path, kind):
    """`datasets` writes so what `Dataset.to_parquet` did not embed. The caption was a document without a picture."""
    cell = pa.struct([("bytes", kind), ("path", pa.string())])
    one, none = {"bytes": None, "path": "images/1.jpg"}, {"bytes": None, "path": None}
    cells = {"image": pa.array([one, none], cell), "images": pa.array([[one, none, one], []], pa.list_(cell))}
    _written(tmp_path / "in" / "p.parquet", pa.table({**cells, "text": ["a barn owl", "no owl"]}))
    rows = rows_of(tmp_path / "in")
    assert [(row["sample_id"][-1], row["role"], row["error_code"], row["text_content"]) for row in rows] == [
        *[("1", "media", 1011, None)] * 3,
        ("1", "caption", None, "a barn owl"),
        ("2", "document", None, "no owl"),
    ]
    assert "names images/1.jpg" in rows[0]["materialize_error"]
