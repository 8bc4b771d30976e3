"""Pairs of 64-bit hashes within a radius: our join, and FAISS where it is installed.

    python benchmarks/hamming.py --num 1000000

A hundred planted pairs per radius must be found. One thread; CPU seconds without compiling. FAISS searches
a thousand of the hashes, and its time is scaled up.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from mmlake.dedup.hamming import hamming_pairs

PLANTED, QUERIES = 100, 1_000


def hashes_of(num: int, radius: int, rng: np.random.Generator) -> np.ndarray:
    """Random hashes, then for the first hundred of them a copy with as many bits turned as the radius allows."""
    hashes = rng.integers(0, 2**64, num, dtype=np.uint64)
    turned = hashes[:PLANTED].copy()
    for row in range(PLANTED):
        for bit in rng.permutation(64)[:radius]:
            turned[row] ^= np.uint64(1) << np.uint64(bit)
    return np.concatenate((hashes, turned))


def faiss_pairs(hashes: np.ndarray, radius: int, *, num_tables: int) -> tuple[int, float]:
    """(how many of the planted pairs a multi-hash index of FAISS finds, its CPU seconds for all, from a sample)."""
    import faiss

    faiss.omp_set_num_threads(1)
    codes = hashes.view(np.uint8).reshape(-1, 8)
    index = faiss.IndexBinaryMultiHash(64, num_tables, 64 // num_tables)
    index.nflip = radius // num_tables  # pigeonhole: one of the tables differs in no more bits
    index.add(codes)
    begin_s = time.process_time()
    limits, _, found = index.range_search(codes[:QUERIES], radius + 1)
    took_s = (time.process_time() - begin_s) * len(codes) / QUERIES
    owners = np.repeat(np.arange(QUERIES), np.diff(limits.astype(np.int64)))
    return int(((owners < PLANTED) & (found == owners + len(codes) - PLANTED)).sum()), took_s


def main() -> None:
    """Print a row per radius."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=1_000_000)
    parser.add_argument("--radius", type=int, action="append", help="may be repeated (default: 4 and 8)")
    parser.add_argument("--no-faiss", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(12)
    hamming_pairs(hashes_of(30_000, 4, rng), radius=4)  # compiles, or loads what was compiled
    print("| hashes | radius | ours, CPU s | pairs | planted found | FAISS multi-hash, CPU s | planted found |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for radius in arguments.radius or (4, 8):
        hashes = hashes_of(arguments.num, radius, rng)
        begin_s = time.process_time()
        i, j, _ = hamming_pairs(hashes, radius=radius)
        took_s = time.process_time() - begin_s
        planted = int(((i < PLANTED) & (j == i + arguments.num)).sum())
        row = f"| {arguments.num:,} | {radius} | {took_s:.2f} | {len(i):,} | {planted} of {PLANTED} |"
        if arguments.no_faiss:
            print(f"{row} - | - |")
            continue
        try:
            theirs, took_s = faiss_pairs(hashes, radius, num_tables=4)
        except ImportError:
            print(f"{row} - | - |")
            continue
        print(f"{row} {took_s:.0f} | {theirs} of {PLANTED} |", flush=True)


if __name__ == "__main__":
    main()
