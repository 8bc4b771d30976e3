"""The loops over words of recordings that are laid along each other, compiled by numba once per machine; None where
that does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.dedup.loops import text_kernels
from mmlake.dedup.loops.machine_code import Loop, loops

_WORK = 16  # words compared for one unit of the work that pays for compiled code


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    fewest: Callable[..., int]
    gains: Callable[..., int]
    followed: Callable[..., int]
    strangers: Callable[..., int]


def compiled(num_compared: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return kernels() if text_kernels.is_worthwhile(num_compared // _WORK) else None


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels, or None without numba."""
    found = loops(
        "sounds",
        {
            "fewest": Loop(_fewest, ("u8*", "i8*", "i8*", "u8**", "i8", "i8*", "i8**"), (_bits, _add)),
            "gains": Loop(_gains, ("u8*", "u8*", "i8*", "i8*", "i8", "i8**"), (_bits, _gain)),
            "followed": Loop(_followed, ("u8*", "u8*", "i8*", "i8", "i8", "i8*", "f8", "i8*"), (_bits, _gain)),
            "strangers": Loop(
                _strangers,
                (*("u8*", "i8*") * 3, "i8", "i8*", "i8**", "i8**", "f8*", "u8*", "b1*"),
                (_bits, _gain, _turned, _found, _agreement, _is_alike),
            ),
        },
        [__file__],
    )
    return None if found is None else Kernels(**found)


def _fewest(
    words: Any, offsets: Any, rows: Any, mine: Any, step: Any, room: Any, out: Any
) -> int:  # pragma: no cover: compiled
    """Fills, for each row and each stretch, the bits in which the stretch differs from the place of the row where it
    differs least; rows that are shorter than a stretch keep what is there. mine: stretches of a multiple of four words.
    step: words of a row between two words of a stretch. room: for places that are counted together, so that the
    processor counts several at once."""
    length = mine.shape[1]
    for at in range(rows.shape[0]):
        begin, end = offsets[rows[at]], offsets[rows[at] + 1] - step * length + 1
        for low in range(begin, end, room.shape[0]):
            num = min(room.shape[0], end - low)
            for stretch in range(mine.shape[0]):
                for place in range(num):
                    room[place] = 0
                for word in range(0, length, 4):
                    _add(words, low + step * word, step, mine, stretch, word, num, room)
                fewest = out[at, stretch]
                for place in range(num):
                    fewest = min(fewest, room[place])
                out[at, stretch] = fewest
    return 0


def _add(
    words: Any, first: Any, step: Any, mine: Any, stretch: Any, word: Any, num: Any, room: Any
) -> None:  # pragma: no cover: compiled
    """Adds the bits in which four words of the stretch differ, at each place."""
    one, other = mine[stretch, word], mine[stretch, word + 1]
    third, last = mine[stretch, word + 2], mine[stretch, word + 3]
    for place in range(first, first + num):
        room[place - first] += (
            _bits(words[place] ^ one)
            + _bits(words[place + step] ^ other)
            + _bits(words[place + 2 * step] ^ third)
            + _bits(words[place + 3 * step] ^ last)
        )


def _bits(x: Any) -> Any:  # pragma: no cover: compiled
    """How many bits of 64 are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _gains(short: Any, long: Any, starts: Any, rows: Any, size: Any, out: Any) -> None:  # pragma: no cover: compiled
    """Fills, for each block of the shorter one and each row of the longer one from which it is laid along it, the firm
    bits that agree less those that do not. long: with silence around it."""
    for block in range(starts.shape[0]):
        for at in range(rows.shape[0]):
            total = 0
            for word in range(size):
                total += _gain(short[starts[block] + word], long[rows[at] + word])
            out[block, at] = total


def _followed(
    short: Any, long: Any, starts: Any, size: Any, first: Any, tried: Any, kept: Any, diagonals: Any
) -> None:  # pragma: no cover: compiled
    """Fills the diagonal of each block, followed from the first block on to both ends. tried: changes of it, of which
    of equal gains the first is taken. kept: of the firm bits of a block what it must gain to change it. diagonals: that
    of the first block, for all."""
    diagonal = diagonals[first]
    for way in range(2):
        block, step, current = first, 1 - 2 * way, diagonal
        while 0 <= block < starts.shape[0]:
            begin, best, gain, num_firm = starts[block], 0, 0, 0
            for word in range(begin, begin + size):
                num_firm += _bits(short[word] >> np.uint64(32))
            for at in range(tried.shape[0]):
                total = 0
                for word in range(begin, begin + size):
                    place = word + current + tried[at]
                    if 0 <= place < long.shape[0]:
                        total += _gain(short[word], long[place])
                if at == 0 or total > gain:
                    best, gain = at, total
            if gain >= kept * num_firm:
                current += tried[best]
            diagonals[block] = current
            block += step


def _gain(one: Any, other: Any) -> Any:  # pragma: no cover: compiled
    """The firm bits in which two words agree less those in which they do not."""
    firm = (one & other) >> np.uint64(32)
    return _bits(firm) - 2 * _bits((one ^ other) & firm)


def _strangers(
    chroma: Any, chroma_begins: Any, bands: Any, bands_begins: Any, keys: Any, key_begins: Any, one: Any, others: Any,
    kinds: Any, around: Any, bounds: Any, room: Any, out: Any,
) -> None:  # pragma: no cover: compiled  # fmt: skip
    """Marks which of the others share a few keys with the one, as many as there is room for, and agree with it around
    none of them. kinds: of each kind of words the signs of half a key, the words between its halves, and how many words
    a brief recording has less than. around: words that must agree, from the first one of a key. bounds: of how much, of
    what is brief and of what is not."""
    for at in range(others.shape[0]):
        other, num = others[at], 0
        left, right = key_begins[one], key_begins[other]
        while left < key_begins[one + 1] and right < key_begins[other + 1] and num <= room.shape[0]:
            if keys[left] < keys[right]:
                left += 1
            elif keys[left] > keys[right]:
                right += 1
            else:
                if num < room.shape[0]:
                    room[num] = keys[left]
                num, left, right = num + 1, left + 1, right + 1
        is_stranger = 0 < num <= room.shape[0]
        for key in room[: num if is_stranger else 0]:
            kind = np.int64(key >> np.uint64(35))
            words, begins = (bands, bands_begins) if kind else (chroma, chroma_begins)
            mine, theirs = words[begins[one] : begins[one + 1]], words[begins[other] : begins[other + 1]]
            is_brief = min(mine.shape[0], theirs.shape[0]) < kinds[kind, 2]
            if _is_alike(mine, theirs, key, kinds[kind], around[kind], bounds[0] if is_brief else bounds[1]):
                is_stranger = False
                break
        out[at] = is_stranger


def _is_alike(
    mine: Any, theirs: Any, key: Any, kind: Any, around: Any, bound: Any
) -> bool:  # pragma: no cover: compiled
    """Whether two recordings agree around the first or the last place at which each has the key."""
    my_first, my_last = _found(mine, key, kind, 1), _found(mine, key, kind, -1)
    first, last = _found(theirs, key, kind, 1), _found(theirs, key, kind, -1)
    for one in (my_first, my_last):
        for other in (first, last):
            if _agreement(mine, theirs, one, other, around) >= bound:
                return True
    return False


def _found(words: Any, key: Any, kind: Any, step: Any) -> int:  # pragma: no cover: compiled
    """The first place of the key, or with a step of -1 the last one."""
    signs, lag = kind[0], kind[1]
    mask, turn = (
        (np.uint64(1) << np.uint64(signs)) - np.uint64(1),
        (key >> np.uint64(32) & np.uint64(7)) << np.uint64(2),
    )
    high, low = key >> np.uint64(16) & np.uint64(0xFFFF), key & np.uint64(0xFFFF)
    place, end = (0, words.shape[0] - lag) if step > 0 else (words.shape[0] - lag - 1, -1)
    while place != end:
        first, second = words[place], words[place + lag]
        if (
            _turned(first, turn) & mask == high
            and _turned(second, turn) & mask == low
            and (first ^ second) & ((first & second) >> np.uint64(32)) != 0
        ):
            return place
        place += step
    return 0


def _turned(word: Any, turn: Any) -> Any:  # pragma: no cover: compiled
    """The signs of a word, which is closed to a ring, from one of them on."""
    ring = word & np.uint64(0xFFFFFFFF)
    return (ring | ring << np.uint64(32)) >> turn


def _agreement(mine: Any, theirs: Any, one: Any, other: Any, around: Any) -> Any:  # pragma: no cover: compiled
    """`audio.align.agreement` of the words around a place of each."""
    gain, full = 0, 0
    for at in range(around.shape[0]):
        left, right = one + around[at], other + around[at]
        if 0 <= left < mine.shape[0] and 0 <= right < theirs.shape[0]:
            firm_left, firm_right = mine[left] >> np.uint64(32), theirs[right] >> np.uint64(32)
            if firm_left != 0 and firm_right != 0:
                gain += _gain(mine[left], theirs[right])
                full += _bits(firm_left) + _bits(firm_right)
    return gain / max(full / 2, 1.0)
