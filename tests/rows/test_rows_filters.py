"""Filters on interleaved rows: what goes, why, and what becomes of the rest."""

from __future__ import annotations

import builtins
import contextlib
from types import SimpleNamespace

import cv2
import numpy as np
import pandas
import pyarrow as pa
import pytest
from rows_made import JPEG, PNG, batch, drawn, flat_picture, image, layout, meta, text

from mmlake.errors import ContractBroken, MissingExtra, ModelMissing, SchemaMismatch, SettingsError
from mmlake.rows.batch import RowBatch, empty_batch
from mmlake.rows.filter import parse_filter
from mmlake.rows.filters import FILTERS, apply_filters
from mmlake.rows.materialize import Places, iter_materialized
from mmlake.rows.order import cut, filter_rows


def kept(made: RowBatch, *names: str) -> list[tuple[str, int, str]]:
    return layout(apply_filters(made, [parse_filter(name, FILTERS) for name in names])[0])


def reasons(made: RowBatch, *names: str) -> list[str]:
    return apply_filters(made, [parse_filter(name, FILTERS) for name in names])[1].rows["reason"].to_pylist()


def with_qr_code(share: float) -> bytes:
    """A white picture of which a QR code covers that share, its quiet zone left out."""
    code = cv2.QRCodeEncoder.create().encode("an address to be scanned")[2:-2, 2:-2]
    side = round(400 * share**0.5)
    page = np.full((400, 400), 255, np.uint8)
    start = (400 - side) // 2
    page[start : start + side, start : start + side] = cv2.resize(code, (side, side), interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(".png", page)[1].tobytes()


# The mask


def test_positions_are_renumbered_without_gaps_and_in_order() -> None:
    made = batch(meta(), text(0), image(1), text(2), image(3))
    assert layout(filter_rows(made, [True, True, False, True, True])) == [
        ("s", -1, "metadata"),
        ("s", 0, "text"),
        ("s", 1, "text"),
        ("s", 2, "image"),
    ]


@pytest.mark.parametrize("mask", [
    pandas.Series([True, False, True, False], index=[9, 3, 5, 1]),
    pandas.array([True, pandas.NA, True, False], dtype="boolean"), pandas.Series([True, np.nan, True, None]),
    pa.array([True, None, True, False]), [1, float("nan"), 1, None], np.array([1, None, 1, 0], object),
])  # fmt: skip
def test_a_mask_of_any_make_keeps_what_it_marks_and_null_means_no(mask) -> None:
    made = batch(text(0), text(1), text(2), text(3))
    assert filter_rows(made, mask).num_rows == 2
    assert [row for row, _ in iter_materialized(made, mask, Places())] == [0, 2]


def test_order_across_modalities_survives_rows_that_come_grouped() -> None:
    made = batch(text(0, "a"), text(2, "b"), text(4, "c"), image(1), image(3), meta())
    left = filter_rows(made, [False, True, True, True, True, True])
    assert layout(left) == [
        ("s", 1, "text"),
        ("s", 3, "text"),
        ("s", 0, "image"),
        ("s", 2, "image"),
        ("s", -1, "metadata"),
    ]


def test_samples_may_be_mixed_row_by_row() -> None:
    made = batch(text(0, sample="a"), text(0, sample="b"), text(1, sample="a"), text(1, sample="b"))
    assert layout(filter_rows(made, [False, True, True, True])) == [
        ("b", 0, "text"),
        ("a", 0, "text"),
        ("b", 1, "text"),
    ]


def test_a_text_and_a_picture_at_one_position_stay_together() -> None:
    made = batch(text(0), image(0), text(1), image(1), text(2), image(2))
    left = filter_rows(made, [False, False, True, False, True, True])
    assert layout(left) == [("s", 0, "text"), ("s", 1, "text"), ("s", 1, "image")]


def test_a_sample_without_content_loses_its_metadata_row() -> None:
    made = batch(meta("a"), text(0, sample="a"), meta("b"), text(0, sample="b"))
    assert layout(filter_rows(made, [True, False, True, True])) == [("b", -1, "metadata"), ("b", 0, "text")]


def test_a_sample_of_metadata_alone_vanishes() -> None:
    assert layout(filter_rows(batch(meta("a"), meta("b"), text(0, sample="b")), [True, True, True])) == [
        ("b", -1, "metadata"),
        ("b", 0, "text"),
    ]


def test_rows_of_no_sample_are_refused_by_name():
    lone = RowBatch.of(batch(text(0)).to_arrow().drop_columns(["sample_id"]))
    for work in (
        lambda: apply_filters(lone, [FILTERS["image_text_ratio"]]),
        lambda: filter_rows(lone, [True]),
        lambda: list(cut(lone, max_samples=1, max_bytes=1)),
    ):
        with pytest.raises(SchemaMismatch, match="sample_id"):
            work()


def test_an_empty_batch_is_returned_as_it_is() -> None:
    empty = empty_batch()
    assert filter_rows(empty, []) is empty
    assert apply_filters(empty, [FILTERS["aspect_ratio"]])[0] is empty


@pytest.mark.parametrize(
    "mask",
    [
        pa.array([True, None, True]),
        np.array([True, False, True]),
        [True, False, True],
        pa.chunked_array([[True], [False, True]]),
    ],
)
def test_a_mask_may_be_arrow_or_numpy_or_a_list_and_null_means_no(mask) -> None:
    assert layout(filter_rows(batch(text(0), text(1), text(2)), mask)) == [("s", 0, "text"), ("s", 1, "text")]


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ContractBroken, match="2 rows"):
        filter_rows(batch(text(0), text(1)), [True])


def test_rows_are_recognised_by_place_whatever_index_their_data_frame_has() -> None:
    frame = batch(meta(), text(0), image(1), text(2)).to_pandas()
    frame.index = [40, 7, 7, -1]
    left, dropped = apply_filters(RowBatch.of(frame), [parse_filter("min_side=1000:", FILTERS)])
    assert layout(left) == [("s", -1, "metadata"), ("s", 0, "text"), ("s", 1, "text")]
    assert dropped.rows["row"].to_pylist() == [2]


def test_positions_of_two_hundred_thousand_rows_have_no_gaps() -> None:
    num_rows = 200_000
    positions = np.tile(np.arange(-1, 7, dtype=np.int32), num_rows // 8)
    table = pa.table(
        {"sample_id": np.repeat(np.arange(num_rows // 8), 8).astype(str), "position": positions,
        "modality": np.where(positions < 0, "metadata", "text")}
    )  # fmt: skip
    keep = np.arange(num_rows) % 3 != 0
    left = filter_rows(RowBatch.of(table), keep).to_arrow()
    content = left.filter(pa.compute.greater_equal(left["position"], 0))
    sizes = content.group_by("sample_id").aggregate(
        [("position", "max"), ("position", "count"), ("position", "count_distinct")]
    )
    assert sizes["position_count"].equals(sizes["position_count_distinct"])
    assert pa.compute.add(sizes["position_max"], 1).cast(pa.int64()).equals(sizes["position_count"])


# Validity


def test_rows_that_no_sample_has_are_dropped_and_reported() -> None:
    made = batch(meta(), text(0), {**text(1), "modality": "hologram"}, {**meta(), "position": 3}, text(-4))
    assert kept(made, "validity") == [("s", -1, "metadata"), ("s", 0, "text")]
    assert reasons(made, "validity") == [
        "modality=hologram not in [text, image, video, audio, metadata]",
        "position=3 of a metadata row not in [-1, -1]",
        "position=-4 not in [0, inf)",
    ]


def test_without_the_filter_validity_such_rows_stay() -> None:
    made = batch(text(0), {**text(1), "modality": "hologram"})
    assert len(kept(made, "num_words")) == 2


# Pictures


@pytest.mark.parametrize("data", [PNG, JPEG])
def test_pictures_of_any_format_are_measured(data: bytes) -> None:
    assert kept(batch(text(0), image(1, data)), "aspect_ratio") == [("s", 0, "text"), ("s", 1, "image")]
    assert kept(batch(text(0), image(1, data)), "aspect_ratio=3:4") == [("s", 0, "text")]


@pytest.mark.parametrize(
    ("width", "height", "stays"), [(64, 64, True), (128, 64, True), (64, 128, True), (129, 64, False), (64, 129, False)]
)
def test_the_aspect_ratio_is_the_longer_side_over_the_shorter_one(width: int, height: int, stays: bool) -> None:
    assert (("s", 1, "image") in kept(batch(text(0), image(1, drawn(width, height))), "aspect_ratio")) is stays


def test_width_to_height_distinguishes_portraits_from_landscapes() -> None:
    made = batch(image(0, drawn(48, 96)), image(1, drawn(96, 48)))
    assert reasons(made, "width_to_height") == ["width_to_height=0.5 not in [1, 2]"]


def test_a_blurred_picture_is_below_the_bound_and_a_sharp_one_above() -> None:
    made = batch(image(0, flat_picture()), image(1))
    assert reasons(made, "blur") == ["sharpness=0 not in [100, inf)"]


@pytest.mark.parametrize(("share", "stays"), [(0.30, False), (0.0001, True)])
def test_qr_codes_count_by_the_area_that_they_cover(share: float, stays: bool) -> None:
    made = batch(text(0), image(1, with_qr_code(share) if share > 0.01 else PNG))
    _, dropped = apply_filters(made, [FILTERS["qr_code"]])
    assert (dropped.counts == {}) is stays
    if not stays:
        assert dropped.rows["value"][0].as_py() == pytest.approx(share, rel=0.15)


@pytest.mark.parametrize("data", [b"", b"no picture", PNG[:40], PNG[:16] + bytes(8) + PNG[24:]])
def test_a_corrupt_picture_is_dropped_with_a_reason(data: bytes) -> None:
    left, dropped = apply_filters(batch(text(0), image(1, data)), [FILTERS["aspect_ratio"], FILTERS["blur"]])
    assert layout(left) == [("s", 0, "text")]
    assert dropped.counts == {"aspect_ratio": 1}
    assert dropped.rows["reason"][0].as_py()


def test_a_picture_of_zero_height_is_dropped_with_its_height(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow refuses such headers today; another decoder, or another release, may not."""
    monkeypatch.setattr("PIL.Image.open", lambda file, **_: contextlib.nullcontext(SimpleNamespace(size=(5, 0))))
    assert reasons(batch(text(0), image(1)), "aspect_ratio") == ["height_px=0 not in [1, inf)"]


def test_a_picture_too_large_to_decode_is_recognised_by_its_header() -> None:
    import struct
    import zlib

    chunk = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    left, dropped = apply_filters(batch(text(0), image(1, data)), [FILTERS["blur"]])
    assert left.num_rows == 1
    assert dropped.counts == {"blur": 1}


def test_without_the_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real(name, *args, **kwargs)

    monkeypatch.setattr("importlib.import_module", lambda name: absent(name))
    with pytest.raises(MissingExtra, match="PIL"):
        apply_filters(batch(image(0)), [FILTERS["aspect_ratio"]])


def test_a_picture_without_bytes_is_dropped_with_what_is_known() -> None:
    made = batch(text(0), image(1, None, materialize_error="blob gone"))
    assert reasons(made, "aspect_ratio") == ["num_bytes=0 not in [1, inf): blob gone"]


def test_only_pictures_that_earlier_filters_left_are_read() -> None:
    asked = []

    def pictures(made, mask):
        asked.append(np.flatnonzero(mask).tolist())
        return [(row, PNG) for row in asked[-1]]

    made = batch(image(0), image(-7), text(1), meta())
    apply_filters(made, [FILTERS["validity"], FILTERS["aspect_ratio"], FILTERS["blur"]], pictures=pictures)
    assert asked == [[0]]


def test_bytes_that_were_read_for_a_filter_do_not_stay_in_the_batch() -> None:
    made = batch(text(0), image(1, None))
    left, _ = apply_filters(made, [FILTERS["aspect_ratio"]], pictures=lambda batch, mask: [(1, PNG)])
    assert left.to_arrow()["binary_content"].null_count == 2


# Texts and samples


def test_texts_are_measured_by_words() -> None:
    made = batch(text(0, "one two three"), text(1, "one"), text(2, ""))
    assert reasons(made, "num_words=2:") == ["num_words=1 words not in [2, inf)", "num_words=0 words not in [2, inf)"]


def test_the_bounds_are_inside_the_range() -> None:
    made = batch(text(0, "one two"), text(1, "one two three"), text(2, "one two three four"))
    assert reasons(made, "num_words=2:3") == ["num_words=4 words not in [2, 3]"]


def test_garbled_text_is_dropped() -> None:
    assert kept(batch(text(0, "clean words here"), text(1, "\ufffd\ufffd broken \ufffd")), "garbled_fraction") == [
        ("s", 0, "text")
    ]


def test_the_ratio_of_images_to_words_drops_whole_samples() -> None:
    made = batch(
        meta("a"),
        text(0, "four words are here", "a"),
        image(1, sample="a"),
        meta("b"),
        text(0, "one", "b"),
        image(1, sample="b"),
    )
    left, dropped = apply_filters(made, [parse_filter("image_text_ratio=:0.5", FILTERS)])
    assert {sample for sample, _, _ in layout(left)} == {"a"}
    assert dropped.counts == {"image_text_ratio": 3}
    assert set(dropped.rows["reason"].to_pylist()) == {"images_per_word=1 not in (-inf, 0.5]"}


def test_a_ratio_counts_what_earlier_filters_left() -> None:
    made = batch(text(0, "two words"), image(1, flat_picture()), image(2))
    assert kept(made, "blur", "image_text_ratio=:0.5") == [("s", 0, "text"), ("s", 1, "image")]
    assert kept(made, "image_text_ratio=:0.5", "blur") == []


def test_rows_add_up() -> None:
    made = batch(meta("a"), image(0, flat_picture(), "a"), meta("b"), text(0, sample="b"), text(1, "", "b"))
    left, dropped = apply_filters(made, [FILTERS["validity"], FILTERS["blur"], FILTERS["num_words"]])
    assert dropped.counts == {"blur": 1, "num_words": 1, "empty_sample": 1}
    assert left.num_rows + sum(dropped.counts.values()) == made.num_rows == dropped.num_rows


@pytest.mark.parametrize("given", ["nothing", "blur=", "blur=x:y", "blur=5", "blur=7:3", "validity=0:1", "blur=nan:1"])
def test_a_filter_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="filter"):
        parse_filter(given, FILTERS)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_every_filter_runs_on_a_sound_sample_or_says_what_it_needs(name: str) -> None:
    made = batch(meta(), text(0, "A sound sentence with enough plain words in it."), image(1))
    if FILTERS[name].kind == "pair":
        with pytest.raises(ModelMissing, match="needs a model"):
            apply_filters(made, [FILTERS[name]])
    else:
        assert apply_filters(made, [FILTERS[name]])[1].counts == {}


# The model


def test_the_model_is_given_the_texts_of_the_sample_without_blanks(monkeypatch) -> None:
    given: list = []
    model = SimpleNamespace(
        scores=lambda pictures: (
            given.extend(sample_texts for _, sample_texts in pictures)
            or [0.2 if sample_texts else None for _, sample_texts in pictures]
        )
    )
    monkeypatch.setattr("mmlake.rows.filters.Similarity", lambda *_: model)
    monkeypatch.setattr("mmlake.rows.filters.encoder_of", lambda _: "clip")
    made = batch(
        text(0, " padded\n"),
        text(1, ""),
        text(2, " "),
        text(3, "plain"),
        image(4),
        text(0, "of another", sample="t"),
        image(0, sample="mute"),
    )
    left, _ = apply_filters(made, [FILTERS["clip_score"]], executor=SimpleNamespace())
    assert given == [["padded", "plain"], []] and left.num_rows == made.num_rows


@pytest.mark.slow
def test_the_clip_score_is_the_best_cosine_with_a_text_of_the_sample(tmp_path) -> None:
    pytest.importorskip("transformers")
    from mmlake import compute
    from mmlake.compute import Executor
    from mmlake.embed import encode_text_query
    from mmlake.embed.embedding import encode_file_query
    from tests.embed.test_embed_models import saved

    settings, executor = saved("clip", tmp_path), Executor("cpu")
    (tmp_path / "p.png").write_bytes(PNG)
    seen = encode_file_query(tmp_path / "p.png", "image", encoder="clip", executor=executor, settings=settings)
    said = [
        encode_text_query(words, encoder="clip", executor=executor, settings=settings)
        for words in ("a photo of a dog", "a cat")
    ]
    expected = max(float(seen @ one) for one in said)
    made = batch(
        text(0, "a photo of a dog"),
        text(1, "a cat"),
        image(2),
        image(0, sample="mute"),
        image(1, b"broken", sample="mute"),
    )
    _, dropped = apply_filters(made, [parse_filter("clip_score=2:", FILTERS)], models=settings, executor=executor)
    assert dropped.rows["value"].to_pylist() == [pytest.approx(expected, abs=1e-4)]
    assert dropped.rows["row"].to_pylist() == [2]
    compute.forget_models()


# Cutting


def test_a_batch_is_cut_between_samples_only() -> None:
    made = batch(*(row for number in range(6) for row in (meta(str(number)), image(0, PNG, str(number)))))
    parts = list(cut(made, max_samples=100, max_bytes=2 * len(PNG)))
    assert [sorted({sample for sample, _, _ in layout(part)}) for part in parts] == [["0", "1"], ["2", "3"], ["4", "5"]]


def test_a_sample_larger_than_the_limit_is_a_part_of_its_own() -> None:
    made = batch(image(0, sample="a"), image(1, sample="a"), image(0, sample="b"))
    assert [part.num_rows for part in cut(made, max_samples=100, max_bytes=10)] == [2, 1]


def test_rows_of_a_sample_that_lie_apart_are_cut_together() -> None:
    made = batch(image(0, sample="a"), image(0, sample="b"), image(1, sample="a"), image(1, sample="b"))
    assert [layout(part) for part in cut(made, max_samples=1, max_bytes=1 << 30)] == [
        [("a", 0, "image"), ("a", 1, "image")],
        [("b", 0, "image"), ("b", 1, "image")],
    ]
