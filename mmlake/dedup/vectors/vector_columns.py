"""The vectors of each encoder in the order of their digests, laid in a file where they are large.

Enters: rows of EMBEDDINGS, some at a time. Leaves: per encoder the distinct digests and one array of shape (N, D).
Legend: N units, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions
from mmlake.engine import Scratch, current
from mmlake.engine.scratch import Column

Vectors = NDArray[np.float32]
_AT_ONCE = 1 << 14  # vectors that are moved together


class _Encoder:
    """What came of one encoder so far."""

    def __init__(self, scratch: Scratch) -> None:
        self.digests: list[pa.Array] = []
        self.values: Column = scratch.column(np.float32)

    def add(self, rows: pa.Table) -> None:
        self.digests += rows["digest"].chunks
        for chunk in rows["vector"].chunks:  # one by one: offsets of lists are 32 bits wide
            self.values.append(chunk.flatten().to_numpy(zero_copy_only=False))

    def found(self) -> tuple[pa.Array, Vectors]:
        num = sum(map(len, self.digests))
        order, digests = _distinct(pa.concat_arrays([pa.array([], pa.string()), *self.digests]))
        values = self.values.array()
        return digests, rows_of(values.reshape(num, -1 if num else 0), order)


def by_encoder(parts: Iterable[pa.Table]) -> dict[str, tuple[pa.Array, Vectors]]:
    """Encoder -> (the distinct digests, sorted; their vectors), encoders sorted. Of a digest that comes again, as one
    blob in several shards does, the first vector counts; the others are equal. parts: with the columns `digest`,
    `encoder` and `vector`, of units that have one."""
    found: dict[str, _Encoder] = {}
    for part in parts:
        encoders = pc.unique(part["encoder"]).to_pylist()
        for encoder in encoders:
            rows = part if len(encoders) == 1 else part.filter(pc.equal(part["encoder"], encoder))
            found.setdefault(encoder, _Encoder(current())).add(rows)
    return {encoder: found[encoder].found() for encoder in sorted(found)}


def rows_of(vectors: Vectors, rows: Positions) -> Vectors:
    """Some of the vectors, in this order, in a file where they are large; the array itself where it is all of them."""
    if len(rows) == len(vectors) and bool((np.diff(rows) == 1).all()):
        return vectors
    made: Vectors = current().zeros(len(rows) * vectors.shape[1], np.float32).reshape(len(rows), vectors.shape[1])
    for low in range(0, len(rows), _AT_ONCE):
        made[low : low + _AT_ONCE] = vectors[rows[low : low + _AT_ONCE]]
    return made


def _distinct(digests: pa.Array) -> tuple[Positions, pa.Array]:
    """(where each distinct one came first, in the order of the digests; these, sorted)."""
    order = pc.sort_indices(digests)
    ordered = digests.take(order)
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    at = order.to_numpy().astype(np.int64)
    if begins.all():
        return at, ordered
    return np.minimum.reduceat(at, np.flatnonzero(begins)), ordered.filter(pa.array(begins))
