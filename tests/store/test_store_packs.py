"""Small blobs of a batch: packed, found at once, whole, and repaired when damaged."""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.store import PACKED_BELOW_BYTES, BlobStore, PackIndex, PackWriter, parse_record, scan
from mmlake.store.pack_file import HEADER_BYTES
from tests.blobs import place_of, rot

ROOT = Path(__file__).parents[2]
CONTENTS = [b"", b"x", *(number.to_bytes(2, "big") * 700 for number in range(30))]
ABSENT = "0" * 64


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packs(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "packs").glob("*.pack"))


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def packed(store) -> BlobStore:
    """A store with one pack of everything in CONTENTS."""
    with store.batch():
        for data in CONTENTS:
            store.put(data, extension="dat")
    return store


def test_the_small_blobs_of_a_batch_are_one_pack(packed) -> None:
    assert sorted(path.suffix for path in packed.root.rglob("*") if path.is_file()) == [".idx", ".pack"]
    assert (packed.stats().num_packed, packed.stats().packed_bytes, packed.stats().num_packs) == (
        len(CONTENTS),
        sum(map(len, CONTENTS)),
        1,
    )


def test_another_object_reads_what_a_batch_packed(packed) -> None:
    assert [BlobStore(packed.root).read(sha256(data)) for data in CONTENTS] == CONTENTS


def test_a_pack_is_named_by_the_checksum_of_its_index(packed) -> None:
    (path,) = (packed.root / "packs").glob("*.idx")
    data = path.read_bytes()
    assert path.stem == sha256(data[:-32]) == data[-32:].hex() == PackIndex(data).name


def test_the_pack_begins_with_a_record_as_the_format_says(store) -> None:
    """The format is a promise to later readers: magic, size, digest, extension, CRC-32, bytes."""
    import zlib

    with store.batch():
        store.put(b"fox", extension="txt")
    front = b"\x89MMB" + (3).to_bytes(4, "big") + bytes.fromhex(sha256(b"fox")) + b"txt".ljust(32, b"\0")
    (name,) = packs(store.root)
    assert (store.root / "packs" / name).read_bytes() == b"mmlpak1\n" + front + zlib.crc32(front).to_bytes(
        4, "big"
    ) + b"fox"


@pytest.mark.parametrize("data", [b"fox", b"", bytes(PACKED_BELOW_BYTES - 1)], ids=["short", "empty", "largest"])
def test_a_blob_is_there_before_its_batch_ends(store, data) -> None:
    with store.batch():
        digest = store.put(data, extension="txt")
        with store.local(digest) as path:
            assert (
                store.read(digest),
                store.size(digest),
                store.extension(digest),
                digest in store,
                path.read_bytes(),
            ) == (data, len(data), "txt", True, data)
        assert (store.verify(digest), store.open(digest).read(), BlobStore(store.root).verify(digest)) == (
            None,
            data,
            "missing",
        )


def test_what_has_left_the_buffer_is_read_before_the_batch_ends(store) -> None:
    contents = [random.Random(number).randbytes(200_000) for number in range(30)]
    with store.batch():
        digests = [store.put(data) for data in contents]
        assert [store.read(digest) for digest in digests] == contents
    assert [BlobStore(store.root).read(digest) for digest in digests] == contents


@pytest.mark.parametrize(
    ("size", "num_packed"), [(PACKED_BELOW_BYTES - 1, 1), (PACKED_BELOW_BYTES, 0), (PACKED_BELOW_BYTES + 1, 0)]
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_only_blobs_below_256_kib_are_packed(store, size, num_packed, is_stream) -> None:
    data = random.Random(size).randbytes(size)
    with store.batch():
        _ = store.put_stream(io.BytesIO(data)) if is_stream else store.put(data)
    assert (store.stats().num_packed, store.stats().num_loose, store.read(sha256(data)) == data) == (
        num_packed,
        1 - num_packed,
        True,
    )


def test_a_put_outside_of_a_batch_is_a_file(store) -> None:
    store.put(b"fox")
    assert (store.stats().num_loose, store.stats().num_packed) == (1, 0)


def test_a_batch_without_small_blobs_leaves_no_pack(store) -> None:
    with store.batch():
        pass
    assert packs(store.root) == []


def test_equal_batches_give_one_equal_pack(store, tmp_path) -> None:
    """A run that is tried again after a power cut replaces what it left by the same."""
    other = BlobStore(tmp_path / "other")
    for one in (store, other):
        with one.batch():
            for data in CONTENTS:
                one.put(data)
    assert packs(store.root) == packs(other.root)


def test_known_blobs_are_not_packed_again(packed) -> None:
    loose = packed.put(b"a file")
    with packed.batch():
        for data in (*CONTENTS, b"a file"):
            packed.put(data)
    assert (len(packs(packed.root)), packed.put(b"x"), packed.stats().num_loose) == (1, sha256(b"x"), 1)
    assert loose in packed


def test_a_nested_batch_joins_the_outer_one(store) -> None:
    with store.batch():
        with store.batch():
            store.put(b"inner")
        assert packs(store.root) == []
        store.put(b"outer")
    assert (len(packs(store.root)), store.stats().num_packed) == (1, 2)


def test_a_batch_that_raises_keeps_what_was_put(store) -> None:
    def fail() -> None:
        with store.batch():
            store.put(b"fox")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert BlobStore(store.root).read(sha256(b"fox")) == b"fox"


def test_threads_share_a_batch_and_each_is_durable_at_its_own_end(store) -> None:
    def work(number: int) -> bool:
        with store.batch():
            digests = [store.put(f"{number}-{at}".encode()) for at in range(50)] + [store.put(b"common")]
            assert all(store.verify(digest) is None for digest in digests)
        return all(digest in BlobStore(store.root) for digest in digests)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
    # of two batches at once each may hold what is common
    assert (len(list(store.digests())), store.stats().num_packed) == (8 * 50 + 1,) * 2


def test_a_forked_child_does_not_write_into_the_batch_of_its_parent(store) -> None:
    code = """
import os, sys, warnings
from mmlake.store import BlobStore
store = BlobStore(sys.argv[1])
with store.batch():
    store.put(b"parent" * 10)
    child = os.fork()
    if child == 0:
        store.put(b"child" * 10)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.put(b"again" * 10)
"""
    subprocess.run([sys.executable, "-c", code, store.root], cwd=ROOT, check=True)
    assert sorted(store.read(digest)[:5] for digest in store.digests()) == [b"again", b"child", b"paren"]


def test_memory_does_not_grow_with_a_batch(store) -> None:
    rng = random.Random(0)
    with store.batch():
        store.put(rng.randbytes(1000))
        tracemalloc.start()
        for _ in range(200):
            store.put(rng.randbytes(200_000))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak_bytes < 4 << 20


def test_large_batches_are_several_packs(store, monkeypatch) -> None:
    monkeypatch.setattr("mmlake.store.batch._MAX_RECORDS", 10)
    with store.batch():
        digests = [store.put(data) for data in CONTENTS]
    assert (len(packs(store.root)), [store.verify(digest) for digest in digests]) == (4, [None] * len(CONTENTS))


def test_processes_pack_at_once(store) -> None:
    code = (
        "import sys; from mmlake.store import BlobStore; store = BlobStore(sys.argv[1])\nwith store.batch():\n  for "
        "at in range(300): store.put(b'%d-%d' % (at % 2 * int(sys.argv[2]), at))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, store.root, str(number)], cwd=ROOT) for number in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    expected = {sha256(b"%d-%d" % (at % 2 * number, at)) for at in range(300) for number in range(3)}
    assert list(store.digests()) == sorted(expected)
    assert {store.verify(digest) for digest in expected} == {None}


def test_an_open_store_sees_the_packs_of_others(store) -> None:
    for number in range(5):
        assert sha256(b"%d" % number) not in store
        other = BlobStore(store.root)
        with other.batch():
            other.put(b"%d" % number)
        assert store.read(sha256(b"%d" % number)) == b"%d" % number


def test_a_blob_in_a_pack_and_loose_is_listed_once(packed, tmp_path) -> None:
    twin = BlobStore(tmp_path / "twin")
    path, _, _ = place_of(twin, twin.put(CONTENTS[5]))
    target = packed.root / path.relative_to(twin.root)
    target.parent.mkdir(parents=True)
    os.rename(path, target)
    assert list(packed.digests()) == sorted(map(sha256, CONTENTS))
    packed.remove(sha256(CONTENTS[5]))
    assert sha256(CONTENTS[5]) not in BlobStore(packed.root)


def test_a_packed_blob_is_a_seekable_file_and_can_be_read_by_range(packed) -> None:
    data = CONTENTS[7]
    with packed.open(sha256(data)) as file:
        assert (file.seek(-5, os.SEEK_END), file.read(), file.seek(3), file.read(4)) == (
            len(data) - 5,
            data[-5:],
            3,
            data[3:7],
        )
    assert (packed.read_range(sha256(data), 10, 20), packed.read_range(sha256(data), len(data) - 1, 20)) == (
        data[10:30],
        data[-1:],
    )


@pytest.mark.parametrize(
    ("extension", "kept"),
    [
        ("JPG", "jpg"),
        ("tar.gz", "tar.gz"),
        ("x" * 32, "x" * 32),
        ("x" * 33, "bin"),
        ("../a", "bin"),
        ("", "bin"),
        ("ä", "bin"),
        ("a\0", "bin"),
    ],
)
def test_a_packed_blob_keeps_its_extension(store, extension, kept) -> None:
    with store.batch():
        digest = store.put(b"fox", extension=extension)
    with store.local(digest) as path:
        assert (store.extension(digest), path.name.endswith(f".{kept}"), path.read_bytes()) == (kept, True, b"fox")
    assert not path.exists()


@pytest.mark.parametrize("call", ["read", "open", "size", "extension"])
def test_a_digest_that_no_pack_holds_is_missing(packed, call) -> None:
    with pytest.raises(BlobMissing):
        getattr(packed, call)(ABSENT)


def test_changed_bytes_in_a_pack_are_noticed(packed) -> None:
    rot(packed, sha256(CONTENTS[9]))
    assert [packed.verify(sha256(data)) for data in CONTENTS] == [
        "corrupt" if data is CONTENTS[9] else None for data in CONTENTS
    ]
    for call in (packed.read, packed.open):
        with pytest.raises(BlobCorrupt, match=sha256(CONTENTS[9])):
            call(sha256(CONTENTS[9]))


def test_every_flipped_bit_of_a_pack_is_noticed_or_harmless(store) -> None:
    """A flip in the magic of the file harms no blob; every other one is in exactly one record."""
    contents = [b"first", b"second", b"third"]
    with store.batch():
        digests = [store.put(data) for data in contents]
    (name,) = packs(store.root)
    path = store.root / "packs" / name
    sound = path.read_bytes()
    for at in range(8, len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        assert sorted(map(str, map(BlobStore(store.root).verify, digests))) == ["None", "None", "corrupt"]


def test_no_flipped_bit_of_an_index_gives_wrong_bytes(store) -> None:
    contents = [b"first", b"second", b"third"]
    with store.batch():
        digests = [store.put(data) for data in contents]
    (path,) = (store.root / "packs").glob("*.idx")
    sound = path.read_bytes()
    for at in (*range(24), *range(24, 1048, 37), *range(1048, len(sound))):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        harmed = BlobStore(store.root)
        for digest, data in zip(digests, contents, strict=True):
            try:
                assert harmed.read(digest) == data
            except (BlobMissing, BlobCorrupt):
                pass
        assert len(harmed.broken_packs()) == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    ],
    ids=["lost", "emptied", "changed"],
)
def test_a_lost_or_damaged_index_is_built_again(packed, harm) -> None:
    before = packs(packed.root)
    harm((packed.root / "packs" / before[0]).with_suffix(".idx"))
    store = BlobStore(packed.root)
    assert (len(store.broken_packs()), store.rebuild_indexes(), store.broken_packs()) == (1, 1, [])
    assert (packs(packed.root), [store.read(sha256(data)) for data in CONTENTS]) == (before, CONTENTS)


def test_a_damaged_header_costs_its_own_blob_when_the_index_is_lost(packed) -> None:
    path, offset, _ = place_of(packed, sha256(CONTENTS[9]))
    data = bytearray(path.read_bytes())
    data[offset - 10] ^= 1
    path.write_bytes(data)
    path.with_suffix(".idx").unlink()
    store = BlobStore(packed.root)
    assert store.rebuild_indexes() == 1
    assert [digest for digest in map(sha256, CONTENTS) if digest not in store] == [sha256(CONTENTS[9])]
    assert {store.verify(digest) for digest in store.digests()} == {None}


def test_a_cut_pack_keeps_its_whole_blobs(packed) -> None:
    (name,) = packs(packed.root)
    path = packed.root / "packs" / name
    path.write_bytes(path.read_bytes()[:-1])
    store = BlobStore(packed.root)
    assert [store.verify(sha256(data)) for data in CONTENTS] == [None] * (len(CONTENTS) - 1) + ["corrupt"]
    path.with_suffix(".idx").unlink()
    assert (BlobStore(packed.root).rebuild_indexes(), len(list(BlobStore(packed.root).digests()))) == (
        1,
        len(CONTENTS) - 1,
    )


def test_a_pack_inside_of_a_blob_is_no_trap(store) -> None:
    """Behind a damaged header the search must not take what a blob holds for a record with other bytes."""
    inner = bytearray()
    writer = PackWriter(inner.extend)
    writer.add(sha256(b"trap"), b"trap", extension="txt")
    inner[-1] ^= 1
    with store.batch():
        outer = store.put(bytes(inner))
        after = store.put(b"after")
    path, offset, _ = place_of(store, outer)
    data = bytearray(path.read_bytes())
    data[offset - HEADER_BYTES] ^= 1
    path.write_bytes(data)
    path.with_suffix(".idx").unlink()
    assert (store.rebuild_indexes(), list(BlobStore(store.root).digests())) == (1, [after])


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.binary(max_size=200), st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)),
        max_size=12,
        unique_by=lambda one: one[0],
    )
)
def test_what_is_written_to_a_pack_comes_back_by_index_and_by_scan(blobs) -> None:
    pack = bytearray()
    writer = PackWriter(pack.extend)
    entries = [writer.add(sha256(data), data, extension=extension) for data, extension in blobs]
    index = PackIndex(writer.index())

    def read(offset: int, size: int) -> bytes:
        return bytes(pack[offset : offset + size])

    assert index.is_sound and index.pack_bytes == len(pack)
    assert list(scan(read, len(pack))) == entries == [index.find(sha256(data)) for data, _ in blobs]
    assert list(index) == sorted(entries)
    records = [
        parse_record(read(entry.offset - HEADER_BYTES, HEADER_BYTES + entry.size_bytes), entry) for entry in entries
    ]
    assert [(record.data, record.extension, record.is_sound) for record in records] == [(*blob, True) for blob in blobs]


def test_blobs_that_are_where_they_were_are_read_without_asking_for_the_directory(packed, monkeypatch) -> None:
    assert packed.read(sha256(CONTENTS[1])) == CONTENTS[1]
    asked = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, *args, **named: asked.append(str(path)) or stat(path, *args, **named))
    assert [packed.read(sha256(data)) for data in CONTENTS] == CONTENTS
    assert [path for path in asked if path.endswith("packs")] == []
    packed.remove(sha256(CONTENTS[2]))
    with pytest.raises(BlobMissing):
        BlobStore(packed.root).read(sha256(CONTENTS[2]))
    with pytest.raises(BlobMissing):
        packed.read(sha256(CONTENTS[2]))
