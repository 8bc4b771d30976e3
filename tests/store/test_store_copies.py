"""A blob that writers at once have stored twice counts once, and the collector of garbage leaves one copy of it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from mmlake.store import BlobStore
from tests.blobs import rot

COMMON = b"common" * 20
FIRST, SECOND = b"of the first" * 30, b"of the second" * 40


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    """A store with two packs that share a blob, as two processes leave it that put at once."""
    stores = [BlobStore(tmp_path / name) for name in ("blobs", "other")]
    for one, own in zip(stores, (FIRST, SECOND), strict=True):
        with one.batch():
            one.put(COMMON, extension="txt")
            one.put(own)
    for path in (stores[1].root / "packs").iterdir():
        path.rename(stores[0].root / "packs" / path.name)
    return BlobStore(tmp_path / "blobs")


def copies(store: BlobStore, data: bytes) -> int:
    """How often the bytes lie in the files of the store."""
    return sum(
        path.read_bytes().count(data) for path in store.root.rglob("*") if path.is_file() and path.suffix != ".idx"
    )


def numbers(store: BlobStore) -> tuple[int, ...]:
    stats = store.stats()
    return stats.num_packed, stats.packed_bytes, stats.num_loose, stats.loose_bytes, stats.num_spare, stats.spare_bytes


def test_a_blob_in_two_packs_counts_once(store) -> None:
    assert numbers(store) == (3, len(COMMON + FIRST + SECOND), 0, 0, 1, len(COMMON))


def test_a_blob_in_a_pack_and_a_file_counts_once(store) -> None:
    shutil.copytree(_loose(store.root.parent / "third", COMMON).root, store.root, dirs_exist_ok=True)
    assert numbers(store) == (3, len(COMMON + FIRST + SECOND), 0, 0, 2, 2 * len(COMMON))


def test_of_two_copies_one_stays(store) -> None:
    assert (copies(store, COMMON), store.thin(), copies(store, COMMON), store.thin()) == (2, 1, 1, 0)
    assert numbers(BlobStore(store.root)) == (3, len(COMMON + FIRST + SECOND), 0, 0, 0, 0)
    assert [BlobStore(store.root).read(sha256(data)) for data in (COMMON, FIRST, SECOND)] == [COMMON, FIRST, SECOND]
    assert store.extension(sha256(COMMON)) == "txt"


def test_a_file_stays_and_packed_copies_of_it_go(store) -> None:
    """A reader may hold the path of a file; packs are rewritten while they are read."""
    shutil.copytree(_loose(store.root.parent / "third", COMMON).root, store.root, dirs_exist_ok=True)
    with store.local(sha256(FIRST)):
        assert store.thin() == 2
    assert (copies(store, COMMON), numbers(store)) == (1, (2, len(FIRST + SECOND), 1, len(COMMON), 0, 0))


def test_the_sound_copy_is_the_one_that_stays(store) -> None:
    rot(store, sha256(COMMON))
    assert store.thin() == 1
    assert (store.verify(sha256(COMMON)), store.read(sha256(COMMON))) == (None, COMMON)


def test_where_no_copy_is_sound_all_stay_to_be_reported(store) -> None:
    for name in sorted(path.name for path in (store.root / "packs").glob("*.pack")):
        path = store.root / "packs" / name
        path.write_bytes(path.read_bytes().replace(COMMON, b"harmed" * 20))
    assert (store.thin(), store.verify(sha256(COMMON)), numbers(store)[4]) == (0, "corrupt", 1)


def test_a_pack_that_holds_nothing_else_goes(tmp_path) -> None:
    store, other = BlobStore(tmp_path / "blobs"), BlobStore(tmp_path / "other")
    for one, contents in ((store, (COMMON, FIRST)), (other, (COMMON,))):
        with one.batch():
            for data in contents:
                one.put(data)
    for path in (other.root / "packs").iterdir():
        path.rename(store.root / "packs" / path.name)
    assert (store.thin(), store.stats().num_packs, store.read(sha256(COMMON))) == (1, 1, COMMON)


def test_three_packs_that_share_in_pairs_lose_nothing(tmp_path) -> None:
    contents = [f"{at} ".encode() * 50 for at in range(3)]
    store = BlobStore(tmp_path / "blobs")
    for at in range(3):
        other = BlobStore(tmp_path / f"{at}")
        with other.batch():
            other.put(contents[at])
            other.put(contents[(at + 1) % 3])
        shutil.copytree(other.root, store.root, dirs_exist_ok=True)
    assert (store.stats().num_spare, store.thin(), store.stats().num_spare) == (3, 3, 0)
    assert [store.read(sha256(data)) for data in contents] == contents


def test_nothing_is_thinned_where_files_cannot_be_locked(store, monkeypatch) -> None:
    """Two who thin at once might each leave the copy that the other takes."""

    def refuse(*arguments: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr("mmlake.store.pack_rewrites.fcntl.flock", refuse)
    assert (store.thin(), copies(store, COMMON)) == (0, 2)


def test_a_store_without_packs_is_left_as_it_is(tmp_path) -> None:
    store = _loose(tmp_path / "blobs", COMMON)
    assert (store.thin(), (store.root / "packs").exists(), numbers(store)) == (0, False, (0, 0, 1, len(COMMON), 0, 0))


def _loose(root: Path, data: bytes) -> BlobStore:
    store = BlobStore(root)
    store.put(data)
    return store
