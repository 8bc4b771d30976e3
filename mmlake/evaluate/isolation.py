"""How alone units are among the others: near ones say that a corpus repeats itself, lonely ones are worth a glance.

Enters: the vectors of one modality and encoder. Leaves: of some units the cosine distance to their nearest neighbour
(uniqueness), and the mean of those to their nearest few, by which outliers are ordered. Judges nothing: what is alone
may be damage, another subject, or the only one of its kind.
Sources: Ramaswamy, Rastogi and Shim 2000 (outliers by the distance to neighbours), Angiulli and Pizzuti 2002 (the mean
over several), Bay and Schwabacher 2003 (a unit that has near ones among the first few is no outlier).
Legend: N units, D dimension, R reference units, U units that are asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import SettingsError
from mmlake.evaluate.kmeans import is_finite_matrix

_AT_ONCE = 1_024  # units compared with all reference units: 80 MB
_MOST_REFERENCES = 20_000
_MOST_DRAWN = 4_096  # whose median is that of all within a fiftieth of their spread
_FIRST_REFERENCES = 256  # in these nearly every unit has neighbours that are nearer than those of an outlier


class Isolation(NamedTuple):
    """Cosine distances, 0 to 2; NaN where there is no other unit."""

    rows_U: NDArray[np.int64]  # the units, as rows of the vectors
    nearest_U: NDArray[np.float32]
    mean_U: NDArray[np.float32]  # over the nearest few
    neighbour_U: NDArray[np.int64]  # the row of the nearest one; -1 where there is none
    num_references: int  # units that each was compared with; fewer than all of a large corpus

    def with_others(self, found: Isolation, count: int) -> Isolation:
        """So many of these and the others that are most alone, the loneliest first; of equal ones these first."""
        order = np.argsort(-np.concatenate([self.mean_U, found.mean_U]), kind="stable")[:count]
        return Isolation(
            rows_U=np.concatenate([self.rows_U, found.rows_U])[order],
            nearest_U=np.concatenate([self.nearest_U, found.nearest_U])[order],
            mean_U=np.concatenate([self.mean_U, found.mean_U])[order],
            neighbour_U=np.concatenate([self.neighbour_U, found.neighbour_U])[order],
            num_references=self.num_references,
        )


def isolation(vectors_ND: NDArray[np.float32], *, seed: int, num_neighbours: int = 5) -> Isolation:
    """How alone units are: all of them, of more than 4,096 so many that the seed draws, in the order of their rows.
    Raises SettingsError on vectors that are no finite matrix."""
    space = _Space(vectors_ND, seed, num_neighbours)
    rows = np.arange(len(vectors_ND))
    if len(rows) > _MOST_DRAWN:
        rows = np.sort(np.random.default_rng(seed).choice(len(rows), _MOST_DRAWN, replace=False))
    return space.isolation(rows)


def loneliest(vectors_ND: NDArray[np.float32], *, seed: int, count: int, num_neighbours: int = 5) -> Isolation:
    """So many units that are most alone, the loneliest first, found among all as if each were compared with every
    reference unit. Raises SettingsError on vectors that are no finite matrix."""
    space = _Space(vectors_ND, seed, num_neighbours)
    best = space.isolation(np.empty(0, np.int64))
    for low in range(0, len(vectors_ND) if count > 0 else 0, _AT_ONCE):
        rows = np.arange(low, min(low + _AT_ONCE, len(vectors_ND)))
        bound = float(best.mean_U[-1]) if len(best.rows_U) == count else -np.inf
        found = space.isolation(space.at_least(rows, bound))
        best = best.with_others(found, count)
    return best


class _Space:
    """Units and those that they are compared with: all, of more than 20,000 so many, drawn by the seed. It takes a copy
    of the vectors of these, and 80 MB while it compares; the others may lie in a file."""

    def __init__(self, vectors_ND: NDArray[np.float32], seed: int, num_neighbours: int) -> None:
        """Raises SettingsError."""
        if not is_finite_matrix(vectors_ND):
            raise SettingsError(
                f"isolation: vectors of shape {vectors_ND.shape} must be a finite matrix (items, dimension); drop "
                "rows without a vector first"
            )
        num = len(vectors_ND)
        self._vectors_ND = vectors_ND
        self._references_R = np.arange(num)
        if num > _MOST_REFERENCES:
            chosen = np.random.default_rng(seed).choice(num, _MOST_REFERENCES, replace=False)
            self._references_R = np.sort(chosen)
        self._of_RD = self._of_length_1(self._references_R)
        self._place_N = np.full(num, -1)
        self._place_N[self._references_R] = np.arange(len(self._references_R))
        self._count = min(num_neighbours, len(self._references_R) - 1)

    def isolation(self, rows_U: NDArray[np.int64]) -> Isolation:
        """Of these units, compared with all reference units."""
        nearest, mean = (np.full(len(rows_U), np.nan, np.float32) for _ in range(2))
        neighbour = np.full(len(rows_U), -1, np.int64)
        for low in range(0, len(rows_U) if self._count > 0 else 0, _AT_ONCE):
            part = slice(low, low + _AT_ONCE)
            cosines = self._cosines(rows_U[part], slice(None))
            neighbour[part] = self._references_R[cosines.argmax(axis=1)]
            highest = self._highest(cosines)
            nearest[part], mean[part] = 1 - highest.max(axis=1), 1 - highest.mean(axis=1)
        return Isolation(rows_U, nearest.clip(0, 2), mean.clip(0, 2), neighbour, len(self._references_R))

    def at_least(self, rows_U: NDArray[np.int64], bound: float) -> NDArray[np.int64]:
        """Those of the units whose mean distance may be above the bound. More reference units only bring it down, so
        most are out after the first of them."""
        first, end = 0, _FIRST_REFERENCES
        best = np.empty((len(rows_U), 0), np.float32)
        while len(rows_U) and first < len(self._references_R) and bound > -np.inf:
            cosines = np.hstack([best, self._cosines(rows_U, slice(first, end))])
            best = self._highest(cosines) if cosines.shape[1] > self._count else cosines
            if best.shape[1] == self._count:
                stays = 1 - best.mean(axis=1) >= bound - 1e-6  # sums of float32 differ by their order
                rows_U, best = rows_U[stays], best[stays]
            first, end = end, 4 * end
        return rows_U

    def _cosines(self, rows_U: NDArray[np.int64], part: slice) -> NDArray[np.float32]:
        """Of units and some of the reference units; no unit is its own neighbour."""
        cosines: NDArray[np.float32] = self._of_length_1(rows_U) @ self._of_RD[part].T
        own = self._place_N[rows_U] - (part.start or 0)
        own[self._place_N[rows_U] < 0] = -1
        there = np.flatnonzero((own >= 0) & (own < cosines.shape[1]))
        cosines[there, own[there]] = -np.inf
        return cosines

    def _of_length_1(self, rows_U: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors_UD = self._vectors_ND[rows_U]
        lengths = np.maximum(np.linalg.norm(vectors_UD, axis=1, keepdims=True), 1e-12)
        units_UD: NDArray[np.float32] = (vectors_UD / lengths).astype(np.float32, copy=False)
        return units_UD

    def _highest(self, cosines: NDArray[np.float32]) -> NDArray[np.float32]:
        cosines.partition(cosines.shape[1] - self._count, axis=1)  # in place: a copy would be another 80 MB
        return cosines[:, -self._count :]
