"""An index of keys is the same in one piece and in ranges of keys that lie in files."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from mmlake.dedup import numbering, postings
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged, blocks_of
from mmlake.engine import Engine, EngineSettings

ROWS = st.lists(st.sets(st.integers(0, 40) | st.integers(2**64 - 20, 2**64 - 1), max_size=12), max_size=30)


def index_of(rows, tmp_path, memory_gib):
    keys = Ragged.of([np.array(sorted(row), np.uint64) for row in rows])
    with Engine(tmp_path, EngineSettings(memory_gib=memory_gib)).used():
        return Postings(keys)


def contents(index, num):
    return index.shared.tolist(), [index.numbers(one).tolist() for one in range(num)], index._starts.tolist()


@given(rows=ROWS, memory_gib=st.sampled_from([1e-9, 1e-7, 1e-6]))
def test_keys_have_the_same_numbers_in_ranges(rows, memory_gib, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "scratch"
    found = contents(index_of(rows, folder, memory_gib), len(rows))
    assert found == contents(index_of(rows, folder, 2.0), len(rows))
    every = [key for row in rows for key in row]
    assert found[0] == sorted({key for key in every if every.count(key) > 1})


def ragged(rows):
    return Ragged.of([np.array(sorted(row), np.uint64) for row in rows])


def by_unit(index, num):
    """For each unit the keys that it shares with another one."""
    holders = np.bincount(index.index.ids, minlength=len(index.shared))
    numbers = [index.numbers(one) for one in range(num)]
    return [set(index.shared[of[holders[of] > 1]].tolist()) for of in numbers]


@given(rows=st.lists(ROWS.filter(len), min_size=2, max_size=3), data=st.data(), block=st.sampled_from([1, 5, 1 << 20]))
def test_an_index_goes_on_from_the_one_before(rows, data, block):
    """Units come, go and change their keys; `rows` are those that are there at first, and what comes at each step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "_FEW", data.draw(st.sampled_from([0.3, 10.0])))
        patch.setattr(numbering, "_BLOCK", block)
        here, index = rows[0], Postings(ragged(rows[0]))
        for come in rows[1:]:
            units = data.draw(st.permutations([*((at, here[at]) for at in range(len(here))), *((-1, r) for r in come)]))
            units = units[data.draw(st.integers(0, 3)) :]
            at = np.array([row for row, _ in units], np.int64)
            here = [row for _, row in units]
            index = Postings(ragged(here), (index.index, at))
            assert by_unit(index, len(here)) == by_unit(Postings(ragged(here)), len(here))
            assert (np.diff(index.shared.astype(object)) > 0).all()
            assert len(set(index.shared.tolist())) == len(index.shared)


def test_few_new_units_do_not_number_all_keys_again(monkeypatch):
    rows = [{unit % 40, 100 + unit, 1000 + unit // 3} for unit in range(300)]
    before = Postings(ragged(rows[:290])).index
    monkeypatch.setattr(numbering, "numbered", None)
    index = Postings(ragged(rows), (before, np.where(np.arange(300) < 290, np.arange(300), -1)))
    monkeypatch.undo()
    assert by_unit(index, 300) == by_unit(Postings(ragged(rows)), 300)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_units_are_listed_at_once_as_one_after_the_other(tmp_path, monkeypatch, block):
    monkeypatch.setattr(postings, "_BLOCK", block)
    monkeypatch.setattr(postings, "MOST_PER_KEY", 3)
    rng = np.random.default_rng(block)
    rows = [set(rng.integers(0, 30, rng.integers(0, 8)).tolist()) for _ in range(60)]
    one, other = (index_of(rows, tmp_path, 2.0) for _ in range(2))
    order = rng.permutation(60)
    for unit in order.tolist():
        one.add(unit)
    other.add_all(order)
    assert (one._slots.tolist(), one._counts.tolist()) == (other._slots.tolist(), other._counts.tolist())


def test_ranges_are_cut_a_block_of_units_at_a_time(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    rows = [set(rng.integers(0, 500, rng.integers(0, 20)).tolist()) for _ in range(300)]
    whole = contents(index_of(rows, tmp_path, 2.0), len(rows))
    monkeypatch.setattr(numbering, "_BLOCK", 50)
    assert contents(index_of(rows, tmp_path, 1e-6), len(rows)) == whole


def test_blocks_hold_all_rows_once():
    ends = np.cumsum([0, 5, 0, 3, 20, 1, 0])
    assert list(blocks_of(ends, 6)) == [(0, 3), (3, 4), (4, 5), (5, 7)]
    assert list(blocks_of(ends[:0], 6)) == []
