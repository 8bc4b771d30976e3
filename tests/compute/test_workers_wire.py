"""Requirements of what workers send: it comes back as it was, and nothing else can be made of it."""

from __future__ import annotations

import dataclasses
import os
import pickle
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_kernels import Row

from mmlake.border import Failure
from mmlake.workers.wire import DamagedResult, decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=30,
)


def spelled(value):
    """repr, which differs between -0.0 and 0.0, True and 1, a tuple and a list."""
    return repr(value)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert spelled(decode(encode(value))) == spelled(value)


@given(st.binary(max_size=200))
def test_other_bytes_give_a_plain_value_or_an_error(data):
    try:
        decode(data)
    except DamagedResult:
        pass


@given(PLAIN, st.data())
def test_a_result_that_was_cut_is_noticed(value, data):
    whole = encode(value)
    with pytest.raises(DamagedResult):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">f4", "f8", "c8", "S5", "<U3", "M8[us]"])
def test_arrays_keep_their_type_and_shape(dtype):
    array = (
        np.zeros((2, 0, 3), dtype)
        if dtype == "u1"
        else np.arange(6).astype("S5" if dtype == "S5" else "i8").reshape(2, 3).astype(dtype)
    )
    found = decode(encode(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


def test_records_of_packages_that_were_named_come_back():
    packages = frozenset({"mmlake", "worker_kernels"})
    rows = [Failure(3001, "why"), Row("r", (1.0,))]
    assert decode(encode(rows), packages=packages) == rows


@pytest.mark.parametrize("packages", [frozenset(), frozenset({"mmlake"})])
def test_records_of_other_packages_do_not(packages):
    with pytest.raises(DamagedResult):
        decode(encode(Row("r", ())), packages=packages)


@dataclasses.dataclass
class Here:
    path: str


@pytest.mark.parametrize("name", [b"os:system", b"worker_kernels:crash_where_another_was", b"worker_kernels:os.system"])
def test_no_function_can_be_called_by_name(name):
    """The bytes of a record are written by hand, with a class replaced by a function."""
    forged = b"c" + len(name).to_bytes(4, "little") + name + encode({"command": "true"})
    with pytest.raises(DamagedResult):
        decode(forged, packages=frozenset({"os", "worker_kernels"}))


def test_a_pickle_is_not_read():
    with pytest.raises(DamagedResult):
        decode(pickle.dumps((os.getcwd, ())))


def test_a_count_larger_than_the_bytes_is_refused_at_once():
    with pytest.raises(DamagedResult):
        decode(b"l" + (1 << 31).to_bytes(4, "little") + b"N")


def test_values_nested_without_end_are_refused():
    with pytest.raises(DamagedResult):
        decode((b"l" + (1).to_bytes(4, "little")) * 5000 + b"N")


@pytest.mark.parametrize("value", [object(), {1, 2}, timedelta(1), np.array([object()]), np.zeros(2, "i4,f4")])
def test_other_kinds_are_refused_where_they_are_made(value):
    with pytest.raises(TypeError, match="a kernel returned a"):
        encode(value)
