"""Rewriting packs while they are read: compaction, removal, quarantine."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from mmlake.store import BlobStore
from tests.blobs import place_of, rot

ABSENT = "0" * 64


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def filled(root: Path, num_packs: int, *, num_blobs: int = 20) -> tuple[BlobStore, dict[str, bytes]]:
    """A store with so many packs of so many blobs."""
    store, contents = BlobStore(root), {}
    for pack in range(num_packs):
        with store.batch():
            for at in range(num_blobs):
                data = f"pack {pack} blob {at} ".encode() * 50
                contents[store.put(data, extension="txt")] = data
    return store, contents


def num_packs(store: BlobStore) -> int:
    return BlobStore(store.root).stats().num_packs


def assert_whole(store: BlobStore, contents: dict[str, bytes]) -> None:
    for one in (store, BlobStore(store.root)):
        assert {digest: one.read(digest) for digest in one.digests()} == contents


def test_small_packs_are_merged_into_one(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 5)
    assert (store.compact(max_small=4), num_packs(store)) == (4, 1)
    assert_whole(store, contents)
    assert {store.extension(digest) for digest in contents} == {"txt"}


def test_few_packs_are_left_alone(tmp_path) -> None:
    store, _ = filled(tmp_path / "blobs", 4)
    assert (store.compact(max_small=4), num_packs(store)) == (0, 4)


def test_large_packs_are_left_alone(tmp_path) -> None:
    store, _ = filled(tmp_path / "blobs", 3)
    assert (store.compact(small_bytes=1000, max_small=0), num_packs(store)) == (0, 3)


def test_compacting_a_store_without_packs_makes_nothing(tmp_path) -> None:
    assert (BlobStore(tmp_path / "blobs").compact(max_small=0), (tmp_path / "blobs").exists()) == (0, False)


def test_compacting_twice_changes_nothing(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 3)
    store.compact(max_small=0)
    assert store.compact(max_small=0) == 0
    assert_whole(store, contents)


def test_a_blob_that_several_packs_hold_is_kept_once_and_sound(tmp_path) -> None:
    """Of two copies the damaged one may be found first."""
    stores = [BlobStore(tmp_path / name) for name in "ab"]
    for store in stores:
        with store.batch():
            store.put(b"common" * 20)
            store.put(store.root.name.encode())
    rot(stores[0], sha256(b"common" * 20))
    for path in (stores[1].root / "packs").iterdir():
        path.rename(stores[0].root / "packs" / path.name)
    assert stores[0].verify(sha256(b"common" * 20)) == "corrupt"
    assert stores[0].read(sha256(b"common" * 20)) == b"common" * 20
    stores[0].compact(max_small=0)
    assert (stores[0].stats().num_packed, stores[0].verify(sha256(b"common" * 20))) == (3, None)


def test_a_damaged_blob_stays_damaged_through_a_compaction(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 3)
    harmed = next(iter(contents))
    rot(store, harmed)
    store.compact(max_small=0)
    assert [digest for digest in contents if BlobStore(store.root).verify(digest) is not None] == [harmed]
    assert store.verify(harmed) == "corrupt"


def test_readers_lose_nothing_while_packs_are_merged_and_rewritten(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 6)
    doomed = list(contents)[::7]
    staying = [digest for digest in contents if digest not in doomed]
    wrong: list[str] = []
    done = threading.Event()

    def read_all(reader: BlobStore) -> None:
        while True:
            is_last = done.is_set()
            wrong.extend(
                digest for digest in staying if reader.read(digest) != contents[digest] or digest not in reader
            )
            if is_last:
                return

    readers = [threading.Thread(target=read_all, args=(one,)) for one in (store, BlobStore(store.root))]
    for reader in readers:
        reader.start()
    other = BlobStore(store.root)
    other.remove_all(doomed)
    other.compact(max_small=0)
    done.set()
    for reader in readers:
        reader.join()
    assert (wrong, num_packs(store)) == ([], 1)
    assert [digest for digest in doomed if digest in store] == []


def test_a_removed_blob_is_in_no_file_any_more(tmp_path) -> None:
    """Erasure is for good: neither the bytes nor the digest stay behind."""
    store, contents = filled(tmp_path / "blobs", 2)
    digest = list(contents)[25]
    assert store.remove(digest) == len(contents[digest])
    everything = b"".join(path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    assert (contents[digest] in everything, bytes.fromhex(digest) in everything) == (False, False)
    del contents[digest]
    assert_whole(store, contents)


def test_many_blobs_are_removed_with_one_rewrite_per_pack(tmp_path, monkeypatch) -> None:
    store, contents = filled(tmp_path / "blobs", 3)
    loose = store.put(b"loose")
    doomed = [digest for at, digest in enumerate(contents) if at < 40 and at % 2]
    rewritten = []
    commit = store._packs.commit
    monkeypatch.setattr(store._packs, "commit", lambda *args: (rewritten.append(1), commit(*args))[1])
    assert (
        store.remove_all([*doomed, loose, ABSENT, "no digest"]) == sum(len(contents[digest]) for digest in doomed) + 5
    )
    assert len(rewritten) == 2
    assert_whole(store, {digest: data for digest, data in contents.items() if digest not in doomed})


def test_removing_all_blobs_of_a_pack_removes_the_pack(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 2, num_blobs=3)
    store.remove_all(list(contents)[:3])
    assert num_packs(store) == 1
    store.remove_all(contents)
    assert sorted(path.name for path in store.root.rglob("*") if path.is_file()) == ["lock"]


def test_a_blob_is_removed_from_an_open_batch(tmp_path) -> None:
    store = BlobStore(tmp_path / "blobs")
    with store.batch():
        digest, other = store.put(b"secret"), store.put(b"other")
        assert store.remove(digest) == 6
        assert (digest in store, other in store) == (False, True)
    assert list(BlobStore(store.root).digests()) == [other]


def test_a_quarantined_blob_is_repaired_by_a_put(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 1)
    digest = next(iter(contents))
    rot(store, digest)
    assert store.quarantine(digest, reason="found by fsck") == 1
    assert (digest in store, store.verify(digest)) == (False, "missing")
    store.put(contents[digest], extension="txt")
    assert_whole(store, contents)


@pytest.mark.parametrize("is_packed", [True, False])
def test_the_quarantine_keeps_the_damaged_bytes_and_the_reason(tmp_path, is_packed) -> None:
    store = BlobStore(tmp_path / "blobs")
    if is_packed:
        with store.batch():
            digest = store.put(b"fox", extension="txt")
    else:
        digest = store.put(b"fox", extension="txt")
    rot(store, digest)
    store.quarantine(digest, reason="found by fsck")
    kept = {path.name: path.read_bytes() for path in (store.root / "quarantine").iterdir()}
    assert kept.pop(f"{digest}.0.damaged") == b"fo" + bytes([ord("x") ^ 0xFF])
    assert json.loads(kept.popitem()[1]) == {"digest": digest, "extension": "txt", "reason": "found by fsck"}
    assert list(store.digests()) == []


def test_a_sound_blob_is_not_quarantined(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 1)
    contents[store.put(b"loose")] = b"loose"
    assert [store.quarantine(digest, reason="a mistake") for digest in (*contents, ABSENT, "no digest")] == [0] * (
        len(contents) + 2
    )
    assert_whole(store, contents)


def test_a_damaged_header_is_repaired_by_quarantine_where_the_bytes_are_sound(tmp_path) -> None:
    store, contents = filled(tmp_path / "blobs", 1)
    digest = next(iter(contents))
    path, offset, _ = place_of(store, digest)
    data = bytearray(path.read_bytes())
    data[offset - 1] ^= 1
    path.write_bytes(data)
    assert store.verify(digest) == "corrupt"
    assert store.quarantine(digest, reason="header") == 1
    assert store.verify(digest) is None
    assert_whole(store, contents)


def test_two_damaged_copies_are_both_kept_aside(tmp_path) -> None:
    store = BlobStore(tmp_path / "blobs")
    for number in range(2):
        digest = store.put(b"fox")
        rot(store, digest)
        assert store.quarantine(digest, reason=f"time {number}") == 1
    assert len(list((store.root / "quarantine").glob("*.damaged"))) == 2
