"""The directories of a remote landing zone in order, the next ones listed while one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
