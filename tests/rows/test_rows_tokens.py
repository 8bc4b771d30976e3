"""Which image a token of an interleaved record names, and which files describe a sample."""

from __future__ import annotations

import pytest
from rows_media import column, jpeg, one, png, record, tar, tiff

from mmlake import sources
from mmlake.records import SourceRef


def refs(batch):
    return [(ref.member, ref.frame_index) for ref in map(SourceRef.parse, column(batch, "source_ref", "image"))]


def test_a_token_that_names_a_member_of_another_stem_is_that_member(tmp_path):
    fields = {"texts": [None] * 4, "images": ["a.tiff", "a.tiff", "b.tiff", "c/d.png"]}
    batch = one(
        tmp_path,
        {"s.tar": tar({"sample.json": record(**fields), "a.tiff": tiff(2), "b.tiff": tiff(3), "c/d.png": png()})},
    )
    assert refs(batch) == [("a.tiff", 0), ("a.tiff", 1), ("b.tiff", 0), ("c/d.png", None)] and batch.num_samples == 1


def test_an_image_that_lies_before_the_record_which_names_it_is_no_sample_of_its_own(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"p.png": png(1), "q.png": png(2), "z.json": record(images=["p.png"])})})
    assert sorted(refs(batch)) == [("p.png", None), ("q.png", None)] and batch.num_samples == 2


def test_two_records_may_share_an_image_and_one_with_a_record_keeps_its_own(tmp_path):
    members = {
        "1.json": record(images=["logo.png", "2.jpg"]),
        "2.json": record(images=["2.jpg", "logo.png"]),
        "2.jpg": jpeg(),
        "logo.png": png(),
    }
    batch = one(tmp_path, {"s.tar": tar(members)})
    assert [member for member, _ in refs(batch)] == [
        "logo.png",
        "2.jpg",
        "2.jpg",
        "logo.png",
    ] and batch.num_samples == 2


def test_unknown_tokens_stand_for_the_image_that_is_called_like_the_sample(tmp_path):
    settings = sources.SourceSettings(sample_id_field="pdf_name")
    fields = {"pdf_name": "doc.pdf", "texts": ["t", None, None], "images": [None, "page_0_image_15", "page_1_image_22"]}
    batch = one(tmp_path, {"s.tar": tar({"sample.json": record(**fields), "doc.pdf.tiff": tiff(2)})}, settings=settings)
    assert refs(batch) == [("doc.pdf.tiff", 0), ("doc.pdf.tiff", 1)] and column(batch, "position") == [-1, 0, 1, 2]


def test_a_field_of_the_record_may_name_the_image_for_unknown_tokens(tmp_path):
    settings = sources.SourceSettings(default_image_field="primary_image")
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(images=["unknown"], primary_image="other.png"), "other.png": png()})},
        settings=settings,
    )
    assert refs(batch) == [("other.png", None)] and batch.num_samples == 1


@pytest.mark.parametrize("extension", ["meta.json", ".meta.json"])
def test_the_end_of_a_name_may_have_dots(tmp_path, extension):
    settings = sources.SourceSettings(json_extensions=(extension,))
    batch = one(tmp_path, {"s.tar": tar({"0.meta.json": record(texts=["a", "b"])})}, settings=settings)
    assert column(batch, "text_content", "text") == ["a", "b"]


def test_texts_under_a_name_that_captions_have_are_reported_once(tmp_path):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(captions=["a", "b"])})},
        settings=sources.SourceSettings(texts_field="captions"),
    )
    assert column(batch, "text_content", "text") == ["a", "b"]


def test_an_image_that_is_named_and_missing_is_a_row_of_images_where_the_shard_has_some(tmp_path):
    files = {"s.tar": tar({"0.json": record(texts=["t", None], images=[None, "gone"], alt=["x"]), "1.png": png()})}
    batch = one(tmp_path, files, per_image_fields=["alt"])
    assert column(batch, "alt", "image").count("x") == 1 and len(column(batch, "modality", "text")) == 1


def test_frames_of_a_tiff_that_is_damaged_are_counted_too(tmp_path):
    batch = one(tmp_path, {"s.tar": tar({"0.json": record(images=["a", "b"]), "0.tiff": b"TIFF_DATA"})})
    assert refs(batch) == [("0.tiff", 0), ("0.tiff", 1)]


def test_ids_with_dots_that_were_written_as_they_are_stay_apart(tmp_path):
    members = {}
    for number, stem in enumerate(("example.com%2Fa", "example.com%2Fb", "v1.0")):
        members |= {
            f"{stem}.1.png": png(number),
            f"{stem}.json": record(
                sample_id=stem.replace("%2F", "/"), texts=[stem, None], images=[None, f"{stem}.1.png"], url=stem
            ),
        }
    batch = one(
        tmp_path,
        {"t.tar": tar(members)},
        settings=sources.SourceSettings(sample_id_field="sample_id"),
        materialize="read",
    )
    assert batch.num_samples == 3 and column(batch, "url", "metadata") == ["example.com%2Fa", "example.com%2Fb", "v1.0"]
    assert (
        column(batch, "binary_content", "image") == [png(0), png(1), png(2)]
        and column(batch, "position") == [-1, 0, 1] * 3
    )


def test_no_other_image_stands_in_for_a_named_one_of_an_id_with_dots(tmp_path):
    members = {"v1.0.0.png": png(), "v1.0.json": record(sample_id="v1.0", images=["v1.0.0.png", "v1.0.1.jpg"])}
    batch = one(
        tmp_path,
        {"t.tar": tar(members)},
        settings=sources.SourceSettings(sample_id_field="sample_id"),
        materialize="read",
    )
    assert column(batch, "binary_content", "image") == [png(), None]


def test_records_that_describe_one_sample_together_stay_together(tmp_path):
    batch = one(
        tmp_path, {"t.tar": tar({"0.jpg": jpeg(), "0.meta.json": record(a=1), "0.text.json": record(texts=["t"])})}
    )
    assert batch.num_samples == 1


def test_a_listed_member_that_nothing_identifies_is_an_image_that_is_not_known(tmp_path):
    batch = one(
        tmp_path,
        {"t.tar": tar({"0.json": record(texts=["t", None], images=[None, "0.1.bin"]), "0.1.bin": bytes(range(256))})},
    )
    assert column(batch, "modality") == ["text", "image"] and column(batch, "error_code", "image") == [1005]


def test_an_image_that_only_its_name_identifies_has_the_type_of_the_name(tmp_path):
    batch = one(
        tmp_path, {"t.tar": tar({"0.json": record(images=["0.png", "0.tif"]), "0.png": b"png", "0.tif": b"tif"})}
    )
    assert column(batch, "content_type", "image") == ["image/png", "image/tiff"]


@pytest.mark.parametrize("given", [True, False, -1, 1.0, "1", None])
def test_a_frame_index_that_is_no_whole_number_is_counted_instead_and_the_locator_parses(tmp_path, given):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(images=[{"member": "0.tif", "frame_index": given}] * 2), "0.tif": tiff(2)})},
    )
    assert refs(batch) == [("0.tif", 0), ("0.tif", 1)]


@pytest.mark.parametrize("name", ["images/p.png", "./images/p.png", "../shared/p.png"])
def test_a_token_may_be_a_path_from_the_directory_of_its_record(tmp_path, name):
    where = "doc/images/p.png" if "images" in name else "shared/p.png"
    batch = one(tmp_path, {"s.tar": tar({"doc/a.json": record(texts=["t", None], images=[None, name]), where: png(1)})})
    assert refs(batch) == [(where, None)] and batch.num_samples == 1


@pytest.mark.parametrize("name", ["../../p.png", "p.png", "/p.png"])
def test_a_path_that_leads_elsewhere_names_no_image(tmp_path, name):
    batch = one(
        tmp_path,
        {"s.tar": tar({"doc/a.json": record(texts=["t"], images=[{"member": name}]), "doc/images/p.png": png(1)})},
    )
    assert [
        row["error_code"]
        for row in batch.to_arrow().to_pylist()
        if row["sample_id"].endswith("/a") and row["modality"] == "image"
    ] == [1003]
