"""Which row of a column holds a digest: sorted 64-bit prefixes in place of a hash table of texts, which takes thirty
times the memory and is built anew for every question."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.versions.sample_schemas import piece

_DIGITS = 64  # of a SHA-256 in hexadecimal
_NONE = "0" * _DIGITS


class DigestIndex:
    """The rows of a column of digests."""

    def __init__(self, digests: pa.ChunkedArray | pa.Array) -> None:
        self._digests = piece(digests)
        prefixes = _prefixes(self._digests)
        self._rows = np.argsort(prefixes, kind="stable")
        self._prefixes = prefixes[self._rows]
        again = np.flatnonzero(self._prefixes[1:] == self._prefixes[:-1])
        # texts that are no digests have no prefix, and prefixes can be made equal on purpose: slower, and as right
        self._is_plain = len(again) > 0
        counts = pc.value_counts(self._digests) if self._is_plain else None
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values") if counts is not None else None
        self.twice: str | None = None if twice is None else pc.min(twice).as_py()  # the first one that is there twice

    def find(self, digests: pa.Array) -> np.ndarray:
        """The row of each digest, int64; -1 where it is in none, or is null."""
        if not len(self._rows):
            return np.full(len(digests), -1)
        if self._is_plain:
            found = pc.index_in(digests, value_set=self._digests, skip_nulls=True)
            return np.asarray(pc.fill_null(found, -1), np.int64)
        at = np.searchsorted(self._prefixes, _prefixes(digests))
        rows = self._rows[np.minimum(at, len(self._rows) - 1)]
        is_it = pc.fill_null(pc.equal(self._digests.take(pa.array(rows)), digests), False)
        return np.where(np.asarray(is_it), rows, -1)


def _prefixes(digests: pa.Array) -> np.ndarray:
    """The first 16 digits of each digest as a number, uint64; 0 for what is no digest."""
    is_digest = pc.fill_null(pc.equal(pc.binary_length(digests), _DIGITS), False)
    heads = pc.binary_slice(pc.if_else(is_digest, digests, _NONE).cast(pa.binary()), 0, 16).cast(pa.binary(16))
    characters = np.frombuffer(heads.buffers()[1], np.uint8)[16 * heads.offset :][: 16 * len(heads)]
    nibbles = (characters & 15) + 9 * (characters >> 6)
    found: np.ndarray = ((nibbles[::2] << 4) | (nibbles[1::2] & 15)).view(">u8").astype(np.uint64)
    return found
