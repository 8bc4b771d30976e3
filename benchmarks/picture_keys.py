"""CPU seconds of the keys of pictures: of all, with one percent new, and with nothing new, at growing sizes.

    python -m benchmarks.picture_keys --num 3000 10000 30000

The hashes are made up: windows of a picture are more or less like the whole one, a third of the pictures are copies
with up to three bits of each hash turned. Nothing is compared.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import keys
from mmlake.dedup.image.keys import NUM_WINDOWS, Known
from mmlake.dedup.prints import Ragged

_RADIUS, _LENGTH = 8, NUM_WINDOWS + 5  # windows, four parts, the whole picture


def _turned(hashes: NDArray[np.uint64], num: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    for _ in range(num):
        bits = np.uint64(1) << rng.integers(0, 64, hashes.shape, np.uint64)
        hashes = hashes ^ np.where(rng.random(hashes.shape) < 0.7, bits, np.uint64(0))
    return hashes


def made_up(num: int, rng: np.random.Generator) -> Ragged:
    """What keys are made of, for so many pictures."""
    own = rng.integers(0, 1 << 63, (num, _LENGTH), np.uint64) << np.uint64(1)
    like = _turned(np.repeat(own[:, :1], _LENGTH, axis=1), 6, rng)
    hashes = np.where(rng.random(_LENGTH) < 0.6, own, like)
    hashes[:, -1] = own[:, 0]
    is_copy = np.arange(num) % 3 == 2
    hashes[is_copy] = _turned(hashes[np.flatnonzero(is_copy) - 2], 3, rng)
    return Ragged(hashes.ravel(), np.arange(num + 1) * _LENGTH)


def _timed(derived: Ragged, known: Known | None) -> tuple[Ragged, float]:
    begin_s = time.process_time()
    if known is None:
        found = keys.made(derived, radius=_RADIUS)
    else:
        found = keys.updated(derived, known, radius=_RADIUS)
    return found, time.process_time() - begin_s


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, nargs="*", default=[3_000, 10_000], help="pictures")
    print("| pictures | all | +1 % | nothing new | keys per picture |\n| --- | --- | --- | --- | --- |")
    for num in parser.parse_args().num:
        rng = np.random.default_rng(1)
        derived = made_up(num, rng)
        fewer = derived.take(np.flatnonzero(is_old := rng.random(num) >= 0.01))
        whole, whole_s = _timed(derived, None)
        at = np.where(is_old, np.cumsum(is_old) - 1, -1)
        more, new_s = _timed(derived, Known(fewer, _timed(fewer, None)[0], at))
        same, nothing_s = _timed(derived, Known(derived, whole, np.arange(num)))
        assert np.array_equal(more.values, whole.values) and np.array_equal(same.values, whole.values)
        print(
            f"| {num:,} | {whole_s:.2f} | {new_s:.2f} | {nothing_s:.2f} | {len(whole.values) / num:.1f} |", flush=True
        )


if __name__ == "__main__":
    main()
