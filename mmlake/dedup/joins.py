"""Which rows share a key or lie within a Hamming radius: the candidate joins of all near tiers, in numpy and in
bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

_PAIRS_PER_BLOCK = 1 << 22  # pairs compared together: 64 MiB of indices


def mix64(values: np.ndarray) -> np.ndarray:
    """The values scrambled so that every input bit reaches every output bit; a bijection on uint64 (finalizer of
    SplitMix64)."""
    z = values.astype(np.uint64, copy=True)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def equal_key_pairs(keys: np.ndarray, *, max_run: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(i, j) of all rows with equal keys, i < j, in blocks. Keys held by more than `max_run` rows are left out where
    it is given."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, len(ordered)])
    if max_run is not None:
        starts, lengths = starts[lengths <= max_run], lengths[lengths <= max_run]
    starts, lengths = starts[lengths > 1], lengths[lengths > 1]
    left = np.repeat(starts, lengths) + _within(lengths)
    ends = np.repeat(starts + lengths, lengths)
    step = 1
    # compare with the next row, the one after it, ...: memory stays that of the rows that still have one
    while len(left):
        mask = left + step < ends
        left, ends = left[mask], ends[mask]
        for first in range(0, len(left), _PAIRS_PER_BLOCK):
            here = left[first : first + _PAIRS_PER_BLOCK]
            one, other = order[here], order[here + step]
            yield np.minimum(one, other), np.maximum(one, other)
        step += 1


def _within(lengths: np.ndarray) -> np.ndarray:
    within: np.ndarray = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return within


def hamming_pairs(hashes: np.ndarray, *, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(i, j, distance) of every pair of 64-bit hashes within the radius, i < j, sorted; exact.

    Pigeonhole: cut into radius + k blocks, two hashes within the radius agree on k of them, so one join per choice of k
    blocks finds them all. k is chosen by the expected cost: more blocks mean more joins of fewer rows each.
    """
    num = len(hashes)
    hashes = np.asarray(hashes, dtype=np.uint64)
    if num < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    if num <= 2_048:  # below that a full comparison costs less than one join
        return _all_pairs(hashes, radius)
    k = min(
        range(1, 5), key=lambda k: math.comb(radius + k, k) * (60 * num + num * num / 2 / 2 ** (64 * k / (radius + k)))
    )
    edges = np.linspace(0, 64, radius + k + 1).round().astype(int)
    masks = [sum(1 << bit for bit in range(low, high)) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    found: list[np.ndarray] = []
    for chosen in combinations(masks, k):
        for i, j in equal_key_pairs(hashes & np.uint64(sum(chosen))):
            near = np.bitwise_count(hashes[i] ^ hashes[j]) <= radius
            found.append(i[near] * num + j[near])
        if len(found) > 64:
            found = [np.unique(np.concatenate(found))]
    return _split(np.unique(np.concatenate(found)) if found else np.empty(0, np.int64), hashes)


def _all_pairs(hashes: np.ndarray, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num, found = len(hashes), []
    for at in range(num - 1):
        near = np.flatnonzero(np.bitwise_count(hashes[at + 1 :] ^ hashes[at]) <= radius)
        found.append(at * num + at + 1 + near)
    return _split(np.concatenate(found), hashes)


def _split(codes: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    i, j = codes // len(hashes), codes % len(hashes)
    return i, j, np.bitwise_count(hashes[i] ^ hashes[j]).astype(np.int64)


def equal_rows(rows: np.ndarray) -> np.ndarray:
    """For each row of a 2-d array the position of the first row with the same content: identical items need no
    search."""
    if not len(rows):
        return np.empty(0, np.int64)
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first[inverse.ravel()]
