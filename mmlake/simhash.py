"""SimHash of texts, as a plugin that is part of the package: a second near tier, for who has to find what others found.

    [plugins]
    modules = ["mmlake.simhash"]

64 bits per text, each the majority among the hashes of its distinct runs of three words; texts of which at most three
bits differ are the same. That is a cosine of about .99 between the two sets of runs: a few words of a long text. The
tier of the lake itself finds more and errs less (docs/plugins.md, SimHash); pairs of this one carry its own name, so
that `mmlake why` names the tier by which a text went. Sources: Charikar 2002 for the hash; Manku, Jain and Das Sarma
2007 for the bound of three bits and for keys of whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.prints import Positions, PrintTable, Ragged
from mmlake.dedup.splitmix import mix64
from mmlake.dedup.text import fingerprints
from mmlake.plugins import Blobs, DedupSettings, Plugin, Prints, Tier
from mmlake.spans import Row

METHOD = "simhash-64"
MOST_BITS = 3  # that differ
BITS, _BLOCKS, _WORDS = 64, 6, 3
_EDGES = np.linspace(0, BITS, _BLOCKS + 1).round().astype(int)


def mmlake_rows() -> Plugin:
    """The plugin."""
    return Plugin(name="simhash", version="1.0", tiers=(TIER,))


def simhash(runs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One hash of 64 bits, or none where there are no runs. runs: hashes of the distinct runs of words of one text."""
    if not len(runs):
        return np.empty(0, np.uint64)
    bits = np.unpackbits(np.ascontiguousarray(runs, "<u8").view(np.uint8).reshape(-1, BITS // 8), axis=1)
    return np.packbits(2 * bits.sum(axis=0, dtype=np.int64) > len(runs)).view("<u8").astype(np.uint64)


def block_keys(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of each hash, of shape (hashes, 20): any three of six blocks of its bits. Two hashes that differ in at most
    three bits have a key in common, since these lie in at most three blocks."""
    masks = [sum(1 << bit for bit in range(low, high)) for low, high in zip(_EDGES, _EDGES[1:], strict=False)]
    keys = []
    for number, chosen in enumerate(combinations(masks, _BLOCKS - MOST_BITS)):
        kept = hashes & np.uint64(sum(chosen))
        keys.append(mix64(kept ^ mix64(np.array([number + 1], np.uint64))))
    return np.stack(keys, axis=1) if keys else np.empty((len(hashes), 0), np.uint64)


class SimhashMatcher:
    """Texts with a hash each: the same where at most `MOST_BITS` of its bits differ."""

    min_shared = 1
    neighbours = None

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        hashes = prints[METHOD]
        self._has_one = hashes.lengths > 0
        self._hashes = np.zeros(len(hashes), np.uint64)
        self._hashes[self._has_one] = hashes.values
        keys = np.sort(block_keys(hashes.values), axis=1)
        self.keys = Ragged(keys.ravel(), np.r_[0, np.cumsum(self._has_one * keys.shape[1])])

    def compare(self, one: int, others: Positions) -> Found:
        """1 less the share of the bits that differ."""
        differing = np.bitwise_count(self._hashes[others] ^ self._hashes[one]).astype(np.int64)
        near = (differing <= MOST_BITS) & self._has_one[others] & self._has_one[one]
        return Found(np.where(near, SAME, NONE).astype(np.int8), 1 - differing / BITS, np.zeros(len(others), np.int8))


def _opened(row: Row, store: Blobs) -> AbstractContextManager[str]:
    return nullcontext(row["text"] or "")


def _fingerprints(texts: Sequence[str], settings: DedupSettings) -> list[Prints]:
    return [{METHOD: simhash(one.shingles)} for one in fingerprints.prints(texts, words=_WORDS)]


def _bound(settings: DedupSettings) -> float:
    return 1 - MOST_BITS / BITS


TIER = Tier(
    modality="text",
    method=METHOD,
    methods=(METHOD,),
    columns=("text",),
    opened=_opened,
    fingerprint=_fingerprints,
    batch_rows=1_024,
    matcher=SimhashMatcher,
    is_pairwise=True,
    bound=_bound,
    finds="a long text with a few words changed",
    source="Charikar 2002; Manku, Jain and Das Sarma 2007",
)
