"""Copies of photographs: of which of them the prints say that they were made of the original by coding it anew, and of
which the other way round, which is wrong.

    python -m benchmarks.dedup_edits.recoded ../shared/data [families] [seed]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.image import edits_of
from mmlake.dedup.image import fingerprints, recoding
from mmlake.dedup.prints import Ragged


def main() -> None:
    """Print a row for each edit of which it is said of any copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/image/*.JPEG")
    parser.add_argument("families", type=int, nargs="?", default=16)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    photos = [path.read_bytes() for path in sorted((given.data / "landing" / "image").glob("*.JPEG"))]
    found: dict[str, list[int]] = {}
    chosen = sorted(rng.permutation(len(photos))[: given.families].tolist())
    for at in chosen:
        family = edits_of(photos[at], rng)
        prints = Ragged.of([fingerprints.fingerprint(one)["blocks"] for one in (photos[at], *family.values())])
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
