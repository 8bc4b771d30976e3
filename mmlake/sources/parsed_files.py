"""What was parsed of files of a landing zone, so that the shards that one file annotates do not each parse it again.

Whoever works on shards owns one: a scan, a lake for all of its shards, else the reading of one shard. It is bounded,
and what it holds goes when its owner closes it; nothing of it outlives its owner in the process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Kind(Generic[Value]):
    """One kind of what is parsed. A constant of the module that parses it."""

    max_size: int  # of all values that are kept
    size_of: Callable[[Value], int] = lambda value: 1  # of one value; the default counts values


@dataclass(eq=False)
class _Shelf:
    """The values of one kind, the latest used last."""

    values: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict)
    size: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)  # held while a value is made: each is made once


class ParsedFiles:
    """A bounded store of what was parsed, by kind and key. Threads may share it."""

    def __init__(self) -> None:
        self._shelves: dict[Kind[Any], _Shelf] = {}
        self._lock = threading.Lock()

    def get(self, kind: Kind[Value], key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of that key, made where it is not kept. The least lately used ones go where the kind has more
        than its size; whoever still reads one keeps it alive."""
        with self._lock:
            shelf = self._shelves.setdefault(kind, _Shelf())
        with shelf.lock:
            if key not in shelf.values:
                value = make()
                shelf.values[key] = value, kind.size_of(value)
                shelf.size += shelf.values[key][1]
            shelf.values.move_to_end(key)
            while len(shelf.values) > 1 and shelf.size > kind.max_size:
                shelf.size -= shelf.values.popitem(last=False)[1][1]
            found: Value = shelf.values[key][0]
            return found

    def has(self, kind: Kind[Any], key: Hashable) -> bool:
        """Whether the value of that key is kept."""
        shelf = self._shelves.get(kind)
        return shelf is not None and key in shelf.values

    def forget(self, kind: Kind[Any], key: Hashable) -> None:
        """Let the value of that key go, where it is kept: the next one who asks makes it anew."""
        with self._lock:
            shelf = self._shelves.setdefault(kind, _Shelf())
        with shelf.lock:
            shelf.size -= shelf.values.pop(key, (None, 0))[1]

    def close(self) -> None:
        """Let everything go, temporary tables on disk included. What is asked for later is parsed anew."""
        with self._lock:
            self._shelves.clear()


@contextmanager
def owned(given: ParsedFiles | None) -> Iterator[ParsedFiles]:
    """The one that is given; else one that is closed behind the block."""
    parsed = given or ParsedFiles()
    try:
        yield parsed
    finally:
        if given is None:
            parsed.close()
