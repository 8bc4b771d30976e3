"""Many packs: what none of them holds is reported without asking each, and nothing that one holds is ever missed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mmlake.store import BlobStore, Entry, PackIndex
from mmlake.store.bloom import BloomFilter
from mmlake.store.index import index_bytes, pack_entry


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def index_of(names: list[str]) -> PackIndex:
    return PackIndex(index_bytes((pack_entry(Entry(sha256(name), 84, 1)) for name in names), pack_bytes=100))


def fill(root: Path, num_packs: int, *, first: int = 0) -> list[str]:
    store, digests = BlobStore(root), []
    for number in range(first, first + num_packs):
        with store.batch():
            digests.append(store.put(f"in pack {number}".encode()))
    return digests


@pytest.fixture
def filtered(tmp_path: Path) -> BlobStore:
    """A store of eight packs with enough fruitless searches to build its filter."""
    fill(tmp_path, 8)
    store = BlobStore(tmp_path)
    assert not any(store._packs.find(sha256(f"absent {number}"), is_hint=True) for number in range(50))
    assert store._packs._filter._words is not None
    return store


def test_the_filter_passes_every_blob_that_is_there_and_few_others() -> None:
    names = [f"blob {number}" for number in range(20_000)]
    bloom = BloomFilter()
    bloom.build([index_of(names[:15_000]), index_of(names[15_000:])])
    assert not any(bloom.excludes(sha256(name)) for name in names)
    assert sum(bloom.excludes(sha256(f"other {number}")) for number in range(2000)) > 1980


def test_an_empty_filter_excludes_nothing() -> None:
    assert not BloomFilter().excludes(sha256("x"))


def test_a_filter_that_is_full_goes_rather_than_miss_a_blob() -> None:
    bloom = BloomFilter()
    bloom.build([index_of(["a"])])
    bloom.add(index_of(["b"]))
    assert (bloom.excludes(sha256("b")), bloom.excludes(sha256("absent"))) == (False, True)
    bloom.add(index_of(["c"]))
    assert not bloom.excludes(sha256("absent"))


def test_few_packs_need_no_filter(tmp_path) -> None:
    fill(tmp_path, 4)
    store = BlobStore(tmp_path)
    assert not any(sha256(f"absent {number}") in store for number in range(50))
    assert store._packs._filter._words is None


def test_what_is_in_packs_is_found_through_the_filter(filtered) -> None:
    assert [filtered.verify(sha256(f"in pack {number}")) for number in range(8)] == [None] * 8


def test_no_blob_of_many_packs_is_written_twice(filtered) -> None:
    with filtered.batch():
        for number in range(8):
            filtered.put(f"in pack {number}".encode())
    assert filtered.stats().num_packed == 8


def test_what_comes_later_is_found_whichever_process_brought_it(filtered) -> None:
    """More packs than the filter has room for."""
    with filtered.batch():
        mine = filtered.put(b"mine")
    digests = [mine, *fill(filtered.root, 12, first=8)]
    assert [digest in filtered for digest in digests] == [True] * 13
    assert sha256("absent") not in filtered


def test_what_was_merged_is_found_through_the_filter(filtered) -> None:
    assert BlobStore(filtered.root).compact(max_small=1) == 7
    assert [filtered.verify(sha256(f"in pack {number}")) for number in range(8)] == [None] * 8
