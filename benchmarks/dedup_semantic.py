"""Semantic duplicates against blocked brute force, one thread: CPU seconds from vectors to stars, and their recall.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/dedup_semantic.py --vectors 50000 --dimension 384

    python benchmarks/dedup_semantic.py --pictures ../shared/data --vectors 20000 --index flat

Brute force is one product of all vectors with all, 2,048 rows at a time, and the places above the bound; it elects
nobody. Recall is exact, on sampled vectors. Generated clusters, or of a folder of pictures random square crops that
overlap, some of them as JPEG once more; each round takes both in turn.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mmlake import bench
from mmlake.dedup.matching import SAME
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.vectors.matcher import VectorMatcher, Vectors, never_apart, recall
from mmlake.dedup.vectors.tier import equal_vectors
from mmlake.embed.classical import picture

BOUND, BOUND_OF_PICTURES = 0.9, 0.95
_LEAST_PX, _MOST_PX = 72, 900
_RECODED = 0.13  # of the crops


def crops(folder: Path, num: int) -> Vectors:
    """Vectors of random crops of the folder's pictures, about as many of each."""
    rng, found = np.random.default_rng(5), []
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    while paths and len(found) < num:
        for path in rng.permutation(np.array(paths)).tolist():
            try:
                whole = Image.open(path).convert("RGB")
            except (OSError, ValueError, SyntaxError):
                paths.remove(path)
                continue
            whole.thumbnail((_MOST_PX, _MOST_PX))
            if min(whole.size) < 2 * _LEAST_PX:
                paths.remove(path)
                continue
            for _ in range(8):
                side = int(rng.integers(_LEAST_PX, min(whole.size)))
                left, top = (int(rng.integers(0, length - side + 1)) for length in whole.size)
                found.append(_vector(whole.crop((left, top, left + side, top + side)).resize((96, 96)), "BMP"))
                if rng.random() < _RECODED:
                    found.append(_vector(whole.crop((left, top, left + side, top + side)).resize((96, 96)), "JPEG"))
            if len(found) >= num:
                break
    return np.array(found[:num], np.float32)


def _vector(shown: Image.Image, form: str) -> np.ndarray:
    sink = io.BytesIO()
    shown.save(sink, form, **({"quality": 40} if form == "JPEG" else {}))
    return picture(sink.getvalue())


def ours(vectors: Vectors, digests: list[str], *, bound: float, index: str) -> Stars:
    """From vectors to stars."""
    standing = by_digest(digests)
    matcher = VectorMatcher(vectors, standing.order(), bound=bound, settings=DedupSettings(index=index))
    return stars(matcher, standing, equal=equal_vectors(vectors))


def brute_force(vectors: Vectors, bound: float) -> int:
    """How many ordered pairs lie at or above the bound."""
    return sum(int(((vectors[low : low + 2_048] @ vectors.T) >= bound).sum()) for low in range(0, len(vectors), 2_048))


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pictures", type=Path, help="folder of the pictures to crop; left out: generated vectors")
    parser.add_argument("--index", default="auto", help="as `dedup.index`")
    chosen = parser.parse_args()
    if chosen.pictures is None:
        vectors, bound = bench.clustered(chosen.vectors, chosen.dimension, bound=BOUND, seed=1), BOUND
    else:
        vectors, bound = crops(chosen.pictures, chosen.vectors), BOUND_OF_PICTURES
    # crops of one picture lie behind each other: in that order none would be elected anew
    digests = [f"{at:064x}" for at in np.random.default_rng(0).permutation(len(vectors)).tolist()]
    ours(vectors[:1_000], digests[:1_000], bound=bound, index=chosen.index)  # what is imported at first use
    rounds = []
    for _ in range(chosen.rounds):
        ours_s, found = _timed(lambda: ours(vectors, digests, bound=bound, index=chosen.index))
        brute_s, _ = _timed(lambda: brute_force(vectors, bound))
        rounds.append((ours_s, brute_s))
    goes = np.array(found.relation) == SAME  # a miss, kept for people to judge the bound by, drops nobody
    gone = np.isin(np.arange(len(vectors)), np.array(found.right)[goes])
    units, num_found = recall(vectors, gone, bound=bound, apart=never_apart, seed=3, sample=8_000)
    row = {
        "vectors": len(vectors),
        "dimension": vectors.shape[1],
        "ours_s": statistics.median(one for one, _ in rounds),
        "brute_force_s": statistics.median(other for _, other in rounds),
        "ratio": statistics.median(other / one for one, other in rounds),
        "recall": num_found / max(1, units),
        "recall_units": units,
    }
    print(json.dumps({name: round(one, 3) if isinstance(one, float) else one for name, one in row.items()}))


if __name__ == "__main__":
    main()
