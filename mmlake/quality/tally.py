"""How many items broke which rule."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc


def tally(verdicts: pa.Table) -> tuple[Counter[str], int]:
    """(rule -> distinct items that broke it, distinct items). verdicts: digest and findings, of any number of
    shards."""
    broken: Counter[str] = Counter()
    seen: set[str] = set()
    for row in verdicts.select(["digest", "findings"]).to_pylist():
        if row["digest"] not in seen:
            seen.add(row["digest"])
            broken.update({finding["rule"] for finding in row["findings"]})
    return broken, len(seen)


def count_quarantined(verdicts: pa.Table) -> tuple[int, int]:
    """(distinct items that are kept out of versions, distinct items). verdicts: digest and status, of any number of
    shards."""
    out = verdicts.filter(pc.equal(verdicts["status"], "quarantined"))
    return len(out["digest"].unique()), len(verdicts["digest"].unique())
