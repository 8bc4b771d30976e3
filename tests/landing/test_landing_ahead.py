"""Files that are opened before their turn: what a reader gets is what it would get one by one, in any order."""

from __future__ import annotations

import io
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.landing import Entry, Landing, listed_ahead, opened_ahead
from mmlake.landing.walk import walked

_AT_ONCE = 4


class Far(Landing):
    """A landing zone that notes who asks for what, and how many at once."""

    def __init__(self, files: dict[str, bytes], *, delay_s: float = 0.0, num_at_once: int = _AT_ONCE) -> None:
        self.location, self.num_at_once = "far://away", num_at_once
        self._files, self._delay_s, self._lock = files, delay_s, threading.Lock()
        self.asked = Counter[str]()
        self.opened: list[io.BytesIO] = []
        self.at_once = self.most_at_once = 0
        self.broken: dict[str, Exception] = {}

    def _ask(self, what: str) -> None:
        with self._lock:
            self.asked[what] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self._delay_s)
        with self._lock:
            self.at_once -= 1

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        names = sorted({path.rpartition("/")[0] or "." for path in self._files})
        yield from ((name, self.listing(name)) for name in names)

    def listing(self, directory: str) -> list[Entry]:
        found = [path for path in self._files if (path.rpartition("/")[0] or ".") == directory]
        return [Entry(path, len(self._files[path]), 0) for path in sorted(found)]

    def files(self, directory: str) -> list[Entry]:
        self._ask(directory)
        return self.listing(directory)

    def stat(self, path: str) -> Entry | None:
        self._ask(path)
        return Entry(path, len(self._files[path]), 0) if path in self._files else None

    def open(self, path: str) -> io.BytesIO:
        self._ask(path)
        if path in self.broken:
            raise self.broken[path]
        if path not in self._files:
            raise UnreadableItem(1001, "the file is missing")
        file = io.BytesIO(self._files[path])
        self.opened.append(file)
        return file


def _files(num: int, *, per_directory: int = 10**6) -> dict[str, bytes]:
    return {f"{at // per_directory:03}/{at:04}": bytes([at % 251]) * (at + 1) for at in range(num)}


def _read(landing: Landing, path: str, size_bytes: int) -> tuple[bytes, bytes]:
    head = landing.head(path, size_bytes)
    with landing.open(path) as file:
        return head, file.read()


def test_files_in_their_order_are_opened_once_and_several_at_once() -> None:
    far = Far(_files(40), delay_s=0.005)
    with opened_ahead(far, far.listing("000")) as landing:
        for entry in far.listing("000"):
            content = far._files[entry.path]
            assert _read(landing, entry.path, 20) == (content[:20], content)
    assert set(far.asked.values()) == {1}
    assert 3 <= far.most_at_once <= _AT_ONCE
    assert all(file.closed for file in far.opened)


def test_files_of_one_sample_are_opened_once_though_the_first_is_read_behind_the_last() -> None:
    far = Far(_files(60))
    with opened_ahead(far, far.listing("000")) as landing:
        for at in range(0, 60, 3):
            paths = [f"000/{at + part:04}" for part in range(3)]
            for path in paths:
                landing.head(path, 1)
            for path in paths:
                with landing.open(path) as file:
                    assert file.read() == far._files[path]
    assert set(far.asked.values()) == {1} and len(far.asked) == 60


def test_directories_are_listed_ahead_and_their_files_opened_across_them() -> None:
    far = Far(_files(40, per_directory=2), delay_s=0.005)
    names = [name for name, _ in far.directories()]
    with listed_ahead(far, names, lambda entry: entry.size_bytes) as landing:
        for name in names:
            for entry in landing.files(name):
                assert landing.head(entry.path, 10**6) == far._files[entry.path]
    assert set(far.asked.values()) == {1}
    assert 3 <= far.most_at_once <= _AT_ONCE
    assert all(file.closed for file in far.opened)


def test_what_is_not_wanted_is_not_opened() -> None:
    far = Far(_files(30))
    with listed_ahead(far, ["000"], lambda entry: entry.size_bytes % 2) as landing:
        for entry in landing.files("000"):
            if entry.size_bytes % 2:
                landing.head(entry.path, 1)
    assert sum(far.asked.values()) == 1 + 15


@pytest.mark.parametrize("error", [UnreadableItem(1001, "cut"), RemoteUnavailable("the storage is away")])
def test_a_file_that_fails_raises_in_its_turn_and_no_other_does(error: Exception) -> None:
    far = Far(_files(10))
    far.broken = {"000/0004": error}
    with opened_ahead(far, far.listing("000")) as landing:
        for at in range(10):
            if at == 4:
                with pytest.raises(type(error)) as raised:
                    landing.head("000/0004", 1)
                assert raised.value is error
            else:
                assert landing.head(f"000/{at:04}", 1) == far._files[f"000/{at:04}"][:1]


def test_one_that_nobody_asks_for_may_fail() -> None:
    far = Far(_files(10))
    far.broken = {"000/0004": RemoteUnavailable("the storage is away")}
    with opened_ahead(far, far.listing("000")) as landing:
        for at in (0, 1, 2, 3, 5, 6, 7, 8, 9):
            assert landing.head(f"000/{at:04}", 1) == bytes([at])
    assert far.asked["000/0004"] == 1


def test_a_lone_table_at_the_end_leaves_the_order_as_it_was() -> None:
    far = Far(_files(60))
    with opened_ahead(far, far.listing("000")) as landing:
        landing.head("000/0059", 1)
        for at in range(59):
            landing.head(f"000/{at:04}", 1)
    del far.asked["000/0059"]
    assert set(far.asked.values()) == {1}


def test_who_reads_all_of_them_again_is_followed() -> None:
    far = Far(_files(60), delay_s=0.005)
    with opened_ahead(far, far.listing("000")) as landing:
        for _ in range(2):
            far.most_at_once = 0
            for at in range(60):
                landing.head(f"000/{at:04}", 1)
            assert far.most_at_once >= 3
    assert all(file.closed for file in far.opened)


def test_who_leaves_most_of_them_out_is_followed() -> None:
    far = Far(_files(200), delay_s=0.005)
    with opened_ahead(far, far.listing("000")) as landing:
        for at in [*range(5), *range(150, 200)]:
            landing.head(f"000/{at:04}", 1)
    assert far.most_at_once >= 3 and far.asked.total() < 80


def test_a_marker_is_asked_for_once_and_other_files_each_time() -> None:
    far = Far({"a/_source.json": b"{}", "a/b": b""})
    with listed_ahead(far, ["a"], lambda entry: 0) as landing:
        for _ in range(3):
            assert landing.stat("a/_source.json") is not None and landing.stat("_source.json") is None
            assert landing.stat("a/b") is not None
    assert far.asked["a/_source.json"] == far.asked["_source.json"] == 1 and far.asked["a/b"] == 3


def test_one_on_this_machine_is_read_as_it_is() -> None:
    near = Far(_files(3), num_at_once=1)
    with opened_ahead(near, near.listing("000")) as one, listed_ahead(near, ["000"], lambda entry: 1) as other:
        assert one is near and other is near


def test_it_can_still_be_read_when_nothing_is_opened_ahead_any_more() -> None:
    far, before = Far(_files(500, per_directory=50), delay_s=0.02), set(threading.enumerate())
    names = [name for name, _ in far.directories()]
    with listed_ahead(far, names, lambda entry: 1) as landing:
        landing.files(names[0])
        landing.head("000/0000", 1)
    assert [landing.files(name) for name in names] == [far.listing(name) for name in names]
    assert landing.head("000/0003", 2) == b"\3\3"
    with landing.open("000/0000") as file:
        assert file.read() == b"\0"
    assert not [one for one in set(threading.enumerate()) - before if one.name.startswith("mmlake-ahead")]


_TREE = {"": ["b", "a"], "b": ["b/x", "b/y"], "b/y": ["b/y/z"], "a": []}


def test_directories_are_walked_in_order_and_several_are_listed_at_once() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def listed(node: str) -> tuple[str, list[str]]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        return node.upper(), _TREE.get(node, [f"{node}/{at}" for at in range(9)] if node == "b/x" else [])

    expected = ["", "b", "b/x", *(f"b/x/{at}" for at in range(9)), "b/y", "b/y/z", "a"]
    assert list(walked("", listed, num_at_once=4)) == [(node, node.upper()) for node in expected]
    assert 3 <= most[0] <= 4


def test_a_directory_that_cannot_be_listed_raises_behind_those_before_it() -> None:
    def listed(node: str) -> tuple[None, list[str]]:
        if node == "a":
            raise RemoteUnavailable("the storage is away")
        return None, _TREE.get(node, [])

    before, walk = set(threading.enumerate()), walked("", listed, num_at_once=4)
    assert [node for node, _ in islice(walk, 5)] == ["", "b", "b/x", "b/y", "b/y/z"]
    with pytest.raises(RemoteUnavailable):
        next(walk)
    assert not [one for one in set(threading.enumerate()) - before if one.name.startswith("mmlake-listing")]


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.tuples(st.integers(0, 29), st.integers(1, 50_000), st.booleans()), max_size=60),
    planned=st.sets(st.integers(0, 29)),
)
def test_any_order_gives_the_bytes_and_leaves_no_file_open(
    asked: list[tuple[int, int, bool]], planned: set[int]
) -> None:
    far = Far({f"{at:02}": bytes([at]) * (at * 2_000) for at in range(30)})
    ours = []
    with opened_ahead(far, [entry for entry in far.listing(".") if int(entry.path) in planned]) as landing:
        for at, size_bytes, is_whole in asked:
            content = far._files[f"{at:02}"]
            assert landing.head(f"{at:02}", size_bytes) == content[:size_bytes]
            if is_whole:
                ours.append(landing.open(f"{at:02}"))
                assert ours[-1].read() == content
    assert all(file.closed for file in far.opened if file not in ours)
