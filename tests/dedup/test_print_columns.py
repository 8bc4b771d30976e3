"""Prints of chosen units come from parts in any order as they come from one table, and lie in files where they are
large."""

from __future__ import annotations

import mmap

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from mmlake import dedup
from mmlake.dedup.print_columns import prints_of
from mmlake.engine import Engine, EngineSettings

METHODS = ("shingles", "words")
DIGEST = st.text("abc", min_size=1, max_size=3)
PRINTS = st.dictionaries(
    st.tuples(DIGEST, st.sampled_from([*METHODS, "layout"])), st.lists(st.integers(0, 2**64 - 1), max_size=4)
)


def fingerprints(rows: list[tuple[str, str, list[int]]]) -> pa.Table:
    digests, methods, hashes = ([row[at] for row in rows] for at in range(3))
    return pa.table(
        {
            "digest": pa.array(digests, pa.string()),
            "method": pa.array(methods, pa.string()),
            "hashes": pa.array(hashes, pa.list_(pa.uint64())),
        }
    )


@given(prints=PRINTS, wanted=st.sets(DIGEST), cuts=st.lists(st.integers(0, 30), max_size=4), order=st.randoms())
def test_parts_in_any_order_give_what_one_table_gives(prints, wanted, cuts, order) -> None:
    rows = [(*key, hashes) for key, hashes in prints.items()]
    order.shuffle(rows)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [fingerprints(rows[low:high]) for low, high in zip(bounds, bounds[1:], strict=False)]
    digests = pa.array(sorted(wanted), pa.string())
    found = dedup.prints_at(parts, METHODS, digests, engine=Engine())
    expected = prints_of(fingerprints(rows), METHODS, digests)
    for method in METHODS:
        assert [row.tolist() for row in found[method]] == [row.tolist() for row in expected[method]]


def test_large_prints_lie_in_files(tmp_path) -> None:
    parts = [fingerprints([(f"{unit:03d}", "shingles", list(range(unit)))]) for unit in range(100)]
    digests = pa.array([f"{unit:03d}" for unit in range(0, 200, 2)])
    engine = Engine(tmp_path, EngineSettings(memory_gib=1e-6))
    shingles = dedup.prints_at(parts, METHODS, digests, engine=engine)["shingles"]
    assert shingles.lengths.tolist() == [*range(0, 100, 2), *[0] * 50]
    assert isinstance(_owner(shingles.values), mmap.mmap)


def _owner(values: np.ndarray) -> object:
    while isinstance(values, np.ndarray | memoryview):
        values = values.base if isinstance(values, np.ndarray) else values.obj
    return values
