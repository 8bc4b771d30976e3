"""Large arrays lie in files that nobody can find, and are equal to small ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmlake.engine import Engine, EngineSettings, Scratch, TextColumn, current


@pytest.fixture(params=[0, 10, 10_000], ids=["all in files", "most in files", "in memory"])
def scratch(request, tmp_path) -> Scratch:
    return Scratch(tmp_path / "scratch", most_bytes=request.param)


def test_a_column_is_what_was_appended(scratch):
    parts = [np.arange(low, low + num, dtype=np.uint64) for low, num in ((0, 3), (3, 0), (3, 40), (43, 1))]
    column = scratch.column(np.uint64)
    for part in parts:
        column.append(part)
    assert np.array_equal(column.array(), np.arange(44, dtype=np.uint64))


def test_a_column_does_not_follow_what_its_parts_become(scratch):
    part = np.zeros(3, np.int64)
    column = scratch.column(np.int64)
    column.append(part)
    part[:] = 7
    assert column.array().tolist() == [0, 0, 0]


def test_an_empty_column_has_no_values(scratch):
    assert scratch.column(np.int32).array().tolist() == []
    assert TextColumn(scratch).array().to_pylist() == []


def test_zeros_are_zeros_that_can_be_overwritten(scratch):
    found = scratch.zeros(100, np.int16)
    assert not found.any()
    found[7] = 3
    assert found.sum() == 3


def test_texts_come_back_from_slices_and_chunks(scratch):
    texts = ["one", "", "drei", "\u56db", "five", "six"]
    column = TextColumn(scratch)
    column.append(pa.chunked_array([pa.array(["zero", *texts[:2]])[1:], pa.array([], pa.string())]))
    column.append(pa.chunked_array([pa.array(texts[2:])]))
    assert column.array().to_pylist() == texts


def test_files_have_no_name(tmp_path):
    held = Scratch(tmp_path / "scratch", most_bytes=0).zeros(1_000, np.uint8)
    assert held.nbytes == 1_000
    assert list((tmp_path / "scratch").iterdir()) == []


def test_nothing_small_makes_a_folder(tmp_path):
    Scratch(tmp_path / "scratch", most_bytes=8_000).zeros(1_000, np.int64)
    assert not (tmp_path / "scratch").exists()


def test_the_folder_of_the_settings_goes_before_that_of_the_lake(tmp_path):
    settings = EngineSettings(memory_gib=0, folder=str(tmp_path / "fast"))
    Engine(tmp_path / "lake", settings).scratch.zeros(1, np.int64)
    assert (tmp_path / "fast").is_dir()
    assert not (tmp_path / "lake").exists()


def test_a_step_says_where_arrays_are_made(tmp_path):
    before = current()
    with (engine := Engine(tmp_path)).used():
        assert current() is engine.scratch
    assert current() is before
