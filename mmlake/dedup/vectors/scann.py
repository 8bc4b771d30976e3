"""ScaNN with the few calls of a FAISS index that the semantic step and the benchmark of indexes make.

Vectors lie in leaves of a k-means tree as codes of 4 bits per two numbers, chosen so that large products keep their
order (anisotropic quantization); what the codes propose is compared exactly. Source: Guo et al. 2020, "Accelerating
Large-Scale Inference with Anisotropic Vector Quantization", and the package `scann`.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmlake.optional import need

_THRESHOLD = 0.2  # of the product above which its order matters; the package's advice for unit vectors
_NUMBERS_PER_CODE = 2
_TRAINING_PER_LEAF = 32
_REFINE = 4  # candidates by code for each that is asked for; then exact
_VECTORS = "dataset.npy"  # in what is stored, the file of those that candidates are compared with


def is_installed() -> bool:
    """Whether the package `scann` is."""
    return importlib.util.find_spec("scann") is not None


class ScannIndex:
    """Unit vectors, float32 (N, D), by inner product. Equal vectors give an equal index: one thread trains it."""

    def __init__(self, vectors: NDArray[np.float32], *, leaves: int) -> None:
        scann = need("scann", extra="scann", purpose='the index "scann"')
        self.nprobe = 1  # leaves searched for each query
        self._num = len(vectors)
        builder = scann.scann_ops_pybind.builder(vectors, 1, "dot_product").set_n_training_threads(1)
        builder = builder.tree(
            num_leaves=leaves,
            num_leaves_to_search=1,
            training_sample_size=min(len(vectors), _TRAINING_PER_LEAF * leaves),
            min_partition_size=1,
        )
        builder = builder.score_ah(_NUMBERS_PER_CODE, anisotropic_quantization_threshold=_THRESHOLD)
        self._searcher = builder.reorder(_REFINE).build()

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(products, positions), both (queries, k), the largest first; positions are -1 behind the last that is
        found."""
        ids, products = self._searcher.search_batched(
            queries,
            final_num_neighbors=k,
            pre_reorder_num_neighbors=min(_REFINE * k, self._num),
            leaves_to_search=self.nprobe,
        )
        found: NDArray[np.int64] = np.where(np.isnan(products), -1, ids.astype(np.int64))
        return products, found

    @property
    def size_bytes(self) -> int:
        """Of leaves, codes and tables as they are stored, without the vectors themselves."""
        with tempfile.TemporaryDirectory(prefix="mmlake-scann-") as folder:
            self._searcher.serialize(folder)
            return sum(path.stat().st_size for path in Path(folder).iterdir() if path.name != _VECTORS)
