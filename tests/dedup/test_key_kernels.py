"""Compiled and plain code see the same keys and counts in a corpus."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mmlake.dedup.loops import text_kernels
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text.matcher import sampled
from mmlake.dedup.text.templates import Commonness
from tests.dedup.numba_there import needs_numba

pytestmark = needs_numba


def rows_of(rng, *, distinct):
    """Rows of every length, empty ones too, of so many values; 0 and the largest value among them."""
    values = np.unique(np.r_[0, 2**64 - 1, rng.integers(0, 2**63, distinct, dtype=np.uint64) * np.uint64(2)])
    sizes = [0, *rng.integers(0, 120, 150), 0]
    return Ragged.of([np.unique(rng.choice(values, size)) for size in sizes])


def in_both_ways(monkeypatch, made):
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        seen.append(made())
    return seen


@pytest.mark.parametrize("distinct", [1, 300, 100_000])
def test_compiled_and_plain_code_number_keys_alike(distinct, monkeypatch):
    rows = rows_of(np.random.default_rng(distinct), distinct=distinct)

    def made():
        postings = Postings(rows)
        numbers = [postings.numbers(one).tolist() for one in range(len(rows))]
        return postings.shared.tolist(), postings.lengths.tolist(), numbers

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled
    assert plain[0] == sorted(key for key, count in Counter(rows.values.tolist()).items() if count > 1)


@pytest.mark.parametrize("distinct", [1, 300, 3_000])
def test_compiled_and_plain_code_list_the_same_units(distinct, monkeypatch):
    rows = rows_of(np.random.default_rng(distinct), distinct=distinct)
    order = np.random.default_rng(1).permutation(len(rows))

    def made():
        postings = Postings(rows)
        postings.add(int(order[0]))
        postings.add_all(order[1:100])
        holders, begins = postings.holders(order)
        listed = [postings.sharing(one)[0].tolist() for one in range(len(rows))]
        return holders.tolist(), begins.tolist(), listed

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled


@pytest.mark.parametrize("distinct", [1, 300, 100_000])
def test_compiled_and_plain_code_sample_and_count_alike(distinct, monkeypatch):
    rows = rows_of(np.random.default_rng(distinct), distinct=distinct)

    def made():
        commonness, keys = Commonness(rows), sampled(rows)
        return commonness.table.tolist(), keys.values.tolist(), keys.offsets.tolist()

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled


@pytest.mark.parametrize("distinct", [1, 300, 100_000])
def test_both_ways_find_the_same_texts_with_a_shingle_in_some_slots(distinct, monkeypatch):
    rng = np.random.default_rng(distinct)
    rows = rows_of(rng, distinct=distinct)
    texts, some = np.arange(1, len(rows), 2), rng.permutation(len(rows))[:3]

    def made():
        commonness = Commonness(rows)
        return commonness.holders(commonness.slots_of(some), texts).tolist()

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled
    shared = [np.isin(rows[one], rows.take(some).values).any() for one in texts]
    assert not any(np.array(shared) & ~np.array(plain)), "whoever shares a shingle with them holds one in their slots"


def test_what_more_than_255_texts_hold_is_counted_as_255(monkeypatch):
    rows = Ragged.of([np.array([0, 5], np.uint64)] * 300)
    for table in in_both_ways(monkeypatch, lambda: Commonness(rows).table):
        assert sorted(table[table > 0].tolist()) == [255] * len(np.unique(Commonness(rows)._slots(rows[0])))


def test_nothing_is_numbered_where_there_is_nothing(monkeypatch):
    for rows in (Ragged.empty(3), Ragged.empty(0)):
        plain, compiled = in_both_ways(monkeypatch, lambda rows=rows: Postings(rows).lengths.tolist())
        assert plain == compiled == [0] * len(rows)


def test_what_later_texts_are_written_over_is_kept_before(monkeypatch):
    """Compiled loops write the next texts where they wrote the last ones; a long one makes the room larger."""
    rng = np.random.default_rng(4)
    words = [f"w{number}" for number in range(500)]
    texts = [" ".join(rng.choice(words, int(size))) for size in rng.integers(0, 200, 800)]
    texts[3], texts[400], texts[700] = "\u00dcber " * 50, "word " * 60_000, ""

    def made():
        table, one_by_one = fingerprints.print_table(texts), list(fingerprints.prints(texts))
        columns = [(side.values.tolist(), side.offsets.tolist()) for side in table.values()]
        return columns, [(one.shingles.tolist(), one.words.tolist()) for one in one_by_one]

    plain, compiled = in_both_ways(monkeypatch, made)
    assert plain == compiled
    assert sum(map(len, texts)) > 4 * fingerprints._COMPILED_CHARS
