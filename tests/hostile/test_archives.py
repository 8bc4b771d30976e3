"""Names, sizes and numbers at the edge of what archives and directories can hold."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from mmlake.formats import sniff
from mmlake.records import SourceRef
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import Members, compress, media, tar
from tests.thorough import drawn

_ODD_NAMES = (
    *(f"x{chr(code)}y" for code in range(1, 256) if chr(code) not in "/"), "\U0001f600", "\u202egnp", "a\u0301",
    "n" * 120, "trailing.", "trailing ", " leading", "%2F", "%",
    "a#b", "#dup=1", "a|b", "new\nline", "...", "a...b", "~", "a~b", "CON", "nul.", "-rf", "$(id)", "`id`", "\\", '"',
    "'", "a;b", "*", "?", "\udcff", "\udce9t\udce9", "fsencoded:x",
)  # fmt: skip
_LISTED_NAMES = tuple(name for name in _ODD_NAMES if not name.startswith("."))  # others are hidden
_EXTENSIONS = sorted(
    {name.rpartition(".")[2] for name in media()}
    | {"tar", "tar.gz", "tgz", "tar.zst", "parquet", "jsonl", "jsonl.gz", "ndjson", "gz", "zst", "bin", "json", "pdf"}
)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _land(landing: Path, name: str, data: bytes) -> Path:
    path = landing / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return landing


def test_files_with_every_odd_name_are_rows_and_their_locators_lead_back(tmp_path):
    expected = {}
    for number, name in enumerate(_LISTED_NAMES):
        data = f"text number {number}".encode()
        path = tmp_path / "in" / f"d{number}" / f"{name}.txt"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        expected[_sha(data)] = path
    rows = rows_of(tmp_path / "in")
    assert {row["digest"] for row in rows} == set(expected) and len(rows) == len(_LISTED_NAMES)
    for row in rows:
        assert (
            sources.fetch(SourceRef.from_json(row["source_ref"]), landing=tmp_path / "in")
            == expected[row["digest"]].read_bytes()
        )


def test_directories_with_every_odd_name_are_shards_whose_keys_lead_back(tmp_path):
    for number, name in enumerate(_LISTED_NAMES):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "a.txt").write_text(f"text {number}")
    shards = sources.scan(tmp_path / "in", settings=replace(SETTINGS, gather_above=10**6))
    assert len({shard.key for shard in shards}) == len(shards) == len(os.listdir(os.fsencode(tmp_path / "in")))
    for shard in shards:
        assert sources.path_of_key(shard.key) == shard.path
        assert shard.key.isascii() and "..." not in shard.key and not shard.key.startswith("/")
    (one,) = sources.scan(tmp_path / "in", settings=SETTINGS)  # they are gathered
    assert set(one.directories) == {shard.path for shard in shards}
    texts = [item.content.head(100) for item in sources.read(one, landing=tmp_path / "in", settings=SETTINGS)]
    assert sorted(texts) == sorted(f"text {number}".encode() for number in range(len(shards)))


@pytest.mark.parametrize("dialect", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_members_with_every_odd_name_are_rows_and_their_locators_lead_back(tmp_path, dialect):
    members = tuple(
        (f"{number}/{name}.txt", f"text number {number}".encode())
        for number, name in enumerate(_ODD_NAMES)
        if dialect == tarfile.GNU_FORMAT or name.isprintable()
    )
    landing = _land(tmp_path / "in", "s.tar", tar(members, dialect))
    rows = rows_of(landing)
    assert [row["digest"] for row in rows] == [_sha(data) for _, data in members]
    for row, (_, data) in zip(rows, members, strict=True):
        assert sources.fetch(SourceRef.from_json(row["source_ref"]), landing=landing) == data


@pytest.mark.parametrize("extension", _EXTENSIONS)
def test_a_file_of_no_bytes_is_one_row_whatever_it_is_called(tmp_path, extension):
    rows = rows_of(_land(tmp_path / "in", f"a.{extension}", b""))
    assert len(rows) == 1 and rows[0]["size_bytes"] == 0
    is_text = rows[0]["status"] == "ok" and rows[0]["modality"] == "text"  # an empty text is a text
    assert is_text or rows[0]["error_code"] in (1003, 1005, 1006)


_KNOWN = {name: sniff.kind_of(data, name) for name, data in media().items() if not name.startswith("t.")}


@pytest.mark.parametrize("name", sorted(_KNOWN))
@pytest.mark.parametrize("lie", ["txt", "png", "mp3", "mp4", "tar", "parquet", "jsonl", "json", ""])
def test_content_decides_what_a_file_is_and_not_its_name(tmp_path, name, lie):
    rows = rows_of(_land(tmp_path / "in", f"a.{lie}" if lie else "a", media()[name]))
    kind = _KNOWN[name]
    assert kind is not None
    assert [(row["modality"], row["content_type"], row["status"], row["digest"]) for row in rows] == [
        (kind.modality, kind.content_type, "ok", _sha(media()[name]))
    ]


@pytest.mark.parametrize("claim", ["a.jpg", "a.mp4", "a.flac", "a.tar", "a.parquet"])
def test_text_that_is_called_something_else_is_never_taken_for_it(tmp_path, claim):
    """What is said of it later is the decoder's matter: it is one row with its bytes, or a container that says that
    it is none."""
    rows = rows_of(_land(tmp_path / "in", claim, b"no such thing, just words " * 40))
    assert len(rows) == 1 and (rows[0]["status"] == "unreadable" or rows[0]["digest"])


def _flips(data: bytes, num: int) -> list[bytes]:
    found = []
    for at in range(0, len(data), max(1, len(data) // num)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        found.append(bytes(flipped))
    return found


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_flipped_bit_in_a_compressed_tar_never_loses_a_member_silently(tmp_path, packing):
    """Both formats carry checksums: what is read after a flip is what was written, or a row says that reading ended."""
    members: Members = tuple((f"{at}.txt", f"member number {at} ".encode() * 20) for at in range(6))
    whole = {_sha(data) for _, data in members}
    for number, data in enumerate(_flips(compress(tar(members), packing), 60)):
        rows = rows_of(_land(tmp_path / f"in{number}", f"s.tar.{packing}", data))
        assert whole == {row["digest"] for row in rows} or any(row["status"] == "unreadable" for row in rows), number


def test_a_flipped_bit_in_a_checksummed_parquet_never_changes_a_text_silently(tmp_path):
    texts = [f"text number {at} " * 9 for at in range(30)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, write_page_checksum=True, row_group_size=10, use_dictionary=False)
    whole = {_sha(text.encode()) for text in texts}
    data = sink.getvalue()
    last_page = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(2).column(0)
    end = last_page.data_page_offset + last_page.total_compressed_size
    for number, flipped in enumerate(_flips(data[:end], 60)):
        rows = rows_of(_land(tmp_path / f"in{number}", "a.parquet", flipped + data[end:]))
        intact = {row["digest"] for row in rows if row["status"] == "ok"}
        assert intact <= whole and (intact == whole or any(row["status"] == "unreadable" for row in rows)), number


@pytest.mark.parametrize("packing", ["", "gz", "zst"])
def test_json_lines_cut_anywhere_keep_their_whole_lines(tmp_path, packing):
    lines = [b'{"text":"text number %d"}\n' % at for at in range(20)]
    data = compress(b"".join(lines), packing)
    for cut in range(1, len(data), max(1, len(data) // 40)):
        rows = rows_of(_land(tmp_path / f"in{cut}", "l.jsonl", data[:cut]))
        good = [row for row in rows if row["status"] == "ok"]
        assert [row["text_content"] for row in good] == [f"text number {at}" for at in range(len(good))]
        assert len(rows) <= len(good) + 1
        if not packing:
            assert len(good) in (cut // len(lines[0]), data[: cut + 1].count(b"}"))


def test_a_shard_of_ten_thousand_members_is_ten_thousand_rows(tmp_path):
    members = tuple((f"{at:05d}.txt", b"%d" % at) for at in range(10_000))
    rows = rows_of(_land(tmp_path / "in", "s.tar", tar(members)))
    assert [row["text_content"] for row in rows] == [str(at) for at in range(10_000)]


def _sparse_tar(path: Path, size_bytes: int) -> None:
    """A tar with one member of zeros and a small one behind it, of which the disk holds only the headers."""
    first, last = tarfile.TarInfo("0.mp4"), tarfile.TarInfo("1.txt")
    first.size, last.size = size_bytes, 5
    with path.open("wb") as file:
        file.write(first.tobuf(tarfile.GNU_FORMAT))
        file.seek(size_bytes + -size_bytes % 512, os.SEEK_CUR)
        file.write(last.tobuf(tarfile.GNU_FORMAT) + b"small".ljust(512, b"\0") + bytes(1024))


_SUMMING = """
import sys, zlib
from mmlake import sources
settings = sources.SourceSettings()
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10
(shard,) = sources.scan(sys.argv[1], settings=settings)
before = peak()
for item in sources.read(shard, landing=sys.argv[1], settings=settings):
    if item.content is not None and item.fault is None:
        size, total = 0, 0
        with item.content.open() as stream:
            while data := stream.read(1 << 18):
                size, total = size + len(data), zlib.crc32(data, total)
        print(item.ref.member, size, total)
    else:
        print(item.ref.member, item.fault.code)
print(peak() - before)
"""


@pytest.mark.slow
def test_a_member_of_gibibytes_is_streamed(tmp_path):
    """The largest is just within the default limit (by default, a quarter of it); memory does not notice it. CRC-32,
    since what is checked is the stream, and SHA-256 takes longer than it."""
    size = SETTINGS.max_item_bytes // drawn(4, 1)
    (tmp_path / "in").mkdir()
    _sparse_tar(tmp_path / "in" / "s.tar", size)
    printed = subprocess.run(
        [sys.executable, "-c", _SUMMING, str(tmp_path / "in")], capture_output=True, text=True, check=True
    ).stdout.split()
    zeros, buffer = 0, bytes(1 << 20)
    for _ in range(size >> 20):
        zeros = zlib.crc32(buffer, zeros)
    assert (
        printed[:6] == ["0.mp4", f"{size}", f"{zeros}", "1.txt", "5", f"{zlib.crc32(b'small')}"]
        and int(printed[6]) < 64
    )


def test_a_member_above_the_limit_is_refused_with_its_size_and_what_follows_is_read(tmp_path):
    """A size above 8 GiB does not fit the octal field: GNU's base-256 has it."""
    (tmp_path / "in").mkdir()
    _sparse_tar(tmp_path / "in" / "s.tar", (9 << 30) + 5)
    large, small = rows_of(tmp_path / "in")
    assert (large["error_code"], large["digest"], large["size_bytes"]) == (1008, None, (9 << 30) + 5) and str(
        (9 << 30) + 5
    ) in large["materialize_error"]
    assert small["text_content"] == "small"
