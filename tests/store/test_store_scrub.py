"""Hashing many blobs again: the same findings as one by one, in few reads."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from mmlake.store import BlobStore

SMALL = [random.Random(number).randbytes(3000 + number) for number in range(60)]
LARGE = bytes(300_000)
ABSENT = "0" * 64


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    """Two packs, which share a blob, and two files."""
    made = BlobStore(tmp_path / "blobs")
    for contents in (SMALL[:30], SMALL[29:]):
        other = BlobStore(tmp_path / "blobs")
        with other.batch():
            other._holds = lambda digest: False  # else the shared blob would not be written twice
            for data in contents:
                other.put(data, extension="txt")
    made.put(LARGE)
    made.put(SMALL[0] + b"alone")
    return made


def damage(store: BlobStore, data: bytes) -> None:
    """Change one byte in the first pack or file that holds the bytes."""
    for path in sorted(path for path in store.root.rglob("*") if path.suffix in (".pack", ".bin")):
        content = path.read_bytes()
        if (at := content.find(data)) >= 0:
            path.write_bytes(content[: at + 5] + bytes((content[at + 5] ^ 1,)) + content[at + 6 :])
            return
    raise AssertionError("nothing holds it")


def one_by_one(store: BlobStore, digests: list[str]) -> dict[str, str]:
    return {digest: wrong for digest in digests if (wrong := store.verify(digest)) is not None}


def all_digests() -> list[str]:
    return [*map(sha256, SMALL), sha256(LARGE), sha256(SMALL[0] + b"alone"), ABSENT, "../x"]


def test_a_sound_store_is_found_sound(store) -> None:
    assert dict(store.verify_all(store.digests())) == {}


@pytest.mark.parametrize(
    "data",
    [SMALL[3], SMALL[29], SMALL[59], LARGE, SMALL[0] + b"alone"],
    ids=["packed", "packed twice", "last", "large", "alone"],
)
def test_damage_is_found_as_one_by_one(store, data) -> None:
    damage(store, data)
    found = dict(store.verify_all(all_digests()))
    assert found == one_by_one(store, all_digests()) == {sha256(data): "corrupt", ABSENT: "missing", "../x": "missing"}


def test_a_damaged_header_is_found_as_one_by_one(store) -> None:
    path = next(store.root.glob("packs/*.pack"))
    content = bytearray(path.read_bytes())
    content[8 + 10] ^= 1  # in the digest of the first record
    path.write_bytes(content)
    found = dict(store.verify_all(all_digests()))
    assert (len(found), found) == (3, one_by_one(store, all_digests()))


def test_a_pack_that_is_cut_short_loses_the_blobs_behind(store) -> None:
    path = next(path for path in store.root.glob("packs/*.pack") if SMALL[59] in path.read_bytes())
    os.truncate(path, path.stat().st_size // 2)
    found = dict(store.verify_all(all_digests()))
    assert found == one_by_one(store, all_digests())
    assert len(found) > 10


def test_blobs_of_an_open_batch_are_sound(store) -> None:
    with store.batch():
        digest = store.put(b"fresh")
        assert dict(store.verify_all([digest])) == {}


def test_every_blob_is_counted_once(store) -> None:
    damage(store, SMALL[3])
    advanced: list[int] = []
    list(store.verify_all(all_digests(), advance=advanced.append))
    assert sum(advanced) == len(all_digests())


def test_a_pack_is_read_in_one_piece_and_a_sample_in_pieces(store, monkeypatch) -> None:
    from mmlake.store.pack_directory import Pack

    reads: list[int] = []
    read = Pack.read
    monkeypatch.setattr(Pack, "read", lambda self, offset, size: (reads.append(size), read(self, offset, size))[1])
    list(store.verify_all(map(sha256, SMALL)))
    assert len(reads) == 2
    reads.clear()
    list(store.verify_all([sha256(SMALL[1]), sha256(SMALL[28])]))  # 85 kB apart
    assert reads == [len(SMALL[1]) + 76, len(SMALL[28]) + 76]


def test_a_pack_that_goes_while_it_is_read_is_searched_for_again(store, monkeypatch) -> None:
    from mmlake.store.pack_directory import Pack

    other, read, merged = BlobStore(store.root), Pack.read, []

    def merging(self: Pack, offset: int, size: int) -> bytes:
        if not merged:
            merged.append(1)
            other.compact(max_small=1)
        return read(self, offset, size)

    monkeypatch.setattr(Pack, "read", merging)
    assert dict(store.verify_all(map(sha256, SMALL))) == {}
