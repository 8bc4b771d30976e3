"""A Bloom filter over the indexes of many packs: it says of nearly every absent blob that no pack holds it, without a
lookup in each.

Enters: the digests of whole indexes. Leaves: whether a blob is surely in none of them. It is built once fruitless
lookups have cost about as much as building it, so a short run never pays for it. It takes at most 64 MiB: beyond 30
million blobs more of the absent ones pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mmlake.records import Digest
from mmlake.store.index import PackIndex

_FEW_PACKS = 4  # up to here a lookup in each costs little more than one in the filter
_WORD_BLOBS = 4  # blobs per word of 64 bits, of which each sets four: one absent blob in 300 passes
_MAX_WORDS = 1 << 23  # 64 MiB
_BLOBS_PER_LOOKUP = 16  # so many are added to the filter in the time of a lookup in one index, 0.7 us
_PAIRS = [1 << (number & 63) | 1 << (number >> 6) for number in range(4096)]


class BloomFilter:
    """The filter of one set of packs. Its owner changes it under a lock; `excludes` needs none."""

    def __init__(self) -> None:
        self._words: memoryview | None = None
        self._num_blobs = self._room = self._num_asked = self._worth = 0

    def excludes(self, digest: Digest) -> bool:
        """Whether surely no pack that was added holds the blob; False as long as there is no filter."""
        words = self._words
        if words is None:
            return False
        bits = int(digest[16:22], 16)
        wanted = _PAIRS[bits & 4095] | _PAIRS[bits >> 12]
        return words[int(digest[:16], 16) & (len(words) - 1)] & wanted != wanted

    def missed(self, num_packs: int, num_blobs: Callable[[], int]) -> bool:
        """Whether `build` pays by now, after one more lookup in so many packs found nothing. num_blobs: counts the
        blobs in all of them; called seldom."""
        if num_packs <= _FEW_PACKS or self._words is not None:
            return False
        self._num_asked += num_packs
        if self._num_asked * _BLOBS_PER_LOOKUP < self._worth:
            return False
        self._worth = num_blobs()
        return self._num_asked * _BLOBS_PER_LOOKUP >= self._worth

    def build(self, indexes: Iterable[PackIndex]) -> None:
        """Make the filter anew, of these packs."""
        indexes = list(indexes)
        self._num_blobs = self._num_asked = 0
        self._room = 2 * sum(map(len, indexes))  # for packs to come
        num_words = 1 << max(6, (self._room // _WORD_BLOBS).bit_length())
        words = memoryview(bytearray(8 * min(num_words, _MAX_WORDS))).cast("Q")
        for index in indexes:
            self._set_bits(words, index)
        self._words = words

    def add(self, index: PackIndex) -> None:
        """Add a pack, before its owner searches it. A full filter is dropped, and built again once that pays."""
        if self._words is None:
            return
        if self._num_blobs + len(index) > self._room:
            self._words = None
        else:
            self._set_bits(self._words, index)

    def _set_bits(self, words: memoryview, index: PackIndex) -> None:
        import numpy as np  # takes a tenth of a second where nothing else has loaded it

        places, bits = index.beginnings()
        pairs = np.array(_PAIRS, np.uint64)
        np.bitwise_or.at(
            np.frombuffer(words, np.uint64), places & np.uint64(len(words) - 1), pairs[bits & 4095] | pairs[bits >> 12]
        )
        self._num_blobs += len(index)
