"""Zip archives that lie, break or attack: each is a row with a code, and what is whole stays."""

from __future__ import annotations

import random
import stat
import zipfile
import zlib

import pytest

from mmlake import sources
from tests import make
from tests.hostile.memory import rows_of
from tests.hostile.seeds import streamed, zipped
from tests.sources.source_builders import land, sha
from tests.sources.zips.zips_made import Made, made

GOOD = Made(b"good.txt", b"good words")


def reported(tmp_path, data, **limits):
    """(error code or None, reason) of each row of the archive."""
    rows = rows_of(land(tmp_path / "in", {"s.zip": data}), settings=sources.SourceSettings(**limits))
    return [(row["error_code"], row["materialize_error"]) for row in rows]


@pytest.mark.parametrize(
    "bad, code, words",
    [
        (Made(b"../up.txt", b"x"), 1007, "leaves the archive"),
        (Made(b"a/../../up.txt", b"x"), 1007, "leaves the archive"),
        (Made(b"..\\up.txt", b"x"), 1007, "leaves the archive"),
        (Made(b"/etc/passwd", b"x"), 1007, "leaves the archive"),
        (Made(b"C:\\x.txt", b"x"), 1007, "leaves the archive"),
        (Made(b"", b"x"), 1007, "no usable name"),
        (Made(b"a\0b.txt", b"x"), 1007, "no usable name"),
        (Made(b"d/", b"bytes"), 1007, "no usable name"),
        (Made(b"l.txt", b"/etc/passwd", mode=stat.S_IFLNK | 0o777), 1007, "symbolic link"),
        (Made(b"p.txt", b"x", mode=stat.S_IFIFO | 0o777), 1007, "pipe"),
        (Made(b"e.txt", b"x" * 20, flags=1), 1005, "encrypted"),
        (Made(b"m.txt", b"x" * 20, method=9), 1005, "deflate64"),
        (Made(b"m.txt", b"x" * 20, method=1234), 1005, "method 1234"),
        (Made(b"c.txt", b"words", crc=1), 1010, "crc32"),
        (Made(b"c.txt", b"words", method=8, crc=1), 1010, "crc32"),
        (Made(b"s.txt", b"words", size=4), 1001, "stored as it is"),
        (Made(b"s.txt", b"words" * 9, method=8, size=44), 1010, "is not 44"),
        (Made(b"s.txt", b"words" * 9, method=8, size=46), 1010, "is not 46"),
        (Made(b"d.txt", b"words" * 9, method=8, packed=b"\xff" * 9), 1003, "damaged"),
        (Made(b"d.txt", b"words", method=8, packed=zlib.compress(b"words")[2:-4] + b"more"), 1003, "damaged"),
        (Made(b"d.txt", b"words" * 99, method=12, packed=b"BZh9" + bytes(9)), 1003, "damaged"),
        (Made(b"d.txt", b"words" * 99, method=14, packed=b"\x09\x04\x05\0" + b"\xff" * 9), 1003, "damaged"),
        (
            Made(b"d.txt", b"words" * 99, method=14, packed=b"\x09\x04\x05\0\x5d\xff\xff\xff\xff" + bytes(9)),
            1008,
            "window_bytes",
        ),
        (Made(b"d.txt", b"words" * 99, method=93, packed=b"\x28\xb5\x2f\xfd" + bytes(3)), 1003, "damaged"),
        (Made(b"n.txt", b"words", header={"name": b"m.txt"}), 1001, "another name"),
        (Made(b"n.txt", b"words", header={"method": 8}), 1001, "another method"),
        (Made(b"n.txt", b"words", header={"crc": 7}), 1001, "another CRC"),
        (Made(b"n.txt", b"words", header={"size": 7}), 1001, "other sizes"),
        (Made(b"n.txt", b"words", at=3), 1001, "no member's header"),
        (Made(b"n.txt", b"words", at=1 << 30), 1001, "the archive has"),
        (Made(b"z.png", b""), 1006, "size_bytes=0"),
    ],
)
def test_a_bad_member_is_one_row_and_the_others_stand(tmp_path, bad, code, words):
    found = reported(tmp_path, made(bad, GOOD))
    assert [one for one, _ in found] == [code, None] and words in found[0][1]


def test_two_members_of_one_name_are_two_rows(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"s.zip": made(Made(b"a.txt", b"one"), Made(b"a.txt", b"two"))}))
    assert [(row["text_content"], row["metadata_json"]) for row in rows] == [
        ("one", None),
        ("two", '{"duplicate_member":true}'),
    ]


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """The zip bomb of Fifield (2019): one run of bytes, many entries. Headers are quoted in the bytes of the members
    before them."""
    kernel = Made(b"0.txt", b"x" * 1000, method=8)
    one = made(kernel, Made(b"0.txt", b"x" * 1000, method=8, at=0), GOOD)
    assert [code for code, _ in reported(tmp_path / "same", one)] == [1007, 1007, None]
    inner = made(Made(b"1.txt", b"y" * 50))
    inner = inner[: inner.index(b"PK\1\2")]
    quoted = made(Made(b"0.txt", inner), Made(b"1.txt", b"y" * 50, at=30 + 5), GOOD)
    assert [code for code, _ in reported(tmp_path / "quoted", quoted)] == [1007, 1007, None]


def test_a_bomb_is_refused_by_what_it_says_of_itself_and_by_what_it_does(tmp_path):
    bomb = Made(b"b.txt", bytes(1 << 20), method=8)
    assert [code for code, _ in reported(tmp_path / "item", made(bomb, GOOD), max_item_bytes=1 << 19)] == [1008, None]
    many = [Made(b"%d.txt" % at, bytes(1 << 16), method=8) for at in range(8)]
    found = reported(tmp_path / "shard", made(*many), max_shard_bytes=1 << 18)
    assert [code for code, _ in found] == [None] * 4 + [1008] * 4 and str(1 << 18) in found[-1][1]
    lie = Made(b"b.txt", bytes(1 << 20), method=8, size=10)
    assert [code for code, _ in reported(tmp_path / "lie", made(lie, GOOD))] == [1010, None]


def test_what_a_lie_of_a_size_expands_to_is_not_read_on(tmp_path):
    """Memory is bounded by what the archive states, and by the limit."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    for at, size in enumerate((100, 1 << 17)):
        found = reported(tmp_path / str(at), made(Made(b"b.bin", b"", method=8, packed=packed, size=size), GOOD))
        assert [code for code, _ in found] == [1010, None] and f"is not {size}" in found[0][1]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_without_its_directory_keeps_its_whole_members(tmp_path, method):
    """As a transfer that broke leaves it: at every cut the members before it, and a row that says so."""
    members = {f"{at}.txt": make.prose(at).encode() for at in range(5)}
    data = zipped(members, method)
    starts = [at for at in range(len(data)) if data.startswith(b"PK\3\4", at)] + [data.index(b"PK\1\2")]
    for cut in range(1, len(data) - 1, 37):
        rows = rows_of(land(tmp_path / str(cut), {"s.zip": data[:cut]}))
        whole = sum(start <= cut for start in starts[1:])
        good = [row["digest"] for row in rows if row["status"] == "ok"]
        assert good == [sha(text) for text in list(members.values())[:whole]] and 1002 in {
            row["error_code"] for row in rows
        }, cut


def test_a_streamed_archive_without_its_directory_says_where_reading_ends(tmp_path):
    data = streamed({"a.txt": b"first", "b.txt": b"second"})
    found = reported(tmp_path, data[: data.index(b"PK\1\2")])
    assert [code for code, _ in found] == [1002, 1002] and "stands behind its bytes" in found[1][1]


@pytest.mark.parametrize(
    "end, tail, code",
    [
        ({"entries": 5}, b"", 1001),
        ({"entries": 1}, b"", 1001),
        ({"size": 9}, b"", 1001),
        ({}, b"garbage", 1001),
        ({"comment": 9}, b"", 1002),
        ({"entries": 0, "size": 0}, b"", 1001),
    ],
)
def test_an_end_record_that_lies_is_a_row_and_the_members_are_read(tmp_path, end, tail, code):
    found = reported(tmp_path, made(Made(b"a.txt", b"first"), GOOD, end=end, tail=tail))
    assert sorted(str(one) for one, _ in found) == [str(code), "None", "None"]


def test_an_offset_that_lies_is_made_good(tmp_path):
    assert reported(tmp_path, made(Made(b"a.txt", b"first"), GOOD, end={"offset": 7})) == [(None, None)] * 2


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_flipped_bit_never_changes_or_loses_a_member_silently(tmp_path, method):
    """Every member is what it was, or a row says that something is wrong. Times, versions and modes say nothing of
    what is read."""
    members = {f"{at}.txt": f"member number {at} ".encode() * 9 for at in range(2)}
    data, whole = zipped(members, method), {sha(body) for body in members.values()}
    for at in range(0, len(data), 2 if method else 1):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        rows = rows_of(land(tmp_path / str(at), {"s.zip": bytes(flipped)}))
        good = {row["digest"] for row in rows if row["status"] == "ok"}
        assert good <= whole and (good == whole or any(row["status"] == "unreadable" for row in rows)), at


def test_a_first_entry_that_leads_nowhere_is_one_row_also_behind_other_bytes(tmp_path):
    """Where offsets are short of the bytes before the archive, the first entry decides."""
    data = b"stub" * 9 + made(Made(b"a.txt", b"first", at=0xFFFFFFF0), GOOD)
    assert [code for code, _ in reported(tmp_path, data)] == [1001, None]


def test_noise_behind_the_mark_of_a_zip_is_rows_and_no_exception(tmp_path):
    rng = random.Random(1)
    for number in range(60):
        rows = rows_of(
            land(
                tmp_path / str(number),
                {"s.zip": rng.choice((b"PK\3\4", b"PK\5\6", b"PK\1\2")) + rng.randbytes(rng.randrange(200))},
            )
        )
        assert rows and all(row["status"] == "unreadable" for row in rows)
