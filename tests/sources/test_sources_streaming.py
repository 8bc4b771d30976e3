"""What readers hold and open: one sample of a tar, one opening of a small file."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import lzma
import os
import random
import tracemalloc

import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.formats import compression
from mmlake.landing import LocalLanding
from mmlake.sources.parsed_files import ParsedFiles
from tests.sources.source_builders import SETTINGS, land, png, tar, zst

JPEG = b"\xff\xd8\xff" + bytes(600)


class CountedLanding(LocalLanding):
    """Counts how files are opened."""

    def __init__(self, root):
        super().__init__(root)
        self.calls = []

    def open(self, path):
        self.calls.append(("open", path))
        return super().open(path)

    def head(self, path, size_bytes):
        self.calls.append(("head", path))
        return super().head(path, size_bytes)


def items(root, key):
    (shard,) = [shard for shard in sources.scan(root, settings=SETTINGS) if shard.key == key]
    return sources.read(shard, landing=root, settings=SETTINGS)


def peak_bytes(root, num_samples):
    land(
        root,
        {
            "s.tar": tar(
                {f"{number:06d}.{extension}": JPEG for number in range(num_samples) for extension in ("jpg", "2.jpg")}
            )
        },
    )
    (shard,) = sources.scan(root, settings=SETTINGS)
    tracemalloc.start()
    num_items = sum(1 for _ in sources.read(shard, landing=root, settings=SETTINGS))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_items == 2 * num_samples
    return peak


def test_a_tar_of_many_members_takes_a_few_bytes_for_each(tmp_path):
    # the least of three: what a thread of an earlier test allocates meanwhile only adds
    few, many = (
        min(peak_bytes(tmp_path / f"{num_samples}-{time}", num_samples) for time in range(3))
        for num_samples in (500, 4500)
    )
    # bytes per member: its place, its hashes and what sorting them takes; an object for each took 700
    assert (many - few) / 8000 < 150


def test_members_of_one_sample_may_lie_apart(tmp_path):
    land(tmp_path, {"s.tar": tar({"a.jpg": JPEG, "b.jpg": png(), "c.jpg": JPEG, "a.txt": b"of a", "b.txt": b"of b"})})
    found = [
        (item.sample_id.rpartition("/")[2], item.position, [read() for read in item.paired_texts])
        for item in items(tmp_path, "s.tar")
    ]
    assert found == [("a", 0, ["of a"]), ("a", 1, []), ("b", 0, ["of b"]), ("b", 1, []), ("c", 0, [])]


def test_a_tar_that_becomes_shorter_while_it_is_read_gives_no_short_members(tmp_path):
    land(tmp_path, {"s.tar": tar({f"{number}.txt": b"x" * 40_000 for number in range(5)})})
    reported = []
    for number, item in enumerate(items(tmp_path, "s.tar")):
        if number == 1:
            os.truncate(tmp_path / "s.tar", 3 * 41_000)
        try:
            reported.append(item.fault.code if item.fault else len(item.content.head(1 << 20)))
        except UnreadableItem as error:
            reported.append(error.code)
    assert reported[:2] == [40_000, 40_000] and set(reported[2:]) <= {40_000, 1002} and reported[-1] == 1002


def test_a_small_file_is_opened_once_when_it_is_read(tmp_path):
    land(tmp_path / "in", {"d/a.jpg": JPEG, "d/a.txt": b"a caption", "d/b.txt": b"alone"})
    landing, parsed = CountedLanding(tmp_path / "in"), ParsedFiles()  # a lake has one for all that it reads
    (shard,) = sources.scan(landing, settings=SETTINGS, parsed=parsed)
    landing.calls.clear()
    found = sources.read(shard, landing=landing, settings=SETTINGS, parsed=parsed)
    assert [item.content.head(1000) for item in found] == [JPEG, b"a caption", b"alone"]
    assert landing.calls == [("head", f"d/{name}") for name in ("a.jpg", "a.txt", "b.txt")]


def test_a_container_among_loose_files_is_no_item_of_theirs_whatever_it_is_called(tmp_path):
    land(tmp_path, {"a.jpg": JPEG, "b.dat": tar({"0.png": png()}), "c.txt": b"text"})
    assert [item.ref.path for item in items(tmp_path, "root")] == ["a.jpg", "c.txt"]
    assert [item.ref.member for item in items(tmp_path, "b.dat")] == ["0.png"]


@pytest.mark.parametrize("swapped", ["file", "directory"])
def test_the_first_bytes_of_a_file_never_come_through_a_link(tmp_path, swapped):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f.txt").write_bytes(b"secret")
    land(tmp_path / "in", {"d/f.txt": b"mine"})
    landing = LocalLanding(tmp_path / "in")
    assert landing.head("d/f.txt", 100) == b"mine"
    if swapped == "file":
        (tmp_path / "in/d/f.txt").unlink()
        (tmp_path / "in/d/f.txt").symlink_to(tmp_path / "secret/f.txt")
    else:
        (tmp_path / "in/d").rename(tmp_path / "gone")
        (tmp_path / "in/d").symlink_to(tmp_path / "secret")
        landing.files(".")  # a listing ends what was known of directories
    with pytest.raises(UnreadableItem) as refused:
        landing.head("d/f.txt", 100)
    assert refused.value.code in (1001, 1007)


def test_a_copy_of_a_landing_zone_opens_directories_of_its_own(tmp_path):
    land(tmp_path, {"d/f.txt": b"mine"})
    landing = LocalLanding(tmp_path)
    landing.head("d/f.txt", 100)
    other = copy.copy(landing)  # made as another process would make it
    assert other._kept is None and other.head("d/f.txt", 100) == b"mine"


@pytest.mark.parametrize("at", [70_000, 131_000])
def test_damage_in_zstandard_is_found_in_few_steps(monkeypatch, at):
    """Byte by byte from the last good piece on, a zip of thousands of damaged members took a quarter of a minute."""
    calls, read = [], compression.Zstd.read
    monkeypatch.setattr(compression.Zstd, "read", lambda self, size: calls.append(size) or read(self, size))
    words = random.Random(1).randbytes(1 << 18)
    packed = bytearray(zst(words))
    del packed[at:]
    found = compression.expanded_head(io.BytesIO(packed), "zstd", size_bytes=1 << 18)
    assert words.startswith(found) and len(calls) < 1200


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
def test_all_that_stands_before_a_cut_is_given_however_little_is_read_at_a_time(name):
    """bzip2 kept the rest of its last block back where a reader asked for less than the block."""
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[name]
    with compression.expanded(io.BytesIO(pack(bytes(5000))[:-4]), name, limit_bytes=1 << 20) as stream:
        given = [stream.raw.read(100) for _ in range(50)]
        with pytest.raises(UnreadableItem, match="stops after 5000 expanded bytes"):
            stream.raw.read(100)
    assert given == [bytes(100)] * 50
