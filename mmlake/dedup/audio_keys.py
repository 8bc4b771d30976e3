"""Which recordings are worth a comparison: the rarest keys of each stretch of time.

Enters: words of many recordings (mmlake.dedup.audio_align). Leaves: a few keys per second of each, so that a long
recording costs in proportion to its length and one that shares a part with another shares keys with it.

A key is some 15 signs of one word and the same of a word a little later, at eight places of the word. 30 bits are
equal by chance in any large corpus, and copies in noise seldom share more: so recordings that share a key are laid
along each other at that place, and a key counts where the seconds around it agree with those of another recording.
Strangers thus keep none, however many there are. Of the keys that count the rarest are kept, which both sides of a pair
agree on because rarity is counted over all recordings.
Legend: K keys, B words around a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio_align import agreement
from mmlake.dedup.joins import mix64
from mmlake.dedup.prints import Positions, Ragged, digests_of

_SLICES = 8
_HALF, _SIGNS = np.uint64(32), np.uint64(0xFFFFFFFF)
_MOST_HELD = 64  # units: a key of more is a jingle, or all of them are one sound
_HOT = 32  # one in so many of such keys is kept
_BLOCK_WORDS = 1 << 18  # keys are made of so many words at once
_PASS_KEYS = 1 << 18  # keys sorted at once, or an eighth of the words of a large corpus
_MOST_PASSES = 8  # for each place of the word: so that the cost stays linear
_PARTNERS = 4  # of those that share a key, how many each is laid on
_PAIRS = 1 << 13  # laid on each other at once
_KEPT = 0.3  # correlation around a key from which it counts


class _Held(NamedTuple):
    """Keys and who holds them: arrays of one length."""

    unit: NDArray[np.int32]
    stretch: NDArray[np.int32]  # of time, within the unit
    num_units: NDArray[np.int32]  # that hold the key
    key: NDArray[np.uint64]

    def take(self, rows: NDArray[np.int64]) -> _Held:
        return _Held(self.unit[rows], self.stretch[rows], self.num_units[rows], self.key[rows])


def _joined(parts: Sequence[_Held]) -> _Held:
    return _Held(
        np.concatenate([np.empty(0, np.int32), *(part.unit for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.stretch for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.num_units for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.key for part in parts)]),
    )


def rare_keys(
    rows: Ragged,
    stretches: Positions,
    *,
    lag: int,
    quota: int,
    salt: int,
    bits: int = 14,
    around: int = 32,
    most: int = 0,
) -> Ragged:
    """At most three times `quota` keys of each stretch of each row, sorted.

    stretches: words of a stretch, for each row. lag: words between the two halves of a key. salt: sets these keys apart
    from those of other kinds of words. bits: signs of each half, at most 16. around: words that must agree around a
    key. most: words of a row up to which all of its keys are tried, of longer ones a half, a quarter and so on, those
    with the smallest hashes; 0 where all are tried of all.
    """
    corpus = _Corpus(rows, stretches, lag, salt, bits, around, most)
    num_passes = min(_MOST_PASSES, max(1, -(-len(rows.values) // _PASS_KEYS)))
    kept, waiting, num_waiting = _joined([]), [_joined([])], 0
    for number in range(_SLICES):
        for part in range(num_passes):
            waiting.append(corpus.counting(number, part, num_passes))
            num_waiting += len(waiting[-1].key)
            if num_waiting > max(_PASS_KEYS, len(kept.key)):
                kept, waiting, num_waiting = _chosen(_joined([kept, *waiting]), quota), [], 0
    kept = _chosen(_joined([kept, *waiting]), quota)
    order = np.lexsort((kept.key, kept.unit))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(kept.unit, minlength=len(rows))))).astype(np.int64)
    return Ragged(kept.key[order], offsets)


class _Corpus:
    """The words of all recordings, and what is asked of keys among them."""

    def __init__(
        self, rows: Ragged, stretches: Positions, lag: int, salt: int, bits: int, around: int, most: int
    ) -> None:
        self._rows, self._stretches, self._lag, self._salt, self._bits = rows, stretches, lag, salt, bits
        step = max(1, around // 32)
        self._around_B = np.arange(-around // 4, around - around // 4, step)
        self._names = (digests_of({"": rows})[:, 0] >> _HALF).astype(np.uint64)
        self._thinned = np.zeros(len(rows), np.uint64)
        if most:
            doubled = np.ceil(np.log2(np.maximum(rows.lengths, 1) / most)).clip(0, 16).astype(np.uint64)
            self._thinned = (np.uint64(1) << doubled) - np.uint64(1)

    def counting(self, number: int, part: int, num_parts: int) -> _Held:
        """The keys at one place of the word that count, of one part of all their values."""
        places, bits = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for low, high in self._blocks():
            at, raw = self._keys_of(low, high, number, part, num_parts)
            places.append(at)
            bits.append(raw)
        at, raw = np.concatenate(places), np.concatenate(bits)
        unit = self._unit_of(at)
        # neighbours of one key come in an order that depends on what they hold alone
        order = np.argsort(raw << _HALF | self._names[unit], kind="stable")
        at, raw, unit = at[order], raw[order], unit[order]
        is_new = np.ones(len(raw), np.bool_)
        is_new[1:] = (raw[1:] != raw[:-1]) | (unit[1:] != unit[:-1])
        begins = np.flatnonzero(np.r_[True, raw[1:] != raw[:-1]]) if len(raw) else np.empty(0, np.int64)
        counts = np.add.reduceat(is_new, begins, dtype=np.int32) if len(begins) else np.empty(0, np.int32)
        num_units = np.repeat(counts, np.diff(np.r_[begins, len(raw)]))
        is_kept = is_new & (num_units > 1)
        hashes = mix64(raw[is_kept] | np.uint64((self._salt * _SLICES + number) << 32))
        is_cold = (num_units[is_kept] <= _MOST_HELD) | (hashes % np.uint64(_HOT) == 0)
        rows = np.flatnonzero(is_kept)[is_cold]
        at, raw, unit, hashes, num_units = at[rows], raw[rows], unit[rows], hashes[is_cold], num_units[rows]
        counts_K = self._agreeing(at, raw, unit)
        at, unit = at[counts_K], unit[counts_K]
        stretch = (at - self._rows.offsets[unit]) // self._stretches[unit]
        return _Held(unit, stretch.astype(np.int32), num_units[counts_K], hashes[counts_K])

    def _blocks(self) -> Iterator[tuple[int, int]]:
        for low in range(0, len(self._rows.values), _BLOCK_WORDS):
            yield low, min(low + _BLOCK_WORDS, len(self._rows.values))

    def _unit_of(self, at: Positions) -> NDArray[np.int32]:
        return (np.searchsorted(self._rows.offsets, at, side="right") - 1).astype(np.int32)

    def _keys_of(
        self, low: int, high: int, number: int, part: int, num_parts: int
    ) -> tuple[Positions, NDArray[np.uint64]]:
        """(places, bits) of the keys whose first word is among these."""
        words = self._rows.values[low : high + self._lag]
        num = min(high - low, len(words) - self._lag)
        if num <= 0:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        bits = _turned(words, number) & np.uint16((1 << self._bits) - 1)
        first, second = words[:num], words[self._lag : self._lag + num]
        # a key of what does not change, as a tone, says nothing
        mine = ((first ^ second) & (first & second) >> _HALF) != 0
        if num_parts > 1:
            mine &= (bits[:num] * np.uint16(40_503) >> np.uint16(12)) % np.uint16(num_parts) == part
        at = np.flatnonzero(mine)
        unit = self._unit_of(at + low)
        inside = at + low + self._lag < self._rows.offsets[unit + 1]
        at, unit = at[inside], unit[inside]
        raw = bits[at].astype(np.uint64) << np.uint64(self._bits) | bits[at + self._lag]
        if self._thinned.any():
            dense = mix64(raw) >> _HALF & self._thinned[unit] == 0
            at, raw = at[dense], raw[dense]
        return at + low, raw

    def _agreeing(self, at: Positions, raw: NDArray[np.uint64], unit: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of the sorted keys agree with a partner all around."""
        found = np.zeros(len(at), np.bool_)
        for step in range(1, _PARTNERS + 1):
            rows = np.flatnonzero(raw[step:] == raw[:-step])
            for low in range(0, len(rows), _PAIRS):
                one = rows[low : low + _PAIRS]
                one = one[~(found[one] & found[one + step])]
                agree = agreement(self._around(at[one], unit[one]), self._around(at[one + step], unit[one + step]))
                is_same = agree >= _KEPT
                found[one[is_same]] = True
                found[one[is_same] + step] = True
        return found

    def _around(self, at: Positions, unit: NDArray[np.int32]) -> NDArray[np.uint64]:
        """The words around each place, silent ones outside of the recording."""
        places_KB = at[:, None] + self._around_B
        is_in = places_KB >= self._rows.offsets[unit][:, None]
        is_in &= places_KB < self._rows.offsets[unit + 1][:, None]
        found: NDArray[np.uint64] = np.where(is_in, self._rows.values[np.where(is_in, places_KB, 0)], np.uint64(0))
        return found


def _turned(words: NDArray[np.uint64], number: int) -> NDArray[np.uint16]:
    """The 16 signs at one place of the words, which are closed to a ring."""
    low = number * 32 // _SLICES
    bits: NDArray[np.uint16] = ((words >> np.uint64(low)) & _SIGNS >> np.uint64(low)).astype(np.uint16)
    if low > 16:
        bits |= (words << np.uint64(32 - low)).astype(np.uint16)
    return bits


def _chosen(held: _Held, quota: int) -> _Held:
    """Of each stretch of each unit the rarest keys, the most widely held ones, and those with the lowest hashes.

    A recording and its copy among strangers have their rarest keys in common; one of twenty copies has those with each
    of the others by chance, and what many of them hold with the original; the hashes serve where both mislead.
    """
    is_common = held.num_units > _MOST_HELD
    orders = (held.num_units, np.where(is_common, np.iinfo(np.int32).max, -held.num_units), np.zeros_like(is_common))
    keep = np.zeros(len(held.unit), np.bool_)
    for preferred in orders:
        order = np.lexsort((held.key, preferred, held.stretch, held.unit))
        unit, stretch = held.unit[order], held.stretch[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (unit[1:] != unit[:-1]) | (stretch[1:] != stretch[:-1])
        place = np.arange(len(begins)) - np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
        keep[order[place < quota]] = True
    return held.take(np.flatnonzero(keep))


def together(parts: list[Ragged]) -> Ragged:
    """The rows of all, one behind the other."""
    offsets = np.sum([part.offsets for part in parts], axis=0)
    values = np.empty(int(offsets[-1]), np.uint64)
    filled = offsets[:-1].copy()
    for part in parts:
        within = np.arange(len(part.values)) - np.repeat(part.offsets[:-1], part.lengths)
        values[np.repeat(filled, part.lengths) + within] = part.values
        filled = filled + part.lengths
    return Ragged(values, offsets.astype(np.int64))
