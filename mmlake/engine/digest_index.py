"""Which row of a column holds a digest: sorted 64-bit prefixes in place of a hash table of texts, which takes thirty
times the memory and is built anew for every question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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

    def find(self, digests: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
        """The row of each digest; -1 where it is in none, or is null."""
        digests = piece(digests)
        if not len(self._rows):
            return np.full(len(digests), -1)
        if self._is_plain:
            found = pc.index_in(digests, value_set=self._digests, skip_nulls=True)
            return np.asarray(pc.fill_null(found, -1), np.int64)
        at = np.searchsorted(self._prefixes, _prefixes(digests))
        rows = self._rows[np.minimum(at, len(self._rows) - 1)]
        is_it = pc.fill_null(pc.equal(self._digests.take(pa.array(rows)), digests), False)
        return np.where(np.asarray(is_it), rows, -1)

    def among(self, parts: Iterable[pa.Table], by: str) -> Iterator[pa.Table]:
        """Of each part the rows whose digest in the column is one of these."""
        for part in parts:
            yield part.filter(pa.array(self.find(part[by]) >= 0))

    def places(self, parts: Iterable[pa.Table], by: str) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """The same, as (the row that each has here, its other columns)."""
        for part in parts:
            at = self.find(part[by])
            yield at[at >= 0], part.drop_columns(by).filter(pa.array(at >= 0))

    def in_order(self, parts: Iterable[pa.Table], by: str) -> pa.Table:
        """For each of the digests its row without it, the first that comes; nulls where there is none. parts: at least
        one."""
        held, row, num = list[pa.Table](), np.full(len(self._digests), -1), 0
        for at, rows in self.places(parts, by):
            is_new = row[at] < 0
            if not is_new.all():
                at, rows = at[is_new], rows.filter(pa.array(is_new))
            row[at[::-1]] = num + np.arange(len(at))[::-1]
            held.append(rows)
            num += len(at)
        return pa.concat_tables(held).take(pa.array(row, mask=row < 0))


def piece(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column in one piece; where it is in one already, nothing is copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _prefixes(digests: pa.Array) -> np.ndarray:
    """The first 16 digits of each digest as a number, uint64; 0 for what is no digest."""
    is_digest = pc.fill_null(pc.equal(pc.binary_length(digests), _DIGITS), False)
    heads = pc.binary_slice(pc.if_else(is_digest, digests, _NONE).cast(pa.binary()), 0, 16).cast(pa.binary(16))
    characters = np.frombuffer(heads.buffers()[1], np.uint8)[16 * heads.offset :][: 16 * len(heads)]
    nibbles = (characters & 15) + 9 * (characters >> 6)
    found: np.ndarray = ((nibbles[::2] << 4) | (nibbles[1::2] & 15)).view(">u8").astype(np.uint64)
    return found
