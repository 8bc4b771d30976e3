"""Whether keys of recordings find copies among ever more strangers: CPU seconds per hour of sound, and recall.

    python -m benchmarks.sound_keys --hours 10 100 1000
    python -m benchmarks.sound_keys --nearest --hours 3

Recordings of 30 s as Chromaprint words of no sound in particular: signs change as often as those of music, and of each
66 of 100 are alike, so that as many strangers share a key as of generated music. In a copy weak signs turn more often
than firm ones, as measured of noise at 10 dB and of music underneath. Keys and lists are made of all; a sample of units
is gone through as in a join, and every copy. `--nearest` is the pass over all by which the recall of the keys is
estimated, for 200 units, by compiled code and by numpy.
"""

from __future__ import annotations

import argparse
import json
import time
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import fingerprints, kernels
from mmlake.dedup.greedy import MOST_LEADERS
from mmlake.dedup.matching import NONE
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged
from mmlake.dedup.recall import nearest

_WORDS, _UNIT_S = 240, 30.0
# shares of the weak and of the firm signs that turn in a copy
_NOISES = {"noise at 10 dB": (0.23, 0.042), "music underneath": (0.36, 0.132)}
_SAMPLE, _COPIES = 1_000, 200  # units; of each noise
_SIGNS, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def made_up_words(rng: np.random.Generator, num: int, lean: np.uint64) -> NDArray[np.uint64]:
    """lean: what most signs are. Three of four signs are firm."""
    found = np.empty((_WORDS, num), np.uint64)
    now = np.zeros(num, np.uint64)
    for at in range(_WORDS):
        one, two, three, four, five, six, seven = rng.integers(0, 1 << 32, (7, num), np.uint64)
        fresh = (one | two & (three | four & seven)) ^ lean | (one ^ five | six) << _HALF
        is_new = five & six if at else np.full(num, _SIGNS)
        is_new |= is_new << _HALF
        now = now & ~is_new | fresh & is_new
        found[at] = now
    return np.ascontiguousarray(found.T)


def _turned(rng: np.random.Generator, words: NDArray[np.uint64], weak: float, firm: float) -> NDArray[np.uint64]:
    draws = rng.random((*words.shape, 32), np.float32)
    flips = [np.packbits(draws < share, axis=-1, bitorder="little").view("<u4")[..., 0] for share in (weak, firm)]
    is_firm = words >> _HALF
    return words ^ (flips[0].astype(np.uint64) & ~is_firm | flips[1].astype(np.uint64) & is_firm) & _SIGNS


def with_noise(rng: np.random.Generator, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Copies with noise at 10 dB."""
    return _turned(rng, words, *_NOISES["noise at 10 dB"])


def measure(hours: float, *, seed: int = 1) -> dict[str, float]:
    """A row of the table."""
    rng = np.random.default_rng(seed)
    lean = rng.integers(0, 1 << 32, dtype=np.uint64)
    num = int(hours * 3_600 / _UNIT_S)
    rows = made_up_words(rng, num, lean)
    copies = [_turned(rng, rows[:_COPIES], *shares) for shares in _NOISES.values()]
    rows = np.concatenate((rows, *copies))
    chroma = Ragged(rows.ravel(), np.arange(len(rows) + 1) * _WORDS)
    started = time.process_time()
    matcher = fingerprints.matcher(
        {fingerprints.METHOD: chroma, fingerprints.BANDS: Ragged.empty(len(rows))}, DedupSettings()
    )
    keyed = time.process_time()
    postings = Postings(matcher.keys)
    postings.add_all(np.arange(num))
    listed = time.process_time()
    sample = rng.choice(num, min(num, _SAMPLE), replace=False)
    num_candidates = num_alike = 0
    for one in sample.tolist():
        others = _leaders(postings, one)
        num_candidates += len(others)
        num_alike += int((matcher.compare(one, others).relation != NONE).sum())
    walked = time.process_time()
    row = {"hours": hours, "units": num, "keys_per_unit": float(matcher.keys.lengths.mean())}
    row |= {"keys_s_per_hour": (keyed - started) / hours, "lists_s_per_hour": (listed - keyed) / hours}
    row |= {
        "walk_s_per_hour": (walked - listed) / len(sample) * 3_600 / _UNIT_S,
        "strangers": num_candidates / len(sample),
    }
    row |= {"strangers_alike": num_alike / len(sample)}
    for at, name in enumerate(_NOISES):
        first = num + at * _COPIES
        row[f"found: {name}"] = float(np.mean([one in _leaders(postings, first + one) for one in range(_COPIES)]))
        row[f"same: {name}"] = float(
            np.mean([matcher.compare(first + one, np.array([one])).relation[0] != NONE for one in range(_COPIES)])
        )
    return row


def measure_nearest(hours: float, *, seed: int = 1) -> dict[str, float]:
    """CPU seconds of the pass by either way, whose scores are equal."""
    rng = np.random.default_rng(seed)
    rows = made_up_words(rng, int(hours * 3_600 / _UNIT_S), rng.integers(0, 1 << 32, dtype=np.uint64))
    chroma = Ragged(rows.ravel(), np.arange(len(rows) + 1) * _WORDS)
    prints = {fingerprints.METHOD: chroma, fingerprints.BANDS: Ragged.empty(len(rows))}
    kernels.kernels()  # compiled, or loaded
    row, found = {"hours": hours, "units": len(rows)}, []
    for name, compiled in (("compiled_s", lambda _: kernels.kernels()), ("numpy_s", lambda _: None)):
        with mock.patch.object(kernels, "compiled", compiled):
            scores = nearest.sounds(prints, np.arange(min(_COPIES, len(rows))))
            started = time.process_time()
            found.append(scores(np.arange(len(rows))))
            row[name] = time.process_time() - started
    assert np.array_equal(*found)
    return row


def _leaders(postings: Postings, one: int) -> NDArray[np.int64]:
    """As `leaders.Walk` finds them, where everybody leads."""
    found, shared = postings.sharing(one)
    found, shared = found[found != one], shared[found != one]
    leaders: NDArray[np.int64] = found[np.lexsort((found, -shared))[:MOST_LEADERS]]
    return leaders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, nargs="*", default=[10, 100])
    parser.add_argument("--nearest", action="store_true", help="the pass that estimates recall, instead of the keys")
    given = parser.parse_args()
    for hours in given.hours:
        row = measure_nearest(hours) if given.nearest else measure(hours)
        print(json.dumps({name: round(value, 4) for name, value in row.items()}), flush=True)


if __name__ == "__main__":
    main()
