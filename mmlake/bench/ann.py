"""Recall against speed and memory of each index of the semantic step, one row per index and parameter.

Every figure is of one thread, in CPU seconds, against exact search: nothing here is an opinion of the index about
itself. `cells` and `flat join` are the step's own join over all vectors; the others answer queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import SAME
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.vectors import gpu, proposals
from mmlake.dedup.vectors.index_choice import code_parts
from mmlake.dedup.vectors.matcher import VectorMatcher, never_apart, recall
from mmlake.dedup.vectors.scann import ScannIndex, is_installed
from mmlake.optional import need
from mmlake.progress import Advance, silent

Vectors = NDArray[np.float32]
_REFINE = 4  # candidates by code for each that is asked for; then exact
_HNSW_LINKS, _HNSW_BUILD = 32, 80  # as the semantic step builds it
_ROWS = 2_048  # of a product
_SAMPLED = 16_384  # units of a join that are compared with all others; one in ten has a duplicate


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is measured."""

    k: int = 10
    # neighbours asked for in recall@k
    num_queries: int = 1_000
    # vectors that ask; a seeded sample of the vectors themselves
    nprobes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    # lists searched by IVF and ScaNN
    ef_searches: tuple[int, ...] = (16, 32, 64, 128)
    # candidates that HNSW keeps
    gpu_bytes: int = 8_000_000_000
    # of device memory, where there is a device


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One index with one parameter on one set of vectors."""

    index: str
    parameter: str
    num: int
    dimension: int
    recall_at_k: float | None  # None for joins, which have no k
    # of the pairs at or above the bound that the queries have; of a join, of the units that have a duplicate
    recall_at_bound: float | None  # None where there are none
    queries_per_cpu_s: float
    build_cpu_s: float
    join_cpu_s: float  # build, and one query for each vector
    bytes_per_vector: float  # of the index as it is stored
    exact_bytes_per_vector: int  # of the vectors that candidates are compared with, which may lie on disk
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class _Truth:
    """What exact search finds for the queries."""

    queries: NDArray[np.int64]
    nearest: NDArray[np.int64]  # (queries, k)
    pairs: set[tuple[int, int]]  # (query, other) at or above the bound


def measure(
    vectors: Vectors, *, bound: float, plan: Plan, settings: DedupSettings, advance: Advance = silent
) -> Iterator[Row]:
    """The rows of all indexes, one after the other. vectors: float32 (N, D), unit norm."""
    faiss = need("faiss", extra="all", purpose="benchmarks of indexes")
    with _one_thread(faiss):
        truth = _truth(vectors, bound, plan, settings.seed)
        yield from _joins(vectors, bound, settings, advance)
        for name, make, parameters in _indexes(faiss, vectors, plan):
            index, build_s = _timed(make)
            is_scann = name == "scann"
            size = float(index.size_bytes if is_scann else faiss.serialize_index(index).nbytes) / len(vectors)
            searched = index
            if name == "ivf-pq":
                searched = faiss.IndexRefineFlat(index, faiss.swig_ptr(vectors))
                searched.k_factor = _REFINE
            for parameter, put in parameters:
                put(index)
                row = _searched(searched, vectors, truth, bound, plan, settings)
                yield replace(
                    row,
                    index=name,
                    parameter=parameter,
                    build_cpu_s=round(build_s, 4),
                    join_cpu_s=round(build_s + len(vectors) / row.queries_per_cpu_s, 4),
                    bytes_per_vector=round(size, 1),
                    exact_bytes_per_vector=4 * vectors.shape[1] if name == "ivf-pq" or is_scann else 0,
                )
            if gpu.num_devices() and name in ("flat", "ivf-flat"):
                yield _of_gpu(name, index, vectors, truth, bound=bound, plan=plan, settings=settings)
            advance(len(vectors))


def num_steps(plan: Plan) -> int:
    """How often `measure` advances by the number of vectors."""
    return 6 + is_installed()


def _indexes(
    faiss: Any, vectors: Vectors, plan: Plan
) -> Iterator[tuple[str, Callable[[], Any], list[tuple[str, Callable[[Any], None]]]]]:
    """(name, what builds it, the parameters with what sets each)."""
    dimension, num = vectors.shape[1], len(vectors)
    lists, metric = max(1, round(2 * num**0.5)), faiss.METRIC_INNER_PRODUCT
    parts, bits = code_parts(dimension), 8 if num >= 10_000 else 6 if num >= 2_500 else 4

    def flat() -> Any:
        return _filled(faiss.IndexFlatIP(dimension), vectors)

    def ivf_flat() -> Any:
        return _filled(faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, lists, metric), vectors)

    def ivf_pq() -> Any:
        made = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, max(1, lists // 2), parts, bits, metric)
        return _filled(made, vectors)

    def hnsw() -> Any:
        index = faiss.IndexHNSWFlat(dimension, _HNSW_LINKS, metric)
        index.hnsw.efConstruction = _HNSW_BUILD
        return _filled(index, vectors)

    probes = [(f"nprobe={count}", _setter("nprobe", count)) for count in plan.nprobes if count <= lists]
    refined = [(f"{name} refine={_REFINE}", put) for name, put in probes]
    efs = [(f"efSearch={count}", _setter("hnsw.efSearch", count)) for count in plan.ef_searches]
    yield "flat", flat, [("exact", lambda index: None)]
    yield "ivf-flat", ivf_flat, probes
    yield "ivf-pq", ivf_pq, refined
    yield "hnsw", hnsw, efs
    if is_installed():
        yield "scann", lambda: ScannIndex(vectors, leaves=lists), refined


def _setter(name: str, value: int) -> Callable[[Any], None]:
    owner, _, field = name.rpartition(".")

    def put(index: Any) -> None:
        setattr(getattr(index, owner) if owner else index, field, value)

    return put


def _filled(index: Any, vectors: Vectors) -> Any:
    proposals.train(index, vectors)
    return index


def _truth(vectors: Vectors, bound: float, plan: Plan, seed: int) -> _Truth:
    queries = np.sort(np.random.default_rng(seed).permutation(len(vectors))[: plan.num_queries])
    k = min(plan.k, len(vectors) - 1)
    nearest: list[NDArray[np.int64]] = []
    pairs: set[tuple[int, int]] = set()
    for low in range(0, len(queries), _ROWS):
        rows = queries[low : low + _ROWS]
        products = vectors[rows] @ vectors.T
        products[np.arange(len(rows)), rows] = -np.inf
        nearest.append(np.argpartition(-products, k - 1, axis=1)[:, :k])
        one, other = np.nonzero(products >= bound)
        pairs.update(zip(rows[one].tolist(), other.tolist(), strict=True))
    return _Truth(queries, np.concatenate(nearest), pairs)


def _searched(index: Any, vectors: Vectors, truth: _Truth, bound: float, plan: Plan, settings: DedupSettings) -> Row:
    """Recall and speed of the index as it is set; the caller knows the rest."""
    asked = np.ascontiguousarray(vectors[truth.queries])
    wanted = min(max(plan.k, settings.num_neighbours) + 1, len(vectors))
    (_, ids), seconds = _timed(lambda: index.search(asked, wanted))
    hits = 0
    found: set[tuple[int, int]] = set()
    for at, query in enumerate(truth.queries.tolist()):
        others = ids[at][(ids[at] >= 0) & (ids[at] != query)]
        hits += len(np.intersect1d(others[: plan.k], truth.nearest[at]))
        found.update((query, other) for other in others.tolist())
    return Row(
        index="",
        parameter="",
        num=len(vectors),
        dimension=vectors.shape[1],
        recall_at_k=round(hits / truth.nearest.size, 5),
        recall_at_bound=round(len(found & truth.pairs) / len(truth.pairs), 5) if truth.pairs else None,
        queries_per_cpu_s=round(len(asked) / max(seconds, 1e-6), 1),
        build_cpu_s=0.0,
        join_cpu_s=0.0,
        bytes_per_vector=0.0,
        exact_bytes_per_vector=0,
    )


def _joins(vectors: Vectors, bound: float, settings: DedupSettings, advance: Advance) -> Iterator[Row]:
    """The step's own search: flat, and in cells."""
    num, dimension = vectors.shape
    order = np.random.default_rng(settings.seed).permutation(num)
    digests = [f"{place:016x}" for place in np.argsort(order).tolist()]
    equal = np.stack([np.arange(num), np.arange(num)], axis=1).astype(np.uint64)
    cells = max(2, round(2 * num**0.5))
    for name in ("flat join", "cells"):
        chosen = replace(settings, index="flat" if name == "flat join" else "cells")
        build_s = _timed(lambda: proposals.centroids(vectors, cells, settings))[1] if name == "cells" else 0.0

        def join(chosen: DedupSettings = chosen) -> Any:
            return stars(VectorMatcher(vectors, order, bound=bound, settings=chosen), by_digest(digests), equal=equal)

        found, seconds = _timed(join)
        gone = np.zeros(num, np.bool_)
        gone[np.array(found.right)[np.array(found.relation) == SAME]] = True
        units, hits = recall(vectors, gone, bound=bound, apart=never_apart, seed=settings.seed, sample=_SAMPLED)
        yield Row(
            index=name,
            parameter="exact" if name == "flat join" else f"cells={cells}",
            num=num,
            dimension=dimension,
            recall_at_k=None,
            recall_at_bound=round(hits / units, 5) if units else None,
            queries_per_cpu_s=round(num / max(seconds - build_s, 1e-6), 1),
            build_cpu_s=round(build_s, 4),
            join_cpu_s=round(seconds, 4),
            bytes_per_vector=round(4 * dimension * (1 + (cells / num if name == "cells" else 0)) + 12, 1),
            exact_bytes_per_vector=0,
        )
        advance(num)


def _of_gpu(
    name: str, index: Any, vectors: Vectors, truth: _Truth, *, bound: float, plan: Plan, settings: DedupSettings
) -> Row:
    """The index on a device. Its speed is of the wall: CPU seconds say nothing about a GPU."""
    clone, build_s = _timed(lambda: gpu.on_gpu(index, memory_bytes=plan.gpu_bytes), time.perf_counter)
    began = time.perf_counter()
    row = _searched(clone, vectors, truth, bound, plan, settings)
    speed = len(truth.queries) / max(time.perf_counter() - began, 1e-6)
    return replace(
        row,
        index=f"{name} gpu",
        parameter="clone",
        queries_per_cpu_s=round(speed, 1),
        build_cpu_s=round(build_s, 4),
        join_cpu_s=round(build_s + len(vectors) / speed, 4),
        device="cuda:0",
    )


def _timed(make: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    began = clock()
    return make(), clock() - began


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """FAISS and BLAS with one thread: waiting threads count as CPU time."""
    from threadpoolctl import threadpool_limits

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        faiss.omp_set_num_threads(before)
