"""k-means that gives the same clusters on every run: own blocked Lloyd rounds in float64.

Enters: vectors in a fixed order. Leaves: centroids and one cluster number per vector. No approximate search, no threads
of its own.
FAISS's k-means was not taken: its result depends on the number of threads and the build, and the histogram enters a
content-addressed manifest.
"""

from __future__ import annotations

import numpy as np

_BLOCK_ROWS = 4096
# more points move centroids of unit vectors by less than they move between seeds; FAISS takes 256
_TRAIN_ROWS_PER_CLUSTER = 64
# of these k-means++ draws the first centroids; from all of them it takes half of the time, and ends no closer
_START_ROWS_PER_CLUSTER = 16
# similarities closer than this are ties, and the lower cluster number wins: float64 sums differ by about 1e-15 between
# BLAS builds
_DECIMALS = 9


def is_finite_matrix(vectors_ND: np.ndarray) -> bool:
    """Whether it has rows of equal length, all of them numbers. Asked a block at a time: what lies in a file stays
    there."""
    return vectors_ND.ndim == 2 and all(
        np.isfinite(vectors_ND[start : start + _BLOCK_ROWS]).all() for start in range(0, len(vectors_ND), _BLOCK_ROWS)
    )


# N vectors, D embedding, K clusters
def kmeans(
    vectors_ND: np.ndarray, num_clusters: int, *, seed: int, max_iterations: int = 25
) -> tuple[np.ndarray, np.ndarray]:
    """(centroids_KD float64, cluster of each vector int64); fewer than num_clusters centroids where the distinct
    vectors are fewer.

    Start: k-means++ (Arthur and Vassilvitskii 2007) on a seeded sample of 16 vectors per cluster. Trains on 64, then
    assigns all of them.
    """
    rng = np.random.default_rng(seed)
    num_train = min(len(vectors_ND), num_clusters * _TRAIN_ROWS_PER_CLUSTER)
    chosen = np.sort(rng.choice(len(vectors_ND), size=num_train, replace=False))
    train_TD = np.asarray(vectors_ND[chosen], dtype=np.float64)
    num_first = min(num_train, num_clusters * _START_ROWS_PER_CLUSTER)
    first = np.sort(rng.choice(num_train, num_first, replace=False)) if num_first < num_train else slice(None)
    centroids_KD = _spread(train_TD[first], num_clusters, rng=rng)
    before: np.ndarray | None = None
    for _ in range(max_iterations):
        nearest = assign(train_TD, centroids_KD)
        if before is not None and np.array_equal(nearest, before):
            break
        changed = nearest if before is None else np.concatenate([side[nearest != before] for side in (nearest, before)])
        members = np.flatnonzero(np.isin(nearest, changed))  # of clusters that are as before, means are, too
        centroids_KD = _means(train_TD, nearest, members, centroids_KD)
        before = nearest
    return centroids_KD, assign(vectors_ND, centroids_KD)


def assign(vectors_ND: np.ndarray, centroids_KD: np.ndarray) -> np.ndarray:
    """The number of the nearest centroid of each vector (Euclidean), int64; ties go to the lower number."""
    half_norms_K = 0.5 * np.einsum("kd,kd->k", centroids_KD, centroids_KD)
    nearest = np.empty(len(vectors_ND), dtype=np.int64)
    for start in range(0, len(vectors_ND), _BLOCK_ROWS):
        block = np.asarray(vectors_ND[start : start + _BLOCK_ROWS], dtype=np.float64)
        similarities = block @ centroids_KD.T
        similarities -= half_norms_K
        np.round(similarities, _DECIMALS, out=similarities)
        nearest[start : start + _BLOCK_ROWS] = similarities.argmax(axis=1)
    return nearest


def _spread(train_TD: np.ndarray, num_clusters: int, *, rng: np.random.Generator) -> np.ndarray:
    norms_T = np.einsum("td,td->t", train_TD, train_TD)
    picks = [int(rng.integers(len(train_TD)))]
    distances_T = np.full(len(train_TD), np.inf)
    while len(picks) < num_clusters:
        last = train_TD[picks[-1]]
        # twice the one vector, not all of them: the same products, and no copy of the sample for each centroid
        squares_T = norms_T - train_TD @ (2 * last) + last @ last
        distances_T = np.minimum(distances_T, np.maximum(np.round(squares_T, _DECIMALS), 0))
        cumulated = np.cumsum(distances_T)
        if cumulated[-1] <= 0:
            break  # every vector is a centroid already
        pick = int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right"))
        picks.append(min(pick, len(train_TD) - 1))
    return train_TD[picks].copy()


def _means(train_TD: np.ndarray, nearest: np.ndarray, members: np.ndarray, centroids_KD: np.ndarray) -> np.ndarray:
    """The centroids after a round. members: rows of all vectors of the clusters that changed."""
    order = members[np.argsort(nearest[members], kind="stable")]
    filled, starts = np.unique(nearest[order], return_index=True)
    means_KD = centroids_KD.copy()  # a cluster that lost its last vector keeps its place
    if len(order):
        means_KD[filled] = (
            np.add.reduceat(train_TD[order], starts, axis=0) / np.diff(np.append(starts, len(order)))[:, None]
        )
    return means_KD
