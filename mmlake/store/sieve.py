"""Which blobs lie in no pack, told without asking every one: a Bloom filter over the indexes of many packs.

Enters: digests in bulk, from indexes. Leaves: False for a blob that no pack holds, nearly always. It is built once look-ups in vain have cost about what building it costs,
so a short run never pays for it, and holds at most 64 MiB: beyond 30 million blobs it excludes fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mmlake.records import Digest
from mmlake.store.index import PackIndex

_FEW_PACKS = 4  # up to here a look-up in each costs little more than a look into the filter
_WORD_BLOBS = 4  # to a word of 64 bits, four of which are set by each: one blob in 300 passes that should not
_MAX_WORDS = 1 << 23
_BLOBS_PER_LOOK_UP = 16  # are entered into the filter in the time of a look-up in one index, 0.7 us
_PAIRS = [1 << (number & 63) | 1 << (number >> 6) for number in range(4096)]


class Sieve:
    """Of a set of packs that its owner changes, under the owner's lock; only `excludes` may run beside anything."""

    def __init__(self) -> None:
        self._words: memoryview | None = None
        self._num_blobs = self._room = self._num_asked = self._worth = 0

    def excludes(self, digest: Digest) -> bool:
        """Whether surely no covered pack holds the blob."""
        words = self._words
        if words is None:
            return False
        bits = int(digest[16:22], 16)
        wanted = _PAIRS[bits & 4095] | _PAIRS[bits >> 12]
        return words[int(digest[:16], 16) & (len(words) - 1)] & wanted != wanted

    def missed(self, num_packs: int, num_blobs: Callable[[], int]) -> bool:
        """Count a look-up in so many packs that found nothing; whether `build` pays by now. num_blobs: in all of them, asked for seldom."""
        if num_packs <= _FEW_PACKS or self._words is not None:
            return False
        self._num_asked += num_packs
        if self._num_asked * _BLOBS_PER_LOOK_UP < self._worth:
            return False
        self._worth = num_blobs()
        return self._num_asked * _BLOBS_PER_LOOK_UP >= self._worth

    def build(self, indexes: Iterable[PackIndex]) -> None:
        """Cover these packs."""
        indexes = list(indexes)
        self._num_blobs = self._num_asked = 0
        self._room = 2 * sum(map(len, indexes))  # for packs to come
        num_words = 1 << max(6, (self._room // _WORD_BLOBS).bit_length())
        words = memoryview(bytearray(8 * min(num_words, _MAX_WORDS))).cast("Q")
        for index in indexes:
            self._enter(words, index)
        self._words = words

    def cover(self, index: PackIndex) -> None:
        """Cover one more pack: before its owner looks into it. Where the filter is full it goes, and is built again when it pays."""
        if self._words is None:
            return
        if self._num_blobs + len(index) > self._room:
            self._words = None
        else:
            self._enter(self._words, index)

    def _enter(self, words: memoryview, index: PackIndex) -> None:
        import numpy as np  # a tenth of a second, where nothing else has loaded it

        places, bits = index.beginnings()
        pairs = np.array(_PAIRS, np.uint64)
        np.bitwise_or.at(np.frombuffer(words, np.uint64), places & np.uint64(len(words) - 1), pairs[bits & 4095] | pairs[bits >> 12])
        self._num_blobs += len(index)
