"""Keys of pictures: two share some where a hash of the one lies within the radius of a hash that stands for the other.

Enters: what `image.matcher.hashes` derives of each picture: the hashes of its windows, of its four parts and of the
whole picture. Targets are what others are compared with: whole pictures among windows (space 0), and each part among
parts of its place (spaces 1 to 4). A picture has the key of each target within the radius of one of its hashes, of each
space those with the smallest keys: a bottom-k sample, so that a dense group shares the same few, and each picture has a
bounded number. Which these are depends on the picture and on the set of targets alone; so the keys of an earlier join
are brought up to date by what came and went (`updated`).

Method: pigeonhole, as in `hamming`: cut into radius + k blocks, two hashes within the radius agree on k of them.
Targets are grouped by each choice of k blocks, and each hash is compared with its group in the order of keys.
Legend: P hashes that ask, T targets.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.windows import PARTS, WINDOWS
from mmlake.dedup.loops import key_kernels
from mmlake.dedup.prints import Positions, Ragged, behind_each_other, rows_in
from mmlake.dedup.splitmix import mix64
from mmlake.engine import current

Words = NDArray[np.uint64]
NUM_FAINT = 2  # values of a picture without detail, which are its keys
NUM_WINDOWS = len(WINDOWS) + 5  # and five turned and mirrored versions
_NUM_PARTS = len(PARTS)
_MOST = (32, *[8] * _NUM_PARTS)  # keys of each space: with a fifth of what both may have, two share one at 1 - .8**32
_MOST_COMPARED = 4_096  # targets of one group; a larger one is cut
_BRUTE = 1 << 22  # comparisons up to which all are made
_GROUP_NS, _COMPARE_NS = 25.0, 30.0  # of one hash and choice of blocks, and of one comparison, in numpy
_LAY_NS, _FIND_NS, _NEAR_NS = 20.0, 12.0, 2.3  # of one target, one hash and one comparison, in compiled code
_AT_ONCE = 1 << 18  # hashes: each takes part of the targets into the cache, which many share
_TOGETHER = 1 << 12  # hashes that go through each table together
_WORK = 64  # of one hash and choice of blocks, in the unit of `key_kernels`
_SPACE = np.uint64(7)  # the bits of a key that say its space
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Known(NamedTuple):
    """The keys of an earlier join."""

    derived: Ragged  # of the pictures that it had
    keys: Ragged
    at: Positions  # of each picture that there is now the row in both; -1: it is new, or changed


class _Hashes(NamedTuple):
    """Hashes of some pictures in one space."""

    owners: Positions
    values: Words
    is_target: NDArray[np.bool_]


def made(derived: Ragged, *, radius: int) -> Ragged:
    """The keys of all pictures, sorted."""
    targets = [_targets(derived, space) for space in range(len(_MOST))]
    return _asked(derived, np.arange(len(derived)), targets, radius=radius)


def updated(derived: Ragged, known: Known, *, radius: int) -> Ragged:
    """What `made` makes, at the cost of what is new."""
    spaces = range(len(_MOST))
    now, before = ([_targets(one, space) for space in spaces] for one in (derived, known.derived))
    if any(_is_cut(targets, radius) for targets in (*now, *before)):
        return made(derived, radius=radius)
    came = [np.setdiff1d(now[space], before[space], assume_unique=True) for space in spaces]
    went = [np.setdiff1d(before[space], now[space], assume_unique=True) for space in spaces]
    lost = np.sort(np.concatenate([_keys_of(went[space], space) for space in spaces]))
    stays = np.flatnonzero(known.at >= 0)
    kept = known.keys.take(known.at[stays])
    owners = np.repeat(stays, kept.lengths)
    is_faint = derived.lengths[owners] == NUM_FAINT
    is_lost = (rows_in(lost, kept.values) >= 0) & ~is_faint
    num_held = np.zeros((len(derived), len(_MOST)), np.int64)
    np.add.at(num_held, (owners[~is_faint], _space_of(kept.values[~is_faint])), 1)
    loser, of_space = owners[is_lost], _space_of(kept.values[is_lost])
    # a full row may hold more than it shows
    anew = np.unique(
        np.concatenate((np.flatnonzero(known.at < 0), loser[num_held[loser, of_space] >= np.array(_MOST)[of_space]]))
    )
    is_anew = np.zeros(len(derived), np.bool_)
    is_anew[anew] = True
    found = _found(derived, stays[~is_anew[stays]], came, radius=radius, is_whole=True)
    touched = np.unique(np.concatenate((loser, found[0])))
    is_touched = np.zeros(len(derived), np.bool_)
    is_touched[touched] = True
    is_touched[anew] = False
    rest = is_touched[owners] & ~is_lost
    changed = _ragged(
        *_trimmed(np.concatenate((owners[rest], found[0])), np.concatenate((kept.values[rest], found[1]))), len(derived)
    )
    touched = np.flatnonzero(is_touched)
    asked = _asked(derived, anew, now, radius=radius, is_whole=True).take(anew)
    rows = [known.keys, asked, changed.take(touched)]
    place = known.at.copy()
    place[anew] = len(known.keys) + np.arange(len(anew))
    place[touched] = len(known.keys) + len(anew) + np.arange(len(touched))
    return behind_each_other(rows).take(place)


def _asked(derived: Ragged, rows: Positions, targets: list[Words], *, radius: int, is_whole: bool = False) -> Ragged:
    """The keys of these pictures; others have none. is_whole: see `_found`."""
    owners, keys = _found(derived, rows, targets, radius=radius, is_whole=is_whole)
    faint = rows[derived.lengths[rows] == NUM_FAINT]
    owners = np.concatenate((np.repeat(faint, NUM_FAINT), owners))
    return _ragged(owners, np.concatenate((derived.take(faint).values, keys)), len(derived))


def _found(
    derived: Ragged, rows: Positions, targets: list[Words], *, radius: int, is_whole: bool = False
) -> tuple[Positions, Words]:
    """(owner, key) of the targets within the radius of a hash of these pictures, of each and in each space the smallest
    keys. is_whole: no group of the targets is cut, so any choice of blocks finds the same, and the cheapest is taken.
    """
    owners, keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for space, known in enumerate(targets):
        num_asking = len(rows) * (1 if space else NUM_WINDOWS) if is_whole else None
        grouped = _Grouped(known[np.argsort(_keys_of(known, space))], radius, num_asking)
        for part in _parts(derived, rows, space):
            asking, found = grouped.within(part.values, most=_MOST[space])
            one = _trimmed(part.owners[asking], _keys_of(grouped.targets[found], space))
            owners.append(one[0])
            keys.append(one[1])
    return np.concatenate(owners), np.concatenate(keys)


def _parts(derived: Ragged, rows: Positions, space: int) -> Iterator[_Hashes]:
    """The hashes of these pictures in the space, some pictures at once."""
    detailed = rows[derived.lengths[rows] > NUM_FAINT]
    step = max(1, _AT_ONCE // (NUM_WINDOWS if not space else 1))
    for low in range(0, len(detailed), step):
        yield _hashes(derived, detailed[low : low + step], space)


def _hashes(derived: Ragged, rows: Positions, space: int) -> _Hashes:
    """The hashes of these pictures in the space; all of them have detail."""
    if space:
        values = derived.values[derived.offsets[rows] + NUM_WINDOWS + space - 1]
        return _Hashes(rows, values, np.ones(len(rows), np.bool_))
    some = derived.take(rows)
    nth = np.arange(len(some.values)) - np.repeat(some.offsets[:-1], some.lengths)
    is_target = nth >= NUM_WINDOWS + _NUM_PARTS
    is_mine = is_target | (nth < NUM_WINDOWS)
    return _Hashes(np.repeat(rows, some.lengths)[is_mine], some.values[is_mine], is_target[is_mine])


def _targets(derived: Ragged, space: int) -> Words:
    """The distinct targets of all pictures, sorted."""
    detailed = np.flatnonzero(derived.lengths > NUM_FAINT)
    if space:
        return np.unique(_hashes(derived, detailed, space).values)
    first = derived.offsets[detailed] + NUM_WINDOWS + _NUM_PARTS
    num = derived.offsets[detailed + 1] - first
    places = np.arange(num.sum()) + np.repeat(first - np.cumsum(num) + num, num)
    return np.unique(derived.values[places])


def _keys_of(targets: Words, space: int) -> Words:
    keys: Words = (mix64(targets ^ mix64(np.array([space], np.uint64))) & ~_SPACE) | np.uint64(space)
    return keys


def _space_of(keys: Words) -> Positions:
    return (keys & _SPACE).astype(np.int64)


class _Grouped:
    """Targets in the order of their keys, which are grouped by each choice of blocks once something asks for them."""

    def __init__(self, targets: Words, radius: int, num_asking: int | None = None) -> None:
        """num_asking: how many hashes will ask, where that may choose the blocks; None: their definition does."""
        self.targets, self._radius, self._num_asking = targets, radius, num_asking

    def within(self, asking: Words, *, most: int) -> tuple[Positions, Positions]:
        """(row of P, row of T) of what lies within the radius, each pair once: of each group of a hash at least the
        first `most`, so the first `most` of all are among them."""
        if not len(self.targets) or not len(asking):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if len(asking) * len(self.targets) <= _BRUTE:
            left, right = np.nonzero(np.bitwise_count(asking[:, None] ^ self.targets[None]) <= self._radius)
            return left.astype(np.int64), right.astype(np.int64)
        found = [self._in_groups(asking, at, most=most) for at in range(len(self._masks_and_bits[0]))]
        return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])

    @functools.cached_property
    def _masks_and_bits(self) -> tuple[Words, int]:
        if self._num_asking is not None:
            for masks, bits in _by_cost(len(self.targets), self._num_asking, self._radius):
                if not _cuts(self.targets, masks, bits):
                    return masks, bits
        return _masks(len(self.targets), self._radius)

    @functools.cached_property
    def _grouping(self) -> tuple[NDArray[np.uint32], Words, NDArray[np.uint32], NDArray[np.uint8]]:
        """For each choice of blocks the rows of the targets, group by group, the targets themselves, so that a group
        lies in one place, where each group begins, and of each the eighths of it that hold one, a bit each."""
        (masks, bits), scratch = self._masks_and_bits, current()
        num = len(masks) * len(self.targets)
        orders = scratch.zeros(num, np.uint32).reshape(len(masks), -1)
        laid = scratch.zeros(num, np.uint64).reshape(len(masks), -1)
        ends = scratch.zeros(len(masks) * ((1 << bits) + 1), np.uint32).reshape(len(masks), -1)
        held = scratch.zeros(len(masks) << bits, np.uint8).reshape(len(masks), -1)
        for at, mask in enumerate(masks):
            eighths = _groups(self.targets, mask, bits + 3)
            group = eighths >> 3
            orders[at] = _in_order(group)
            laid[at] = self.targets[orders[at]]
            ends[at, 1:] = np.cumsum(np.bincount(group, minlength=1 << bits))
            np.bitwise_or.at(held[at], group, (1 << (eighths & 7)).astype(np.uint8))
        return orders, laid, ends, held

    def _in_groups(self, asking: Words, at: int, *, most: int) -> tuple[Positions, Positions]:
        """The pairs that agree on this mask and on none before it."""
        (masks, bits), radius = self._masks_and_bits, self._radius
        order, laid, ends, held = (rows[at] for rows in self._grouping)
        kernels = key_kernels.compiled(_WORK * len(asking))
        if kernels is not None:
            room, (left, right) = np.empty((3, _TOGETHER), np.int64), np.empty((2, most * len(asking) + 1), np.int64)
            groups = (masks[at], 64 - bits, held, laid, order, ends, masks[:at])
            num_found = kernels.near(asking, *groups, radius, most, _MOST_COMPARED, *room, left, right)
            return left[:num_found].copy(), right[:num_found].copy()
        mine = _groups(asking, masks[at], bits)
        begin, end = (ends[side].astype(np.int64) for side in (mine, mine + 1))
        end = np.minimum(end, begin + _MOST_COMPARED)
        active, step = np.flatnonzero(end > begin), 0
        num = np.zeros(len(asking), np.int64)
        lefts, rights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while len(active):
            place = begin[active] + step
            other = order[place].astype(np.int64)
            differing = asking[active] ^ laid[place]
            near = np.bitwise_count(differing) <= radius
            left, right, differing = active[near], other[near], differing[near]
            num[left] += 1
            is_first = np.all(differing[:, None] & masks[None, :at] != 0, axis=1)
            lefts.append(left[is_first])
            rights.append(right[is_first])
            step += 1
            active = active[(begin[active] + step < end[active]) & (num[active] < most)]
        return np.concatenate(lefts), np.concatenate(rights)


def _groups(values: Words, mask: np.uint64, bits: int) -> Positions:
    groups: Positions = (((values & mask) * _GOLDEN) >> np.uint64(64 - bits)).astype(np.int64)
    return groups


def _in_order(groups: Positions) -> Positions:
    """The rows in the order of their groups, which have 24 bits at most. Numpy sorts 16 bits by counting, and more in
    eight times as long: these take two rounds."""
    order = np.argsort(groups.astype(np.uint16), kind="stable")
    high = (groups >> 16).astype(np.uint8)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order


def _masks(num: int, radius: int) -> tuple[Words, int]:
    """(the bits of each choice of blocks, how many bits say a group), for so many targets."""

    def cost_ns(k: int) -> float:
        return math.comb(radius + k, k) * (_GROUP_NS + _COMPARE_NS * _group_size(num, radius, k))

    return _masks_of(num, radius, min(_choices(radius), key=cost_ns))


def _by_cost(num: int, num_asking: int, radius: int) -> Iterator[tuple[Words, int]]:
    """The same, of every number of blocks, the cheapest first for so many hashes that ask by compiled code."""

    def cost_ns(k: int) -> float:
        asking_ns = num_asking * (_FIND_NS + _NEAR_NS * _group_size(num, radius, k))
        return math.comb(radius + k, k) * (num * _LAY_NS + asking_ns)

    return (_masks_of(num, radius, k) for k in sorted(_choices(radius), key=cost_ns))


def _choices(radius: int) -> range:
    """How many blocks two hashes may have to agree on."""
    return range(1, min(5, 65 - radius))


def _group_size(num: int, radius: int, k: int) -> float:
    """How many of the targets agree with a hash on k blocks, if bits are even."""
    return float(num / 2 ** (64 * k / (radius + k)))


def _masks_of(num: int, radius: int, k: int) -> tuple[Words, int]:
    edges = np.linspace(0, 64, radius + k + 1).round().astype(int)
    blocks = [sum(1 << bit for bit in range(low, high)) for low, high in zip(edges[:-1], edges[1:], strict=True)]
    masks = np.array([sum(chosen) for chosen in combinations(blocks, k)], np.uint64)
    return masks, min(20, max(8, int(num - 1).bit_length()))


def _is_cut(targets: Words, radius: int) -> bool:
    """Whether a group is larger than what is compared, so that keys depend on more than what lies within the radius."""
    return _cuts(targets, *_masks(len(targets), radius))


def _cuts(targets: Words, masks: Words, bits: int) -> bool:
    """Whether these blocks make a group that is larger than what is compared."""
    if len(targets) <= _MOST_COMPARED:
        return False
    return any(np.bincount(_groups(targets, mask, bits)).max() > _MOST_COMPARED for mask in masks)


def _trimmed(owners: Positions, keys: Words) -> tuple[Positions, Words]:
    """Each key of an owner once, of each space the smallest."""
    spaces = _space_of(keys)
    order = np.lexsort((keys, spaces, owners))
    owners, keys, spaces = owners[order], keys[order], spaces[order]
    is_new = np.ones(len(keys), np.bool_)
    is_new[1:] = (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])
    owners, keys, spaces = owners[is_new], keys[is_new], spaces[is_new]
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = (owners[1:] != owners[:-1]) | (spaces[1:] != spaces[:-1])
    nth = np.arange(len(keys)) - np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    is_kept = nth < np.array(_MOST)[spaces]
    return owners[is_kept], keys[is_kept]


def _ragged(owners: Positions, keys: Words, num: int) -> Ragged:
    order = np.lexsort((keys, owners))
    counts = np.bincount(owners, minlength=num)
    return Ragged(keys[order], np.concatenate(([0], np.cumsum(counts))).astype(np.int64))
