"""A batch when something goes wrong in the middle: killed between any two system calls, refused calls, a full disk."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from refused_calls import Refusing

from mmlake.store import BlobStore

ROOT = Path(__file__).parents[2]
CONTENTS = [b"first" * 10, b"", bytes(300_000), b"first" * 10, b"last"]  # one of them large: a file of its own
ABSENT = "0" * 64


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put_all(root: Path) -> None:
    store = BlobStore(root)
    with store.batch():
        for data in CONTENTS:
            store.put(data)


def assert_nothing_is_torn(root: Path) -> None:
    """What is listed is whole, what is not listed is a leftover, and no index is without its pack."""
    store = BlobStore(root)
    assert {store.verify(digest) for digest in store.digests()} <= {None}
    for path in root.glob("packs/*.idx"):
        assert path.with_suffix(".pack").exists()


def assert_a_rerun_converges(root: Path) -> None:
    put_all(root)
    assert list(BlobStore(root).digests()) == sorted(set(map(sha256, CONTENTS)))
    assert_nothing_is_torn(root)
    assert BlobStore(root).broken_packs() == []


DYING = """
import os, signal, sys
from mmlake.store import BlobStore
def dying(real):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
first, status = 0, 1
while status:
    first += 1
    root, left = f"{sys.argv[1]}/{first}", first
    os.mkdir(root)
    before(BlobStore(root))
    child = os.fork()
    if child == 0:
        for name in ("open", "write", "pwrite", "fsync", "replace", "mkdir", "ftruncate", "close", "unlink"):
            setattr(os, name, dying(getattr(os, name)))
        work(BlobStore(root))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
"""


def killed_at_every_call(base: Path, definitions: str) -> list[Path]:
    """A store for each system call of `work`, which was killed right before it; the last one was not killed.

    definitions: Python of `before(store)` and `work(store)`.
    """
    subprocess.run([sys.executable, "-S", "-c", definitions + DYING, str(base)], cwd=ROOT, check=True)
    return sorted(base.iterdir(), key=lambda path: int(path.name))


BATCH = """
def before(store):
    pass
def work(store):
    with store.batch():
        for data in (b"first" * 10, b"", bytes(300_000), b"first" * 10, b"last"):
            store.put(data)
"""


def test_a_batch_killed_between_any_two_calls_leaves_nothing_wrong(tmp_path) -> None:
    roots = killed_at_every_call(tmp_path, BATCH)
    for root in roots:
        assert_nothing_is_torn(root)
        assert_a_rerun_converges(root)
    assert len(roots) > 20


REWRITE = f"""
def before(store):
    for blobs in ((b"stays 0", b"also stays"), (b"stays 1", b"doomed")):
        with store.batch():
            for data in blobs:
                store.put(data)
def work(store):
    store.remove("{sha256(b"doomed")}")
    store.compact(max_small=0)
"""


@pytest.mark.slow
def test_a_rewrite_killed_between_any_two_calls_loses_nothing(tmp_path) -> None:
    """Whatever should stay is there at any moment; what should go is gone after the same call again, also when lost
    indexes are built anew."""
    staying = sorted(map(sha256, (b"stays 0", b"stays 1", b"also stays")))
    roots = killed_at_every_call(tmp_path, REWRITE)
    for root in roots:
        assert [BlobStore(root).verify(digest) for digest in staying] == [None] * 3
        store = BlobStore(root)
        store.rebuild_indexes()
        store.remove(sha256(b"doomed"))
        store.compact(max_small=0)
        store.sweep(older_than_s=-10, now_s=1e12)
        assert (list(BlobStore(root).digests()), BlobStore(root).broken_packs()) == (staying, [])
        assert all(b"doomed" not in path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert len(roots) > 20


THIN = """
import shutil
def before(store):
    for at, second in enumerate([b"of the first", b"of the second", b"a file, too"]):
        other = BlobStore(f"{store.root}-{at}")
        with other.batch():
            for data in (b"in two packs", second):
                other.put(data)
        shutil.copytree(other.root, store.root, dirs_exist_ok=True)
        shutil.rmtree(other.root)
    other = BlobStore(f"{store.root}-file")
    other.put(b"a file, too")
    shutil.copytree(other.root, store.root, dirs_exist_ok=True)
    shutil.rmtree(other.root)
def work(store):
    store.thin()
"""


@pytest.mark.slow
def test_a_thinning_killed_between_any_two_calls_loses_nothing(tmp_path) -> None:
    """Every blob is whole at any moment, and the same call again leaves one copy of each: what a kill in the middle
    of a rewrite left twice included."""
    contents = (b"in two packs", b"a file, too", b"of the first", b"of the second")
    roots = killed_at_every_call(tmp_path, THIN)
    for root in roots:
        assert [BlobStore(root).verify(sha256(data)) for data in contents] == [None] * 4
        store = BlobStore(root)
        store.rebuild_indexes()
        assert [store.verify(sha256(data)) for data in contents] == [None] * 4
        store.thin()
        store.sweep(older_than_s=-10, now_s=1e12)
        assert [BlobStore(root).verify(sha256(data)) for data in contents] == [None] * 4
        assert (BlobStore(root).stats().num_spare, BlobStore(root).broken_packs()) == (0, [])
        kept = [path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".idx"]
        assert [sum(data in one for one in kept) for data in contents] == [1] * 4
    assert len(roots) > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
@pytest.mark.parametrize("name", ["replace", "fsync", "mkdir", "open", "write", "pwrite", "ftruncate"])
def test_no_refused_call_is_swallowed_or_tears_a_batch(name, code, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        total = Refusing(patch, name, fail_at=-1, code=code)
        put_all(tmp_path / "clean")
    for fail_at in range(1, total.count + 1):
        root = tmp_path / f"{fail_at}"
        with monkeypatch.context() as patch:
            Refusing(patch, name, fail_at=fail_at, code=code)
            with pytest.raises(OSError, match=os.strerror(code)):
                put_all(root)
        assert list(root.rglob("*.part")) == []
        assert_nothing_is_torn(root)
        assert_a_rerun_converges(root)


def test_a_lost_batch_is_reported_and_its_blobs_are_missing(tmp_path, monkeypatch) -> None:
    store = BlobStore(tmp_path / "blobs")

    def fill() -> None:
        with store.batch():
            store.put(b"fox")
            monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "failing disk")))

    with pytest.raises(OSError, match="failing disk"):
        fill()
    monkeypatch.undo()
    assert (sha256(b"fox") in store, store.put(b"fox"), store.verify(sha256(b"fox"))) == (False, sha256(b"fox"), None)


def test_the_error_of_a_block_is_reported_before_that_of_its_pack(tmp_path, monkeypatch) -> None:
    store = BlobStore(tmp_path / "blobs")

    def fail() -> None:
        with store.batch():
            store.put(b"fox")
            monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "failing disk")))
            raise KeyError("the first error")

    with pytest.raises(KeyError, match="the first error") as raised:
        fail()
    assert "could not be written either" in raised.value.__notes__[0]


def test_a_pack_reaches_the_disk_before_its_index_and_both_before_the_batch_ends(tmp_path, monkeypatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def name(path) -> str:
        return Path(path).suffix.removeprefix(".") or Path(path).name

    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: (events.append(f"sync {name(os.readlink(f'/proc/self/fd/{handle}'))}"), fsync(handle))[1],
    )
    monkeypatch.setattr(os, "replace", lambda old, new: (events.append(f"rename {name(new)}"), replace(old, new))[1])
    store = BlobStore(tmp_path / "blobs")
    with store.batch():
        store.put(b"fox")
        assert events == []
    assert events == [
        "sync part",
        "rename pack",
        "sync part",
        "rename idx",
        f"sync {tmp_path.name}",
        "sync blobs",
        "sync packs",
    ]


def synced_directories(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Grows with every directory that is synced."""
    synced: list[Path] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(Path(os.readlink(f"/proc/self/fd/{handle}"))), fsync(handle))[1]
    )
    return synced


def test_large_blobs_of_a_batch_are_seen_at_once_and_durable_when_it_ends(tmp_path, monkeypatch) -> None:
    store, large = BlobStore(tmp_path / "blobs"), bytes(300_000)
    synced = synced_directories(monkeypatch)
    with store.batch():
        digest = store.put(large)
        assert digest in BlobStore(tmp_path / "blobs")
        assert not any(path.is_dir() for path in synced)
    leaf = tmp_path / "blobs" / digest[:2] / digest[2:4]
    assert {leaf, *leaf.parents[:3]} <= set(synced)


def test_a_large_blob_of_an_open_batch_is_synced_for_a_put_without_one(tmp_path, monkeypatch) -> None:
    """Its put promises more than the batch has done so far."""
    large = bytes(300_000)
    store, other = BlobStore(tmp_path / "blobs"), BlobStore(tmp_path / "blobs")
    with store.batch():
        digest = store.put(large)
        synced = synced_directories(monkeypatch)
        other.put(large)
        leaf = tmp_path / "blobs" / digest[:2] / digest[2:4]
        assert {leaf, *leaf.parents[:3]} <= set(synced)


def test_a_batch_whose_directories_cannot_be_synced_says_so_and_the_next_end_tries_again(tmp_path, monkeypatch) -> None:
    store = BlobStore(tmp_path / "blobs")

    def fill() -> None:
        with store.batch():
            store.put(bytes(300_000))
            monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "failing disk")))

    with pytest.raises(OSError, match="failing disk"):
        fill()
    monkeypatch.undo()
    synced = synced_directories(monkeypatch)
    with store.batch():
        pass
    assert any(path.parent.parent == tmp_path / "blobs" for path in synced)


def test_a_blob_in_a_pack_that_a_killed_writer_just_named_is_synced_before_it_counts(tmp_path, monkeypatch) -> None:
    put_all(tmp_path / "blobs")
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))[1]
    )
    store = BlobStore(tmp_path / "blobs")
    store.put(b"last")
    store.put(b"")
    assert synced == [str(tmp_path / "blobs" / "packs")]


def test_leftovers_of_a_batch_are_swept_once_they_are_old(tmp_path) -> None:
    put_all(tmp_path / "blobs")
    part = tmp_path / "blobs" / "packs" / "1.part"
    part.write_bytes(b"torn")
    os.utime(part, (0, 0))
    assert (BlobStore(tmp_path / "blobs").sweep(older_than_s=3600, now_s=3599), part.exists()) == (0, True)
    assert (BlobStore(tmp_path / "blobs").sweep(older_than_s=3600, now_s=3600), part.exists()) == (1, False)


def test_a_file_system_that_refuses_direct_writes_is_written_through_the_cache(tmp_path, monkeypatch) -> None:
    """Some take the flag and refuse the write."""
    pwrite, refused = os.pwrite, []

    def refusing(handle: int, data, offset: int) -> int:
        import fcntl

        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(1)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return pwrite(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", refusing)
    put_all(tmp_path / "blobs")
    assert refused
    assert_nothing_is_torn(tmp_path / "blobs")
    assert_a_rerun_converges(tmp_path / "blobs")


@pytest.mark.parametrize("size", [4095, 4096, 4097, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (8 << 20) + 4096 + 5])
def test_large_blobs_of_every_length_are_whole(tmp_path, size) -> None:
    """Direct writes go by blocks; the last one is cut to length."""
    import io

    data = os.urandom(size)
    store = BlobStore(tmp_path / "blobs")
    digest, num_bytes = store.put_stream(io.BytesIO(data))
    assert (digest, num_bytes, store.size(digest), store.read(digest) == data) == (sha256(data), size, size, True)
