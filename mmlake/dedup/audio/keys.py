"""Which recordings are worth a comparison: a few keys of each, chosen by what it holds itself.

Enters: words of recordings (mmlake.dedup.audio.align). Leaves: some keys of each, so that a copy shares keys with its
original, and one that shares a part with another shares keys of that part.

A key is half of the signs of one word and the same of a word a little later, at one of eight places of the word. All of
them are too many. Those with the smallest hashes are kept, as both sides of a pair then keep the same ones, and each
sign that is firm doubles a key's chance, as a copy has it too. So keys depend on no other recording: what comes later
changes none. Strangers share some by chance; `are_strangers` sees at little cost that what surrounds them is unlike.
Source: Broder 1997 (the smallest hashes), weights as of Efraimidis and Spirakis 2006, in powers of two.
Legend: S places of the word, N words, H shared keys, P places of one, B words around a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio import kernels as audio_kernels
from mmlake.dedup.audio.align import Words, agreement
from mmlake.dedup.prints import Positions, Ragged, blocks_of, digests_of
from mmlake.dedup.splitmix import mix64
from mmlake.engine import current

_SLICES = np.arange(0, 32, 4, dtype=np.uint64)  # where the signs of a key begin; the word is closed to a ring
_SIGNS, _HALF, _WIDTH, _KIND = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(16), np.uint64(35)
_HALF_KEY = np.uint64(0xFFFF)
_BLOCK = 1 << 18  # words searched at once
_REPEATED = 8  # keys inspected for one that is kept: what lasts has one key many times
_AGREEING, _AGREEING_IN_BRIEF = 0.38, 0.45  # correlation around a key; 97 of 100 strangers that share one stay below
_SEARCHED = 512  # words and keys of one comparison, about
_BY_CHANCE = 8  # who shares more keys has not come by them by chance


class Kind(NamedTuple):
    """How keys of one kind of words are made."""

    name: str  # the method that the words are of
    number: int  # sets these keys apart from those of other kinds
    signs: int  # of each half of a key, at most 16
    lag: int  # words between the halves
    num: int  # keys of a recording that has as many
    usual: int  # words up to which it is so many, and behind which it is one more for each `every`
    every: int  # 0: fewer keys of a longer recording, in inverse proportion
    least: int
    around: Positions  # words that must agree, from the first one of a key
    brief: int  # words of a recording of which these words must agree more: they are all that it has

    def num_keys(self, num_words: int) -> int:
        """How many keys a recording of so many words has at most."""
        if num_words <= self.usual:
            return self.num
        if self.every:
            return self.num + (num_words - self.usual) // self.every
        return max(self.least, self.num * self.usual // num_words)


def keys_of(rows: Ragged, kind: Kind) -> Ragged:
    """The keys of each row, sorted."""
    _, first, group = np.unique(digests_of({"": rows}), axis=0, return_index=True, return_inverse=True)
    return Ragged.of(_chosen(rows[at], kind) for at in first.tolist()).take(group.reshape(-1))


def together(parts: Sequence[Ragged]) -> Ragged:
    """The rows of all, one behind the other."""
    offsets = np.sum([part.offsets for part in parts], axis=0).astype(np.int64)
    values = current().zeros(int(offsets[-1]), np.uint64)
    filled = offsets[:-1].copy()
    for part in parts:
        lengths, begins = part.lengths, filled - part.offsets[:-1]
        for low, high in blocks_of(part.offsets[1:], _BLOCK):
            first, end = int(part.offsets[low]), int(part.offsets[high])
            places = np.arange(first, end) + np.repeat(begins[low:high], lengths[low:high])
            values[places] = part.values[first:end]
        filled += lengths
    return Ragged(values, offsets)


def are_strangers(
    words: Sequence[Ragged], kinds: Sequence[Kind], keys: Ragged, one: int, others: Positions
) -> NDArray[np.bool_]:
    """Which of the others share a few keys with the one, and agree with it around none of them.

    words: of each of the two kinds, in the order of their numbers.
    """
    found = np.zeros(len(others), np.bool_)
    kernels = audio_kernels.compiled(_SEARCHED * len(others))
    if kernels is not None:
        arrays = [array for each in (*words, keys) for array in (each.values, each.offsets)]
        traits = np.array([(kind.signs, kind.lag, kind.brief) for kind in kinds])
        around, bounds = np.stack([kind.around for kind in kinds]), np.array([_AGREEING_IN_BRIEF, _AGREEING])
        room, others = np.empty(_BY_CHANCE, np.uint64), np.ascontiguousarray(others, np.int64)
        kernels.strangers(*arrays, one, others, traits, around, bounds, room, found)
        return found
    mine, parts = keys[one], [keys[other] for other in others.tolist()]
    if not len(mine):
        return found
    theirs = np.concatenate([np.empty(0, np.uint64), *parts])
    at = np.searchsorted(mine, theirs)
    at[at == len(mine)] = 0
    hits = np.flatnonzero(mine[at] == theirs)
    row = np.repeat(np.arange(len(others)), [len(part) for part in parts])[hits]
    num_shared = np.bincount(row, minlength=len(others))
    found[(num_shared > 0) & (num_shared <= _BY_CHANCE)] = True
    row, shared = row[found[row]], theirs[hits[found[row]]]
    for kind in kinds:
        some = np.flatnonzero(shared >> _KIND == kind.number)
        if not len(some):
            continue
        rows, units = words[kind.number], others[row[some]]
        mine_HP = _ends(rows, np.full(len(some), one), shared[some], kind)
        theirs_HP = _ends(rows, units, shared[some], kind)
        for at_mine, at_theirs in ((0, 0), (0, 1), (1, 0), (1, 1)):
            tried = np.flatnonzero(
                found[row[some]]
                & ((mine_HP[:, 0] != mine_HP[:, 1]) | (at_mine == 0))
                & ((theirs_HP[:, 0] != theirs_HP[:, 1]) | (at_theirs == 0))
            )
            if len(tried):
                ones = _around(rows, np.full(len(tried), one), mine_HP[tried, at_mine], kind)
                agree = agreement(ones, _around(rows, units[tried], theirs_HP[tried, at_theirs], kind))
                num_words = np.minimum(_lengths(rows, units[tried]), len(rows[one]))
                bound = np.where(num_words < kind.brief, _AGREEING_IN_BRIEF, _AGREEING)
                found[row[some[tried[agree >= bound]]]] = False
    return found


def _around(rows: Ragged, units: Positions, places: Positions, kind: Kind) -> NDArray[np.uint64]:
    """The words around each place, of shape (H, B); silent ones outside of the recording."""
    places_HB = places[:, None] + kind.around
    is_in = (places_HB >= 0) & (places_HB < _lengths(rows, units)[:, None])
    places_HB += rows.offsets[units][:, None]
    found: NDArray[np.uint64] = np.where(is_in, rows.values[np.where(is_in, places_HB, 0)], np.uint64(0))
    return found


def _ends(rows: Ragged, units: Positions, keys: NDArray[np.uint64], kind: Kind) -> Positions:
    """The first and the last place at which each unit has the key, of shape (H, P=2)."""
    size = max(1, _BLOCK // max(1, int(_lengths(rows, units).max())))
    parts = [
        _searched(rows, units[low : low + size], keys[low : low + size], kind) for low in range(0, len(keys), size)
    ]
    return np.concatenate(parts)


def _lengths(rows: Ragged, units: Positions) -> Positions:
    return rows.offsets[units + 1] - rows.offsets[units]


def _searched(rows: Ragged, units: Positions, keys: NDArray[np.uint64], kind: Kind) -> Positions:
    places_HN = np.arange(int(_lengths(rows, units).max()))[None, :]
    is_in = places_HN < _lengths(rows, units)[:, None]
    words_HN = np.zeros(is_in.shape, np.uint64)
    words_HN[is_in] = rows.values[(places_HN + rows.offsets[units][:, None])[is_in]]
    ring_HN = words_HN & _SIGNS
    turned_HN = (ring_HN | ring_HN << _HALF) >> _SLICES[(keys >> _HALF & np.uint64(7)).astype(np.int64)][:, None]
    turned_HN &= np.uint64((1 << kind.signs) - 1)
    stands_HN = turned_HN[:, : -kind.lag] == (keys >> _WIDTH & _HALF_KEY)[:, None]
    stands_HN &= turned_HN[:, kind.lag :] == (keys & _HALF_KEY)[:, None]
    stands_HN &= _changes(words_HN, kind)
    last = stands_HN.shape[1] - 1 - stands_HN[:, ::-1].argmax(axis=1)
    return np.stack((stands_HN.argmax(axis=1), last), axis=1).astype(np.int64)


def _changes(words: Words, kind: Kind) -> NDArray[np.bool_]:
    """Where a key says something; that of what does not change, as a tone, says nothing."""
    first, second = words[..., : -kind.lag], words[..., kind.lag :]
    found: NDArray[np.bool_] = ((first ^ second) & (first & second) >> _HALF) != 0
    return found


def _chosen(words: Words, kind: Kind) -> NDArray[np.uint64]:
    at = np.flatnonzero(_changes(words, kind))
    if not len(at):
        return np.empty(0, np.uint64)
    first, second = words[at], words[at + kind.lag]
    signs_SN = _turned(first & _SIGNS, kind) << _WIDTH | _turned(second & _SIGNS, kind)
    firm_SN = _turned(first >> _HALF, kind) << _WIDTH | _turned(second >> _HALF, kind)
    named = np.arange(len(_SLICES), dtype=np.uint64)[:, None] << _HALF | np.uint64(kind.number << int(_KIND))
    keys = (signs_SN | named).ravel()
    order = mix64(keys) >> np.bitwise_count(firm_SN).astype(np.uint64).ravel()
    num = kind.num_keys(len(words))
    if len(order) > _REPEATED * num:
        rows = np.flatnonzero(order <= np.partition(order, _REPEATED * num)[_REPEATED * num])
        keys, order = keys[rows], order[rows]
    keys, is_first = np.unique(keys[np.argsort(order, kind="stable")], return_index=True)
    return np.sort(keys[np.argsort(is_first)[:num]])


def _turned(words: NDArray[np.uint64], kind: Kind) -> NDArray[np.uint64]:
    """The bits of a key at each place of the words, of shape (S, N)."""
    turned: NDArray[np.uint64] = (words | words << _HALF) >> _SLICES[:, None] & np.uint64((1 << kind.signs) - 1)
    return turned
