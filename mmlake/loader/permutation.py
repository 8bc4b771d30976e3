"""A shuffle that is computed, not stored: the sample at any position of any epoch in constant time.

Method: a keyed Feistel network over the smallest square power of two that holds all positions, walked until it lands
inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Not cryptography: the round function is the
mixer of splitmix64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

_ROUNDS = 6
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64, Steele, Lea, Flood 2014
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Permutation:
    """A bijection of 0..size-1, fixed by seed and epoch."""

    def __init__(self, size: int, *, seed: int | str, epoch: int) -> None:
        self.size = size
        self._half = np.uint64(max(1, (max(size - 1, 0).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        key = (
            hashlib.sha256(f"mmlake.permutation/1 {seed} {epoch} {size}".encode()).digest()
            + hashlib.sha256(f"{seed} {epoch} {size}".encode()).digest()
        )
        self._keys = np.frombuffer(key, dtype="<u8")[:_ROUNDS].astype(np.uint64)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The sample numbers at these positions, int64; positions are int64 in 0..size-1."""
        numbers = self._network(positions.astype(np.uint64))
        # the domain is at most four times the size: a few walks
        while (outside := numbers >= np.uint64(self.size)).any():
            numbers[outside] = self._network(numbers[outside])
        return numbers.astype(np.int64)

    def _network(self, values: np.ndarray) -> np.ndarray:
        left, right = values >> self._half, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right + key) & self._mask)
        return (left << self._half) | right


def passes_at(
    ordinals: np.ndarray, *, epoch: int, count: int, size: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Of an endless sequence of passes through `size` samples, of which each epoch takes the next `count`: for each
    pass that these ordinals of the epoch (int64, 0..count-1) lie in, its number, the indices of the ordinals in it, and
    their places in it, 0..size-1."""
    first_pass, first = divmod(epoch * count, size)  # of Python: an epoch may be of any size
    ahead, places = np.divmod(first + ordinals, size)
    for more in np.unique(ahead).tolist():
        found = np.flatnonzero(ahead == more)
        yield first_pass + more, found, places[found]


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> _SHIFTS[0])) * _MULTIPLY[0]
    values = (values ^ (values >> _SHIFTS[1])) * _MULTIPLY[1]
    mixed: np.ndarray = values ^ (values >> _SHIFTS[2])
    return mixed
