"""Loops that are compiled once and loaded without numba."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from mmlake.dedup.loops import machine_code
from mmlake.dedup.loops.machine_code import Given, Loop, loops

pytestmark = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is absent")
LATER = """
import sys
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.text import fingerprints
text_kernels._work[0] = 10**12
assert len(fingerprints.print_table(["a b c d e f"] * 9)["shingles"]) == 9 and text_kernels.kernels() is not None
print([name for name in ("numba", "pyarrow", "pandas", "cv2") if name in sys.modules])
"""


def _scaled(pair, factor, share, out) -> int:
    """Fills the sums of both arrays; how many."""
    for at in range(pair.count.shape[0]):
        out[at] = np.float64(pair.count[at] * factor) * share + np.float64(pair.matrix[1, at])
    return pair.count.shape[0]


class Pair(NamedTuple):
    count: np.ndarray
    matrix: np.ndarray


PAIR = (Pair, "u8* i4**")


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    return lambda: loops("one", {"scaled": Loop(_scaled, (PAIR, "u8", "f8", "f8*"))}, [__file__])["scaled"]


def test_a_loop_reads_tuples_numbers_and_arrays_and_is_loaded_the_next_time(made, tmp_path, monkeypatch):
    pair, out = Pair(np.arange(4, dtype=np.uint64), np.arange(8, dtype=np.int32).reshape(2, 4)), np.empty(4)
    for turn in range(2):
        loop = made()
        assert loop(pair if turn else Given.of(PAIR, pair), 2**63 + 1, 0.5, out) == 4
        assert out.tolist() == [float(at * (2**63 + 1) % 2**64) * 0.5 + 4 + at for at in range(4)]
        monkeypatch.setattr(machine_code, "_compiled", None)  # never again
    path = tmp_path / "one.loops"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TypeError):  # a damaged file is compiled anew
        made()


def test_another_version_of_numba_calls_the_loop_itself_with_the_same_result(made, monkeypatch):
    pair, out, again = Pair(np.arange(4, dtype=np.uint64), np.ones((2, 4), np.int32)), np.empty(4), np.empty(4)
    made()(pair, 3, 0.5, out)
    monkeypatch.setattr(machine_code, "_TESTED", ())
    monkeypatch.setattr(machine_code, "_loaded", None)  # nothing is loaded
    assert made()(Given.of(PAIR, pair), 3, 0.5, again) == 4 and again.tolist() == out.tolist()


@pytest.mark.parametrize("other", [np.zeros(4, np.int64), np.zeros((4, 1)), np.zeros(8)[::2]])
def test_an_array_of_another_kind_is_refused(made, other):
    pair = Pair(np.arange(4, dtype=np.uint64), np.zeros((2, 4), np.int32))
    with pytest.raises(TypeError, match="a loop was given"):
        made()(pair, 1, 0.5, other)


def test_a_later_process_compares_texts_without_numba():
    """Who has the loops on disk pays for no import but numpy's."""
    for _ in range(2):
        said = subprocess.run([sys.executable, "-c", LATER], check=True, capture_output=True, text=True).stdout
    assert said == "[]\n"
    assert any((folder / "text.loops").is_file() for folder in machine_code._folders())
    assert Path(machine_code.__file__).parent / "__pycache__" in machine_code._folders()
