"""How long work reports its progress: the library yields counts, the caller draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
Advance = Callable[[int], None]  # called with the number of items done since the last call


def silent(count: int) -> None:
    """An Advance that does nothing."""


def counted(items: Iterable[T], advance: Advance) -> Iterator[T]:
    """The items; `advance` is called for each one once it has been used."""
    for item in items:
        yield item
        advance(1)
