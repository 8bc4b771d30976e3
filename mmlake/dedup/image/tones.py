"""Tones and light: what brings the grey levels of one aligned thumbnail nearest to those of another.

A copy in another tone has one curve for all of its pixels. One under a filter that darkens its corners, or lets light
in at one side, has a gain that changes slowly over the picture; a thing that is another one changes in its place.
"""

from __future__ import annotations

import functools

import numpy as np

from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.windows import Floats

_ROUNDS = 3  # of a fit in which places that differ count little


def toned(own: Floats, its: Floats, seen: Mask) -> Floats:
    """The plane with the cubic tone curve that brings it nearest to the other; places that differ count little."""
    tones, wanted = ((plane[seen].astype(np.float64) - 128) / 128 for plane in (own, its))
    squares = tones * tones  # numpy's powers take ten times as long
    powers = np.stack((np.ones_like(tones), tones, squares, squares * tones), axis=1)
    ridge = np.diag([0.0, 1e-5, 1e-3, 1e-3]) * len(tones)
    weights = np.ones(len(tones))
    for _ in range(2):
        weighted = powers * weights[:, None]
        curve = np.linalg.solve(weighted.T @ powers + ridge + 1e-9 * np.eye(4), weighted.T @ wanted)
        off = np.abs(powers @ curve - wanted)
        weights = 1 / (1 + (off / (2.5 * np.median(off) + 1 / 128)) ** 2)
    levels = (own - 128) / 128
    fitted: Floats = ((((curve[3] * levels + curve[2]) * levels + curve[1]) * levels + curve[0]) * 128 + 128).astype(
        np.float32
    )
    return fitted


def lit(own: Floats, its: Floats, seen: Mask) -> Floats:
    """The plane with the gain and the level that bring it nearest to the other, the gain a smooth surface over the
    picture; places that differ count little."""
    levels, wanted = own[seen].astype(np.float64) / 128, its[seen].astype(np.float64) / 128
    surfaces = _surfaces()
    terms = np.concatenate((levels[:, None] * surfaces[seen.ravel()], np.ones((len(levels), 1))), axis=1)
    weights = np.ones(len(levels))
    for _ in range(_ROUNDS):
        weighted = terms * weights[:, None]
        fit = np.linalg.solve(weighted.T @ terms + 1e-6 * len(levels) * np.eye(terms.shape[1]), weighted.T @ wanted)
        off = np.abs(terms @ fit - wanted)
        weights = 1 / (1 + (off / (2.5 * np.median(off) + 1 / 128)) ** 2)
    gain = (surfaces @ fit[:-1]).reshape(SIDE, SIDE)
    found: Floats = (own * gain + fit[-1] * 128).astype(np.float32)
    return found


def by_rank(own: Floats, its: Floats, seen: Mask) -> Floats:
    """The plane with the tones of the other, in their order: any curve that keeps it. What few pixels show has a rank
    next to what is there, so it is not explained away."""
    levels = np.rint(own).clip(0, 255).astype(np.int64)
    counts = np.bincount(levels[seen], minlength=256)
    sums = np.concatenate(([0.0], np.cumsum(np.sort(its[seen]), dtype=np.float64)))
    ends = np.cumsum(counts)
    curve = (sums[ends] - sums[ends - counts]) / np.maximum(counts, 1)
    found: Floats = curve[levels].astype(np.float32)
    return found


def unlit(grid: Floats) -> Floats:
    """A square grid of levels without what a smooth light adds to it, of length 1, flat."""
    rest = grid.ravel() - (smooth := _smooth(len(grid))) @ (smooth.T @ grid.ravel())
    found: Floats = (rest / max(float(np.linalg.norm(rest)), 1e-6)).astype(np.float32)
    return found


@functools.lru_cache(maxsize=1)
def _smooth(side: int) -> np.ndarray:
    """An orthonormal basis of the surfaces, of shape (side * side, 7)."""
    basis: np.ndarray = np.linalg.qr(_surfaces(side))[0]
    return basis


@functools.lru_cache(maxsize=2)
def _surfaces(side: int = SIDE) -> np.ndarray:
    """1, x, y, x^2, x y, y^2 and (x^2 + y^2)^2 of each pixel, from -1 to 1, of shape (side * side, 7)."""
    down, across = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij")
    terms = (np.ones_like(down), across, down, across**2, across * down, down**2, (across**2 + down**2) ** 2)
    return np.stack([term.ravel() for term in terms], axis=1)
