"""A directory of many packs: what a batch costs hardly grows with those that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake.records import digest_of
from mmlake.store import BlobStore, pack_directory

COUNT = 40


class Parsed:
    """Stands for the pattern of a pack's name, and keeps what it was asked."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._pattern = pack_directory._NAME

    def fullmatch(self, name: str):
        self.names.append(name)
        return self._pattern.fullmatch(name)


def put_each(store: BlobStore, numbers: range) -> list[str]:
    found = []
    for number in numbers:
        with store.batch():
            found.append(store.put(b"blob %d" % number))
        assert digest_of(b"none %d" % number) not in store  # which lists the directory
    return found


def test_a_batch_parses_the_names_that_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parsed those of all packs: of 2,000 batches most of the time went there."""
    parsed = Parsed()
    monkeypatch.setattr(pack_directory, "_NAME", parsed)
    store = BlobStore(tmp_path)
    put_each(store, range(COUNT))
    assert 2 * COUNT <= len(parsed.names) < 4 * COUNT


def test_packs_of_others_that_come_and_go_are_seen(tmp_path: Path) -> None:
    ours, theirs = BlobStore(tmp_path), BlobStore(tmp_path)
    digests = put_each(ours, range(3)) + put_each(theirs, range(3, 6)) + put_each(ours, range(6, 9))
    assert sorted(ours.digests()) == sorted(theirs.digests()) == sorted(digests)
    assert theirs.compact(max_small=1) > 0
    assert [ours.read(digest) for digest in digests] == [b"blob %d" % number for number in range(9)]
    assert len(ours._packs.all()) == len(theirs._packs.all())


def test_an_index_that_was_damaged_is_read_once_it_is_sound(tmp_path: Path) -> None:
    digest = put_each(BlobStore(tmp_path), range(1))[0]
    (path,) = (tmp_path / "packs").glob("*.idx")
    sound = path.read_bytes()
    path.write_bytes(b"damaged")
    store = BlobStore(tmp_path)
    assert digest not in store
    path.write_bytes(sound)
    store._packs.forget()  # as another pack that comes does
    assert store.read(digest) == b"blob 0"
