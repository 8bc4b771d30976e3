"""Edited copies of drawings, judged pair by pair: shapes, words, charts, on a flat ground.

    python -m benchmarks.dedup_edits.drawings DIRECTORY [limit] [seed]

Ten charts are drawn; the others are the pictures of the directory that are drawings (where 35 % show nothing) of 96 to
2,000 px without transparency, in an order that the seed draws. Printed are the edits with the share that is found, and
the pairs of two originals that would be one, to be read by eye.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dedup_edits.image import edits_of
from benchmarks.dedup_edits.picture_families import coded, page
from mmlake.dedup import DedupSettings
from mmlake.dedup.image import alignment, fingerprints
from mmlake.dedup.image import matcher as image_matcher
from mmlake.dedup.prints import Ragged

_FLAT, _SIDES_PX, _CHARTS = 0.35, (96, 2_000), 10


def matcher(blobs: list[bytes]) -> image_matcher.ImageMatcher:
    """Of these pictures."""
    prints = [fingerprints.fingerprint(blob) for blob in blobs]
    table = {method: Ragged.of([one[method] for one in prints]) for method in fingerprints.METHODS}
    return image_matcher.matcher(table, DedupSettings())


def drawings(folder: Path, limit: int, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """(name, PNG)."""
    from PIL import Image

    for at in range(_CHARTS):
        yield f"chart {at}", coded(page(rng), "PNG")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".png", ".gif", ".bmp"))
    num = _CHARTS
    for at in rng.permutation(len(paths)).tolist():
        try:
            with Image.open(paths[at]) as opened:
                is_clear = opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info
                if is_clear or not _SIDES_PX[0] <= min(opened.size) <= max(opened.size) <= _SIDES_PX[1]:
                    continue
                blob = coded(opened.convert("RGB"), "PNG")
        except (OSError, SyntaxError, ValueError):
            continue  # no picture
        view = matcher([blob])._view(0)
        if view is None or view.flat < _FLAT or view.detail < alignment.LEAST_DETAIL:
            continue
        yield paths[at].name, blob
        num += 1
        if num >= limit:
            return


def copies(blob: bytes) -> dict[str, bytes]:
    """Edit -> copy: those of photographs, and two that drawings get."""
    from PIL import Image

    one = Image.open(io.BytesIO(blob)).convert("RGB")
    width, height = one.size
    padded: Any = Image.new("RGB", (width + width // 4, height + height // 4), one.getpixel((0, 0)))
    padded.paste(one, (width // 8, height // 8))
    shifted = Image.fromarray(np.roll(np.asarray(one), (3, 3), (0, 1)))
    return edits_of(blob, np.random.default_rng(0)) | {
        "padded by its ground": coded(padded, "PNG"),
        "shifted by 3 px": coded(shifted, "PNG"),
    }


def print_edits(originals: list[bytes], what: str) -> None:
    """The share of copies that is found, by edit."""
    hits: dict[str, list[bool]] = {}
    for blob in originals:
        family = copies(blob)
        found = matcher([blob, *family.values()]).compare(0, np.arange(1, len(family) + 1))
        for edit, relation in zip(family, found.relation.tolist(), strict=True):
            hits.setdefault(edit, []).append(relation == 1)
    print(f"| edit | {what} | found |\n| --- | --- | --- |")
    for edit, found in hits.items():
        print(f"| {edit} | {len(found)} | {np.mean(found):.2f} |")
    print(f"| all | {sum(map(len, hits.values()))} | {np.mean(np.concatenate(list(hits.values()))):.3f} |")


def pairs_of(chosen: list[tuple[str, bytes]]) -> list[tuple[str, str, float]]:
    """(name, name, score) of two originals that would be one."""
    judge, pairs = matcher([blob for _, blob in chosen]), []
    for at in range(len(chosen)):
        found = judge.compare(at, np.arange(at + 1, len(chosen)))
        for other in np.flatnonzero(found.relation == 1).tolist():
            pairs.append((chosen[at][0], chosen[at + 1 + other][0], float(found.score[other])))
    return pairs


def main() -> None:
    folder, limit = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    chosen = list(drawings(folder, limit, rng))
    print_edits([blob for _, blob in chosen], "drawings")
    for one, other, score in pairs_of(chosen):
        print(f"one picture: {one}, {other}, {score:.3f}")


if __name__ == "__main__":
    main()
