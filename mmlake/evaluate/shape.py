"""The shape of a corpus: how evenly its vectors spread over clusters.

Enters: the vectors of one version, modality and encoder, sorted by digest by the caller. Leaves: a histogram, its
Shannon entropy, and for readers a representative and a few words per cluster. Judges nothing: whether a shape is good
is decided by the probes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmlake.errors import SettingsError
from mmlake.evaluate.kmeans import is_finite_matrix, kmeans
from mmlake.letters import words
from mmlake.records import Digest

_DECIMALS = 4
_MAX_CLUSTERS = 256
_BLOCK_ROWS = 4_096  # vectors that are compared with a centroid at once
_LEAST_LETTERS = 3  # of a term


@dataclass(frozen=True, kw_only=True, slots=True)
class Diversity:
    """How evenly one modality of one version spreads. Rounded to 4 decimals, because it is part of a
    content-addressed manifest."""

    num_items: int
    num_clusters: int  # asked for; clusters that stay empty count, because they are missing variety
    histogram: tuple[int, ...]  # items per cluster, largest first; sums to num_items
    entropy_bits: float  # Shannon entropy of the histogram
    normalized_entropy: float  # entropy / log2(num_clusters): 1 is even, 0 is one cluster
    largest_cluster_fraction: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """The block as the manifest stores it."""
        return {**asdict(self), "histogram": list(self.histogram)}


@dataclass(frozen=True, slots=True)
class Clustering:
    """Where each vector lies. Clusters are numbered by size, largest first, ties by their first vector."""

    centroids_KD: np.ndarray  # float64; fewer rows than num_clusters where some stayed empty
    assignment_N: np.ndarray  # int64
    num_clusters: int
    seed: int

    @property
    def histogram(self) -> tuple[int, ...]:
        """Items per cluster, largest first."""
        return tuple(int(count) for count in np.bincount(self.assignment_N, minlength=self.num_clusters))


def cluster(
    vectors_ND: np.ndarray, *, seed: int, num_clusters: int | None = None, max_iterations: int = 25
) -> Clustering:
    """The clusters of the vectors. num_clusters None or 0: about sqrt(N), 2 to 256. Raises SettingsError on vectors
    that are not finite."""
    vectors_ND = np.asarray(vectors_ND)
    if not is_finite_matrix(vectors_ND):
        raise SettingsError(
            f"diversity: vectors of shape {vectors_ND.shape} must be a finite matrix (items, dimension); drop "
            "rows without a vector first"
        )
    count = min(num_clusters or _default_clusters(len(vectors_ND)), len(vectors_ND))
    if count == 0:
        return Clustering(np.empty((0, vectors_ND.shape[1])), np.empty(0, dtype=np.int64), 0, seed)
    centroids_KD, nearest = kmeans(vectors_ND, count, seed=seed, max_iterations=max_iterations)
    sizes = np.bincount(nearest, minlength=len(centroids_KD))
    first = np.full(len(centroids_KD), len(nearest))
    np.minimum.at(first, nearest, np.arange(len(nearest)))
    order = np.lexsort((first, -sizes))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Clustering(centroids_KD[order], place[nearest], count, seed)


def diversity(vectors_ND: np.ndarray, *, seed: int, num_clusters: int | None = None) -> Diversity:
    """How evenly the vectors spread; the same vectors in the same order always give the same figures."""
    return shape(cluster(vectors_ND, seed=seed, num_clusters=num_clusters))


def shape(clustering: Clustering) -> Diversity:
    """The figures of a clustering that is already there."""
    histogram = clustering.histogram
    total = sum(histogram)
    shares = [count / total for count in histogram if count]
    entropy = max(0.0, -math.fsum(share * math.log2(share) for share in shares))
    return Diversity(
        num_items=total,
        num_clusters=clustering.num_clusters,
        histogram=histogram,
        entropy_bits=round(entropy, _DECIMALS),
        normalized_entropy=round(entropy / math.log2(clustering.num_clusters), _DECIMALS)
        if clustering.num_clusters > 1
        else 0.0,
        largest_cluster_fraction=round(max(shares, default=0.0), _DECIMALS),
        seed=clustering.seed,
    )


def describe_clusters(
    clustering: Clustering,
    digests: Sequence[Digest],
    *,
    vectors_ND: np.ndarray,
    texts: Mapping[int, str] | None = None,
    num_terms: int = 4,
) -> list[dict[str, Any]]:
    """One dict per cluster that is not empty: cluster, size, fraction, representative (digest nearest to the
    centroid), terms (words that set it apart; needs texts). texts: row -> its text; of many rows a sample does."""
    terms = _terms(texts, clustering, num_terms=num_terms) if texts is not None else {}
    total = len(clustering.assignment_N)
    rows = []
    for number, size in enumerate(clustering.histogram):
        if not size:
            continue
        members = np.flatnonzero(clustering.assignment_N == number)
        rows.append(
            {
                "cluster": number,
                "size": size,
                "fraction": round(size / total, _DECIMALS),
                "representative": _nearest(vectors_ND, members, clustering.centroids_KD[number], digests),
                "terms": terms.get(number, []),
            }
        )
    return rows


def _nearest(vectors_ND: np.ndarray, members: np.ndarray, centroid_D: np.ndarray, digests: Sequence[Digest]) -> Digest:
    """The digest of the member nearest to the centroid, the smallest of equally near ones."""
    found: list[tuple[float, Digest]] = []
    for start in range(0, len(members), _BLOCK_ROWS):
        rows = members[start : start + _BLOCK_ROWS]
        offsets = np.asarray(vectors_ND[rows], dtype=np.float64) - centroid_D
        distances = np.round(np.einsum("nd,nd->n", offsets, offsets), 9)
        least = distances.min()
        found.append((float(least), min(digests[row] for row in rows[distances == least].tolist())))
    return min(found)[1]


def _default_clusters(num_items: int) -> int:
    return min(max(round(math.sqrt(num_items)), 2), _MAX_CLUSTERS)


def _terms(texts: Mapping[int, str], clustering: Clustering, *, num_terms: int) -> dict[int, list[str]]:
    """Per cluster, the words whose share of its texts exceeds what their idf would lead to expect."""
    documents: Counter[str] = Counter()
    inside: dict[int, Counter[str]] = {}
    sizes: Counter[int] = Counter()
    for row, text in texts.items():
        number = int(clustering.assignment_N[row])
        found = {word for word in words(text.lower()) if len(word) >= _LEAST_LETTERS}
        documents.update(found)
        inside.setdefault(number, Counter()).update(found)
        sizes[number] += 1
    best = {}
    for number, counts in inside.items():
        size = sizes[number]
        scored = [
            (-(count / size) * math.log(len(texts) / documents[word]), word)
            for word, count in counts.items()
            if count > 1 or size == 1
        ]
        best[number] = [word for score, word in sorted(scored)[:num_terms] if score < 0]
    return best
