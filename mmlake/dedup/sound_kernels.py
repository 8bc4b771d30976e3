"""The loop that lays stretches of some recordings along all others, compiled by numba once per machine; None where that
does not pay.

Nothing here decides: numpy does the same where numba is absent or the work is small, with equal results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.dedup import text_kernels
from mmlake.dedup.machine_code import Loop, loops

_WORK = 16  # words compared for one unit of the work that pays for compiled code


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    fewest: Callable[..., int]


def compiled(num_compared: int) -> Kernels | None:
    """The kernels, once this process has had enough work for them; None before, and where numba is absent."""
    return kernels() if text_kernels.is_worthwhile(num_compared // _WORK) else None


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels, or None without numba."""
    found = loops(
        "sounds",
        {"fewest": Loop(_fewest, ("u8*", "i8*", "i8*", "u8**", "i8", "i8*", "i8**"), (_bits, _add))},
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
