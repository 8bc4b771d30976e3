"""Copies of photographs: of which of them the prints say that they were made of the original by coding it anew, and of
which the other way round, which is wrong.

    python -m benchmarks.dedup_edits.recoded ../shared/data [families] [seed]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.image import edits_of
from mmlake.dedup import image, recoding
from mmlake.dedup.prints import Ragged


def main() -> None:
    """Print a row for each edit of which it is said of any copy."""
    data, limit, seed = Path(sys.argv[1]), *(int(one) for one in (*sys.argv[2:], *("16", "0")[len(sys.argv) - 2 :]))
    rng = np.random.default_rng(seed)
    photos = [path.read_bytes() for path in sorted((data / "landing" / "image").glob("*.JPEG"))]
    found: dict[str, list[int]] = {}
    chosen = sorted(rng.permutation(len(photos))[:limit].tolist())
    for at in chosen:
        family = edits_of(photos[at], rng)
        prints = Ragged.of([image.fingerprint(one)["blocks"] for one in (photos[at], *family.values())])
        copies, original = np.arange(1, len(prints)), np.zeros(len(family), np.int64)
        is_copy, is_original = recoding.made_of(prints, copies, original), recoding.made_of(prints, original, copies)
        for name, *said in zip(family, is_copy.tolist(), is_original.tolist(), strict=True):
            counts = found.setdefault(name, [0, 0])
            found[name] = [counts[side] + said[side] for side in range(2)]
    print("| edit | copies | made of the original | the original made of it |\n| --- | --- | --- | --- |")
    for name, (right, wrong) in found.items():
        if right or wrong:
            print(f"| {name} | {len(chosen)} | {right} | {wrong} |")
    print(f"\nThe wrong direction: {sum(wrong for _, wrong in found.values())} of {len(chosen) * len(found)}.")


if __name__ == "__main__":
    main()
