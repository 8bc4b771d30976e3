"""Blocks on the local disk: fetched once, in large pieces when read in order, never wrong and never more than the
bound."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.remote.cache import BlockCache, block_key
from mmlake.remote.reading import open_file
from mmlake.remote.settings import RemoteSettings
from mmlake.streams import expect

DATA = random.Random(1).randbytes(100 * 1024 + 77)


class Remote:
    """A remote file of DATA that notes what is asked for."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data, self.asked, self.lock = data, [], threading.Lock()

    def read_range(self, offset: int, size: int) -> bytes:
        with self.lock:
            self.asked.append((offset, size))
        return self.data[offset : offset + size]


@pytest.fixture
def settings(tmp_path: Path) -> RemoteSettings:
    return RemoteSettings(
        cache_dir=str(tmp_path / "cache"),
        block_bytes=1024,
        cache_bytes=1 << 20,
        ahead_blocks=8,
        request_blocks=4,
        threads=2,
    )


def reading(settings: RemoteSettings, remote: Remote, identity: str = "there@1"):
    return open_file(BlockCache(settings), identity, len(remote.data), remote.read_range)


def block_files(settings: RemoteSettings) -> list[Path]:
    return sorted(
        path
        for path in (settings.directory() / "blocks").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    )


@pytest.mark.parametrize("ahead_blocks", [0, 1, 8, 500])
@pytest.mark.parametrize("step", [100, 1024, 5000, 10**6])
def test_a_file_reads_as_it_is(settings, ahead_blocks, step) -> None:
    with reading(replace(settings, ahead_blocks=ahead_blocks), Remote()) as file:
        assert b"".join(iter(lambda: file.read(step), b"")) == DATA


def test_what_was_fetched_is_not_fetched_again(settings) -> None:
    for remote in (first := Remote(), second := Remote()):
        with reading(settings, remote) as file:
            assert file.read() == DATA
    assert sorted(first.asked)[0] == (0, 1024) and second.asked == []


def test_reading_in_order_asks_for_larger_and_larger_pieces(settings) -> None:
    remote = Remote()
    with reading(settings, remote) as file:
        while file.read(1024):
            pass
    assert len(remote.asked) < 40  # of 101 blocks
    assert max(size for _, size in remote.asked) == 4 * 1024


def test_reading_here_and_there_asks_for_single_blocks(settings) -> None:
    remote = Remote()
    with reading(settings, remote) as file:
        for block in (70, 3, 40, 12):
            file.seek(block * 1024 + 5)
            assert file.read(10) == DATA[block * 1024 + 5 : block * 1024 + 15]
    assert remote.asked == [(block * 1024, 1024) for block in (70, 3, 40, 12)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data + b"x",
        lambda data: bytes(len(data)),
    ],
)
def test_a_damaged_block_is_fetched_again(settings, spoil: Callable[[bytes], bytes]) -> None:
    with reading(settings, Remote()) as file:
        file.read()
    block_files(settings)[5].write_bytes(spoil(block_files(settings)[5].read_bytes()))
    remote = Remote()
    with reading(settings, remote) as file:
        assert file.read() == DATA
    assert len(remote.asked) == 1


def test_a_block_in_the_wrong_place_is_fetched_again(settings) -> None:
    with reading(settings, Remote()) as file:
        file.read()
    paths = block_files(settings)
    os.replace(paths[5], paths[6])
    with reading(settings, Remote()) as file:
        assert file.read() == DATA


def test_another_version_is_another_file(settings) -> None:
    changed = Remote(DATA[::-1])
    with reading(settings, Remote(), "there@1") as file:
        file.read()
    with reading(settings, changed, "there@2") as file:
        assert file.read() == DATA[::-1]
    assert (
        len(
            {
                block_key("there@1", 5, 1024),
                block_key("there@2", 5, 1024),
                block_key("there@1", 6, 1024),
                block_key("there@1", 5, 2048),
            }
        )
        == 4
    )


def test_the_directory_keeps_its_bound_and_what_was_used_last(settings) -> None:
    tight = replace(settings, cache_bytes=32 * 1024, ahead_blocks=0)
    cache = BlockCache(tight)
    with open_file(cache, "there@1", len(DATA), Remote().read_range) as file:
        for block in range(90):
            file.seek(block * 1024)
            file.read(1)
            age_s = 1000 - block
            newest = cache._path(block_key("there@1", len(DATA), 1024), block)
            if newest.exists():
                os.utime(newest, (os.stat(newest).st_mtime - age_s,) * 2)
    cache.trim()
    kept = sorted(int(path.name) for path in block_files(tight))
    assert sum(path.stat().st_size for path in block_files(tight)) <= 32 * 1024
    assert kept == list(range(90 - len(kept), 90))


def test_a_part_file_of_a_dead_writer_is_taken_away(settings) -> None:
    cache = BlockCache(settings)
    with open_file(cache, "there@1", len(DATA), Remote().read_range) as file:
        file.read(1)
    young, old = (block_files(settings)[0].with_name(f"{name}.part") for name in ("young", "old"))
    for path in (young, old):
        path.write_bytes(b"x")
    os.utime(old, (1, 1))
    cache.trim()
    assert (young.exists(), old.exists()) == (True, False)


def test_a_full_disk_costs_the_cache_and_not_the_bytes(settings, monkeypatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr("mmlake.remote.cache.os.replace", full)
    with reading(settings, Remote()) as file:
        assert file.read() == DATA


def test_processes_share_the_directory(settings) -> None:
    """Four at once, each through a cache so small that all of them evict what the others read."""
    code = (
        "import random, sys\n"
        "from mmlake.remote.cache import BlockCache\n"
        "from mmlake.remote.reading import open_file\n"
        "from mmlake.remote.settings import RemoteSettings\n"
        "data = random.Random(1).randbytes(100 * 1024 + 77)\n"
        "cache = BlockCache(RemoteSettings(cache_dir=sys.argv[1], block_bytes=1024, cache_bytes=16 * 1024, "
        "ahead_blocks=8, request_blocks=4, threads=2))\n"
        "for _ in range(3):\n"
        "    with open_file(cache, 'there@1', len(data), lambda offset, size: data[offset : offset + size]) as file:\n"
        "        assert file.read() == data\n"
    )
    started = [subprocess.Popen([sys.executable, "-W", "error", "-c", code, str(settings.cache_dir)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0, 0, 0, 0]


def test_a_failure_of_the_read_ahead_is_reported_where_its_bytes_are_wanted(settings) -> None:
    def read_range(offset: int, size: int) -> bytes:
        if offset + size > 20 * 1024:
            raise RemoteUnavailable("the storage is away")
        return DATA[offset : offset + size]

    with open_file(BlockCache(settings), "there@1", len(DATA), read_range) as file:
        assert file.read(16 * 1024) == DATA[: 16 * 1024]
        with pytest.raises(RemoteUnavailable):
            file.read(8 * 1024)


def test_an_item_that_changed_is_no_end_of_file(settings) -> None:
    def read_range(offset: int, size: int) -> bytes:
        raise UnreadableItem(1001, "changed")

    with open_file(BlockCache(settings), "there@1", len(DATA), read_range) as file, pytest.raises(UnreadableItem):
        file.read()


def test_a_short_answer_is_never_padded(settings) -> None:
    with (
        open_file(
            BlockCache(settings), "there@1", len(DATA), lambda offset, size: DATA[offset : offset + size - 1]
        ) as file,
        pytest.raises(RemoteUnavailable, match="does not keep to byte ranges"),
    ):
        file.read()


@pytest.mark.parametrize("wrong", [{"block_bytes": 0}, {"cache_bytes": 1}, {"ahead_blocks": -1}, {"threads": 0}])
def test_settings_that_cannot_work_are_refused(wrong) -> None:
    with pytest.raises(SettingsError, match=f"remote.{next(iter(wrong))}"):
        RemoteSettings(**wrong)


def test_ranges_that_are_expected_are_on_the_way_at_once_and_read_from_what_came(settings) -> None:
    both, requests = threading.Barrier(2, timeout=60), itertools.count()

    class Slow(Remote):
        def read_range(self, offset: int, size: int) -> bytes:
            if next(requests) < 2:
                both.wait()
            return super().read_range(offset, size)

    with reading(replace(settings, ahead_blocks=0), remote := Slow()) as file:
        expect(file, [(3000, 5000), (90_000, 90_001), (50_500, 50_600), (4000, 4100), (102_000, 999_999_999)])
        for start, stop in ((90_000, 90_001), (3000, 5000), (50_500, 50_600), (102_000, 102_477)):
            file.seek(start)
            assert file.read(stop - start) == DATA[start:stop]
    assert sorted(remote.asked) == [(2048, 3072), (50_176, 1024), (89_088, 1024), (101_376, 1101)]


def test_what_is_expected_and_cannot_be_had_is_reported_where_it_is_read(settings) -> None:
    def read_range(offset: int, size: int) -> bytes:
        if offset >= 50_000:
            raise UnreadableItem(1001, "gone")
        return DATA[offset : offset + size]

    with open_file(BlockCache(settings), "there@1", len(DATA), read_range) as file:
        expect(file, [(60_000, 61_000), (0, 1000)])
        assert file.read(1000) == DATA[:1000]
        file.seek(60_000)
        with pytest.raises(UnreadableItem, match="gone"):
            file.read(1000)


def test_a_local_file_expects_nothing(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as file:
        expect(file, [(0, 3)])
        assert file.read() == b"abc"
