"""A kept join is mapped and written array by array, whatever its digests are counted with."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from mmlake.dedup.kept.join import places
from mmlake.dedup.kept.store import KeptJoins, _arrays_of_texts, _texts_of


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("texts", [[], ["a", "", "\u00e9b"], ["a", None, "b"]])
def test_texts_come_back_with_their_offsets(kind, texts):
    column = pa.array(["x", *texts], kind)[1:]
    back = _texts_of(_arrays_of_texts("digests", column), "digests")
    assert back.equals(column)
    assert back.type == kind


def test_texts_are_found_among_those_with_wider_offsets():
    few, many = pa.array(["c", "a"]), pa.array(["a", "b"], pa.large_string())
    assert places(few, many).tolist() == [-1, 0]
    assert places(many, few).tolist() == [1, -1]


@pytest.mark.parametrize("tail", ["", "%08x"])
def test_texts_of_one_length_are_found_whatever_they_begin_with(tail):
    rng = np.random.default_rng(len(tail))
    for num_heads in (2, 30, 10**6):
        names = sorted({f"{rng.integers(num_heads):08x}" + (tail and tail % rng.integers(9)) for _ in range(50)})
        some = sorted({one for one in names if rng.random() < 0.7} | {"f" * len(names[0])})
        assert places(pa.array(["x", *names])[1:], pa.array(some)).tolist() == [
            some.index(one) if one in some else -1 for one in names
        ]


def test_a_kept_file_is_never_whole_in_memory(tmp_path):
    kept, arrays = KeptJoins(tmp_path, "one"), {"a": np.arange(1 << 20), "b": np.zeros(0, np.int8)}
    tracemalloc.start()
    kept._write("tier", "join", arrays)
    back = kept._read("tier", "join")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(np.array_equal(back[name], one) for name, one in arrays.items())
    assert peak < arrays["a"].nbytes // 8
