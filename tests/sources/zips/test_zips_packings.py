"""bzip2 and xz, wherever gzip and Zstandard are read: tars, lines, loose files, members, annotations."""

from __future__ import annotations

import bz2
import lzma
import random
import zlib

import pytest

from mmlake import sources
from tests import make
from tests.hostile.memory import rows_of as rows_in_memory
from tests.hostile.seeds import tar
from tests.sources.corpora.builders import coco
from tests.sources.formats.warcs import response
from tests.sources.source_builders import brief, jsonl, land, png, rows_of, sha

PACK = {"bz2": bz2.compress, "xz": lzma.compress}
MEMBERS = tuple((f"{at}.txt", make.prose(at).encode()) for at in range(6))


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("name", ["s.tar.{}", "s.t{}", "s.bin"])
def test_a_packed_tar_gives_the_rows_of_the_tar(tmp_path, packing, name):
    rows = rows_of(land(tmp_path / "in", {name.format(packing): PACK[packing](tar(MEMBERS))}))
    assert [row["digest"] for row in rows] == [sha(data) for _, data in MEMBERS] and all(
        row["status"] == "ok" for row in rows
    )


@pytest.mark.parametrize("packing", PACK)
def test_packed_lines_files_and_members_count_as_what_they_hold(tmp_path, packing):
    pack = PACK[packing]
    files = {
        f"l.jsonl.{packing}": pack(jsonl({"text": "a line"})),
        f"d/a.txt.{packing}": pack(b"words"),
        f"d/b.png.{packing}": pack(png(1)),
        "d/b.txt": b"of b",
        "s.tar": tar(((f"c.png.{packing}", pack(png(2))),)),
    }
    rows = rows_of(land(tmp_path / "in", files))
    assert [(modality, role, code) for _, modality, role, code in brief(rows)] == [
        ("text", "document", None),
        ("image", "media", None),
        ("text", "caption", None),
        ("text", "document", None),
        ("image", "media", None),
    ]


@pytest.mark.parametrize("packing", PACK)
def test_packed_annotations_describe_their_images(tmp_path, packing):
    files = coco()
    for name in [name for name in files if name.endswith(".json")]:
        files[f"{name}.{packing}"] = PACK[packing](files.pop(name))
    assert [row["status"] for row in rows_of(land(tmp_path / "in", files))] == ["ok"] * 18


@pytest.mark.parametrize("packing", PACK)
def test_a_packed_crawl_is_read(tmp_path, packing):
    rows = rows_of(
        land(tmp_path / "in", {f"c.warc.{packing}": PACK[packing](response() + response(uri="http://example.org/b"))})
    )
    assert [row["status"] for row in rows] == ["ok", "ok"]


@pytest.mark.parametrize("packing", PACK)
def test_streams_one_behind_another_are_one(tmp_path, packing):
    """As `pbzip2`, `xz -T` with blocks, and `cat` make them; zeros between xz streams are padding."""
    data = tar(MEMBERS)
    packed = b"".join(
        PACK[packing](data[at : at + 700]) + (bytes(8) if packing == "xz" else b"") for at in range(0, len(data), 700)
    )
    assert [row["digest"] for row in rows_of(land(tmp_path / "in", {"s.tar": packed}))] == [
        sha(body) for _, body in MEMBERS
    ]


@pytest.mark.parametrize("packing", PACK)
def test_a_cut_stream_keeps_what_came_before_it(tmp_path, packing):
    """Blocks of 100 kB: bzip2 gives out whole blocks only."""
    bodies = [random.Random(at).randbytes(30_000).hex().encode() for at in range(12)]
    data = tar(tuple((f"{at:02d}.txt", body) for at, body in enumerate(bodies)))
    packed = bz2.compress(data, 1) if packing == "bz2" else lzma.compress(data)
    rows = rows_in_memory(land(tmp_path / "in", {f"s.tar.{packing}": packed[: len(packed) * 3 // 4]}))
    good = [row["digest"] for row in rows if row["status"] == "ok"]
    assert (
        good == [sha(body) for body in bodies[: len(good)]]
        and len(good) >= 6
        and [row["error_code"] for row in rows[len(good) :]].count(1002) >= 1
    )


@pytest.mark.parametrize("packing", PACK)
def test_a_flipped_bit_never_loses_a_member_silently(tmp_path, packing):
    packed, whole = PACK[packing](tar(MEMBERS)), {sha(data) for _, data in MEMBERS}
    for at in range(0, len(packed), max(1, len(packed) // 30)):
        flipped = bytearray(packed)
        flipped[at] ^= 1 << at % 8
        rows = rows_in_memory(land(tmp_path / str(at), {f"s.tar.{packing}": bytes(flipped)}))
        assert whole == {row["digest"] for row in rows} or any(row["status"] == "unreadable" for row in rows), at


@pytest.mark.parametrize("packing", PACK)
def test_bytes_behind_a_stream_that_are_none_are_a_row(tmp_path, packing):
    rows = rows_in_memory(land(tmp_path / "in", {f"s.tar.{packing}": PACK[packing](tar(MEMBERS)) + b"garbage"}))
    assert [row["error_code"] for row in rows] == [None] * 6 + [1001]


@pytest.mark.parametrize("packing", PACK)
def test_what_expands_past_the_limit_is_a_row(tmp_path, packing):
    small = sources.SourceSettings(max_item_bytes=1 << 20, max_shard_bytes=1 << 20)
    bomb = PACK[packing](bytes(64 << 20))
    rows = rows_in_memory(
        land(
            tmp_path / "in",
            {f"a.png.{packing}": bomb, f"d/s.tar.{packing}": PACK[packing](tar((("a.bin", bytes(8 << 20)),)))},
        ),
        settings=small,
    )
    assert {row["error_code"] for row in rows} == {1005, 1008} or {row["error_code"] for row in rows} == {1008}


def test_an_xz_stream_that_asks_for_gigabytes_of_memory_is_refused(tmp_path):
    """Its dictionary is said to have 1 GiB: the decompressor would set that aside before the first byte."""
    data = bytearray(lzma.compress(b"words", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    data[16] = 36  # behind the stream's header of 12 bytes and four of the block's: 2 << (36 / 2 + 11) bytes
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    rows = rows_in_memory(land(tmp_path / "in", {"a.jsonl.xz": bytes(data)}))
    assert [row["error_code"] for row in rows] == [1008] and "window_bytes" in rows[0]["materialize_error"]
