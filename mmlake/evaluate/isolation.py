"""How alone each unit is among the others: near ones say that a corpus repeats itself, lonely ones are worth a glance.

Enters: the vectors of one modality and encoder. Leaves: of each the cosine distance to its nearest neighbour
(uniqueness), and the mean of those to its nearest few, by which outliers are ordered. Judges nothing: what is alone may
be damage, another subject, or the only one of its kind.
Sources: Ramaswamy, Rastogi and Shim 2000 (outliers by the distance to neighbours), Angiulli and Pizzuti 2002 (the mean
over several).
Legend: N units, D dimension, R reference units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import SettingsError

_AT_ONCE = 1_024  # units compared with all reference units: 80 MB
_MOST_REFERENCES = 20_000


class Isolation(NamedTuple):
    """Cosine distances, 0 to 2; NaN where there is no other unit."""

    nearest_N: NDArray[np.float32]
    mean_N: NDArray[np.float32]  # over the nearest few
    neighbour_N: NDArray[np.int64]  # the nearest one; -1 where there is none
    num_references: int  # units that each was compared with; fewer than all of a large corpus


def isolation(vectors_ND: NDArray[np.float32], *, seed: int, num_neighbours: int = 5) -> Isolation:
    """How alone each of the units is. Of more than 20,000 they are compared with so many, drawn by the seed; memory is
    80 MB and a copy of the vectors. Raises SettingsError on vectors that are no finite matrix."""
    if vectors_ND.ndim != 2 or not np.isfinite(vectors_ND).all():
        raise SettingsError(
            f"isolation: vectors of shape {vectors_ND.shape} must be a finite matrix (items, dimension); drop rows "
            "without a vector first"
        )
    num = len(vectors_ND)
    lengths = np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12)
    units_ND = (vectors_ND / lengths).astype(np.float32, copy=False)
    references = np.arange(num)
    if num > _MOST_REFERENCES:
        references = np.sort(np.random.default_rng(seed).choice(num, _MOST_REFERENCES, replace=False))
    of_RD = units_ND[references]
    place = np.full(num, -1)
    place[references] = np.arange(len(references))
    nearest, mean = (np.full(num, np.nan, np.float32) for _ in range(2))
    neighbour = np.full(num, -1, np.int64)
    for low in range(0, num if len(references) > 1 else 0, _AT_ONCE):
        rows = np.arange(low, min(low + _AT_ONCE, num))
        cosines = units_ND[rows] @ of_RD.T
        own = place[rows]
        cosines[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf  # no unit is its own neighbour
        best = cosines.argmax(axis=1)
        neighbour[rows] = references[best]
        count = min(num_neighbours, len(references) - 1)
        cosines.partition(len(references) - count, axis=1)  # in place: a copy would be another 80 MB
        highest = cosines[:, -count:]
        nearest[rows] = 1 - highest.max(axis=1)
        mean[rows] = 1 - highest.mean(axis=1)
    return Isolation(nearest.clip(0, 2), mean.clip(0, 2), neighbour, len(references))
