"""Stars as rows: the PAIRS table of a join."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mmlake import schemas
from mmlake.dedup.matching import RELATIONS
from mmlake.dedup.star_edges import Stars

_SPANS = ("left_start_s", "left_end_s", "right_start_s", "right_end_s")


def table_of(found: Stars, digests: pa.Array, methods: Sequence[str], *, tier: str, bound: float) -> pa.Table:
    """PAIRS, sorted by what goes."""
    num = len(found.left)
    spans = {
        name: pa.array([None if one is None else one[at] for one in found.spans_s], pa.float64())
        for at, name in enumerate(_SPANS)
    }
    table = schemas.from_columns(
        schemas.PAIRS,
        {
            "left": digests.take(pa.array(found.left, pa.int64())),
            "right": digests.take(pa.array(found.right, pa.int64())),
            "tier": pa.array([tier] * num, pa.string()),
            "method": pa.array([methods[at] for at in found.method], pa.string()),
            "relation": pa.array([RELATIONS[at] for at in found.relation], pa.string()),
            "score": [round(score, 6) for score in found.score],
            "bound": [bound] * num,
            **spans,
        },
    )
    return table.sort_by([("right", "ascending"), ("left", "ascending"), ("method", "ascending")])
