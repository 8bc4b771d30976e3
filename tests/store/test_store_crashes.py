"""The blob store when something goes wrong in the middle: killed writers, refused system calls, full disks,
leftovers."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from refused_calls import Refusing

from mmlake.store import BlobStore, write_atomically

ROOT = Path(__file__).parents[2]
CONTENTS = [b"first" * 10, b"", bytes(200_000), b"first" * 10, b"last"]
STREAMED = (2, 3)  # which of them go through `put_stream`


def put_all(root: Path) -> list[str]:
    store = BlobStore(root)
    return [
        store.put_stream(io.BytesIO(data), extension="dat")[0] if at in STREAMED else store.put(data)
        for at, data in enumerate(CONTENTS)
    ]


def assert_nothing_is_torn(root: Path) -> None:
    """Whatever stands under a final name is whole, and everything else is a leftover that the store does not list."""
    store = BlobStore(root)
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".part":
            assert path.name.partition(".")[0] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [store.verify(digest) for digest in store.digests()] == [None] * len(list(store.digests()))


def assert_a_rerun_converges(root: Path) -> None:
    assert put_all(root) == [hashlib.sha256(data).hexdigest() for data in CONTENTS]
    assert list(BlobStore(root).digests()) == sorted({hashlib.sha256(data).hexdigest() for data in CONTENTS})


def raises_eio(act) -> bool:
    try:
        act()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return True
    return False


@pytest.mark.parametrize("name", ["replace", "fsync", "mkdir", "open", "listdir"])
def test_no_refused_call_leaves_a_torn_blob(name, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        total = Refusing(patch, name, fail_at=-1)
        put_all(tmp_path / "clean")
    num_raised = 0
    for fail_at in range(1, total.count + 1):
        root = tmp_path / f"{fail_at}"
        with monkeypatch.context() as patch:
            Refusing(patch, name, fail_at=fail_at)
            num_raised += raises_eio(lambda root=root: put_all(root))
        assert_nothing_is_torn(root)
        assert_a_rerun_converges(root)
    assert num_raised == total.count


class FullDisk:
    """A disk that takes `room` more bytes, the last of them in the middle of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self._room, self._pwrite, write = room, os.pwrite, os.write
        monkeypatch.setattr(os, "write", lambda handle, data: write(handle, self._fitting(data)))
        monkeypatch.setattr(os, "pwrite", self._pwrite_fitting)

    def _pwrite_fitting(self, handle: int, data, offset: int) -> int:
        fits = self._fitting(data)
        # nobody reads what was torn; a disk takes whole blocks
        return self._pwrite(handle, fits, offset) if len(fits) % 4096 == 0 else len(fits)

    def _fitting(self, data) -> memoryview:
        fits = memoryview(data).cast("B")[: self._room]
        self._room -= len(fits)
        if not fits and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fits


@pytest.mark.parametrize("room", [0, 1, 49, 50, 51, 100_000, 200_049])
def test_a_full_disk_tears_no_blob(room, tmp_path, monkeypatch) -> None:
    """The error is reported, the leftover is taken away, and the same work succeeds once there is room."""
    with monkeypatch.context() as patch:
        FullDisk(patch, room)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            put_all(tmp_path)
    assert_nothing_is_torn(tmp_path)
    assert list(tmp_path.rglob("*.part")) == []
    assert_a_rerun_converges(tmp_path)


WRITER = """
import io, sys
from mmlake.store import BlobStore
store, at = BlobStore(sys.argv[1]), 0
while True:
    data = at.to_bytes(4, "big") * (200_000 if at % 3 == 0 else 20)
    print(store.put_stream(io.BytesIO(data))[0] if at % 2 else store.put(data), flush=True)
    at += 1
"""


@pytest.mark.parametrize("num_puts", [1, 7, 24])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(num_puts, tmp_path) -> None:
    """kill -9 falls wherever the writer is; what it had named is there and whole, what it had not is at most a
    leftover."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as writer:
        acknowledged = [writer.stdout.readline().strip() for _ in range(num_puts)]
        writer.send_signal(signal.SIGKILL)
    assert [BlobStore(tmp_path).verify(digest) for digest in acknowledged] == [None] * num_puts
    assert_nothing_is_torn(tmp_path)


HALFWAY = """
import os, signal, sys
from mmlake.store import BlobStore
calls, real = {name: 0 for name in ("fsync", "replace", "mkdir")}, {}
def dying(name):
    def call(*args, **kwargs):
        calls[name] += 1
        if (name, calls[name]) == (sys.argv[2], int(sys.argv[3])):
            os.kill(os.getpid(), signal.SIGKILL)
        return real[name](*args, **kwargs)
    return call
for name in calls:
    real[name] = getattr(os, name)
    setattr(os, name, dying(name))
BlobStore(sys.argv[1]).put(b"first" * 10)
"""


@pytest.mark.parametrize(
    ("call", "num_leftovers"), [("mkdir 1", 0), ("fsync 1", 1), ("fsync 2", 1), ("replace 1", 1), ("fsync 5", 0)]
)
def test_a_writer_killed_at_a_call_leaves_at_most_a_part_file(call, num_leftovers, tmp_path) -> None:
    """fsync 1 is of the bytes, 2 to 4 of the directories above, 5 of the blob's own directory after the rename."""
    killed = subprocess.run(
        [sys.executable, "-c", HALFWAY, str(tmp_path / "blobs"), *call.split()], cwd=ROOT, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob("*.part"))) == num_leftovers
    assert_nothing_is_torn(tmp_path / "blobs")
    assert_a_rerun_converges(tmp_path / "blobs")


def traced(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """What is synced and renamed from now on, in order, as paths below the root."""
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def name(path) -> str:
        text = os.path.relpath(path, root)
        return "part" if text.endswith(".part") else text

    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: (events.append(f"sync {name(os.readlink(f'/proc/self/fd/{handle}'))}"), fsync(handle))[1],
    )
    monkeypatch.setattr(os, "replace", lambda old, new: (events.append(f"rename {name(new)}"), replace(old, new))[1])
    return events


def test_bytes_then_directories_then_name_reach_the_disk(tmp_path, monkeypatch) -> None:
    """The order that survives a power cut: nothing is named before its bytes and the way to it are on the disk."""
    events = traced(monkeypatch, tmp_path)
    digest = BlobStore(tmp_path / "blobs").put(b"x")
    home = f"blobs/{digest[:2]}/{digest[2:4]}"
    assert events == [
        "sync part",
        "sync .",
        "sync blobs",
        f"sync blobs/{digest[:2]}",
        f"rename {home}/{digest}.bin",
        f"sync {home}",
    ]


def test_directories_above_are_synced_once(tmp_path, monkeypatch) -> None:
    store = BlobStore(tmp_path / "blobs")
    digest = store.put(b"x")
    store.remove(digest)
    events = traced(monkeypatch, tmp_path)
    store.put(b"x")
    assert [event.split()[0] for event in events] == ["sync", "rename", "sync"]


def test_a_blob_that_a_killed_writer_just_named_is_synced_before_it_counts(tmp_path, monkeypatch) -> None:
    BlobStore(tmp_path / "blobs").put(b"x")
    events = traced(monkeypatch, tmp_path)
    digest = BlobStore(tmp_path / "blobs").put(b"x")
    assert events[0] == f"sync blobs/{digest[:2]}/{digest[2:4]}"


def test_a_blob_of_long_ago_is_not_synced_again(tmp_path, monkeypatch) -> None:
    """Ingesting a known shard again costs no disk flush per blob."""
    BlobStore(tmp_path / "blobs").put(b"x")
    monkeypatch.setattr("mmlake.store.loose.SETTLED_S", -1)
    events = traced(monkeypatch, tmp_path)
    BlobStore(tmp_path / "blobs").put(b"x")
    assert events == []


def leftovers(root: Path, *, mtime_s: float) -> list[Path]:
    digest = BlobStore(root).put(b"x")
    home = root / digest[:2] / digest[2:4]
    (root / "incoming").mkdir()
    paths = [root / "incoming" / "1.part", home / "2.part"]
    for path in paths:
        path.write_bytes(b"torn")
        os.utime(path, (mtime_s, mtime_s))
    return paths


@pytest.mark.parametrize(("age_s", "num_removed"), [(3600, 2), (3601, 2), (3599, 0)])
def test_leftovers_are_swept_once_they_are_old(age_s, num_removed, tmp_path) -> None:
    paths = leftovers(tmp_path, mtime_s=1_000_000 - age_s)
    assert BlobStore(tmp_path).sweep(older_than_s=3600, now_s=1_000_000) == num_removed
    assert [path.exists() for path in paths] == [num_removed == 0] * 2


def test_a_sweep_touches_nothing_but_leftovers(tmp_path) -> None:
    leftovers(tmp_path, mtime_s=0)
    (tmp_path / "incoming" / "keep").touch()
    (tmp_path / "incoming" / "directory.part").mkdir()
    BlobStore(tmp_path).sweep(older_than_s=0, now_s=1e12)
    assert sorted(os.listdir(tmp_path / "incoming")) == ["directory.part", "keep"]
    assert BlobStore(tmp_path).verify(*BlobStore(tmp_path).digests()) is None


def test_sweeping_a_store_that_was_never_used_removes_nothing(tmp_path) -> None:
    assert BlobStore(tmp_path / "none").sweep(older_than_s=0, now_s=0) == 0


def test_a_leftover_is_never_listed_or_found(tmp_path) -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    home = tmp_path / digest[:2] / digest[2:4]
    home.mkdir(parents=True)
    (home / f"{digest}.part").write_bytes(b"x")
    store = BlobStore(tmp_path)
    assert (list(store.digests()), digest in store) == ([], False)


@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_a_file_written_atomically_is_the_old_or_the_new_one(name, tmp_path, monkeypatch) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_atomically(path, b"old")
    for fail_at in (1, 2):
        with monkeypatch.context() as patch:
            Refusing(patch, name, fail_at=fail_at)
            raises_eio(lambda: write_atomically(path, b"new"))
        assert path.read_bytes() in (b"old", b"new")
    assert os.listdir(path.parent) == ["file"]


def test_new_directories_of_a_file_written_atomically_are_synced(tmp_path, monkeypatch) -> None:
    events = traced(monkeypatch, tmp_path)
    write_atomically(tmp_path / "a" / "b" / "file", b"x")
    assert events == ["sync .", "sync a", "sync part", "rename a/b/file", "sync a/b"]
