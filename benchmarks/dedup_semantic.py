"""Semantic duplicates against blocked brute force, one thread: CPU seconds from vectors to stars, and their recall.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/dedup_semantic.py --vectors 50000 --dimension 384

Brute force is one product of all vectors with all, 2,048 rows at a time, and the places above the bound; it elects
nobody. Recall is exact, on 1,000 sampled vectors. Generated clusters; each round takes both in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlake import bench
from mmlake.dedup.leaders import stars
from mmlake.dedup.semantic_tier import equal_vectors
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.star_edges import Stars
from mmlake.dedup.survivors import by_digest
from mmlake.dedup.vectors import VectorMatcher, Vectors, never_apart, recall

BOUND = 0.9


def ours(vectors: Vectors, digests: list[str]) -> Stars:
    """From vectors to stars."""
    standing = by_digest(digests)
    matcher = VectorMatcher(vectors, standing.order(), bound=BOUND, settings=DedupSettings())
    return stars(matcher, standing, equal=equal_vectors(vectors))


def brute_force(vectors: Vectors) -> int:
    """How many ordered pairs lie at or above the bound."""
    return sum(int(((vectors[low : low + 2_048] @ vectors.T) >= BOUND).sum()) for low in range(0, len(vectors), 2_048))


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    vectors = bench.clustered(chosen.vectors, chosen.dimension, bound=BOUND, seed=1)
    digests = [f"{at:064x}" for at in range(len(vectors))]
    ours(vectors[:1_000], digests[:1_000])  # what is imported at first use
    rounds = []
    for _ in range(chosen.rounds):
        ours_s, found = _timed(lambda: ours(vectors, digests))
        brute_s, _ = _timed(lambda: brute_force(vectors))
        rounds.append((ours_s, brute_s))
    gone = np.isin(np.arange(len(vectors)), found.right)
    units, num_found = recall(vectors, gone, bound=BOUND, apart=never_apart, seed=3, sample=1_000)
    row = {
        "vectors": len(vectors),
        "dimension": chosen.dimension,
        "ours_s": statistics.median(one for one, _ in rounds),
        "brute_force_s": statistics.median(other for _, other in rounds),
        "ratio": statistics.median(other / one for one, other in rounds),
        "recall": num_found / max(1, units),
        "recall_units": units,
    }
    print(json.dumps({name: round(one, 3) if isinstance(one, float) else one for name, one in row.items()}))


if __name__ == "__main__":
    main()
