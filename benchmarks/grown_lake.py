"""What one percent of new pictures costs a whole lake: CPU seconds of `mmlake run` against those of its first run.

    python -m benchmarks.grown_lake --pictures 4000

All that a run does is in it: starting, listing, decoding, measures, prints, vectors, duplicates, the catalog, a version
of each recipe, training shards, scores and the report. The pictures are drawn scenes of 320 x 240, a third of them
copies at another quality. New ones are laid into the folder of the others, then into one of their own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

_SIDES = (320, 240)


def _scene(rng: np.random.Generator) -> Image.Image:
    """Soft ground of several octaves, and outlined shapes on it."""
    octaves = [rng.integers(0, 255, (side, side, 3), np.uint8) for side in (3, 9, 30)]
    planes = [np.asarray(Image.fromarray(one).resize(_SIDES, Image.Resampling.BICUBIC), np.float32) for one in octaves]
    scene = Image.fromarray(np.average(planes, axis=0, weights=(5, 3, 2)).astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(int(rng.integers(4, 15))):
        left, top, wide, high = rng.integers(0, 220, 4)
        shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        colour = tuple(int(one) for one in rng.integers(0, 255, 3))
        shape((left, top, left + wide // 2 + 5, top + high // 2 + 5), fill=colour, outline=(0, 0, 0), width=2)
    return scene


def _land(folder: Path, *, num: int, seed: int) -> None:
    """Write so many JPEGs into the folder, a third of them another quality of the one before."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(num):
        if at % 3 != 2:
            scene = _scene(rng)
        scene.save(folder / f"{seed}-{at:06}.jpg", quality=90 if at % 3 != 2 else int(rng.integers(30, 80)))


def run(base: Path, *options: str) -> tuple[float, float, float]:
    """(CPU seconds, wall seconds, MiB at most) of one run and its workers, from `landing` to `lake` in the folder."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", "from mmlake_assets.console import entry; entry()", "run"]
    places = ["--landing", str(base / "landing"), "--lake", str(base / "lake")]
    subprocess.run([*command, *places, *options], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(cpu, 1), round(time.perf_counter() - began, 1), round(after.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=4000)
    parser.add_argument("--folder", type=Path, help="of the lake, which stays; default: a temporary one")
    given = parser.parse_args()
    few = max(1, given.pictures // 100)
    with tempfile.TemporaryDirectory() as temporary:
        base = given.folder or Path(temporary)
        steps = (
            ("first run", "a", given.pictures),
            ("nothing new", "a", 0),
            ("1 % into their folder", "a", few),
            ("1 % into another folder", "b", few),
            ("nothing new", "b", 0),
        )
        first = 0.0
        for seed, (what, name, num) in enumerate(steps, 1):
            _land(base / "landing" / name, num=num, seed=seed)
            cpu, wall, memory = run(base)
            first = first or cpu
            row = {"what": what, "new": num, "cpu_s": cpu, "share": round(cpu / first, 3), "wall_s": wall}
            print(json.dumps(row | {"max_mib": memory}), flush=True)


if __name__ == "__main__":
    main()
