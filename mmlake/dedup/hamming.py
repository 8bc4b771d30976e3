"""Which 64-bit hashes lie within a Hamming radius of each other, in bounded memory. For whoever has hashes alone: no
tier asks (docs/decisions/0057)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmlake.engine import current

_MAX_PARTNERS = 16  # of one hash in one run: a dense group becomes stars around its first members
_MAX_COMPARED = 4_096  # comparisons of one hash in one run; runs of uniform hashes are shorter at any size
_ONE_RUN = 2_048  # distinct hashes up to which comparing all costs less than one join
_COMPILE_FROM = 20_000  # distinct hashes; below it numpy is done before numba is imported
_is_loaded = [False]  # whether this process has compiled code; then no join is too small for it
_GROUP_NS, _COMPARE_NS = 40.0, 5.0  # of one hash per join, and of one comparison (benchmarks/hamming.py)


def hamming_pairs(hashes: np.ndarray, *, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(i, j, distance) of the pairs of 64-bit hashes within the radius, i < j, sorted.

    Rows with equal hashes are tied to the first of them, and only that one is compared further. Among distinct hashes
    the join is exact, except in dense groups: one hash is tied to at most 16 others of its block before it, so that any
    number of hashes within the radius of each other has at most 16 pairs per hash and block. Which pairs are found
    depends on the set of hashes alone. What it needs of each hash lies in files where that is large.

    Method: pigeonhole. Cut into radius + k blocks, two hashes within the radius agree on k of them, so one join per
    choice of k blocks finds them all; the first join in which a pair agrees reports it.
    """
    hashes = np.asarray(hashes, dtype=np.uint64)
    if len(hashes) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    left, right = _near(distinct, _masks(len(distinct), radius), radius)
    rows = np.arange(len(hashes))
    tied = rows != first[place]
    i = np.concatenate((first[place[tied]], first[left]))
    j = np.concatenate((rows[tied], first[right]))
    i, j = np.minimum(i, j), np.maximum(i, j)
    order = np.lexsort((j, i))
    i, j = i[order], j[order]
    return i, j, np.bitwise_count(hashes[i] ^ hashes[j]).astype(np.int64)


def _masks(num: int, radius: int) -> NDArray[np.uint64]:
    """The bits that each join compares: k is chosen by the expected cost of grouping and of comparing; more blocks mean
    more joins of fewer rows each."""
    if num <= _ONE_RUN or radius >= 63:
        return np.zeros(1, np.uint64)

    def cost_ns(k: int) -> float:
        compared = min(num / 2 / 2 ** (64 * k / (radius + k)), _MAX_COMPARED)
        return math.comb(radius + k, k) * (_GROUP_NS + _COMPARE_NS * compared)

    k = min(range(1, min(6, 65 - radius)), key=cost_ns)
    edges = np.linspace(0, 64, radius + k + 1).round().astype(int)
    blocks = [sum(1 << bit for bit in range(low, high)) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    return np.array([sum(chosen) for chosen in combinations(blocks, k)], dtype=np.uint64)


def _near(
    hashes: NDArray[np.uint64], masks: NDArray[np.uint64], radius: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(left, right) of distinct hashes, sorted ascending, left < right, in no order that counts."""
    kernels = _compiled() if len(hashes) >= _COMPILE_FROM or _is_loaded[0] else None
    if kernels is None:
        found = [_near_in_runs(hashes, masks, at, radius) for at in range(len(masks))]
    else:
        _is_loaded[0] = True
        group, scan = kernels
        scratch = current()
        rows, values = scratch.zeros(len(hashes), np.uint32), scratch.zeros(len(hashes), np.uint64)
        groups = scratch.zeros(len(hashes), np.uint32)
        # more groups than 2**17 leave the cache
        bits = min(17, max(8, int(len(hashes) - 1).bit_length()))
        found = []
        for at in range(len(masks)):
            ends = group(hashes, masks[at], bits, rows, values, groups)
            found.append(scan(rows, values, ends, masks[: at + 1], np.uint64(radius), _MAX_PARTNERS, _MAX_COMPARED))
    left, right = (np.concatenate(side).astype(np.int64) for side in zip(*found, strict=True))
    return left, right


def _near_in_runs(
    hashes: NDArray[np.uint64], masks: NDArray[np.uint64], at: int, radius: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs that join `at` is the first to find: each hash is compared with the hashes before it that agree on the
    mask, from the first of them on, until it has its partners."""
    masked = hashes & masks[at]
    order = np.argsort(masked, kind="stable")
    ordered = masked[order]
    is_start = np.r_[True, ordered[1:] != ordered[:-1]]
    start = np.maximum.accumulate(np.where(is_start, np.arange(len(order)), 0))
    active, step = np.flatnonzero(~is_start), 0
    partners = np.zeros(len(order), np.int64)
    lefts, rights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(active) and step < _MAX_COMPARED:
        left, right = order[start[active] + step], order[active]
        differing = hashes[left] ^ hashes[right]
        near = np.bitwise_count(differing) <= radius
        partners[active[near]] += 1
        left, right, differing = left[near], right[near], differing[near]
        is_first = np.all(differing[:, None] & masks[None, :at] != 0, axis=1)
        lefts.append(left[is_first])
        rights.append(right[is_first])
        step += 1
        active = active[(start[active] + step < active) & (partners[active] < _MAX_PARTNERS)]
    return np.concatenate(lefts), np.concatenate(rights)


@functools.lru_cache(maxsize=1)
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """(`_group`, `_scan`) compiled, or None without numba. They find the pairs of `_near_in_runs`, only sooner."""
    try:
        import numba
    except ImportError:
        return None
    try:
        group, scan = (numba.njit(cache=True, nogil=True)(kernel) for kernel in (_group, _scan))
    except RuntimeError:  # no folder to keep the machine code in
        group, scan = (numba.njit(nogil=True)(kernel) for kernel in (_group, _scan))
    return group, scan


def _group(
    hashes: NDArray[np.uint64],
    mask: np.uint64,
    bits: int,
    rows: NDArray[np.uint32],
    values: NDArray[np.uint64],
    groups: NDArray[np.uint32],  # room
) -> NDArray[np.uint32]:
    """Where each group ends in `rows` and `values`, which are filled: hashes that agree on the mask stand in one group,
    in their order. By a counting sort on the top bits of a product, which costs less than a sort by value."""
    shift = np.uint64(64 - bits)
    ends = np.zeros((1 << bits) + 1, np.uint32)
    for row in range(len(hashes)):
        group = ((hashes[row] & mask) * np.uint64(0x9E3779B97F4A7C15)) >> shift
        groups[row] = group
        ends[group + np.uint64(1)] += 1
    for at in range(1, len(ends)):
        ends[at] += ends[at - 1]
    for row in range(len(hashes)):
        place = ends[groups[row]]
        rows[place], values[place] = row, hashes[row]
        ends[groups[row]] = place + np.uint32(1)
    return ends[: 1 << bits]


def _scan(
    rows: NDArray[np.uint32],
    values: NDArray[np.uint64],
    ends: NDArray[np.uint32],
    masks: NDArray[np.uint64],  # the last is the one that groups agree on; pairs that agree on another are known
    limit: np.uint64,
    max_partners: int,
    max_compared: int,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(left, right) of the new pairs."""
    lefts, rights, num_found = np.empty(1024, np.uint32), np.empty(1024, np.uint32), 0
    mask, start = masks[-1], 0
    for group in range(len(ends)):
        end = ends[group]
        is_long = end - start > max_compared  # only there comparisons need to be counted
        for right in range(start + 1, end):
            partners, compared, value = 0, 0, values[right]
            for left in range(start, right):
                differing = value ^ values[left]
                x = differing - ((differing >> np.uint64(1)) & np.uint64(0x5555555555555555))
                x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
                x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
                is_near = ((x * np.uint64(0x0101010101010101)) >> np.uint64(56)) <= limit
                if not (is_near or is_long) or differing & mask != 0:
                    continue
                compared += 1
                if is_near:
                    partners += 1
                    if not np.any((masks[:-1] & differing) == 0):
                        if num_found == len(lefts):
                            lefts = np.concatenate((lefts, np.empty(num_found, np.uint32)))
                            rights = np.concatenate((rights, np.empty(num_found, np.uint32)))
                        lefts[num_found], rights[num_found] = rows[left], rows[right]
                        num_found += 1
                if partners == max_partners or compared == max_compared:
                    break
        start = end
    return lefts[:num_found], rights[:num_found]
