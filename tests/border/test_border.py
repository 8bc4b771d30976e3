"""The border: which faults stop a run, which become an item's failure, and how long what an item names stays open."""

from __future__ import annotations

import ast
import errno
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mmlake.border import Failure, InProcess, attempt, is_machine_fault, map_opened
from mmlake.errors import (
    BlobCorrupt,
    BlobMissing,
    LakeLocked,
    MissingExtra,
    ModelMissing,
    RemoteUnavailable,
    SettingsError,
    UnreadableItem,
)

ROOT = Path(__file__).parents[2]
MACHINE = [
    *(
        OSError(number, "said by the system")
        for number in (
            errno.EIO,
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EROFS,
            errno.EMFILE,
            errno.ENFILE,
            errno.EACCES,
            errno.EPERM,
            errno.ENOMEM,
            errno.ESTALE,
            errno.ETIMEDOUT,
            errno.ENOLCK,
            errno.ECONNRESET,
        )
    ),
    TimeoutError("a socket"),
    ConnectionResetError("a socket"),
    MemoryError(),
    ImportError("libGL.so.1"),
    RuntimeError("can't start new thread"),
    RemoteUnavailable("503"),
    LakeLocked("another writer"),
    SettingsError("wrong"),
    MissingExtra("faiss"),
    ModelMissing("weights"),
    KeyboardInterrupt(),
]
OF_ITEM = [
    ValueError("torn"),
    IndexError(),
    OSError("image file is truncated"),
    OSError(errno.EINVAL, "a decoder's word"),
    RecursionError(),
    ZeroDivisionError(),
    BlobMissing("gone"),
    BlobCorrupt("rotten"),
]


def named(error: BaseException) -> str:
    return f"{type(error).__name__}-{getattr(error, 'errno', None)}"


def raising(error: BaseException):
    def kernel(item: object) -> object:
        raise error

    return kernel


@pytest.mark.parametrize("error", MACHINE, ids=named)
def test_a_fault_of_the_machine_raises(error):
    assert is_machine_fault(error)
    with pytest.raises(type(error)):
        attempt(raising(error), 1, code=3001, what="not decoded")


@pytest.mark.parametrize("error", OF_ITEM, ids=named)
def test_a_fault_of_the_item_is_a_failure(error):
    assert not is_machine_fault(error)
    assert isinstance(attempt(raising(error), 1, code=3001, what="not decoded"), Failure)


def test_a_foreseen_failure_keeps_its_code_and_an_unforeseen_one_names_its_kind():
    foreseen = UnreadableItem(3004, "num_pixels=9 not in [1, 4]")
    assert attempt(raising(foreseen), 1, code=3001, what="not decoded") == Failure(3004, "num_pixels=9 not in [1, 4]")
    unforeseen = attempt(raising(ValueError("a library's text")), 1, code=5001, what="no fingerprint")
    assert unforeseen == Failure(5001, "no fingerprint (ValueError)")


@pytest.mark.parametrize(("error", "code"), [(BlobMissing("gone"), 2001), (BlobCorrupt("rotten"), 2002)])
def test_a_lost_or_changed_blob_has_its_own_code(error, code):
    failure = attempt(raising(error), 1, code=5001, what="no fingerprint")
    assert isinstance(failure, Failure)
    assert failure.code == code


def test_a_machine_fault_in_the_clothes_of_an_unreadable_item_raises():
    def kernel(item: object) -> object:
        try:
            raise OSError(errno.EIO, "the disk")
        except OSError as error:
            raise UnreadableItem(3001, "does not open") from error

    with pytest.raises(OSError, match="the disk"):
        attempt(kernel, 1, code=3001, what="not decoded")


@pytest.mark.parametrize(("number", "is_fault"), [(errno.EIO, False), (errno.ENOMEM, False), (errno.EMFILE, True)])
def test_what_ffmpeg_says_of_bytes_is_no_fault_of_the_machine(number, is_fault):
    """A torn stream is EIO, and an absurd size ENOMEM, in FFmpeg's words."""
    import av.error

    with pytest.raises(Exception) as caught:  # PyAV chooses the class by the number
        av.error.err_check(-number)
    assert is_machine_fault(caught.value) == is_fault


def test_results_come_in_input_order_one_for_each_item():
    advanced = []
    results = InProcess().map(lambda item: 6 // item, [1, 0, 3], code=3001, what="not divided", advance=advanced.append)
    assert list(results) == [6, Failure(3001, "not divided (ZeroDivisionError)"), 2]
    assert advanced == [1, 1, 1]


class Ahead:
    """A Runner that takes all items before it gives the first result, as one with workers does."""

    def map(self, kernel, items, *, code, what, advance=None) -> Iterator[object]:
        for item in list(items):
            yield attempt(pickle.loads(pickle.dumps(kernel)), pickle.loads(pickle.dumps(item)), code=code, what=what)


class Places:
    """What is opened for each key, and whether it still is."""

    def __init__(self) -> None:
        self.open: set[int] = set()

    @contextmanager
    def opened(self, key: int) -> Iterator[int]:
        if key == 13:
            raise BlobMissing("13 is not there")
        if key == 99:
            raise OSError(errno.EIO, "the disk")
        self.open.add(key)
        try:
            yield key
        finally:
            self.open.remove(key)


@pytest.mark.parametrize("runner", [InProcess(), Ahead()], ids=["in process", "ahead"])
def test_what_an_item_names_stays_open_until_its_result_was_used(runner):
    places = Places()
    for key, result in map_opened(runner, abs, [2, 13, 5, 13], opened=places.opened, code=3001, what="not made"):
        assert (key in places.open) == (key != 13)
        assert result == (Failure(2001, "the store holds no blob of this digest") if key == 13 else key)
    assert places.open == set()


@pytest.mark.parametrize("runner", [InProcess(), Ahead()], ids=["in process", "ahead"])
def test_keys_come_in_their_order_those_without_an_item_too(runner):
    advanced = []
    keys = [13, 1, 13, 13, 2, 13]
    found = map_opened(runner, abs, keys, opened=Places().opened, code=3001, what="not made", advance=advanced.append)
    assert [key for key, _ in found] == keys
    assert sum(advanced) == len(keys)


@pytest.mark.parametrize("runner", [InProcess(), Ahead()], ids=["in process", "ahead"])
def test_a_store_that_fails_raises_and_leaves_nothing_open(runner):
    places = Places()
    with pytest.raises(OSError, match="the disk"):
        list(map_opened(runner, abs, [1, 2, 99], opened=places.opened, code=3001, what="not made"))
    assert places.open == set()


def test_nothing_stays_open_where_results_are_left():
    places = Places()
    found = map_opened(Ahead(), abs, [1, 2, 3], opened=places.opened, code=3001, what="not made")
    next(found)
    found.close()
    assert places.open == set()


def _sources() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted((ROOT / "mmlake").rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_files_of_media_are_opened_in_one_place():
    """Each call has its own chance to forget the whitelists, or the tags in Latin-1."""
    reads = [
        str(path)
        for path, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "av.open"
        and not any(isinstance(one, ast.Constant) and one.value == "w" for one in node.args)
    ]
    assert reads == ["mmlake/media/decoders.py"]


def test_every_exception_is_caught_at_the_border_alone():
    """In the stages, and in what runs models and filters. compute.py halves a batch that ran out of memory, and raises
    what is anything else."""
    stages = ("preprocess", "quality", "dedup", "embed", "rows", "steps", "catalog", "compute.py", "border.py")
    catching = [
        str(path)
        for path, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and path.parts[1] in stages
        and (node.type is None or ast.unparse(node.type) == "Exception")
    ]
    assert catching == ["mmlake/border.py", "mmlake/compute.py"]
