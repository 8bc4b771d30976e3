"""How many edited copies SimHash finds at three bits, and how many the lake's own near tier of texts: shares of 200.

    python -m benchmarks.simhash

Texts of random words; in each copy one word, or a share of them, is replaced by another one.
"""

from __future__ import annotations

import json

import numpy as np

from mmlake.dedup import DedupSettings
from mmlake.dedup.matching import SAME
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.simhash import MOST_BITS, simhash

_COPIES, _VOCABULARY, _LETTERS = 200, 20_000, 7


def _hash(words: list[str]) -> int:
    (one,) = fingerprints.prints([" ".join(words)], words=3)
    return int(simhash(one.shingles)[0])


def _is_near(words: list[str], edited: list[str]) -> bool:
    table = fingerprints.print_table([" ".join(words), " ".join(edited)])
    found = TextMatcher(table, DedupSettings()).compare(0, np.array([1]))
    return bool(found.relation[0] == SAME)


def main() -> None:
    rng = np.random.default_rng(0)
    letters = rng.choice(list("abcdefghijklmnopqrstuvwxyz"), (_VOCABULARY, _LETTERS))
    vocabulary = np.array(["".join(word) for word in letters.tolist()])
    for num_words in (100, 300, 1_000):
        for share in (0.0, 0.01, 0.03, 0.05, 0.15):
            by_bits = by_shingles = 0
            for _ in range(_COPIES):
                words = rng.choice(vocabulary, num_words).tolist()
                edited, count = list(words), max(1, round(share * num_words))
                for at in rng.choice(num_words, count, replace=False).tolist():
                    edited[at] = str(rng.choice(vocabulary))
                by_bits += (_hash(words) ^ _hash(edited)).bit_count() <= MOST_BITS
                by_shingles += _is_near(words, edited)
            row = {"words": num_words, "replaced": count, "simhash": by_bits / _COPIES, "ours": by_shingles / _COPIES}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
