"""How alone a unit is among the others."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.errors import SettingsError
from mmlake.evaluate import isolation, loneliest


def crowd(num: int, dimension: int, seed: int) -> np.ndarray:
    """Units around one direction."""
    rng = np.random.default_rng(seed)
    return (np.ones(dimension) + 0.3 * rng.standard_normal((num, dimension))).astype(np.float32)


def test_distances_are_those_that_numpy_finds_one_by_one() -> None:
    vectors = np.random.default_rng(1).standard_normal((60, 8)).astype(np.float32)
    alone = isolation(vectors, seed=0, num_neighbours=3)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = 1 - units @ units.T
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_allclose(alone.nearest_U, distances.min(axis=1), atol=1e-5)
    np.testing.assert_allclose(alone.mean_U, np.sort(distances, axis=1)[:, :3].mean(axis=1), atol=1e-5)
    assert alone.neighbour_U.tolist() == distances.argmin(axis=1).tolist()


def test_a_stray_is_the_loneliest_and_a_pair_of_strays_too() -> None:
    """Two of a kind have each other, so the nearest alone would not show them."""
    vectors = crowd(50, 16, 2)
    vectors[7] = -1.0
    vectors[20:22] = np.eye(16, dtype=np.float32)[0] - np.eye(16, dtype=np.float32)[1]
    alone = isolation(vectors, seed=0)
    assert set(loneliest(vectors, seed=0, count=3).rows_U.tolist()) == {7, 20, 21}
    assert alone.nearest_U[20] == pytest.approx(0, abs=1e-6)
    assert (alone.neighbour_U[20], alone.neighbour_U[21]) == (21, 20)


def test_a_large_corpus_is_compared_with_some_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from mmlake.evaluate import isolation as module

    monkeypatch.setitem(module.__globals__, "_MOST_REFERENCES", 40)
    monkeypatch.setitem(module.__globals__, "_AT_ONCE", 7)
    vectors = crowd(200, 8, 3)
    vectors[11] = -1.0
    alone = isolation(vectors, seed=5)
    assert (alone.num_references, int(np.argmax(alone.mean_U))) == (40, 11)
    assert np.isfinite(alone.mean_U).all()
    assert not (alone.neighbour_U == np.arange(200)).any()


@pytest.mark.parametrize("num", [3, 40, 3_000])
@pytest.mark.parametrize("most", [20_000, 900])
def test_the_loneliest_of_all_are_found_without_comparing_all(
    num: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal, with their distances, to those of a comparison of everybody with every reference unit."""
    from mmlake.evaluate import isolation as module

    monkeypatch.setitem(module.__globals__, "_MOST_REFERENCES", most)
    monkeypatch.setitem(module.__globals__, "_AT_ONCE", 500)
    vectors = np.random.default_rng(num).standard_normal((num, 6)).astype(np.float32) + 1
    every, found = isolation(vectors, seed=3), loneliest(vectors, seed=3, count=9)
    order = np.argsort(-every.mean_U, kind="stable")[:9]
    assert found.rows_U.tolist() == order.tolist()
    np.testing.assert_array_equal(found.neighbour_U, every.neighbour_U[order])
    np.testing.assert_allclose(found.mean_U, every.mean_U[order], atol=1e-6)


def test_few_of_the_units_are_compared_with_all_reference_units(monkeypatch: pytest.MonkeyPatch) -> None:
    from mmlake.evaluate import isolation as module

    space, compared = module.__globals__["_Space"], list[int]()
    whole = space.isolation
    monkeypatch.setattr(space, "isolation", lambda self, rows: compared.append(len(rows)) or whole(self, rows))
    vectors = crowd(8_192, 8, 4)
    vectors[::1_000] *= -1
    loneliest(vectors, seed=0, count=5)
    assert sum(compared) < 8_192 / 4


def test_of_a_large_corpus_some_units_say_how_unique_they_are() -> None:
    vectors = crowd(5_000, 4, 6)
    alone = isolation(vectors, seed=1)
    assert len(alone.rows_U) == len(set(alone.rows_U.tolist())) == 4_096
    assert alone.num_references == 5_000
    np.testing.assert_array_equal(alone.rows_U, isolation(vectors, seed=1).rows_U)


@pytest.mark.parametrize("num", [0, 1])
def test_whoever_has_no_neighbour_has_no_distance(num: int) -> None:
    alone = isolation(np.ones((num, 4), np.float32), seed=0)
    assert np.isnan(alone.mean_U).all()
    assert alone.neighbour_U.tolist() == [-1] * num


def test_what_is_no_finite_matrix_is_refused() -> None:
    with pytest.raises(SettingsError, match="finite matrix"):
        isolation(np.array([[1.0, np.nan]], np.float32), seed=0)
