"""Very many members, files and shards, and members that are mostly holes: every one a row, in memory that does not grow
with them. And one flipped bit in an archive: the rows say so, or are those of the whole archive."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from mmlake import sources
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import tar

NUM_FLIPS = 80


def test_a_tar_of_very_many_members_has_a_row_for_each(tmp_path: Path) -> None:
    """100,000 members took 290 MiB and 4 CPU s, with all of their rows in one table."""
    (tmp_path / "a.tar").write_bytes(tar(tuple((f"{at:06}.txt", b"words %d" % at) for at in range(3_000))))
    rows = rows_of(tmp_path)
    assert len({row["sample_id"] for row in rows}) == 3_000
    assert {row["status"] for row in rows} == {"ok"}


def test_a_member_that_is_mostly_a_hole_is_read_in_pieces(tmp_path: Path) -> None:
    """One of 4 GiB took 50 MiB more than none."""
    size = 256 << 20
    with (tmp_path / "a.tar").open("wb") as file:
        for name, length in (("big.mp4", size), ("small.txt", 5)):
            member = tarfile.TarInfo(name)
            member.size = length
            file.write(member.tobuf(tarfile.USTAR_FORMAT))
            file.seek(length - 1 if length == size else 0, io.SEEK_CUR)
            file.write(b"\0" if length == size else b"words".ljust(512, b"\0"))
        file.write(bytes(1024))
    shard = sources.scan(tmp_path, settings=SETTINGS)[0]
    tracemalloc.start()
    items = [(item.sample_id, item.size_bytes) for item in sources.read(shard, landing=tmp_path, settings=SETTINGS)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [name for name, _ in items] == ["a.tar/big", "a.tar/small"]
    assert peak < 32 << 20


def test_very_many_loose_files_and_shards_are_found_once_each(tmp_path: Path) -> None:
    """50,000 files were 16 shards in 4 CPU s, 5,000 shards were found in one."""
    (tmp_path / "loose" / "d").mkdir(parents=True)
    (tmp_path / "shards").mkdir()
    for at in range(1_000):
        (tmp_path / "loose" / "d" / f"{at:04}.txt").write_bytes(b"words %d" % at)
        (tmp_path / "shards" / f"s{at:04}.jsonl").write_bytes(b'{"text": "words %d"}\n' % at)
    assert len({row["sample_id"] for row in rows_of(tmp_path / "loose")}) == 1_000
    keys = [shard.key for shard in sources.scan(tmp_path / "shards", settings=SETTINGS)]
    assert len(set(keys)) == len(keys) == 1_000


def test_members_whose_names_begin_with_a_dot_are_rows(tmp_path: Path) -> None:
    names = (".hidden.txt", "d/.txt", ".d/in.txt", "seen.txt")
    (tmp_path / "a.tar").write_bytes(tar(tuple((name, b"words of " + name.encode()) for name in names)))
    assert len(rows_of(tmp_path)) == len(names)


def _zip(kind: int) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", kind) as archive:
        for at in range(6):
            archive.writestr(f"{at}.txt", f"words of document number {at} and more of them " * 9)
    return sink.getvalue()


_LINES = b"".join(b'{"text": "words of number %d and more of them"}\n' % (at * at) for at in range(40))
ARCHIVES = {
    "a.jsonl.gz": gzip.compress(_LINES, mtime=0),
    "a.tar.gz": gzip.compress(tar(tuple((f"{at}.txt", b"words of number %d" % at * 9) for at in range(6))), mtime=0),
    "deflated.zip": _zip(zipfile.ZIP_DEFLATED),
    "stored.zip": _zip(zipfile.ZIP_STORED),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_no_flipped_bit_of_an_archive_changes_rows_in_silence(tmp_path: Path, name: str) -> None:
    """Some bits are of nobody: times, comments, the system that packed."""

    def found(data: bytes) -> tuple[set[tuple[str, str | None]], bool]:
        (tmp_path / name).write_bytes(data)
        rows = rows_of(tmp_path)
        return {(row["status"], row["digest"]) for row in rows}, any(row["status"] != "ok" for row in rows)

    whole, rng, num_silent = found(ARCHIVES[name])[0], random.Random(1), 0
    for _ in range(NUM_FLIPS):
        changed = bytearray(ARCHIVES[name])
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        rows, is_noticed = found(bytes(changed))
        num_silent += rows != whole and not is_noticed
    assert num_silent == 0
