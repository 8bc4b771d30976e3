"""Which recordings are worth a comparison: the rarest keys of each stretch of time.

Enters: words of many recordings (mmlake.dedup.audio_align). Leaves: a few keys per second of each, so that a long
recording costs in proportion to its length and one that shares a part with another shares keys with it.

A key is 12 signs of one word and the same 12 of a word a little later: 24 bits, at eight places of the word. One word
alone has too few distinct values: beyond some hundred hours each of its 16-bit slices is shared by everybody. Keys that
one recording alone holds say nothing and are dropped first; of the others the rarest are kept, which both sides of a
pair agree on because rarity is counted over all recordings.
Legend: K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.joins import mix64
from mmlake.dedup.prints import Positions, Ragged

_SLICES, _SLICE_BITS = 8, 12
_HALF, _SIGNS = np.uint64(32), np.uint64(0xFFFFFFFF)
_MOST_HELD = 64  # units: a key of more is silence, hum or a jingle
_BLOCK_WORDS = 1 << 20  # keys are made of so many words at once
_PASS_KEYS = 1 << 23  # keys sorted at once: 400 MiB with what belongs to them


class _Held(NamedTuple):
    """Keys and who holds them: arrays of one length."""

    unit: Positions
    stretch: NDArray[np.int32]  # of time, within the unit
    num_units: NDArray[np.int32]  # that hold the key
    key: NDArray[np.uint64]

    def take(self, rows: NDArray[np.int64]) -> _Held:
        return _Held(self.unit[rows], self.stretch[rows], self.num_units[rows], self.key[rows])


def _joined(parts: Sequence[_Held]) -> _Held:
    return _Held(
        np.concatenate([np.empty(0, np.int64), *(part.unit for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.stretch for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.num_units for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.key for part in parts)]),
    )


def rare_keys(rows: Ragged, stretches: Positions, *, lag: int, quota: int, salt: int) -> Ragged:
    """At most three times `quota` keys of each stretch of each row, sorted. stretches: words of a stretch, for each
    row. lag: words between the two halves of a key. salt: sets these keys apart from those of other kinds of words."""
    num_passes = max(1, -(-len(rows.values) * _SLICES // _PASS_KEYS))
    kept = _joined([])
    for part in range(num_passes):
        found = _joined([_keys_of(rows, stretches, block, lag, salt, part, num_passes) for block in _blocks(rows)])
        kept = _chosen(_joined([kept, _shared(found)]), quota)
    order = np.lexsort((kept.key, kept.unit))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(kept.unit, minlength=len(rows))))).astype(np.int64)
    return Ragged(kept.key[order], offsets)


def _blocks(rows: Ragged) -> list[tuple[int, int]]:
    """First and last row of each block of about as many words."""
    if not len(rows):
        return []
    cuts = np.searchsorted(rows.offsets, np.arange(0, rows.offsets[-1] + _BLOCK_WORDS, _BLOCK_WORDS))
    edges = np.unique(np.clip(np.concatenate(([0], cuts, [len(rows)])), 0, len(rows)))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _keys_of(
    rows: Ragged, stretches: Positions, block: tuple[int, int], lag: int, salt: int, part: int, num_parts: int
) -> _Held:
    """The keys of the block's rows that fall into the part; `num_units` is not known yet."""
    offsets = rows.offsets[block[0] : block[1] + 1]
    words, lengths = rows.values[offsets[0] : offsets[-1]], np.diff(offsets)
    unit = np.repeat(np.arange(block[0], block[1]), lengths)
    place = np.arange(len(words)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    first = np.flatnonzero(place + lag < np.repeat(lengths, lengths))
    first = first[(words[first] >> _HALF != 0) & (words[first + lag] >> _HALF != 0)]
    mask = np.uint64((1 << _SLICE_BITS) - 1)
    keys, at = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for number in range(_SLICES):
        low, high = np.uint64(number * 32 // _SLICES), np.uint64(32 - number * 32 // _SLICES)
        signs = words & _SIGNS
        turned = ((signs >> low) | (signs << high)) & mask
        raw = (turned[first] << np.uint64(_SLICE_BITS)) | turned[first + lag]
        key = mix64(raw | np.uint64((salt * _SLICES + number) << 2 * _SLICE_BITS))
        mine = np.flatnonzero(key % np.uint64(num_parts) == part) if num_parts > 1 else np.arange(len(key))
        keys.append(key[mine])
        at.append(first[mine])
    at_K, key_K = np.concatenate(at), np.concatenate(keys)
    unit_K = unit[at_K]
    return _Held(unit_K, (place[at_K] // stretches[unit_K]).astype(np.int32), np.zeros(len(at_K), np.int32), key_K)


def _shared(held: _Held) -> _Held:
    """Those that at least two units hold, each once per unit, with how many hold them."""
    # those of one key come in the order of their units and stretches, which a stable sort keeps
    held = held.take(np.argsort(held.key, kind="stable"))
    is_new = np.ones(len(held.key), np.bool_)
    is_new[1:] = (held.key[1:] != held.key[:-1]) | (held.unit[1:] != held.unit[:-1])
    held = held.take(np.flatnonzero(is_new))
    begins = np.flatnonzero(np.r_[True, held.key[1:] != held.key[:-1]]) if len(held.key) else np.empty(0, np.int64)
    counts = np.diff(np.r_[begins, len(held.key)])
    held = held._replace(num_units=np.repeat(counts, counts).astype(np.int32))
    return held.take(np.flatnonzero(held.num_units > 1))


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
