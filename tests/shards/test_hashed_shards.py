"""What was hashed is not hashed again while it has not changed, whichever version asks."""

from __future__ import annotations

import hashlib
import os
import random
import time
from pathlib import Path

import pytest

from mmlake import checked_json
from mmlake.shards import HashedFiles, ShardIndex, ShardSettings, remove_unnamed, verify_shards
from mmlake.shards.hashed import identity
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

FIRST, SECOND = "ab" * 32, "cd" * 32
LATELY = 10_000_000_000  # ns: when a file changed of which a change would be seen


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def known(tmp_path) -> Path:
    return tmp_path / "kept" / "shards.hashed"


@pytest.fixture
def hashes(monkeypatch) -> list[str]:
    """The files that are hashed, by name."""
    found: list[str] = []
    digest = hashlib.file_digest

    def counted(file, name):
        found.append(Path(file.name).name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return found


def pictures(store: BlobStore, shard: str, count: int = 3) -> list[dict]:
    rng = random.Random(shard)
    return [sample([part(store, rng.randbytes(5_000))], shard=shard) for _ in range(count)]


def write(rows: list[dict], store: BlobStore, out: Path, known: Path, version: str = FIRST, **arguments) -> ShardIndex:
    """The shards, whose objects have lain there for a while."""
    index = shards_of(rows, store, out, manifest_id=version, hashed=HashedFiles(known), **arguments)
    for path in (out / "objects").glob("??/*"):
        changed = path.stat().st_mtime_ns
        if time.time_ns() - changed < LATELY // 2:  # once
            os.utime(path, ns=(changed, changed - LATELY))
    return index


def damage(path: Path) -> None:
    """A bit that a disk lost: its file system knows of no change."""
    facts = path.stat()
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_a_version_hashes_what_no_version_before_it_has_hashed(store, tmp_path, known, hashes) -> None:
    old = [row for number in range(4) for row in pictures(store, f"image/{number}.tar")]
    first = write(old, store, tmp_path, known)
    assert hashes == []  # on the way, while they were written
    assert verify_shards(first.directory, hashed=HashedFiles(known), only_new=True) == []
    assert sorted(hashes) == [f"image-{number:06d}.tar" for number in range(4)]
    hashes.clear()
    second = write([*old, *pictures(store, "image/new.tar")], store, tmp_path, known, SECOND)
    assert (len(second.shards), hashes) == (5, [])
    assert verify_shards(second.directory, hashed=HashedFiles(known), only_new=True) == []
    assert len(hashes) == 1


@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_a_changed_file_is_hashed_and_found(store, tmp_path, known, format: str) -> None:
    rows = [sample([text(store, f"{number} stones lie at the ford")], shard="text/a.jsonl") for number in range(5)]
    index = write(rows, store, tmp_path, known, settings=ShardSettings(small=format))
    assert verify_shards(index.directory, hashed=HashedFiles(known)) == []
    [path] = index.directory.glob(f"*.{format}")
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    assert len(verify_shards(index.directory, hashed=HashedFiles(known), only_new=True)) == 1


def test_a_lost_bit_is_found_by_hashing_all_and_then_repaired(store, tmp_path, known) -> None:
    rows = pictures(store, "image/a.tar")
    index = write(rows, store, tmp_path, known)
    assert verify_shards(index.directory, hashed=HashedFiles(known)) == []
    damage(index.directory / "image-000000.tar")
    assert verify_shards(index.directory, hashed=HashedFiles(known), only_new=True) == []
    assert len(verify_shards(index.directory, hashed=HashedFiles(known))) == 1
    assert len(verify_shards(index.directory, hashed=HashedFiles(known), only_new=True)) == 1
    write(rows, store, tmp_path, known)
    assert verify_shards(index.directory) == []


def test_a_pass_over_versions_hashes_what_they_share_once(store, tmp_path, known, hashes) -> None:
    rows = pictures(store, "image/a.tar")
    indexes = [write(rows, store, tmp_path, known, version) for version in (FIRST, SECOND)]
    for _ in range(2):
        hashes.clear()
        hashed = HashedFiles(known, begins_anew=True)
        assert [verify_shards(one.directory, hashed=hashed, only_new=True) for one in indexes] == [[], []]
        assert len(hashes) == 1


def test_an_index_that_says_something_else_is_compared_again(store, tmp_path, known, hashes) -> None:
    """Its file is known, and what the entry says of it is not."""
    index = write(pictures(store, "image/a.tar"), store, tmp_path, known)
    verify_shards(index.directory, hashed=HashedFiles(known))
    path = index.directory / "index.json"
    body = checked_json.loads(path.read_bytes())
    body["shards"][0]["num_members"] -= 1
    path.write_bytes(checked_json.dumps(body))
    assert "differ" in verify_shards(index.directory, hashed=HashedFiles(known), only_new=True)[0]


def test_a_file_that_has_just_changed_is_not_noted(store, tmp_path, known, hashes) -> None:
    index = write(pictures(store, "image/a.tar"), store, tmp_path, known)
    [path] = (tmp_path / "objects").glob("??/*.tar")
    os.utime(path)
    for _ in range(2):
        hashes.clear()
        verify_shards(index.directory, hashed=HashedFiles(known), only_new=True)
        assert len(hashes) == 1


def test_a_file_that_changes_while_it_is_hashed_is_not_noted(tmp_path, known) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(b"before")
    os.utime(path, ns=(0, 0))
    before = identity(path)
    path.write_bytes(b"after it")
    os.utime(path, ns=(1, 1))
    hashed = HashedFiles(known)
    hashed.add("a.tar", path, "proof", before=before)
    assert not hashed.proves("a.tar", path, "proof")


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"checksum":"00","files":{}}', b'{"files":{"a.tar":3}}', b'{"files":[]}']
)
def test_where_what_was_known_is_damaged_all_is_hashed(store, tmp_path, known, hashes, data: bytes) -> None:
    index = write(pictures(store, "image/a.tar"), store, tmp_path, known)
    verify_shards(index.directory, hashed=HashedFiles(known))
    known.write_bytes(data)
    hashes.clear()
    assert verify_shards(index.directory, hashed=HashedFiles(known), only_new=True) == []
    assert len(hashes) == 1


def test_two_processes_put_together_what_they_found_and_damage_stays_forgotten(tmp_path, known) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"data")
        os.utime(tmp_path / name, ns=(0, 0))

    def noted(hashed: HashedFiles, name: str) -> None:
        hashed.add(name, tmp_path / name, "proof", before=identity(tmp_path / name))

    before = HashedFiles(known)
    noted(before, "a")
    before.save()
    one, other = HashedFiles(known), HashedFiles(known)
    noted(one, "b")
    noted(other, "c")
    other.forget("a")
    other.save()
    one.save()
    now = HashedFiles(known)
    assert [now.proves(name, tmp_path / name, "proof") for name in "abc"] == [False, True, True]


def test_what_is_collected_is_known_no_longer(store, tmp_path, known) -> None:
    index = write(pictures(store, "image/a.tar"), store, tmp_path, known)
    other = write(pictures(store, "image/b.tar"), store, tmp_path, known, SECOND)
    for one in (index, other):
        verify_shards(one.directory, hashed=HashedFiles(known))
    assert known.read_bytes().count(b'.tar"') == 2
    remove_unnamed(tmp_path, [FIRST], hashed=HashedFiles(known))
    assert known.read_bytes().count(b'.tar"') == 1


def test_a_lake_that_cannot_be_written_is_verified(store, tmp_path, known, monkeypatch) -> None:
    index = write(pictures(store, "image/a.tar"), store, tmp_path, known)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("mmlake.shards.hashed.write_atomically", refused)
    assert verify_shards(index.directory, hashed=HashedFiles(known), only_new=True) == []


def test_of_one_file_the_latest_proofs_are_kept(tmp_path, known) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(b"data")
    os.utime(path, ns=(0, 0))
    hashed = HashedFiles(known)
    for number in range(40):
        hashed.add("a.tar", path, str(number), before=identity(path))
    hashed.save()
    now = HashedFiles(known)
    assert [number for number in range(40) if now.proves("a.tar", path, str(number))] == list(range(24, 40))
