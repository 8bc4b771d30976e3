"""Semantic duplicates: vectors of one encoder whose exact cosine reaches the encoder's bound.

Enters: unit vectors. Leaves: pairs. The index only proposes; every pair is verified in float64. Sources: SemDeDup
(Abbas et al. 2023) for clusters before pairs; here each vector is also compared with its three nearest cells, because a
third of one percent to five percent of true pairs lie across a border. FAISS does the searching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mmlake.dedup.settings import INDEXES, DedupSettings
from mmlake.dedup.vectors.index_choice import choose_index, code_parts
from mmlake.dedup.vectors.scann import ScannIndex
from mmlake.errors import SettingsError
from mmlake.optional import need
from mmlake.progress import Advance, silent

FEWEST = 64  # vectors that an index is built of; FAISS cannot train one on a handful
_SLACK = 1e-4  # candidates this far below the bound are kept for the float64 check: float32 products err by 1e-6
_BLOCK_ROWS = 2_048
_EXACT_PAIRS = 65_536  # verified together
_CELLS_PER_VECTOR = 3
_TRAINING_PER_CELL = 32
_ITERATIONS = 5


def similar(
    vectors: np.ndarray, *, bound: float, index: str, settings: DedupSettings, advance: Advance = silent
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(i, j, cosine) of the pairs at or above the bound, i < j, sorted. vectors: float32 (N, D), unit norm. Raises
    SettingsError."""
    if index not in INDEXES:
        raise SettingsError(f"dedup.index is {index!r}; expected one of {', '.join(INDEXES)}")
    if index == "auto":
        index = choose_index(*vectors.shape, settings=settings).index
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if len(vectors) < FEWEST:
        index = "flat"
    if len(vectors) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
    codes = [np.empty(0, np.int64)]
    for i, j in _SEARCHES[index](vectors, bound - _SLACK, settings):
        codes.append(np.unique(np.minimum(i, j) * len(vectors) + np.maximum(i, j)))
    code = np.unique(np.concatenate(codes))
    i, j = code // len(vectors), code % len(vectors)
    cosine = cosines(vectors, i, j)
    keep = (cosine >= bound) & (i != j)
    advance(len(vectors))
    return i[keep], j[keep], cosine[keep]


def measure_recall(
    vectors: np.ndarray, *, index: str, bound: float, settings: DedupSettings | None = None, sample_items: int = 1_000
) -> float:
    """Share of the pairs that brute force finds for a sample of vectors and that the index finds too; 1.0 where
    there are none to find."""
    settings = settings or DedupSettings()
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    i, j, _ = similar(vectors, bound=bound, index=index, settings=settings)
    got = set((i * len(vectors) + j).tolist())
    sample = np.sort(np.random.default_rng(settings.seed).permutation(len(vectors))[:sample_items])
    wanted: set[int] = set()
    for at in range(0, len(sample), _BLOCK_ROWS):
        rows = sample[at : at + _BLOCK_ROWS]
        a, b = np.nonzero(vectors[rows] @ vectors.T >= bound - _SLACK)
        a = rows[a]
        sure = (a != b) & (cosines(vectors, a, b) >= bound)
        wanted.update((np.minimum(a, b) * len(vectors) + np.maximum(a, b))[sure].tolist())
    return len(wanted & got) / len(wanted) if wanted else 1.0


def proposed(vectors: np.ndarray, bound: float, index: str, settings: DedupSettings) -> _Found:
    """(i, j) of what one of the FAISS indexes holds to be near, in blocks, however many pairs that are: `i` and `j` in
    any order, each pair at or above the bound in float32."""
    for i, j in _SEARCHES[index](np.ascontiguousarray(vectors, np.float32), bound, settings):
        apart = i != j
        yield i[apart], j[apart]


def cosines(vectors: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Cosines in float64, rounded to what float32 vectors can bear, in blocks."""
    out = np.empty(len(i))
    for at in range(0, len(i), _EXACT_PAIRS):
        part = slice(at, at + _EXACT_PAIRS)
        out[part] = np.einsum("nd,nd->n", vectors[i[part]].astype(np.float64), vectors[j[part]].astype(np.float64))
    return np.minimum(out.round(6), 1.0)


_Found = Iterator[tuple[np.ndarray, np.ndarray]]


def _flat(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    faiss = _faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    yield from _ranges(index, vectors, bound)


def _ranges(index: Any, vectors: np.ndarray, bound: float) -> _Found:
    for at in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[at : at + _BLOCK_ROWS]
        limits, _, ids = index.range_search(block, bound)
        yield np.repeat(np.arange(at, at + len(block)), np.diff(limits.astype(np.int64))), ids


def _cells(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    """Each cell's own vectors against all that have it among their three nearest."""
    cell_centroids = centroids(vectors, max(2, round(2 * len(vectors) ** 0.5)), settings)
    near = np.concatenate(
        [_nearest(vectors[at : at + _BLOCK_ROWS], cell_centroids) for at in range(0, len(vectors), _BLOCK_ROWS)]
    )
    owners = np.argsort(near[:, 0], kind="stable")
    own_bounds = np.searchsorted(near[owners, 0], np.arange(len(cell_centroids) + 1))
    visitors = np.argsort(near.ravel(), kind="stable")
    visit_bounds = np.searchsorted(near.ravel()[visitors], np.arange(len(cell_centroids) + 1))
    for cell in range(len(cell_centroids)):
        mine = owners[own_bounds[cell] : own_bounds[cell + 1]]
        theirs = visitors[visit_bounds[cell] : visit_bounds[cell + 1]] // near.shape[1]
        for at in range(0, len(theirs), _BLOCK_ROWS):
            rows = theirs[at : at + _BLOCK_ROWS]
            for low in range(0, len(mine), _BLOCK_ROWS):
                a, b = np.nonzero(vectors[rows] @ vectors[mine[low : low + _BLOCK_ROWS]].T >= bound)
                yield rows[a], mine[low + b]


def _nearest(block: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    products = block @ centroids.T
    count = min(_CELLS_PER_VECTOR, products.shape[1])
    best = np.argpartition(-products, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(products, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1)


def centroids(vectors: np.ndarray, num: int, settings: DedupSettings) -> np.ndarray:
    """So many unit centroids of a seeded sample of the vectors (spherical k-means)."""
    faiss = _faiss()
    rng = np.random.default_rng(settings.seed)
    sample = vectors[np.sort(rng.permutation(len(vectors))[: num * _TRAINING_PER_CELL])]
    means = faiss.Kmeans(
        vectors.shape[1],
        num,
        niter=_ITERATIONS,
        seed=settings.seed,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=_TRAINING_PER_CELL,
    )
    means.train(sample)
    found: np.ndarray = means.centroids
    return found


def _neighbours(index: Any, vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    """What the index holds to be nearest, however near: a coarse distance may not decide."""
    for at in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[at : at + _BLOCK_ROWS]
        _, ids = index.search(block, min(settings.num_neighbours, len(vectors)))
        rows = np.repeat(np.arange(at, at + len(block)), ids.shape[1])
        found = ids.ravel()
        valid = found >= 0
        rows, found = rows[valid], found[valid]
        close = np.einsum("nd,nd->n", vectors[rows], vectors[found]) >= bound
        yield rows[close], found[close]


def _ivf_flat(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    faiss = _faiss()
    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(
        quantizer, vectors.shape[1], max(1, round(2 * len(vectors) ** 0.5)), faiss.METRIC_INNER_PRODUCT
    )
    train(index, vectors)
    index.nprobe = min(8, index.nlist)
    yield from _ranges(index, vectors, bound)


def _ivf_pq(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    faiss = _faiss()
    dimension = vectors.shape[1]
    parts = code_parts(dimension)
    # 2**bits codes need about 39 training rows each
    bits = 8 if len(vectors) >= 10_000 else 6 if len(vectors) >= 2_500 else 4
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(dimension),
        dimension,
        max(1, round(len(vectors) ** 0.5)),
        parts,
        bits,
        faiss.METRIC_INNER_PRODUCT,
    )
    train(index, vectors)
    index.nprobe = min(16, index.nlist)
    yield from _neighbours(index, vectors, bound, settings)


def _hnsw(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = 80, 2 * settings.num_neighbours
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # the graph depends on the order in which threads insert
    try:
        index.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    yield from _neighbours(index, vectors, bound, settings)


def _scann(vectors: np.ndarray, bound: float, settings: DedupSettings) -> _Found:
    index = ScannIndex(vectors, leaves=max(1, round(2 * len(vectors) ** 0.5)))
    index.nprobe = 8
    yield from _neighbours(index, vectors, bound, settings)


def train(index: Any, vectors: np.ndarray) -> None:
    """Train the index on the vectors, where it has to be, and add them."""
    if hasattr(index, "cp"):
        index.cp.min_points_per_centroid = 1
    if hasattr(index, "pq"):
        index.pq.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add(vectors)


_SEARCHES: dict[str, Callable[[np.ndarray, float, DedupSettings], _Found]] = {
    "flat": _flat,
    "cells": _cells,
    "ivf-flat": _ivf_flat,
    "ivf-pq": _ivf_pq,
    "hnsw": _hnsw,
    "scann": _scann,
}


def _faiss() -> Any:
    return need("faiss", extra="all", purpose="semantic deduplication")
