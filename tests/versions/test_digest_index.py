"""A digest is found in the row that holds it, whatever else stands there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.versions.digest_index import DigestIndex
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
