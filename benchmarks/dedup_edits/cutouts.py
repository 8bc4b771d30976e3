"""Things cut out and laid on a plain ground, as in a shop: edited copies, judged pair by pair, and pairs of two things.

    python -m benchmarks.dedup_edits.cutouts DIRECTORY [limit] [seed]

Taken are the transparent pictures of the directory of 96 to 2,000 px of which at least a tenth is ground, in an order
that the seed draws, each laid on white. Printed are the edits with the share that is found, and how many pairs of two
pictures would be one; these are to be read by eye, for frames of one animation are pictures of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.drawings import pairs_of, print_edits
from benchmarks.dedup_edits.picture_families import coded

_SIDES_PX, _LEAST_GROUND, _LEAST_THING = (96, 2_000), 0.1, 0.2


def cutouts(folder: Path, limit: int, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """(name, PNG on white)."""
    from PIL import Image

    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".png", ".webp", ".gif"))
    num = 0
    for at in rng.permutation(len(paths)).tolist():
        try:
            with Image.open(paths[at]) as opened:
                if not _SIDES_PX[0] <= min(opened.size) <= max(opened.size) <= _SIDES_PX[1]:
                    continue
                layer = opened.convert("RGBA")
        except (OSError, SyntaxError, ValueError):
            continue  # no picture
        alpha = np.asarray(layer.getchannel("A"))
        if (alpha == 0).mean() < _LEAST_GROUND or (alpha > 128).mean() < _LEAST_THING:
            continue
        yield (
            str(paths[at].relative_to(folder)),
            coded(Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB"), "PNG"),
        )
        num += 1
        if num >= limit:
            return


def main() -> None:
    folder, limit = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    chosen = list(cutouts(folder, limit, rng))
    print_edits([blob for _, blob in chosen[: limit // 4]], "things")
    pairs = pairs_of(chosen)
    print(f"\n{len(pairs)} of {len(chosen) * (len(chosen) - 1) // 2:,} pairs of two pictures would be one")
    for one, other, score in pairs:
        print(f"{score:.3f} {one} | {other}")


if __name__ == "__main__":
    main()
