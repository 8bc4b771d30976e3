"""Fingerprints of all shards as columns in the order of digests, for a corpus of any size.

Enters: tables of fingerprints, in any order. Leaves: the digests, and for each method one row of values per digest, in
arrays that lie in files where they are large, so that a join reads what it compares and holds none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.dedup.prints import Positions, Ragged, of_lists
from mmlake.engine import Column, Engine, TextColumn, cumulated
from mmlake.engine.sorting import num_before

_COLUMNS = ("digest", "method", "hashes")


def print_columns(
    fingerprints: Iterable[pa.Table], methods: Sequence[str], *, engine: Engine, nodes: pa.ChunkedArray | None = None
) -> tuple[pa.Array, dict[str, Ragged], Positions | None]:
    """(the digests that a method has made something of, sorted; method -> one row for each, empty where it made
    nothing; where each of them stands in `nodes`).

    A digest counts once for each method. nodes: sorted digests; of others nothing is taken.
    """
    named = pa.array(methods, pa.string())
    parts = (_of_methods(part.select(list(_COLUMNS)), named) for part in fingerprints)
    digests = TextColumn(engine.scratch)
    places = engine.scratch.column(np.int64)
    found = {method: _Rows(engine) for method in methods}
    made = engine.grouped(
        (part for part in parts if part.num_rows), ("digest", "method"), partial(by_digest, methods=tuple(methods))
    )
    for table in made:
        if nodes is not None:
            table, at = _among(table, nodes)
            places.append(at)
        digests.append(table["digest"])
        for method, rows in found.items():
            rows.append(of_lists(table[method]))
    pa.default_memory_pool().release_unused()  # what sorting took is not wanted again
    return (
        digests.array(),
        {method: rows.ragged() for method, rows in found.items()},
        (None if nodes is None else places.array()),
    )


def prints_at(
    fingerprints: Iterable[pa.Table], methods: Sequence[str], digests: pa.Array, *, engine: Engine
) -> dict[str, Ragged]:
    """Method -> what it made of each digest, in their order; an empty row where it made nothing. digests: sorted, each
    once. For parts of fingerprints of any number, which are never held together."""
    _, prints, places = print_columns(fingerprints, methods, engine=engine, nodes=pa.chunked_array([digests]))
    return {method: _spread(rows, places, len(digests), engine) for method, rows in prints.items()}


def _spread(rows: Ragged, places: Positions | None, num: int, engine: Engine) -> Ragged:
    """So many rows, those that are given at these ascending places, the others empty."""
    lengths = np.zeros(num, np.int64)
    lengths[places] = rows.lengths
    return Ragged(rows.values, cumulated(lengths, engine.scratch))


def _of_methods(part: pa.Table, methods: pa.Array) -> pa.Table:
    """The rows of these methods; the table itself where all are, since a filter copies it."""
    is_of = pc.is_in(part["method"], value_set=methods)
    return part if pc.all(is_of, min_count=0).as_py() else part.filter(is_of)


class _Rows:
    """The rows of one method, while they come."""

    def __init__(self, engine: Engine) -> None:
        self._scratch = engine.scratch
        self._values: Column = engine.scratch.column(np.uint64)
        self._lengths: Column = engine.scratch.column(np.int64)

    def append(self, rows: Ragged) -> None:
        """The rows of more units, in their order."""
        self._lengths.append(rows.lengths)
        self._values.append(rows.values)

    def ragged(self) -> Ragged:
        """All of them."""
        return Ragged(self._values.array(), cumulated(self._lengths.array(), self._scratch))


def by_digest(table: pa.Table, methods: Sequence[str]) -> pa.Table:
    """A row per digest: what each of the methods made of it, an empty list where it made nothing.

    table: digest, method and hashes, in the order of the first two, each method once."""
    unit = _units(table["digest"])
    is_first = np.diff(unit, prepend=-1) > 0
    columns = {"digest": table["digest"].filter(pa.array(is_first))}
    for method in methods:
        is_of = pc.equal(table["method"], method)
        rows = of_lists(table["hashes"].filter(is_of))
        lengths = np.zeros(int(is_first.sum()), np.int64)
        lengths[unit[is_of.to_numpy()]] = rows.lengths
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        columns[method] = pa.LargeListArray.from_arrays(offsets, rows.values)
    return pa.table(columns)


def _units(digests: pa.ChunkedArray) -> Positions:
    """For each of the sorted digests how many others stand before it."""
    is_new = pc.not_equal(digests[1:], digests[:-1]).to_numpy()
    return np.concatenate((np.zeros(min(1, len(digests)), np.int64), np.cumsum(is_new, dtype=np.int64)))


def _among(table: pa.Table, nodes: pa.ChunkedArray) -> tuple[pa.Table, Positions]:
    """(the rows whose digest is a node, the places of these nodes). Both sides are sorted, so a stretch of the nodes is
    enough."""
    first, last = (table["digest"][at].as_py() for at in (0, -1))
    low, high = (num_before(nodes, one) for one in (first, last))
    at = pc.index_in(table["digest"], value_set=nodes[low : high + 1].combine_chunks())
    is_node = pc.is_valid(at)
    return table.filter(is_node), pc.drop_null(at).to_numpy().astype(np.int64) + low


def prints_of(fingerprints: pa.Table, methods: Sequence[str], digests: pa.Array) -> dict[str, Ragged]:
    """Method -> what it made of each digest, in their order; an empty row where it made nothing."""
    prints = {}
    for method in methods:
        rows = fingerprints.filter(pc.equal(fingerprints["method"], method))
        hashes = of_lists(rows["hashes"])
        # behind all others the empty one
        hashes = Ragged(hashes.values, np.append(hashes.offsets, hashes.offsets[-1]))
        at = np.full(len(digests), len(hashes) - 1, np.int64)
        place = pc.index_in(rows["digest"], value_set=digests)
        known = pc.is_valid(place).to_numpy(zero_copy_only=False)
        at[pc.fill_null(place, 0).to_numpy()[known]] = np.flatnonzero(known)
        prints[method] = hashes.take(at)
    return prints
