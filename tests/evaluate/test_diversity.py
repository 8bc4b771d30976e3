"""The shape of a corpus: entropy, clusters, representatives."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mmlake.errors import SettingsError
from mmlake.evaluate import cluster, describe_clusters, diversity
from mmlake.evaluate.kmeans import kmeans


def blobs(sizes: list[int], *, seed: int = 0, dimension: int = 16) -> np.ndarray:
    """Unit vectors in as many well-separated heaps as there are sizes."""
    rng = np.random.default_rng(seed)
    centres = np.eye(dimension)[: len(sizes)]
    vectors = np.concatenate(
        [centre + 0.02 * rng.standard_normal((size, dimension)) for centre, size in zip(centres, sizes, strict=True)]
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_even_heaps_have_the_largest_entropy():
    figures = diversity(blobs([25] * 4), num_clusters=4, seed=1)
    assert figures.histogram == (25, 25, 25, 25)
    assert (figures.entropy_bits, figures.normalized_entropy, figures.largest_cluster_fraction) == (2.0, 1.0, 0.25)


def test_entropy_of_uneven_heaps_follows_shannons_formula():
    figures = diversity(blobs([70, 20, 10]), num_clusters=3, seed=1)
    expected = -(0.7 * math.log2(0.7) + 0.2 * math.log2(0.2) + 0.1 * math.log2(0.1))
    assert figures.histogram == (70, 20, 10)
    assert figures.entropy_bits == round(expected, 4)
    assert figures.normalized_entropy == round(expected / math.log2(3), 4)


def test_equal_vectors_have_no_diversity_and_their_empty_clusters_count():
    figures = diversity(np.tile([[1.0, 0.0]], (30, 1)), num_clusters=5, seed=1)
    assert figures.histogram == (30, 0, 0, 0, 0)
    assert (
        figures.num_clusters,
        figures.entropy_bits,
        figures.normalized_entropy,
        figures.largest_cluster_fraction,
    ) == (5, 0.0, 0.0, 1.0)


def test_number_of_clusters_is_about_the_square_root_and_bounded():
    assert [diversity(blobs([n]), seed=1).num_clusters for n in (2, 3, 100)] == [2, 2, 10]
    assert (
        diversity(
            np.random.default_rng(0).standard_normal((256 * 256 + 600, 2)), seed=1, num_clusters=None
        ).num_clusters
        == 256
    )


def test_no_items_and_one_item_give_a_block_without_nan():
    assert diversity(np.empty((0, 8), dtype=np.float32), seed=1).to_dict()["normalized_entropy"] == 0.0
    assert diversity(np.ones((1, 8)), seed=1).histogram == (1,)


def test_figures_are_the_same_on_every_run_and_json_able():
    vectors = np.random.default_rng(3).standard_normal((500, 12)).astype(np.float32)
    assert json.dumps(diversity(vectors, seed=5).to_dict()) == json.dumps(diversity(vectors.copy(), seed=5).to_dict())


def test_noise_of_float_rounding_does_not_change_the_figures():
    vectors = np.random.default_rng(3).standard_normal((500, 12))
    assert diversity(vectors, seed=5) == diversity(vectors * (1 + 1e-14), seed=5)


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(SettingsError, match="finite"):
        diversity(np.array([[1.0, np.nan]]), seed=1)


def test_kmeans_finds_the_planted_heaps_better_than_chance_starts_would():
    vectors = blobs([30] * 10)
    _, nearest = kmeans(vectors, 10, seed=2)
    assert all(len(set(nearest[start : start + 30].tolist())) == 1 for start in range(0, 300, 30))


def test_kmeans_never_asks_for_more_clusters_than_there_are_distinct_vectors():
    centroids, nearest = kmeans(np.repeat(np.eye(3), 10, axis=0), 8, seed=2)
    assert len(centroids) == 3
    assert len(set(nearest.tolist())) == 3


def test_representative_is_the_digest_nearest_to_the_centroid():
    vectors = np.array([[0.0, 0], [1.0, 0], [2.0, 0], [50.0, 0], [52.0, 0.1], [51.0, 0]])
    rows = describe_clusters(cluster(vectors, seed=1, num_clusters=2), list("abcdef"), vectors_ND=vectors)
    assert {row["representative"] for row in rows} == {"b", "f"}


def test_terms_name_what_sets_a_cluster_apart():
    vectors = blobs([4, 3])
    texts = ["the boat harbour sails"] * 4 + ["the oven bread bakes"] * 3
    rows = describe_clusters(
        cluster(vectors, seed=1, num_clusters=2),
        [str(i) for i in range(7)],
        vectors_ND=vectors,
        texts=dict(enumerate(texts)),
    )
    assert rows[0]["terms"] == ["boat", "harbour", "sails"]
    assert rows[1]["terms"] == ["bakes", "bread", "oven"]


@pytest.mark.parametrize("seed", range(6))
def test_clusters_are_those_of_rounds_that_compute_every_mean_anew(seed: int) -> None:
    """To the last bit: the histogram is part of a content-addressed manifest."""
    vectors = np.random.default_rng(seed).standard_normal((300 + 97 * seed, 5)).astype(np.float32)
    found, nearest = kmeans(vectors, 12, seed=seed)
    # the start is that of no round; what follows is written out
    centroids, _ = kmeans(vectors, 12, seed=seed, max_iterations=0)
    train = np.sort(np.random.default_rng(seed).choice(len(vectors), min(len(vectors), 12 * 64), replace=False))
    points = vectors[train].astype(np.float64)
    before = None
    for _ in range(25):
        similarities = points @ centroids.T - 0.5 * np.einsum("kd,kd->k", centroids, centroids)
        mine = np.round(similarities, 9).argmax(axis=1)
        if before is not None and np.array_equal(mine, before):
            break
        before = mine
        for number in range(len(centroids)):
            if len(own := points[mine == number]):
                centroids[number] = np.add.reduceat(own, [0], axis=0)[0] / len(own)
    np.testing.assert_array_equal(found, centroids)
    assert len(nearest) == len(vectors)
