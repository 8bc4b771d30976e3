"""Vectors that come some at a time are joined as those that lie in memory, and lie in files themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmlake import dedup
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.vectors import matcher
from mmlake.dedup.vectors.vector_columns import by_encoder, rows_of
from mmlake.engine import Engine, EngineSettings, Scratch
from mmlake.engine.scratch import used

NUM, SIZE = 300, 8


def rows(digests, vectors, *, encoder="e", status="ok") -> pa.Table:
    return pa.table(
        {
            "digest": pa.array(digests, pa.string()),
            "encoder": pa.array([encoder] * len(digests), pa.string()),
            "vector": pa.array([list(map(float, one)) for one in vectors], pa.list_(pa.float32())),
            "status": pa.array([status] * len(digests), pa.string()),
        }
    )


@pytest.fixture
def units() -> tuple[list[str], np.ndarray]:
    """A third of them copies with a little noise, in no order."""
    rng = np.random.default_rng(4)
    vectors = rng.standard_normal((NUM, SIZE))
    vectors[200:] = vectors[:100] + 0.02 * rng.standard_normal((100, SIZE))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [f"{at:064x}" for at in rng.permutation(NUM)], vectors.astype(np.float32)


@pytest.mark.parametrize("index", ["auto", "flat", "cells"])
def test_parts_give_the_pairs_of_the_whole_whatever_memory_there_is(units, tmp_path, monkeypatch, index) -> None:
    digests, vectors = units
    settings = DedupSettings(index=index)
    whole = dedup.semantic_pairs(rows(digests, vectors), {"e": 0.98}, settings=settings)
    monkeypatch.setattr(matcher, "_LAST_BLOCK", 64)
    parts = (rows(digests[low : low + 70], vectors[low : low + 70]) for low in range(0, NUM, 70))
    engine = Engine(tmp_path / "scratch", EngineSettings(memory_gib=1e-9))
    found = dedup.semantic_pairs(parts, {"e": 0.98}, settings=settings, engine=engine)
    assert found.equals(whole) and found.num_rows >= 90
    assert dedup.recall_of(dedup.recall_counts(found)) == dedup.recall_of(dedup.recall_counts(whole))
    assert not list((tmp_path / "scratch").iterdir())  # files without names


def test_each_encoder_has_its_own_in_the_order_of_digests_and_the_first_of_a_digest_counts(tmp_path) -> None:
    one, other = np.eye(3, dtype=np.float32)[[2, 0]], np.eye(2, dtype=np.float32)
    parts = [
        rows(["c", "a"], one),
        pa.concat_tables([rows(["b", "a"], other, encoder="f"), rows(["a", "b"], np.eye(3)[[1, 1]])]),
        rows([], []),
    ]
    with used(Scratch(tmp_path, most_bytes=0)):
        found = by_encoder(parts)
    assert list(found) == ["e", "f"]
    digests, vectors = found["e"]
    assert digests.to_pylist() == ["a", "b", "c"]
    np.testing.assert_array_equal(vectors, np.eye(3)[[0, 1, 2]])
    assert found["f"][0].to_pylist() == ["a", "b"]
    np.testing.assert_array_equal(found["f"][1], [[0, 1], [1, 0]])


def test_all_vectors_are_not_copied() -> None:
    vectors = np.eye(4, dtype=np.float32)
    assert rows_of(vectors, np.arange(4)) is vectors
    np.testing.assert_array_equal(rows_of(vectors, np.array([2, 0])), vectors[[2, 0]])
