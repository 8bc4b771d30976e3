"""Questions about keys have the same answers with a database that spills and without one."""

from __future__ import annotations

import hashlib

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from mmlake.engine import Engine, EngineSettings
from tests.thorough import drawn

KEYS = st.lists(st.lists(st.sampled_from("abcdefgh\u00e9"), max_size=5), min_size=1, max_size=4)


def tables(parts, name):
    return [pa.table({name: pa.array(part, pa.string())}) for part in parts]


def relations(tmp_path, **changes):
    return Engine(tmp_path, EngineSettings(**changes)).relations


@settings(max_examples=15, deadline=None)
@given(keys=KEYS, others=KEYS)
def test_common_and_unknown_keys_are_those_of_sets(keys, others, tmp_path_factory):
    one, other = ({key for part in parts for key in part} for parts in (keys, others))
    folder = tmp_path_factory.getbasetemp() / "relations"
    for memory_gib in (1e-9, 2.0):
        asked = relations(folder, memory_gib=memory_gib)
        assert asked.distinct(tables(keys, "x"), tables(others, "y")).to_pylist() == sorted(one & other)
        assert asked.strangers(tables(keys, "x"), tables(others, "y")).to_pylist() == sorted(one - other)


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9))), min_size=1, max_size=4))
def test_the_least_value_and_the_count_of_each_key(rows, tmp_path_factory):
    parts = [
        pa.table({"key": pa.array([key for key, _ in part], pa.string()),
                  "value": pa.array([value for _, value in part], pa.int32())})
        for part in rows
    ]  # fmt: skip
    flat = [row for part in rows for row in part]
    expected = [
        {"key": key, "least": min(value for at, value in flat if at == key), "num": sum(at == key for at, _ in flat)}
        for key in sorted({key for key, _ in flat})
    ]
    for memory_gib in (1e-9, 2.0):
        asked = relations(tmp_path_factory.getbasetemp() / "relations", memory_gib=memory_gib)
        assert asked.least_and_count(parts).to_pylist() == expected


def test_nothing_has_no_keys(tmp_path):
    for memory_gib in (1e-9, 2.0):
        asked = relations(tmp_path, memory_gib=memory_gib)
        assert asked.distinct([], tables(["a"], "y")).to_pylist() == []
        assert asked.strangers(tables(["a"], "x"), []).to_pylist() == ["a"]


@pytest.mark.parametrize("threads", drawn([2], [1, 2]))
def test_more_keys_than_memory_are_spilled_and_leave_no_file(tmp_path, threads):
    """64 MiB are the least that the database is given; a million digests with their values are more."""
    names = np.array(
        [hashlib.sha256(bytes([at % 251, at // 251 % 256, at // 64_256])).hexdigest() for at in range(10**6)]
    )
    parts = [
        pa.table({"key": names[low : low + 50_000], "value": np.arange(50_000)}) for low in range(0, 10**6, 50_000)
    ]
    found = relations(tmp_path, memory_gib=1e-3, threads=threads).least_and_count(iter(parts))
    distinct, counts = np.unique(names, return_counts=True)
    assert found["key"].to_numpy().tolist() == distinct.tolist()
    assert np.array_equal(found["num"], counts)
    assert list(tmp_path.iterdir()) == []
