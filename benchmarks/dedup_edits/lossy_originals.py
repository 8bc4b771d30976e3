"""Who stays of photographs that are WebP or AVIF, and of the copies of the table of edits and two more: saved again
without loss, and as a JPEG of quality 95.

    python -m benchmarks.dedup_edits.lossy_originals ../shared/data WEBP --families 12
"""

from __future__ import annotations

import argparse
import io
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.image import coded, edits_of, survivors

_QUALITIES, _SIZE, _SOME, _DRAWS = (60, 75, 85), 2 / 3, 14, 2  # smaller, so that no traces of the JPEG are left


def main() -> None:
    """Print how often the original stays, and what stays in its place."""
    from PIL import Image

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/image/*.JPEG")
    parser.add_argument("kind", choices=("WEBP", "AVIF", "JPEG"), help="of the originals")
    parser.add_argument("--families", type=int, default=12)
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    paths = sorted((given.data / "landing" / "image").glob("*.JPEG"))
    num, kept, beaten = Counter[str](), Counter[str](), Counter[str]()
    for at in sorted(rng.permutation(len(paths))[: given.families].tolist()):
        seen = Image.open(paths[at]).convert("RGB")
        small = seen.resize((round(seen.width * _SIZE), round(seen.height * _SIZE)), Image.Resampling.LANCZOS)
        original = coded(small, given.kind, quality=_QUALITIES[at % len(_QUALITIES)])
        shown = Image.open(io.BytesIO(original)).convert("RGB")
        family = edits_of(original, rng) | {"PNG": coded(shown, "PNG"), "JPEG q95": coded(shown, quality=95)}
        draws = [list(family), *(rng.choice(list(family), _SOME, replace=False).tolist() for _ in range(_DRAWS))]
        for names in draws:
            stays = survivors([original, *(family[name] for name in names)])[0]
            size = "all copies" if names is draws[0] else f"{_SOME} copies"
            num[size] += 1
            kept[size] += not stays
            beaten.update([names[stays - 1]] if stays else [])
    for size in num:
        print(f"{size}: the original stays in {kept[size]} of {num[size]}")
    print("stays in its place:", ", ".join(f"{name} {times}" for name, times in beaten.most_common()) or "nothing")


if __name__ == "__main__":
    main()
