"""Edges of units of which one was made of the other by coding it anew: which of the two stays.

Enters: the edges of a tier, and what says who was made of whom. Leaves: the same edges, whose method says it of those
alone whose unit that stays is the original: why one stays and the other goes is read from it.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mmlake.dedup.stars.star_edges import Stars

if TYPE_CHECKING:
    from mmlake.dedup.matching import MadeOf


def with_originals(edges: Stars, made_of: MadeOf, recoded: int, plain: int) -> Stars:
    """The edges in their order. recoded: the method of pairs of which one was made of the other. plain: that of those
    whose original goes, as it may by its source, its depth or the rest of its cluster."""
    methods = np.array(edges.method, np.int8)
    rows = np.flatnonzero(methods == recoded)
    if not len(rows):
        return edges
    keepers, goers = (np.array(column, np.int64)[rows] for column in (edges.left, edges.right))
    methods[rows[~made_of(goers, keepers).astype(np.bool_)]] = plain
    return replace(edges, method=array("b", methods.tobytes()))
