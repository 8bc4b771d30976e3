"""A second witness for semantic pairs of text: how much wording they share.

A sentence encoder puts pages of one template ("create a gateway", "delete a gateway") as close together as it puts
paraphrases: .88 to .97 for both on command references. They differ in wording: paraphrases share almost no 5-grams,
siblings of a template share many of them, and texts that share most of them are near duplicates already. So a semantic
pair that shares more than a little is a pair of siblings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.dedup.settings import DedupSettings


def without_template_siblings(pairs: pa.Table, fingerprints: pa.Table, *, settings: DedupSettings) -> pa.Table:
    """The pairs whose smaller 5-gram set is shared by at most `settings.semantic_shared_fraction`; pairs without
    shingles stay.

    fingerprints: schema FINGERPRINTS; only the method `shingles` is read.
    """
    named = pa.chunked_array([*pairs.column("left").chunks, *pairs.column("right").chunks], pa.string())
    rows = fingerprints.filter(
        pc.and_(
            pc.equal(fingerprints.column("method"), "shingles"),
            pc.is_in(fingerprints.column("digest"), value_set=named.combine_chunks()),
        )
    )
    shingles = {
        digest: np.asarray(hashes, np.uint64)
        for digest, hashes in zip(rows.column("digest").to_pylist(), rows.column("hashes").to_pylist(), strict=True)
    }
    kept = [
        _shared(shingles.get(left), shingles.get(right)) <= settings.semantic_shared_fraction
        for left, right in zip(pairs.column("left").to_pylist(), pairs.column("right").to_pylist(), strict=True)
    ]
    return pairs.filter(pa.array(kept, pa.bool_()))


def _shared(left: np.ndarray | None, right: np.ndarray | None) -> float:
    """Share of the smaller set that is in the larger one, 0..1; 0 where one is unknown or empty. Both are sorted and
    distinct."""
    if left is None or right is None or not len(left) or not len(right):
        return 0.0
    return len(np.intersect1d(left, right, assume_unique=True)) / min(len(left), len(right))
