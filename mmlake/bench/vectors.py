"""Unit vectors to measure with: generated ones that resemble embeddings, or those of a lake."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import contracts
from mmlake.dedup.vectors.proposals import FEWEST
from mmlake.errors import SettingsError
from mmlake.lake import Lake

Vectors = NDArray[np.float32]

_PER_TOPIC = 100  # vectors; text embeddings of news fall into about as many topics
_TOPIC_SPREAD = 1.5  # noise to centre: two of one topic are at a cosine of about .3, and many lie between topics
_COPIES = 0.3  # share of the vectors that are near another one


def clustered(num: int, dimension: int, *, bound: float, seed: int) -> Vectors:
    """Unit vectors in topics; three in ten lie near another one, at cosines spread evenly around the bound."""
    rng = np.random.default_rng(seed)
    topics = _units(rng.standard_normal((max(1, num // _PER_TOPIC), dimension), np.float32))
    noise = _units(rng.standard_normal((num, dimension), np.float32))
    vectors = _units(topics[rng.integers(0, len(topics), num)] + _TOPIC_SPREAD * noise)
    copies = rng.permutation(num)[: int(num * _COPIES)]
    originals = vectors[rng.integers(0, num, len(copies))]
    cosines = rng.uniform(2 * bound - 1, 1, len(copies)).astype(np.float32)[:, None]
    vectors[copies] = _units(cosines * originals + np.sqrt(1 - cosines**2) * _across(originals, noise[copies]))
    return vectors


def of_lake(lake: Lake, modality: str) -> tuple[Vectors, float, str]:
    """(the distinct vectors of a modality, the bound of its encoder, the encoder). Raises SettingsError where the lake
    has fewer than an index needs."""
    encoder = lake.encoder_of(modality)
    rows = contracts.made(lake.tables.concat("embeddings", modality, columns=["digest", "encoder", "vector", "status"]))
    rows = rows.filter(pc.equal(rows["encoder"], encoder))
    first = rows.append_column("row", pa.array(np.arange(rows.num_rows))).group_by("digest").aggregate([("row", "min")])
    values = rows.take(first.sort_by("digest")["row_min"])["vector"]
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in values.chunks]
    if len(values) < FEWEST:
        raise SettingsError(
            f"lake {lake.root} has {len(values)} vectors of {modality}; an index needs {FEWEST}: "
            f"materialize its embeddings first"
        )
    vectors = np.concatenate(parts).astype(np.float32).reshape(len(values), -1)
    bound = {**lake.parts.semantic_bounds, **lake.settings.dedup.semantic_bounds}[encoder]
    return np.ascontiguousarray(vectors), float(bound), encoder


def _units(rows: NDArray[np.floating]) -> Vectors:
    scaled: Vectors = np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
    return scaled


def _across(rows: Vectors, noise: Vectors) -> Vectors:
    """The part of the noise that is at right angles to the rows, as unit vectors."""
    return _units(noise - np.einsum("nd,nd->n", noise, rows)[:, None] * rows)
