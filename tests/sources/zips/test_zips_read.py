"""Zip archives as shards: what is in them comes out, as from a tar."""

from __future__ import annotations

import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.raw_items import Member
from tests import make
from tests.hostile.memory import rows_of as rows_in_memory
from tests.hostile.seeds import media, seeds, streamed, tar, zipped
from tests.sources.source_builders import SETTINGS, brief, land, mp4, png, rows_of, sha, wav
from tests.sources.zips.zips_made import Made, made

STORED, DEFLATED, BZIP2, LZMA = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
PAIRS = {
    "a/0.png": png(1),
    "a/0.txt": b"a caption",
    "a/1.png": png(2),
    "a/1.json": b'{"caption": "of one", "n": 1}',
    "b/0.wav": wav(),
    "t.txt": make.prose(1).encode(),
}


def equal_but_for_the_place(rows, others):
    """What of the two differs: member and everything else is compared, byte ranges are not."""
    kept = [
        [
            {name: value for name, value in row.items() if name != "source_ref"}
            | {"member": SourceRef.from_json(row["source_ref"]).member}
            for row in some
        ]
        for some in (rows, others)
    ]
    return kept[0] == kept[1]


@pytest.mark.parametrize("method", [STORED, DEFLATED, BZIP2, LZMA])
@pytest.mark.parametrize("name", ["u.tar", "p.tar", "speech.tar"])
def test_a_zip_gives_the_rows_of_a_tar_of_the_same_files(tmp_path, method, name):
    """The file is called the same in both, so that keys are equal; content decides the format."""
    seed = next(seed for seed in seeds() if seed.name == name)
    rows = rows_of(land(tmp_path / "zip" / "in", {"s.data": zipped(seed.members, method)}))
    assert len(rows) > 1 and equal_but_for_the_place(
        rows, rows_of(land(tmp_path / "tar" / "in", {"s.data": tar(seed.members, seed.dialect)}))
    )


_BODIES = st.one_of(
    st.binary(max_size=700),
    st.sampled_from(sorted(media().values())),
    st.text(max_size=60).map(str.encode),
    st.sampled_from([b"{}", b'{"text":"a"}', b"", b"null"]),
)
_NAMES = st.from_regex(r"(d/)?[a-c\u00e9#%]{1,2}\.(txt|png|json|wav|bin|srt|cls|txt\.gz)", fullmatch=True)


@settings(max_examples=60)
@given(st.lists(st.tuples(_NAMES, _BODIES), max_size=7), st.sampled_from([STORED, DEFLATED]))
def test_whatever_lies_in_a_zip_and_in_a_tar_gives_equal_rows(tmp_path_factory, members, method):
    """Repeated names, odd names and broken records included."""
    root = tmp_path_factory.mktemp("pair")
    rows = rows_in_memory(land(root / "zip", {"s.data": zipped(tuple(members), method)}))
    assert equal_but_for_the_place(
        rows, rows_in_memory(land(root / "tar", {"s.data": tar(tuple(members), 1)})) if members else []
    )
    for row in rows:
        if row["digest"] is not None:
            assert sha(sources.fetch(SourceRef.from_json(row["source_ref"]), landing=root / "zip")) == row["digest"]


def test_a_stored_member_has_a_range_that_is_its_bytes_and_a_packed_one_has_none(tmp_path):
    stored, packed = zipped({"a.png": png(1)}, STORED), zipped({"a.png": png(1)}, DEFLATED)
    rows = rows_of(land(tmp_path / "in", {"p.zip": packed, "s.zip": stored}))
    refs = {ref.path: ref for ref in (SourceRef.from_json(row["source_ref"]) for row in rows)}
    at = stored.index(png(1))
    assert refs["s.zip"] == SourceRef("s.zip", "a.png", at, len(png(1))) and refs["p.zip"] == SourceRef(
        "p.zip", "a.png"
    )


def test_the_samples_of_a_zip_are_joined_by_stem(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.zip": zipped(PAIRS)}))
    assert brief(rows) == [
        ("a/0.png", "image", "media", None),
        ("a/0.txt", "text", "caption", None),
        ("a/1.png", "image", "media", None),
        ("a/1.json#/caption", "text", "caption", None),
        ("b/0.wav", "audio", "media", None),
        ("t.txt", "text", "document", None),
    ]
    assert [row["sample_id"] for row in rows[:4]] == ["s.zip/a/0"] * 2 + ["s.zip/a/1"] * 2 and rows[0][
        "sample_text"
    ] == "a caption"


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda data: zipped(PAIRS, before=b"#!/bin/sh\nexit\n" * 9),
        lambda data: data + b"",
        lambda data: zipped(PAIRS, comment=b"PK\5\6 a comment"),
    ],
)
def test_bytes_before_the_archive_and_a_comment_behind_it_change_nothing(tmp_path, wrapped):
    plain = zipped(PAIRS)
    rows = rows_of(land(tmp_path / "a" / "in", {"s.zip": wrapped(plain)}))
    assert equal_but_for_the_place(rows, rows_of(land(tmp_path / "b" / "in", {"s.zip": plain})))


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_offsets_that_do_not_count_the_bytes_before_the_archive_are_made_good(tmp_path, method):
    """As `cat stub archive.zip` leaves them."""
    rows = rows_of(land(tmp_path / "in", {"s.zip": b"MZ" + bytes(998) + zipped(PAIRS, method)}))
    assert [row["error_code"] for row in rows] == [None] * 6


def test_sizes_that_stand_behind_the_members_are_read_from_the_directory(tmp_path):
    rows = rows_of(land(tmp_path / "a" / "in", {"s.zip": streamed(PAIRS)}))
    assert equal_but_for_the_place(rows, rows_of(land(tmp_path / "b" / "in", {"s.zip": zipped(PAIRS)})))


def test_numbers_of_zip64_are_read(tmp_path):
    """A member whose sizes and offset stand in the extra field, and an archive whose directory stands in the long
    record."""
    data, small = make.prose(2).encode(), made(Made(b"0.txt", b"first"))
    directory_at = small.index(b"PK\1\2")
    first = small[:directory_at]
    extra = (
        (1).to_bytes(2, "little")
        + (24).to_bytes(2, "little")
        + len(data).to_bytes(8, "little") * 2
        + len(first).to_bytes(8, "little")
    )
    full = 0xFFFFFFFF
    archive = made(
        Made(b"0.txt", b"first"),
        Made(
            b"1.txt",
            data,
            size=full,
            packed_size=full,
            extra=extra,
            at=full,
            header={"size": len(data), "packed_size": len(data)},
        ),
    )
    start, end = archive.index(b"PK\1\2"), archive.rindex(b"PK\5\6")
    long = (
        b"PK\6\6"
        + (44).to_bytes(8, "little")
        + bytes(12)
        + (2).to_bytes(8, "little") * 2
        + (end - start).to_bytes(8, "little")
        + start.to_bytes(8, "little")
    )
    locator = b"PK\6\7" + bytes(4) + end.to_bytes(8, "little") + (1).to_bytes(4, "little")
    rows = rows_of(
        land(tmp_path / "in", {"s.zip": archive[:end] + long + locator + b"PK\5\6" + b"\xff" * 16 + bytes(2)})
    )
    assert [(row["digest"], row["error_code"]) for row in rows] == [(sha(b"first"), None), (sha(data), None)]


@pytest.mark.parametrize(
    "spelling, flags, extra, name",
    [
        ("gr\u00fcn.txt".encode(), 1 << 11, b"", "gr\u00fcn.txt"),
        ("gr\u00fcn.txt".encode(), 0, b"", "gr\u00fcn.txt"),
        ("gr\u00fcn.txt".encode("cp437"), 0, b"", "gr\u00fcn.txt"),
        (b"gr?n.txt", 0, b"", "gr?n.txt"),
        (b"\xff\xfe.txt", 1 << 11, b"", "\\xff\\xfe.txt"),
    ],
)
def test_names_are_utf_8_where_they_are_and_code_page_437_where_not(tmp_path, spelling, flags, extra, name):
    rows = rows_of(land(tmp_path / "in", {"s.zip": made(Made(spelling, b"words", flags=flags, extra=extra))}))
    assert [(SourceRef.from_json(row["source_ref"]).member, row["status"]) for row in rows] == [(name, "ok")]


def test_a_film_without_pictures_is_sound_in_a_packed_member_too(tmp_path):
    """What a container holds follows from its boxes, which lie anywhere in it."""
    padded = mp4(b"soun") + bytes(200_000)
    rows = rows_of(land(tmp_path / "in", {"s.zip": zipped({"a.mp4": padded, "b.mp4": mp4(b"vide") + bytes(200_000)})}))
    assert [row["modality"] for row in rows] == ["audio", "video"]


def test_folders_are_no_rows_and_an_archive_of_none_is_empty(tmp_path):
    files = {"f.zip": made(Made(b"d/", mode=0o40755), Made(b"d/e/", mode=0o40755)), "n.zip": made(), "z.zip": b""}
    rows = rows_of(land(tmp_path / "in", files))
    assert [(row["sample_id"], row["error_code"]) for row in rows] == [("z.zip/!fault", 1006)]


@pytest.mark.parametrize(
    "name, first",
    [
        ("a.docx", "[Content_Types].xml"),
        ("a", "[Content_Types].xml"),
        ("a.zip", "[Content_Types].xml"),
        ("a", "mimetype"),
        ("a.epub", "mimetype"),
        ("a.jar", "META-INF/MANIFEST.MF"),
        ("b", "META-INF/"),
        ("a.npz", "arr_0.npy"),
        ("a", "arr_0.npy"),
        ("a.pt", "archive/data.pkl"),
        ("weights", "archive/data.pkl"),
        ("a.apk", "x.txt"),
        ("a.xlsx", "x.txt"),
        ("a.whl", "x.py"),
        ("a.jpg", "x.txt"),
        ("a.txt", "x.txt"),
    ],
)
def test_documents_programs_and_weights_are_no_shards(tmp_path, name, first):
    root = land(tmp_path / "in", {name: zipped({first: b"x", "y.txt": b"words"})})
    assert [shard.format for shard in sources.scan(root, settings=SETTINGS)] == ["folder"]
    assert [row["error_code"] for row in rows_of(root)] == [1012]


@pytest.mark.parametrize("name", ["a.zip", "A.ZIP", "a", "a.v2", "a.part1"])
def test_a_plain_archive_is_a_shard_by_its_bytes(tmp_path, name):
    root = land(tmp_path / "in", {name: zipped({"x.txt": b"words"})})
    assert [(shard.format, shard.modalities) for shard in sources.scan(root, settings=SETTINGS)] == [("zip", ("text",))]


def test_archives_in_an_archive_stay_packed(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {
                "s.zip": zipped(
                    {"i.zip": zipped(PAIRS), "t.tar": tar((("a.txt", b"x"),)), "a.txt.gz": b"\x1f\x8b\x08" + bytes(20)}
                )
            },
        )
    )
    assert [row["error_code"] for row in rows] == [1012, 1005, 1003]


def test_records_may_name_images_of_other_samples(tmp_path):
    """What tars have since records and images may lie apart."""
    members = {
        "doc.json": json.dumps({"texts": [None, "of both"], "images": ["p1.png", None]}).encode(),
        "p1.png": png(1),
        "p2.png": png(2),
    }
    rows = rows_of(land(tmp_path / "in", {"s.zip": zipped(members)}))
    assert [(row["sample_id"], row["modality"], row["position"]) for row in rows] == [
        ("s.zip/doc", "image", 0),
        ("s.zip/doc", "text", 1),
        ("s.zip/p2", "image", 0),
    ]


def test_one_member_is_fetched_without_reading_the_others(tmp_path, monkeypatch):
    members = {f"{at:03d}.json": b'{"text": "number %d"}' % at for at in range(50)}
    root = land(tmp_path / "in", {"s.zip": zipped(members)})
    classified, classify_by = [], Member.classify_by
    monkeypatch.setattr(
        Member, "classify_by", lambda member, *rest: classified.append(member.name) or classify_by(member, *rest)
    )
    assert sources.fetch(SourceRef("s.zip", "049.json#/text"), landing=root) == b"number 49"
    assert set(classified) == {"049.json"}


def test_a_range_that_lies_behind_another_member_s_header_is_not_believed(tmp_path):
    """The archive was written anew since: the locator's bytes are another member's now."""
    root = land(tmp_path / "in", {"s.zip": zipped({"a.txt": b"first", "b.txt": b"other"}, STORED)})
    refs = [SourceRef.from_json(row["source_ref"]) for row in rows_of(root)]
    land(root, {"s.zip": zipped({"b.txt": b"other", "a.txt": b"first"}, STORED)})
    assert [sources.fetch(ref, landing=root) for ref in refs] == [b"first", b"other"]


def test_a_zip_of_ten_thousand_members_is_ten_thousand_rows(tmp_path):
    rows = rows_in_memory(
        land(tmp_path / "in", {"s.zip": zipped(tuple((f"{at:05d}.txt", b"%d" % at) for at in range(10_000)), STORED)})
    )
    assert [row["text_content"] for row in rows] == [str(at) for at in range(10_000)]


@pytest.mark.parametrize("size_bytes", [131_072, 131_076, 131_180, 196_611, 524_494])
def test_a_member_whose_last_packed_byte_stands_for_many_is_read_to_its_end(tmp_path, size_bytes):
    """zlib holds bytes back when it has taken all of its input and was asked for fewer."""
    rows = rows_of(land(tmp_path / "in", {"a.zip": zipped({"a.png": png() + bytes(size_bytes - len(png()))})}))
    assert [(row["status"], row["size_bytes"]) for row in rows] == [("ok", size_bytes)]
