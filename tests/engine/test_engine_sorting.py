"""Rows in the order of a key are the same with runs in files and without."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from mmlake.engine import Scratch
from mmlake.engine.sorting import Along, is_among, sorted_rows

BY = ("name", "method")
ROWS = st.lists(st.tuples(st.text("abc", max_size=3), st.sampled_from("xy"), st.lists(st.integers(0, 9), max_size=3)))


def _table(rows: list[tuple[str, str, list[int]]]) -> pa.Table:
    names, methods, values = ([row[at] for row in rows] for at in range(3))
    return pa.table(
        {"name": pa.array(names, pa.string()), "method": pa.array(methods, pa.string()),
         "values": pa.array(values, pa.list_(pa.uint64()))}
    )  # fmt: skip


def _expected(parts: list[list[tuple[str, str, list[int]]]]) -> list[tuple[str, str, list[int]]]:
    """By a dict, which keeps what came first."""
    first: dict[tuple[str, str], list[int]] = {}
    for part in parts:
        for name, method, values in part:
            first.setdefault((name, method), values)
    return [(*key, first[key]) for key in sorted(first)]


@given(parts=st.lists(ROWS, max_size=6), most_bytes=st.sampled_from([0, 100, 1_000, 10**9]))
def test_rows_come_sorted_and_once_whatever_fits(parts, most_bytes):
    found = list(sorted_rows(map(_table, parts), BY, scratch=Scratch(), most_bytes=most_bytes))
    rows = [tuple(row.values()) for table in found for row in table.to_pylist()]
    assert rows == _expected(parts)


@given(parts=st.lists(ROWS, min_size=2, max_size=6))
def test_rows_of_one_name_come_together(parts):
    found = [
        table["name"].to_pylist() for table in sorted_rows(map(_table, parts), BY, scratch=Scratch(), most_bytes=0)
    ]
    names = [name for table in found for name in set(table)]
    assert len(names) == len(set(names))


def test_many_runs_are_read_a_range_at_a_time():
    parts = [_table([(f"{at * 7919 % 5000:04d}", "x", [at])]) for at in range(2_000)]
    held = [pa.concat_tables(parts[low : low + 200]) for low in range(0, 2_000, 200)]
    tables = list(sorted_rows(held, BY, scratch=Scratch(), most_bytes=1))
    assert len(tables) > 5
    assert max(table.num_rows for table in tables) < 500
    assert pa.concat_tables(tables)["name"].to_pylist() == sorted(f"{at * 7919 % 5000:04d}" for at in range(2_000))


@settings(deadline=None)
@given(
    st.lists(st.text("abc", max_size=3)),
    st.lists(st.integers(0, 30), max_size=5),
    st.lists(st.text("abcd", max_size=3), max_size=6),
)
def test_rows_along_with_others_are_taken_range_by_range(texts, cuts, bounds):
    table = pa.table({"key": pa.array(sorted(texts), pa.string())})
    borders = [0, *sorted(cuts), table.num_rows]
    parts = [table.slice(low, max(0, high - low)) for low, high in pairwise(borders)]
    along = Along(parts, "key")
    left = sorted(texts)
    for bound in sorted(bounds):
        expected = [text for text in left if text <= bound]
        assert along.up_to(bound)["key"].to_pylist() == expected
        left = left[len(expected) :]


@given(texts=st.lists(st.text("ab\0\uffff", max_size=3) | st.none()), keys=st.sets(st.text("ab\0\uffff", max_size=3)))
def test_a_text_is_among_sorted_keys_wherever_they_begin_and_end(texts, keys) -> None:
    column = pa.chunked_array([pa.array(texts, pa.string())])
    found = is_among(column, pa.array(sorted(keys), pa.string()))
    assert found.to_pylist() == [text in keys for text in texts]
