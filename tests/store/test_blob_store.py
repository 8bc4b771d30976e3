"""What the blob store promises while nothing goes wrong, and what it says when bytes are gone or changed."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.store import BlobStore
from tests.blobs import file_of

FOX = b"the quick brown fox"
# printf 'the quick brown fox' | sha256sum
FOX_DIGEST = "9ecb36561341d18eb65484e833efea61edc74b84cf5e6ae1b81c63533e25fc8f"
ABSENT = "0" * 64


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


class Endless(io.RawIOBase):
    """A stream of so many zero bytes that holds none of them."""

    def __init__(self, size: int) -> None:
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = min(len(buffer), self._left)
        buffer[:count] = bytes(count)
        self._left -= count
        return count


class Plain:
    """A stream with `read` alone, as some HTTP clients give it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        head, self._data = self._data[:size], self._data[size:]
        return head


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_a_digest_is_the_sha256_of_the_bytes(store) -> None:
    assert store.put(FOX) == FOX_DIGEST


def test_a_blob_lies_under_the_first_four_characters_of_its_digest(store) -> None:
    digest = store.put(FOX, extension="txt")
    assert file_of(store, digest) == store.root / digest[:2] / digest[2:4] / f"{digest}.txt"


@pytest.mark.parametrize("data", [b"", b"x", FOX, bytes(3 << 20)], ids=["empty", "one byte", "short", "three chunks"])
def test_what_is_put_is_read_back(store, data) -> None:
    assert store.read(store.put(data)) == data


@pytest.mark.parametrize(
    "data", [b"", b"x", FOX, os.urandom((2 << 20) + 7)], ids=["empty", "one byte", "short", "over two chunks"]
)
def test_a_stream_gives_the_digest_and_size_of_its_bytes(store, data) -> None:
    assert store.put_stream(io.BytesIO(data)) == (hashlib.sha256(data).hexdigest(), len(data))


@pytest.mark.parametrize("num_taken", [0, 1, 300_000, 5 << 20, 6 << 20])
def test_what_was_taken_from_a_stream_before_belongs_to_its_blob(store, num_taken) -> None:
    data = bytes(range(256)) * (6 << 12)
    stream = io.BytesIO(data)
    head = stream.read(num_taken)
    assert store.put_stream(stream, head=head) == (hashlib.sha256(data).hexdigest(), len(data))
    assert store.read(hashlib.sha256(data).hexdigest()) == data


@pytest.mark.parametrize(
    "stream",
    [io.BytesIO(FOX), Plain(FOX), io.BufferedReader(io.BytesIO(FOX))],
    ids=["BytesIO", "read alone", "BufferedReader"],
)
def test_every_kind_of_stream_is_read_to_its_end(store, stream) -> None:
    digest, _ = store.put_stream(stream)
    assert store.read(digest) == FOX


def test_a_stream_is_read_from_where_it_stands(store) -> None:
    stream = io.BytesIO(b"head" + FOX)
    stream.seek(4)
    assert store.put_stream(stream) == (FOX_DIGEST, len(FOX))


def test_a_stream_that_would_block_is_refused_rather_than_cut_short(store) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with (
        os.fdopen(reader, "rb", buffering=0) as stream,
        os.fdopen(writer, "wb"),
        pytest.raises(BlockingIOError, match="blocking stream"),
    ):
        store.put_stream(stream)


def test_a_stream_is_never_held_in_memory(store) -> None:
    tracemalloc.start()
    store.put_stream(Endless(32 << 20))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 6 << 20


def test_a_memoryview_is_stored_like_its_bytes(store) -> None:
    assert store.put(memoryview(b"__" + FOX)[2:]) == FOX_DIGEST


@pytest.mark.parametrize("extension", ["bin", "txt"])
def test_the_same_bytes_are_one_file_whatever_the_extension(store, extension) -> None:
    store.put(FOX)
    store.put(FOX, extension=extension)
    store.put_stream(io.BytesIO(FOX), extension=extension)
    assert [Path(name).name for name in files(store.root)] == [f"{FOX_DIGEST}.bin"]


def test_a_blob_is_never_rewritten(store) -> None:
    before = os.stat(file_of(store, store.put(FOX)))
    store.put(FOX)
    store.put_stream(io.BytesIO(FOX))
    after = os.stat(file_of(store, FOX_DIGEST))
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_a_stream_leaves_nothing_in_the_incoming_directory(store) -> None:
    store.put_stream(io.BytesIO(FOX))
    store.put_stream(io.BytesIO(FOX))
    assert os.listdir(store.root / "incoming") == []


def test_a_stream_is_written_on_the_file_system_of_the_store(store) -> None:
    """Else the rename would be a copy, or fail."""
    digest, _ = store.put_stream(io.BytesIO(FOX))
    assert os.stat(store.root / "incoming").st_dev == os.stat(file_of(store, digest)).st_dev


@pytest.mark.parametrize(
    ("extension", "kept"),
    [
        ("jpg", "jpg"),
        ("JPG", "jpg"),
        (".png", "png"),
        ("tar.gz", "tar.gz"),
        ("svg+xml", "svg+xml"),
        ("mp4", "mp4"),
        ("x" * 32, "x" * 32),
        ("apart", "apart"),
    ]
    + [
        (bad, "bin")
        for bad in (
            "",
            ".",
            "..",
            "a/b",
            "../../etc/passwd",
            "/abs",
            "a\0b",
            "a\nb",
            "part",
            "PART",
            "jpg.part",
            "a..b",
            "jpg.",
            "x" * 33,
            "-rf",
            "ä",
            "a b",
        )
    ],
)
def test_an_extension_cannot_lead_out_of_its_place(store, extension, kept) -> None:
    store.put(FOX, extension=extension)
    assert files(store.root) == [f"{FOX_DIGEST[:2]}/{FOX_DIGEST[2:4]}/{FOX_DIGEST}.{kept}"]


def test_digests_are_listed_sorted_and_once(store) -> None:
    digests = [store.put(bytes([number])) for number in range(40)]
    file_of(store, digests[0]).with_suffix(".twin").write_bytes(b"\0")
    assert list(store.digests()) == sorted(digests)


def test_an_empty_store_lists_nothing(store) -> None:
    assert list(store.digests()) == []


def test_strange_files_are_no_blobs(store) -> None:
    home = file_of(store, store.put(FOX)).parent
    for name in (
        "README",
        f"{ABSENT}.bin",
        f"{FOX_DIGEST}",
        f"{FOX_DIGEST}.bin.part",
        FOX_DIGEST[:40] + ".bin",
        ".hidden",
    ):
        (home / name).touch()
    (store.root / "lost+found").mkdir()
    (store.root / "ab").write_bytes(b"a file where a directory should be")
    (store.root / "cd").mkdir()
    (store.root / "cd" / "00").write_bytes(b"another")
    assert list(store.digests()) == [FOX_DIGEST]


def test_strange_names_among_the_incoming_are_left_alone(store) -> None:
    incoming = store.root / "incoming"
    incoming.mkdir(parents=True)
    (incoming / f"{FOX_DIGEST}.bin").write_bytes(b"not the fox")
    (incoming / "notes").mkdir()
    store.put_stream(io.BytesIO(FOX))
    assert (list(store.digests()), store.read(FOX_DIGEST), sorted(os.listdir(incoming))) == (
        [FOX_DIGEST],
        FOX,
        [f"{FOX_DIGEST}.bin", "notes"],
    )


@pytest.mark.parametrize("call", ["read", "open", "size", "extension"])
def test_a_missing_blob_says_what_to_do(store, call) -> None:
    with pytest.raises(BlobMissing, match=rf"{ABSENT}.*{re.escape(str(store.root))}.*fsck.*ingest"):
        getattr(store, call)(ABSENT)


def test_a_missing_blob_has_no_file(store) -> None:
    with pytest.raises(BlobMissing), store.local(ABSENT):
        pass


@pytest.mark.parametrize(
    "name", ["", "ab", "../../etc/passwd", FOX_DIGEST.upper(), FOX_DIGEST + "\n", FOX_DIGEST[:63], "/" * 64, "\0" * 64]
)
def test_what_is_no_digest_names_no_blob(store, name) -> None:
    store.put(FOX)
    assert (name in store, store.verify(name)) == (False, "missing")


def test_size_is_known_without_reading(store) -> None:
    assert store.size(store.put(FOX)) == len(FOX)


@pytest.mark.parametrize(
    "harmed", [b"uhe quick brown fox", FOX[:-1], FOX + b"\0", b""], ids=["bit", "cut", "longer", "emptied"]
)
def test_changed_bytes_are_noticed(store, harmed) -> None:
    file_of(store, store.put(FOX)).write_bytes(harmed)
    assert store.verify(FOX_DIGEST) == "corrupt"
    with pytest.raises(BlobCorrupt, match=f"{FOX_DIGEST}.*fsck"):
        store.read(FOX_DIGEST)


def test_verify_distinguishes_sound_from_missing(store) -> None:
    assert (store.verify(store.put(FOX)), store.verify(ABSENT)) == (None, "missing")


def test_a_corrupt_blob_is_repaired_by_removing_it_and_putting_it_again(store) -> None:
    file_of(store, store.put(FOX)).write_bytes(b"rot")
    freed = store.remove(FOX_DIGEST)
    store.put(FOX)
    assert (freed, store.verify(FOX_DIGEST)) == (3, None)


def test_removing_what_is_absent_frees_nothing(store) -> None:
    assert store.remove(ABSENT) == 0


def test_a_removed_blob_is_gone(store) -> None:
    store.remove(store.put(FOX))
    assert (FOX_DIGEST in store, files(store.root)) == (False, [])


def test_eight_threads_put_the_same_bytes_as_one_file(store) -> None:
    """Also under eight extensions, and the file that a reader may have opened stays the file."""
    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            data = bytes([number]) * 1000
            assert set(pool.map(lambda at, data=data: store.put(data, extension=f"x{at}"), range(8))) == {
                hashlib.sha256(data).hexdigest()
            }
    assert len(files(store.root)) == 10


def test_eight_threads_put_different_bytes(store) -> None:
    contents = [number.to_bytes(2, "big") * 500 for number in range(80)]
    with ThreadPoolExecutor(8) as pool:
        digests = list(
            pool.map(
                lambda at: store.put(contents[at]) if at % 2 else store.put_stream(io.BytesIO(contents[at]))[0],
                range(80),
            )
        )
    assert [store.read(digest) for digest in digests] == contents


@contextmanager
def unprivileged():
    """Runs the block as a user whom permissions bind; root is bound by none."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "put", [lambda store: store.put(FOX), lambda store: store.put_stream(io.BytesIO(FOX))], ids=["put", "put_stream"]
)
def test_a_read_only_store_refuses_loudly(put) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with unprivileged(), pytest.raises(PermissionError):
            put(BlobStore(folder))
        os.chmod(folder, 0o755)


def test_a_file_in_the_place_of_the_store_is_an_error(tmp_path) -> None:
    (tmp_path / "blobs").write_bytes(b"")
    with pytest.raises(OSError, match="blobs"):
        BlobStore(tmp_path / "blobs").put(FOX)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.binary(max_size=300), st.text(max_size=12), st.booleans()), max_size=6))
def test_any_bytes_under_any_extension_come_back(puts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(folder)
        for data, extension, streamed in puts:
            _ = (
                store.put_stream(io.BytesIO(data), extension=extension)
                if streamed
                else store.put(data, extension=extension)
            )
        assert {digest: store.read(digest) for digest in store.digests()} == {
            hashlib.sha256(data).hexdigest(): data for data, _, _ in puts
        }
