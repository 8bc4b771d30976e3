"""One picture in many sizes, as pages link them: whether the largest stays, and whether an enlarged one does not.

    python -m benchmarks.dedup_edits.picture_sizes DIRECTORY [limit] [seed]

DIRECTORY: of photographs (JPEG, WebP), each shrunk to at most 1,600 px first. Of each: itself and two to four smaller
copies, coded as JPEG or WebP at quality 70 to 90; itself, an enlarged copy and a smaller one; and itself with one copy
enlarged by any factor.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.image import survivors
from benchmarks.dedup_edits.picture_families import Picture, coded

_ENDINGS, _MOST_PX = (".jpg", ".jpeg", ".webp"), 1_600
_SMALLER, _LARGER, _ANY = (0.85, 0.75, 0.66, 0.5, 0.4, 0.3, 0.2), (1.25, 1.5, 2.0, 3.0), (1.15, 2.5)


def resized(one: Picture, factor: float, rng: np.random.Generator) -> bytes:
    """A copy of another size."""
    size = [max(1, round(side * factor)) for side in one.size]
    kind = "WEBP" if rng.random() < 0.4 else "JPEG"
    return coded(one.resize(size, int(rng.choice([1, 2, 3]))), kind, quality=int(rng.integers(70, 91)))


def families(folder: Path, limit: int, seed: int) -> Iterator[tuple[str, list[tuple[float, bytes]]]]:
    """(what it is, factor and file of each; the original first)."""
    from PIL import Image

    rng, rng_of_pairs = np.random.default_rng(seed), np.random.default_rng(seed + 1_000)
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    for at in rng.permutation(len(paths))[:limit].tolist():
        with Image.open(paths[at]) as opened:
            one = opened.convert("RGB")
        one.thumbnail((_MOST_PX, _MOST_PX), Image.Resampling.LANCZOS)
        original = coded(one, quality=int(rng.integers(80, 96)))
        smaller = rng.choice(_SMALLER, int(rng.integers(2, 5)), replace=False).tolist()
        yield "smaller", [(1.0, original), *((factor, resized(one, factor, rng)) for factor in smaller)]
        others = [float(rng.choice(_LARGER)), float(rng.choice(_SMALLER[2:]))]
        yield "enlarged", [(1.0, original), *((factor, resized(one, factor, rng)) for factor in others)]
        factor = round(float(rng_of_pairs.uniform(*_ANY)), 3)
        yield "a pair", [(1.0, original), (factor, resized(one, factor, rng_of_pairs))]


def main() -> None:
    folder, limit = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    stays, num, instead = Counter[str](), Counter[str](), Counter[tuple[str, float]]()
    for kind, family in families(folder, limit, int(sys.argv[3]) if len(sys.argv) > 3 else 0):
        keeper = survivors([blob for _, blob in family])[0]
        num[kind] += 1
        stays[kind] += keeper == 0
        if keeper:
            instead[kind, family[keeper][0]] += 1
    for kind in num:
        print(f"{kind}: the original stays in {stays[kind]} of {num[kind]}")
    print("stays in its place:", ", ".join(f"{factor:g} ({kind}) {times}" for (kind, factor), times in instead.items()))


if __name__ == "__main__":
    main()
