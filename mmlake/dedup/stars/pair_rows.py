"""Stars as rows: the PAIRS table of a join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mmlake import schemas
from mmlake.dedup.matching import RELATIONS
from mmlake.dedup.stars.star_edges import Stars

_NAMES = [RELATIONS.get(at) for at in range(max(RELATIONS) + 1)]
_SPANS = ("left_start_s", "left_end_s", "right_start_s", "right_end_s")


def table_of(found: Stars, digests: pa.Array, methods: Sequence[str], *, tier: str, bound: float) -> pa.Table:
    """PAIRS, sorted by what goes."""
    num = len(found.left)
    spans_s = found.spans_s.array().astype(np.float64)
    is_whole = np.isnan(spans_s[:, 0])
    spans = {name: pa.array(spans_s[:, at], mask=is_whole) for at, name in enumerate(_SPANS)}
    table = schemas.from_columns(
        schemas.PAIRS,
        {
            "left": digests.take(pa.array(np.array(found.left, np.int64))),
            "right": digests.take(pa.array(np.array(found.right, np.int64))),
            "tier": pa.repeat(tier, num),
            "method": pa.array(methods, pa.string()).take(pa.array(np.array(found.method, np.int8))),
            "relation": pa.array(_NAMES, pa.string()).take(pa.array(np.array(found.relation, np.int8))),
            "score": pa.array(np.fromiter((round(score, 6) for score in found.score), np.float64, num)),
            "bound": pa.array(np.full(num, bound)),
            **spans,
        },
    )
    return table.sort_by([("right", "ascending"), ("left", "ascending"), ("method", "ascending")])
