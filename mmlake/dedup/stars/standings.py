"""Standings of units of which a table, or nothing but their digests, is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.survivors import Standing

if TYPE_CHECKING:
    import pyarrow as pa


def standing_of(nodes: pa.Table, criteria: Sequence[Criterion] = ()) -> Standing:
    """Of a table with digest, priority, is_clean and a column for each criterion's name."""
    import pyarrow as pa

    num = nodes.num_rows
    values = np.full((num, len(criteria)), np.nan)
    for at, criterion in enumerate(criteria):
        if criterion.is_of_column:
            values[:, at] = nodes[criterion.name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return Standing(
        _ranks(nodes["digest"]),
        nodes["priority"].to_numpy(zero_copy_only=False).astype(np.int64),
        nodes["is_clean"].to_numpy(zero_copy_only=False).astype(np.bool_),
        tuple(criteria),
        values,
    )


def ascending(nodes: pa.Table) -> pa.Table:
    """The rows by their digest; the table itself where they come so."""
    import pyarrow.compute as pc

    is_rising = pc.less_equal(nodes["digest"][:-1], nodes["digest"][1:])
    return nodes if pc.all(is_rising, min_count=0).as_py() else nodes.sort_by("digest")


def rows_of(nodes: pa.Table, digests: pa.Array) -> pa.Table:
    """The rows of these digests, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return nodes.take(pc.index_in(digests, value_set=pa.chunked_array(nodes["digest"]).combine_chunks()))


def in_order(num: int) -> Standing:
    """Units of which nothing is known: the first one stays, but for closeness to the rest."""
    unknown = np.full((num, 1), np.nan)
    return Standing(np.arange(num), np.zeros(num, np.int64), np.ones(num, np.bool_), (CLOSENESS,), unknown)


def by_digest(digests: Sequence[str]) -> Standing:
    """Units of which nothing is known: the smallest digest stays, but for closeness to the rest."""
    import pyarrow as pa

    num = len(digests)
    rank = _ranks(pa.chunked_array([pa.array(digests, pa.string())]))
    return Standing(rank, np.zeros(num, np.int64), np.ones(num, np.bool_), (CLOSENESS,), np.full((num, 1), np.nan))


def _ranks(digests: pa.ChunkedArray) -> Positions:
    import pyarrow.compute as pc

    rank = np.empty(len(digests), np.int64)
    rank[pc.sort_indices(digests).to_numpy()] = np.arange(len(digests))
    return rank
