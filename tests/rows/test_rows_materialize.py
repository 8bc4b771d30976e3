"""Bytes of rows by their locators."""

from __future__ import annotations

import io
import math

import pandas
import pyarrow as pa
import pytest
from PIL import Image
from rows_media import (
    SETTINGS,
    CountedFile,
    MemoryLanding,
    batch_of,
    column,
    flat,
    frames_of,
    gz,
    land,
    one,
    picture,
    pixels,
    png,
    record,
    shade,
    tar,
    tiff,
)

from mmlake import rows, sources
from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.landing import LocalLanding
from mmlake.preprocess import PreprocessSettings
from mmlake.records import SourceRef, digest_of
from mmlake.rows import Places, RowBatch, materialize, pick_frame
from mmlake.store import BlobStore

TAR = tar({"0.png": png(0), "1.png": png(1), "2.png": png(2)})
OFFSETS = {name: TAR.index(data) for name, data in (("0.png", png(0)), ("1.png", png(1)), ("2.png", png(2)))}


def ranged(name: str, path: str = "s.tar") -> SourceRef:
    return SourceRef(path, name, OFFSETS[name], len(png(int(name[0]))))


def images(*refs: SourceRef | str | None, **cells) -> RowBatch:
    """A batch of images with these locators."""
    return batch_of([{"source_ref": ref.to_json() if isinstance(ref, SourceRef) else ref, **cells} for ref in refs])


def filled(batch: RowBatch, landing, **options) -> tuple[list[bytes | None], list[str | None]]:
    """(bytes, errors) of the batch once its bytes were fetched."""
    done = materialize(batch, Places(landing=landing), **options)
    return column(done, "binary_content"), column(done, "materialize_error")


# Ways


@pytest.mark.parametrize("value, way", [
    (None, "missing"), (math.nan, "missing"), (pandas.NA, "missing"), ("", "missing"), ("{}", "missing"),
    (SourceRef("", "m", 1, 2).to_json(), "missing"),
    (SourceRef("a.jpg").to_json(), "direct"), (SourceRef("a.tif", frame_index=1).to_json(), "direct"),
    (SourceRef("a.tar", "m").to_json(), "member"), (SourceRef("a.tar", "m", 512, 9).to_json(), "range"),
    (SourceRef("a.bin", None, 0, 9).to_json(), "range"),
    (SourceRef("a.tar", "m", 512, 0).to_json(), "member"), (SourceRef("a.tar", "m", 512, None).to_json(), "member"),
])  # fmt: skip
def test_the_way_to_the_bytes_is_recognised_by_the_locator(value, way):
    assert rows.ways([value]) == [way]


def test_rows_of_one_batch_go_different_ways():
    assert rows.ways(
        [SourceRef("a").to_json(), None, SourceRef("a", "m").to_json(), SourceRef("a", "m", 1, 2).to_json()]
    ) == ["direct", "missing", "member", "range"]


@pytest.mark.parametrize(
    "ref, data", [(SourceRef("a.png"), png(5)), (SourceRef("s.tar", "1.png"), png(1)), (ranged("1.png"), png(1))]
)
def test_each_way_leads_to_the_bytes(ref, data):
    assert filled(images(ref), MemoryLanding({"a.png": png(5), "s.tar": TAR})) == ([data], [None])


def test_a_batch_of_every_way_is_filled():
    refs = (SourceRef("a.png"), ranged("2.png"), SourceRef("s.tar", "0.png"), ranged("0.png"))
    assert filled(images(*refs), MemoryLanding({"a.png": png(5), "s.tar": TAR})) == (
        [png(5), png(2), png(0), png(0)],
        [None] * 4,
    )


# Ranges


def counted(files: dict[str, bytes]) -> tuple[MemoryLanding, list[tuple[int, int]]]:
    reads: list[tuple[int, int]] = []
    return MemoryLanding(files, opener=lambda path, data: CountedFile(data, reads)), reads


def test_equal_ranges_are_read_once_and_shared():
    landing, reads = counted({"s.tar": TAR})
    data, _ = filled(images(*[ranged("1.png")] * 5), landing)
    assert data == [png(1)] * 5 and landing.opened == ["s.tar"]
    assert sum(start <= OFFSETS["1.png"] < stop for start, stop in reads) - (OFFSETS["1.png"] < 4096) == 1
    found = dict(sources.fetch_many([ranged("1.png"), ranged("1.png")], landing=landing))
    assert found[0] is found[1]


def test_ranges_that_lie_close_are_one_read():
    landing, reads = counted({"s.tar": TAR})
    data, _ = filled(images(ranged("2.png"), ranged("0.png"), ranged("1.png")), landing)
    assert data == [png(2), png(0), png(1)] and len(reads) == 2  # the file's head, then all three


def test_ranges_that_lie_far_apart_are_not_joined():
    far = tar([("a.png", png(1)), ("big.bin", bytes(1_000_000)), ("b.png", png(2))])
    landing, reads = counted({"s.tar": far})
    refs = [
        SourceRef("s.tar", name, far.index(data), len(data)) for name, data in (("a.png", png(1)), ("b.png", png(2)))
    ]
    assert filled(images(*refs), landing)[0] == [png(1), png(2)]
    assert sum(stop - start for start, stop in reads) < 100_000


class _Odd(io.BytesIO):
    """A file whose reads beyond its head give what is asked of it here."""

    def __init__(self, data: bytes, answer) -> None:
        super().__init__(data)
        self._answer = answer

    def read(self, size: int | None = -1):
        return super().read(size) if self.tell() == 0 else self._answer(super().read(size))


def _refuse(data: bytes) -> bytes:
    raise RuntimeError("a plugin broke")


@pytest.mark.parametrize("answer, data, error", [
    (_refuse, None, "reading bytes 4096 to 4105 failed (RuntimeError)"),
    (lambda data: None, None, "reading bytes 4096 to 4105 gave no answer"),
    (lambda data: b"", None, "bytes 4096 to 4105 are wanted, none are there"),
    (lambda data: data[:4], None, "bytes 4096 to 4105 are wanted, 4 are there"),
    (bytearray, b"123456789", None),
])  # fmt: skip
def test_each_answer_to_a_range_is_distinguished(answer, data, error):
    landing = MemoryLanding({"a.bin": bytes(4096) + b"123456789"}, opener=lambda path, held: _Odd(held, answer))
    assert filled(images(SourceRef("a.bin", None, 4096, 9)), landing) == ([data], [error])


def test_a_range_that_cannot_be_read_does_not_cost_its_neighbours():
    broken = OFFSETS["1.png"]

    def refuse_one(path: str, data: bytes) -> io.BytesIO:
        class File(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if size != sniff.HEAD_BYTES and self.tell() <= broken < self.tell() + (size or 0):
                    raise OSError("a bad block")
                return super().read(size)

        return File(data)

    data, errors = filled(
        images(ranged("0.png"), ranged("1.png"), ranged("2.png")), MemoryLanding({"s.tar": TAR}, opener=refuse_one)
    )
    assert data == [png(0), None, png(2)] and "OSError" in errors[1]


# Errors


def test_what_is_missing_is_the_error_of_its_row():
    refs = (
        SourceRef("s.tar", "9.png"),
        SourceRef("gone.tar", "0.png"),
        SourceRef("gone.png"),
        ranged("0.png"),
        None,
        "not json",
        '{"path":"s.tar","v":9}',
    )
    data, errors = filled(images(*refs), MemoryLanding({"s.tar": TAR}))
    assert data == [None] * 3 + [png(0)] + [None] * 3
    assert errors == [
        "s.tar no longer has the member '9.png'", "the file is missing", "the file is missing", None,
        "the row has neither a locator nor a digest that the store holds",
        *["the cell of source_ref is no locator that this release reads"] * 2,
    ]  # fmt: skip


def test_a_path_that_leaves_the_landing_zone_is_the_error_of_its_row(tmp_path):
    land(tmp_path, {"in/a.png": png(), "secret.png": png(9)})
    data, errors = filled(
        images(SourceRef("../secret.png"), SourceRef("/etc/passwd"), SourceRef("a.png")), tmp_path / "in"
    )
    assert data == [None, None, png()] and all(errors[:2]) and errors[2] is None


@pytest.mark.parametrize("error", [OSError, RuntimeError, KeyError, UnreadableItem])
def test_whatever_a_landing_zone_raises_is_the_error_of_its_rows(error):
    def opener(path: str, data: bytes):
        if path == "bad.png":
            raise error(1001, "it broke") if error is UnreadableItem else error("it broke")
        return io.BytesIO(data)

    data, errors = filled(
        images(SourceRef("bad.png"), SourceRef("good.png")),
        MemoryLanding({"bad.png": png(), "good.png": png(1)}, opener=opener),
    )
    assert data == [None, png(1)] and errors[0] and errors[1] is None


def test_a_file_without_bytes_is_an_error():
    assert filled(images(SourceRef("a.png")), MemoryLanding({"a.png": b""})) == (
        [None],
        ["size_bytes=0 not in [1, inf)"],
    )


# Landing zones


def test_each_landing_zone_is_asked_once(tmp_path, monkeypatch):
    calls = []
    real = sources.fetch_many
    monkeypatch.setattr(sources, "fetch_many", lambda refs, **options: calls.append(len(refs)) or real(refs, **options))
    land(tmp_path, {"a.png": png(1), "s.tar": TAR})
    batch = images(
        SourceRef("a.png"),
        SourceRef("memory://zone/b.png"),
        ranged("2.png"),
        SourceRef("memory://zone/s.tar", "0.png"),
        SourceRef("other://x/c.png"),
    )
    done = materialize(
        batch,
        Places(
            landing=LocalLanding(tmp_path),
            others={"memory://zone/": MemoryLanding({"b.png": png(2), "s.tar": TAR}), "other://x/": "other://x"},
        ),
    )
    assert column(done, "binary_content") == [png(1), png(2), png(2), png(0), None]
    assert column(done, "materialize_error")[4] == "no kind of landing zone opens the address of 'other://x/c.png'"
    assert calls == [2, 2]


def test_an_address_in_a_locator_opens_nothing_that_nobody_named():
    done = materialize(images(SourceRef("s3://bucket/a.png")), Places())
    assert column(done, "materialize_error") == ["no landing zone was named for the path 's3://bucket/a.png'"]


# Frames


@pytest.mark.parametrize(
    "ref",
    [
        SourceRef("a.tif"),
        SourceRef("s.tar", "a.tif"),
        SourceRef("s.tar", "a.tif", 512, len(tiff(3))),
        SourceRef("s.tgz", "a.tif"),
    ],
)
def test_a_frame_is_picked_on_every_way(ref):
    held = tar({"a.tif": tiff(3)})
    landing = MemoryLanding({"a.tif": tiff(3), "s.tar": held, "s.tgz": gz(held)})
    data, errors = filled(
        images(*[SourceRef(ref.path, ref.member, ref.byte_offset, ref.byte_size, index) for index in (2, 0, 7)]),
        landing,
    )
    assert [Image.open(io.BytesIO(each)).n_frames for each in data] == [1, 1, 3] and data[2] == tiff(3)
    assert (pixels(2) == Image.open(io.BytesIO(data[0]))).all() and (pixels(0) == Image.open(io.BytesIO(data[1]))).all()
    assert errors == [None, None, "frame_index=7 not in [0, 2]"]


def test_a_frame_is_picked_from_a_blob_too(tmp_path):
    store = BlobStore(tmp_path)
    digest = store.put(tiff(2))
    done = materialize(images(SourceRef("gone.tif", frame_index=1), digest=digest), Places(store=store))
    assert (pixels(1) == Image.open(io.BytesIO(column(done, "binary_content")[0]))).all()


@pytest.mark.parametrize("kind, options", [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})])
def test_a_frame_of_an_animation_becomes_a_still_png(kind, options):
    whole = flat(kind, [10, 90, 170, 250], **options)
    for index, expected in ((3, 250), (0, 10), (2, 170)):
        data = pick_frame(whole, index)
        assert (
            Image.open(io.BytesIO(data)).format == "PNG" and getattr(Image.open(io.BytesIO(data)), "n_frames", 1) == 1
        )
        assert abs(shade(data) - expected) <= 2
    with pytest.raises(UnreadableItem, match=r"frame_index=4 not in \[0, 3\]"):
        pick_frame(whole, 4)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "PPM", "TGA"])
@pytest.mark.parametrize("index", [0, 3])
def test_what_has_no_frames_stays_as_it_is(kind, index):
    data = picture(kind, frames_of(1))
    assert pick_frame(data, index) == data


@pytest.mark.parametrize("data", [b"no picture at all", b"RIFF....WAVE", bytes(100)])
def test_a_frame_of_what_is_no_picture_is_an_error_next_to_the_bytes(data):
    found, errors = filled(
        images(SourceRef("x.tif", frame_index=0), SourceRef("x.tif")), MemoryLanding({"x.tif": data})
    )
    assert found == [data, data] and "frame_index=0" in errors[0] and errors[1] is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "tiff_lzw"},
        {"compression": "tiff_deflate"},
        {"compression": "packbits"},
        {"compression": "jpeg"},
        {"big_tiff": True},
    ],
)
@pytest.mark.parametrize("channels", [3, 4])
def test_a_page_of_a_tiff_keeps_its_exact_pixels(options, channels):
    whole = tiff_of([pixels(seed, channels=channels) for seed in range(3)], **options)
    source = Image.open(io.BytesIO(whole))
    for index in range(3):
        source.seek(index)
        page = Image.open(io.BytesIO(pick_frame(whole, index)))
        assert (page.n_frames, page.mode, page.size) == (
            1,
            source.mode,
            source.size,
        ) and page.tobytes() == source.tobytes()
        assert page.tag_v2[259] == source.tag_v2[259]  # the compression: nothing was encoded anew


def test_a_page_of_sixteen_bits_keeps_them():
    deep = pixels(1)[:, :, 0].astype("uint16") * 257 + 3
    whole = tiff_of([deep, deep + 1])
    assert (deep + 1 == Image.open(io.BytesIO(pick_frame(whole, 1)))).all()


def tiff_of(frames, **options) -> bytes:
    sink = io.BytesIO()
    first, *more = [Image.fromarray(frame) for frame in frames]
    first.save(sink, format="TIFF", save_all=True, append_images=more, **options)
    return sink.getvalue()


@pytest.mark.parametrize("cut", [4, 8, 100, -10, -400])
def test_a_cut_picture_gives_no_frame(cut):
    whole = tiff(3)
    with pytest.raises(UnreadableItem):
        pick_frame(whole[:cut], 2)


@pytest.mark.parametrize(
    "data",
    [
        b"II*\0" + bytes(20),
        b"II*\0\xff\xff\xff\xff",
        b"MM\0*" + b"\0\0\0\x08" * 40,
        b"GIF89a" + b"\xff" * 40,
        b"RIFF\x10\0\0\0WEBPVP8X" + bytes(30),
    ],
)
def test_damaged_pictures_give_no_frame_and_no_crash(data):
    with pytest.raises(UnreadableItem) as raised:
        pick_frame(data, 1)
    assert raised.value.code in (1003, 3001, 3002, 3004)


def test_a_frame_over_the_pixel_budget_is_refused():
    small = PreprocessSettings(max_pixels=100)
    for whole in (tiff(2), flat("GIF", [10, 20])):
        with pytest.raises(UnreadableItem, match=r"num_pixels=\d+ .*not in \[1, (100|25)\]"):
            pick_frame(whole, 1, settings=small)


def test_strips_that_overlap_do_not_blow_a_page_up():
    whole = bytearray(tiff(2))
    source = Image.open(io.BytesIO(bytes(whole)))
    size = source.tag_v2[279][0]
    at = bytes(whole).index(size.to_bytes(4, "little"))
    whole[at : at + 4] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(UnreadableItem):
        pick_frame(bytes(whole), 0)


def test_frames_that_follow_one_another_fail_alone():
    whole = tiff(3)
    done = materialize(
        images(*[SourceRef("a.tif", frame_index=index) for index in (0, 9, 1)]),
        Places(landing=MemoryLanding({"a.tif": whole})),
    )
    assert [error is None for error in column(done, "materialize_error")] == [True, False, True]


# Which rows


def test_without_rows_or_pictures_nothing_happens():
    places = Places(landing=MemoryLanding({}))
    for batch in (
        rows.empty_batch(),
        batch_of(
            [{"modality": "text", "source_ref": SourceRef("gone").to_json()}, {"modality": "metadata", "position": -1}]
        ),
    ):
        assert materialize(batch, places) is batch


def test_only_the_wanted_types_are_fetched():
    batch = batch_of(
        [
            {"source_ref": SourceRef(name).to_json(), "content_type": kind}
            for name, kind in (("a", "image/png"), ("b", "image/jpeg"), ("c", "audio/wav"), ("d", None))
        ]
    )
    landing = MemoryLanding({name: name.encode() for name in "abcd"})
    assert filled(batch, landing, content_types=["image/png"])[0] == [b"a", None, None, None]
    assert filled(batch, landing, content_types=["image/*"])[0] == [b"a", b"b", None, None]
    assert filled(batch, landing)[0] == [b"a", b"b", b"c", b"d"]
    written = images(SourceRef("a"), content_type="IMAGE/PNG; charset=binary")
    assert (
        filled(written, landing, content_types=["image/png"])[0]
        == filled(written, landing, content_types=["image/*"])[0]
        == [b"a"]
    )


def test_bytes_that_are_there_stay_unless_they_are_to_be_fetched_anew():
    batch = images(SourceRef("a"), binary_content=b"old", materialize_error="before")
    landing = MemoryLanding({"a": b"new"})
    assert filled(batch, landing) == ([b"old"], ["before"])
    assert filled(batch, landing, only_missing=False) == ([b"new"], [None])


def test_an_error_of_before_goes_once_the_bytes_are_there():
    assert filled(images(SourceRef("a"), materialize_error="before"), MemoryLanding({"a": b"new"})) == (
        [b"new"],
        [None],
    )


def test_rows_that_their_source_found_unreadable_stay_so():
    batch = images(
        SourceRef("a"), status="unreadable", binary_content=None, materialize_error="the member is a symbolic link"
    )
    assert filled(batch, MemoryLanding({"a": b"x"})) == ([None], ["the member is a symbolic link"])


def test_columns_for_bytes_and_errors_are_made_where_they_are_missing():
    batch = images(SourceRef("a"), SourceRef("b"))
    assert not {"binary_content", "materialize_error"} & set(batch.columns)
    done = materialize(batch, Places(landing=MemoryLanding({"a": b"x"})))
    assert column(done, "binary_content") == [b"x", None] and column(done, "materialize_error") == [
        None,
        "the file is missing",
    ]
    assert done.table.schema.field("binary_content").type == pa.large_binary()


# Blobs


def test_a_digest_leads_to_the_blob_and_spares_the_source(tmp_path):
    store, landing = BlobStore(tmp_path), MemoryLanding({"a.png": png()})
    done = materialize(images(SourceRef("a.png"), digest=store.put(png())), Places(store=store, landing=landing))
    assert column(done, "binary_content") == [png()] and landing.opened == []


def test_a_blob_that_is_gone_or_broken_is_fetched_from_its_source(tmp_path):
    store, digest = BlobStore(tmp_path), digest_of(png())
    done = materialize(
        images(SourceRef("a.png"), digest=digest), Places(store=store, landing=MemoryLanding({"a.png": png()}))
    )
    assert column(done, "binary_content") == [png()]


def test_bytes_that_do_not_hash_to_the_digest_of_their_row_are_an_error():
    data, errors = filled(images(SourceRef("a.png"), digest=digest_of(png(1))), MemoryLanding({"a.png": png(2)}))
    assert data == [None] and digest_of(png(2)) in errors[0] and digest_of(png(1)) in errors[0]


def test_every_row_of_a_lake_is_filled_from_its_store(tmp_path):
    store = BlobStore(tmp_path / "store")
    land(
        tmp_path / "in",
        {"s.tar": tar({"0.json": record(texts=["t"], images=["a.tif", "a.tif"]), "0.a.tif": tiff(2)}), "p.png": png()},
    )
    tables = [
        sources.ingest(shard, "image", landing=tmp_path / "in", store=store, settings=SETTINGS)
        for shard in sources.scan(tmp_path / "in", settings=SETTINGS)
    ]
    done = materialize(RowBatch.of(pa.concat_tables(tables)), Places(store=store))
    assert sorted(
        Image.open(io.BytesIO(data)).n_frames if data[:2] == b"II" else 0 for data in column(done, "binary_content")
    ) == [0, 1, 1]


# One after the other


def test_only_rows_under_the_mask_are_touched():
    landing = MemoryLanding({name: name.encode() for name in "abcd"})
    batch = images(*[SourceRef(name) for name in "abcd"])
    assert dict(rows.iter_materialized(batch, [False, True, False, True], Places(landing=landing))) == {
        1: b"b",
        3: b"d",
    }
    assert sorted(landing.opened) == ["b", "d"]


def test_an_empty_mask_yields_nothing():
    landing = MemoryLanding({"a": b"x"})
    assert (
        list(rows.iter_materialized(images(SourceRef("a")), pa.array([False]), Places(landing=landing))) == []
        and landing.opened == []
    )


def test_the_labels_of_a_data_frame_come_back():
    frame = images(SourceRef("a"), SourceRef("b"), SourceRef("gone")).to_pandas().set_index(pandas.Index([30, 10, 20]))
    assert dict(
        rows.iter_materialized(frame, [True, True, True], Places(landing=MemoryLanding({"a": b"1", "b": b"2"})))
    ) == {30: b"1", 10: b"2", 20: None}


def test_what_is_no_bytes_counts_as_none():
    frame = pandas.DataFrame(
        {
            "sample_id": ["s"] * 3,
            "position": [0, 1, 2],
            "modality": ["image"] * 3,
            "binary_content": [b"x", 7, bytearray(b"y")],
        }
    )
    assert dict(rows.iter_materialized(frame, [True] * 3, Places())) == {0: b"x", 1: None, 2: b"y"}
    # A column of texts alone has a type of its own in pandas 3, which Arrow would take for bytes.
    texts = pandas.DataFrame(
        {
            "sample_id": ["s"] * 2,
            "position": [0, 1],
            "modality": ["image"] * 2,
            "binary_content": ["not bytes", "either"],
        }
    )
    assert dict(rows.iter_materialized(texts, [True] * 2, Places())) == {0: None, 1: None}


def test_a_file_is_opened_when_its_row_is_asked_for():
    landing = MemoryLanding({f"{at}": b"%d" % at for at in range(20)})
    seen = rows.iter_materialized(
        images(*[SourceRef(f"{at}") for at in range(20)]), [True] * 20, Places(landing=landing)
    )
    next(seen)
    assert len(landing.opened) == 1 and len(dict(seen)) == 19


def test_members_of_a_compressed_tar_are_one_pass_for_all_rows_under_the_mask():
    landing = MemoryLanding({"s.tgz": gz(tar([(f"{at}.png", png(at)) for at in range(100)]))})
    seen = dict(
        rows.iter_materialized(
            images(*[SourceRef("s.tgz", f"{at}.png") for at in range(100)]), [True] * 100, Places(landing=landing)
        )
    )
    assert len(seen) == 100 and seen[99] == png(99) and len(landing.opened) <= 4


# Again from the source


def test_many_members_of_a_compressed_tar_are_read_in_one_pass():
    landing = MemoryLanding({"s.tgz": gz(tar([(f"{at}.png", png(at)) for at in range(30)]))})
    refs = [SourceRef("s.tgz", f"{at}.png") for at in reversed(range(30))]
    found = dict(sources.fetch_many(refs, landing=landing))
    assert [found[at] for at in range(30)] == [png(at) for at in reversed(range(30))] and len(landing.opened) <= 4


def test_fetching_says_what_each_locator_lacks():
    refs = [SourceRef("s.tar", "9.png"), SourceRef("gone"), ranged("0.png"), SourceRef("s.tar", None, 5, 0)]
    found = dict(sources.fetch_many(refs, landing=MemoryLanding({"s.tar": TAR})))
    assert (
        found[2] == png(0)
        and [found[at].code for at in (0, 1, 3)] == [1001, 1001, 1003]
        and isinstance(found[0], Fault)
    )


def test_a_range_whose_file_was_replaced_is_found_by_its_name():
    moved = tar({"new.bin": bytes(700), "0.png": png(0), "1.png": png(1)})
    assert sources.fetch(ranged("1.png"), landing=MemoryLanding({"s.tar": moved})) == png(1)


def test_long_and_wide_names_keep_their_ranges(tmp_path):
    import tarfile

    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        names = ["d" * 150 + "/0.png", "größe/0.png"]
        held = tar({name: png(at) for at, name in enumerate(names)}, format=form)
        landing, reads = counted({"s.tar": held})
        batch = one(landing)
        assert all(SourceRef.parse(value).byte_offset for value in column(batch, "source_ref"))
        reads.clear()
        landing.opened.clear()
        assert filled(batch, landing)[0] == [png(0), png(1)] and landing.opened == ["s.tar"]
