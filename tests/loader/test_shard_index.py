"""The index of a shard that is opened again: read a few rows at a time, and the same as when all of it was read."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from mmlake.errors import ShardCorrupt
from mmlake.loader import ShardStream
from mmlake.loader import shard as shards
from mmlake.loader.entries import entries
from mmlake.loader.read_file import ReadFile
from mmlake.loader.shard import OpenShard
from mmlake.shards import ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

COUNT = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of 100 samples of one to three members."""
    root, rng = tmp_path_factory.mktemp("indexed"), random.Random(0)
    store, rows = BlobStore(root / "blobs"), []
    for number in range(COUNT):
        parts = [text(store, f"words of {number}")] if number % 3 else [part(store, rng.randbytes(50 + number))]
        rows.append(sample(parts, weight=number / COUNT))
    return shards_of(rows, store, root, settings=ShardSettings(max_samples=100, small="tar")).directory


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "own"))


def both(directory: Path) -> list[tuple[OpenShard, OpenShard]]:
    """Each shard as it is opened first, and again."""
    found = []
    for entry in entries(directory)[2]:
        first = OpenShard(directory, entry, verify="members")
        assert first.layout is not None
        found.append((first, OpenShard(directory, entry, verify="members", layout=first.layout)))
    return found


def test_a_shard_that_is_opened_again_gives_the_same(folder) -> None:
    for first, again in both(folder):
        numbers = list(range(first.entry.num_samples))
        random.Random(1).shuffle(numbers)
        for number in numbers:
            assert again.key(number) == first.key(number) and again.weight(number) == first.weight(number)
            assert list(again.members(number).items()) == list(first.members(number).items())
            assert again.endings(number) == first.endings(number)
        assert again.keys == first.keys and np.array_equal(again.weights, first.weights)
        assert (again.num_indexed, first.num_indexed) == (0, first.entry.num_samples)


def test_a_shard_that_is_opened_again_reads_little_of_its_index(folder, monkeypatch) -> None:
    """All of it was read and hashed: of more samples than may be open, for nearly each of them."""
    pairs, read = both(folder), []
    whole = sum(first.entry.idx_bytes for first, _ in pairs)
    original = ReadFile.read
    monkeypatch.setattr(ReadFile, "read", lambda file, at, num: read.append(num) or original(file, at, num))
    for first, again in pairs:
        again.key(first.entry.num_samples // 2)
    assert 0 < sum(read) < whole / 3


def test_a_stream_reads_the_index_of_each_shard_once(folder, monkeypatch) -> None:
    whole = []
    original = shards.whole_index
    monkeypatch.setattr(shards, "whole_index", lambda *given: whole.append(given[1].name) or original(*given))
    stream = ShardStream(folder, seed=3, verify="members")
    expected = [stream.sample(number) for number in range(COUNT)]
    stream.close()
    whole.clear()
    few = ShardStream(folder, seed=3, verify="members")
    few._max_open = 1
    numbers = random.Random(2).choices(range(COUNT), k=200)
    assert [few.sample(number) for number in numbers] == [expected[number] for number in numbers]
    assert sorted(whole) == sorted({entry.name for entry in entries(folder)[2]})


def test_an_index_that_was_touched_is_checked_again(own) -> None:
    for first, again in both(own):
        path = own / f"{first.entry.name}.idx"
        os.utime(path, ns=(1, 1))
        assert again.key(5) == first.key(5) and np.array_equal(again.weights, first.weights)


@pytest.mark.parametrize("change", ["flipped", "cut", "empty"])
def test_an_index_that_changed_while_it_was_open_is_a_damaged_shard(own, change: str) -> None:
    first, again = both(own)[0]
    path = own / f"{first.entry.name}.idx"
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 7):
        data[at] ^= 0xFF
    path.unlink()  # what is linked to it stays
    path.write_bytes(bytes(data) if change == "flipped" else bytes(data[: len(data) // 2 if change == "cut" else 0]))
    later = OpenShard(own, first.entry, verify="members", layout=first.layout)
    with pytest.raises(ShardCorrupt):
        later.key(50)
    assert again.key(50) == first.key(50)  # of the file that it holds open


def test_an_index_that_is_gone_is_a_damaged_shard(own) -> None:
    first, _ = both(own)[0]
    (own / f"{first.entry.name}.idx").unlink()
    with pytest.raises(ShardCorrupt, match="is missing"):
        OpenShard(own, first.entry, verify="members", layout=first.layout)
