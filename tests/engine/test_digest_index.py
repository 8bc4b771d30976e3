"""A digest is found in the row that holds it, whatever else stands there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.engine.digest_index import DigestIndex
from tests.versions.sample_rows import name

DIGESTS = [name(number) for number in range(20)]
# equal in the first 16 digits, as somebody with time can make them
TWIN = DIGESTS[3][:16] + name(100)[16:]
_TEXTS = st.sampled_from([*DIGESTS, TWIN, "", "short", "ä" * 64, DIGESTS[0].upper()])


@given(held=st.lists(_TEXTS, unique=True), wanted=st.lists(st.none() | _TEXTS), offset=st.integers(0, 3))
def test_each_text_is_found_where_it_stands_and_nothing_else_is(held, wanted, offset):
    column = pa.array([None] * offset + wanted, pa.string()).slice(offset)
    found = DigestIndex(pa.array(held, pa.string())).find(column)
    assert found.tolist() == [held.index(one) if one in held else -1 for one in wanted]


@pytest.mark.parametrize("held", [DIGESTS, [*DIGESTS, TWIN], ["short", "texts"]])
def test_a_text_that_stands_there_twice_is_named(held):
    assert DigestIndex(pa.array(held)).twice is None
    assert DigestIndex(pa.chunked_array([held, [held[1]]])).twice == held[1]


@given(
    held=st.lists(_TEXTS, unique=True, min_size=1),
    parts=st.lists(st.lists(st.tuples(_TEXTS, st.integers(0, 9))), min_size=1, max_size=5),
)
def test_rows_that_come_in_parts_are_those_of_the_digests(held, parts):
    index, tables = DigestIndex(pa.array(held, pa.string())), [_table(rows) for rows in parts]
    rows = [(one, value) for part in parts for one, value in part if one in held]
    assert [tuple(row.values()) for table in index.among(tables, "digest") for row in table.to_pylist()] == rows
    placed = [pair for at, table in index.places(tables, "digest") for pair in zip(at, table["value"], strict=True)]
    assert [(held[at], value.as_py()) for at, value in placed] == rows
    first = dict(reversed(rows))
    assert index.in_order(tables, "digest")["value"].to_pylist() == [first.get(one) for one in held]


def test_nothing_is_hashed_for_each_part(monkeypatch):
    index, part = DigestIndex(pa.array(DIGESTS)), _table([(DIGESTS[7], 7)])
    for name_ in ("index_in", "is_in"):
        monkeypatch.setattr(pc, name_, None)
    assert index.in_order([part] * 3, "digest")["value"].to_pylist() == [None] * 7 + [7] + [None] * 12
    assert [table.num_rows for table in index.among([part] * 3, "digest")] == [1] * 3


def _table(rows: list[tuple[str, int]]) -> pa.Table:
    digests, values = ([row[at] for row in rows] for at in range(2))
    return pa.table({"digest": pa.array(digests, pa.string()), "value": pa.array(values, pa.int64())})
