"""Shards of every connector as interleaved rows."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from rows_media import (
    SETTINGS,
    CountedFile,
    MemoryLanding,
    column,
    jpeg,
    land,
    one,
    picture,
    pixels,
    png,
    read,
    record,
    tar,
    tiff,
)

from mmlake import rows, sources
from mmlake.records import SourceRef
from mmlake.rows import SCHEMA

SAMPLE = {"texts": ["one", None, "two"], "images": [None, "p.png", None]}


def refs(batch, modality="image"):
    return [SourceRef.parse(value) for value in column(batch, "source_ref", modality)]


# Projection


def test_all_fields_but_reserved_ones_become_columns():
    given = {
        "score": 1,
        "sample_id": "x",
        "tags": ["a"],
        "nested": {"k": None},
        "flag": True,
        "none": None,
        "ratio": 0.5,
        "name": "n",
    }
    assert rows.project(given, excluded=["name"]) == {
        "score": 1,
        "tags": '["a"]',
        "nested": '{"k":null}',
        "flag": True,
        "none": None,
        "ratio": 0.5,
    }


def test_asked_for_fields_become_columns_and_missing_ones_are_null():
    assert rows.project({"score": 1, "other": 2}, ["score", "absent"]) == {"score": 1, "absent": None}
    assert rows.project({"source": "web"}, {"source": "origin"}) == {"origin": "web"}


@pytest.mark.parametrize("fields", [["position"], ["score", "binary_content"], {"score": "digest"}])
def test_a_field_with_a_reserved_name_is_refused(fields, tmp_path):
    with pytest.raises(ValueError, match="reserved"):
        rows.project({}, fields)
    land(tmp_path, {"s.tar": tar({"0.json": record(**SAMPLE), "0.p.png": png()})})
    with pytest.raises(ValueError, match="reserved"):
        rows.read_rows(sources.scan(tmp_path, settings=SETTINGS), landing=tmp_path, fields=fields)


# Interleaved records in tars


def test_a_person_may_choose_every_name(tmp_path):
    settings = sources.SourceSettings(
        texts_field="passages",
        images_field="figures",
        member_field="file",
        frame_field="page",
        sample_id_field="pdf_name",
        json_extensions=("meta",),
    )
    fields = {"pdf_name": "paper 7", "passages": ["p", None], "figures": [None, {"file": "b.tif", "page": 1}]}
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.meta": record(**fields), "0.a.png": png(), "0.b.tif": tiff(2)})},
        settings=settings,
        fields=(),
    )
    assert set(column(batch, "sample_id")) == {"s.tar/paper 7"}
    assert column(batch, "text_content", "text") == ["p"]
    assert [(ref.member, ref.frame_index) for ref in refs(batch)] == [("0.b.tif", 1), ("0.a.png", None)]


def test_samples_that_their_records_call_the_same_are_kept_apart(tmp_path):
    settings = sources.SourceSettings(sample_id_field="name")
    files = {
        "s.tar": tar([(f"{stem}.json", record(name="same", texts=[stem])) for stem in "ab"] + [("same.png", png())])
    }
    batch = one(tmp_path, files, settings=settings)
    assert len(set(column(batch, "sample_id", "text") + column(batch, "sample_id", "image"))) == 3


def test_every_field_is_read_with_nested_values_as_json(tmp_path):
    batch = one(
        tmp_path, {"s.tar": tar({"0.json": record(**SAMPLE, url="u", score=2, meta={"k": [1]}), "0.p.png": png()})}
    )
    assert batch.columns[len(SCHEMA) :] == ["url", "score", "meta"]
    assert column(batch, "meta", "metadata") == ['{"k":[1]}'] and batch.table.schema.field("score").type == pa.int64()
    assert json.loads(column(batch, "metadata_json", "metadata")[0]) == {"url": "u", "score": 2, "meta": {"k": [1]}}


def test_fields_of_the_sample_stand_on_its_metadata_row_alone(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(**SAMPLE, url="u"), "0.p.png": png()})})
    assert list(zip(column(batch, "position"), column(batch, "modality"), column(batch, "url"), strict=True)) == [
        (-1, "metadata", "u"), (0, "text", None), (1, "image", None), (2, "text", None)
    ]  # fmt: skip


def test_the_content_type_is_that_of_the_member_which_was_found(tmp_path):
    batch = one(
        tmp_path, {"s.tar": tar({"0.json": record(images=["b", "nowhere"]), "0.a.jpg": jpeg(), "0.b.png": png()})}
    )
    assert column(batch, "content_type", "image") == ["image/png", "image/jpeg"]


def test_null_entries_are_passed_over_and_the_others_keep_their_place(tmp_path):
    batch = one(
        tmp_path,
        {
            "s.tar": tar(
                {"0.json": record(texts=[None, None, "t", None], images=[None, None, None, "p"]), "0.p.png": png()}
            )
        },
    )
    assert list(zip(column(batch, "position"), column(batch, "modality"), strict=True)) == [(2, "text"), (3, "image")]


def test_a_named_member_wins_and_an_unknown_name_means_the_first_image(tmp_path):
    tokens = ["b.png", "unknown", {"member": "0.b.png"}, {"caption": "no name"}, None]
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(images=tokens), "0.a.png": png(1), "0.b.png": png(2)})})
    assert [ref.member for ref in refs(batch)] == ["0.b.png", "0.a.png", "0.b.png", "0.a.png"]


def test_frames_are_counted_from_zero_for_each_member(tmp_path):
    tokens = ["a.tif", "a.tif", "b.tif", "a.tif", "c.jpg"]
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(images=tokens), "0.a.tif": tiff(3), "0.b.tif": tiff(1), "0.c.jpg": jpeg()})},
    )
    assert [ref.frame_index for ref in refs(batch)] == [0, 1, 0, 2, None]


def test_texts_and_images_that_take_turns_share_no_place(tmp_path):
    fields = {"texts": ["t", None, "t", None, "t"], "images": [None, "p", None, "p", None]}
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(**fields), "0.p.png": png()})})
    assert column(batch, "position") == [0, 1, 2, 3, 4]


def test_a_tar_of_nothing_is_an_empty_batch_with_the_columns_that_were_asked_for(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({})}, fields=["score"])
    assert batch.num_rows == 0 and batch.columns == [*SCHEMA.names, "score"]
    assert batch.table.schema.field("position").type == pa.int32() and batch.source_files == ()


def test_a_missing_field_is_null_and_said_once(tmp_path, caplog):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(**SAMPLE, url="u"), "0.p.png": png(), "1.json": record(texts=["t"])})},
        fields=["url", "score"],
    )
    assert set(column(batch, "score")) == {None} and column(batch, "url", "metadata") == ["u"]
    assert [entry.getMessage() for entry in caplog.records if "score" in entry.getMessage()] == [
        "the field of the column 'score' is in none of 5 rows: the column is null"
    ]


def test_lists_are_spread_over_the_rows_of_their_kind(tmp_path):
    fields = {
        "texts": ["t", None, "u"],
        "images": [None, "p", None],
        "image_alt": ["alt"],
        "text_lang": ["en", "fr"],
        "both": [1, 2, 3],
    }
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(**fields, url="u"), "0.p.png": png()})},
        per_image_fields=["image_alt", "both"],
        per_text_fields=["text_lang", "both"],
        fields=["url"],
    )
    assert [column(batch, name) for name in ("image_alt", "text_lang", "both")] == [
        [None, None, "alt", None],
        [None, "en", None, "fr"],
        [None, 1, 2, 3],
    ]
    assert json.loads(column(batch, "metadata_json", "image")[0]) == {"image_alt": "alt", "both": 2}


def test_a_shorter_list_leaves_null_and_a_longer_one_keeps_its_rest_on_the_metadata_row(tmp_path):
    fields = {"texts": [None, None], "images": ["p", "p"], "short": [1], "long": [1, 2, 3]}
    batch = one(
        tmp_path, {"s.tar": tar({"0.json": record(**fields), "0.p.png": png()})}, per_image_fields=["short", "long"]
    )
    assert (column(batch, "short"), column(batch, "long")) == ([None, 1, None], ["[1,2,3]", "1", "2"])


def test_pictures_without_a_list_get_their_values_in_the_order_of_the_members(tmp_path):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(alt=["x", "y"]), "0.a.png": png(1), "0.b.png": png(2)})},
        per_image_fields=["alt"],
    )
    assert column(batch, "alt", "image") == ["x", "y"]


def test_a_list_field_that_no_sample_has_is_said(tmp_path, caplog):
    one(tmp_path, {"s.tar": tar({"0.json": record(**SAMPLE), "0.p.png": png()})}, per_image_fields=["alt"])
    assert "'alt'" in caplog.text and "in no sample" in caplog.text


BAD_LIST = {
    "s.tar": tar({"0.json": record(**SAMPLE, alt="one text"), "0.p.png": png(), "1.json": record(texts=["good"])})
}


def test_a_list_field_that_is_no_list_raises(tmp_path):
    with pytest.raises(TypeError, match="'alt' is of type str"):
        one(tmp_path, BAD_LIST, per_image_fields=["alt"])


def test_a_list_field_that_is_no_list_costs_no_row_where_it_is_to_be_reported(tmp_path):
    batch = one(tmp_path, BAD_LIST, per_image_fields=["alt"], not_a_list="report")
    assert column(batch, "text_content", "text") == ["one", "two", None, "good"] and column(
        batch, "alt", "metadata"
    ) == ["one text"]
    assert [(conflict.field, conflict.sample_id) for conflict in batch.conflicts] == [("alt", "s.tar/0")]
    assert [code for code in column(batch, "error_code") if code] == [1003]


def test_ingest_spreads_the_lists_too_and_a_broken_one_is_a_row(tmp_path):
    from mmlake.store import BlobStore

    settings = sources.SourceSettings(per_image_fields=("alt",))
    land(
        tmp_path / "in",
        {"a.tar": tar({"0.json": record(images=["p"], alt=["x"]), "0.p.png": png()}), "b.tar": BAD_LIST["s.tar"]},
    )
    made = {
        shard.key: [
            row
            for kind in shard.modalities
            for row in sources.ingest(
                shard, kind, landing=tmp_path / "in", store=BlobStore(tmp_path / "store"), settings=settings
            ).to_pylist()
        ]
        for shard in sources.scan(tmp_path / "in", settings=settings)
    }
    assert [json.loads(row["metadata_json"]) for row in made["a.tar"]] == [{"alt": "x"}]
    assert sorted((row["status"], row["error_code"]) for row in made["b.tar"]) == [("ok", None)] * 4 + [
        ("unreadable", 1003)
    ]


@pytest.mark.parametrize("options", [{}, {"compression": "tiff_lzw"}, {"compression": "jpeg"}])
def test_each_row_of_a_picture_with_frames_gets_its_own_frame(tmp_path, options):
    whole = tiff(3, **options)
    batch = one(
        tmp_path, {"s.tar": tar({"0.json": record(images=["a.tif"] * 3), "0.a.tif": whole})}, materialize="read"
    )
    found = column(batch, "binary_content", "image")
    assert (
        all(len(data) < len(whole) and Image.open(io.BytesIO(data)).n_frames == 1 for data in found)
        and len(set(found)) == 3
    )
    source = Image.open(io.BytesIO(whole))
    for index, data in enumerate(found):
        source.seek(index)
        assert Image.open(io.BytesIO(data)).tobytes() == source.tobytes()


def test_a_medium_without_bytes_has_an_error_and_no_bytes(tmp_path):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(images=["p", "q"]), "0.p.png": b"", "0.q.png": png()})},
        materialize="read",
    )
    assert column(batch, "binary_content", "image") == [None, png()] or column(batch, "binary_content", "image") == [
        png(),
        None,
    ]
    assert [error for error in column(batch, "materialize_error") if error] == ["size_bytes=0 not in [1, inf)"]


@pytest.mark.parametrize("moment", ["read", "later"])
def test_a_frame_that_is_not_there_is_named_and_the_picture_kept(tmp_path, moment):
    files = {
        "s.tar": tar({"0.json": record(images=[{"member": "a.tif", "frame_index": 5}, "a.tif"]), "0.a.tif": tiff(2)})
    }
    batch = one(tmp_path, files, materialize="read" if moment == "read" else "never")
    batch = batch if moment == "read" else rows.materialize(batch, rows.Places(landing=tmp_path))
    assert column(batch, "materialize_error", "image")[0] == "frame_index=5 not in [0, 1]"
    assert column(batch, "binary_content", "image")[0] == tiff(2)


@pytest.mark.parametrize("name, data, kind", [("p.jpg", jpeg(), "image/jpeg"), ("p.png", png(), "image/png")])
def test_pictures_without_frames_come_as_they_are(tmp_path, name, data, kind):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(images=[name]), f"0.{name}": data})}, materialize="read")
    assert column(batch, "binary_content") == [data] and column(batch, "content_type") == [kind]
    assert refs(batch)[0].frame_index is None
    Image.open(io.BytesIO(column(batch, "binary_content")[0])).load()


# Shards and batches


def test_several_shards_are_one_batch(tmp_path):
    batch = one(tmp_path, {f"{name}.tar": tar({"0.json": record(texts=[name], of=name)}) for name in "abc"})
    assert (
        column(batch, "text_content", "text") == ["a", "b", "c"]
        and batch.source_files == ("a.tar", "b.tar", "c.tar")
        and batch.name == "rows"
    )


def test_small_batches_end_between_samples_and_name_the_files_that_fed_them(tmp_path):
    files = {f"{name}.tar": tar([(f"{at}.json", record(texts=["t" * 50] * 3)) for at in range(2)]) for name in "ab"}
    batches = read(tmp_path, files, max_batch_bytes=1)
    assert [set(column(batch, "sample_id")) for batch in batches] == [
        {"a.tar/0"},
        {"a.tar/1"},
        {"b.tar/0"},
        {"b.tar/1"},
    ]
    assert [batch.source_files for batch in batches] == [("a.tar",), ("a.tar",), ("b.tar",), ("b.tar",)]
    assert [batch.name for batch in batches] == [f"rows::split_{number:04d}" for number in (1, 2, 3, 4)]
    assert sum((column(batch, "text_content") for batch in batches), []) == ["t" * 50] * 12


@pytest.mark.parametrize("max_batch_bytes", [1, 1500, 4000])
def test_batches_of_every_size_hold_the_same_rows(tmp_path, max_batch_bytes):
    members = [
        (f"{at}.json", record(texts=["t" * at, None], images=[None, "p"], alt=[at], score=value))
        for at, value in enumerate([None, 1, 2.5, "x", [1]])
    ]
    files = {
        "s.tar": tar([*members, ("1.p.png", png()), ("3.p.png", b""), ("4.txt", b"\xff\xfea\0b\0")]),
        "t.jsonl": record(text="alone"),
        "u.tar": tar({}),
    }
    options = {"per_image_fields": ["alt"], "materialize": "read"}
    whole = one(tmp_path, files, **options)
    parts = read(tmp_path, max_batch_bytes=max_batch_bytes, **options)
    for name in SCHEMA.names:
        assert column(whole, name) == sum((column(part, name) for part in parts), [])
    scores = sum((column(part, "score") if "score" in part.columns else [None] * part.num_rows for part in parts), [])
    assert [value is None for value in column(whole, "score")] == [value is None for value in scores]


def test_a_batch_that_needs_no_split_has_no_number(tmp_path):
    assert one(tmp_path, {"s.tar": tar({"0.json": record(texts=["t"])})}).name == "s.tar"


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_no_batch_keeps_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match="max_batch_bytes"):
        read(tmp_path, {"s.tar": tar({})}, max_batch_bytes=limit)


def test_lists_that_are_no_lists_give_no_rows_of_their_kind(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(texts="a text", images=7), "0.p.png": png()})})
    assert (batch.count("text"), batch.count("image"), column(batch, "texts", "metadata")) == (0, 1, ["a text"])


def test_a_sample_is_called_by_its_stem(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"dir/000.json": record(texts=["t"], id="other"), "dir/000.p.png": png()})})
    assert set(column(batch, "sample_id")) == {"s.tar/dir/000"}


def test_shards_read_one_by_one_give_the_rows_of_all(tmp_path):
    files = {
        "a.tar": tar({"0.json": record(**SAMPLE), "0.p.png": png()}),
        "b.jsonl": record(id="d", text="t", lang="en"),
        "c/p.png": png(3),
        "c/p.txt": b"caption",
    }
    whole = one(tmp_path, files)
    parts = [next(rows.read_rows(shard, landing=tmp_path)) for shard in sources.scan(tmp_path, settings=SETTINGS)]
    assert whole.num_rows == sum(part.num_rows for part in parts)
    for name in ("sample_id", "position", "modality", "text_content", "source_ref"):
        assert column(whole, name) == sum((column(part, name) for part in parts), [])
    assert whole.columns[: len(SCHEMA)] == SCHEMA.names


def test_a_table_of_texts_and_pictures_is_rows_too(tmp_path):
    sink = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                "id": ["x", "y"],
                "image": pa.array([png(1), png(2)], pa.binary()),
                "caption": ["c", None],
                "score": [0.5, None],
            }
        ),
        sink,
    )
    batch = one(tmp_path, {"s.parquet": sink.getvalue()}, materialize="read")
    assert column(batch, "binary_content", "image") == [png(1), png(2)] and column(batch, "text_content", "text") == [
        "c"
    ]
    assert column(batch, "score", "metadata") == [0.5, None] or column(batch, "score", "metadata") == [0.5]


def test_bytes_are_read_only_where_they_are_wanted():
    reads: list[tuple[int, int]] = []
    big = png() + bytes(4_000_000)
    landing = MemoryLanding(
        {"s.tar": tar({"0.json": record(texts=["t"], images=["p"]), "0.p.png": big})},
        opener=lambda path, data: CountedFile(data, reads),
    )
    batch = one(landing)
    assert column(batch, "binary_content", "image") == [None]
    assert sum(stop - start for start, stop in reads) < len(big) / 2


# Fields that differ


def test_a_field_that_the_first_sample_lacks_is_kept(tmp_path):
    batch = one(
        tmp_path,
        {
            "s.tar": tar(
                {
                    "0.json": record(texts=["t"]),
                    "1.json": record(texts=["u"], late="x"),
                    "2.json": record(texts=["v"], later=[1]),
                }
            )
        },
    )
    assert column(batch, "late", "metadata") == ["x", None] and column(batch, "later", "metadata") == [None, "[1]"]


@pytest.mark.parametrize("values, stored, kind, is_reported", [
    ([1, 2.5], [1.0, 2.5], pa.float64(), False),
    ([1, "two"], ["1", "two"], pa.large_string(), True),
    ([True, 1], ["true", "1"], pa.large_string(), True),
    ([[1], "x"], ["[1]", "x"], pa.large_string(), True),
    ([2**53 + 1, 0.5], ["9007199254740993", "0.5"], pa.large_string(), True),
    ([2**70, "x"], [str(2**70), "x"], pa.large_string(), True),
    ([{"k": "\ud800"}, None], ['{"k":"\\ud800"}', None], pa.large_string(), False),
])  # fmt: skip
def test_a_field_of_several_types_is_resolved_and_reported(tmp_path, caplog, values, stored, kind, is_reported):
    files = {"s.tar": tar([(f"{at}.json", record(texts=["t"], f=value, always=1)) for at, value in enumerate(values)])}
    batch = one(tmp_path, files)
    assert column(batch, "f", "metadata") == stored and batch.table.schema.field("f").type == kind
    assert [conflict.field for conflict in batch.conflicts] == (["f"] if is_reported else []) and (
        "'f'" in caplog.text
    ) == is_reported


def test_a_column_once_there_stays_in_later_batches_and_its_type_only_widens(tmp_path):
    values = [{"a": 1}, {"b": "x"}, {"a": 2.5}, {"a": "text"}]
    batches = read(
        tmp_path,
        {"s.tar": tar([(f"{at}.json", record(texts=["t"], **fields)) for at, fields in enumerate(values)])},
        max_batch_bytes=1,
    )
    assert [batch.columns[len(SCHEMA) :] for batch in batches] == [["a"], ["a", "b"], ["a", "b"], ["a", "b"]]
    assert [batch.table.schema.field("a").type for batch in batches] == [
        pa.int64(),
        pa.int64(),
        pa.float64(),
        pa.large_string(),
    ]
    assert [len(batch.conflicts) for batch in batches] == [0, 0, 0, 1]


def test_records_with_keys_of_their_own_do_not_make_a_column_each(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(texts=["t"], **{f"key{at}": at for at in range(1500)})})})
    assert len(batch.columns) == len(SCHEMA) + 1000 and batch.conflicts[0].field == "*"
    assert len(json.loads(column(batch, "metadata_json", "metadata")[0])) == 1500


def test_a_record_with_a_reserved_name_keeps_it_in_its_metadata(tmp_path):
    batch = one(
        tmp_path, {"s.tar": tar({"0.json": record(texts=["t"], digest="d", source="web")})}, fields={"source": "origin"}
    )
    assert json.loads(column(batch, "metadata_json", "metadata")[0]) == {"digest": "d", "source": "web"} and column(
        batch, "origin", "metadata"
    ) == ["web"]


def test_frames_of_one_file_are_read_from_it_once(tmp_path):
    reads: list[tuple[int, int]] = []
    whole = picture("TIFF", [Image.fromarray(pixels(number, side=150)) for number in range(8)])
    landing = MemoryLanding(
        {"s.tar": tar({"0.json": record(images=["a.tif"] * 8), "0.a.tif": whole})},
        opener=lambda path, data: CountedFile(data, reads),
    )
    batch = one(landing, materialize="read")
    assert len(set(column(batch, "binary_content", "image"))) == 8
    assert sum(stop - start for start, stop in reads) < 3 * len(whole)


def test_lists_that_are_null_say_nothing(tmp_path):
    batch = one(
        tmp_path,
        {
            "s.tar": tar(
                {
                    "0.json": record(texts=None, images=["0.p.png"], k=1),
                    "1.json": record(texts=["t"], images=None),
                    "0.p.png": png(),
                }
            )
        },
    )
    assert batch.columns[-1] == "k" and not {"texts", "images"} & set(batch.columns)
    assert (batch.count("image"), batch.count("text"), batch.count("metadata")) == (1, 1, 1)


@pytest.mark.parametrize("option", ["per_image_fields", "per_text_fields"])
def test_a_field_for_rows_with_a_reserved_name_is_refused_at_once(option, tmp_path):
    with pytest.raises(ValueError, match="reserved"):
        rows.read_rows([], landing=tmp_path, **{option: ["role"]})


def test_lists_of_parquet_are_spread_over_the_rows_too(tmp_path):
    sink = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                "texts": [["a", None, "b"]],
                "images": [[None, png(1), None]],
                "alt": [["x"]],
                "lang": [["de", "fr"]],
                "both": [["1", "2", "3"]],
            }
        ),
        sink,
    )
    batch = one(
        tmp_path, {"p.parquet": sink.getvalue()}, per_image_fields=["alt", "both"], per_text_fields=["lang", "both"]
    )
    assert (column(batch, "alt"), column(batch, "lang"), column(batch, "both")) == (
        [None, "x", None],
        ["de", None, "fr"],
        ["1", "2", "3"],
    )
