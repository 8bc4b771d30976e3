"""SimHash of texts as a second near tier: what it promises, and that a lake runs it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake import pipeline
from mmlake.dedup import DedupSettings
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints
from mmlake.lake import Lake
from mmlake.settings import Settings
from mmlake.simhash import METHOD, MOST_BITS, SimhashMatcher, block_keys, simhash
from mmlake.tables import Slot
from tests import make

HASHES = st.integers(0, 2**64 - 1)


def hashed(words: str) -> int:
    (one,) = fingerprints.prints([words], words=3)
    return int(simhash(one.shingles)[0])


def test_a_hash_is_the_majority_of_each_bit():
    runs = np.array([0b0110, 0b0101, 0b1100], np.uint64)
    assert int(simhash(runs)[0]) == 0b0100
    assert int(simhash(runs[:2])[0]) == 0b0100, "half is no majority"
    assert len(simhash(runs[:0])) == 0


@given(HASHES, st.sets(st.integers(0, 63), max_size=MOST_BITS))
def test_hashes_that_differ_in_three_bits_have_a_key_in_common(one, flipped):
    other = one ^ sum(1 << bit for bit in flipped)
    first, second = block_keys(np.array([one, other], np.uint64))
    assert len(np.intersect1d(first, second)) >= 1 and len(set(first.tolist())) == 20


def test_texts_are_the_same_up_to_three_bits_and_no_further():
    flips = [0, 0b111, 0b1111, 1 << 60]
    prints = {METHOD: Ragged.of([np.array([5 ^ flip], np.uint64) for flip in flips] + [np.empty(0, np.uint64)])}
    found = SimhashMatcher(prints, DedupSettings()).compare(0, np.arange(1, 5))
    assert (found.relation == SAME).tolist() == [True, False, True, False]
    assert found.score[:3] == pytest.approx([1 - 3 / 64, 1 - 4 / 64, 1 - 1 / 64])


def test_a_word_of_a_long_text_is_few_bits_and_other_texts_are_half_of_them():
    texts = [make.prose(seed, words=3_000) for seed in range(6)]
    for whole in texts:
        words = whole.split()
        words[1_500] = "elsewhere"
        assert (hashed(whole) ^ hashed(" ".join(words))).bit_count() <= MOST_BITS
    assert all((hashed(a) ^ hashed(b)).bit_count() > 10 for a, b in combinations(texts, 2))


def test_a_lake_runs_it_next_to_its_own_tier(tmp_path):
    words = make.prose(1, words=3_000).split()
    edited = [*words[:1_500], "elsewhere", *words[1_501:]]
    make.land(
        tmp_path / "zone", {"a.jsonl": make.jsonl([" ".join(words), " ".join(edited), make.prose(2, words=3_000)])}
    )
    settings = Settings.of({"plugins": {"modules": ["mmlake.simhash"]}})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "zone", settings=settings)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    pairs = lake.tables.read(Slot("near_duplicates", "text")).to_pylist()
    (pair,) = [one for one in pairs if one["method"].startswith(METHOD) and one["relation"] == "same"]
    assert pair["method"] == f"{METHOD} (simhash==1.0)" and pair["score"] >= pair["bound"] == 1 - MOST_BITS / 64
    assert [one for one in pairs if one["method"].startswith("shingles") or "jaccard" in one["method"]]
