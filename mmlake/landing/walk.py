"""The directories of a remote landing zone in order, the next ones listed while one is read; and those that it does not
have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Node = TypeVar("Node")
Found = TypeVar("Found")


def walked(
    root: Node, listed: Callable[[Node], tuple[Found, Sequence[Node]]], *, num_at_once: int
) -> Iterator[tuple[Node, Found]]:
    """(directory, what was found in it): each before those in it, and those before the next next to it. listed: gives
    what is in a directory and the directories in it, in order; called by several threads, at most so many at once.
    Raises what it raises, in the order of the directories."""
    pending, asked = [root], dict[Node, Future[tuple[Found, Sequence[Node]]]]()
    with ThreadPoolExecutor(num_at_once, thread_name_prefix="mmlake-listing") as pool:
        try:
            while pending:
                for node in reversed(pending[-num_at_once:]):
                    if node not in asked:
                        asked[node] = pool.submit(listed, node)
                node = pending.pop()
                found, below = asked.pop(node).result()
                pending.extend(reversed(below))
                yield node, found
        finally:
            for future in asked.values():
                future.cancel()


class KnownDirectories:
    """Which directories the listings of a landing zone had, by native paths; "." is its root. Of loose files many are
    asked for what may lie next to them, mostly in directories that are not there: each would be a request."""

    def __init__(self) -> None:
        self._below: dict[str, frozenset[str]] = {}

    def note(self, directory: str, names: Collection[str]) -> None:
        """A listing of the directory had directories of these names; hidden ones are none of them."""
        self._below[directory] = frozenset(names)

    def clear(self) -> None:
        """Forget all listings."""
        self._below.clear()

    def lack(self, directory: str) -> bool:
        """Whether the last listing of the directory above, or of one above that, did not have it."""
        while directory != ".":
            above, _, name = directory.rpartition("/")
            if (known := self._below.get(above or ".")) is not None:
                return name not in known and not name.startswith(".")
            directory = above or "."
        return False
