"""WebDataset shards: grouping, locators, and that no damage loses a row silently."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from source_builders import SETTINGS, brief, gz, jsonl, land, mp4, png, rows_of, sha, tar, wav, zst

from mmlake import sources
from mmlake.records import SourceRef


@pytest.mark.parametrize("pack", [lambda data: data, gz, zst], ids=["plain", "gzip", "zstd"])
def test_an_image_with_its_text_is_one_sample_with_a_caption(tmp_path, pack):
    land(tmp_path / "in", {"s.tar": pack(tar({"0.png": png(1), "0.txt": b"a cat", "0.cls": b"7\n"}))})
    image, text = rows_of(tmp_path / "in")
    assert (image["modality"], image["sample_text"], image["digest"]) == ("image", "a cat", sha(png(1)))
    assert (text["role"], text["text_content"], text["position"]) == ("caption", "a cat", 1)
    assert image["sample_id"] == text["sample_id"] == "s.tar/0"
    assert json.loads(image["metadata_json"]) == {"cls": "7"}


@pytest.mark.parametrize("mark", [0x50, 0x5D, 0x5F])
def test_frames_to_pass_over_before_and_between_the_data_are_passed_over(tmp_path, mark):
    # as pzstd writes them
    data, frame = tar({"0.png": png(1), "0.txt": b"a cat"}), bytes([mark]) + b"\x2a\x4d\x18\4\0\0\0abcd"
    land(
        tmp_path / "in",
        {
            "s.tar.zst": frame + zst(data[:700]) + frame + zst(data[700:]),
            "t.jsonl.zst": frame + zst(jsonl({"text": "x"})),
            "d/u.png.zst": frame + zst(png(2)),
        },
    )
    assert sorted(row["digest"] for row in rows_of(tmp_path / "in")) == sorted(
        [sha(png(1)), sha(b"a cat"), sha(b"x"), sha(png(2))]
    )


def test_only_plain_tars_give_byte_ranges(tmp_path):
    data = tar({"0.png": png(1), "1.txt.gz": gz(b"packed")})
    root = land(tmp_path / "in", {"a.tar": data, "b.tar.gz": gz(data)})
    refs = [SourceRef.from_json(row["source_ref"]) for row in rows_of(root)]
    assert data[refs[0].byte_offset :][: refs[0].byte_size] == png(1)
    assert [ref.byte_offset is None for ref in refs] == [False, True, True, True]


def test_a_text_next_to_sound_is_a_transcript_and_one_alone_a_document(tmp_path):
    members = {
        "a.wav": wav(),
        "a.txt": b"hello",
        "b.txt": b"alone",
        "c.mp4": mp4(b"vide", b"soun"),
        "c.srt": b"1\n00:00:01,000 --> 00:00:02,000\nhi\n",
    }
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar(members)}))
    assert [row["role"] for row in rows] == ["media", "transcript", "document", "media", "transcript"]
    assert rows[3]["sample_text"].startswith("1\n00:00:01,000") and rows[4]["content_type"] == "application/x-subrip"


def test_one_stem_in_two_folders_is_two_samples(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"s.tar": tar({"a/000.png": png(1), "b/000.png": png(2), "a/000.txt": b"first"})})
    )
    assert [row["sample_id"] for row in rows] == ["s.tar/a/000", "s.tar/a/000", "s.tar/b/000"]
    assert rows[0]["sample_text"] == "first" and rows[2]["sample_text"] is None


@pytest.mark.parametrize("pack", [lambda data: data, gz], ids=["plain", "gzip"])
def test_members_of_one_name_are_kept_apart(tmp_path, pack):
    rows = rows_of(
        land(tmp_path / "in", {"s.tar": pack(tar([("0.png", png(1)), ("0.png", png(2)), ("0.png#dup=1", png(3))]))})
    )
    assert [row["digest"] for row in rows[:2]] == [sha(png(1)), sha(png(2))]
    assert [json.loads(row["metadata_json"] or "{}").get("duplicate_member") for row in rows] == [None, True, None]


def test_json_of_a_sample_is_its_metadata_and_its_caption_a_row(tmp_path):
    record = {"caption": "two dogs", "license": "CC BY 4.0", "score": 0.5, "nested": {"z": 1, "a": [2]}}
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.json": json.dumps(record).encode(), "0.png": png()})}))
    assert brief(rows) == [("0.json#/caption", "text", "caption", None), ("0.png", "image", "media", None)]
    assert {row["metadata_json"] for row in rows} == {'{"license":"CC BY 4.0","nested":{"a":[2],"z":1},"score":0.5}'}
    assert {row["licence"] for row in rows} == {"CC-BY-4.0"} and rows[1]["sample_text"] == "two dogs"


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"",
        b"\xff\xfe{",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":' * 5000,
        b'{"a":' * 101 + b"1" + b"}" * 101,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_a_bad_json_member_is_a_row_and_leaves_its_sample_alone(tmp_path, bad):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.json": bad, "0.png": png(), "1.png": png(1)})}))
    assert [row["status"] for row in rows] == ["unreadable", "ok", "ok"]
    assert rows[0]["error_code"] in (1003, 1004) and rows[0]["digest"] == sha(bad) and rows[0]["modality"] == "image"


def test_a_sample_of_metadata_alone_is_reported(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.json": b'{"url":"x"}', "0.cls": b"3", "1.png": png()})}))
    assert brief(rows) == [
        ("0.json", "image", "media", 1003),
        ("0.cls", "image", "media", 1003),
        ("1.png", "image", "media", None),
    ]


def test_interleaved_lists_keep_their_positions(tmp_path):
    record = {"texts": ["one", None, {"k": 1}, None], "images": [None, "img2", None, "unknown"]}
    members = {"0.json": json.dumps(record).encode(), "0.img1.png": png(1), "0.img2.png": png(2), "0.img3.png": png(3)}
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar(members)}))
    assert [(row["position"], row["modality"]) for row in rows] == [
        (0, "text"),
        (1, "image"),
        (2, "text"),
        (3, "image"),
        (4, "image"),
    ]
    assert [row["digest"] for row in rows[1:]] == [sha(png(2)), sha(b'{"k":1}'), sha(png(1)), sha(png(3))]
    assert rows[0]["metadata_json"] is None and rows[1]["sample_text"] is None


def test_frames_of_a_tiff_are_counted_per_file(tmp_path):
    tiff = b"II*\0" + bytes(20)
    record = {"images": ["a.tif", "a.tif", "b.tif", {"member": "b.tif", "frame_index": 7}]}
    rows = rows_of(
        land(
            tmp_path / "in",
            {"s.tar": tar({"0.json": json.dumps(record).encode(), "0.a.tif": tiff, "0.b.tif": tiff + b"b"})},
        )
    )
    assert [SourceRef.from_json(row["source_ref"]).frame_index for row in rows] == [0, 1, 0, 7]


def test_an_image_that_is_named_but_absent_is_a_row(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.json": b'{"texts":["t"],"images":[null,"x"]}'})}))
    assert brief(rows) == [
        ("0.json#/texts/0", "text", "document", None),
        ("0.json#/images/1", "text", "document", 1003),
    ]


def test_lists_that_are_no_lists_give_no_rows(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.json": b'{"texts":"t","images":5}', "0.png": png()})}))
    assert brief(rows) == [("0.png", "image", "media", None)]
    assert json.loads(rows[0]["metadata_json"]) == {"texts": "t", "images": 5}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"]
)
def test_links_and_devices_are_refused_rows(tmp_path, kind):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        info = tarfile.TarInfo("0.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    rows = rows_of(land(tmp_path / "in", {"s.tar": sink.getvalue()}))
    assert brief(rows) == [("0.png", "image", "media", 1007)] and rows[0]["digest"] is None


@pytest.mark.parametrize("name", ["/abs.png", "../up.png", "a/../../up.png"])
def test_paths_that_leave_the_archive_are_refused_rows(tmp_path, name):
    assert brief(rows_of(land(tmp_path / "in", {"s.tar": tar({name: png(), "ok.png": png(1)})}))) == [
        (name, "image", "media", 1007),
        ("ok.png", "image", "media", None),
    ]


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "name", ["plain.png", "d" * 90 + "/" + "e" * 90 + ".png", "ünï.png", "sp ace.png", "./dot.png", "dir/sub/x.png"]
)
def test_every_dialect_gives_the_names_that_tarfile_gives(tmp_path, format, name):
    data = tar({name: png(), "z.png": png(9)}, format=format)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        expected = archive.getnames()
    assert [member for member, *_ in brief(rows_of(land(tmp_path / "in", {"s.tar": data})))] == expected


def test_names_longer_than_a_header_are_read_in_gnu_and_pax(tmp_path):
    for at, format in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        rows = rows_of(land(tmp_path / f"in{at}", {"s.tar": tar({"n" * 300 + ".png": png()}, format=format)}))
        assert brief(rows) == [("n" * 300 + ".png", "image", "media", None)]


def test_names_that_are_no_utf8_stay_distinct(tmp_path):
    data = bytearray(tar({"aX.png": png(1), "aY.png": png(2)}))
    for at, byte in ((0, 0xFF), (1024, 0xFE)):
        data[at + 1] = byte
        field = b"%06o\0 " % (sum(data[at : at + 148]) + 256 + sum(data[at + 156 : at + 512]))
        data[at + 148 : at + 156] = field
    assert [member for member, *_ in brief(rows_of(land(tmp_path / "in", {"s.tar": bytes(data)})))] == [
        "a\\xff.png",
        "a\\xfe.png",
    ]


def test_a_tar_cut_anywhere_is_accounted(tmp_path):
    """Every 512 boundary and the byte next to it: the whole members are rows, and one more row reports the cut."""
    data = tar({"0.png": png(1), "1.png": png(2), "2.png": png(3) + bytes(700)})
    ends, at = [], 0
    for size in (len(png(1)), len(png(2)), len(png(3)) + 700):
        ends.append(at + 512 + size)
        at += 512 + -(-size // 512) * 512
    for cut in sorted({c for block in range(512, len(data), 512) for c in (block - 1, block, block + 1)}):
        rows = rows_of(land(tmp_path / f"in{cut}", {"s.tar": data[:cut]}))
        whole = sum(end <= cut for end in ends)
        assert [row["status"] for row in rows] == ["ok"] * whole + ["unreadable"], cut
        assert rows[-1]["error_code"] == 1002 and rows[-1]["digest"] is None


@pytest.mark.parametrize("pack", [gz, zst])
def test_a_compressed_tar_cut_anywhere_is_accounted(tmp_path, pack):
    data = pack(tar({f"{at}.txt": bytes(chr(97 + at), "ascii") * 700 for at in range(5)}))
    for cut in range(1, len(data), max(1, len(data) // 12)):
        rows = rows_of(land(tmp_path / f"in{cut}", {"s.tar.gz": data[:cut]}))
        assert (
            rows[-1]["error_code"] in (1001, 1002)
            and all(row["status"] == "ok" for row in rows[:-1])
            and len(rows) <= 6
        )


def test_a_flipped_bit_in_a_header_never_loses_rows_silently(tmp_path):
    data = tar({"0.png": png(1), "1.png": png(2)})
    for at in [*range(0, 512, 7), *range(1024, 1536, 7), *range(148, 156)]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        rows = rows_of(land(tmp_path / f"in{at}", {"s.tar": bytes(flipped)}))
        assert len(rows) == 2 or any(row["status"] == "unreadable" for row in rows), at


@pytest.mark.parametrize(
    "tail, code",
    [(bytes(9216), None), (b"x" * 512, 1001), (tar({"late.png": png()}), 1001)],
    ids=["padding", "rubbish", "second archive"],
)
def test_what_follows_the_end_mark_is_reported_unless_it_is_padding(tmp_path, tail, code):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.png": png()}) + tail}))
    assert [row["error_code"] for row in rows] == ([None] if code is None else [None, code])


def test_a_bomb_in_a_member_is_one_row(tmp_path):
    settings = sources.SourceSettings(max_item_bytes=100_000)
    rows = rows_of(
        land(tmp_path / "in", {"s.tar": tar({"0.txt.gz": gz(bytes(1_000_000)), "1.txt": b"fine"})}), settings=settings
    )
    assert [row["error_code"] for row in rows] == [1008, None]


def test_a_bomb_of_a_tar_keeps_what_came_before(tmp_path):
    settings = sources.SourceSettings(max_shard_bytes=100_000)
    rows = rows_of(
        land(tmp_path / "in", {"s.tar.gz": gz(tar({"0.txt": b"fine", "1.bin": bytes(1_000_000)}))}), settings=settings
    )
    assert [row["error_code"] for row in rows] == [None, 1008]


@pytest.mark.parametrize("code, member", [(1002, gz(b"abc" * 100)[:-9]), (1003, gz(b"abc" * 100)[:-8] + b"12345678")])
def test_a_broken_gzip_member_is_kept_as_it_is(tmp_path, code, member):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.txt.gz": member})}))
    assert rows[0]["error_code"] == code and rows[0]["digest"] == sha(member)


def test_unknown_content_goes_to_the_commonest_modality(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {
                "s.tar": tar(
                    {"0.wav": wav(), "0.ten": b"\0\1\2" * 9, "1.wav": wav(9), "2.pdf": b"%PDF-1.7 x", "3.png": png()}
                )
            },
        )
    )
    assert [(row["modality"], row["error_code"]) for row in rows] == [
        ("audio", None),
        ("audio", 1005),
        ("audio", None),
        ("audio", 1005),
        ("image", None),
    ]
    assert rows[1]["digest"] == sha(b"\0\1\2" * 9) and rows[3]["content_type"] == "application/pdf"


def test_an_empty_member_is_a_row_and_an_empty_text_is_a_text(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"0.png": b"", "1.txt": b""})}))
    assert brief(rows) == [("0.png", "image", "media", 1006), ("1.txt", "text", "document", None)]
    assert rows[0]["digest"] == sha(b"") and rows[1]["text_content"] == ""


def test_a_tar_without_members_has_no_rows_and_an_empty_file_has_one(tmp_path):
    root = land(tmp_path / "in", {"image/a.tar": bytes(1024), "image/b.tar": b""})
    assert [shard.modalities for shard in sources.scan(root, settings=SETTINGS)] == [("image",), ("image",)]
    assert [(row["error_code"], row["digest"]) for row in rows_of(root)] == [(1006, sha(b""))]


def test_what_is_called_tar_but_is_none_is_one_row_in_its_hinted_modality(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"videos/x.tar": b"no tar at all " * 100}))
    assert [(row["modality"], row["error_code"]) for row in rows] == [("video", 1001)]


def test_a_tar_is_known_by_its_bytes(tmp_path):
    root = land(tmp_path / "in", {"shard-0001": tar({"0.png": png()}), "notes.tar": jsonl({"text": "x"})[:0] + png()})
    assert {shard.key: shard.format for shard in sources.scan(root, settings=SETTINGS)} == {
        "root": "folder",
        "shard-0001": "webdataset",
    }


def test_an_object_that_names_a_missing_member_is_a_row_and_no_other_image_stands_in_for_it(tmp_path):
    record = {"texts": [None, None], "images": [{"member": "a.png"}, {"member": "gone.png"}]}
    rows = rows_of(land(tmp_path / "in", {"x.tar": tar({"a.png": png(), "a.json": json.dumps(record).encode()})}))
    assert [(row["position"], row["digest"], row["error_code"]) for row in rows] == [
        (0, sha(png()), None),
        (1, None, 1003),
    ]
