"""What a power cut leaves of a recorded run.

A file keeps what it held when it was last synced, a directory the names that it held when it was last synced; what came
later may be there or not. `Disk` follows the record and gives, at any place of it, the state that an adversary picks.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded system call."""

    # c created, w written, t truncated, s synced, r renamed, l linked, y linked by name, u unlinked, d and x: directory
    # made and removed
    what: str
    inode: int
    at: int  # offset, or the new size
    path: str
    other: str
    data: bytes


def calls(record: Path) -> list[Call]:
    """The calls of a record, in order."""
    data, found, at = record.read_bytes(), list[Call](), 0
    while at < len(data):
        end = data.index(b"\n", at)
        what, inode, offset, first, second, size = data[at:end].split()
        at = end + 1
        parts = []
        for length in (int(first), int(second), int(size)):
            parts.append(data[at : at + length])
            at += length
        path, other = (os.fsdecode(part) for part in parts[:2])
        found.append(Call(what.decode(), int(inode), int(offset), path, other, parts[2]))
    return found


class File:
    """A file: what it holds, and what of it is on the disk."""

    def __init__(self) -> None:
        self.now, self.kept = bytearray(), b""
        self.is_dirty = False

    def write(self, at: int, data: bytes) -> None:
        self.now[at : at + len(data)] = data if at <= len(self.now) else bytes(at - len(self.now)) + data
        self.is_dirty = True

    def resize(self, size: int) -> None:
        self.now[size:] = bytes(max(0, size - len(self.now)))
        self.is_dirty = True

    def sync(self) -> None:
        self.kept, self.is_dirty = bytes(self.now), False


@dataclass(slots=True)
class Directory:
    """A directory: its names, those on the disk, and the changes in between, of which a disk keeps the first ones."""

    now: dict[str, Node] = field(default_factory=dict)
    kept: dict[str, Node] = field(default_factory=dict)
    since: list[dict[str, Node | None]] = field(default_factory=list)

    def change(self, names: dict[str, Node | None]) -> None:
        _apply(self.now, names)
        self.since.append(names)

    def sync(self) -> None:
        self.kept, self.since = dict(self.now), []

    def with_first(self, count: int) -> dict[str, Node]:
        """The names on the disk, had it kept the first changes since."""
        names = dict(self.kept)
        for change in self.since[:count]:
            _apply(names, change)
        return names


Node = File | Directory | str  # the last: a symbolic link


def _apply(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """Which changes that were never synced a disk kept."""

    name: str
    names: Callable[[Directory], dict[str, Node]]
    data: Callable[[File], bytes]


LOST = Adversary(name="lost", names=lambda one: one.kept, data=lambda one: one.kept)
# every name, and no byte that was not synced: a file system that writes names before data
EMPTY = Adversary(name="empty", names=lambda one: one.now, data=lambda one: one.kept)


def mixed(seed: int) -> Adversary:
    """Some first changes of every directory, and of every file what was synced, a beginning of it, or all."""
    rng = random.Random(seed)

    def data(one: File) -> bytes:
        whole = bytes(one.now)
        return one.kept if not one.is_dirty else rng.choice([one.kept, whole, whole[: len(whole) // 2]])

    return Adversary(name=f"mixed {seed}", names=lambda one: one.with_first(rng.randint(0, len(one.since))), data=data)


class Disk:
    """The files below one directory, which is there and empty at first."""

    def __init__(self, root: Path) -> None:
        self._root, self.top = str(root), Directory()
        self._files: dict[int, File] = {}

    def follow(self, call: Call) -> None:
        """Let the call happen."""
        if call.what == "c":
            self._files[call.inode] = File()
            self._change(call.path, self._files[call.inode])
        elif call.what == "w":
            self._files[call.inode].write(call.at, call.data)
        elif call.what == "t":
            self._files[call.inode].resize(call.at)
        elif call.what == "s":
            node = self._files.get(call.inode) if not isinstance(self._node(call.path), Directory) else None
            (node or self._node(call.path)).sync()  # type: ignore[union-attr]
        elif call.what == "r":
            node = self._node(call.path)
            if os.path.dirname(call.path) == os.path.dirname(call.other):
                self._at(call.path).change({os.path.basename(call.path): None, os.path.basename(call.other): node})
            else:
                self._change(call.other, node)
                self._change(call.path, None)
        elif call.what in "ly":
            self._change(call.other, self._node(call.path) if call.what == "l" else call.path)
        else:
            self._change(call.path, Directory() if call.what == "d" else None)

    def pick(self, adversary: Adversary) -> dict[str, bytes | str | None]:
        """Path -> what lies there after a power cut now: bytes, the target of a link, None for a directory."""
        return dict(_picked(self.top, adversary, ""))

    def unsynced(self) -> list[str]:
        """The paths whose name or whose bytes a power cut now may take or change, sorted."""
        found = set[str]()

        def walk(directory: Directory, path: str) -> None:
            found.update(f"{path}{name}" for change in directory.since for name in change)
            for name, node in directory.now.items():
                if isinstance(node, Directory):
                    walk(node, f"{path}{name}/")
                elif isinstance(node, File) and node.is_dirty:
                    found.add(f"{path}{name}")

        walk(self.top, "")
        return sorted(found)

    def _node(self, path: str) -> Node:
        node: Node = self.top
        for name in path[len(self._root) :].split("/"):
            if name:
                assert isinstance(node, Directory), path
                node = node.now[name]
        return node

    def _at(self, path: str) -> Directory:
        node = self._node(os.path.dirname(path))
        assert isinstance(node, Directory), path
        return node

    def _change(self, path: str, node: Node | None) -> None:
        self._at(path).change({os.path.basename(path): node})


def _picked(directory: Directory, adversary: Adversary, path: str) -> Iterator[tuple[str, bytes | str | None]]:
    for name, node in sorted(adversary.names(directory).items()):
        if isinstance(node, Directory):
            yield f"{path}{name}", None
            yield from _picked(node, adversary, f"{path}{name}/")
        else:
            yield f"{path}{name}", node if isinstance(node, str) else adversary.data(node)


def lay(state: dict[str, bytes | str | None], root: Path) -> None:
    """Make the state real below the directory, which is there and empty."""
    for path, what in state.items():  # directories come before what is in them
        if what is None:
            (root / path).mkdir()
        elif isinstance(what, str):
            (root / path).symlink_to(what)
        else:
            (root / path).write_bytes(what)


def real(root: Path) -> dict[str, bytes | str | None]:
    """The files below the directory, as `Disk.pick` gives them."""
    return {
        path.relative_to(root).as_posix(): (
            os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        )
        for path in sorted(root.rglob("*"))
    }
